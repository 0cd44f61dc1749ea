/*
 * store/payment_event.h: the outbox row of a payment.* event: made once, with its body and
 * headers, in the transaction that raises the payment's version (protocol A).
 */
#ifndef ONCEPAY_STORE_PAYMENT_EVENT_H
#define ONCEPAY_STORE_PAYMENT_EVENT_H

#include "pipeline/answer.h"
#include "pipeline/event.h"

struct payment_event {
    struct outbox_id id;
    const char *subject;
    struct span body;
    const char *headers; /* as stored: event_headers_encode */
};

/* view is the payment as it is after the transaction. Everything lives in the arena. */
struct payment_event payment_event_make(enum event_type type, const char *merchant,
                                        const struct payment_view *view, const char *traceparent,
                                        struct arena *arena);

#endif
