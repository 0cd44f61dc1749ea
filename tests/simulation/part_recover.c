/*
 * tests/simulation/part_recover.c: oncepay-recover (stages/recover): overdue fences, due tasks and
 * timers. A claim is: look what is due, take Redis's leases, lock, choose, write, call.
 */
#include "tests/simulation/cache_double.h"
#include "tests/simulation/check.h"
#include "tests/simulation/decide.h"
#include "tests/simulation/parts.h"

enum { CLAIM_MAX = 4 };
#define FENCE_LEASE_US (45 * CLOCK_SECOND_US)
#define LOOK_US_MIN (200 * CLOCK_MILLISECOND_US)

/* --- fences ----------------------------------------------------------------------------------- */

struct fences_job {
    struct job job;
    size_t account;
    struct claimed_fence claimed[CLAIM_MAX];
    size_t count;
};

static enum status claim_fences(struct world *world, struct job *job)
{
    struct fences_job *self = (struct fences_job *)job;
    self->count = db_fence_claim(world, self->account, FENCE_LEASE_US, self->claimed, CLAIM_MAX);
    return STATUS_OK;
}

static enum status forget_fences(struct world *world, struct job *job)
{
    const struct fences_job *self = (const struct fences_job *)job;
    for (size_t i = 0; i < self->count; i++) {
        if (self->claimed[i].count == 0) db_fence_done(world, self->claimed[i].id);
    }
    return STATUS_OK;
}

static void fences_forgotten(struct world *world, struct job *job, enum status status)
{
    (void)world;
    (void)job;
    (void)status; /* it comes again */
}

static void take_over(struct world *world, const struct fences_job *self,
                      const struct claimed_fence *fence)
{
    struct part_fence *share = world_allocate(world, sizeof *share);
    *share = (struct part_fence){ fence->id, fence->count };
    for (size_t i = 0; i < fence->count; i++) {
        struct part_finding *finding = part_finding_create(world, self->job.worker, self->account);
        world_say(world, "%s takes over attempt %s", self->job.worker->name,
                  world_short(world, fence->attempts[i].uuid));
        world_reach(world, REACHED_WORKER_LOST);
        finding->fence = share;
        finding->real.attempt.attempt = fence->attempts[i];
        finding->real.needs_load = true;
        finding->real.request = fence->requests[i];
        finding->real.observation = (struct observation){ .kind = OBSERVED_TRANSPORT_LOST,
                                                          .source = SOURCE_TRANSPORT,
                                                          .phase = PHASE_SENT,
                                                          .error_code = "worker_lost",
                                                          .excerpt = "{}" };
        part_finding_load(world, finding);
    }
}

static void fences_claimed(struct world *world, struct job *job, enum status status)
{
    const struct fences_job *self = (const struct fences_job *)job;
    bool has_done = false;
    if (status != STATUS_OK) return;
    for (size_t i = 0; i < self->count; i++) {
        if (self->claimed[i].count == 0) {
            has_done = true;
        } else {
            take_over(world, self, &self->claimed[i]);
        }
    }
    if (has_done) job_write(world, job, forget_fences, fences_forgotten);
}

/* --- calls ------------------------------------------------------------------------------------ */

struct claim_step {
    struct task_row row;
    enum recovery_action action;
    struct recovery_view view;
    struct request_id request;
    struct outbox_id command;
};

struct claim_job {
    struct job job;
    size_t account;
    struct task_due due[CLAIM_MAX];
    size_t due_count;
    struct claim_step steps[CLAIM_MAX];
    size_t count;
    int64_t send_by_us;
};

