/* tests/simulation/db_task.c: task_*.sql, case_*.sql, timer_lift_hold.sql. */
#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"

static bool is_due(const struct world *world, const struct stored_task *row)
{
    return (row->status == TASK_READY || row->status == TASK_LEASED ||
            row->status == TASK_ESCALATED) &&
           row->due_us <= world->now_us;
}

size_t db_task_due(struct world *world, size_t account, struct task_due *out, size_t limit)
{
    const struct database *database = world->database;
    size_t count = 0;
    for (size_t i = 0; i < database->task_count && count < limit; i++) {
        const struct stored_task *row = &database->tasks[i];
        const struct stored_attempt *attempt = &database->attempts[row->attempt];
        if (attempt->account != account) continue;
        const bool is_held =
            world->mutant == MUTANT_TRUST_LEASE && row->status == TASK_LEASED; /* the mutant's */
        if (!is_due(world, row) && !is_held) continue;
        out[count++] = (struct task_due){ row->id, attempt->id };
    }
    return count;
}

bool db_task_is_locked(const struct world *world, size_t attempt, const struct job *job)
{
    const struct database *database = world->database;
    const size_t task = database_task_of(database, attempt);
    const struct job *lock = task == SIZE_MAX ? NULL : database->tasks[task].locked_by;
    return lock != NULL && lock != job;
}

bool db_task_pick(struct world *world, const struct job *job, struct task_id id,
                  struct task_row *out)
{
    struct database *database = world->database;
    const size_t task = database_task(database, id);
    struct stored_task *row = &database->tasks[task];
    const bool is_held = world->mutant == MUTANT_TRUST_LEASE && row->status == TASK_LEASED;
    if (row->locked_by != NULL || (!is_due(world, row) && !is_held)) return false;
    const struct stored_attempt *attempt = &database->attempts[row->attempt];
    const struct payment_row *payment = &database->payments[attempt->payment];
    const struct request_sums sums =
        database_requests_of(database, row->attempt, (struct request_id){ { { 0 } } },
                             world->bank->capability.keeps_failures_under_key);
    *out = (struct task_row){
        .purpose = row->purpose,
        .claims = row->claims,
        .stored_error = row->stored_error,
        .is_escalated = row->is_escalated,
        .policy_version = world->parts->policy.version,
        .first_unknown_us = row->first_unknown_us,
        .start_by_us = payment->start_by_us,
        .sends = (int32_t)sums.sends,
    };
    (void)db_attempt_load(world, attempt->id, (struct request_id){ { { 0 } } }, &out->attempt);
    out->attempt.task = row->id;
    out->attempt.task_state = row->status;
    out->attempt.task_version = row->version;
    out->attempt.task_step = row->step;
    row->locked_by = job;
    return true;
}

bool db_task_claim(struct world *world, const struct task_claim *claim, int64_t lease_us,
                   int64_t send_by_us, size_t account)
{
    struct database *database = world->database;
    const size_t task = database_task(database, claim->task);
    struct stored_task *row = &database->tasks[task];
    if (row->version != claim->version) return false;
    const bool is_claim = claim->next == TASK_LEASED;
    if (is_claim && row->status == TASK_LEASED && row->due_us > world->now_us)
        world_fail(world, "G", "a task is claimed while its lease runs");
    database_move_task(world, task, claim->next);
    row->claims++;
    if (is_claim) row->due_us = world->now_us + lease_us;
    if (!uuid_is_nil(claim->request.uuid)) {
        const size_t at =
            database_room(world, &database->request_count, REQUESTS_MAX, "attempt_request");
        database->requests[at] = (struct stored_request){ .id = claim->request,
                                                          .attempt = row->attempt,
                                                          .kind = claim->kind,
                                                          .send_by_us = send_by_us,
                                                          .started_us = world->now_us,
                                                          .worker = database->writer };
        check_request_row(world, row->attempt, claim->kind);
        if (claim->kind == REQUEST_REPLAY) world_reach(world, REACHED_REPLAYED);
    }
    if (!uuid_is_nil(claim->command.uuid)) {
        database_command(world, claim->command, COMMAND_CREATE, STREAM_CREATE + account,
                         claim->attempt.uuid, claim->attempt_version,
                         database->attempts[row->attempt].payment);
        world_reach(world, REACHED_RESENT);
    }
    return true;
}

void db_task_schedule(struct world *world, const struct task_schedule *schedule)
{
    struct database *database = world->database;
    const size_t task = database_task(database, schedule->task);
    if (task == SIZE_MAX) return;
    struct stored_task *row = &database->tasks[task];
    if (row->version != schedule->version || row->status != TASK_LEASED) return;
    database_move_task(world, task, schedule->next);
    row->step = schedule->step;
    row->stored_error = row->stored_error || schedule->stored_error;
    if (schedule->has_outcome) row->claims = 0;
    row->due_us = schedule->due_ms < 0 ? INT64_MAX : world->now_us + schedule->due_ms * 1000;
    row->is_escalated = row->is_escalated || schedule->next == TASK_ESCALATED;
}

