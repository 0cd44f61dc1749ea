/*
 * adapters/stripe/stripe_intent.h: what a payment intent says, wherever it stands (an answer, an
 * error, an event), and which of its fields may be kept. Text is taken only if it is short
 * printable ASCII: what Stripe's identifiers and codes are made of, and what a column holds.
 */
#ifndef ONCEPAY_ADAPTERS_STRIPE_INTENT_H
#define ONCEPAY_ADAPTERS_STRIPE_INTENT_H

#include "pipeline/psp.h"

#include <jansson.h>

enum { STRIPE_ID_LENGTH_MAX = 255, STRIPE_WORD_LENGTH_MAX = 64 };

/* Printable ASCII without spaces, 1 to length_max characters. */
bool stripe_is_token(const char *text, size_t length_max);

/* The member as a token in the arena; NULL if absent or anything else. object may be NULL. */
const char *stripe_token(const json_t *object, const char *name, size_t length_max,
                         struct arena *arena);

/* An id becomes a part of a path, so it is made of what Stripe's ids are made of. */
bool stripe_is_object_id(const char *text);

/*
 * Fills kind, provider_status, provider_object, reference, amount, decline, error_code (of a
 * decline), handed_out and object_payable. False: no payment intent that can be read; out
 * untouched. A status that is not known is OBSERVED_SERVER_ERROR: it decides nothing.
 */
bool stripe_intent_read(const json_t *intent, struct arena *arena,
                        struct observation *out) MUST_CHECK;

/* New references; NULL-safe. Members outside the allow-list never get in. */
json_t *stripe_excerpt_intent(const json_t *intent);
json_t *stripe_excerpt_error(const json_t *error);
json_t *stripe_excerpt_event(const json_t *event);
/* As compact JSON in the arena; takes the reference. "{}" for NULL. */
const char *stripe_excerpt_text(json_t *excerpt, struct arena *arena);

#endif
