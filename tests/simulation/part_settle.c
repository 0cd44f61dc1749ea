/*
 * tests/simulation/part_settle.c: oncepay-settle (stages/settle/settle_batch.c), one command at a
 * time: read, decide, move the payment or store the stray fact, publish, ack.
 */
#include "tests/simulation/check.h"
#include "tests/simulation/decide.h"
#include "tests/simulation/parts.h"

enum { ROUNDS_MAX = 5, RETRIES_MAX = 6 };
#define AGAIN_US (200 * CLOCK_MILLISECOND_US)
#define MISSING_US (1000 * CLOCK_MILLISECOND_US)

struct settle_job {
    struct job job;
    struct part_hand *hand;
    size_t at;
    struct command command;
    struct settle_facts facts;
    struct settle_decision decision;
    struct settle_move move;
    struct outbox_id event;
    struct stray_fact_input stray;
    struct stray_fact_rows rows;
    struct stray_fact_plan plan;
    struct command commands[STRAY_FACT_ATTEMPTS_MAX];
    size_t command_count;
    int rounds;
    int retries;
};

static void next_command(struct world *world, struct settle_job *self);
static void ask(struct world *world, struct settle_job *self);

static void done(struct world *world, struct settle_job *self, int64_t nak_us)
{
    job_drop_number(world, &self->job);
    const bool is_last = self->hand->open == 1;
    part_hand_done(world, self->hand, nak_us);
    self->at++;
    if (is_last) {
        part_free(world, self->job.worker);
    } else {
        next_command(world, self);
    }
}

static void acknowledge(struct world *world, struct job *job)
{
    done(world, (struct settle_job *)job, 0);
}

/* The mutant's failover: route is told to try elsewhere. */
static void fail_over(struct world *world, const struct settle_job *self)
{
    const bool is_unknown = self->decision.action == SETTLE_MOVE &&
                            strcmp(self->decision.history_event, "settled.unknown") == 0;
    if (world->mutant != MUTANT_FAILOVER_FROM_UNKNOWN || !is_unknown) return;
    const struct command command = { .outbox = { world_id(world) },
                                     .payment = self->command.payment,
                                     .entity = self->command.payment.uuid,
                                     .version = self->facts.attempt.ordinal,
                                     .kind = COMMAND_ROUTE };
    stream_publish_commands(world, STREAM_ROUTE, &command, 1);
}

static void announce(struct world *world, struct job *job)
{
    struct settle_job *self = (struct settle_job *)job;
    for (size_t i = 0; i < self->command_count; i++)
        stream_publish_commands(world, STREAM_SETTLE, &self->commands[i], 1);
    fail_over(world, self);
    job_wait(world, job, CLOCK_MILLISECOND_US, acknowledge);
}

static void ask_again(struct world *world, struct job *job)
{
    ask(world, (struct settle_job *)job);
}

static void written(struct world *world, struct job *job, enum status status)
{
    struct settle_job *self = (struct settle_job *)job;
    if (status == STATUS_OK) {
        job_wait(world, job, CLOCK_MILLISECOND_US, announce);
    } else if (status == STATUS_LOST_RACE && ++self->rounds < ROUNDS_MAX) {
        ask(world, self);
    } else if (status == STATUS_RETRY && ++self->retries <= RETRIES_MAX) {
        job_wait(world, job, AGAIN_US, ask_again);
    } else {
        done(world, self, AGAIN_US);
    }
}

/* --- a move ----------------------------------------------------------------------------------- */

static enum status write_move(struct world *world, struct job *job)
{
    struct settle_job *self = (struct settle_job *)job;
    return db_settle_move(world, &self->move, &self->decision, self->event);
}

/* As settle_batch.c makes it of a decision. */
static void make_move(struct world *world, struct settle_job *self)
{
    const struct settle_decision *decision = &self->decision;
    self->move = (struct settle_move){
        .payment = &self->facts.payment,
        .next_status = decision->next_status,
        .certainty = decision->certainty,
        .reason = decision->reason,
        .announced = decision->announced,
        .authorised_minor = decision->authorised_minor,
        .captured_minor = decision->captured_minor,
        .history_event = decision->history_event,
        .why = decision->why,
        .hold = decision->hold,
        .around = &self->facts.around,
    };
    if (decision->is_applied) {
        self->move.applied_attempt = self->facts.attempt.id;
        self->move.applied_version = self->facts.attempt.version;
        self->move.evidence = self->facts.attempt.evidence;
    }
    if (decision->lift_hold_us > 0) {
        self->move.timer = world_id(world);
        self->move.timer_due_us = decision->lift_hold_us;
    }
    self->event.uuid = world_id(world);
}

