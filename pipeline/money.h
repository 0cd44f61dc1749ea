/*
 * pipeline/money.h: int64 minor units plus an ISO 4217 code. All arithmetic on amounts is here,
 * overflow-checked; no floating point touches an amount.
 */
#ifndef ONCEPAY_PIPELINE_MONEY_H
#define ONCEPAY_PIPELINE_MONEY_H

#include "pipeline/base.h"

/* Three upper-case letters and NUL. */
struct currency {
    char code[4];
};

struct money {
    int64_t minor;
    struct currency currency;
};

/* ISO 4217 active codes. exponent is the ISO minor-unit exponent (JPY 0, EUR 2, KWD 3). */
bool currency_parse(const char *code, struct currency *out);
bool currency_exponent(struct currency currency, int *out_exponent);

static inline bool currency_equal(struct currency a, struct currency b)
{
    return memcmp(a.code, b.code, sizeof a.code) == 0;
}
static inline bool money_equal(struct money a, struct money b)
{
    return a.minor == b.minor && currency_equal(a.currency, b.currency);
}

/* False on overflow or different currencies; out untouched then. */
bool money_add(struct money a, struct money b, struct money *out);
bool money_subtract(struct money a, struct money b, struct money *out);

enum { MONEY_TEXT_SIZE = 32 };
/* For people: "12.34 EUR", "80 JPY", "7.500 KWD". Returns text. */
char *money_format(struct money money, char text[MONEY_TEXT_SIZE]);

#endif
