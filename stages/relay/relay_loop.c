/* stages/relay/relay_loop.c: see relay_loop.h. */
#include "stages/relay/relay_loop.h"

#include <poll.h>

#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/relay/relay_commander.h"
#include "stages/relay/relay_feed.h"
#include "stages/relay/relay_publisher.h"
#include "stages/relay/relay_stream.h"

enum { SHARD = 0, POKES_AT_ONCE = 64, POKES_MAX = 1024 };
#define CLAIM_EVERY_US (500 * CLOCK_MILLISECOND_US)
#define SWEEP_EVERY_US CLOCK_SECOND_US
#define STUCK_EVERY_US (5 * CLOCK_SECOND_US)
#define PARTITIONS_EVERY_US (3600 * CLOCK_SECOND_US)
#define PARTITIONS_AGAIN_US (60 * CLOCK_SECOND_US)
#define OLD_EVERY_US (20 * CLOCK_MILLISECOND_US)
/* Under load pokes come faster than a look is worth. */
#define POLL_PAUSE_US (2 * CLOCK_MILLISECOND_US)
/* And each confirmation wakes the loop: so many under way are worth a nap, and then taken in
 * together. */
enum { BUSY_EVENTS = 32, NAP_MS = 1 };

struct relay {
    struct stage *stage;
    struct bus_subscription *pokes;
    struct relay_queue *queue;
    struct relay_feed feed;
    struct relay_publisher publisher;
    struct relay_stream stream;
    struct relay_commander commander;
    bool is_ours; /* the shard */
    bool is_poked;
    bool has_more;
    uint64_t published; /* what metrics were told */
    /* Monotonic times: when each is due again. */
    int64_t claim_us;
    int64_t poll_us;
    int64_t old_us;
    int64_t sweep_us;
    int64_t stuck_us;
    int64_t partitions_us;
};

/* --- the session ------------------------------------------------------------------------------ */

/* Somebody else may work from now on: what is in hand is his. */
static void give_up(struct relay *relay, const char *why)
{
    if (relay->is_ours) LOG_WARNING("session lost", LOG_TEXT("why", why));
    relay->is_ours = false;
    relay->claim_us = 0;
    relay_queue_empty(relay->queue);
}

/* A failure is told; if the connection is gone, so is the lock. */
static bool is_well(struct relay *relay, enum status status)
{
    if (status == STATUS_OK) {
        health_set(relay->stage->health, "postgres", NULL);
        return true;
    }
    if (status == STATUS_LOST_RACE) {
        give_up(relay, "another session answered");
        return false;
    }
    const struct store_error *error = store_last_error(relay->stage->store);
    health_set(relay->stage->health, "postgres", error->message);
    LOG_DEBUG("statement failed", LOG_TEXT("statement", error->statement),
              LOG_TEXT("sqlstate", error->sqlstate));
    if (!store_is_connected(relay->stage->store)) give_up(relay, error->message);
    return false;
}

static void begin(struct relay *relay, const struct relay_claim *claim, int64_t now_us)
{
    if (!is_well(relay, relay_feed_start(&relay->feed, claim, now_us))) return;
    if (!is_well(relay, relay_commander_start(&relay->commander, now_us))) return;
    relay->is_ours = true;
    relay->publisher.last_sequence = relay->feed.stream.last_sequence;
    relay->publisher.rolled_back_at = 0;
    relay->stream.looked_us = 0; /* before the first publish */
    relay->stream.applied_us = 0;
    relay->publisher.is_stream_missing = true;
    relay->poll_us = now_us;
    relay->sweep_us = now_us;
    relay->stuck_us = now_us;
    relay->partitions_us = now_us;
    LOG_INFO("following the outbox", LOG_NUMBER("shard", SHARD),
             LOG_NUMBER("mark", relay->feed.saved_mark),
             LOG_BOOLEAN("republishing", relay_feed_is_republishing(&relay->feed)));
}

static void claim(struct relay *relay, int64_t now_us)
{
    struct relay_claim claim;
    if (now_us < relay->claim_us) return;
    relay->claim_us = now_us + CLAIM_EVERY_US;
    const enum status status = relay_store_claim(relay->stage->store, SHARD, &claim);
    if (!is_well(relay, status)) return;
    health_set(relay->stage->health, "shard 0",
               claim.is_held ? NULL : "another relay holds it, standing by");
    if (claim.is_held) begin(relay, &claim, now_us);
}

/* --- what a round does ------------------------------------------------------------------------ */

