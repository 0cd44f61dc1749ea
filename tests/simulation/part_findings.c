/*
 * tests/simulation/part_findings.c: the writer of create and recover (stages/findings.c,
 * findings_stray.c), one finding per transaction: judge, store with all that follows, judge again
 * what lost its race. The outcome for the rows is the real finding_outcome.
 */
#include "tests/simulation/check.h"
#include "tests/simulation/decide.h"
#include "tests/simulation/parts.h"

#include "stages/findings_outcome.h"
#include "stages/findings_stray.h"

enum { ROUNDS_MAX = 5, STRAY_ROUNDS_MAX = 8, FENCED_VERSION = 2 };
#define AGAIN_US (50 * CLOCK_MILLISECOND_US)

struct part_finding *part_finding_create(struct world *world, struct worker *worker, size_t account)
{
    struct part_finding *finding =
        (struct part_finding *)job_create(world, worker, sizeof *finding);
    finding->account = account;
    finding->real.evidence.uuid = world_id(world);
    finding->real.next = world->parts->first_finding;
    world->parts->first_finding = &finding->real;
    return finding;
}

static void end_finding(struct world *world, struct part_finding *finding)
{
    check_observation(world, finding->real.evidence);
    if (finding->hand != NULL) part_hand_done(world, finding->hand, 0);
    finding->hand = NULL;
}

/* --- calls ------------------------------------------------------------------------------------ */

void part_finding_answered(struct world *world, struct call *call,
                           const struct observation *observation)
{
    struct part_finding *finding = call->owner;
    finding->real.observation = *observation;
    world_say(world, "%s observes %s (%s)", call->worker->name,
              observation_kind_name((int)observation->kind),
              evidence_source_name((int)observation->source));
    part_finding_start(world, finding);
}

void part_call(struct world *world, struct call *call, int64_t send_by_us)
{
    if (world->now_us < send_by_us || world->mutant == MUTANT_LATE_SEND) {
        bank_call(world, call);
        return;
    }
    const struct observation unsent = { .kind = OBSERVED_UNSENT,
                                        .source = SOURCE_LOCAL,
                                        .phase = PHASE_LOCAL,
                                        .error_code = "send_by_passed",
                                        .excerpt = "{}" };
    world_reach(world, REACHED_SENT_TOO_LATE);
    call->answered(world, call, &unsent);
}

/* --- judging ---------------------------------------------------------------------------------- */

static const struct psp_capability *capability_of(const struct world *world)
{
    return &world->bank->capability;
}

static void judge_finding(struct world *world, struct part_finding *finding)
{
    struct finding *real = &finding->real;
    struct judge_attempt attempt = attempt_row_judge(&real->attempt);
    attempt.asked_us = real->asked_us;
    if (!capability_of(world)->keeps_failures_under_key) attempt.key_consumed = false;
    real->verdict = decide_verdict(world, &real->observation, capability_of(world), &attempt);
    if (real->is_stored && real->verdict.proves != real->proves_stored)
        real->evidence.uuid = world_id(world);
    real->proves_stored = real->verdict.proves;
    world_say(world, "%s judges attempt %s: %s -> %s, %s", finding->job.worker->name,
              world_short(world, real->attempt.attempt.uuid),
              attempt_state_name((int)real->attempt.state),
              attempt_state_name((int)real->verdict.next_state), real->verdict.reason);
}

/* --- the transaction -------------------------------------------------------------------------- */

/* When a leased task is due again: add_schedule of findings.c. */
static void write_schedule(struct world *world, struct part_finding *finding)
{
    const struct finding *real = &finding->real;
    finding->next = (struct recovery_next){ 0 };
    if (!real->has_lease || attempt_state_is_terminal(real->verdict.next_state)) return;
    struct recovery_view view = real->view;
    view.attempt_state = real->verdict.next_state;
    view.mismatch_open = view.mismatch_open || real->verdict.mismatch != MISMATCH_NONE;
    finding->next =
        recovery_schedule(real->rule, &real->limits, &view, real->observation.retry_after_s);
    int64_t due_ms = finding->next.due_ms;
    if (due_ms > 0 && real->verdict.wants_retrieve) due_ms = 0;
    const struct task_schedule schedule = {
        .task = real->attempt.task,
        .version = real->lease_version,
        .next = finding->next.state,
        .due_ms = due_ms,
        .step = finding->next.step,
        .stored_error = real->verdict.stored_error,
        .has_outcome = true,
    };
    db_task_schedule(world, &schedule);
}

