/* stages/findings.c: see findings.h. */
#include "stages/findings.h"

#include "pipeline/crash_point.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/findings_outcome.h"
#include "stages/findings_stray.h"
#include "stages/twins.h"
#include "store/task_store.h"

enum {
    ROUNDS_MAX = 5,
    FENCED_VERSION = 2, /* no later one yet: nobody can have opened a case about it */
};

/* One transaction: which findings, and what was made of them. */
struct finding_batch {
    struct findings *findings;
    struct finding **items; /* sorted by attempt */
    struct attempt_outcome *outcomes;
    size_t count;
};

struct finding *finding_create(finding_ended ended, void *owner)
{
    struct finding *finding = memory_allocate(sizeof *finding);
    finding->ended = ended;
    finding->owner = owner;
    finding->evidence.uuid = uuid_new();
    return finding;
}

struct fence_share *fence_share_create(struct uuid fence_batch, size_t attempts)
{
    struct fence_share *share = memory_allocate(sizeof *share);
    *share = (struct fence_share){ fence_batch, attempts, attempts };
    return share;
}

void fence_share_leave(struct fence_share *share)
{
    if (share != NULL && --share->holders == 0) free(share);
}

static void append(struct findings *findings, struct finding *finding)
{
    finding->next = NULL;
    if (findings->last != NULL) {
        findings->last->next = finding;
    } else {
        findings->first = finding;
    }
    findings->last = finding;
    findings->waiting++;
}

void findings_add(struct findings *findings, struct finding *finding)
{
    append(findings, finding);
}

static void end_finding(struct finding *finding)
{
    finding->ended(finding);
    arena_finish(&finding->arena);
    free(finding);
}

bool findings_are_idle(const struct findings *findings)
{
    return findings->first == NULL && !findings->is_writing;
}

void findings_finish(struct findings *findings)
{
    while (findings->first != NULL) {
        struct finding *finding = findings->first;
        findings->first = finding->next;
        arena_finish(&finding->arena);
        free(finding);
    }
    findings->last = NULL;
    findings->waiting = 0;
}

static void judge_finding(const struct findings *findings, struct finding *finding)
{
    struct judge_attempt attempt = attempt_row_judge(&finding->attempt);
    attempt.asked_us = finding->asked_us;
    /* Where failures are not kept, an answer leaves the key free for a late create (C6). */
    if (!findings->psp->capability.keeps_failures_under_key) attempt.key_consumed = false;
    finding->verdict =
        judge(OPERATION_CREATE, &finding->observation, &findings->psp->capability, &attempt);
    /* Judged again it may prove something else: that is a row of its own, the first one stays. */
    if (finding->is_stored && finding->verdict.proves != finding->proves_stored)
        finding->evidence.uuid = uuid_new();
    finding->proves_stored = finding->verdict.proves;
}

/* --- the transaction ----------------------------------------------------------------------- */

/* Tasks under lease whose attempt stays open: when they are due again, and who must be called. */
static void add_schedule(struct store_job *job, const struct finding_batch *batch,
                         struct recovery_next *next)
{
    struct task_schedule *schedules = arena_allocate(&job->arena, batch->count * sizeof *schedules);
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct finding *finding = batch->items[i];
        next[i] = (struct recovery_next){ 0 };
        if (!finding->has_lease || attempt_state_is_terminal(finding->verdict.next_state)) continue;
        struct recovery_view view = finding->view;
        view.attempt_state = finding->verdict.next_state;
        view.mismatch_open = view.mismatch_open || finding->verdict.mismatch != MISMATCH_NONE;
        next[i] = recovery_schedule(finding->rule, &finding->limits, &view,
                                    finding->observation.retry_after_s);
        int64_t due_ms = next[i].due_ms;
        if (due_ms > 0) due_ms = finding->verdict.wants_retrieve ? 0 : stage_spread_ms(due_ms);
        schedules[count++] = (struct task_schedule){
            .task = finding->attempt.task,
            .version = finding->lease_version,
            .next = next[i].state,
            .due_ms = due_ms,
            .step = next[i].step,
            .stored_error = finding->verdict.stored_error,
            .has_outcome = true,
        };
    }
    if (count > 0) task_schedule_call(store_job_call(job), &job->arena, schedules, count);
}

