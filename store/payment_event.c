/* store/payment_event.c: see payment_event.h. */
#include "store/payment_event.h"

#include "pipeline/subject.h"

struct payment_event payment_event_make(enum event_type type, const char *merchant,
                                        const struct payment_view *view, const char *traceparent,
                                        struct arena *arena)
{
    char subject[SUBJECT_SIZE];
    return (struct payment_event){
        .id = { uuid_new() },
        .subject =
            arena_format(arena, "%s", subject_event(merchant, event_type_name((int)type), subject)),
        .body = answer_event_body(view, CONTENT_MSGPACK, arena),
        .headers = event_headers_encode(CONTENT_MSGPACK, traceparent, arena),
    };
}
