/*
 * stages/recover/recover_tasks.c: from a due task to a call (protocol G). Four steps: look what is
 * due; take Redis leases on it; lock it (SKIP LOCKED), choose the strategy and write claim and
 * request row in one transaction; call. The lease that counts is the row's.
 */
#include "pipeline/clock.h"
#include "pipeline/crash_point.h"
#include "pipeline/log.h"
#include "stages/recover/recover_lane.h"

enum { CLAIM_MAX = 64, CLAIM_IDLE_US = 200 * 1000 };

/* One claim on its way through its two transactions. */
struct claim_step {
    struct task_row row;
    const struct recovery_rule *rule;
    enum recovery_action action;
    struct recovery_view view;
    struct request_id request;
    struct outbox_id command;
};

struct claim_work {
    struct recover_lane *self;
    struct arena arena; /* lives until the calls are sent */
    struct cache_lease *leases;
    size_t lease_count;
    struct claim_step *steps;
    size_t step_count;
    int64_t send_by_us;
    size_t lookups_taken;
    size_t creates_taken;
};

static void end_work(struct claim_work *work, bool was_full)
{
    struct recover_lane *self = work->self;
    self->is_claiming = false;
    self->next_claim_us = was_full ? 0 : clock_monotonic_us() + CLAIM_IDLE_US;
    cache_release_leases(self->lane.stage->cache, work->leases, work->lease_count);
    arena_finish(&work->arena);
    free(work);
}

/* --- policies ------------------------------------------------------------------------------ */

static const struct recovery_policy *find_policy(const struct recover_lane *self,
                                                 const char *version)
{
    for (size_t i = 0; i < self->policies->count; i++) {
        if (strcmp(self->policies->items[i]->version, version) == 0)
            return self->policies->items[i];
    }
    return NULL;
}

static void on_policy_read(struct store_job *job, enum status status, struct store_result *results)
{
    struct recover_lane *self = job->owner;
    const char *version = job->detail;
    if (status != STATUS_OK || self->policies->count == RECOVER_POLICIES_MAX ||
        find_policy(self, version) != NULL)
        return;
    struct recovery_policy *policy = memory_allocate(sizeof *policy);
    struct config_error error = { "the version is not stored" };
    const char *text = result_rows(&results[0]) == 1 ? result_text(&results[0], 0, 0) : NULL;
    if (text == NULL ||
        recovery_policy_parse(version, span_of_text(text), NULL, 0, policy, &error) != STATUS_OK) {
        LOG_ERROR("a task's policy cannot be read, using the loaded one",
                  LOG_TEXT("policy", version), LOG_TEXT("why", error.text));
        free(policy);
        return;
    }
    self->policies->items[self->policies->count++] = policy;
}

static void read_policy(struct recover_lane *self, const char *version)
{
    struct store_job *job = store_job_create(on_policy_read, self);
    struct sql_call *call = store_job_call(job);
    sql_call_begin(call, STMT_POLICY_READ, &job->arena);
    sql_bind_text(call, version);
    job->detail = arena_copy(&job->arena, version, strlen(version));
    store_queue_push(&self->lane.queue, job);
}

static const struct recovery_rule *rule_of(struct recover_lane *self, const struct task_row *row)
{
    const struct recovery_policy *policy = find_policy(self, row->policy_version);
    if (policy == NULL) {
        read_policy(self, row->policy_version); /* by its own version from the next step on */
        policy = self->lane.policy;
    }
    const struct recovery_rule *rule =
        recovery_policy_rule(policy, self->lane.account->psp, self->lane.account->id,
                             row->attempt.method_type, OPERATION_CREATE);
    if (rule != NULL) return rule;
    return recovery_policy_rule(self->lane.policy, self->lane.account->psp, self->lane.account->id,
                                row->attempt.method_type, OPERATION_CREATE);
}

/* --- calling ------------------------------------------------------------------------------- */

static void on_replay_ended(struct finding *finding)
{
    struct recover_lane *self = finding->owner;
    budget_release(&self->creates, false);
}

