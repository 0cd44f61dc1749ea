/*
 * stages/budget.h: how fast and how many at once, for one channel account and class of calls, in
 * this process. Taken before the fence, never after (protocol C2): a fenced attempt is sent at
 * once.
 */
#ifndef ONCEPAY_STAGES_BUDGET_H
#define ONCEPAY_STAGES_BUDGET_H

#include "pipeline/base.h"

struct budget {
    int64_t per_s;
    int64_t concurrent_max;
    int64_t concurrent;   /* calls now */
    int64_t tokens_micro; /* millionths of a call */
    int64_t refilled_us;
};

/* Starts full: one second's worth of calls may go at once. */
void budget_init(struct budget *budget, int64_t per_s, int64_t concurrent_max, int64_t now_us);
/* How many calls may start now. */
size_t budget_available(struct budget *budget, int64_t now_us);
/* Takes count of them; count is at most what budget_available just said. */
void budget_take(struct budget *budget, size_t count);
/* A call ended (its token is spent), or was never started (give_back: it is not). */
void budget_release(struct budget *budget, bool give_back);
/* When one more may start, as far as the rate goes; now_us if at once. */
int64_t budget_next_us(struct budget *budget, int64_t now_us);

#endif
