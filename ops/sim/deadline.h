/*
 * ops/sim/deadline.h: things to do later, in one heap ordered by monotonic milliseconds. The
 * structs are embedded in what waits; equal times fire in the order in which they were armed.
 */
#ifndef ONCEPAY_SIM_DEADLINE_H
#define ONCEPAY_SIM_DEADLINE_H

#include "pipeline/base.h"

/* Zeroed is idle. */
struct deadline {
    int64_t due_ms;
    uint64_t order;
    size_t position; /* in the heap, counted from 1; 0 while idle */
    void (*fire)(void *self);
    void *self;
};

struct deadline_queue {
    struct deadline **heap;
    size_t count;
    size_t capacity;
    uint64_t armed; /* ever */
};

/* An armed deadline is moved to the new time. */
void deadline_arm(struct deadline_queue *queue, struct deadline *deadline, int64_t due_ms);
/* An idle deadline is left as it is. */
void deadline_cancel(struct deadline_queue *queue, struct deadline *deadline);
/* Fires all that are due; each is idle when its function runs and may be armed again or freed. */
void deadline_run(struct deadline_queue *queue, int64_t now_ms);
/* Milliseconds until the next one, at most limit_ms. */
int deadline_wait_ms(const struct deadline_queue *queue, int64_t now_ms, int limit_ms);
void deadline_finish(struct deadline_queue *queue);

#endif
