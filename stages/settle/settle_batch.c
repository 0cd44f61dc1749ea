/* stages/settle/settle_batch.c: see settle_batch.h. */
#include "stages/settle/settle_batch.h"

#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/settle/settle_view.h"
#include "store/stray_fact.h"

enum {
    ROUNDS_MAX =
        5, /* of reading again after a lost race; then the rest is handed back for a moment */
    LOST_DELAY_MS = 200,
    MISSING_DELAY_MS = 1000,
};

/* An item with what was read about it and decided. */
struct docket {
    struct stage_item *item;
    struct settle_facts facts;
    struct settle_decision decision;
    bool is_open; /* lost a race: another round */
};

static const struct psp_capability *capability_of(const struct settle *settle, const char *account)
{
    for (size_t i = 0; account != NULL && i < settle->account_count; i++) {
        if (strcmp(settle->accounts[i].id, account) == 0) return settle->accounts[i].capability;
    }
    return NULL;
}

/* Deciding ------------------------------------------------------------------------------------ */

static void dispose_missing(const struct settle *settle, struct docket *docket)
{
    struct stage_item *item = docket->item;
    const int64_t age_us = docket->facts.around.now_us - item->message->stored_at_us;
    item->verdict = "missing";
    if (age_us < settle->give_up_after_us) {
        item->disposal = STAGE_HAND_BACK;
        item->delay_ms = stage_jitter_ms(MISSING_DELAY_MS);
        return;
    }
    item->disposal = STAGE_DEAD_LETTER;
    item->with_case = true;
    item->problem = (struct problem){ PROBLEM_PAYMENT_NOT_FOUND, NULL, docket->decision.why };
}

static void dispose_foreign(struct stage_item *item)
{
    item->verdict = "foreign";
    item->disposal = STAGE_DEAD_LETTER;
    item->with_case = true;
    item->problem = (struct problem){ PROBLEM_NOT_SUPPORTED, NULL, "not a command to settle" };
}

static void decide(const struct settle *settle, struct docket *docket)
{
    const struct settle_rules rules = {
        .capability = capability_of(settle, docket->facts.attempt.channel_account),
        .call_limit_us = settle->call_limit_us,
        .late_arrival_extra_s = settle->late_arrival_extra_s,
    };
    docket->decision = settle_decide(docket->item->command.kind, &docket->facts, &rules);
    docket->item->disposal = STAGE_DONE;
    switch (docket->decision.action) {
    case SETTLE_NOTHING:
        docket->item->verdict = docket->decision.why;
        return;
    case SETTLE_MOVE:
    case SETTLE_STRAY:
        docket->item->verdict =
            docket->decision.action == SETTLE_STRAY ? "stray" : docket->decision.history_event;
        docket->is_open = true;
        return;
    case SETTLE_MISSING:
        dispose_missing(settle, docket);
        return;
    }
    UNREACHABLE("settle action out of range");
}

/* Reads and decides the open dockets afresh; those that wait for a write stay open. */
static enum status hear(const struct settle *settle, struct docket *const *open, size_t count,
                        struct arena *arena)
{
    const struct command **commands = arena_allocate(arena, count * sizeof *commands);
    struct settle_facts *facts = arena_allocate(arena, count * sizeof *facts);
    for (size_t i = 0; i < count; i++) commands[i] = &open[i]->item->command;
    TRY(settle_read(settle->store, commands, count, arena, facts));
    for (size_t i = 0; i < count; i++) {
        open[i]->facts = facts[i];
        open[i]->is_open = false;
        decide(settle, open[i]);
    }
    return STATUS_OK;
}

/* Writing ------------------------------------------------------------------------------------- */

static void make_move(const struct docket *docket, struct arena *arena, struct settle_move *out)
{
    const struct settle_decision *decision = &docket->decision;
    const struct settle_attempt *attempt = &docket->facts.attempt;
    *out = (struct settle_move){
        .payment = &docket->facts.payment,
        .next_status = decision->next_status,
        .certainty = decision->certainty,
        .reason = decision->reason,
        .announced = decision->announced,
        .authorised_minor = decision->authorised_minor,
        .captured_minor = decision->captured_minor,
        .next_action = settle_next_action(&docket->facts, decision, arena),
        .history_event = decision->history_event,
        .why = decision->why,
        .hold = decision->hold,
        .around = &docket->facts.around,
    };
    if (decision->is_applied) {
        out->applied_attempt = attempt->id;
        out->applied_version = attempt->version;
        out->evidence = attempt->evidence;
    }
    if (decision->lift_hold_us > 0) {
        out->timer = uuid_new();
        out->timer_due_us = decision->lift_hold_us;
    }
    if (decision->event != 0) {
        struct payment_event *event = arena_allocate(arena, sizeof *event);
        *event = settle_event(&docket->facts, decision, out->next_action, arena);
        out->event = event;
    }
}

static void log_outcome(const struct docket *docket)
{
    const struct settle_facts *facts = &docket->facts;
    const struct settle_decision *decision = &docket->decision;
    LOG_INFO(decision->history_event, LOG_ID("payment", facts->payment.id.uuid),
             LOG_ID("attempt", facts->attempt.id.uuid),
             LOG_TEXT("account", facts->attempt.channel_account),
             LOG_TEXT("from", payment_state_name((int)facts->payment.status)),
             LOG_TEXT("to", payment_state_name((int)decision->next_status)),
             LOG_TEXT("why", decision->why),
             LOG_TEXT("source", evidence_source_name(facts->attempt.evidence_source)),
             LOG_TEXT("hold", decision->hold), LOG_TEXT("traceparent", facts->payment.traceparent));
}

