/*
 * adapters/nats/bus_topology.c: makes the server agree with the topology. The server accepts
 * overlapping filters of a work queue on updates and in races, so each apply checks for them
 * itself, durables that nobody here knows included, and reads back what it wrote.
 */
#include "adapters/nats/bus_internal.h"

enum { CHANGES_MAX = 8192 };

struct applying {
    struct bus *bus;
    const struct bus_topology *topology;
    enum bus_apply mode;
    struct arena *arena;
    struct bus_change *changes;
    size_t change_count;
    bool is_refused;
};

/* A stream or consumer as the API names it. */
struct target {
    const char *stream;
    const char *durable; /* NULL: the stream */
    const char *info_api;
    const char *create_api;
    const char *update_api;
    const char *delete_api; /* NULL: never */
    json_t *expected;
    json_t *absent;
};

const char *bus_change_kind_name(int code)
{
    static const char *const NAMES[] = {
        [BUS_CHANGE_NONE] = "none",       [BUS_CHANGE_CREATE] = "create",
        [BUS_CHANGE_UPDATE] = "update",   [BUS_CHANGE_BEYOND_END] = "beyond_end",
        [BUS_CHANGE_REFUSED] = "refused", [BUS_CHANGE_UNKNOWN_CONSUMER] = "unknown_consumer",
    };
    return code >= 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}

static struct bus_change *add_change(struct applying *applying, enum bus_change_kind kind,
                                     const char *stream, const char *durable)
{
    INVARIANT(applying->change_count < CHANGES_MAX);
    struct bus_change *change = &applying->changes[applying->change_count++];
    *change = (struct bus_change){ .kind = kind, .stream = stream, .durable = durable, .text = "" };
    return change;
}

static void refuse(struct applying *applying, struct bus_change *change, const char *text)
{
    change->kind = BUS_CHANGE_REFUSED;
    change->text = text;
    applying->is_refused = true;
}

static char *dump(struct arena *arena, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    INVARIANT(text != NULL);
    char *copy = arena_copy(arena, text, strlen(text));
    free(text);
    return copy;
}

/* STREAM.CREATE takes the configuration itself, CONSUMER.DURABLE.CREATE an envelope. */
static const char *request_body(struct applying *applying, const struct target *target,
                                json_t *config)
{
    if (target->durable == NULL) return dump(applying->arena, config);
    json_t *envelope = json_pack("{s:s, s:O}", "stream_name", target->stream, "config", config);
    INVARIANT(envelope != NULL);
    const char *body = dump(applying->arena, envelope);
    json_decref(envelope);
    return body;
}

/* Writes and reads back: a server may keep another value than it was given. */
static enum status write_config(struct applying *applying, const struct target *target,
                                const char *api, json_t *config, struct bus_change *change)
{
    const char *text = NULL;
    struct bus_problem problem;
    const enum status status =
        bus_request(applying->bus, api, request_body(applying, target, config),
                    BUS_REQUEST_TIMEOUT_MS, applying->arena, &text, &problem);
    if (status == STATUS_RETRY && problem.code == 0) return STATUS_RETRY;
    if (status != STATUS_OK) {
        refuse(applying, change,
               arena_format(applying->arena, "%s (%d)", problem.text, problem.error_code));
        return STATUS_OK;
    }
    json_t *answer = json_loads(text, 0, NULL);
    const struct bus_difference *left;
    const size_t count =
        bus_spec_compare(target->expected, target->absent, json_object_get(answer, "config"),
                         applying->arena, &left);
    json_decref(answer);
    if (count > 0) {
        refuse(applying, change,
               bus_spec_sentence(target->durable == NULL ? "stream" : "consumer",
                                 target->durable == NULL ? target->stream : target->durable, left,
                                 count, applying->arena));
    }
    return STATUS_OK;
}

/* Fields that we do not know stay as they are; fields that must be absent go. */
static enum status update(struct applying *applying, const struct target *target,
                          const json_t *found, struct bus_change *change)
{
    json_t *config = json_deep_copy(found);
    INVARIANT(config != NULL && json_object_update(config, target->expected) == 0);
    for (size_t i = 0; i < json_array_size(target->absent); i++) {
        (void)json_object_del(config, json_string_value(json_array_get(target->absent, i)));
    }
    const enum status status = write_config(applying, target, target->update_api, config, change);
    json_decref(config);
    return status;
}

/*
 * A server whose disk was full may begin a stream's sequences anew while the consumers keep their
 * places (seen with 2.9): whatever comes now lies before them and is never delivered. The end is
 * asked for after the place, so a place beyond it is no race.
 */
