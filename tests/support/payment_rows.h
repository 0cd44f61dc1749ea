/*
 * tests/support/payment_rows.h: payments and attempts in a test's database, in any state, made
 * through the guards (payment_rows.sql). Amounts are 10.99 EUR, the merchant is m-1001, the account
 * stripe-main.
 */
#ifndef ONCEPAY_TESTS_SUPPORT_PAYMENT_ROWS_H
#define ONCEPAY_TESTS_SUPPORT_PAYMENT_ROWS_H

#include "pipeline/case.h"
#include "pipeline/psp.h"
#include "tests/support/pg_fixture.h"

/* Once per database. */
void payment_rows_install(const char *url);

/* A payment in CREATED; target NULL: kind none. A target's pointer is moved if it may be. */
struct payment_id payment_rows_pay(const char *url, const char *out_trade_no, const char *target);
/* By a listed transition, without news of an attempt. */
void payment_rows_move(const char *url, struct payment_id payment, enum payment_state to);
/* The next create attempt, in CREATED; the payment goes to AUTHORIZING unless it is past that. */
struct attempt_id payment_rows_attempt(const char *url, struct payment_id payment);
/* The fence: SENDING, with a request that had to be handed over seconds ago. */
void payment_rows_send(const char *url, struct attempt_id attempt, int seconds);

struct attempt_news {
    enum attempt_state to;
    enum evidence_source source;
    const char *error_code; /* NULL: none */
    int closure;            /* enum request_closure of the newest request */
    const char *object;     /* NULL: none */
};
/* Evidence that proves it, and the transition. */
struct evidence_id payment_rows_news(const char *url, struct attempt_id attempt,
                                     const struct attempt_news *news);

/* "SELECT … WHERE id = $id": every $id is replaced by the id's text in quotes. */
int64_t payment_rows_number(const char *url, const char *sql, struct uuid id);
char *payment_rows_text(const char *url, const char *sql, struct uuid id); /* the caller frees */

#endif
