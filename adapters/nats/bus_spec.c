/*
 * adapters/nats/bus_spec.c: streams and consumers as raw JSON. libnats' structs lack fields of
 * newer servers, so reading and writing through them would drop what they do not know.
 */
#include "adapters/nats/bus_internal.h"

#define NANOSECONDS INT64_C(1000000000)

static json_t *must(json_t *value)
{
    INVARIANT(value != NULL);
    return value;
}

json_t *bus_spec_stream(const struct bus_stream_spec *stream)
{
    json_t *subjects = must(json_array());
    for (size_t i = 0; i < stream->subject_count; i++) {
        INVARIANT(json_array_append_new(subjects, json_string(stream->subjects[i])) == 0);
    }
    return must(json_pack(
        "{s:s, s:o, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "name", stream->name,
        "subjects", subjects, "retention",
        stream->retention == BUS_WORK_QUEUE ? "workqueue" : "limits", "discard",
        stream->discard_old ? "old" : "new", "storage", "file", "max_consumers", -1,
        "max_msgs_per_subject", -1, "max_msgs", (json_int_t)stream->messages_max, "max_bytes",
        (json_int_t)stream->bytes_max, "max_age", (json_int_t)(stream->age_max_s * NANOSECONDS),
        "max_msg_size", (json_int_t)stream->message_bytes_max, "num_replicas",
        (json_int_t)stream->replicas, "duplicate_window",
        (json_int_t)(stream->duplicate_window_s * NANOSECONDS)));
}

json_t *bus_spec_consumer(const struct bus_consumer_spec *consumer)
{
    json_t *spec =
        must(json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I}", "durable_name",
                       consumer->durable, "deliver_policy", "all", "ack_policy", "explicit",
                       "replay_policy", "instant", "max_deliver", -1, "max_waiting", 512,
                       "ack_wait", (json_int_t)(consumer->ack_wait_s * NANOSECONDS),
                       "max_ack_pending", (json_int_t)consumer->ack_pending_max));
    if (consumer->filter_subject != NULL) {
        INVARIANT(json_object_set_new(spec, "filter_subject",
                                      json_string(consumer->filter_subject)) == 0);
    }
    return spec;
}

json_t *bus_spec_stream_absent(void)
{
    return must(json_pack("[s, s, s, s, s, s, s]", "sealed", "no_ack", "mirror", "sources",
                          "republish", "discard_new_per_subject", "subject_transform"));
}

json_t *bus_spec_consumer_absent(const struct bus_consumer_spec *consumer)
{
    json_t *absent =
        must(json_pack("[s, s, s, s, s, s, s, s, s, s]", "deliver_subject", "deliver_group",
                       "backoff", "filter_subjects", "rate_limit_bps", "headers_only", "max_batch",
                       "max_expires", "max_bytes", "inactive_threshold"));
    if (consumer->filter_subject == NULL) {
        INVARIANT(json_array_append_new(absent, json_string("filter_subject")) == 0);
    }
    return absent;
}

/* What a server leaves out or writes for "not set". */
static bool is_empty(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
    case JSON_FALSE:
        return true;
    case JSON_TRUE:
        return false;
    case JSON_INTEGER:
        return json_integer_value(value) == 0;
    case JSON_REAL:
        return false;
    case JSON_STRING:
        return json_string_length(value) == 0;
    case JSON_ARRAY:
        return json_array_size(value) == 0;
    case JSON_OBJECT:
        return json_object_size(value) == 0;
    }
    UNREACHABLE("JSON type out of range");
}

static const char *shown(const json_t *value, struct arena *arena)
{
    if (value == NULL) return "absent";
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    INVARIANT(text != NULL);
    const char *copy = arena_copy(arena, text, strlen(text));
    free(text);
    return copy;
}

/* An absent field equals its empty value: max_age 0 is never written by a server. */
static bool is_same(const json_t *expected, const json_t *found)
{
    if (found == NULL) return is_empty(expected);
    return json_equal(expected, found) == 1;
}

size_t bus_spec_compare(const json_t *expected, const json_t *absent, const json_t *found,
                        struct arena *arena, const struct bus_difference **out_differences)
{
    struct bus_difference *differences = arena_allocate(
        arena, (json_object_size(expected) + json_array_size(absent)) * sizeof *differences);
    size_t count = 0;
    for (void *at = json_object_iter((json_t *)(uintptr_t)expected); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)expected, at)) {
        const char *field = json_object_iter_key(at);
        const json_t *wanted = json_object_iter_value(at);
        const json_t *is = json_object_get(found, field);
        if (is_same(wanted, is)) continue;
        differences[count++] = (struct bus_difference){ arena_copy(arena, field, strlen(field)),
                                                        shown(wanted, arena), shown(is, arena) };
    }
    for (size_t i = 0; i < json_array_size(absent); i++) {
        const char *field = json_string_value(json_array_get(absent, i));
        const json_t *is = json_object_get(found, field);
        if (is == NULL || is_empty(is)) continue;
        differences[count++] = (struct bus_difference){ arena_copy(arena, field, strlen(field)),
                                                        "absent", shown(is, arena) };
    }
    *out_differences = differences;
    return count;
}

const char *bus_spec_sentence(const char *what, const char *name,
                              const struct bus_difference *differences, size_t count,
                              struct arena *arena)
{
    const char *text = arena_format(arena, "%s %s is not as the topology says", what, name);
    for (size_t i = 0; i < count; i++) {
        text = arena_format(arena, "%s%s field %s: expected %s, found %s", text, i == 0 ? ":" : ";",
                            differences[i].field, differences[i].expected, differences[i].found);
    }
    return text;
}