static void take_pokes(struct relay *relay)
{
    struct bus_message pokes[POKES_AT_ONCE];
    size_t count = 0;
    while ((count = bus_subscription_take(relay->pokes, POKES_AT_ONCE, pokes)) > 0) {
        for (size_t i = 0; i < count; i++) bus_release(&pokes[i]);
        relay->is_poked = true;
    }
}

static void take_results(struct relay *relay, int64_t now_us)
{
    relay_publisher_results(&relay->publisher, &relay->commander.cookie, now_us);
    relay_feed_confirmed(&relay->feed, relay->publisher.confirmed, relay->publisher.last_sequence);
    if (relay->publisher.confirmed != relay->published) {
        metrics_add(METRIC_STAGE_MESSAGES, (int64_t)(relay->publisher.confirmed - relay->published),
                    METRICS_LABELS("relay", "published"));
        relay->published = relay->publisher.confirmed;
    }
    health_set(relay->stage->health, "events", relay->publisher.problem);
}

static void look_at_streams(struct relay *relay, int64_t now_us)
{
    const bool is_connected = bus_is_connected(relay->stage->bus);
    health_set(relay->stage->health, "nats", is_connected ? NULL : "not connected");
    if (!is_connected) return;
    if (relay->commander.is_stream_missing) relay->publisher.is_stream_missing = true;
    relay->commander.is_stream_missing = false;
    const enum status status =
        relay_stream_look(&relay->stream, &relay->publisher, &relay->feed, now_us);
    health_set(relay->stage->health, "topology", relay->stream.problem);
    if (status == STATUS_LOST_RACE || !store_is_connected(relay->stage->store)) {
        give_up(relay, "while looking at the streams");
    }
}

static void read_events(struct relay *relay, int64_t now_us)
{
    const bool is_due = relay->has_more || relay->is_poked || now_us >= relay->poll_us;
    const int64_t poll_us = relay->stage->config.relay.poll_ms * CLOCK_MILLISECOND_US;
    if (is_due && now_us >= relay->poll_us - poll_us + POLL_PAUSE_US) {
        relay->is_poked = false;
        relay->poll_us = now_us + poll_us;
        if (!is_well(relay, relay_feed_poll(&relay->feed, now_us, &relay->has_more))) {
            relay->has_more = false; /* when it is due again */
            return;
        }
    }
    if (now_us >= relay->old_us) {
        relay->old_us = now_us + OLD_EVERY_US;
        (void)is_well(relay, relay_feed_poll_old(&relay->feed, now_us));
    }
}

static void follow_commands(struct relay *relay, int64_t now_us)
{
    if (now_us >= relay->sweep_us) {
        bool has_more = false;
        relay->sweep_us = now_us + SWEEP_EVERY_US;
        if (!is_well(relay, relay_commander_sweep(&relay->commander, now_us, &has_more))) return;
        if (has_more) relay->sweep_us = now_us;
    }
    if (now_us >= relay->stuck_us) {
        relay->stuck_us = now_us + STUCK_EVERY_US;
        (void)is_well(relay, relay_commander_stuck(&relay->commander, now_us));
    }
}

static void make_partitions(struct relay *relay, int64_t now_us)
{
    int32_t made = 0;
    if (now_us < relay->partitions_us) return;
    const enum status status = relay_store_make_partitions(relay->stage->store, &made);
    const bool is_made = is_well(relay, status);
    relay->partitions_us = now_us + (is_made ? PARTITIONS_EVERY_US : PARTITIONS_AGAIN_US);
    if (is_made && made > 0) LOG_INFO("partitions made ahead", LOG_NUMBER("count", made));
}

static void show_lag(const struct relay *relay, int64_t now_us)
{
    const int64_t oldest_us = relay_queue_oldest_us(relay->queue, RELAY_LANE_NEW);
    const int64_t age_us = oldest_us == 0 ? 0 : relay_feed_now_us(&relay->feed, now_us) - oldest_us;
    metrics_set(METRIC_OUTBOX_LAG, age_us > 0 ? age_us : 0, NULL);
    metrics_set(METRIC_STAGE_LAG, (int64_t)relay_queue_count(relay->queue),
                METRICS_LABELS("relay"));
}

