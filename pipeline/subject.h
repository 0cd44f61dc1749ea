/*
 * pipeline/subject.h: the subject names of design §3, built and taken apart in one place. Tokens
 * from outside (merchant, account) are [A-Za-z0-9_-]{1,64}; anything else is refused before it
 * becomes part of a subject.
 */
#ifndef ONCEPAY_PIPELINE_SUBJECT_H
#define ONCEPAY_PIPELINE_SUBJECT_H

#include "pipeline/id.h"

enum { SUBJECT_TOKEN_LENGTH_MAX = 64, SUBJECT_SIZE = 192 };

/* [A-Za-z0-9_-]{1,64}. */
bool subject_token_is_valid(const char *token);

/* All return text. An invalid token is an invariant failure: check it where it comes in. */
char *subject_route(struct payment_id payment, char text[SUBJECT_SIZE]);  /* pay.route.<shard> */
char *subject_settle(struct payment_id payment, char text[SUBJECT_SIZE]); /* pay.settle.<shard> */
char *subject_create(const char *account, char text[SUBJECT_SIZE]); /* pay.create.<account>.new */
/* pay.recover.evidence.<account> */
char *subject_evidence(const char *account, char text[SUBJECT_SIZE]);
/* pay.event.<merchant>.<type>; type is an event_type_name: "payment.succeeded". */
char *subject_event(const char *merchant, const char *type, char text[SUBJECT_SIZE]);
/* pay.intake.<merchant>.<operation>; operation: "pay". */
char *subject_intake(const char *merchant, const char *operation, char text[SUBJECT_SIZE]);

/* Core NATS, no stream: stages poke the relay after a commit. */
#define SUBJECT_WAKE_RELAY "oncepay.wake.relay"

struct subject_intake_tokens {
    char merchant[SUBJECT_TOKEN_LENGTH_MAX + 1];
    char operation[SUBJECT_TOKEN_LENGTH_MAX + 1];
};
/* False unless subject is pay.intake.<token>.<token> with valid tokens; out untouched then. */
bool subject_intake_parse(const char *subject, struct subject_intake_tokens *out);

struct subject_event_tokens {
    char merchant[SUBJECT_TOKEN_LENGTH_MAX + 1];
    const char *type; /* where it stands in the subject */
};
/* False unless subject is pay.event.<token>.<type> with a valid token; out untouched then. */
bool subject_event_parse(const char *subject, struct subject_event_tokens *out);

#endif
