/* stages/psp_loop.c: see psp_loop.h. */
#include "stages/psp_loop.h"

#include "pipeline/clock.h"

static void make_room(struct psp_loop *loop, size_t more)
{
    if (loop->count + more <= loop->size) return;
    loop->size = (loop->count + more) * 2;
    loop->descriptors = memory_resize(loop->descriptors, loop->size * sizeof *loop->descriptors);
}

void psp_loop_begin(struct psp_loop *loop, const struct stage *stage)
{
    loop->count = 0;
    loop->wake_us = clock_monotonic_us() + BUS_TICK_MS * CLOCK_MILLISECOND_US;
    make_room(loop, 1);
    loop->descriptors[loop->count++] =
        (struct pollfd){ .fd = bus_fd(stage->bus), .events = POLLIN };
}

void psp_loop_add(struct psp_loop *loop, struct psp_lane *lane)
{
    make_room(loop, PSP_LANE_FDS);
    loop->count += psp_lane_poll(lane, loop->descriptors + loop->count, &loop->wake_us);
}

void psp_loop_wake(struct psp_loop *loop, int64_t at_us)
{
    if (at_us < loop->wake_us) loop->wake_us = at_us;
}

void psp_loop_wait(struct psp_loop *loop, struct stage *stage)
{
    const int64_t left_us = loop->wake_us - clock_monotonic_us();
    const int timeout_ms = left_us <= 0 ? 0 : (int)((left_us + 999) / 1000);
    (void)poll(loop->descriptors, (nfds_t)loop->count, timeout_ms);
    bus_wakeup_clear(stage->bus);
}

void psp_loop_finish(struct psp_loop *loop)
{
    free(loop->descriptors);
    *loop = (struct psp_loop){ 0 };
}