/* case_of of findings.c: which case follows from the verdict. */
static enum case_kind case_of(const struct part_finding *finding)
{
    const struct verdict *verdict = &finding->real.verdict;
    if (verdict->mismatch != MISMATCH_NONE) return CASE_AMOUNT_MISMATCH;
    if (verdict->contradiction == CONTRADICTION_EVIDENCE_CONFLICT) return CASE_EVIDENCE_CONFLICT;
    if (verdict->contradiction == CONTRADICTION_UNRECORDED_SEND) return CASE_UNRECORDED_SEND;
    if (verdict->alarm == JUDGE_ALARM_KEY_MISMATCH) return CASE_PSP_REJECTS_US;
    return finding->next.opens;
}

static void write_cases(struct world *world, const struct part_finding *finding)
{
    const struct finding *real = &finding->real;
    const enum case_kind kind = case_of(finding);
    if (kind == CASE_EVIDENCE_CONFLICT && real->view.purpose != TASK_CONFIRM)
        db_task_confirm(world, (struct task_id){ world_id(world) }, real->attempt.attempt);
    if (real->verdict.changes && attempt_state_is_terminal(real->verdict.next_state) &&
        real->attempt.version > FENCED_VERSION) {
        const struct case_closing closing = { .payment = real->attempt.payment,
                                              .attempt = real->attempt.attempt,
                                              .event = { world_id(world) } };
        db_case_close(world, &closing);
    }
    if (kind == 0) return;
    const struct case_opening opening = {
        .id = { world_id(world) },
        .kind = kind,
        .payment = real->attempt.payment,
        .attempt = real->attempt.attempt,
        .attempt_version = real->verdict.changes ? real->attempt.version + 1 : 0,
        .event = { world_id(world) },
    };
    db_case_open(world, &opening);
}

static enum status write(struct world *world, struct job *job)
{
    struct part_finding *finding = (struct part_finding *)job;
    const struct finding *real = &finding->real;
    const size_t attempt = database_attempt(world->database, real->attempt.attempt);
    job->is_locked = db_task_is_locked(world, attempt, job);
    if (job->is_locked) return STATUS_OK;
    TRY(db_attempt_result(world, &finding->outcome, &finding->moved));
    write_schedule(world, finding);
    if (real->verdict.wants_retrieve && !real->has_lease && !uuid_is_nil(real->attempt.task.uuid)) {
        db_task_wake(world, attempt);
    }
    if (real->has_lease && real->view.purpose == TASK_CONFIRM)
        db_task_resolve(world, real->attempt.task, real->lease_version);
    write_cases(world, finding);
    if (finding->fence != NULL && !real->is_stored && finding->fence->open == 1)
        db_fence_done(world, finding->fence->id);
    /* Who lost judges again; if it dies before that, the sweep brings the event again. */
    const bool is_judged =
        finding->moved != 0 || !real->verdict.changes || world->mutant == MUTANT_LOSER_IS_DONE;
    if (!uuid_is_nil(real->inbox.uuid) && is_judged) db_inbox_done(world, real->inbox);
    return STATUS_OK;
}

static enum status wake_task(struct world *world, struct job *job)
{
    const struct part_finding *finding = (const struct part_finding *)job;
    db_task_wake(world, database_attempt(world->database, finding->real.attempt.attempt));
    return STATUS_OK;
}

static void woken(struct world *world, struct job *job, enum status status)
{
    (void)status; /* the task is due by its own time if this was not written */
    end_finding(world, (struct part_finding *)job);
}

static void mark_stored(struct part_finding *finding)
{
    if (finding->fence != NULL && !finding->real.is_stored) finding->fence->open--;
    finding->real.is_stored = true;
}

static void announce(struct world *world, struct job *job)
{
    struct part_finding *finding = (struct part_finding *)job;
    const struct command command = { .outbox = finding->outcome.command,
                                     .payment = finding->outcome.payment,
                                     .entity = finding->outcome.attempt.uuid,
                                     .version = finding->moved,
                                     .kind = COMMAND_SETTLE };
    if (!uuid_is_nil(command.outbox.uuid))
        stream_publish_commands(world, STREAM_SETTLE, &command, 1);
    end_finding(world, finding);
}