static void start_call(struct world *world, const struct claim_job *self,
                       const struct claim_step *step)
{
    const bool is_replay = step->action == RECOVERY_REPLAY;
    struct part_finding *finding = part_finding_create(world, self->job.worker, self->account);
    const struct attempt_row *attempt = &step->row.attempt;
    finding->tag = (unsigned)database_payment(world->database, attempt->payment);
    finding->real.attempt = *attempt;
    finding->real.attempt.task_version++; /* the claim's */
    finding->real.request = step->request;
    finding->real.asked_us = attempt->now_us;
    finding->real.has_lease = true;
    finding->real.view = step->view;
    finding->real.lease_version = attempt->task_version + 1;
    finding->real.rule = &world->parts->rule;
    finding->real.limits = world->parts->limits;
    finding->real.sends = step->row.sends;
    struct call *call = world_allocate(world, sizeof *call);
    *call = (struct call){ .worker = self->job.worker,
                           .life = self->job.worker->life,
                           .account = self->account,
                           .kind = is_replay ? REQUEST_REPLAY : REQUEST_RETRIEVE,
                           .key = is_replay ? attempt->provider_key : NULL,
                           .object = is_replay ? NULL : attempt->provider_object,
                           .amount = attempt->amount,
                           .request = step->request,
                           .tag = finding->tag,
                           .answered = part_finding_answered,
                           .owner = finding };
    if (world->mutant == MUTANT_VOLATILE_KEY && is_replay)
        call->key = arena_format(&world->arena, "%s-%s", attempt->provider_key,
                                 world_short(world, step->request.uuid));
    part_call(world, call, self->send_by_us);
}

/* --- the end of what was never sent ----------------------------------------------------------- */

struct end_job {
    struct job job;
    struct local_end end;
    int32_t version;
};

static enum status end_local(struct world *world, struct job *job)
{
    struct end_job *self = (struct end_job *)job;
    job->is_locked =
        db_task_is_locked(world, database_attempt(world->database, self->end.attempt), job);
    if (!job->is_locked) self->version = db_attempt_fail_local(world, &self->end);
    return STATUS_OK;
}

static void ended_local(struct world *world, struct job *job, enum status status)
{
    const struct end_job *self = (const struct end_job *)job;
    if (status != STATUS_OK) {
        job_write(world, job, end_local, ended_local);
        return;
    }
    if (self->version == 0) return;
    const struct command command = { .outbox = self->end.command,
                                     .payment = self->end.payment,
                                     .entity = self->end.attempt.uuid,
                                     .version = self->version,
                                     .kind = COMMAND_SETTLE };
    stream_publish_commands(world, STREAM_SETTLE, &command, 1);
}

static void start_end(struct world *world, const struct claim_job *self,
                      const struct claim_step *step)
{
    struct end_job *end = (struct end_job *)job_create(world, self->job.worker, sizeof *end);
    end->end = (struct local_end){ .attempt = step->row.attempt.attempt,
                                   .payment = step->row.attempt.payment,
                                   .evidence = { world_id(world) },
                                   .command = { world_id(world) },
                                   .reason = "could_not_be_sent" };
    job_write(world, &end->job, end_local, ended_local);
}

/* --- the claim -------------------------------------------------------------------------------- */

static void release_leases(struct world *world, const struct claim_job *self)
{
    for (size_t i = 0; i < self->due_count; i++)
        cache_double_unlease(world, self->job.worker, self->due[i].attempt);
}

/* CLAIM_KILLS: the worker dies of what it claimed. */
static bool dies_of_it(struct world *world, const struct claim_job *self)
{
    struct database *database = world->database;
    for (size_t i = 0; i < self->count; i++) {
        struct stored_attempt *attempt =
            &database->attempts[database_attempt(database, self->steps[i].row.attempt.attempt)];
        if (attempt->kills == 0 || world->choices.is_healed) continue;
        attempt->kills--;
        world_kill(world, self->job.worker);
        return true;
    }
    return false;
}

static void claimed(struct world *world, struct job *job, enum status status)
{
    struct claim_job *self = (struct claim_job *)job;
    if (status == STATUS_OK && dies_of_it(world, self)) return;
    for (size_t i = 0; status == STATUS_OK && i < self->count; i++) {
        const struct claim_step *step = &self->steps[i];
        world_say(world, "%s on attempt %s: %s", job->worker->name,
                  world_short(world, step->row.attempt.attempt.uuid),
                  recovery_action_name((int)step->action));
        if (step->action == RECOVERY_REPLAY || step->action == RECOVERY_RETRIEVE_OBJECT) {
            start_call(world, self, step);
        } else if (step->action == RECOVERY_RESEND) {
            const struct command command = { .outbox = step->command,
                                             .payment = step->row.attempt.payment,
                                             .entity = step->row.attempt.attempt.uuid,
                                             .version = step->row.attempt.version,
                                             .kind = COMMAND_CREATE };
            stream_publish_commands(world, STREAM_CREATE + self->account, &command, 1);
        } else if (step->action == RECOVERY_END_LOCAL) {
            start_end(world, self, step);
        }
    }
    if (world->mutant != MUTANT_TRUST_LEASE) release_leases(world, self);
    worker_look(world, job->worker, world->now_us + LOOK_US_MIN);
}

