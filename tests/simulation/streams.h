/*
 * tests/simulation/streams.h: the bus double: work-queue streams that store, lose, duplicate,
 * reorder and redeliver messages, rewind, are purged, or come back as an older copy of themselves.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_STREAMS_H
#define ONCEPAY_TESTS_SIMULATION_STREAMS_H

#include "pipeline/bus.h"
#include "pipeline/command.h"
#include "stages/relay/relay_sweep.h"
#include "tests/simulation/world.h"

enum { ACCOUNTS = 2, MESSAGE_COMMANDS_MAX = 4 };

/* One per consumer subject. The shards of route and settle are one here. */
enum stream_name {
    STREAM_INTAKE = 0,
    STREAM_ROUTE,
    STREAM_SETTLE,
    STREAM_CREATE, /* + account */
    STREAM_RECOVER = STREAM_CREATE + ACCOUNTS,
    STREAM_COUNT = STREAM_RECOVER + ACCOUNTS
};

struct stored_message {
    size_t stream;
    uint64_t sequence;
    struct uuid name; /* kept_message_id: the same at each delivery */
    int64_t stored_us;
    int64_t first_stored_us; /* of a replayed letter; 0: none */
    struct span body;        /* intake: the request's bytes */
    const struct bus_header *headers;
    size_t header_count;
    const char *subject;
    struct command commands[MESSAGE_COMMANDS_MAX];
    size_t command_count;
    unsigned deliveries;
    bool is_acked;
    bool is_gone;         /* purged, or not in the older copy */
    int64_t available_us; /* when it may be delivered (again) */
};

enum { MESSAGES_MAX = 4096 };

struct streams {
    struct stored_message messages[MESSAGES_MAX];
    size_t count;
    struct relay_standstill still[STREAM_COUNT];
};

struct streams *streams_create(void);
void streams_destroy(struct streams *streams);
void streams_begin(struct world *world);
enum stage_name stream_stage(size_t stream);

/* May be lost or doubled; from a worker, best effort. */
void stream_publish_request(struct world *world, const char *subject, struct span body,
                            const struct bus_header *headers, size_t header_count,
                            int64_t first_stored_us);
void stream_publish_commands(struct world *world, size_t stream, const struct command *commands,
                             size_t count);
/* The next message for a worker, now in hand; NULL: none waits. */
struct stored_message *stream_take(struct world *world, size_t stream, const struct worker *worker);
/* When the next one may be taken; INT64_MAX: none is left. */
int64_t stream_next_us(const struct world *world, size_t stream);
void stream_ack(struct world *world, struct stored_message *message);
void stream_nak(struct world *world, struct stored_message *message, int64_t delay_us);
/* bus_stream_find of the relay: when the oldest message was stored that somebody will still get. */
int64_t stream_oldest_left_us(struct world *world, size_t stream);

#endif
