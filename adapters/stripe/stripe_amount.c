/* adapters/stripe/stripe_amount.c: see stripe_amount.h. */
#include "adapters/stripe/stripe_amount.h"

#define UNITS_MAX INT64_C(99999999) /* eight digits, for most currencies and so for all */

struct exponent_row {
    char code[4];
    int exponent; /* digits behind the point at Stripe */
    int step;     /* what an amount at Stripe must be a multiple of */
};

/* Every currency whose ISO exponent is not 2, or that Stripe counts differently. */
static const struct exponent_row EXPONENTS[] = {
    { "BIF", 0, 1 },   { "CLP", 0, 1 },   { "DJF", 0, 1 },  { "GNF", 0, 1 },  { "JPY", 0, 1 },
    { "KMF", 0, 1 },   { "KRW", 0, 1 },   { "MGA", 0, 1 },  { "PYG", 0, 1 },  { "RWF", 0, 1 },
    { "VND", 0, 1 },   { "VUV", 0, 1 },   { "XAF", 0, 1 },  { "XOF", 0, 1 },  { "XPF", 0, 1 },
    { "BHD", 3, 10 },  { "JOD", 3, 10 },  { "KWD", 3, 10 }, { "OMR", 3, 10 }, { "TND", 3, 10 },
    { "ISK", 2, 100 }, { "UGX", 2, 100 },
};

struct scale {
    int64_t units_per_minor; /* one of the two is 1 */
    int64_t minor_per_unit;
    int step;
};

static int64_t power_of_ten(int exponent)
{
    int64_t power = 1;
    for (int i = 0; i < exponent; i++) power *= 10;
    return power;
}

static bool find_scale(struct currency currency, struct scale *out)
{
    int iso_exponent;
    if (!currency_exponent(currency, &iso_exponent)) return false;
    const struct exponent_row *row = NULL;
    for (size_t i = 0; i < COUNT_OF(EXPONENTS); i++) {
        if (memcmp(EXPONENTS[i].code, currency.code, sizeof currency.code) == 0)
            row = &EXPONENTS[i];
    }
    /* What is neither listed nor plain cents (IQD, LYD, CLF …) Stripe does not take. */
    if (row == NULL && iso_exponent != 2) return false;
    const int exponent = row == NULL ? 2 : row->exponent;
    *out = (struct scale){
        .units_per_minor = exponent > iso_exponent ? power_of_ten(exponent - iso_exponent) : 1,
        .minor_per_unit = iso_exponent > exponent ? power_of_ten(iso_exponent - exponent) : 1,
        .step = row == NULL ? 1 : row->step,
    };
    return true;
}

const char *stripe_amount_to_units(struct money amount, int64_t *out_units)
{
    struct scale scale;
    const int64_t minor = amount.minor;
    if (!find_scale(amount.currency, &scale)) return "currency: not one of Stripe's";
    if (minor <= 0) return "amount: must be greater than 0";
    if (minor % scale.minor_per_unit != 0) {
        return "amount: Stripe takes whole units only of this currency";
    }
    const int64_t whole = minor / scale.minor_per_unit;
    if (whole > UNITS_MAX / scale.units_per_minor) return "amount: more than 8 digits at Stripe";
    const int64_t units = whole * scale.units_per_minor;
    if (units % scale.step != 0) return "amount: the last digit must be 0 in this currency";
    *out_units = units;
    return NULL;
}

bool stripe_amount_from_units(int64_t units, struct currency currency, struct money *out)
{
    struct scale scale;
    if (units < 0 || !find_scale(currency, &scale)) return false;
    if (units % scale.units_per_minor != 0) return false;
    int64_t minor;
    if (__builtin_mul_overflow(units / scale.units_per_minor, scale.minor_per_unit, &minor)) {
        return false;
    }
    *out = (struct money){ minor, currency };
    return true;
}
