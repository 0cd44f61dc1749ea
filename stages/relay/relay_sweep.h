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

struct relay_sweep_end relay_sweep_decide(struct relay_sweep *sweep);

/* Is there a row for which oldest_left_us matters? Otherwise nobody needs to ask the stream. */
bool relay_sweep_has_unmoved(const struct relay_sweep *sweep);

#endif