/* A hint from outside while a delay runs: the look-up that it asks for is due now. */
static void add_wakes(struct store_job *job, const struct finding_batch *batch)
{
    struct sql_array *attempts = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        const struct finding *finding = batch->items[i];
        if (!finding->verdict.wants_retrieve || finding->has_lease ||
            uuid_is_nil(finding->attempt.task.uuid)) {
            continue;
        }
        if (attempts == NULL) {
            struct sql_call *call = store_job_call(job);
            sql_call_begin(call, STMT_TASK_WAKE, &job->arena);
            attempts = sql_bind_array(call, SQL_UUID);
        }
        sql_push_uuid(attempts, finding->attempt.attempt.uuid);
    }
}

/* A confirming look at a final attempt is done whatever it said. */
static void add_confirmed(struct store_job *job, const struct finding_batch *batch)
{
    struct sql_call *call = NULL;
    struct sql_array *tasks = NULL;
    struct sql_array *versions = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        const struct finding *finding = batch->items[i];
        if (!finding->has_lease || finding->view.purpose != TASK_CONFIRM) continue;
        if (call == NULL) {
            call = store_job_call(job);
            sql_call_begin(call, STMT_TASK_RESOLVE, &job->arena);
            tasks = sql_bind_array(call, SQL_UUID);
            versions = sql_bind_array(call, SQL_INT4);
        }
        sql_push_uuid(tasks, finding->attempt.task.uuid);
        sql_push_int4(versions, finding->lease_version);
    }
}

static enum case_kind case_of(const struct finding *finding, const struct recovery_next *next)
{
    const struct verdict *verdict = &finding->verdict;
    if (verdict->mismatch != MISMATCH_NONE) return CASE_AMOUNT_MISMATCH;
    if (verdict->contradiction == CONTRADICTION_EVIDENCE_CONFLICT) return CASE_EVIDENCE_CONFLICT;
    if (verdict->contradiction == CONTRADICTION_UNRECORDED_SEND) return CASE_UNRECORDED_SEND;
    if (verdict->alarm == JUDGE_ALARM_KEY_MISMATCH) return CASE_PSP_REJECTS_US;
    return next->opens;
}

static void add_cases(struct store_job *job, const struct finding_batch *batch,
                      const struct recovery_next *next)
{
    struct case_opening *openings = arena_allocate(&job->arena, batch->count * sizeof *openings);
    struct case_closing *closings = arena_allocate(&job->arena, batch->count * sizeof *closings);
    struct attempt_id *conflicts = arena_allocate(&job->arena, batch->count * sizeof *conflicts);
    size_t opened = 0;
    size_t closed = 0;
    size_t confirmed = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct finding *finding = batch->items[i];
        const struct attempt_row *attempt = &finding->attempt;
        const enum case_kind kind = case_of(finding, &next[i]);
        if (kind != 0) {
            openings[opened++] = (struct case_opening){
                .id = { uuid_new() },
                .kind = kind,
                .payment = attempt->payment,
                .attempt = attempt->attempt,
                .account = batch->findings->account->id,
                .merchant = attempt->merchant,
                .reason = kind == CASE_UNKNOWN ? "out of strategies: nobody knows how it ended"
                                               : finding->verdict.reason,
                .attempt_version = finding->verdict.changes ? attempt->version + 1 : 0,
                .event = { uuid_new() },
            };
        }
        if (kind == CASE_EVIDENCE_CONFLICT && finding->view.purpose != TASK_CONFIRM) {
            conflicts[confirmed++] = attempt->attempt;
        }
        if (finding->verdict.changes && attempt_state_is_terminal(finding->verdict.next_state) &&
            finding->attempt.version > FENCED_VERSION) {
            closings[closed++] = (struct case_closing){
                .payment = attempt->payment,
                .attempt = attempt->attempt,
                .merchant = attempt->merchant,
                .event = { uuid_new() },
            };
        }
    }
    if (confirmed > 0) {
        struct sql_call *call = store_job_call(job);
        sql_call_begin(call, STMT_TASK_CONFIRM, &job->arena);
        struct sql_array *tasks = sql_bind_array(call, SQL_UUID);
        struct sql_array *attempts = sql_bind_array(call, SQL_UUID);
        for (size_t i = 0; i < confirmed; i++) {
            sql_push_uuid(tasks, uuid_new());
            sql_push_uuid(attempts, conflicts[i].uuid);
        }
        sql_bind_text(call, batch->findings->policy->version);
    }
    if (closed > 0) case_close_call(store_job_call(job), &job->arena, closings, closed);
    if (opened > 0) case_open_call(store_job_call(job), &job->arena, openings, opened);
}