void db_task_wake(struct world *world, size_t attempt)
{
    struct database *database = world->database;
    const size_t task = database_task_of(database, attempt);
    if (task == SIZE_MAX) return;
    struct stored_task *row = &database->tasks[task];
    const bool waits = row->status == TASK_READY || row->status == TASK_ESCALATED;
    if (!waits || row->due_us <= world->now_us || row->due_us == INT64_MAX) return;
    row->due_us = world->now_us;
    row->version++;
}

void db_task_resolve(struct world *world, struct task_id id, int32_t version)
{
    struct database *database = world->database;
    const size_t task = database_task(database, id);
    if (task == SIZE_MAX || database->tasks[task].version != version ||
        database->tasks[task].status != TASK_LEASED) {
        return;
    }
    database_move_task(world, task, TASK_RESOLVED);
}

void db_task_confirm(struct world *world, struct task_id id, struct attempt_id attempt_id)
{
    struct database *database = world->database;
    const size_t attempt = database_attempt(database, attempt_id);
    if (database_task_of(database, attempt) != SIZE_MAX) return;
    const size_t at = database_room(world, &database->task_count, TASKS_MAX, "recovery_task");
    database->tasks[at] = (struct stored_task){ .id = id,
                                                .attempt = attempt,
                                                .purpose = TASK_CONFIRM,
                                                .status = TASK_READY,
                                                .due_us = world->now_us,
                                                .first_unknown_us = world->now_us,
                                                .version = 1 };
}

/* --- cases ------------------------------------------------------------------------------------ */

static bool asks_how_it_ends(enum case_kind kind)
{
    return kind == CASE_UNKNOWN || kind == CASE_TASK_PAUSED || kind == CASE_PENDING_TOO_LONG;
}

static void note_case(struct world *world, enum case_kind kind)
{
    if (kind == CASE_UNKNOWN) world_reach(world, REACHED_CASE_UNKNOWN);
    if (kind == CASE_AMOUNT_MISMATCH) world_reach(world, REACHED_MISMATCH);
    if (kind == CASE_UNRECORDED_SEND) world_reach(world, REACHED_UNRECORDED);
    if (kind == CASE_EVIDENCE_CONFLICT) world_reach(world, REACHED_CONFLICT);
}

void db_case_open(struct world *world, const struct case_opening *opening)
{
    struct database *database = world->database;
    const size_t attempt = database_attempt(database, opening->attempt);
    const struct stored_attempt *row = &database->attempts[attempt];
    if (opening->attempt_version != 0 && row->version != opening->attempt_version) return;
    if (asks_how_it_ends(opening->kind) && attempt_state_is_terminal(row->status)) return;
    if (database_has_case(database, attempt, opening->kind)) return;
    const size_t at = database_room(world, &database->case_count, CASES_MAX, "manual_case");
    database->cases[at] = (struct stored_case){
        .id = opening->id, .kind = opening->kind, .payment = row->payment, .attempt = attempt
    };
    world_say(world, "  case %s", case_kind_name((int)opening->kind));
    database->is_dirty = true;
    database->payments[row->payment].is_dirty = true;
    note_case(world, opening->kind);
    database_event(world, opening->event, EVENT_CASE_OPENED, row->payment, 0, false);
}

void db_case_close(struct world *world, const struct case_closing *closing)
{
    struct database *database = world->database;
    const size_t attempt = database_attempt(database, closing->attempt);
    if (!attempt_state_is_terminal(database->attempts[attempt].status)) return;
    bool is_closed = false;
    for (size_t i = 0; i < database->case_count; i++) {
        struct stored_case *row = &database->cases[i];
        if (row->attempt != attempt || row->is_closed || !asks_how_it_ends(row->kind)) continue;
        row->is_closed = is_closed = true;
    }
    if (is_closed) {
        database_event(world, closing->event, EVENT_CASE_CLOSED,
                       database->attempts[attempt].payment, 0, false);
    }
}

/* --- timers ----------------------------------------------------------------------------------- */

void db_timer_lift_hold(struct world *world)
{
    struct database *database = world->database;
    for (size_t i = 0; i < database->payment_count; i++) {
        struct payment_row *row = &database->payments[i];
        if (row->timer_due_us == 0 || row->timer_due_us > world->now_us) continue;
        const size_t target = database_pointer_of(database, i);
        struct stored_target *pointer = target == SIZE_MAX ? NULL : &database->targets[target];
        if (pointer != NULL && pointer->hold != NULL &&
            strcmp(pointer->hold, "late_arrival") == 0) {
            pointer->hold = NULL;
            pointer->version++;
            world_say(world, "  the hold of payment %s is lifted", row->out_trade_no);
            world_reach(world, REACHED_HOLD_LIFTED);
        }
        row->timer_due_us = 0;
    }
}
