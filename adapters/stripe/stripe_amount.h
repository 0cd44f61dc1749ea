/*
 * adapters/stripe/stripe_amount.h: amounts as Stripe counts them. The exponent is a property of
 * (PSP, currency), not of the currency (research psp.md §0.5): ISK and UGX have cents at Stripe
 * that must be 00, MGA has none, and thousandths must end in 0.
 */
#ifndef ONCEPAY_ADAPTERS_STRIPE_AMOUNT_H
#define ONCEPAY_ADAPTERS_STRIPE_AMOUNT_H

#include "pipeline/money.h"

/* NULL on success, else the rule that the amount breaks: "amount: …" or "currency: …". */
const char *stripe_amount_to_units(struct money amount, int64_t *out_units) MUST_CHECK;

/* False if the units are no exact amount of that currency; out untouched then. 0 is an amount. */
bool stripe_amount_from_units(int64_t units, struct currency currency,
                              struct money *out) MUST_CHECK;

#endif
