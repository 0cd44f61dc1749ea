/* tests/simulation/db_attempt.c: attempt_fence.sql, attempt_load.sql, attempt_result.sql, … */
#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"

static const struct evidence_id NO_EVIDENCE = { { { 0 } } };

static void add_request(struct world *world, struct request_id id, size_t attempt,
                        enum request_kind kind, int64_t send_by_us)
{
    struct database *database = world->database;
    const size_t at =
        database_room(world, &database->request_count, REQUESTS_MAX, "attempt_request");
    database->requests[at] = (struct stored_request){ .id = id,
                                                      .attempt = attempt,
                                                      .kind = kind,
                                                      .send_by_us = send_by_us,
                                                      .started_us = world->now_us,
                                                      .worker = database->writer };
    check_request_row(world, attempt, kind);
}

/* --- the fence -------------------------------------------------------------------------------- */

static enum fence_outcome fence_outcome_of(struct world *world,
                                           const struct stored_attempt *attempt, size_t account)
{
    const struct database *database = world->database;
    const struct payment_row *payment = &database->payments[attempt->payment];
    const size_t task = database_task_of(database, (size_t)(attempt - database->attempts));
    const size_t target =
        database_target(database, payment->merchant, payment->target_kind, payment->target_id);
    const bool is_created =
        attempt->status == ATTEMPT_CREATED ||
        (world->mutant == MUTANT_SENDING_IS_TAKEN_OVER && attempt->status == ATTEMPT_SENDING);
    if (!is_created || attempt->account != account) return FENCE_NOT_CREATED;
    if (task != SIZE_MAX && database->tasks[task].due_us > world->now_us) return FENCE_NOT_CREATED;
    if (world->mutant == MUTANT_BELIEVE_MESSAGE) return FENCE_SENDING;
    if (payment->status != PAYMENT_AUTHORIZING) return FENCE_NOT_AUTHORIZING;
    if (payment->start_by_us <= world->now_us ||
        (payment->expires_at_us != 0 && payment->expires_at_us <= world->now_us)) {
        return FENCE_EXPIRED;
    }
    if (target != SIZE_MAX && database->targets[target].hold != NULL) return FENCE_HELD;
    return FENCE_SENDING;
}

void db_attempt_fence(struct world *world, struct attempt_id id, struct request_id request,
                      size_t account, int64_t send_by_us, struct fence_row *out)
{
    struct database *database = world->database;
    *out = (struct fence_row){ .attempt = id };
    const size_t attempt = database_attempt(database, id);
    if (attempt == SIZE_MAX) return;
    struct stored_attempt *row = &database->attempts[attempt];
    const struct payment_row *payment = &database->payments[row->payment];
    *out = (struct fence_row){
        .attempt = id,
        .payment = payment->id,
        .outcome = fence_outcome_of(world, row, account),
        .version = row->version,
        .request = request,
        .provider_key = row->provider_key,
        .amount = payment->amount,
        .method_type = payment->method_type,
        .merchant = payment->merchant,
    };
    if (out->outcome != FENCE_SENDING || world->mutant == MUTANT_SKIP_FENCE) return;
    row->certainty = CERTAINTY_UNKNOWN;
    if (row->first_sent_us == 0) row->first_sent_us = world->now_us;
    if (row->status == ATTEMPT_CREATED)
        database_move_attempt(world, attempt, ATTEMPT_SENDING, "fence", NO_EVIDENCE);
    out->version = row->version;
    add_request(world, request, attempt, REQUEST_CREATE, send_by_us);
    const size_t task = database_task_of(database, attempt);
    if (task != SIZE_MAX) database_move_task(world, task, TASK_RESOLVED);
}

