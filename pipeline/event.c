/* pipeline/event.c: see event.h. */
#include "pipeline/event.h"

#include "pipeline/buffer.h"
#include "pipeline/clock.h"
#include "pipeline/subject.h"

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

static const char *find(const struct event_headers *headers, const char *name)
{
    for (size_t i = 0; i < headers->count; i++) {
        if (strcmp(headers->items[i].name, name) == 0) return headers->items[i].value;
    }
    return NULL;
}

/* --- stored ----------------------------------------------------------------------------------- */

static void add_line(struct buffer *out, const char *name, const char *value)
{
    INVARIANT(strpbrk(value, "\r\n") == NULL);
    buffer_add_text(out, name);
    buffer_add_text(out, ": ");
    buffer_add_text(out, value);
    buffer_add_byte(out, '\n');
}

const char *event_headers_encode(enum content_type content, const char *traceparent,
                                 struct arena *arena)
{
    struct buffer out = { .arena = arena };
    if (content != CONTENT_MSGPACK) add_line(&out, "content-type", content_type_name(content));
    if (traceparent != NULL) add_line(&out, "traceparent", traceparent);
    return (const char *)buffer_span(&out).data;
}

enum status event_headers_decode(const char *stored, struct arena *arena, struct event_headers *out)
{
    struct event_headers headers = { .count = 0 };
    add(&headers, "content-type", content_type_name(CONTENT_MSGPACK));
    while (*stored != '\0') {
        const char *line_end = strchr(stored, '\n');
        const char *name_end = strstr(stored, ": ");
        if (line_end == NULL || name_end == NULL || name_end > line_end || name_end == stored) {
            return STATUS_BAD_DATA;
        }
        const char *name = arena_copy(arena, stored, (size_t)(name_end - stored));
        const char *value = arena_copy(arena, name_end + 2, (size_t)(line_end - name_end - 2));
        if (strcmp(name, headers.items[0].name) == 0) {
            headers.items[0].value = value;
        } else if (headers.count == EVENT_STORED_MAX) {
            return STATUS_BAD_DATA;
        } else {
            add(&headers, name, value);
        }
        stored = line_end + 1;
    }
    *out = headers;
    return STATUS_OK;
}

/* --- published -------------------------------------------------------------------------------- */

/* What the row tells, in the order in which it is published. */
static void read_row(const struct event *event, struct arena *arena, struct event_headers *out)
{
    char text[UUID_TEXT_SIZE];
    char time[CLOCK_TEXT_SIZE];
    struct subject_event_tokens tokens;
    *out = (struct event_headers){ .count = 0 };
    add(out, "content-type", content_type_name(CONTENT_MSGPACK));
    add(out, "ce-specversion", "1.0");
    add(out, "ce-id", arena_format(arena, "%s", uuid_format(event->id.uuid, text)));
    if (subject_event_parse(event->subject, &tokens)) {
        add(out, "ce-source", arena_format(arena, "/oncepay/%s", tokens.merchant));
        add(out, "ce-type", tokens.type);
    }
    add(out, "ce-time", arena_format(arena, "%s", clock_format(event->created_us, time)));
    if (!uuid_is_nil(event->payment.uuid)) {
        add(out, "ce-subject", arena_format(arena, "%s", uuid_format(event->payment.uuid, text)));
    }
    if (event->version != 0) {
        add(out, "ce-sequence", arena_format(arena, "%" PRId64, event->version));
    }
}

void event_headers_make(const struct event *event, const struct event_headers *stored,
                        struct arena *arena, struct event_headers *out)
{
    read_row(event, arena, out);
    const struct event_headers told = *out;
    for (size_t i = 0; i < out->count; i++) {
        const char *value = find(stored, out->items[i].name);
        if (value != NULL) out->items[i].value = value;
    }
    for (size_t i = 0; i < stored->count; i++) {
        const struct bus_header *header = &stored->items[i];
        if (find(&told, header->name) == NULL) add(out, header->name, header->value);
    }
}
