/* config/topology.c: the streams and consumers of design §3 as data, from limits and accounts. */
#include "config/config.h"

static const char *const INTAKE_SUBJECTS[] = { "pay.intake.>" };
static const char *const ROUTE_SUBJECTS[] = { "pay.route.*" };
static const char *const CREATE_SUBJECTS[] = { "pay.create.*.new", "pay.create.*.follow" };
/* evidence and wake: one durable per account takes both, and a 2.9 server wants its one filter
 * inside one subject. */
static const char *const RECOVER_SUBJECTS[] = { "pay.recover.*.*" };
static const char *const SETTLE_SUBJECTS[] = { "pay.settle.*" };
static const char *const EVENT_SUBJECTS[] = { "pay.event.>" };
static const char *const ADVISORY_SUBJECTS[] = {
    "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>",
    "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>",
};

/* nats-server's own max_payload, unless it is configured otherwise. */
enum { INTAKE_MESSAGE_BYTES_MAX = 1024 * 1024 };

static struct bus_stream_spec stream_of(const struct config_streams *streams, const char *name,
                                        const char *const *subjects, size_t subject_count,
                                        const struct config_stream *limits)
{
    return (struct bus_stream_spec){
        .name = name,
        .subjects = subjects,
        .subject_count = subject_count,
        .retention = BUS_WORK_QUEUE,
        .messages_max = limits->messages_max,
        .bytes_max = limits->bytes_max,
        .message_bytes_max = streams->message_bytes_max,
        .replicas = streams->replicas,
        .duplicate_window_s = streams->duplicate_window_s,
    };
}

#define STREAM(name, subjects, limits)                                                             \
    stream_of(streams, name, subjects, COUNT_OF(subjects), &streams->limits)

static void add_consumer(const struct config_streams *streams, struct bus_consumer_spec *consumers,
                         size_t *count, const char *stream, const char *durable,
                         const char *filter_subject)
{
    consumers[(*count)++] = (struct bus_consumer_spec){
        .stream = stream,
        .durable = durable,
        .filter_subject = filter_subject,
        .ack_wait_s = streams->ack_wait_s,
        .ack_pending_max = streams->ack_pending_max,
    };
}

void config_topology(const struct config *config, struct arena *arena,
                     struct bus_topology *out_topology)
{
    const struct config_streams *streams = &config->streams;
    const struct bus_stream_spec made[] = {
        STREAM("PAY_INTAKE", INTAKE_SUBJECTS, intake),
        STREAM("PAY_ROUTE", ROUTE_SUBJECTS, route),
        STREAM("PAY_CREATE", CREATE_SUBJECTS, create),
        STREAM("PAY_RECOVER", RECOVER_SUBJECTS, recover),
        STREAM("PAY_SETTLE", SETTLE_SUBJECTS, settle),
        STREAM("PAY_EVENT", EVENT_SUBJECTS, event),
        STREAM("PAY_ADVISORY", ADVISORY_SUBJECTS, advisory),
    };
    struct bus_stream_spec *specs = arena_allocate(arena, sizeof made);
    memcpy(specs, made, sizeof made);
    /* Whatever the server lets through: a request that is too large gets an answer that says so. */
    specs[0].message_bytes_max = INTAKE_MESSAGE_BYTES_MAX;
    struct bus_stream_spec *event = &specs[COUNT_OF(made) - 2];
    event->retention = BUS_LIMITS;
    event->age_max_s = streams->event_age_max_s;
    struct bus_stream_spec *advisory = &specs[COUNT_OF(made) - 1];
    advisory->retention = BUS_LIMITS;
    advisory->discard_old = true; /* an alarm that nobody heard in time is no work */

    struct bus_consumer_spec *consumers =
        arena_allocate(arena, (3 + 3 * config->account_count) * sizeof *consumers);
    size_t count = 0;
    add_consumer(streams, consumers, &count, "PAY_INTAKE", "intake", NULL);
    add_consumer(streams, consumers, &count, "PAY_ROUTE", "route", NULL);
    add_consumer(streams, consumers, &count, "PAY_SETTLE", "settle", NULL);
    for (size_t i = 0; i < config->account_count; i++) {
        const char *id = config->accounts[i].id;
        add_consumer(streams, consumers, &count, "PAY_CREATE", arena_format(arena, "%s_new", id),
                     arena_format(arena, "pay.create.%s.new", id));
        add_consumer(streams, consumers, &count, "PAY_CREATE", arena_format(arena, "%s_follow", id),
                     arena_format(arena, "pay.create.%s.follow", id));
        add_consumer(streams, consumers, &count, "PAY_RECOVER", arena_copy(arena, id, strlen(id)),
                     arena_format(arena, "pay.recover.*.%s", id));
    }
    *out_topology = (struct bus_topology){ specs, COUNT_OF(made), consumers, count };
}
