/* pipeline/bus.c: see bus.h. Pure: names, subjects, filters and the check of a topology. */
#include "pipeline/bus.h"

#include "pipeline/subject.h"

#include <strings.h>

const char *bus_message_header(const struct bus_message *message, const char *name)
{
    for (size_t i = 0; i < message->header_count; i++) {
        if (strcasecmp(message->headers[i].name, name) == 0) return message->headers[i].value;
    }
    return NULL;
}

const char *bus_outcome_name(int code)
{
    static const char *const NAMES[] = {
        [BUS_STORED] = "stored",
        [BUS_NOT_SENT] = "not_sent",
        [BUS_OUTCOME_UNKNOWN] = "unknown",
        [BUS_REFUSED_FULL] = "refused_full",
        [BUS_REFUSED_NO_STREAM] = "refused_no_stream",
        [BUS_REFUSED_TOO_BIG] = "refused_too_big",
        [BUS_REFUSED] = "refused",
    };
    return code > 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}

/* The next token of *subject, which moves behind it; NULL at the end. */
static const char *next_token(const char **subject, size_t *out_length)
{
    const char *token = *subject;
    if (token == NULL) return NULL;
    const char *dot = strchr(token, '.');
    *out_length = dot == NULL ? strlen(token) : (size_t)(dot - token);
    *subject = dot == NULL ? NULL : dot + 1;
    return token;
}

static bool token_is(const char *token, size_t length, char wildcard)
{
    return length == 1 && token[0] == wildcard;
}

bool bus_subject_is_valid(const char *subject)
{
    if (subject == NULL || strlen(subject) > BUS_SUBJECT_LENGTH_MAX) return false;
    for (const char *at = subject; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~') return false;
    }
    size_t length = 0;
    const char *token;
    while ((token = next_token(&subject, &length)) != NULL) {
        if (length == 0 || token_is(token, length, '*') || token_is(token, length, '>')) {
            return false;
        }
    }
    return true;
}

/* Both walk in step; what differs is whether the right side's wildcards count as wildcards. */
static bool walk(const char *a, const char *b, bool b_is_filter)
{
    for (;;) {
        size_t a_length = 0;
        size_t b_length = 0;
        const char *a_token = next_token(&a, &a_length);
        const char *b_token = next_token(&b, &b_length);
        if (a_token == NULL || b_token == NULL) return a_token == NULL && b_token == NULL;
        if (token_is(a_token, a_length, '>')) return true;
        if (token_is(b_token, b_length, '>')) return b_is_filter;
        if (token_is(a_token, a_length, '*')) continue;
        if (b_is_filter && token_is(b_token, b_length, '*')) continue;
        if (a_length != b_length || memcmp(a_token, b_token, a_length) != 0) return false;
    }
}

bool bus_subject_matches(const char *filter, const char *subject)
{
    return walk(filter, subject, false);
}

bool bus_subject_overlaps(const char *a, const char *b)
{
    return walk(a, b, true);
}

const struct bus_stream_spec *bus_topology_stream(const struct bus_topology *topology,
                                                  const char *name)
{
    for (size_t i = 0; i < topology->stream_count; i++) {
        if (strcmp(topology->streams[i].name, name) == 0) return &topology->streams[i];
    }
    return NULL;
}

const struct bus_consumer_spec *bus_topology_consumer(const struct bus_topology *topology,
                                                      const char *stream, const char *durable)
{
    for (size_t i = 0; i < topology->consumer_count; i++) {
        const struct bus_consumer_spec *consumer = &topology->consumers[i];
        if (strcmp(consumer->stream, stream) == 0 && strcmp(consumer->durable, durable) == 0) {
            return consumer;
        }
    }
    return NULL;
}

static bool streams_share_subject(const struct bus_stream_spec *a, const struct bus_stream_spec *b)
{
    for (size_t i = 0; i < a->subject_count; i++) {
        for (size_t j = 0; j < b->subject_count; j++) {
            if (bus_subject_overlaps(a->subjects[i], b->subjects[j])) return true;
        }
    }
    return false;
}

static const char *check_streams(const struct bus_topology *topology, struct arena *arena)
{
    for (size_t i = 0; i < topology->stream_count; i++) {
        const struct bus_stream_spec *stream = &topology->streams[i];
        if (!subject_token_is_valid(stream->name)) {
            return arena_format(arena, "stream name \"%s\" is not a token", stream->name);
        }
        for (size_t j = 0; j < i; j++) {
            const struct bus_stream_spec *other = &topology->streams[j];
            if (strcmp(stream->name, other->name) == 0) {
                return arena_format(arena, "stream %s stands twice", stream->name);
            }
            if (streams_share_subject(stream, other)) {
                return arena_format(arena, "streams %s and %s share a subject", other->name,
                                    stream->name);
            }
        }
    }
    return NULL;
}

/* All that the filter takes lies in one subject of the stream: a 2.9 server wants it so. */
static bool filter_is_inside(const struct bus_stream_spec *stream, const char *filter)
{
    for (size_t i = 0; i < stream->subject_count; i++) {
        if (bus_subject_matches(stream->subjects[i], filter)) return true;
    }
    return false;
}

static bool consumers_overlap(const struct bus_consumer_spec *a, const struct bus_consumer_spec *b)
{
    if (a->filter_subject == NULL || b->filter_subject == NULL) return true;
    return bus_subject_overlaps(a->filter_subject, b->filter_subject);
}

static const char *check_consumer(const struct bus_topology *topology, size_t index,
                                  struct arena *arena)
{
    const struct bus_consumer_spec *consumer = &topology->consumers[index];
    const struct bus_stream_spec *stream = bus_topology_stream(topology, consumer->stream);
    if (stream == NULL) {
        return arena_format(arena, "consumer %s: there is no stream %s", consumer->durable,
                            consumer->stream);
    }
    const char *name = consumer->durable;
    if (name[0] == '\0' || strpbrk(name, ".*> \t\r\n/\\") != NULL) {
        return arena_format(arena, "consumer name \"%s\" of %s is not a token", name,
                            consumer->stream);
    }
    if (consumer->filter_subject != NULL && !filter_is_inside(stream, consumer->filter_subject)) {
        return arena_format(arena, "consumer %s of %s: filter %s is outside the stream", name,
                            consumer->stream, consumer->filter_subject);
    }
    for (size_t i = 0; i < index; i++) {
        const struct bus_consumer_spec *other = &topology->consumers[i];
        if (strcmp(consumer->stream, other->stream) != 0) continue;
        if (strcmp(name, other->durable) == 0) {
            return arena_format(arena, "consumer %s of %s stands twice", name, consumer->stream);
        }
        if (stream->retention == BUS_WORK_QUEUE && consumers_overlap(consumer, other)) {
            return arena_format(arena, "consumers %s and %s of %s could get the same message",
                                other->durable, name, consumer->stream);
        }
    }
    return NULL;
}

enum status bus_topology_check(const struct bus_topology *topology, struct arena *arena,
                               const char **out_error)
{
    const char *error = check_streams(topology, arena);
    for (size_t i = 0; error == NULL && i < topology->consumer_count; i++) {
        error = check_consumer(topology, i, arena);
    }
    if (error == NULL) return STATUS_OK;
    *out_error = error;
    return STATUS_STOP;
}