static void on_retrieve_ended(struct finding *finding)
{
    struct recover_lane *self = finding->owner;
    budget_release(&self->lookups, false);
}

static struct attempt_row copy_attempt(const struct attempt_row *from, struct arena *arena)
{
    struct attempt_row row = *from;
    const char **texts[] = { &row.provider_key, &row.provider_object, &row.reason, &row.merchant,
                             &row.method_type };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (*texts[i] != NULL) *texts[i] = arena_copy(arena, *texts[i], strlen(*texts[i]));
    }
    row.request_bytes = arena_copy_span(arena, from->request_bytes);
    return row;
}

static void start_call(struct recover_lane *self, const struct claim_step *step, int64_t send_by_us)
{
    const bool is_replay = step->action == RECOVERY_REPLAY;
    struct finding *finding = finding_create(is_replay ? on_replay_ended : on_retrieve_ended, self);
    struct psp_request request;
    finding->attempt = copy_attempt(&step->row.attempt, &finding->arena);
    finding->attempt.account = self->lane.account->id;
    finding->attempt.task_version = step->row.attempt.task_version + 1; /* the claim's */
    finding->request = step->request;
    finding->asked_us = step->row.attempt.now_us;
    finding->has_lease = true;
    finding->view = step->view;
    finding->lease_version = finding->attempt.task_version;
    finding->rule = step->rule;
    finding->limits = self->limits;
    finding->sends = step->row.sends;
    if (is_replay) {
        INVARIANT(psp_request_decode(finding->attempt.request_bytes, &finding->arena, &request) ==
                  STATUS_OK);
        psp_lane_send(&self->lane, finding, REQUEST_REPLAY, &request, finding->attempt.provider_key,
                      send_by_us);
    } else {
        INVARIANT(self->lane.psp->build_retrieve(finding->attempt.provider_object, &finding->arena,
                                                 &request) == STATUS_OK);
        psp_lane_send(&self->lane, finding, REQUEST_RETRIEVE, &request, NULL, send_by_us);
    }
}

/* --- the end of what was never sent -------------------------------------------------------- */

static void on_ended_locally(struct store_job *job, enum status status,
                             struct store_result *results)
{
    struct recover_lane *self = job->owner;
    const struct local_end *end = job->detail;
    if (status != STATUS_OK) return; /* the lease runs out and it comes again */
    struct local_end_row *rows = NULL;
    if (local_end_read(&results[0], &job->arena, &rows) == 1) {
        char subject[SUBJECT_SIZE];
        stage_announce(self->lane.stage, subject_settle(rows[0].payment, subject),
                       (struct command){ .outbox = end->command,
                                         .payment = rows[0].payment,
                                         .entity = rows[0].attempt.uuid,
                                         .version = rows[0].version,
                                         .kind = COMMAND_SETTLE });
        stage_announce_send(self->lane.stage);
    }
}

static void end_locally(struct recover_lane *self, const struct claim_step *step)
{
    struct store_job *job = store_job_create(on_ended_locally, self);
    struct local_end *end = arena_allocate(&job->arena, sizeof *end);
    *end = (struct local_end){
        .attempt = step->row.attempt.attempt,
        .payment = step->row.attempt.payment,
        .evidence = { uuid_new() },
        .command = { uuid_new() },
        .reason = step->view.now_us >= step->view.start_by_us ? "expired_before_start"
                                                              : "could_not_be_sent",
    };
    local_end_call(store_job_call(job), &job->arena, end, 1, self->lane.stage->actor);
    job->detail = end;
    store_queue_push(&self->lane.queue, job);
}

/* --- the claim ----------------------------------------------------------------------------- */

static void give_back_budgets(struct claim_work *work)
{
    while (work->lookups_taken > 0) {
        budget_release(&work->self->lookups, true);
        work->lookups_taken--;
    }
    while (work->creates_taken > 0) {
        budget_release(&work->self->creates, true);
        work->creates_taken--;
    }
}

