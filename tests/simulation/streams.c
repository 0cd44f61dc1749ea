/* tests/simulation/streams.c: see streams.h. */
#include "tests/simulation/streams.h"

#include "tests/simulation/database.h"

#define ACK_WAIT_US (30 * CLOCK_SECOND_US)
/* Of the relay's margins: a message is stored after its row is written (relay_commander.c). */
#define LEFT_MARGIN_US (2 * CLOCK_SECOND_US)
#define STANDSTILL_US (2 * ACK_WAIT_US)

struct streams *streams_create(void)
{
    return memory_allocate(sizeof(struct streams));
}

void streams_destroy(struct streams *streams)
{
    free(streams);
}

enum stage_name stream_stage(size_t stream)
{
    if (stream == STREAM_INTAKE) return STAGE_INTAKE;
    if (stream == STREAM_ROUTE) return STAGE_ROUTE;
    if (stream == STREAM_SETTLE) return STAGE_SETTLE;
    return stream < STREAM_RECOVER ? STAGE_CREATE : STAGE_RECOVER;
}

/* --- great faults ----------------------------------------------------------------------------- */

struct disaster {
    size_t stream;
    enum choice_site fault;
    int64_t since_us; /* how far back it goes */
};

static void purge(struct stored_message *message)
{
    message->is_gone = true;
}

/* What was acked since then waits again; an older copy does not have what was stored since. */
static void turn_back(struct stored_message *message, const struct disaster *disaster)
{
    if (disaster->fault == CHOICE_STREAM_RESTORED && message->stored_us > disaster->since_us) {
        message->is_gone = true;
    } else if (message->is_acked && !message->is_gone) {
        message->is_acked = false;
        message->available_us = 0;
    }
}

static void strike(struct world *world, void *what)
{
    const struct disaster *disaster = what;
    struct streams *streams = world->streams;
    if (world->choices.is_healed) return;
    world_say(world, "stream %zu: %s", disaster->stream, choice_name(disaster->fault));
    for (size_t i = 0; i < streams->count; i++) {
        struct stored_message *message = &streams->messages[i];
        if (message->stream != disaster->stream) continue;
        if (disaster->fault == CHOICE_STREAM_PURGED) {
            purge(message);
        } else {
            turn_back(message, disaster);
        }
    }
    world_wake(world, stream_stage(disaster->stream));
}

static void plan_disasters(struct world *world)
{
    static const enum choice_site FAULTS[] = { CHOICE_STREAM_REWOUND, CHOICE_STREAM_PURGED,
                                               CHOICE_STREAM_RESTORED };
    const int64_t span_us = world->heal_us - world->now_us;
    for (size_t stream = 0; stream < STREAM_COUNT; stream++) {
        for (size_t i = 0; i < COUNT_OF(FAULTS); i++) {
            if (!choice_strikes(&world->choices, FAULTS[i], (unsigned)stream)) continue;
            /* Half of them strike early, while most is under way. */
            const uint64_t drawn =
                choice_draw(&world->choices, CHOICE_MOMENT, 32 + (unsigned)stream);
            const int64_t range_us = drawn % 2 == 0 ? 60 * CLOCK_SECOND_US : span_us;
            struct disaster *disaster = world_allocate(world, sizeof *disaster);
            disaster->stream = stream;
            disaster->fault = FAULTS[i];
            const int64_t at_us = world->now_us + (int64_t)((drawn >> 8) % (uint64_t)range_us);
            disaster->since_us = at_us - (int64_t)((drawn >> 40) % 64) * CLOCK_SECOND_US;
            world_at(world, at_us, strike, disaster);
        }
    }
}

void streams_begin(struct world *world)
{
    struct streams *streams = world->streams;
    streams->count = 0;
    memset(streams->still, 0, sizeof streams->still);
    enum { FAULT_HOURS_MAX = 30 };
    const int64_t hours = choice_below(&world->choices, CHOICE_WORLD, 1, FAULT_HOURS_MAX);
    world->heal_us = world->now_us + 600 * CLOCK_SECOND_US + hours * 3600 * CLOCK_SECOND_US;
    world->end_us = world->heal_us + INT64_C(36) * 3600 * CLOCK_SECOND_US;
    plan_disasters(world);
}

/* --- publishing ------------------------------------------------------------------------------- */

static void add(struct world *world, struct stored_message message)
{
    struct streams *streams = world->streams;
    if (streams->count == MESSAGES_MAX) {
        world_fail(world, "rest", "messages without end");
        return;
    }
    message.sequence = streams->count + 1;
    message.stored_us = world->now_us;
    message.name = world_id(world);
    streams->messages[streams->count++] = message;
    world_wake(world, stream_stage(message.stream));
}

static void store(struct world *world, void *what)
{
    add(world, *(struct stored_message *)what);
}

static void publish(struct world *world, const struct stored_message *message)
{
    const unsigned subject = (unsigned)message->stream;
    if (choice_strikes(&world->choices, CHOICE_PUBLISH_LOST, subject)) {
        world_say(world, "  its message on stream %u is lost", subject);
        return;
    }
    struct stored_message *kept = world_allocate(world, sizeof *kept);
    *kept = *message;
    world_after(world, choice_delay_us(&world->choices, CHOICE_MESSAGE, subject), store, kept);
    if (choice_strikes(&world->choices, CHOICE_PUBLISH_TWICE, subject))
        world_after(world, choice_delay_us(&world->choices, CHOICE_MESSAGE, subject), store, kept);
}

