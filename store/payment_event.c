/* store/payment_event.c: see payment_event.h. */
#include "store/payment_event.h"

#include "pipeline/subject.h"

struct payment_event payment_event_make(enum event_type type, const char *merchant,
                                        const struct payment_view *view, const char *traceparent,
                                        int64_t time_us, struct arena *arena)
{
    char payment[UUID_TEXT_SIZE];
    char subject[SUBJECT_SIZE];
    struct payment_event out = { .id = { uuid_new() } };
    const struct event event = {
        .id = out.id,
        .type = type,
        .merchant = merchant,
        .subject = uuid_format(view->payment.uuid, payment),
        .version = view->version,
        .time_us = time_us,
        .content = CONTENT_MSGPACK,
        .traceparent = traceparent,
    };
    struct event_headers headers;
    event_headers_make(&event, arena, &headers);
    out.headers = event_headers_encode(&headers, arena);
    out.body = answer_event_body(view, CONTENT_MSGPACK, arena);
    out.subject =
        arena_format(arena, "%s", subject_event(merchant, event_type_name((int)type), subject));
    return out;
}