/* Fence batches whose last result is stored by this transaction. */
static void add_fences(struct store_job *job, const struct finding_batch *batch)
{
    struct uuid *done = arena_allocate(&job->arena, batch->count * sizeof *done);
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct fence_share *fence = batch->items[i]->fence;
        if (fence == NULL || batch->items[i]->is_stored) continue;
        INVARIANT(fence->open > 0);
        size_t here = 0;
        bool is_first = true;
        for (size_t k = 0; k < batch->count; k++) {
            if (batch->items[k]->fence != fence || batch->items[k]->is_stored) continue;
            if (k < i) is_first = false;
            here++;
        }
        if (is_first && here == fence->open) done[count++] = fence->fence_batch;
    }
    if (count > 0) fence_done_call(store_job_call(job), &job->arena, done, count);
}

/* A webhook is done when it moved what it had to move: who loses a race is judged again first. */
static void add_inbox(struct store_job *job, const struct finding_batch *batch)
{
    struct sql_call *call = NULL;
    struct sql_array *ids = NULL;
    struct sql_array *payments = NULL;
    struct sql_array *attempts = NULL;
    struct sql_array *versions = NULL;
    struct sql_array *evidence = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        const struct finding *finding = batch->items[i];
        if (uuid_is_nil(finding->inbox.uuid)) continue;
        if (call == NULL) {
            call = store_job_call(job);
            sql_call_begin(call, STMT_INBOX_DONE, &job->arena);
            ids = sql_bind_array(call, SQL_UUID);
            payments = sql_bind_array(call, SQL_UUID);
            attempts = sql_bind_array(call, SQL_UUID);
            versions = sql_bind_array(call, SQL_INT4);
            evidence = sql_bind_array(call, SQL_UUID);
        }
        sql_push_uuid(ids, finding->inbox.uuid);
        sql_push_uuid(payments, finding->attempt.payment.uuid);
        sql_push_uuid(attempts, finding->attempt.attempt.uuid);
        sql_push_int4(versions, finding->verdict.changes ? finding->attempt.version + 1 : 0);
        sql_push_uuid(evidence, finding->evidence.uuid);
    }
}

static int by_attempt(const void *a, const void *b)
{
    const struct finding *const *left = a;
    const struct finding *const *right = b;
    return uuid_compare((*left)->attempt.attempt.uuid, (*right)->attempt.attempt.uuid);
}

static void announce(const struct finding_batch *batch, size_t i, int32_t version)
{
    char subject[SUBJECT_SIZE];
    const struct attempt_outcome *outcome = &batch->outcomes[i];
    if (uuid_is_nil(outcome->command.uuid)) return;
    stage_announce(batch->findings->stage, subject_settle(outcome->payment, subject),
                   (struct command){
                       .outbox = outcome->command,
                       .payment = outcome->payment,
                       .entity = outcome->attempt.uuid,
                       .version = version,
                       .kind = COMMAND_SETTLE,
                   });
}

static void report(const struct findings *findings, const struct finding *finding, bool moved)
{
    const struct verdict *verdict = &finding->verdict;
    metrics_add(METRIC_ATTEMPT_RESULTS, 1,
                METRICS_LABELS(findings->account->id, finding->attempt.method_type,
                               operation_name(OPERATION_CREATE),
                               certainty_name((int)verdict->certainty),
                               request_phase_name((int)finding->observation.phase),
                               decline_class_name((int)finding->observation.decline)));
    const bool is_quiet = verdict->alarm == JUDGE_ALARM_NONE &&
                          verdict->contradiction == CONTRADICTION_NONE &&
                          verdict->mismatch == MISMATCH_NONE;
    const enum log_level level = is_quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING;
    LOG_LINE_(level, "judged", LOG_ID("payment", finding->attempt.payment.uuid),
              LOG_ID("attempt", finding->attempt.attempt.uuid),
              LOG_TEXT("account", findings->account->id),
              LOG_TEXT("source", evidence_source_name((int)finding->observation.source)),
              LOG_TEXT("from", attempt_state_name((int)finding->attempt.state)),
              LOG_TEXT("to", attempt_state_name((int)verdict->next_state)),
              LOG_BOOLEAN("moved", moved), LOG_TEXT("why", verdict->reason),
              LOG_TEXT("error_code", finding->observation.error_code),
              LOG_TEXT("alarm", judge_alarm_name((int)verdict->alarm)),
              LOG_TEXT("contradiction", contradiction_name((int)verdict->contradiction)),
              LOG_TEXT("policy", findings->policy->version), LOG_END_);
}

