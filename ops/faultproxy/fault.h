/*
 * ops/faultproxy/fault.h: what a pair of the proxy does to its connections now, and what it has done
 * so far. Durations are drawn per pair from the seed, so that a schedule draws the same ones again;
 * which bytes they meet is up to the kernel.
 */
#ifndef ONCEPAY_FAULTPROXY_FAULT_H
#define ONCEPAY_FAULTPROXY_FAULT_H

#include "pipeline/base.h"

/* 0: off. */
struct fault_settings {
    int64_t latency_ms;        /* each chunk is passed on that much later … */
    int64_t jitter_ms;         /* … and up to this more; order within a connection stays */
    int64_t rate_bytes_s;      /* slow: each direction of a connection */
    int64_t slice_bytes;       /* at most so many bytes in a segment */
    int64_t break_after_bytes; /* a connection is reset after 1 to so many bytes, in mid-message */
    int64_t stall;             /* nothing is passed on; connections stand */
    int64_t half_open;         /* the server's side is gone, the client's never hears of it */
    int64_t refuse;            /* nobody listens */
};

/* How often each really happened. */
struct fault_counts {
    uint64_t connections;
    uint64_t bytes;
    uint64_t delayed;   /* chunks */
    uint64_t slowed;    /* writes that waited for the rate */
    uint64_t sliced;    /* writes shorter than what there was */
    uint64_t broken;    /* connections reset in mid-message */
    uint64_t stalled;   /* connections that had to wait, and those dropped while they waited */
    uint64_t half_open; /* connections whose other side was gone */
    uint64_t swallowed; /* bytes sent into such connections */
    uint64_t refusing;  /* times that nobody listened */
    uint64_t cut;       /* connections ended on command */
    uint64_t unreached; /* connections whose server did not accept */
};

/* "latency_ms=20"; false: no such setting, or no number from 0 to 10^9. */
bool fault_set(struct fault_settings *settings, const char *assignment) MUST_CHECK;

/* A number from 0 to limit - 1. limit is at least 1. */
uint64_t fault_draw(uint64_t *state, uint64_t limit);
/* Where a pair's draws begin. */
uint64_t fault_seed(uint64_t seed, const char *name);

/* The counts as one JSON object. */
void fault_print(const struct fault_counts *counts, FILE *out);

#endif