static enum task_state state_after(enum recovery_action action)
{
    if (action == RECOVERY_RESOLVE || action == RECOVERY_RESEND) return TASK_RESOLVED;
    return action == RECOVERY_PAUSE ? TASK_PAUSED : TASK_LEASED;
}

/* Steps without a call: the next delay, and a person when the delays are used up. */
static void write_wait(struct world *world, const struct claim_step *step)
{
    const struct attempt_row *attempt = &step->row.attempt;
    enum case_kind kind = step->action == RECOVERY_PAUSE ? CASE_TASK_PAUSED : 0;
    if (step->action == RECOVERY_WAIT || step->action == RECOVERY_STOP) {
        const struct recovery_next next =
            recovery_schedule(&world->parts->rule, &world->parts->limits, &step->view, 0);
        const struct task_schedule schedule = { .task = attempt->task,
                                                .version = attempt->task_version + 1,
                                                .next = next.state,
                                                .due_ms = next.due_ms,
                                                .step = next.step,
                                                .has_outcome = true };
        db_task_schedule(world, &schedule);
        kind = next.opens;
    }
    if (kind == 0) return;
    const struct case_opening opening = { .id = { world_id(world) },
                                          .kind = kind,
                                          .payment = attempt->payment,
                                          .attempt = attempt->attempt,
                                          .attempt_version = attempt->version,
                                          .event = { world_id(world) } };
    db_case_open(world, &opening);
}

