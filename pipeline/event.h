/*
 * pipeline/event.h: the names of the events of design §3 and their CloudEvents 1.0 headers in
 * binary mode. They are made at each publish from the outbox row, which never changes, so that a
 * republished event is byte for byte the first one. Stored are those only that no column tells.
 */
#ifndef ONCEPAY_PIPELINE_EVENT_H
#define ONCEPAY_PIPELINE_EVENT_H

#include "pipeline/arena.h"
#include "pipeline/bus.h"
#include "pipeline/id.h"
#include "pipeline/value.h"

enum event_type {
    EVENT_PAYMENT_ACCEPTED = 1,
    EVENT_PAYMENT_PROCESSING = 2,
    EVENT_PAYMENT_UNKNOWN = 3,
    EVENT_PAYMENT_ACTION_REQUIRED = 4,
    EVENT_PAYMENT_AUTHORIZED = 5,
    EVENT_PAYMENT_SUCCEEDED = 6,
    EVENT_PAYMENT_FAILED = 7,
    EVENT_PAYMENT_CANCELED = 8,
    EVENT_PAYMENT_CAPTURED = 9,
    EVENT_PAYMENT_REFUNDED = 10,
    EVENT_PAYMENT_REFUND_FAILED = 11,
    EVENT_PAYMENT_REVERSED = 12,
    EVENT_PAYMENT_LATE_SUCCESS = 13,
    EVENT_PAYMENT_DOUBLE_SUCCESS = 14,
    EVENT_PAYMENT_STRAY_FACT = 15,
    EVENT_PAYMENT_AMOUNT_MISMATCH = 16,
    EVENT_CASE_OPENED = 17,
    EVENT_CASE_CLOSED = 18,
    EVENT_REQUEST_REJECTED = 19,
};
/* "payment.accepted" …; NULL for a code that is none. */
const char *event_type_name(int code);

struct event {
    struct outbox_id id;       /* ce-id */
    const char *subject;       /* subject_event: ce-source "/oncepay/<merchant>", and ce-type */
    struct payment_id payment; /* ce-subject; nil: it is about none, no header */
    int64_t version;           /* ce-sequence: the payment's version; 0: not numbered, no header */
    int64_t created_us;        /* ce-time */
};

enum { EVENT_STORED_MAX = 10, EVENT_HEADER_MAX = EVENT_STORED_MAX + 7 };

struct event_headers {
    struct bus_header items[EVENT_HEADER_MAX];
    size_t count;
};

/*
 * The storable form of the headers beside a body, "name: value\n" each; a MessagePack body needs no
 * content-type. traceparent: NULL when there is none. Without a line break in any of them.
 */
const char *event_headers_encode(enum content_type content, const char *traceparent,
                                 struct arena *arena);
/* Back, at most EVENT_STORED_MAX; the content-type is the first. */
enum status event_headers_decode(const char *stored, struct arena *arena,
                                 struct event_headers *out) MUST_CHECK;

/*
 * All headers of an event, names in lower case: what is stored wins over what the row tells. Values
 * live in the arena, or where those of event and stored do.
 */
void event_headers_make(const struct event *event, const struct event_headers *stored,
                        struct arena *arena, struct event_headers *out);

#endif