static void announce_resend(struct recover_lane *self, const struct claim_step *step)
{
    char subject[SUBJECT_SIZE];
    stage_announce(self->lane.stage, subject_create(self->lane.account->id, subject),
                   (struct command){ .outbox = step->command,
                                     .payment = step->row.attempt.payment,
                                     .entity = step->row.attempt.attempt.uuid,
                                     .version = step->row.attempt.version,
                                     .kind = COMMAND_CREATE });
}

static void on_claimed(struct store_job *job, enum status status, struct store_result *results)
{
    (void)results; /* the rows were locked: what was claimed is what was picked */
    struct claim_work *work = job->detail;
    struct recover_lane *self = work->self;
    if (status != STATUS_OK) {
        if (status != STATUS_RETRY) {
            LOG_ERROR("claim refused", LOG_TEXT("account", self->lane.account->id),
                      LOG_TEXT("statement", store_last_error(self->lane.store)->statement),
                      LOG_TEXT("why", store_last_error(self->lane.store)->message));
        }
        give_back_budgets(work);
        end_work(work, false);
        return;
    }
    CRASH_POINT("recover.after_claim");
    for (size_t i = 0; i < work->step_count; i++) {
        const struct claim_step *step = &work->steps[i];
        switch (step->action) {
        case RECOVERY_REPLAY:
        case RECOVERY_RETRIEVE_OBJECT:
            start_call(self, step, work->send_by_us);
            break;
        case RECOVERY_RESEND:
            announce_resend(self, step);
            break;
        case RECOVERY_END_LOCAL:
            end_locally(self, step);
            break;
        case RECOVERY_RESOLVE:
        case RECOVERY_PAUSE:
        case RECOVERY_WAIT:
        case RECOVERY_STOP:
            break;
        }
    }
    stage_announce_events(self->lane.stage);
    stage_announce_send(self->lane.stage);
    end_work(work, work->step_count == CLAIM_MAX);
}

static enum task_state state_after(enum recovery_action action)
{
    switch (action) {
    case RECOVERY_RESOLVE:
    case RECOVERY_RESEND:
        return TASK_RESOLVED;
    case RECOVERY_PAUSE:
        return TASK_PAUSED;
    case RECOVERY_REPLAY:
    case RECOVERY_RETRIEVE_OBJECT:
    case RECOVERY_WAIT:
    case RECOVERY_STOP:
    case RECOVERY_END_LOCAL:
        return TASK_LEASED;
    }
    UNREACHABLE("recovery action out of range");
}

/* Money-moving calls come out of the creates' budget, look-ups out of their own. False: not now. */
static bool take_budget(struct claim_work *work, enum recovery_action action, int64_t now_us)
{
    struct recover_lane *self = work->self;
    if (action == RECOVERY_REPLAY) {
        if (budget_available(&self->creates, now_us) == 0) return false;
        budget_take(&self->creates, 1);
        work->creates_taken++;
    } else if (action == RECOVERY_RETRIEVE_OBJECT) {
        if (budget_available(&self->lookups, now_us) == 0) return false;
        budget_take(&self->lookups, 1);
        work->lookups_taken++;
    }
    return true;
}

static struct recovery_view view_of(const struct task_row *row)
{
    const struct judge_attempt judged = attempt_row_judge(&row->attempt);
    return (struct recovery_view){
        .purpose = row->purpose,
        .task_state = row->attempt.task_state,
        .step = row->attempt.task_step,
        .claims = row->claims,
        .stored_error = row->stored_error,
        .is_escalated = row->is_escalated,
        .first_unknown_us = row->first_unknown_us,
        .attempt_state = row->attempt.state,
        .has_provider_object = row->attempt.provider_object != NULL,
        .mismatch_open = judged.mismatch_open,
        .first_sent_us = row->attempt.first_sent_us,
        .sends = row->sends,
        .payment_state = row->attempt.payment_state,
        .expires_at_us = row->attempt.expires_at_us,
        .start_by_us = row->start_by_us,
        .now_us = row->attempt.now_us,
    };
}