static enum status claim(struct world *world, struct job *job)
{
    struct claim_job *self = (struct claim_job *)job;
    for (size_t i = 0; i < self->count; i++) {
        const struct claim_step *step = &self->steps[i];
        const struct task_claim row = {
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
        if (db_task_claim(world, &row, LEASE_US, world->now_us + SEND_BY_US, self->account))
            write_wait(world, step);
    }
    return STATUS_OK;
}

/* view_of of recover_tasks.c. */
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

static enum status pick(struct world *world, struct job *job)
{
    struct claim_job *self = (struct claim_job *)job;
    self->count = 0;
    for (size_t i = 0; i < self->due_count; i++) {
        struct claim_step *step = &self->steps[self->count];
        *step = (struct claim_step){ .action = 0 };
        if (db_task_pick(world, job, self->due[i].task, &step->row)) self->count++;
    }
    return STATUS_OK;
}

static void picked(struct world *world, struct job *job, enum status status)
{
    struct claim_job *self = (struct claim_job *)job;
    if (status != STATUS_OK || self->count == 0) {
        database_unlock(world->database, job);
        job_drop_number(world, job);
        release_leases(world, self);
        worker_look(world, job->worker, world->now_us + LOOK_US_MIN);
        return;
    }
    for (size_t i = 0; i < self->count; i++) {
        struct claim_step *step = &self->steps[i];
        step->view = view_of(&step->row);
        step->action =
            decide_recovery(world, &world->parts->rule, &world->parts->limits, &step->view);
        const bool calls =
            step->action == RECOVERY_REPLAY || step->action == RECOVERY_RETRIEVE_OBJECT;
        if (calls) step->request.uuid = world_id(world);
        if (step->action == RECOVERY_RESEND) step->command.uuid = world_id(world);
    }
    self->send_by_us = world->now_us + SEND_BY_US;
    job_write(world, job, claim, claimed);
}

static void take_leases(struct world *world, struct job *job)
{
    struct claim_job *self = (struct claim_job *)job;
    size_t kept = 0;
    for (size_t i = 0; i < self->due_count; i++) {
        if (cache_double_lease(world, job->worker, self->due[i].attempt) != CACHE_HELD)
            self->due[kept++] = self->due[i];
    }
    self->due_count = kept;
    if (kept == 0) {
        worker_look(world, job->worker, world->now_us + LOOK_US_MIN);
        return;
    }
    job_number(world, job); /* FOR UPDATE draws one */
    job_read(world, job, pick, picked);
}

static enum status read_due(struct world *world, struct job *job)
{
    struct claim_job *self = (struct claim_job *)job;
    self->due_count = db_task_due(world, self->account, self->due, CLAIM_MAX);
    return STATUS_OK;
}

static void due_read(struct world *world, struct job *job, enum status status)
{
    const struct claim_job *self = (const struct claim_job *)job;
    if (status != STATUS_OK || self->due_count == 0) {
        worker_look(world, job->worker, world->now_us + LOOK_US_MIN);
        return;
    }
    job_wait(world, job, choice_delay_us(&world->choices, CHOICE_CACHE, job->worker->number),
             take_leases);
}

/* --- timers ----------------------------------------------------------------------------------- */

static enum status lift(struct world *world, struct job *job)
{
    (void)job;
    db_timer_lift_hold(world);
    return STATUS_OK;
}

static void lifted(struct world *world, struct job *job, enum status status)
{
    (void)status;
    worker_look(world, job->worker, world->now_us + LOOK_US_MIN);
}

/* --- what is due ------------------------------------------------------------------------------ */

struct due_times {
    int64_t fence_us[ACCOUNTS];
    int64_t task_us[ACCOUNTS];
    int64_t inbox_us[ACCOUNTS];
    int64_t timer_us;
};

static void lower(int64_t *time_us, int64_t to_us)
{
    if (to_us < *time_us) *time_us = to_us;
}

/* The real ones poll; looking exactly when something is due spares the empty looks. */
static struct due_times due_times_of(const struct world *world)
{
    const struct database *database = world->database;
    struct due_times due = { .timer_us = INT64_MAX };
    for (size_t i = 0; i < ACCOUNTS; i++)
        due.fence_us[i] = due.task_us[i] = due.inbox_us[i] = INT64_MAX;
    for (size_t i = 0; i < database->fence_count; i++) {
        const struct stored_fence *row = &database->fences[i];
        if (!row->is_gone && world->mutant != MUTANT_FENCE_FORGOTTEN)
            lower(&due.fence_us[row->account], row->due_us);
    }
    for (size_t i = 0; i < database->task_count; i++) {
        const struct stored_task *row = &database->tasks[i];
        if (row->status == TASK_READY || row->status == TASK_LEASED ||
            row->status == TASK_ESCALATED) {
            lower(&due.task_us[database->attempts[row->attempt].account], row->due_us);
        }
        if (world->mutant == MUTANT_TRUST_LEASE && row->status == TASK_LEASED)
            due.task_us[database->attempts[row->attempt].account] = world->now_us;
    }
    for (size_t i = 0; i < database->inbox_count; i++) {
        const struct stored_webhook *row = &database->inbox[i];
        if (!row->is_processed) lower(&due.inbox_us[row->account], row->look_at_us);
    }
    for (size_t i = 0; i < database->payment_count; i++) {
        if (database->payments[i].timer_due_us != 0)
            lower(&due.timer_us, database->payments[i].timer_due_us);
    }
    return due;
}

void parts_note_due(struct world *world)
{
    const struct due_times due = due_times_of(world);
    int64_t next_us = due.timer_us;
    for (size_t i = 0; i < ACCOUNTS; i++) {
        lower(&next_us, due.fence_us[i]);
        lower(&next_us, due.task_us[i]);
        lower(&next_us, due.inbox_us[i]);
    }
    if (next_us == INT64_MAX) return;
    if (next_us < world->now_us + LOOK_US_MIN) next_us = world->now_us + LOOK_US_MIN;
    for (unsigned i = 0; i < WORKERS_PER_STAGE; i++) {
        struct worker *worker = &world->workers[STAGE_RECOVER * WORKERS_PER_STAGE + i];
        worker_look(world, worker, next_us);
    }
}

void part_recover_look(struct world *world, struct worker *worker)
{
    const struct due_times due = due_times_of(world);
    for (size_t account = 0; account < ACCOUNTS; account++) {
        part_inbox_look(world, worker, account, due.inbox_us[account] <= world->now_us);
        if (due.fence_us[account] <= world->now_us) {
            struct fences_job *fences =
                (struct fences_job *)job_create(world, worker, sizeof *fences);
            fences->account = account;
            job_write(world, &fences->job, claim_fences, fences_claimed);
        }
        if (due.task_us[account] <= world->now_us) {
            struct claim_job *claim_job =
                (struct claim_job *)job_create(world, worker, sizeof *claim_job);
            claim_job->account = account;
            job_read(world, &claim_job->job, read_due, due_read);
        }
    }
    if (due.timer_us <= world->now_us)
        job_write(world, job_create(world, worker, sizeof(struct job)), lift, lifted);
    parts_note_due(world);
}
