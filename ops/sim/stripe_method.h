/*
 * ops/sim/stripe_method.h: Stripe's test payment methods: which token comes to which end, and the
 * words of a decline. Any token that is not listed succeeds.
 */
#ifndef ONCEPAY_SIM_STRIPE_METHOD_H
#define ONCEPAY_SIM_STRIPE_METHOD_H

#include "ops/sim/charge.h"

struct stripe_outcome {
    enum charge_state state;
    const char *decline_code; /* "" unless declined */
    int64_t due_after_ms;     /* < 0: stays as it is */
    enum charge_state due_state;
};

struct stripe_outcome stripe_method_outcome(const char *token);

/* The error's code for a decline code: mostly card_declined. */
const char *stripe_method_error_code(const char *decline_code);
const char *stripe_method_message(const char *decline_code);

#endif