void db_fence_batch(struct world *world, struct uuid id, size_t account,
                    const struct fence_row *rows, size_t count, int64_t due_us)
{
    struct database *database = world->database;
    struct stored_fence fence = {
        .id = id, .account = account, .created_us = world->now_us, .due_us = due_us
    };
    for (size_t i = 0; i < count; i++) {
        if (rows[i].outcome == FENCE_SENDING)
            fence.attempts[fence.count++] = database_attempt(database, rows[i].attempt);
    }
    if (fence.count == 0 || world->mutant == MUTANT_SKIP_FENCE) return;
    const size_t at = database_room(world, &database->fence_count, FENCES_MAX, "fence_batch");
    database->fences[at] = fence;
}

void db_fence_done(struct world *world, struct uuid id)
{
    struct database *database = world->database;
    for (size_t i = 0; i < database->fence_count; i++) {
        if (uuid_equal(database->fences[i].id, id)) database->fences[i].is_gone = true;
    }
}

/* The create request that SENDING stands for; NULL if there is none. */
static const struct stored_request *last_create(const struct database *database, size_t attempt)
{
    const struct stored_request *last = NULL;
    for (size_t i = 0; i < database->request_count; i++) {
        const struct stored_request *row = &database->requests[i];
        if (row->attempt == attempt && row->kind == REQUEST_CREATE) last = row;
    }
    return last;
}

size_t db_fence_claim(struct world *world, size_t account, int64_t lease_us,
                      struct claimed_fence *out, size_t limit)
{
    struct database *database = world->database;
    size_t count = 0;
    for (size_t i = 0; i < database->fence_count && count < limit; i++) {
        struct stored_fence *fence = &database->fences[i];
        if (fence->is_gone || fence->account != account || fence->due_us > world->now_us) continue;
        fence->due_us = world->now_us + lease_us;
        struct claimed_fence *claimed = &out[count++];
        *claimed = (struct claimed_fence){ .id = fence->id };
        for (size_t k = 0; k < fence->count; k++) {
            const struct stored_attempt *attempt = &database->attempts[fence->attempts[k]];
            const struct stored_request *request = last_create(database, fence->attempts[k]);
            if (attempt->status != ATTEMPT_SENDING || request == NULL ||
                request->started_us > fence->created_us) {
                continue;
            }
            claimed->attempts[claimed->count] = attempt->id;
            claimed->requests[claimed->count++] = request->id;
        }
    }
    return count;
}

/* --- local ends ------------------------------------------------------------------------------- */

static void add_evidence(struct world *world, struct stored_evidence row)
{
    struct database *database = world->database;
    if (database_evidence(database, row.id) != NULL) return; /* ON CONFLICT DO NOTHING */
    const size_t at = database_room(world, &database->evidence_count, EVIDENCE_MAX, "evidence");
    row.at_us = world->now_us;
    database->evidence[at] = row;
}

int32_t db_attempt_fail_local(struct world *world, const struct local_end *end)
{
    struct database *database = world->database;
    const size_t attempt = database_attempt(database, end->attempt);
    struct stored_attempt *row = attempt == SIZE_MAX ? NULL : &database->attempts[attempt];
    if (row == NULL || row->status != ATTEMPT_CREATED) return 0;
    add_evidence(world, (struct stored_evidence){ .id = end->evidence,
                                                  .attempt = attempt,
                                                  .observation = { .kind = OBSERVED_UNSENT,
                                                                   .source = SOURCE_LOCAL,
                                                                   .phase = PHASE_LOCAL,
                                                                   .error_code = end->reason },
                                                  .proves = CERTAINTY_NO_SIDE_EFFECT });
    row->certainty = CERTAINTY_NO_SIDE_EFFECT;
    row->evidence = end->evidence;
    row->error_code = end->reason;
    database_move_attempt(world, attempt, ATTEMPT_FAILED, "local.failed", end->evidence);
    const size_t task = database_task_of(database, attempt);
    if (task != SIZE_MAX) database_move_task(world, task, TASK_RESOLVED);
    database_command(world, end->command, COMMAND_SETTLE, STREAM_SETTLE, row->id.uuid, row->version,
                     row->payment);
    world_reach(world, REACHED_ENDED_LOCAL);
    return row->version;
}

