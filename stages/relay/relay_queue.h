/*
 * stages/relay/relay_queue.h: events on their way from the outbox to the stream. Pure: no I/O, no
 * clock. It keeps the order that consumers rely on (protocol H2, I14):
 *
 *   - the events of one payment go out in the order of their versions, the next only after the one
 *     before it is confirmed; events of different payments do not wait for each other;
 *   - events that were read together form a pass; the mark may rise to where a pass ends once this
 *     pass and all before it are confirmed, so that a restart begins at or before what is missing.
 */
#ifndef ONCEPAY_STAGES_RELAY_RELAY_QUEUE_H
#define ONCEPAY_STAGES_RELAY_RELAY_QUEUE_H

#include "pipeline/id.h"

struct relay_queue;
struct relay_pass;

/* Two independent sequences of passes, each with a mark of its own. */
enum relay_lane {
    RELAY_LANE_NEW = 0, /* what the stream has never had */
    RELAY_LANE_OLD = 1, /* what it lost and gets again */
};
enum { RELAY_LANE_COUNT = 2 };

struct relay_event {
    struct outbox_id id;
    struct payment_id payment; /* nil: ordered with nothing */
    int32_t version;
    int64_t created_us; /* database's clock */
    const char *subject;
    const char *headers; /* stored form */
    struct span body;
    /* For whoever publishes: */
    uint64_t floor_sequence; /* the stream was confirmed to be this long when it was sent */
};

struct relay_queue *relay_queue_create(void);
/* NULL is fine. Events in flight are freed too: only when no result can come any more. */
void relay_queue_destroy(struct relay_queue *queue);

/*
 * Begins a pass; what is added to this lane next belongs to it. mark: where the lane stands after
 * it.
 */
void relay_queue_pass(struct relay_queue *queue, enum relay_lane lane, int64_t mark);
/* Copies the event, into its payment's order. */
void relay_queue_add(struct relay_queue *queue, enum relay_lane lane,
                     const struct relay_event *event);

/* The next that may be published, now in flight; NULL if there is none. Oldest first. */
struct relay_event *relay_queue_next(struct relay_queue *queue);
/*
 * Each event in flight ends in exactly one of these. True unless the queue was emptied meanwhile:
 * then the event is nobody's business any more.
 */
bool relay_queue_confirm(struct relay_queue *queue, struct relay_event *event);
bool relay_queue_retry(struct relay_queue *queue, struct relay_event *event);
/* Like retry, but not before due_us: an event that is refused must not keep the others busy. */
bool relay_queue_delay(struct relay_queue *queue, struct relay_event *event, int64_t due_us);
/* Delayed events that are due may be published again. */
void relay_queue_wake(struct relay_queue *queue, int64_t now_us);

/* Forgets all that waits; what is in flight is freed when its end comes. */
void relay_queue_empty(struct relay_queue *queue);

size_t relay_queue_count(const struct relay_queue *queue); /* waiting and in flight */
size_t relay_queue_in_flight(const struct relay_queue *queue);
size_t relay_queue_delayed(const struct relay_queue *queue);
/*
 * Where the lane may begin after a restart; 0 before its first pass is confirmed. Never falls until
 * emptied.
 */
int64_t relay_queue_mark(const struct relay_queue *queue, enum relay_lane lane);
/* No pass of the lane has unconfirmed events. */
bool relay_queue_is_done(const struct relay_queue *queue, enum relay_lane lane);
/* created_us of the oldest unconfirmed event of the lane's first open pass; 0 if there is none. */
int64_t relay_queue_oldest_us(const struct relay_queue *queue, enum relay_lane lane);

#endif
