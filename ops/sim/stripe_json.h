/* ops/sim/stripe_json.h: Stripe's documents as text. Pure. */
#ifndef ONCEPAY_SIM_STRIPE_JSON_H
#define ONCEPAY_SIM_STRIPE_JSON_H

#include "ops/sim/event.h"

/* The PaymentIntent of a charge in the state it has. */
void stripe_json_intent(const struct charge *charge, struct textbuf *out);

/* What POST /v1/payment_intents answers: the intent, or the card error around it. */
void stripe_json_created(const struct charge *charge, struct textbuf *out);
int stripe_json_created_status(enum charge_state state);

struct stripe_error {
    const char *type; /* "invalid_request_error" */
    const char *code; /* NULL: none */
    const char *param;
    const char *message;
};
void stripe_json_error(const struct stripe_error *error, struct textbuf *out);

void stripe_json_event(const struct event *event, const struct charge *charge, struct textbuf *out);

/* NULL if Stripe has no event for the state. */
const char *stripe_json_event_type(enum charge_state state);
bool stripe_json_event_state(const char *type, enum charge_state *out);

#endif
