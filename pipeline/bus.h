/*
 * pipeline/bus.h: JetStream as the stages need it: messages that wait are pulled in batches,
 * each is disposed of exactly once, and publishing is asynchronous with a known outcome.
 * The implementation is adapters/nats; tests may bring another.
 */
#ifndef ONCEPAY_PIPELINE_BUS_H
#define ONCEPAY_PIPELINE_BUS_H

#include "pipeline/base.h"

struct bus;
struct bus_consumer;

struct bus_header {
    const char *name; /* lower case */
    const char *value;
};

/* A message in hand. Valid until it is disposed of (ack, nak, term). */
struct bus_message {
    const char *subject;
    struct span body;
    const struct bus_header *headers;
    size_t header_count;
    uint64_t stream_sequence;
    uint64_t deliveries;     /* hint only, never an attempt count (protocol H6) */
    int64_t stored_at_us;    /* the server's time of storing, microseconds since the epoch */
    void *handle;            /* the adapter's own */
};

/* Case-folded look-up; NULL when absent. */
const char *bus_message_header(const struct bus_message *message, const char *name);

struct bus_outgoing {
    const char *subject;
    struct span body;
    const struct bus_header *headers;
    size_t header_count;
    const char *message_id; /* Nats-Msg-Id; NULL for core publishes */
};

#endif
