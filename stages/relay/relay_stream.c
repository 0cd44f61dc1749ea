/* stages/relay/relay_stream.c: see relay_stream.h. */
#include "stages/relay/relay_stream.h"

#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"

#define LOOK_EVERY_US (2 * CLOCK_SECOND_US)
#define LOOK_AGAIN_US (250 * CLOCK_MILLISECOND_US)
#define APPLY_EVERY_US (10 * CLOCK_SECOND_US)

enum relay_stream_news relay_stream_compare(const struct relay_stream_known *known,
                                            const char *created, uint64_t last_sequence,
                                            uint64_t rolled_back_at)
{
    if (known->created[0] == '\0') return RELAY_STREAM_UNKNOWN;
    if (strcmp(known->created, created) != 0) return RELAY_STREAM_NEW;
    if (last_sequence < known->last_sequence || rolled_back_at != 0) return RELAY_STREAM_SHORTER;
    return RELAY_STREAM_SAME;
}

/* --- what is missing -------------------------------------------------------------------------- */

static void report_difference(struct relay_stream *stream, const struct bus_change *change)
{
    char what[RELAY_PROBLEM_SIZE];
    (void)snprintf(what, sizeof what, "%s%s%s", change->stream, change->durable == NULL ? "" : "/",
                   change->durable == NULL ? "" : change->durable);
    if (strcmp(what, stream->differs) == 0) return;
    (void)snprintf(stream->differs, sizeof stream->differs, "%s", what);
    LOG_WARNING(
        "differs from the topology, left alone: run `oncepay topology apply`",
        LOG_TEXT("what", what),
        LOG_TEXT("field", change->difference_count > 0 ? change->differences[0].field : ""));
}

static void report(struct relay_stream *stream, const struct bus_report *changes)
{
    stream->problem[0] = '\0';
    for (size_t i = 0; i < changes->change_count; i++) {
        const struct bus_change *change = &changes->changes[i];
        switch (change->kind) {
        case BUS_CHANGE_NONE:
        case BUS_CHANGE_UNKNOWN_CONSUMER:
            break;
        case BUS_CHANGE_CREATE:
            LOG_WARNING("was missing, made anew", LOG_TEXT("stream", change->stream),
                        LOG_TEXT("consumer", change->durable));
            break;
        case BUS_CHANGE_BEYOND_END:
            LOG_WARNING("stood beyond the end of its stream, made anew",
                        LOG_TEXT("stream", change->stream), LOG_TEXT("consumer", change->durable));
            break;
        case BUS_CHANGE_UPDATE:
            report_difference(stream, change);
            break;
        case BUS_CHANGE_REFUSED:
            (void)snprintf(stream->problem, sizeof stream->problem, "%s is refused: %s",
                           change->durable == NULL ? change->stream : change->durable,
                           change->text);
            break;
        }
    }
}

static enum status apply_missing(struct relay_stream *stream, struct arena *arena)
{
    struct bus_report changes = { NULL, 0 };
    const enum status status =
        bus_topology_apply(stream->bus, stream->topology, BUS_APPLY_MISSING, arena, &changes);
    report(stream, &changes);
    return status == STATUS_STOP ? STATUS_OK : status; /* the problem is told; the rest may work */
}

/* --- what was lost ---------------------------------------------------------------------------- */

/*
 * Where to begin after the last event that is still held: as many before it as were ever in hand.
 */
static enum status find_last_held(const struct relay_stream *stream, const struct relay_feed *feed,
                                  uint64_t sequence, struct arena *arena, int64_t *out_xid)
{
    struct bus_stored held = { .sequence = 0 };
    struct outbox_id id;
    char text[UUID_TEXT_SIZE];
    if (sequence == 0) return STATUS_NOT_FOUND;
    TRY(bus_stream_find(stream->bus, RELAY_EVENT_STREAM, "pay.event.>", sequence, arena, &held));
    if (held.sequence != sequence || held.message_id == NULL) return STATUS_NOT_FOUND;
    (void)snprintf(text, sizeof text, "%.36s", held.message_id); /* without a run number */
    if (!uuid_parse(text, &id.uuid)) return STATUS_NOT_FOUND;
    const int32_t in_hand = (int32_t)(2 * feed->options.queue_max);
    return relay_store_republish_after(feed->options.store, id, in_hand, out_xid);
}

