/* stages/relay/relay_publisher.c: see relay_publisher.h. */
#include "stages/relay/relay_publisher.h"

#include "pipeline/clock.h"
#include "pipeline/command.h"
#include "pipeline/crash_point.h"
#include "pipeline/event.h"
#include "pipeline/log.h"

#define BACKOFF_US_MIN (50 * CLOCK_MILLISECOND_US)
#define BACKOFF_US_MAX (2 * CLOCK_SECOND_US)
#define REFUSED_WAIT_US (30 * CLOCK_SECOND_US)

enum { RESULTS_AT_ONCE = 64 };

void relay_publisher_init(struct relay_publisher *publisher, struct bus *bus,
                          struct relay_queue *queue, size_t in_flight_max)
{
    *publisher = (struct relay_publisher){
        .bus = bus,
        .queue = queue,
        .in_flight_max = in_flight_max,
        .backoff_us = BACKOFF_US_MIN,
    };
}

/*
 * A server that came back may hold less than it did: that is looked at before anything new goes
 * there.
 */
static void notice_reconnect(struct relay_publisher *publisher)
{
    struct bus_stats stats;
    bus_stats(publisher->bus, &stats);
    if (stats.reconnects == publisher->reconnects) return;
    publisher->reconnects = stats.reconnects;
    publisher->is_stream_missing = true;
}

static bool may_send(const struct relay_publisher *publisher, int64_t monotonic_us)
{
    return monotonic_us >= publisher->paused_until_us && !publisher->is_stream_missing &&
           publisher->rolled_back_at == 0;
}

static void publish(const struct relay_publisher *publisher, struct relay_event *event,
                    struct arena *arena)
{
    struct event_headers stored = { .count = 0 };
    struct event_headers headers;
    if (event_headers_decode(event->headers, arena, &stored) != STATUS_OK) {
        /* Written by us, so a bug; what the row tells is worth having without them. */
        LOG_ERROR("stored headers cannot be read", LOG_ID("outbox", event->id.uuid));
    }
    const struct event row = {
        .id = event->id,
        .subject = event->subject,
        .payment = event->payment,
        .version = event->version,
        .created_us = event->created_us,
    };
    event_headers_make(&row, &stored, arena, &headers);
    char message_id[COMMAND_MESSAGE_ID_SIZE];
    const struct bus_outgoing message = {
        .subject = event->subject,
        .body = event->body,
        .headers = headers.items,
        .header_count = headers.count,
        .message_id = command_message_id(event->id, publisher->run, message_id),
        .expected_stream = RELAY_EVENT_STREAM,
    };
    CRASH_POINT("relay.before_publish");
    event->floor_sequence = publisher->last_sequence;
    bus_publish(publisher->bus, &message, event);
}

void relay_publisher_send(struct relay_publisher *publisher, int64_t monotonic_us)
{
    notice_reconnect(publisher);
    if (!may_send(publisher, monotonic_us)) return;
    struct arena arena = { NULL };
    relay_queue_wake(publisher->queue, monotonic_us);
    while (relay_queue_in_flight(publisher->queue) < publisher->in_flight_max) {
        struct relay_event *event = relay_queue_next(publisher->queue);
        if (event == NULL) break;
        publish(publisher, event, &arena);
        arena_reset(&arena);
    }
    arena_finish(&arena);
}

static void set_problem(struct relay_publisher *publisher, const char *what, int error_code)
{
    (void)snprintf(publisher->problem, sizeof publisher->problem, "%s (%d)", what, error_code);
}

static void pause_sending(struct relay_publisher *publisher, int64_t monotonic_us)
{
    if (monotonic_us < publisher->paused_until_us)
        return; /* one pause for all that came back together */
    publisher->paused_until_us = monotonic_us + publisher->backoff_us;
    publisher->backoff_us *= 2;
    if (publisher->backoff_us > BACKOFF_US_MAX) publisher->backoff_us = BACKOFF_US_MAX;
}

