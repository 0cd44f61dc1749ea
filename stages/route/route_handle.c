/* stages/route/route_handle.c: see route_handle.h. */
#include "stages/route/route_handle.h"

#include "pipeline/clock.h"
#include "stages/route/route_batch.h"

enum { WAIT_MS = 2000 }; /* for room at an account, at most until start_by */

static int64_t wait_ms(const struct route_payment *payment)
{
    const int64_t left_ms = (payment->start_by_us - payment->now_us) / CLOCK_MILLISECOND_US + 1;
    const int64_t delay_ms = stage_jitter_ms(WAIT_MS);
    return left_ms < delay_ms ? left_ms : delay_ms;
}

static void dispose(struct stage *stage, const struct route_item *item)
{
    struct stage_item *stage_item = item->stage_item;
    stage_item->disposal = STAGE_DONE;
    stage_item->verdict = item->decision.reason;
    switch (item->decision.verdict) {
    case ROUTE_NOTHING:
        return;
    case ROUTE_WAIT:
        stage_item->disposal = STAGE_HAND_BACK;
        stage_item->delay_ms = wait_ms(item->payment);
        return;
    case ROUTE_TAKE:
    case ROUTE_DENY:
        stage_announce(stage, item->next_subject, item->next);
        return;
    }
    UNREACHABLE("route verdict out of range");
}

/* Another kind, or an ordinal that cannot be: nobody here writes it, so a person must see it. */
static bool is_ours(struct stage_item *item)
{
    if (item->command.kind == COMMAND_ROUTE && item->command.version >= 0 &&
        item->command.version < INT32_MAX) {
        return true;
    }
    item->disposal = STAGE_DEAD_LETTER;
    item->with_case = true;
    item->problem = (struct problem){ PROBLEM_INTERNAL, NULL, "not a route command" };
    return false;
}

enum status route_handle(struct stage *stage, void *self, struct stage_item *const *items,
                         size_t count, struct arena *arena)
{
    struct stage_item **ours = arena_allocate(arena, count * sizeof *ours);
    struct route_item *decided = NULL;
    size_t ours_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_ours(items[i])) ours[ours_count++] = items[i];
    }
    if (ours_count == 0) return STATUS_OK;
    TRY(route_batch_commit(self, stage->store, stage->actor, ours, ours_count, arena, &decided));
    for (size_t i = 0; i < ours_count; i++) dispose(stage, &decided[i]);
    return STATUS_OK;
}
