/* stages/budget.c: see budget.h. */
#include "stages/budget.h"

#define MICRO INT64_C(1000000)

void budget_init(struct budget *budget, int64_t per_s, int64_t concurrent_max, int64_t now_us)
{
    INVARIANT(per_s > 0 && per_s < INT64_MAX / MICRO && concurrent_max > 0);
    *budget = (struct budget){
        .per_s = per_s,
        .concurrent_max = concurrent_max,
        .tokens_micro = per_s * MICRO,
        .refilled_us = now_us,
    };
}

static void refill(struct budget *budget, int64_t now_us)
{
    int64_t elapsed_us = now_us - budget->refilled_us;
    if (elapsed_us <= 0) return;
    if (elapsed_us > MICRO) elapsed_us = MICRO; /* the bucket holds one second */
    budget->refilled_us = now_us;
    budget->tokens_micro += elapsed_us * budget->per_s;
    if (budget->tokens_micro > budget->per_s * MICRO) budget->tokens_micro = budget->per_s * MICRO;
}

size_t budget_available(struct budget *budget, int64_t now_us)
{
    refill(budget, now_us);
    const int64_t by_rate = budget->tokens_micro / MICRO;
    const int64_t by_slots = budget->concurrent_max - budget->concurrent;
    const int64_t available = by_rate < by_slots ? by_rate : by_slots;
    return available > 0 ? (size_t)available : 0;
}

void budget_take(struct budget *budget, size_t count)
{
    budget->tokens_micro -= (int64_t)count * MICRO;
    budget->concurrent += (int64_t)count;
    INVARIANT(budget->tokens_micro >= 0 && budget->concurrent <= budget->concurrent_max);
}

void budget_release(struct budget *budget, bool give_back)
{
    INVARIANT(budget->concurrent > 0);
    budget->concurrent--;
    if (give_back) budget->tokens_micro += MICRO;
}

int64_t budget_next_us(struct budget *budget, int64_t now_us)
{
    refill(budget, now_us);
    if (budget->tokens_micro >= MICRO) return now_us;
    return now_us + (MICRO - budget->tokens_micro) / budget->per_s + 1;
}