static void load(struct findings *findings, struct finding **items, size_t count);

/* Its evidence stands, but five others were faster: the task looks again, now. */
static void give_to_task(struct findings *findings, struct finding *finding);

static void mark_stored(struct finding *finding)
{
    if (finding->fence != NULL && !finding->is_stored) finding->fence->open--;
    finding->is_stored = true;
}

static void on_written(struct store_job *job, enum status status, struct store_result *results)
{
    struct finding_batch *batch = job->detail;
    struct findings *findings = batch->findings;
    findings->is_writing = false;
    if (status != STATUS_OK) {
        const struct store_error *error = store_last_error(findings->queue->store);
        LOG_ERROR("results refused", LOG_TEXT("account", findings->account->id),
                  LOG_TEXT("statement", error->statement), LOG_TEXT("sqlstate", error->sqlstate),
                  LOG_TEXT("constraint", error->constraint), LOG_TEXT("why", error->message),
                  LOG_NUMBER("count", (int64_t)batch->count));
        if (batch->count > 1) { /* in halves, down to the one at fault (protocol H4) */
            findings->batch_max = batch->count / 2;
            for (size_t i = 0; i < batch->count; i++) append(findings, batch->items[i]);
        } else if (status == STATUS_LOST_RACE && batch->items[0]->rounds++ < ROUNDS_MAX) {
            load(findings, batch->items, 1);
        } else { /* its request stays open, so the fence or the lease runs out and recovery looks */
            end_finding(batch->items[0]);
        }
        return;
    }
    int32_t *versions = arena_allocate(&job->arena, batch->count * sizeof *versions);
    attempt_result_read(&results[0], batch->count, versions);
    struct finding **losers = arena_allocate(&job->arena, batch->count * sizeof(struct finding *));
    size_t loser_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct finding *finding = batch->items[i];
        const bool moved = versions[i] != 0;
        mark_stored(finding);
        report(findings, finding, moved);
        if (moved) announce(batch, i, versions[i]);
        if (moved || !finding->verdict.changes) {
            end_finding(finding);
        } else if (finding->rounds++ < ROUNDS_MAX) {
            losers[loser_count++] = finding;
        } else {
            give_to_task(findings, finding);
        }
    }
    stage_announce_events(findings->stage);
    CRASH_POINT("create.after_result_before_publish");
    stage_announce_send(findings->stage);
    if (loser_count > 0) load(findings, losers, loser_count);
}

static void write_batch(struct findings *findings, struct finding **items, size_t count)
{
    struct store_job *job = store_job_create(on_written, findings);
    struct finding_batch *batch = arena_allocate(&job->arena, sizeof *batch);
    batch->findings = findings;
    batch->items = arena_allocate(&job->arena, count * sizeof(struct finding *));
    memcpy(batch->items, items, count * sizeof(struct finding *));
    qsort(batch->items, count, sizeof(struct finding *), by_attempt);
    batch->outcomes = arena_allocate(&job->arena, count * sizeof *batch->outcomes);
    batch->count = count;
    for (size_t i = 0; i < count; i++)
        batch->outcomes[i] = finding_outcome(findings, batch->items[i]);
    struct recovery_next *next = arena_allocate(&job->arena, count * sizeof *next);
    attempt_result_call(store_job_call(job), &job->arena, batch->outcomes, count,
                        findings->stage->actor, findings->account->id);
    add_schedule(job, batch, next);
    add_wakes(job, batch);
    add_confirmed(job, batch);
    add_cases(job, batch, next);
    add_fences(job, batch);
    add_inbox(job, batch);
    job->detail = batch;
    findings->is_writing = true;
    CRASH_POINT("recover.before_result");
    store_queue_push(findings->queue, job);
}

/* --- reading afresh ------------------------------------------------------------------------ */

/* The loaded row's texts live in the job's arena: the finding needs its own. */
static void keep_row(struct finding *finding, const struct attempt_row *row)
{
    const struct task_id leased = finding->attempt.task;
    finding->attempt = *row;
    struct attempt_row *kept = &finding->attempt;
    const char **texts[] = { &kept->account, &kept->provider_key, &kept->provider_object,
                             &kept->reason,  &kept->merchant,     &kept->method_type };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (*texts[i] != NULL)
            *texts[i] = arena_copy(&finding->arena, *texts[i], strlen(*texts[i]));
    }
    if (finding->has_lease) kept->task = leased;
    finding->needs_load = false;
}