void stream_publish_request(struct world *world, const char *subject, struct span body,
                            const struct bus_header *headers, size_t header_count,
                            int64_t first_stored_us)
{
    const struct stored_message message = {
        .stream = STREAM_INTAKE,
        .subject = subject,
        .body = body,
        .headers = headers,
        .header_count = header_count,
        .first_stored_us = first_stored_us,
    };
    publish(world, &message);
}

void stream_publish_commands(struct world *world, size_t stream, const struct command *commands,
                             size_t count)
{
    INVARIANT(count > 0 && count <= MESSAGE_COMMANDS_MAX);
    struct stored_message message = { .stream = stream, .command_count = count };
    memcpy(message.commands, commands, count * sizeof *commands);
    publish(world, &message);
}

/* --- delivering ------------------------------------------------------------------------------- */

static bool is_left(const struct stored_message *message)
{
    return !message->is_acked && !message->is_gone;
}

struct stored_message *stream_take(struct world *world, size_t stream, const struct worker *worker)
{
    enum { LOOK_AHEAD = 16 };
    struct stored_message *waiting[LOOK_AHEAD];
    size_t count = 0;
    struct streams *streams = world->streams;
    for (size_t i = 0; i < streams->count && count < LOOK_AHEAD; i++) {
        struct stored_message *message = &streams->messages[i];
        if (message->stream == stream && is_left(message) &&
            message->available_us <= world->now_us) {
            waiting[count++] = message;
        }
    }
    if (count == 0) return NULL;
    struct stored_message *taken =
        waiting[choice_below(&world->choices, CHOICE_ORDER, (unsigned)stream, (unsigned)count)];
    taken->deliveries++;
    taken->available_us = world->now_us + ACK_WAIT_US;
    if (choice_strikes(&world->choices, CHOICE_DELIVER_TWICE, (unsigned)stream)) {
        taken->available_us = world->now_us + CLOCK_MILLISECOND_US;
        worker_look(world,
                    &world->workers[stream_stage(stream) * WORKERS_PER_STAGE +
                                    (worker->number + 1) % WORKERS_PER_STAGE],
                    taken->available_us);
    }
    world_say(world, "%s takes message %" PRIu64 " of stream %zu, delivery %u", worker->name,
              taken->sequence, stream, taken->deliveries);
    return taken;
}

int64_t stream_next_us(const struct world *world, size_t stream)
{
    int64_t next_us = INT64_MAX;
    for (size_t i = 0; i < world->streams->count; i++) {
        const struct stored_message *message = &world->streams->messages[i];
        if (message->stream == stream && is_left(message) && message->available_us < next_us)
            next_us = message->available_us;
    }
    return next_us;
}

void stream_ack(struct world *world, struct stored_message *message)
{
    if (choice_strikes(&world->choices, CHOICE_ACK_LOST, (unsigned)message->stream)) return;
    message->is_acked = true;
}

void stream_nak(struct world *world, struct stored_message *message, int64_t delay_us)
{
    message->available_us = world->now_us + delay_us;
    const size_t first = stream_stage(message->stream) * WORKERS_PER_STAGE;
    for (size_t i = 0; i < WORKERS_PER_STAGE; i++) {
        if (world->workers[first + i].exists)
            worker_look(world, &world->workers[first + i], message->available_us);
    }
}

/* --- what the relay asks ---------------------------------------------------------------------- */

/* The ack floor: every message up to it is acked or gone; and the last one that was delivered. */
static void find_floor(const struct streams *streams, size_t stream, uint64_t *out_floor,
                       uint64_t *out_delivered)
{
    bool is_floor = true;
    *out_floor = *out_delivered = 0;
    for (size_t i = 0; i < streams->count; i++) {
        const struct stored_message *message = &streams->messages[i];
        if (message->stream != stream) continue;
        if (message->deliveries > 0) *out_delivered = message->sequence;
        is_floor = is_floor && message->deliveries > 0 && !is_left(message);
        if (is_floor) *out_floor = message->sequence;
    }
}

int64_t stream_oldest_left_us(struct world *world, size_t stream)
{
    const struct streams *streams = world->streams;
    uint64_t floor = 0;
    uint64_t delivered = 0;
    find_floor(streams, stream, &floor, &delivered);
    const uint64_t from = relay_standstill_left_from(&world->streams->still[stream], floor,
                                                     delivered, world->now_us, STANDSTILL_US);
    const struct database *database = world->database;
    for (size_t i = 0; i < streams->count; i++) {
        const struct stored_message *message = &streams->messages[i];
        if (message->stream != stream || message->sequence < from || !is_left(message)) continue;
        for (size_t k = 0; k < database->outbox_count; k++) { /* relay_command_born.sql */
            if (uuid_equal(database->outbox[k].id.uuid, message->commands[0].outbox.uuid))
                return database->outbox[k].created_us - LEFT_MARGIN_US;
        }
        return message->stored_us - LEFT_MARGIN_US;
    }
    return INT64_MAX;
}
