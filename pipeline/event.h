/*
 * pipeline/event.h: the names of the events of design §3 and their CloudEvents 1.0 headers in
 * binary mode. Headers are stored with the outbox row, so that a republished event is byte for
 * byte the first one.
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
    enum event_type type;      /* ce-type */
    const char *merchant;      /* ce-source: "/oncepay/<merchant>" */
    const char *subject;       /* ce-subject: the payment's id; NULL for events without one */
    int64_t version;           /* ce-sequence: the payment's version; 0: not numbered, no header */
    int64_t time_us;           /* ce-time */
    enum content_type content; /* content-type of the body */
    const char *traceparent;   /* NULL when the request had none */
};

enum { EVENT_HEADER_MAX = 10 };

struct event_headers {
    struct bus_header items[EVENT_HEADER_MAX];
    size_t count;
};

/* Lower-case names; values live in the arena. */
void event_headers_make(const struct event *event, struct arena *arena, struct event_headers *out);

/* The storable form, "name: value\n" per header, and back. No header contains a line break. */
const char *event_headers_encode(const struct event_headers *headers, struct arena *arena);
enum status event_headers_decode(const char *stored, struct arena *arena,
                                 struct event_headers *out) MUST_CHECK;

#endif
