/*
 * ops/sim/stripe.h: Stripe's protocol as an oncepay adapter sees it: create and confirm in one
 * call, retrieve, idempotency, errors, signed events. stripe_create.c has the create.
 */
#ifndef ONCEPAY_SIM_STRIPE_H
#define ONCEPAY_SIM_STRIPE_H

#include "ops/sim/sim.h"

extern const struct protocol stripe_protocol;

/* POST /v1/payment_intents; the caller is authenticated. */
void stripe_create(struct sim *sim, const struct account *account, const char *path,
                   struct exchange *exchange);

/*
 * Ends an exchange as Stripe does, with its usual headers, after the configured latency and
 * extra_ms. Takes the body.
 */
void stripe_answer(struct sim *sim, struct exchange *exchange, enum server_manner manner,
                   int status, struct textbuf *body, int64_t extra_ms);

#endif
