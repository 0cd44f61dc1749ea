/*
 * adapters/stripe/stripe_intent.h: what a payment intent says, wherever it stands (an answer, an
 * error, an event), and which of its fields may be kept. Text is taken only if it is short
 * printable ASCII: what Stripe's identifiers and codes are made of, and what a column holds.
 */
#ifndef ONCEPAY_ADAPTERS_STRIPE_INTENT_H
#define ONCEPAY_ADAPTERS_STRIPE_INTENT_H

#include "pipeline/psp.h"
#include "pipeline/value.h"

enum { STRIPE_ID_LENGTH_MAX = 255, STRIPE_WORD_LENGTH_MAX = 64 };

/* Printable ASCII without spaces, 1 to length_max characters. */
bool stripe_is_token(const char *text, size_t length_max);

/* What Stripe sent, read as JSON into the arena; NULL if it is none. */
const struct value *stripe_document(struct span body, struct arena *arena);

/* The member as a token in the arena; NULL if absent or anything else. object may be NULL. */
const char *stripe_token(const struct value *object, const char *name, size_t length_max,
                         struct arena *arena);

/* An id becomes a part of a path, so it is made of what Stripe's ids are made of. */
bool stripe_is_object_id(const char *text);

/*
 * Fills kind, provider_status, provider_object, reference, amount, decline, error_code (of a
 * decline), handed_out and object_payable. False: no payment intent that can be read; out
 * untouched. A status that is not known is OBSERVED_SERVER_ERROR: it decides nothing.
 */
bool stripe_intent_read(const struct value *intent, struct arena *arena,
                        struct observation *out) MUST_CHECK;

/* Maps of the allowed members, borrowing from the arena only; VALUE_NULL if it is no object. */
struct value stripe_excerpt_intent(const struct value *intent, struct arena *arena);
struct value stripe_excerpt_error(const struct value *error, struct arena *arena);
struct value stripe_excerpt_event(const struct value *event, struct arena *arena);
/* As compact JSON in the arena; "{}" for VALUE_NULL. */
const char *stripe_excerpt_text(const struct value *excerpt, struct arena *arena);

#endif
