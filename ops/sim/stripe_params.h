/* ops/sim/stripe_params.h: reads and checks the form of POST /v1/payment_intents. Pure. */
#ifndef ONCEPAY_SIM_STRIPE_PARAMS_H
#define ONCEPAY_SIM_STRIPE_PARAMS_H

#include "ops/sim/stripe_json.h"
#include "pipeline/arena.h"

/* Text lives in the arena. */
struct stripe_params {
    int64_t amount_minor;
    char currency[4]; /* upper case */
    const char *method;
    const char *return_url; /* NULL: none */
    char *metadata;         /* a compact JSON object */
};

/* False: out_error is what Stripe would answer with 400, before anything is executed or stored. */
bool stripe_params_parse(struct span body, struct arena *arena, struct stripe_params *out,
                         struct stripe_error *out_error);

/* The metadata object with "reference" replaced or added. */
char *stripe_params_with_reference(const char *metadata, const char *reference,
                                   struct arena *arena);

#endif