static enum status is_beyond_end(struct applying *applying, const struct target *target,
                                 const json_t *answer, bool *out_is_beyond)
{
    const json_t *delivered = json_object_get(answer, "delivered");
    const uint64_t place = (uint64_t)json_integer_value(json_object_get(delivered, "stream_seq"));
    struct bus_stream_info info;
    *out_is_beyond = false;
    if (target->delete_api == NULL || place == 0) return STATUS_OK;
    TRY(bus_stream_info(applying->bus, target->stream, applying->arena, &info));
    *out_is_beyond = place > info.last_sequence;
    return STATUS_OK;
}

/* Anew it begins with the first message that there is; what was acked before is a no-op. */
static enum status make_anew(struct applying *applying, const struct target *target)
{
    const char *text = NULL;
    struct bus_change *change =
        add_change(applying, BUS_CHANGE_BEYOND_END, target->stream, target->durable);
    if (applying->mode == BUS_APPLY_PLAN) return STATUS_OK;
    const enum status status = bus_request(applying->bus, target->delete_api, "",
                                           BUS_REQUEST_TIMEOUT_MS, applying->arena, &text, NULL);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) return STATUS_RETRY;
    return write_config(applying, target, target->create_api, target->expected, change);
}

static enum status compare_existing(struct applying *applying, const struct target *target,
                                    const json_t *found)
{
    const struct bus_difference *differences;
    const size_t count =
        bus_spec_compare(target->expected, target->absent, found, applying->arena, &differences);
    struct bus_change *change =
        add_change(applying, count == 0 ? BUS_CHANGE_NONE : BUS_CHANGE_UPDATE, target->stream,
                   target->durable);
    change->differences = differences;
    change->difference_count = count;
    if (count == 0 || applying->mode != BUS_APPLY_ALL) return STATUS_OK;
    return update(applying, target, found, change);
}

static enum status apply_existing(struct applying *applying, const struct target *target,
                                  const char *text)
{
    json_t *answer = json_loads(text, 0, NULL);
    bool is_beyond = false;
    enum status status = is_beyond_end(applying, target, answer, &is_beyond);
    if (status == STATUS_OK) {
        status = is_beyond ? make_anew(applying, target)
                           : compare_existing(applying, target, json_object_get(answer, "config"));
    }
    json_decref(answer);
    return status;
}

static enum status apply_target(struct applying *applying, const struct target *target)
{
    const char *text = NULL;
    const enum status status = bus_request(applying->bus, target->info_api, "",
                                           BUS_REQUEST_TIMEOUT_MS, applying->arena, &text, NULL);
    if (status == STATUS_OK) return apply_existing(applying, target, text);
    if (status != STATUS_NOT_FOUND) return STATUS_RETRY;
    struct bus_change *change =
        add_change(applying, BUS_CHANGE_CREATE, target->stream, target->durable);
    if (applying->mode == BUS_APPLY_PLAN) return STATUS_OK;
    return write_config(applying, target, target->create_api, target->expected, change);
}

static enum status apply_stream(struct applying *applying, const struct bus_stream_spec *spec)
{
    const struct target target = {
        .stream = spec->name,
        .info_api = arena_format(applying->arena, "$JS.API.STREAM.INFO.%s", spec->name),
        .create_api = arena_format(applying->arena, "$JS.API.STREAM.CREATE.%s", spec->name),
        .update_api = arena_format(applying->arena, "$JS.API.STREAM.UPDATE.%s", spec->name),
        .expected = bus_spec_stream(spec),
        .absent = bus_spec_stream_absent(),
    };
    const enum status status = apply_target(applying, &target);
    json_decref(target.expected);
    json_decref(target.absent);
    return status;
}

static enum status apply_consumer(struct applying *applying, const struct bus_consumer_spec *spec)
{
    const char *create = arena_format(applying->arena, "$JS.API.CONSUMER.DURABLE.CREATE.%s.%s",
                                      spec->stream, spec->durable);
    const struct target target = {
        .stream = spec->stream,
        .durable = spec->durable,
        .info_api = arena_format(applying->arena, "$JS.API.CONSUMER.INFO.%s.%s", spec->stream,
                                 spec->durable),
        .create_api = create,
        .update_api = create,
        .delete_api = arena_format(applying->arena, "$JS.API.CONSUMER.DELETE.%s.%s", spec->stream,
                                   spec->durable),
        .expected = bus_spec_consumer(spec),
        .absent = bus_spec_consumer_absent(spec),
    };
    const enum status status = apply_target(applying, &target);
    json_decref(target.expected);
    json_decref(target.absent);
    return status;
}

