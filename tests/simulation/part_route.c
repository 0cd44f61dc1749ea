/* tests/simulation/part_route.c: oncepay-route (route/route_batch.c), one command at a time. */
#include "tests/simulation/check.h"
#include "tests/simulation/decide.h"
#include "tests/simulation/parts.h"

enum { LOST_RACES_MAX = 8, RETRIES_MAX = 6 };
#define AGAIN_US (200 * CLOCK_MILLISECOND_US)
#define WAIT_US (30 * CLOCK_SECOND_US)

struct route_job {
    struct job job;
    struct part_hand *hand;
    size_t at; /* the command in hand */
    struct command command;
    struct route_payment payment;
    const char *target;
    int64_t open[ACCOUNTS];
    struct route_decision decision;
    struct route_taking taking;
    int races;
    int retries;
};

static void next_command(struct world *world, struct route_job *self);

static void done(struct world *world, struct route_job *self, int64_t nak_us)
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

static void ask(struct world *world, struct route_job *self);

static void ask_again(struct world *world, struct job *job)
{
    ask(world, (struct route_job *)job);
}

/* Between commit, publish and ack lie moments at which it may die. */
static void acknowledge(struct world *world, struct job *job)
{
    done(world, (struct route_job *)job, 0);
}

static void announce(struct world *world, struct job *job)
{
    struct route_job *self = (struct route_job *)job;
    const bool is_taken = self->decision.verdict == ROUTE_TAKE;
    const struct command command = {
        .outbox = self->taking.command,
        .payment = self->command.payment,
        .entity = is_taken ? self->taking.attempt.uuid : self->taking.decision,
        .version = is_taken ? 1 : self->command.version,
        .kind = is_taken ? COMMAND_CREATE : COMMAND_NO_ROUTE,
    };
    stream_publish_commands(world, is_taken ? STREAM_CREATE + self->taking.account : STREAM_SETTLE,
                            &command, 1);
    job_wait(world, job, CLOCK_MILLISECOND_US, acknowledge);
}

static void written(struct world *world, struct job *job, enum status status)
{
    struct route_job *self = (struct route_job *)job;
    if (status == STATUS_RETRY && world->mutant == MUTANT_COMMIT_ASSUMED) status = STATUS_OK;
    if (status == STATUS_OK) {
        job_wait(world, job, CLOCK_MILLISECOND_US, announce);
    } else if (status == STATUS_LOST_RACE && ++self->races <= LOST_RACES_MAX) {
        ask(world, self);
    } else if (status == STATUS_RETRY && ++self->retries <= RETRIES_MAX) {
        job_wait(world, job, AGAIN_US, ask_again);
    } else {
        done(world, self, AGAIN_US);
    }
}

static enum status write(struct world *world, struct job *job)
{
    struct route_job *self = (struct route_job *)job;
    if (self->decision.verdict == ROUTE_TAKE) return db_route_take(world, &self->taking);
    return db_route_deny(world, self->command.payment, self->payment.version,
                         (int)self->command.version, self->taking.decision, self->decision.reason,
                         self->taking.command);
}

static void take(struct world *world, struct route_job *self)
{
    const int ordinal = (int)self->command.version + 1;
    self->taking = (struct route_taking){
        .payment = self->command.payment,
        .version = self->payment.version,
        .attempt = { world_id(world) },
        .ordinal = ordinal,
        .account = self->decision.taken,
        .provider_key = decide_key(world, &self->payment, self->target, ordinal),
        .decision = world_id(world),
        .command = { world_id(world) },
    };
    if (self->decision.verdict == ROUTE_DENY) world_reach(world, REACHED_NO_ROUTE);
    job_write(world, &self->job, write, written);
}

static int64_t wait_us(const struct route_payment *payment)
{
    const int64_t left_us = payment->start_by_us - payment->now_us + CLOCK_MILLISECOND_US;
    return left_us < WAIT_US ? left_us : WAIT_US;
}

static void decided(struct world *world, struct route_job *self)
{
    world_say(world, "%s decides: %s", self->job.worker->name, self->decision.reason);
    switch (self->decision.verdict) {
    case ROUTE_NOTHING:
        done(world, self, 0);
        return;
    case ROUTE_WAIT:
        done(world, self, wait_us(&self->payment));
        return;
    case ROUTE_TAKE:
    case ROUTE_DENY:
        take(world, self);
        return;
    }
    UNREACHABLE("route verdict out of range");
}

static void read_done(struct world *world, struct job *job, enum status status)
{
    struct route_job *self = (struct route_job *)job;
    if (status != STATUS_OK) {
        done(world, self, AGAIN_US);
        return;
    }
    struct route_candidate candidates[ACCOUNTS];
    for (size_t i = 0; i < ACCOUNTS; i++) {
        candidates[i] = (struct route_candidate){ .account = &world->parts->accounts[i],
                                                  .open_attempts = self->open[i] };
    }
    self->decision = decide_route(world, &self->payment, candidates, ACCOUNTS);
    decided(world, self);
}

static enum status read_payment(struct world *world, struct job *job)
{
    struct route_job *self = (struct route_job *)job;
    const size_t payment = database_payment(world->database, self->command.payment);
    db_route_read(world, self->command.payment, (int)self->command.version, &self->payment);
    self->target = payment == SIZE_MAX ? NULL : world->database->payments[payment].target_id;
    for (size_t i = 0; i < ACCOUNTS; i++) self->open[i] = db_route_open(world, i);
    return STATUS_OK;
}

static void ask(struct world *world, struct route_job *self)
{
    job_number_early(world, &self->job);
    job_read(world, &self->job, read_payment, read_done);
}

static void next_command(struct world *world, struct route_job *self)
{
    self->command = self->hand->message->commands[self->at];
    self->races = self->retries = 0;
    ask(world, self);
}

void part_route_look(struct world *world, struct worker *worker)
{
    if (worker->is_at_work) return;
    struct part_hand *hand = part_hand_take(world, worker, STREAM_ROUTE);
    if (hand == NULL) {
        part_look_later(world, worker, STREAM_ROUTE);
        return;
    }
    worker->is_at_work = true;
    struct route_job *self = (struct route_job *)job_create(world, worker, sizeof *self);
    self->hand = hand;
    next_command(world, self);
}
