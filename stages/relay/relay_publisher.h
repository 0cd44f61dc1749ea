/*
 * stages/relay/relay_publisher.h: from the queue into the stream: asynchronous publishes, at most
 * one unconfirmed per payment, and what becomes of each. A publish whose outcome is not known is
 * repeated under the same message id.
 */
#ifndef ONCEPAY_STAGES_RELAY_RELAY_PUBLISHER_H
#define ONCEPAY_STAGES_RELAY_RELAY_PUBLISHER_H

#include "adapters/nats/bus_nats.h"
#include "stages/relay/relay_queue.h"

#define RELAY_EVENT_STREAM "PAY_EVENT"

enum { RELAY_PROBLEM_SIZE = 160 };

struct relay_publisher {
    struct bus *bus;
    struct relay_queue *queue;
    size_t in_flight_max;
    int64_t run;             /* > 0: a deliberate republish, ids get this suffix */
    uint64_t last_sequence;  /* highest confirmed; the stream is at least this long */
    uint64_t confirmed;      /* events confirmed so far */
    int64_t paused_until_us; /* monotonic */
    int64_t backoff_us;
    /* Nobody stores our subjects, or who does came back: look, then clear it. */
    bool is_stream_missing;
    uint64_t reconnects;     /* of the bus, when that was last noticed */
    uint64_t rolled_back_at; /* a new event got this sequence though the stream was longer; 0: no */
    char problem[RELAY_PROBLEM_SIZE]; /* "": all goes well */
};

void relay_publisher_init(struct relay_publisher *publisher, struct bus *bus,
                          struct relay_queue *queue, size_t in_flight_max);

/* Publishes what may go now. Nothing while paused, or while the stream must be looked at. */
void relay_publisher_send(struct relay_publisher *publisher, int64_t monotonic_us);

/* Takes the results that are there. Other publishes of the process share the bus: cookies that are
 * no events (NULL is never handed out) must be known as command_cookie; they only tell of a missing
 * stream. */
void relay_publisher_results(struct relay_publisher *publisher, const void *command_cookie,
                             int64_t monotonic_us);

/* When relay_publisher_send can do something again; monotonic_us: now. */
int64_t relay_publisher_wake_us(const struct relay_publisher *publisher, int64_t monotonic_us);

#endif
