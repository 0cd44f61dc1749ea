/*
 * ops/yardstick/yardstick_payment.h: one happy card payment from its acceptance to its end: every
 * value that differs from payment to payment, drawn and hashed before PostgreSQL sees any of it.
 * Texts have the form and length that the stages give them.
 */
#ifndef ONCEPAY_OPS_YARDSTICK_PAYMENT_H
#define ONCEPAY_OPS_YARDSTICK_PAYMENT_H

#include "store/sql_call.h"

/* Values of :names in the SQL files, by the name of the field. */
struct yardstick_payment {
    struct uuid payment_id, attempt_id, request_id, evidence_id, decision_id, fence_id;
    struct uuid accepted_id, route_command_id, create_command_id, settle_command_id, succeeded_id;
    const char *merchant, *out_trade_no, *currency, *method_type, *method_token, *token_realm;
    const char *account, *provider_key, *provider_object, *excerpt, *reasons;
    const char *routing_version, *policy_version, *answer_headers;
    const char *accepted_subject, *route_subject, *create_subject, *settle_subject;
    const char *succeeded_subject, *accepted_headers, *succeeded_headers;
    struct span key_hash, fingerprint, accepted_body, succeeded_body;
    struct span request_hash, request_bytes, digest;
    /* The history chains: payment versions 1 to 3, attempt versions 1 to 3. */
    struct span zero_hash, payment_hash_1, payment_hash_2, payment_hash_3;
    struct span attempt_hash_1, attempt_hash_2, attempt_hash_3;
    int64_t amount, at, start_by;
    int32_t lifetime_h;
};

/* What all payments of a run have in common. */
struct yardstick_names {
    const char *prefix;  /* out_trade_no is <prefix>-<place> */
    const char *account; /* channel account of the attempts */
};

/* The payment with this place in its run; everything lives in the arena. */
void yardstick_payment_make(const struct yardstick_names *names, size_t place,
                            struct uuid fence_batch, struct arena *arena,
                            struct yardstick_payment *out);

/* A field of yardstick_payment that SQL may name. */
struct yardstick_column {
    const char *name;
    enum sql_type type;
    size_t offset;
    bool is_of_batch; /* one value for all payments of a batch: never an array */
};

/* NULL if there is none of that name. */
const struct yardstick_column *yardstick_column_find(const char *name, size_t length);

/* Binds the column as the next parameter: one value, or an array with one element a payment. */
void yardstick_column_bind(const struct yardstick_column *column,
                           const struct yardstick_payment *payments, size_t count, bool is_array,
                           struct sql_call *call);

#endif