static void on_stored(struct relay_publisher *publisher, struct relay_event *event,
                      const struct bus_result *result)
{
    if (!result->duplicate) {
        if (result->sequence <= event->floor_sequence) {
            const bool is_first =
                publisher->rolled_back_at == 0 || result->sequence < publisher->rolled_back_at;
            if (is_first) publisher->rolled_back_at = result->sequence;
        } else if (result->sequence > publisher->last_sequence) {
            publisher->last_sequence = result->sequence;
        }
    }
    publisher->confirmed++;
    publisher->backoff_us = BACKOFF_US_MIN;
    if (relay_queue_delayed(publisher->queue) == 0) publisher->problem[0] = '\0';
    (void)relay_queue_confirm(publisher->queue, event);
}

static void on_refused(struct relay_publisher *publisher, struct relay_event *event,
                       const struct bus_result *result, int64_t monotonic_us)
{
    LOG_ERROR("an event is refused, its payment's later ones wait",
              LOG_ID("outbox", event->id.uuid), LOG_ID("payment", event->payment.uuid),
              LOG_TEXT("outcome", bus_outcome_name((int)result->outcome)),
              LOG_NUMBER("error_code", result->error_code));
    set_problem(publisher, "an event is refused", result->error_code);
    (void)relay_queue_delay(publisher->queue, event, monotonic_us + REFUSED_WAIT_US);
}

static void on_result(struct relay_publisher *publisher, const struct bus_result *result,
                      int64_t monotonic_us)
{
    struct relay_event *event = result->cookie;
    switch (result->outcome) {
    case BUS_STORED:
        on_stored(publisher, event, result);
        return;
    case BUS_NOT_SENT:
    case BUS_OUTCOME_UNKNOWN:
        set_problem(publisher, "no answer to publishes", 0);
        pause_sending(publisher, monotonic_us);
        (void)relay_queue_retry(publisher->queue, event);
        return;
    case BUS_REFUSED_FULL:
        set_problem(publisher, RELAY_EVENT_STREAM " is full", result->error_code);
        pause_sending(publisher, monotonic_us);
        (void)relay_queue_retry(publisher->queue, event);
        return;
    case BUS_REFUSED_NO_STREAM:
        set_problem(publisher, RELAY_EVENT_STREAM " is not there", result->error_code);
        publisher->is_stream_missing = true;
        pause_sending(publisher, monotonic_us);
        (void)relay_queue_retry(publisher->queue, event);
        return;
    case BUS_REFUSED_TOO_BIG:
    case BUS_REFUSED:
        on_refused(publisher, event, result, monotonic_us);
        return;
    }
    UNREACHABLE("publish outcome out of range");
}

void relay_publisher_results(struct relay_publisher *publisher, const void *command_cookie,
                             int64_t monotonic_us)
{
    struct bus_result results[RESULTS_AT_ONCE];
    const uint64_t before = publisher->confirmed;
    size_t count = 0;
    do {
        count = bus_publish_results(publisher->bus, RESULTS_AT_ONCE, results);
        for (size_t i = 0; i < count; i++) {
            if (results[i].cookie == command_cookie) {
                publisher->is_stream_missing =
                    publisher->is_stream_missing || results[i].outcome == BUS_REFUSED_NO_STREAM;
            } else {
                on_result(publisher, &results[i], monotonic_us);
            }
        }
    } while (count == RESULTS_AT_ONCE);
    if (publisher->confirmed != before) CRASH_POINT("relay.after_publish_before_mark");
}

int64_t relay_publisher_wake_us(const struct relay_publisher *publisher, int64_t monotonic_us)
{
    if (relay_queue_count(publisher->queue) == relay_queue_in_flight(publisher->queue)) {
        return INT64_MAX;
    }
    return publisher->paused_until_us > monotonic_us ? publisher->paused_until_us : INT64_MAX;
}