/* --- results ---------------------------------------------------------------------------------- */

bool db_attempt_load(struct world *world, struct attempt_id id, struct request_id except,
                     struct attempt_row *out)
{
    const struct database *database = world->database;
    const size_t attempt = database_attempt(database, id);
    if (attempt == SIZE_MAX) return false;
    const struct stored_attempt *row = &database->attempts[attempt];
    const struct payment_row *payment = &database->payments[row->payment];
    const bool keeps = world->bank->capability.keeps_failures_under_key;
    const struct request_sums sums = database_requests_of(database, attempt, except, keeps);
    const size_t task = database_task_of(database, attempt);
    const struct stored_evidence *proof = database_evidence(database, row->evidence);
    *out = (struct attempt_row){
        .attempt = row->id,
        .payment = payment->id,
        .account = world->parts->accounts[row->account].id,
        .state = row->status,
        .certainty = row->certainty,
        .version = row->version,
        .amount = payment->amount,
        .provider_key = row->provider_key,
        .provider_object = row->provider_object,
        .handed_out = row->handed_out,
        .reason = row->error_code,
        .first_sent_us = row->first_sent_us,
        .prior = sums.open > 0,
        .answered_under_key = sums.is_answered,
        .last_request_end_us = sums.last_send_by_us == 0 ? 0 : sums.last_send_by_us + CALL_LIMIT_US,
        .success_at_us = row->status == ATTEMPT_SUCCEEDED && proof != NULL
                             ? proof->observation.observed_at_us
                             : 0,
        .payment_state = payment->status,
        .merchant = payment->merchant,
        .expires_at_us = payment->expires_at_us,
        .method_type = payment->method_type,
        .now_us = world->now_us,
    };
    if (task != SIZE_MAX) {
        out->task = database->tasks[task].id;
        out->task_version = database->tasks[task].version;
    }
    return true;
}

static void add_object(struct world *world, size_t account, const char *object, size_t attempt)
{
    struct database *database = world->database;
    for (size_t i = 0; i < database->object_count; i++) {
        const struct provider_object_row *row = &database->objects[i];
        if (row->account == account && row->attempt == attempt && strcmp(row->object, object) == 0)
            return;
    }
    const size_t at = database_room(world, &database->object_count, COUNT_OF(database->objects),
                                    "provider_object");
    database->objects[at] = (struct provider_object_row){ account, object, attempt };
}

static void add_task(struct world *world, const struct task_birth *birth, size_t attempt)
{
    struct database *database = world->database;
    if (database_task_of(database, attempt) != SIZE_MAX) return;
    const size_t at = database_room(world, &database->task_count, TASKS_MAX, "recovery_task");
    const bool is_escalated = birth->due_ms < 0;
    database->tasks[at] = (struct stored_task){
        .id = birth->id,
        .attempt = attempt,
        .purpose = birth->purpose,
        .status = is_escalated ? TASK_ESCALATED : TASK_READY,
        .due_us = is_escalated ? INT64_MAX : world->now_us + birth->due_ms * 1000,
        .stored_error = birth->stored_error,
        .is_escalated = is_escalated,
        .first_unknown_us = world->now_us,
        .version = 1,
    };
}

