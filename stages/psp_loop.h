/*
 * stages/psp_loop.h: the one poll() of create and recover: the bus, and every lane's PostgreSQL
 * and HTTP descriptors.
 */
#ifndef ONCEPAY_STAGES_PSP_LOOP_H
#define ONCEPAY_STAGES_PSP_LOOP_H

#include "stages/psp_lane.h"

struct psp_loop {
    struct pollfd *descriptors;
    size_t count;
    size_t size;
    int64_t wake_us;
};

/* A new round: nothing to wait for yet but the bus, at most BUS_TICK_MS. */
void psp_loop_begin(struct psp_loop *loop, const struct stage *stage);
void psp_loop_add(struct psp_loop *loop, struct psp_lane *lane);
/* The owner wants to run at this time (monotonic). */
void psp_loop_wake(struct psp_loop *loop, int64_t at_us);
void psp_loop_wait(struct psp_loop *loop, struct stage *stage);
void psp_loop_finish(struct psp_loop *loop);

#endif
