/*
 * ops/feed/feed_wire.h: the feeder's side of the bus: requests out, and what came back (answers,
 * final events, refusals of the stream) entered into the book.
 */
#ifndef ONCEPAY_OPS_FEED_WIRE_H
#define ONCEPAY_OPS_FEED_WIRE_H

#include "adapters/nats/bus_nats.h"
#include "ops/feed/feed_book.h"

enum { FEED_EVENTS = 6 };

struct feed_wire {
    struct bus *bus;
    struct bus_subscription *answers;
    struct bus_subscription *events[FEED_EVENTS]; /* NULL with until_answered */
    char inbox[BUS_INBOX_SIZE];
    struct arena arena;    /* one round */
    uint64_t unreadable;   /* answers or events that made no sense */
    uint64_t alarms;       /* late_success, double_success, amount_mismatch events of ours */
    char last_refusal[64]; /* problem code, for the summary */
};

/* Connects; waits for the server until *stop. */
enum status feed_wire_open(struct feed_wire *wire, const struct feed_options *options,
                           const volatile sig_atomic_t *stop, const char **out_error) MUST_CHECK;
void feed_wire_close(struct feed_wire *wire);

/* Sends payment index, first or again: same name, key and bytes. */
void feed_wire_send(struct feed_wire *wire, struct feed_book *book, size_t index, int64_t now_us);
/* Takes in everything that waits. */
void feed_wire_receive(struct feed_wire *wire, struct feed_book *book, int64_t now_us);

#endif