/* --- a stray fact ----------------------------------------------------------------------------- */

static enum status write_stray(struct world *world, struct job *job)
{
    struct settle_job *self = (struct settle_job *)job;
    return db_stray_write(world, &self->stray, &self->rows, &self->plan, self->commands,
                          &self->command_count);
}

static enum status load_stray(struct world *world, struct job *job)
{
    struct settle_job *self = (struct settle_job *)job;
    db_stray_load(world, &self->stray, &self->rows);
    return STATUS_OK;
}

static void loaded_stray(struct world *world, struct job *job, enum status status)
{
    struct settle_job *self = (struct settle_job *)job;
    if (status != STATUS_OK) {
        written(world, job, status);
        return;
    }
    struct sql_call calls[STRAY_FACT_CALLS_MAX];
    stray_fact_calls(&self->stray, &self->rows, &world->arena, calls, &self->plan);
    if (self->plan.call_count == 0) {
        done(world, self, 0);
        return;
    }
    job_write(world, job, write_stray, written);
}

static void make_stray(struct world *world, struct settle_job *self)
{
    const struct settle_attempt *attempt = &self->facts.attempt;
    self->stray = (struct stray_fact_input){
        .id = world_id(world),
        .case_id = { world_id(world) },
        .case_event = { world_id(world) },
        .kind = self->decision.stray,
        .payment = self->facts.payment.id,
        .attempt = attempt->id,
        .channel_account = attempt->channel_account,
        .provider_object =
            attempt->provider_object != NULL ? attempt->provider_object : attempt->provider_key,
        .has_amount = true,
        .amount = attempt->has_evidence_amount ? attempt->evidence_amount : attempt->amount,
        .evidence = attempt->evidence,
        .applied_version = attempt->version,
        .actor = self->job.worker->name,
    };
}

/* --- deciding --------------------------------------------------------------------------------- */

static void decided(struct world *world, struct settle_job *self)
{
    self->command_count = 0;
    switch (self->decision.action) {
    case SETTLE_NOTHING:
        done(world, self, 0);
        return;
    case SETTLE_MOVE:
        make_move(world, self);
        job_write(world, &self->job, write_move, written);
        return;
    case SETTLE_STRAY:
        make_stray(world, self);
        job_read(world, &self->job, load_stray, loaded_stray);
        return;
    case SETTLE_MISSING:
        done(world, self, MISSING_US);
        return;
    }
    UNREACHABLE("settle action out of range");
}

static void read_done(struct world *world, struct job *job, enum status status)
{
    struct settle_job *self = (struct settle_job *)job;
    if (status != STATUS_OK) {
        done(world, self, AGAIN_US);
        return;
    }
    const struct settle_rules rules = { .capability = &world->bank->capability,
                                        .call_limit_us = CALL_LIMIT_US };
    if (world->mutant == MUTANT_END_IS_STALE &&
        self->facts.attempt.version != self->command.version) {
        done(world, self, 0);
        return;
    }
    self->decision = decide_settle(world, self->command.kind, &self->facts, &rules);
    world_say(world, "%s decides: %s", job->worker->name, self->decision.why);
    decided(world, self);
}

static enum status read_facts(struct world *world, struct job *job)
{
    struct settle_job *self = (struct settle_job *)job;
    db_settle_read(world, &self->command, &self->facts);
    return STATUS_OK;
}

static void ask(struct world *world, struct settle_job *self)
{
    job_number_early(world, &self->job);
    job_read(world, &self->job, read_facts, read_done);
}

static void next_command(struct world *world, struct settle_job *self)
{
    self->command = self->hand->message->commands[self->at];
    self->rounds = self->retries = 0;
    ask(world, self);
}

void part_settle_look(struct world *world, struct worker *worker)
{
    if (worker->is_at_work) return;
    struct part_hand *hand = part_hand_take(world, worker, STREAM_SETTLE);
    if (hand == NULL) {
        part_look_later(world, worker, STREAM_SETTLE);
        return;
    }
    worker->is_at_work = true;
    struct settle_job *self = (struct settle_job *)job_create(world, worker, sizeof *self);
    self->hand = hand;
    next_command(world, self);
}