/* The transaction to publish again from; 0: nothing to publish. */
static enum status find_begin(const struct relay_stream *stream, const struct relay_feed *feed,
                              enum relay_stream_news news, uint64_t held, int64_t monotonic_us,
                              struct arena *arena, int64_t *out_xid)
{
    *out_xid = 0;
    if (news == RELAY_STREAM_SHORTER) {
        const enum status status = find_last_held(stream, feed, held, arena, out_xid);
        if (status != STATUS_NOT_FOUND) return status;
    }
    const int64_t since_us = relay_feed_now_us(feed, monotonic_us) - stream->age_max_us;
    const enum status status = relay_store_republish_since(feed->options.store, since_us, out_xid);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status begin_again(const struct relay_stream *stream, struct relay_publisher *publisher,
                               struct relay_feed *feed, enum relay_stream_news news,
                               const struct relay_stream_known *now, int64_t monotonic_us,
                               struct arena *arena)
{
    uint64_t held = now->last_sequence;
    if (publisher->rolled_back_at != 0) held = publisher->rolled_back_at - 1;
    int64_t from_xid = 0;
    TRY(find_begin(stream, feed, news, held, monotonic_us, arena, &from_xid));
    TRY(relay_feed_republish(feed, from_xid, now, monotonic_us));
    metrics_add(METRIC_NATS_ROLLED_BACK, 1, NULL);
    LOG_ERROR("the event stream has lost events, publishing them again",
              LOG_TEXT("stream", news == RELAY_STREAM_NEW ? "new" : "shorter"),
              LOG_NUMBER("last_held", held), LOG_BOOLEAN("has_lost", from_xid != 0));
    publisher->last_sequence = now->last_sequence;
    publisher->rolled_back_at = 0;
    return STATUS_OK;
}

static enum status look_at_events(struct relay_stream *stream, struct relay_publisher *publisher,
                                  struct relay_feed *feed, int64_t monotonic_us,
                                  struct arena *arena)
{
    struct bus_stream_info info;
    char created[CLOCK_TEXT_SIZE];
    struct relay_stream_known now = { .created = "" };
    TRY(bus_stream_info(stream->bus, RELAY_EVENT_STREAM, arena, &info));
    (void)snprintf(now.created, sizeof now.created, "%s",
                   clock_format(info.created_at_us, created));
    now.last_sequence = info.last_sequence;
    const enum relay_stream_news news = relay_stream_compare(
        &feed->stream, now.created, now.last_sequence, publisher->rolled_back_at);
    switch (news) {
    case RELAY_STREAM_SAME:
        publisher->is_stream_missing = false;
        return STATUS_OK;
    case RELAY_STREAM_UNKNOWN:
        feed->stream = now;
        feed->is_stream_changed = true;
        publisher->last_sequence = now.last_sequence;
        publisher->rolled_back_at = 0;
        publisher->is_stream_missing = false;
        return STATUS_OK;
    case RELAY_STREAM_NEW:
    case RELAY_STREAM_SHORTER:
        break;
    }
    publisher->is_stream_missing = true; /* holds further sends until what has left has ended */
    if (relay_queue_in_flight(publisher->queue) > 0) return STATUS_RETRY;
    TRY(begin_again(stream, publisher, feed, news, &now, monotonic_us, arena));
    publisher->is_stream_missing = false;
    return STATUS_OK;
}

static bool is_over(int64_t since_us, int64_t wait_us, int64_t monotonic_us)
{
    return since_us == 0 || monotonic_us - since_us >= wait_us;
}

enum status relay_stream_look(struct relay_stream *stream, struct relay_publisher *publisher,
                              struct relay_feed *feed, int64_t monotonic_us)
{
    const bool is_urgent =
        publisher->is_stream_missing || publisher->rolled_back_at != 0 || stream->is_unanswered;
    const int64_t wait_us = is_urgent ? LOOK_AGAIN_US : LOOK_EVERY_US;
    if (!is_over(stream->looked_us, wait_us, monotonic_us)) return STATUS_OK;
    struct arena arena = { NULL };
    enum status status = STATUS_OK;
    stream->looked_us = monotonic_us;
    if (is_urgent || is_over(stream->applied_us, APPLY_EVERY_US, monotonic_us)) {
        status = apply_missing(stream, &arena);
        stream->applied_us = monotonic_us;
    }
    if (status == STATUS_OK) status = look_at_events(stream, publisher, feed, monotonic_us, &arena);
    if (status == STATUS_NOT_FOUND) status = STATUS_RETRY; /* gone again: made next time */
    stream->is_unanswered = status == STATUS_RETRY;
    arena_finish(&arena);
    return status;
}