static void move_by_outcome(struct world *world, size_t attempt,
                            const struct attempt_outcome *outcome)
{
    struct database *database = world->database;
    struct stored_attempt *row = &database->attempts[attempt];
    const struct observation *observation = &outcome->observation;
    row->certainty = outcome->verdict.certainty;
    if (outcome->verdict.proves != 0) row->evidence = outcome->evidence;
    if (row->provider_object == NULL) row->provider_object = observation->provider_object;
    if (outcome->reason != NULL) row->error_code = outcome->reason;
    if (observation->decline != DECLINE_NONE) row->decline = observation->decline;
    row->handed_out = row->handed_out || observation->handed_out;
    database_move_attempt(world, attempt, outcome->verdict.next_state, outcome->event,
                          outcome->evidence);
    if (observation->provider_object != NULL)
        add_object(world, row->account, observation->provider_object, attempt);
    if (!uuid_is_nil(outcome->command.uuid)) {
        database_command(world, outcome->command, COMMAND_SETTLE, STREAM_SETTLE, row->id.uuid,
                         row->version, row->payment);
    }
    if (!uuid_is_nil(outcome->task.id.uuid) && world->mutant != MUTANT_WAIT_IN_MESSAGE)
        add_task(world, &outcome->task, attempt);
    const size_t task = database_task_of(database, attempt);
    if (task != SIZE_MAX && attempt_state_is_terminal(row->status))
        database_move_task(world, task, TASK_RESOLVED);
}

/* The mutant's: history for a row that the CAS did not move. */
static void add_loser_history(struct world *world, const struct attempt_outcome *outcome,
                              const struct stored_attempt *row)
{
    struct database *database = world->database;
    const size_t at = database_room(world, &database->history_count, HISTORY_MAX, "state_history");
    database->history[at] = (struct history_row){ .entity = ENTITY_ATTEMPT,
                                                  .id = row->id.uuid,
                                                  .payment = row->payment,
                                                  .version = outcome->version + 1,
                                                  .from = (int)outcome->from,
                                                  .to = (int)outcome->verdict.next_state,
                                                  .event = outcome->event };
}

/* The task is as it was judged: nobody claimed it for a further request. */
static bool task_stands(const struct world *world, size_t attempt,
                        const struct attempt_outcome *outcome)
{
    const struct database *database = world->database;
    const size_t task = database_task_of(database, attempt);
    if (outcome->task_version == 0 || world->mutant == MUTANT_CLAIM_UNSEEN) return true;
    return task != SIZE_MAX && database->tasks[task].version == outcome->task_version;
}

/* B1: where failures are not kept, no decline ends what an open request may have reached. */
static void check_end(struct world *world, size_t attempt, const struct attempt_outcome *outcome)
{
    const struct request_sums sums =
        database_requests_of(world->database, attempt, outcome->request, false);
    if (outcome->verdict.certainty == CERTAINTY_DEFINITE_FAILURE &&
        !world->bank->capability.keeps_failures_under_key && sums.open > 0) {
        world_fail(world, "B1", "attempt %s ends by a decline, and a request of it is open",
                   world_short(world, outcome->attempt.uuid));
    }
}

enum status db_attempt_result(struct world *world, const struct attempt_outcome *outcome,
                              int32_t *out_version)
{
    *out_version = 0;
    struct database *database = world->database;
    const size_t attempt = database_attempt(database, outcome->attempt);
    INVARIANT(attempt != SIZE_MAX);
    struct stored_attempt *row = &database->attempts[attempt];
    const bool has_won = outcome->verdict.changes && row->version == outcome->version &&
                         row->status == outcome->from;
    if (has_won && !task_stands(world, attempt, outcome)) return STATUS_LOST_RACE;
    if (world->mutant == MUTANT_LOSER_EVIDENCE && outcome->verdict.changes && !has_won)
        return STATUS_OK;
    add_evidence(world, (struct stored_evidence){ .id = outcome->evidence,
                                                  .attempt = attempt,
                                                  .request = outcome->request,
                                                  .observation = outcome->observation,
                                                  .proves = outcome->verdict.proves,
                                                  .closure = outcome->closure });
    const bool moves =
        has_won || (world->mutant == MUTANT_IGNORE_VERSION && outcome->verdict.changes);
    if (!moves) {
        if (world->mutant == MUTANT_LOSER_HISTORY && outcome->verdict.changes)
            add_loser_history(world, outcome, row);
        return STATUS_OK;
    }
    move_by_outcome(world, attempt, outcome);
    check_end(world, attempt, outcome);
    *out_version = row->version;
    return STATUS_OK;
}