static void work(struct relay *relay, int64_t now_us)
{
    look_at_streams(relay, now_us);
    if (!relay->is_ours) return;
    read_events(relay, now_us);
    if (!relay->is_ours) return;
    relay_publisher_send(&relay->publisher, now_us);
    if (!is_well(relay, relay_feed_save(&relay->feed, now_us, false))) return;
    if (bus_is_connected(relay->stage->bus)) follow_commands(relay, now_us);
    if (!relay->is_ours) return;
    make_partitions(relay, now_us);
    show_lag(relay, now_us);
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t wait_ms(const struct relay *relay)
{
    const int64_t now_us = clock_monotonic_us();
    if (!relay->is_ours) {
        const int64_t wait_us = relay->claim_us - now_us;
        return wait_us > 0 ? wait_us / CLOCK_MILLISECOND_US + 1 : 1;
    }
    int64_t wake_us = earliest(relay->poll_us, relay->sweep_us);
    if (relay_feed_is_republishing(&relay->feed)) wake_us = earliest(wake_us, relay->old_us);
    const bool has_more = relay->has_more && relay_feed_has_room(&relay->feed);
    if (has_more || relay->is_poked) wake_us = earliest(wake_us, now_us + POLL_PAUSE_US);
    wake_us = earliest(wake_us, relay_publisher_wake_us(&relay->publisher, now_us));
    return wake_us > now_us ? (wake_us - now_us) / CLOCK_MILLISECOND_US + 1 : 0;
}

/* --- life ------------------------------------------------------------------------------------- */

/* NATS may be gone again since stage_open: that is to be waited for, like later. */
static bool listen_for_pokes(struct relay *relay)
{
    enum { AGAIN_MS = 250 };
    struct bus *bus = relay->stage->bus;
    while (!stage_stop) {
        const enum status status =
            bus_subscription_open(bus, SUBJECT_WAKE_RELAY, POKES_MAX, &relay->pokes);
        if (status != STATUS_RETRY) return status == STATUS_OK;
        health_set(relay->stage->health, "nats", "not connected");
        bus_wait(bus, AGAIN_MS);
    }
    return false;
}

static bool open_all(struct relay *relay, struct stage *stage)
{
    const struct config *config = &stage->config;
    relay->stage = stage;
    relay->queue = relay_queue_create();
    const size_t in_flight_max = (size_t)config->relay.events_in_flight_max;
    const size_t page_limit = (size_t)config->relay.batch_max;
    const struct relay_feed_options options = {
        .store = stage->store,
        .queue = relay->queue,
        .shard = SHARD,
        .page_limit = (int32_t)page_limit,
        .queue_max = 2 * (in_flight_max > page_limit ? in_flight_max : page_limit),
        .republish_per_s = config->relay.republish_per_s_max,
    };
    relay_feed_init(&relay->feed, &options);
    relay_publisher_init(&relay->publisher, stage->bus, relay->queue, in_flight_max);
    relay->stream.bus = stage->bus;
    relay->stream.topology = &stage->topology;
    relay->stream.age_max_us = config->streams.event_age_max_s * CLOCK_SECOND_US;
    relay_commander_init(&relay->commander, config, stage->store, stage->bus);
    return listen_for_pokes(relay);
}

/* What has left gets its end, and the mark its place: less to publish twice after the restart. */
static void close_all(struct relay *relay)
{
    const int64_t drain_ms = relay->stage->config.timers.drain_s * 1000;
    const enum status flushed = bus_publish_flush(relay->stage->bus, drain_ms);
    const int64_t now_us = clock_monotonic_us();
    take_results(relay, now_us);
    enum status saved = STATUS_OK;
    if (relay->is_ours) saved = relay_feed_save(&relay->feed, now_us, true);
    LOG_INFO("stopped", LOG_TEXT("publishes", status_name(flushed)),
             LOG_TEXT("marks", status_name(saved)));
    if (relay->pokes != NULL) bus_subscription_close(relay->pokes);
    relay_commander_finish(&relay->commander);
    relay_feed_finish(&relay->feed);
    relay_queue_destroy(relay->queue);
}

int relay_loop_run(struct stage *stage)
{
    struct relay relay = { 0 };
    bool is_open = open_all(&relay, stage);
    if (!is_open && !stage_stop) LOG_ERROR("cannot listen for pokes");
    while (is_open && !stage_stop) {
        const int64_t now_us = clock_monotonic_us();
        take_pokes(&relay);
        take_results(&relay, now_us);
        if (!relay.is_ours) claim(&relay, now_us);
        if (relay.is_ours) work(&relay, now_us);
        if (relay_queue_in_flight(relay.queue) >= BUSY_EVENTS) (void)poll(NULL, 0, NAP_MS);
        bus_wait(stage->bus, wait_ms(&relay));
    }
    close_all(&relay);
    return is_open || stage_stop ? 0 : 3;
}
