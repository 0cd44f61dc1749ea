/*
 * store/intake_store.h: what intake reads before it decides a batch, and the one transaction that
 * it writes (protocol E): accepted payments with everything that belongs to them, answers stored
 * under keys, rejections as events, invalid messages as they came.
 */
#ifndef ONCEPAY_STORE_INTAKE_STORE_H
#define ONCEPAY_STORE_INTAKE_STORE_H

#include "pipeline/answer.h"
#include "pipeline/request.h"
#include "store/store.h"

/* An answer as it is stored under a key and repeated, byte for byte. */
struct intake_answer {
    int status;
    const char *headers; /* as stored: event_headers_encode */
    struct span body;
};

/* What the database says about one request, all at one moment. Its bytes live in the arena. */
struct intake_found {
    int64_t now_us;

    bool has_key; /* the row of its idempotency key … */
    bool key_is_expired;
    uint8_t fingerprint[32];
    int fingerprint_version;
    struct intake_answer answer; /* of an acceptance without its body … */
    struct payment_id accepted;  /* … of this payment; nil: another answer */
    int64_t key_expires_us;

    struct payment_id payment; /* with its (merchant, out_trade_no); nil if there is none … */
    bool is_tombstone;         /* a cancel came first */
    bool is_same;              /* what the fingerprint covers is the same */

    struct payment_id active; /* what its target's pointer names; nil if there is none … */
    int active_version;       /* the pointer's */
    bool is_held;
    enum payment_state active_status;
};

/* One intake_found per request, in their order, in the arena. */
enum status intake_read(struct store *store, const struct pay_request *const *requests,
                        size_t count, struct arena *arena,
                        struct intake_found **out_found) MUST_CHECK;

/* Payments as the outside sees them; those that do not exist are left out. In the arena. */
enum status intake_read_views(struct store *store, const struct payment_id *payments, size_t count,
                              struct arena *arena, struct payment_view **out_views,
                              size_t *out_count) MUST_CHECK;

/* A payment that is accepted. */
struct intake_accept {
    struct payment_id id;
    const struct pay_request *request;
    const char *traceparent; /* NULL if none */
    int64_t start_by_us;
    int64_t key_lifetime_h;
    struct intake_answer answer;       /* its body is not stored: request and id tell it again */
    struct payment_id pointer_payment; /* nil, and version 0: the target has no pointer yet */
    int pointer_version;
    struct outbox_id event;
    const char *event_subject;
    struct span event_body;
    const char *event_headers;
    struct outbox_id command;
    const char *command_subject;
    bool key_is_expired; /* its key has a row, which may be used anew */
};

/* An answer that accepts nothing and is stored all the same. */
struct intake_stored {
    const struct pay_request *request;
    struct payment_id payment; /* what it is about; nil if nothing */
    int64_t key_lifetime_h;
    struct intake_answer answer;
};

/* A request.rejected event. */
struct intake_rejection {
    struct outbox_id id; /* made from the message, so that a repeat changes nothing */
    const char *subject;
    struct span body;
    const char *headers;
};

/* An invalid message as it is kept. */
struct intake_letter {
    struct uuid id; /* made from the message */
    const char *subject;
    uint64_t sequence;
    uint64_t deliveries;
    const char *headers;
    struct span body;
    const char *method_token; /* NULL if none */
    const char *code;
    const char *field;   /* NULL if none */
    const char *problem; /* JSON */
    int64_t stored_at_us;
};

struct intake_writes {
    const char *actor;
    struct intake_accept *accepts;
    size_t accept_count;
    struct intake_stored *stored;
    size_t stored_count;
    struct intake_rejection *rejections;
    size_t rejection_count;
    struct intake_letter *letters;
    size_t letter_count;
};

/* All in one transaction. STATUS_LOST_RACE: somebody else decided something of it meanwhile. */
enum status intake_write(struct store *store, const struct intake_writes *writes,
                         struct arena *arena) MUST_CHECK;

#endif