/* An object whose id this PSP's paths cannot carry is never looked at: wait for its webhook. */
static bool can_retrieve(struct claim_work *work, const struct task_row *row)
{
    struct psp_request request;
    return row->attempt.provider_object != NULL &&
           work->self->lane.psp->build_retrieve(row->attempt.provider_object, &work->arena,
                                                &request) == STATUS_OK;
}

static void choose(struct claim_work *work, const struct task_row *rows, size_t count)
{
    struct recover_lane *self = work->self;
    const int64_t now_us = clock_monotonic_us();
    work->steps = arena_allocate(&work->arena, (count + 1) * sizeof *work->steps);
    for (size_t i = 0; i < count; i++) {
        struct claim_step step = { .row = rows[i],
                                   .rule = rule_of(self, &rows[i]),
                                   .view = view_of(&rows[i]) };
        step.action = recovery_choose(step.rule, &self->limits, &step.view);
        if (step.action == RECOVERY_RETRIEVE_OBJECT && !can_retrieve(work, &rows[i])) {
            step.action = step.view.purpose == TASK_CONFIRM ? RECOVERY_RESOLVE : RECOVERY_WAIT;
        }
        if (!take_budget(work, step.action, now_us)) continue; /* stays due */
        if (step.action == RECOVERY_REPLAY || step.action == RECOVERY_RETRIEVE_OBJECT)
            step.request.uuid = uuid_new();
        if (step.action == RECOVERY_RESEND) step.command.uuid = uuid_new();
        work->steps[work->step_count++] = step;
    }
}

static int by_task(const void *a, const void *b)
{
    const struct claim_step *left = a;
    const struct claim_step *right = b;
    return uuid_compare(left->row.attempt.task.uuid, right->row.attempt.task.uuid);
}

static void add_claims(struct store_job *job, struct claim_work *work)
{
    const struct config_timers *timers = &work->self->lane.stage->config.timers;
    struct task_claim *claims =
        arena_allocate(&job->arena, (work->step_count + 1) * sizeof *claims);
    for (size_t i = 0; i < work->step_count; i++) {
        const struct claim_step *step = &work->steps[i];
        claims[i] = (struct task_claim){
            .task = step->row.attempt.task,
            .version = step->row.attempt.task_version,
            .next = state_after(step->action),
            .request = step->request,
            .kind = step->action == RECOVERY_REPLAY ? REQUEST_REPLAY : REQUEST_RETRIEVE,
            .payment = step->row.attempt.payment,
            .attempt = step->row.attempt.attempt,
            .command = step->command,
            .attempt_version = step->row.attempt.version,
        };
    }
    task_claim_call(store_job_call(job), &job->arena, claims, work->step_count,
                    timers->lease_s * 1000, work->self->lane.stage->actor, timers->send_by_ms,
                    work->self->lane.account->id);
}

/* Steps without a call: straight on to the next delay, and to a person when the delays are used up.
 */
static void add_waits(struct store_job *job, const struct claim_work *work)
{
    struct task_schedule *schedules =
        arena_allocate(&job->arena, (work->step_count + 1) * sizeof *schedules);
    struct case_opening *cases =
        arena_allocate(&job->arena, (work->step_count + 1) * sizeof *cases);
    size_t scheduled = 0;
    size_t opened = 0;
    for (size_t i = 0; i < work->step_count; i++) {
        const struct claim_step *step = &work->steps[i];
        const struct attempt_row *attempt = &step->row.attempt;
        enum case_kind kind = 0;
        if (step->action == RECOVERY_WAIT || step->action == RECOVERY_STOP) {
            const struct recovery_next next =
                recovery_schedule(step->rule, &work->self->limits, &step->view, 0);
            schedules[scheduled++] = (struct task_schedule){
                .task = attempt->task,
                .version = attempt->task_version + 1,
                .next = next.state,
                .due_ms = next.due_ms < 0 ? -1 : stage_spread_ms(next.due_ms),
                .step = next.step,
                .has_outcome = true,
            };
            kind = next.opens;
        } else if (step->action == RECOVERY_PAUSE) {
            kind = CASE_TASK_PAUSED;
        }
        if (kind == 0) continue;
        cases[opened++] = (struct case_opening){
            .id = { uuid_new() },
            .kind = kind,
            .payment = attempt->payment,
            .attempt = attempt->attempt,
            .account = work->self->lane.account->id,
            .merchant = attempt->merchant,
            .reason = kind == CASE_TASK_PAUSED ? "claimed five times without an outcome"
                                               : "out of strategies: nobody knows how it ended",
            .attempt_version = attempt->version,
            .event = { uuid_new() },
        };
    }
    if (scheduled > 0) task_schedule_call(store_job_call(job), &job->arena, schedules, scheduled);
    if (opened > 0) case_open_call(store_job_call(job), &job->arena, cases, opened);
}