static void on_loaded(struct store_job *job, enum status status, struct store_result *results)
{
    struct finding_batch *batch = job->detail;
    struct findings *findings = batch->findings;
    findings->is_writing = false;
    struct attempt_row *rows = NULL;
    const size_t count =
        status == STATUS_OK ? attempt_load_read(&results[0], &job->arena, &rows) : 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct finding *finding = batch->items[i];
        const struct attempt_row *found = NULL;
        for (size_t k = 0; k < count && found == NULL; k++) {
            if (uuid_equal(rows[k].attempt.uuid, finding->attempt.attempt.uuid)) found = &rows[k];
        }
        if (found == NULL) {
            LOG_ERROR("an attempt that was observed cannot be read",
                      LOG_ID("attempt", finding->attempt.attempt.uuid),
                      LOG_TEXT("why", status_name(status)));
            end_finding(finding);
            continue;
        }
        keep_row(finding, found);
        append(findings, finding);
    }
}

static void load(struct findings *findings, struct finding **items, size_t count)
{
    struct store_job *job = store_job_create(on_loaded, findings);
    struct finding_batch *batch = arena_allocate(&job->arena, sizeof *batch);
    batch->findings = findings;
    batch->items = arena_allocate(&job->arena, count * sizeof(struct finding *));
    memcpy(batch->items, items, count * sizeof(struct finding *));
    batch->count = count;
    struct attempt_id *attempts = arena_allocate(&job->arena, count * sizeof *attempts);
    struct request_id *requests = arena_allocate(&job->arena, count * sizeof *requests);
    for (size_t i = 0; i < count; i++) {
        attempts[i] = items[i]->attempt.attempt;
        requests[i] = items[i]->request;
    }
    attempt_load_call(store_job_call(job), &job->arena, attempts, requests, count,
                      findings->psp->capability.keeps_failures_under_key,
                      findings->stage->config.timers.call_limit_ms);
    job->detail = batch;
    findings->is_writing = true;
    store_queue_push(findings->queue, job);
}

static void on_woken(struct store_job *job, enum status status, struct store_result *results)
{
    (void)status; /* the task is due by its own time if this one was not written */
    (void)results;
    end_finding(job->detail);
}

static void give_to_task(struct findings *findings, struct finding *finding)
{
    struct store_job *job = store_job_create(on_woken, findings);
    struct sql_call *call = store_job_call(job);
    sql_call_begin(call, STMT_TASK_WAKE, &job->arena);
    sql_push_uuid(sql_bind_array(call, SQL_UUID), finding->attempt.attempt.uuid);
    job->detail = finding;
    store_queue_push(findings->queue, job);
}

/* --- the next batch ------------------------------------------------------------------------ */

/* Takes waiting findings of the kind that comes first, at most one per attempt; twins stay in
 * order. */
static size_t take(struct findings *findings, struct finding **items, size_t limit)
{
    static struct twins twins;
    twins_clear(&twins);
    size_t count = 0;
    const bool needs_load = findings->first->needs_load;
    struct finding *waiting = findings->first;
    findings->first = findings->last = NULL;
    findings->waiting = 0;
    while (waiting != NULL) {
        struct finding *finding = waiting;
        waiting = waiting->next;
        if (count < limit && finding->needs_load == needs_load &&
            twins_add(&twins, finding->attempt.attempt.uuid)) {
            items[count++] = finding;
        } else {
            append(findings, finding);
        }
    }
    return count;
}

void findings_service(struct findings *findings)
{
    enum { BATCH_MAX = 256 };
    if (findings->is_writing || findings->first == NULL) return;
    struct finding *items[BATCH_MAX];
    const size_t limit = findings->batch_max < BATCH_MAX ? findings->batch_max : BATCH_MAX;
    const size_t taken = take(findings, items, limit);
    INVARIANT(taken > 0);
    if (findings->batch_max < BATCH_MAX)
        findings->batch_max *= 2; /* halved for one bad row: grows back */
    if (items[0]->needs_load) {
        load(findings, items, taken);
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < taken; i++) {
        judge_finding(findings, items[i]);
        if (finding_is_stray(items[i])) {
            finding_store_stray(findings, items[i]);
        } else {
            items[count++] = items[i];
        }
    }
    if (count > 0) write_batch(findings, items, count);
}
