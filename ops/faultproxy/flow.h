/*
 * ops/faultproxy/flow.h: one direction of a connection: what was read from one side waits here until
 * latency, rate and slices let it go to the other. Order is kept, and nothing is lost here: a fault
 * that loses bytes ends the connection.
 */
#ifndef ONCEPAY_FAULTPROXY_FLOW_H
#define ONCEPAY_FAULTPROXY_FLOW_H

#include "ops/faultproxy/fault.h"

struct chunk;

/* Zeroed is empty. */
struct flow {
    struct chunk *first;
    struct chunk *last;
    size_t waiting_bytes;
    int64_t last_due_us;   /* of what was read last: order stays */
    int64_t next_write_us; /* the rate and slices allow the next write then */
    bool is_ended;         /* its source sent FIN */
    bool is_passed_on;     /* … and so did we */
};

/* What reading or writing came to. */
enum flow_step {
    FLOW_MOVED = 0, /* or there was nothing to move */
    FLOW_BROKEN,    /* the socket has failed */
};

/* What a flow needs to know of its pair. */
struct flow_rules {
    const struct fault_settings *settings;
    struct fault_counts *counts;
    uint64_t *draws;
};

bool flow_has_room(const struct flow *flow);
/* Reads once what is there. */
enum flow_step flow_read(struct flow *flow, int fd, const struct flow_rules *rules, int64_t now_us);
/* Writes what is due, as much as the socket takes; passes the FIN on when all is written. */
enum flow_step flow_write(struct flow *flow, int fd, const struct flow_rules *rules,
                          int64_t now_us);
/* When something can be written at the earliest; INT64_MAX: nothing waits. */
int64_t flow_due_us(const struct flow *flow);
void flow_finish(struct flow *flow);

#endif