static void on_picked(struct store_job *job, enum status status, struct store_result *results)
{
    struct claim_work *work = job->detail;
    struct recover_lane *self = work->self;
    if (status != STATUS_OK) {
        end_work(work, false);
        return;
    }
    struct task_row *rows = NULL;
    const size_t count = task_pick_read(&results[1], &work->arena, &rows);
    choose(work, rows, count);
    if (work->step_count > 0) qsort(work->steps, work->step_count, sizeof *work->steps, by_task);
    struct store_job *next = store_job_create(on_claimed, self);
    next->is_part = true;
    next->is_urgent = true; /* the transaction is open: nothing may come between */
    next->detail = work;
    if (work->step_count > 0) {
        add_claims(next, work);
        add_waits(next, work);
    }
    sql_call_begin(store_job_call(next), STMT_COMMIT, &next->arena);
    work->send_by_us = clock_monotonic_us() + self->lane.stage->config.timers.send_by_ms * 1000;
    store_queue_push(&self->lane.queue, next);
}

/* Leases first: Redis is asked outside of any transaction. What another worker is at is left alone.
 */
static size_t take_leases(struct claim_work *work, struct task_due *due, size_t count)
{
    struct stage *stage = work->self->lane.stage;
    work->leases = arena_allocate(&work->arena, (count + 1) * sizeof *work->leases);
    for (size_t i = 0; i < count; i++) {
        work->leases[i] = (struct cache_lease){ .attempt = due[i].attempt, .owner = stage->actor };
    }
    cache_claim_leases(stage->cache, work->leases, count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (work->leases[i].verdict == CACHE_HELD) continue;
        due[kept] = due[i];
        work->leases[kept++] = work->leases[i];
    }
    work->lease_count = kept;
    return kept;
}

static void on_due(struct store_job *job, enum status status, struct store_result *results)
{
    struct recover_lane *self = job->owner;
    struct claim_work *work = memory_allocate(sizeof *work);
    work->self = self;
    struct task_due *due = NULL;
    size_t count = status == STATUS_OK ? task_due_read(&results[0], &work->arena, &due) : 0;
    if (count > 0) count = take_leases(work, due, count);
    if (count == 0) {
        end_work(work, false);
        return;
    }
    struct store_job *pick = store_job_create(on_picked, self);
    pick->is_part = true;
    pick->is_urgent = true;
    pick->detail = work;
    sql_call_begin(store_job_call(pick), STMT_BEGIN, &pick->arena);
    task_pick_call(store_job_call(pick), &pick->arena, due, count,
                   self->lane.psp->capability.keeps_failures_under_key,
                   self->lane.stage->config.timers.call_limit_ms);
    store_queue_push(&self->lane.queue, pick);
}

void recover_tasks_service(struct recover_lane *self, int64_t now_us)
{
    if (self->is_claiming || now_us < self->next_claim_us || !store_is_connected(self->lane.store))
        return;
    size_t limit = http_transport_room(self->lane.transport);
    if (limit > CLAIM_MAX) limit = CLAIM_MAX;
    if (limit == 0) return;
    struct store_job *job = store_job_create(on_due, self);
    task_due_call(store_job_call(job), &job->arena, self->lane.account->id, limit);
    self->is_claiming = true;
    store_queue_push(&self->lane.queue, job);
}
