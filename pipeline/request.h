/*
 * pipeline/request.h: a producer's message, checked field by field and turned into one struct that
 * the rest can trust: lengths, ranges and characters are what PostgreSQL, subjects and PSPs take
 * (protocol H4). Refusals name one field and one rule. The fingerprint says whether two requests
 * under one idempotency key are the same request (design §3).
 */
#ifndef ONCEPAY_PIPELINE_REQUEST_H
#define ONCEPAY_PIPELINE_REQUEST_H

#include "pipeline/arena.h"
#include "pipeline/bus.h"
#include "pipeline/money.h"
#include "pipeline/problem.h"

enum {
    REQUEST_SCHEMA_VERSION = 1,
    REQUEST_FINGERPRINT_VERSION = 1,
    REQUEST_BODY_BYTES_MAX = 65536,
    REQUEST_OUT_TRADE_NO_LENGTH_MAX = 64,
    REQUEST_TARGET_KIND_LENGTH_MAX = 32,
    REQUEST_TARGET_ID_LENGTH_MAX = 64,
    REQUEST_KEY_LENGTH_MAX = 255,
    REQUEST_TOKEN_LENGTH_MAX = 255,
    REQUEST_TOKEN_REALM_LENGTH_MAX = 64,
    REQUEST_REPLY_TO_LENGTH_MAX = 255,
    REQUEST_RETURN_URL_LENGTH_MAX = 2048,
    REQUEST_METADATA_COUNT_MAX = 50,
    REQUEST_METADATA_NAME_LENGTH_MAX = 40,
    REQUEST_METADATA_TEXT_LENGTH_MAX = 500,
};

/* The last token of pay.intake.<merchant>.<operation>. */
enum request_operation {
    REQUEST_OPERATION_PAY = 1,
    REQUEST_OPERATION_CAPTURE = 2,
    REQUEST_OPERATION_VOID = 3,
    REQUEST_OPERATION_REFUND = 4,
    REQUEST_OPERATION_CANCEL = 5,
};
const char *request_operation_name(int code);
bool request_operation_parse(const char *word, enum request_operation *out);

/* Codes are stored: never renumbered. */
enum request_capture {
    REQUEST_CAPTURE_AUTOMATIC = 1,
    REQUEST_CAPTURE_MANUAL = 2,
};
const char *request_capture_name(int code);

/* What surrounds the body: subject tokens and headers. All text lives in the arena. */
struct request_envelope {
    const char *merchant;
    enum request_operation operation;
    enum content_type content;   /* also the form of the answer */
    const char *idempotency_key; /* NULL: the operation's default */
    const char *reply_to;        /* NULL: nobody waits, or the header was refused */
    const char *traceparent;     /* NULL: absent or not valid W3C, which is ignored */
    struct span body;            /* borrowed from the message */
};

/*
 * False: *out_problem says why; out then holds what could be read all the same (content and
 * reply_to, so that a refusal finds its way; merchant is NULL if the subject is not ours).
 */
bool request_envelope_read(const struct bus_message *message, struct arena *arena,
                           struct request_envelope *out, struct problem *out_problem) MUST_CHECK;

struct pay_request {
    const char *merchant;
    const char *out_trade_no;
    const char *target_kind; /* "none": no such object, no barrier */
    const char *target_id;   /* NULL exactly for kind "none" */
    struct money amount;
    const char *method_type;
    const char *method_token;
    const char *method_token_realm; /* NULL when not given */
    enum request_capture capture;
    const char *return_url; /* NULL when not given */
    int64_t expires_at_us;  /* 0 when not given; may be past: that is for intake to judge */
    const char *metadata;   /* canonical JSON of a flat map; NULL when not given or empty */

    const char *idempotency_key; /* given or default; 1 to 255 printable ASCII */
    uint8_t key_hash[32];        /* SHA-256 of idempotency_key */
    uint8_t fingerprint[32];     /* under REQUEST_FINGERPRINT_VERSION */
};

/* True if the target has an active-payment pointer. */
static inline bool pay_request_has_target(const struct pay_request *request)
{
    return request->target_id != NULL;
}

/*
 * The body of an envelope with operation pay. False: *out_problem says why; of out only merchant
 * and, if it is well formed, out_trade_no may then be used (else NULL).
 */
bool pay_request_decode(const struct request_envelope *envelope, struct arena *arena,
                        struct pay_request *out, struct problem *out_problem) MUST_CHECK;

/* What a producer sends: the body of request in the given form (key and headers excluded). */
struct span pay_request_encode(const struct pay_request *request, enum content_type type,
                               struct arena *arena);

/* The whitelisted fields in canonical form, and their SHA-256. decode has done this already. */
struct span pay_request_canonical(const struct pay_request *request, struct arena *arena);
void pay_request_fingerprint(const struct pay_request *request, struct arena *arena,
                             uint8_t out[32]);

#endif