static void written(struct world *world, struct job *job, enum status status);

static void write_again(struct world *world, struct job *job)
{
    job_write(world, job, write, written);
}

static void written(struct world *world, struct job *job, enum status status)
{
    struct part_finding *finding = (struct part_finding *)job;
    if (status == STATUS_LOST_RACE && finding->real.rounds++ < ROUNDS_MAX) {
        world_reach(world, REACHED_CLAIMED_MEANWHILE);
        part_finding_load(world, finding);
        return;
    }
    if (status == STATUS_LOST_RACE) { /* its request stays open, and recovery looks again */
        end_finding(world, finding);
        return;
    }
    if (status != STATUS_OK) { /* store_queue.c: outcome unknown, the same again */
        job_wait(world, job, AGAIN_US, write_again);
        return;
    }
    mark_stored(finding);
    if (finding->moved != 0) {
        job_wait(world, job, CLOCK_MILLISECOND_US, announce);
    } else if (!finding->real.verdict.changes || world->mutant == MUTANT_LOSER_EVIDENCE) {
        end_finding(world, finding);
    } else if (choice_strikes(&world->choices, CHOICE_LOSER_DIES, job->worker->number)) {
        check_unjudged(world, &finding->real);
        world_kill(world, job->worker);
    } else if (finding->real.rounds++ < ROUNDS_MAX) {
        world_reach(world, REACHED_LOST_CAS);
        part_finding_load(world, finding);
    } else {
        job_write(world, job, wake_task, woken);
    }
}

/* --- stray facts ------------------------------------------------------------------------------ */

static bool stray_kind_of(enum contradiction contradiction, enum stray_kind *out)
{
    *out =
        contradiction == CONTRADICTION_SECOND_SUCCESS ? STRAY_SECOND_SUCCESS : STRAY_LATE_SUCCESS;
    return contradiction == CONTRADICTION_SECOND_SUCCESS ||
           contradiction == CONTRADICTION_LATE_SUCCESS;
}

static void load_stray(struct world *world, struct part_finding *finding);

static void announce_stray(struct world *world, struct job *job)
{
    struct part_finding *finding = (struct part_finding *)job;
    for (size_t i = 0; i < finding->command_count; i++)
        stream_publish_commands(world, STREAM_SETTLE, &finding->commands[i], 1);
    if (finding->fence != NULL && !finding->real.is_stored) finding->fence->open--;
    end_finding(world, finding);
}

static enum status write_stray(struct world *world, struct job *job)
{
    struct part_finding *finding = (struct part_finding *)job;
    for (size_t i = 0; i < finding->stray_plan.end_count; i++) {
        const size_t attempt =
            database_attempt(world->database, finding->stray_plan.ends[i].attempt);
        if (db_task_is_locked(world, attempt, job)) job->is_locked = true;
    }
    if (job->is_locked) return STATUS_OK;
    TRY(db_stray_write(world, &finding->stray, &finding->stray_rows, &finding->stray_plan,
                       finding->commands, &finding->command_count));
    if (!uuid_is_nil(finding->real.inbox.uuid)) db_inbox_done(world, finding->real.inbox);
    return STATUS_OK;
}

static void stray_written(struct world *world, struct job *job, enum status status);

static void write_stray_again(struct world *world, struct job *job)
{
    job_write(world, job, write_stray, stray_written);
}

static void stray_written(struct world *world, struct job *job, enum status status)
{
    struct part_finding *finding = (struct part_finding *)job;
    if (status == STATUS_RETRY) {
        job_wait(world, job, AGAIN_US, write_stray_again);
    } else if (status == STATUS_LOST_RACE && finding->stray_rounds++ < STRAY_ROUNDS_MAX) {
        load_stray(world, finding);
    } else {
        job_wait(world, job, CLOCK_MILLISECOND_US, announce_stray);
    }
}

static enum status read_stray(struct world *world, struct job *job)
{
    struct part_finding *finding = (struct part_finding *)job;
    db_stray_load(world, &finding->stray, &finding->stray_rows);
    return STATUS_OK;
}

