/* pipeline/event.c: see event.h. */
#include "pipeline/event.h"

#include "pipeline/buffer.h"
#include "pipeline/clock.h"

static const char *const EVENT_NAMES[] = {
    [EVENT_PAYMENT_ACCEPTED] = "payment.accepted",
    [EVENT_PAYMENT_PROCESSING] = "payment.processing",
    [EVENT_PAYMENT_UNKNOWN] = "payment.unknown",
    [EVENT_PAYMENT_ACTION_REQUIRED] = "payment.action_required",
    [EVENT_PAYMENT_AUTHORIZED] = "payment.authorized",
    [EVENT_PAYMENT_SUCCEEDED] = "payment.succeeded",
    [EVENT_PAYMENT_FAILED] = "payment.failed",
    [EVENT_PAYMENT_CANCELED] = "payment.canceled",
    [EVENT_PAYMENT_CAPTURED] = "payment.captured",
    [EVENT_PAYMENT_REFUNDED] = "payment.refunded",
    [EVENT_PAYMENT_REFUND_FAILED] = "payment.refund_failed",
    [EVENT_PAYMENT_REVERSED] = "payment.reversed",
    [EVENT_PAYMENT_LATE_SUCCESS] = "payment.late_success",
    [EVENT_PAYMENT_DOUBLE_SUCCESS] = "payment.double_success",
    [EVENT_PAYMENT_STRAY_FACT] = "payment.stray_fact",
    [EVENT_PAYMENT_AMOUNT_MISMATCH] = "payment.amount_mismatch",
    [EVENT_CASE_OPENED] = "case.opened",
    [EVENT_CASE_CLOSED] = "case.closed",
    [EVENT_REQUEST_REJECTED] = "request.rejected",
};

const char *event_type_name(int code)
{
    return code >= 0 && (size_t)code < COUNT_OF(EVENT_NAMES) ? EVENT_NAMES[code] : NULL;
}

static void add(struct event_headers *headers, const char *name, const char *value)
{
    INVARIANT(headers->count < EVENT_HEADER_MAX);
    headers->items[headers->count++] = (struct bus_header){ name, value };
}

void event_headers_make(const struct event *event, struct arena *arena, struct event_headers *out)
{
    char id[UUID_TEXT_SIZE];
    char time[CLOCK_TEXT_SIZE];
    *out = (struct event_headers){ .count = 0 };
    add(out, "content-type", content_type_name(event->content));
    add(out, "ce-specversion", "1.0");
    add(out, "ce-id", arena_format(arena, "%s", uuid_format(event->id.uuid, id)));
    add(out, "ce-source", arena_format(arena, "/oncepay/%s", event->merchant));
    add(out, "ce-type", event_type_name((int)event->type));
    add(out, "ce-time", arena_format(arena, "%s", clock_format(event->time_us, time)));
    if (event->subject != NULL) add(out, "ce-subject", event->subject);
    if (event->version != 0) {
        add(out, "ce-sequence", arena_format(arena, "%" PRId64, event->version));
    }
    if (event->traceparent != NULL) add(out, "traceparent", event->traceparent);
}

const char *event_headers_encode(const struct event_headers *headers, struct arena *arena)
{
    struct buffer out = { .arena = arena };
    for (size_t i = 0; i < headers->count; i++) {
        const struct bus_header *header = &headers->items[i];
        INVARIANT(strpbrk(header->name, ":\r\n") == NULL);
        INVARIANT(strpbrk(header->value, "\r\n") == NULL);
        buffer_add_text(&out, header->name);
        buffer_add_text(&out, ": ");
        buffer_add_text(&out, header->value);
        buffer_add_byte(&out, '\n');
    }
    return (const char *)buffer_span(&out).data;
}

enum status event_headers_decode(const char *stored, struct arena *arena, struct event_headers *out)
{
    struct event_headers headers = { .count = 0 };
    while (*stored != '\0') {
        const char *line_end = strchr(stored, '\n');
        const char *name_end = strstr(stored, ": ");
        if (line_end == NULL || name_end == NULL || name_end > line_end || name_end == stored ||
            headers.count == EVENT_HEADER_MAX) {
            return STATUS_BAD_DATA;
        }
        const char *value = name_end + 2;
        add(&headers, arena_copy(arena, stored, (size_t)(name_end - stored)),
            arena_copy(arena, value, (size_t)(line_end - value)));
        stored = line_end + 1;
    }
    *out = headers;
    return STATUS_OK;
}