static enum status write_moves(const struct settle *settle, struct docket *const *open,
                               size_t count, struct arena *arena, struct settle_news *news)
{
    struct settle_move *moves = arena_allocate(arena, (count + 1) * sizeof *moves);
    struct docket **movers = arena_allocate(arena, (count + 1) * sizeof *movers);
    bool *moved = arena_allocate(arena, (count + 1) * sizeof *moved);
    size_t move_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!open[i]->is_open || open[i]->decision.action != SETTLE_MOVE) continue;
        movers[move_count] = open[i];
        make_move(open[i], arena, &moves[move_count++]);
    }
    if (move_count == 0) return STATUS_OK;
    const enum status status =
        settle_write(settle->store, moves, move_count, settle->actor, arena, moved);
    if (status == STATUS_LOST_RACE) return STATUS_OK; /* nothing was written: all stay open */
    TRY(status);
    for (size_t i = 0; i < move_count; i++) {
        if (!moved[i]) continue;
        movers[i]->is_open = false;
        news->has_events = news->has_events || moves[i].event != NULL;
        log_outcome(movers[i]);
    }
    return STATUS_OK;
}

static struct stray_fact_input stray_input(const struct settle *settle, const struct docket *docket)
{
    const struct settle_attempt *attempt = &docket->facts.attempt;
    const char *object = attempt->provider_object;
    return (struct stray_fact_input){
        .id = uuid_new(),
        .case_id = { uuid_new() },
        .case_event = { uuid_new() },
        .kind = docket->decision.stray,
        .payment = docket->facts.payment.id,
        .attempt = attempt->id,
        .channel_account = attempt->channel_account,
        /* A success whose object nobody told is at least the one under our reference. */
        .provider_object = object != NULL ? object : attempt->provider_key,
        .has_amount = true,
        .amount = attempt->has_evidence_amount ? attempt->evidence_amount : attempt->amount,
        .evidence = attempt->evidence,
        .applied_version = attempt->version,
        .actor = settle->actor,
    };
}

static void note_stray(const struct docket *docket, const struct stray_fact_outcome *outcome,
                       struct arena *arena, struct settle_news *news)
{
    if (!outcome->is_new) return;
    metrics_add(METRIC_STRAY_FACTS, 1, METRICS_LABELS(stray_kind_name((int)outcome->kind)));
    LOG_WARNING("stray fact", LOG_ID("payment", docket->facts.payment.id.uuid),
                LOG_ID("attempt", docket->facts.attempt.id.uuid),
                LOG_TEXT("account", docket->facts.attempt.channel_account),
                LOG_TEXT("kind", stray_kind_name((int)outcome->kind)));
    news->has_events = true;
    struct command *all =
        arena_allocate(arena, (news->command_count + outcome->command_count + 1) * sizeof *all);
    if (news->command_count > 0) memcpy(all, news->commands, news->command_count * sizeof *all);
    if (outcome->command_count > 0) {
        memcpy(all + news->command_count, outcome->commands, outcome->command_count * sizeof *all);
    }
    news->commands = all;
    news->command_count += outcome->command_count;
}

static enum status write_strays(const struct settle *settle, struct docket *const *open,
                                size_t count, struct arena *arena, struct settle_news *news)
{
    for (size_t i = 0; i < count; i++) {
        if (!open[i]->is_open || open[i]->decision.action != SETTLE_STRAY) continue;
        const struct stray_fact_input input = stray_input(settle, open[i]);
        struct stray_fact_outcome outcome;
        const enum status status = stray_fact_write(settle->store, &input, arena, &outcome);
        if (status == STATUS_LOST_RACE) continue; /* another round */
        TRY(status);
        open[i]->is_open = false;
        note_stray(open[i], &outcome, arena, news);
    }
    return STATUS_OK;
}

/* Keeps the open dockets in front. */
static size_t still_open(struct docket **open, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (open[i]->is_open) open[left++] = open[i];
    }
    return left;
}

enum status settle_batch_run(const struct settle *settle, struct stage_item *const *items,
                             size_t count, struct arena *arena, struct settle_news *out_news)
{
    *out_news = (struct settle_news){ 0 };
    struct docket *dockets = arena_allocate(arena, (count + 1) * sizeof *dockets);
    struct docket **open = arena_allocate(arena, (count + 1) * sizeof *open);
    size_t open_count = 0;
    for (size_t i = 0; i < count; i++) {
        dockets[i].item = items[i];
        const enum command_kind kind = items[i]->command.kind;
        if (kind == COMMAND_SETTLE || kind == COMMAND_NO_ROUTE) {
            open[open_count++] = &dockets[i];
        } else {
            dispose_foreign(items[i]);
        }
    }
    for (int round = 0; open_count > 0 && round < ROUNDS_MAX; round++) {
        TRY(hear(settle, open, open_count, arena));
        TRY(write_moves(settle, open, open_count, arena, out_news));
        TRY(write_strays(settle, open, open_count, arena, out_news));
        open_count = still_open(open, open_count);
    }
    for (size_t i = 0; i < open_count; i++) {
        open[i]->item->disposal = STAGE_HAND_BACK;
        open[i]->item->delay_ms = stage_jitter_ms(LOST_DELAY_MS);
        open[i]->item->verdict = "lost_race";
    }
    return STATUS_OK;
}