static void stray_loaded(struct world *world, struct job *job, enum status status)
{
    struct part_finding *finding = (struct part_finding *)job;
    if (status != STATUS_OK) { /* a read is repeated like any other job */
        load_stray(world, finding);
        return;
    }
    struct sql_call calls[STRAY_FACT_CALLS_MAX];
    stray_fact_calls(&finding->stray, &finding->stray_rows, &world->arena, calls,
                     &finding->stray_plan);
    job_write(world, job, write_stray, stray_written);
}

static void load_stray(struct world *world, struct part_finding *finding)
{
    job_read(world, &finding->job, read_stray, stray_loaded);
}

/* As finding_store_stray makes them. */
static void start_stray(struct world *world, struct part_finding *finding)
{
    struct finding *real = &finding->real;
    enum stray_kind kind;
    INVARIANT(stray_kind_of(real->verdict.contradiction, &kind));
    finding->outcome = (struct attempt_outcome){
        .attempt = real->attempt.attempt,
        .payment = real->attempt.payment,
        .version = real->attempt.version,
        .from = real->attempt.state,
        .verdict = real->verdict,
        .observation = real->observation,
        .evidence = real->evidence,
        .request = real->request,
        .closure = observation_closure(&real->observation, capability_of(world)),
        .event = "stray",
    };
    finding->stray = (struct stray_fact_input){
        .id = world_id(world),
        .case_id = { world_id(world) },
        .case_event = { world_id(world) },
        .kind = kind,
        .payment = real->attempt.payment,
        .attempt = real->attempt.attempt,
        .channel_account = world->parts->accounts[finding->account].id,
        .provider_object = real->observation.provider_object != NULL
                               ? real->observation.provider_object
                               : real->attempt.provider_key,
        .has_amount = real->observation.has_amount,
        .amount = real->observation.amount,
        .evidence = real->evidence,
        .observed = &finding->outcome,
        .actor = finding->job.worker->name,
    };
    load_stray(world, finding);
}

static bool is_late(struct world *world, const struct worker *worker)
{
    int64_t *until_us = &world->parts->late_until_us[worker->number];
    if (choice_strikes(&world->choices, CHOICE_RESULTS_LATE, worker->number))
        *until_us = world->now_us + 3600 * CLOCK_SECOND_US;
    return world->now_us < *until_us && !world->choices.is_healed;
}

/* Of a create, just as recover takes its fence over. */
static int64_t draw_lateness(struct world *world, const struct part_finding *finding)
{
    if (finding->real.attempt.state == ATTEMPT_SENDING)
        return SEND_BY_US + CALL_LIMIT_US + FENCE_GRACE_US;
    return choice_delay_us(&world->choices, CHOICE_NAP, finding->job.worker->number);
}

/* --- the way of a finding --------------------------------------------------------------------- */

void part_finding_start(struct world *world, struct part_finding *finding)
{
    judge_finding(world, finding);
    if (finding_is_stray(&finding->real)) {
        start_stray(world, finding);
        return;
    }
    finding->outcome = finding_outcome(&world->parts->findings[finding->account], &finding->real);
    finding->moved = 0;
    if (is_late(world, finding->job.worker)) {
        job_wait(world, &finding->job, draw_lateness(world, finding), write_again);
        return;
    }
    job_write(world, &finding->job, write, written);
}

static enum status load(struct world *world, struct job *job)
{
    struct part_finding *finding = (struct part_finding *)job;
    struct finding *real = &finding->real;
    const struct task_id leased = real->attempt.task;
    struct attempt_row row;
    if (!db_attempt_load(world, real->attempt.attempt, real->request, &row))
        return STATUS_NOT_FOUND;
    real->attempt = row;
    if (real->has_lease) real->attempt.task = leased;
    real->needs_load = false;
    return STATUS_OK;
}

static void loaded(struct world *world, struct job *job, enum status status)
{
    struct part_finding *finding = (struct part_finding *)job;
    if (status == STATUS_OK) {
        part_finding_start(world, finding);
    } else if (status == STATUS_RETRY) {
        part_finding_load(world, finding);
    } else {
        end_finding(world, finding);
    }
}

void part_finding_load(struct world *world, struct part_finding *finding)
{
    job_read(world, &finding->job, load, loaded);
}
