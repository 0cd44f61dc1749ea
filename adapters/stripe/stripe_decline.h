/*
 * adapters/stripe/stripe_decline.h: Stripe's decline codes as our classes (research psp.md §1.2).
 */
#ifndef ONCEPAY_ADAPTERS_STRIPE_DECLINE_H
#define ONCEPAY_ADAPTERS_STRIPE_DECLINE_H

#include "pipeline/psp.h"

/*
 * decline_code is the issuer's word and decides where it is known; code is the error's own. Either
 * may be NULL. What is not in the table is DECLINE_GENERIC: the class that allows nothing.
 */
enum decline_class stripe_decline_class(const char *decline_code, const char *code);

#endif
