/*
 * stages/relay/relay_sweep.h: which commands of one subject are emitted again, and how far its mark
 * moves (protocol H1). Pure. The mark moves over what was looked at: a command that moved its work,
 * or that was just emitted anew. It stops before the first one whose message may still be left in
 * the stream, so that a queue that is merely long is not doubled.
 */
#ifndef ONCEPAY_STAGES_RELAY_RELAY_SWEEP_H
#define ONCEPAY_STAGES_RELAY_RELAY_SWEEP_H

#include "pipeline/base.h"

struct relay_sweep_row {
    int64_t created_us;
    bool is_unmoved; /* what it names stands where it stood */
    bool is_emitted; /* the answer */
};

struct relay_sweep {
    struct relay_sweep_row *rows; /* by created_us */
    size_t count;
    bool is_full;       /* the page held no more: there may be further rows */
    int64_t horizon_us; /* rows up to this moment were asked for */
    int64_t
        /* when the oldest command was written whose message is left; INT64_MAX: none */
        oldest_left_us;
    size_t allowance; /* how many may be emitted now; rows of one moment are not parted */
};

struct relay_sweep_end {
    int64_t mark_us;
    size_t emitted;
    bool is_held; /* a row was kept for later, … */
    bool is_left; /* … because its message may be left */
};

/*
 * Which messages of a consumer somebody will still get. After a kill a 2.9 server can wait for ever
 * for the ack of a message that it no longer has; a message may also be handed back for ever. What
 * had been delivered when the ack floor stood still for two ack waits is not waited for any more:
 * a command that comes twice is a no-op, one that never comes is a payment without an owner.
 */
struct relay_standstill {
    uint64_t floor;     /* the ack floor when it was last seen to move … */
    uint64_t delivered; /* … what had been delivered then … */
    int64_t since_us;   /* … and when that was (monotonic); 0: never asked */
    uint64_t given_up;  /* up to here nothing is waited for */
};
/* The sequence from which on a stored message is left for somebody. */
uint64_t relay_standstill_left_from(struct relay_standstill *still, uint64_t ack_floor,
                                    uint64_t delivered, int64_t now_us, int64_t limit_us);

struct relay_sweep_end relay_sweep_decide(struct relay_sweep *sweep);

/* Is there a row for which oldest_left_us matters? Otherwise nobody needs to ask the stream. */
bool relay_sweep_has_unmoved(const struct relay_sweep *sweep);

#endif