/* The durable of ours that a stranger's filter would take messages from; NULL if none. */
static const char *robbed_by(const struct applying *applying, const char *stream,
                             const char *filter)
{
    for (size_t i = 0; i < applying->topology->consumer_count; i++) {
        const struct bus_consumer_spec *ours = &applying->topology->consumers[i];
        if (strcmp(ours->stream, stream) != 0) continue;
        if (filter == NULL || filter[0] == '\0' || ours->filter_subject == NULL ||
            bus_subject_overlaps(filter, ours->filter_subject)) {
            return ours->durable;
        }
    }
    return NULL;
}

static enum status look_at_stranger(struct applying *applying, const char *stream,
                                    const char *durable)
{
    const char *text = NULL;
    const enum status status =
        bus_request(applying->bus,
                    arena_format(applying->arena, "$JS.API.CONSUMER.INFO.%s.%s", stream, durable),
                    "", BUS_REQUEST_TIMEOUT_MS, applying->arena, &text, NULL);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    if (status != STATUS_OK) return STATUS_RETRY;
    json_t *answer = json_loads(text, 0, NULL);
    const char *filter =
        json_string_value(json_object_get(json_object_get(answer, "config"), "filter_subject"));
    const char *robbed = robbed_by(applying, stream, filter);
    struct bus_change *change = add_change(applying, BUS_CHANGE_UNKNOWN_CONSUMER, stream, durable);
    if (robbed != NULL) {
        refuse(applying, change,
               arena_format(applying->arena,
                            "takes messages from consumer %s, and the topology does not know it; "
                            "delete one of them",
                            robbed));
    }
    json_decref(answer);
    return STATUS_OK;
}

/* Of one page of names; *out_count is how many there were. */
static enum status look_at_names(struct applying *applying, const char *stream, size_t offset,
                                 size_t *out_count)
{
    const char *text = NULL;
    const char *api = arena_format(applying->arena, "$JS.API.CONSUMER.NAMES.%s", stream);
    const char *body = arena_format(applying->arena, "{\"offset\":%zu}", offset);
    const enum status asked =
        bus_request(applying->bus, api, body, BUS_REQUEST_TIMEOUT_MS, applying->arena, &text, NULL);
    *out_count = 0;
    if (asked == STATUS_NOT_FOUND) return STATUS_OK; /* planning: the stream is yet to come */
    if (asked != STATUS_OK) return STATUS_RETRY;
    json_t *answer = json_loads(text, 0, NULL);
    const json_t *names = json_object_get(answer, "consumers");
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name == NULL || bus_topology_consumer(applying->topology, stream, name) != NULL) {
            continue;
        }
        status =
            look_at_stranger(applying, stream, arena_copy(applying->arena, name, strlen(name)));
    }
    *out_count = json_array_size(names);
    json_decref(answer);
    return status;
}

static enum status look_for_strangers(struct applying *applying)
{
    for (size_t i = 0; i < applying->topology->stream_count; i++) {
        const struct bus_stream_spec *stream = &applying->topology->streams[i];
        if (stream->retention != BUS_WORK_QUEUE) continue; /* others may read events as they like */
        size_t offset = 0;
        size_t count;
        do {
            TRY(look_at_names(applying, stream->name, offset, &count));
            offset += count;
        } while (count > 0);
    }
    return STATUS_OK;
}

static enum status apply_all(struct applying *applying)
{
    const struct bus_topology *topology = applying->topology;
    for (size_t i = 0; i < topology->stream_count; i++) {
        TRY(apply_stream(applying, &topology->streams[i]));
    }
    for (size_t i = 0; i < topology->consumer_count; i++) {
        TRY(apply_consumer(applying, &topology->consumers[i]));
    }
    if (applying->mode != BUS_APPLY_MISSING) TRY(look_for_strangers(applying));
    return applying->is_refused ? STATUS_STOP : STATUS_OK;
}

enum status bus_topology_apply(struct bus *bus, const struct bus_topology *topology,
                               enum bus_apply mode, struct arena *arena,
                               struct bus_report *out_report)
{
    struct applying applying = {
        .bus = bus,
        .topology = topology,
        .mode = mode,
        .arena = arena,
        .changes = arena_allocate(arena, CHANGES_MAX * sizeof(struct bus_change)),
    };
    const char *error = NULL;
    enum status status = bus_topology_check(topology, arena, &error);
    if (status == STATUS_OK) {
        status = apply_all(&applying);
    } else {
        refuse(&applying, add_change(&applying, BUS_CHANGE_REFUSED, "", NULL), error);
    }
    *out_report = (struct bus_report){ applying.changes, applying.change_count };
    return status;
}
