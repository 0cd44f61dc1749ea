/*
 * tests/simulation/part_intake.c: oncepay-intake (stages/intake/intake_handle.c, intake_batch.c),
 * one request at a time: Redis in front, read, decide, write, answer, ack.
 */
#include "tests/simulation/cache_double.h"
#include "tests/simulation/check.h"
#include "tests/simulation/decide.h"
#include "tests/simulation/parts.h"
#include "tests/simulation/producers.h"

enum { LOST_RACES_MAX = 8, RETRIES_MAX = 6 };
#define HOLD_US (300 * CLOCK_MILLISECOND_US)
#define AGAIN_US (200 * CLOCK_MILLISECOND_US)

struct intake_job {
    struct job job;
    struct stored_message *message;
    struct request_envelope envelope;
    struct pay_request request;
    enum cache_verdict look;
    struct intake_answer early;
    struct intake_found found;
    int64_t start_by_us;
    struct intake_decision decision;
    struct payment_view existing;
    struct payment_id payment; /* of an acceptance */
    struct outbox_id event;
    struct outbox_id command;
    struct intake_answer answer;
    bool is_unseen; /* written without a look: new, as far as Redis knows */
    int64_t asked_us;
    struct span cached; /* on its way to Redis … */
    int64_t cached_lifetime_us;
    int races;
    int retries;
};

static void ask(struct world *world, struct intake_job *self);

static void hand_back(struct world *world, struct intake_job *self, int64_t delay_us)
{
    job_drop_number(world, &self->job);
    stream_nak(world, self->message, delay_us);
    part_free(world, self->job.worker);
}

static bool is_replay(const struct intake_job *self)
{
    return self->decision.verdict == INTAKE_REPLAY;
}

static void reply(struct world *world, const struct intake_job *self,
                  const struct intake_answer *answer)
{
    if (self->envelope.reply_to == NULL) return;
    /* Read while its key lived, and told by a worker that stood still until others used it anew. */
    const bool is_late = self->found.has_key && !self->found.key_is_expired &&
                         self->found.key_expires_us <= world->now_us;
    const int64_t key_expires_us = is_late ? 0 : check_answer(world, &self->request, answer);
    producers_hear(world, self->envelope.reply_to, answer, key_expires_us);
}

static void finish(struct world *world, struct job *job)
{
    struct intake_job *self = (struct intake_job *)job;
    check_intake_ack(world, &self->request);
    stream_ack(world, self->message);
    part_free(world, job->worker);
}

/* --- after the commit ------------------------------------------------------------------------- */

static int64_t database_us(const struct world *world, const struct intake_job *self)
{
    return intake_clock_latest(&world->parts->clocks[self->job.worker->number], world->now_us);
}

static void tell_cache(struct world *world, struct job *job)
{
    struct intake_job *self = (struct intake_job *)job;
    cache_double_answer(world, &self->request, self->cached, self->cached_lifetime_us);
    job_wait(world, job, CLOCK_MILLISECOND_US, finish);
}

/* What is told to Redis may arrive much later than it was made. */
static void update_cache(struct world *world, struct intake_job *self)
{
    const int64_t now_us = database_us(world, self);
    int64_t expires_us = intake_answer_expires(&self->decision, &self->found, KEY_LIFETIME_US);
    if (self->decision.writes_key && world->mutant == MUTANT_CACHE_OUTLIVES_KEY)
        expires_us = world->now_us + KEY_LIFETIME_US;
    if (self->look != CACHE_ANSWERED && expires_us > now_us) {
        self->cached = intake_answer_encode(&self->answer, expires_us, &world->arena);
        self->cached_lifetime_us = expires_us - now_us;
        job_wait(world, &self->job,
                 choice_delay_us(&world->choices, CHOICE_CACHE, self->job.worker->number),
                 tell_cache);
        return;
    }
    if (self->look == CACHE_PLACED)
        cache_double_release(world, &self->request, self->message->sequence);
    job_wait(world, &self->job, CLOCK_MILLISECOND_US, finish);
}

static void announce(struct world *world, struct job *job)
{
    struct intake_job *self = (struct intake_job *)job;
    const bool was_told =
        self->look == CACHE_ANSWERED && span_equal(self->early.body, self->answer.body);
    if (!was_told) reply(world, self, &self->answer);
    if (self->decision.verdict == INTAKE_NEW) {
        const struct command command = { .outbox = self->command,
                                         .payment = self->payment,
                                         .entity = self->payment.uuid,
                                         .kind = COMMAND_ROUTE };
        stream_publish_commands(world, STREAM_ROUTE, &command, 1);
    }
    if (is_replay(self)) world_reach(world, REACHED_REPLAYED_ANSWER);
    update_cache(world, self);
}

static void ask_again(struct world *world, struct job *job)
{
    ask(world, (struct intake_job *)job);
}

static void written(struct world *world, struct job *job, enum status status)
{
    struct intake_job *self = (struct intake_job *)job;
    if (status == STATUS_RETRY && world->mutant == MUTANT_COMMIT_ASSUMED) status = STATUS_OK;
    if (status == STATUS_OK) {
        announce(world, job);
    } else if (status == STATUS_LOST_RACE && self->is_unseen) {
        world_reach(world, REACHED_UNSEEN_LOST);
        ask(world, self);
    } else if (status == STATUS_LOST_RACE && ++self->races <= LOST_RACES_MAX) {
        ask(world, self);
    } else if (status == STATUS_RETRY && ++self->retries <= RETRIES_MAX) {
        job_wait(world, job, AGAIN_US, ask_again);
    } else {
        hand_back(world, self, AGAIN_US);
    }
}

/* --- deciding and writing --------------------------------------------------------------------- */

static enum status write(struct world *world, struct job *job)
{
    struct intake_job *self = (struct intake_job *)job;
    if (self->decision.verdict == INTAKE_NEW) {
        const struct intake_accepting accept = {
            .id = self->payment,
            .request = &self->request,
            .start_by_us = self->start_by_us,
            .key_lifetime_us = KEY_LIFETIME_US,
            .answer = self->answer,
            .pointer_payment = self->found.active,
            .pointer_version = self->found.active_version,
            .event = self->event,
            .command = self->command,
        };
        TRY(db_intake_accept(world, &accept));
        bank_remember(world, database_payment(world->database, self->payment));
        return STATUS_OK;
    }
    if (self->decision.writes_key) {
        TRY(db_intake_answer(world, &self->request, self->decision.existing, KEY_LIFETIME_US,
                             &self->answer));
    }
    if (self->decision.problem != PROBLEM_NONE) db_intake_reject(world, self->event);
    return STATUS_OK;
}

/* As intake_render.c makes it. */
static struct intake_answer render(struct world *world, const struct intake_job *self)
{
    if (is_replay(self)) return self->found.answer;
    struct answer answer;
    if (self->decision.problem != PROBLEM_NONE) {
        const struct problem problem = { self->decision.problem, NULL, NULL };
        const bool has_existing = !uuid_is_nil(self->decision.existing.uuid);
        answer = answer_problem(&problem, has_existing ? &self->existing : NULL, CONTENT_MSGPACK,
                                &world->arena);
    } else {
        const struct payment_view view = {
            .payment = self->decision.verdict == INTAKE_NEW ? self->payment : self->found.payment,
            .out_trade_no = self->request.out_trade_no,
            .status = PAYMENT_CREATED,
            .amount = self->request.amount,
            .version = 1,
        };
        answer = answer_payment(ANSWER_ACCEPTED, &view, CONTENT_MSGPACK, &world->arena);
    }
    return (struct intake_answer){ answer.status, "content-type: application/msgpack\n",
                                   answer.body };
}

static void settle_answer(struct world *world, struct intake_job *self)
{
    self->payment.uuid = world_id(world);
    self->command.uuid = world_id(world);
    self->event.uuid =
        self->decision.problem == PROBLEM_NONE ? world_id(world) : self->message->name;
    self->answer = render(world, self);
    const bool writes = self->decision.verdict == INTAKE_NEW || self->decision.writes_key ||
                        self->decision.problem != PROBLEM_NONE;
    if (world->mutant == MUTANT_ANSWER_BEFORE_COMMIT) reply(world, self, &self->answer);
    if (world->mutant == MUTANT_ACK_BEFORE_COMMIT) {
        check_intake_ack(world, &self->request);
        stream_ack(world, self->message);
    }
    if (writes) {
        job_write(world, &self->job, write, written);
    } else {
        job_drop_number(world, &self->job);
        announce(world, &self->job);
    }
}

static enum status view(struct world *world, struct job *job)
{
    struct intake_job *self = (struct intake_job *)job;
    db_intake_view(world, self->decision.existing, &self->existing);
    return STATUS_OK;
}

static void viewed(struct world *world, struct job *job, enum status status)
{
    struct intake_job *self = (struct intake_job *)job;
    if (status == STATUS_OK) {
        settle_answer(world, self);
    } else {
        hand_back(world, self, AGAIN_US);
    }
}

static enum status read_request(struct world *world, struct job *job)
{
    struct intake_job *self = (struct intake_job *)job;
    db_intake_read(world, &self->request, &self->found);
    return STATUS_OK;
}

static void note_verdict(struct world *world, const struct intake_job *self)
{
    world_say(world, "%s decides: request %s is %s", self->job.worker->name,
              self->request.out_trade_no, intake_verdict_name(self->decision.verdict));
    if (self->decision.verdict == INTAKE_TARGET_BUSY) world_reach(world, REACHED_BUSY);
    if (self->found.has_key && self->found.key_is_expired) world_reach(world, REACHED_DELAYED_KEY);
}

static void decide(struct world *world, struct intake_job *self)
{
    const struct intake_age age = { .stored_us = self->message->stored_us,
                                    .first_stored_us = self->message->first_stored_us };
    self->start_by_us =
        intake_start_by(&age, self->request.expires_at_us, START_BY_S, self->found.now_us);
    self->decision = decide_intake(world, &self->request, self->start_by_us, &self->found);
}

static void read_done(struct world *world, struct job *job, enum status status)
{
    struct intake_job *self = (struct intake_job *)job;
    if (status != STATUS_OK) {
        hand_back(world, self, AGAIN_US);
        return;
    }
    intake_clock_note(&world->parts->clocks[job->worker->number], self->asked_us, world->now_us,
                      self->found.now_us);
    decide(world, self);
    note_verdict(world, self);
    if (!uuid_is_nil(self->decision.existing.uuid)) {
        job_read(world, job, view, viewed);
    } else {
        settle_answer(world, self);
    }
}

static void ask(struct world *world, struct intake_job *self)
{
    job_number_early(world, &self->job);
    self->is_unseen = false;
    self->asked_us = world->now_us;
    job_read(world, &self->job, read_request, read_done);
}

/* What is new to Redis is written without a look; the database's unique keys say who was first. */
static bool accepts_unseen(struct world *world, struct intake_job *self)
{
    const int64_t now_us =
        intake_clock_earliest(&world->parts->clocks[self->job.worker->number], world->now_us);
    if (self->look != CACHE_PLACED || now_us == 0) return false;
    self->found = (struct intake_found){ .now_us = now_us };
    decide(world, self);
    if (self->decision.verdict != INTAKE_NEW && world->mutant != MUTANT_REFUSED_UNSEEN)
        return false;
    job_number_early(world, &self->job);
    self->is_unseen = true;
    self->asked_us = world->now_us;
    note_verdict(world, self);
    settle_answer(world, self);
    return true;
}

/* --- Redis in front --------------------------------------------------------------------------- */

/* The mutants' ways with another's placeholder. True: done with the message. */
static bool believes_placeholder(struct world *world, struct intake_job *self)
{
    if (world->mutant != MUTANT_TRUST_PLACEHOLDER && world->mutant != MUTANT_PLACEHOLDER_REFUSES)
        return false;
    if (world->mutant == MUTANT_PLACEHOLDER_REFUSES) {
        const struct problem problem = { PROBLEM_IN_PROGRESS, NULL, NULL };
        const struct answer answer = answer_problem(&problem, NULL, CONTENT_MSGPACK, &world->arena);
        self->answer = (struct intake_answer){ answer.status, "", answer.body };
        reply(world, self, &self->answer);
    }
    job_wait(world, &self->job, CLOCK_MILLISECOND_US, finish);
    return true;
}

static void look_into_cache(struct world *world, struct job *job)
{
    struct intake_job *self = (struct intake_job *)job;
    struct span early = { NULL, 0 };
    int64_t expires_us = 0;
    self->look =
        cache_double_claim(world, job->worker, &self->request, self->message->sequence, &early);
    if (self->look == CACHE_HELD) {
        if (!believes_placeholder(world, self)) hand_back(world, self, HOLD_US);
        return;
    }
    if (self->look == CACHE_ANSWERED &&
        (!intake_answer_decode(early, &world->arena, &self->early, &expires_us) ||
         expires_us <= database_us(world, self))) {
        self->look = CACHE_UNKNOWN;
    }
    if (self->look == CACHE_ANSWERED) {
        world_reach(world, REACHED_EARLY_REPLY);
        check_early(world, &self->request);
        reply(world, self, &self->early);
    }
    if (!accepts_unseen(world, self)) ask(world, self);
}

void part_intake_look(struct world *world, struct worker *worker)
{
    if (worker->is_at_work) return;
    struct stored_message *message = stream_take(world, STREAM_INTAKE, worker);
    if (message == NULL) {
        part_look_later(world, worker, STREAM_INTAKE);
        return;
    }
    worker->is_at_work = true;
    struct intake_job *self = (struct intake_job *)job_create(world, worker, sizeof *self);
    self->message = message;
    const struct bus_message bus = { .subject = message->subject,
                                     .body = message->body,
                                     .headers = message->headers,
                                     .header_count = message->header_count,
                                     .stored_at_us = message->stored_us,
                                     .stream_sequence = message->sequence,
                                     .deliveries = message->deliveries };
    struct problem problem = { PROBLEM_NONE, NULL, NULL };
    const bool is_valid =
        request_envelope_read(&bus, &world->arena, &self->envelope, &problem) &&
        pay_request_decode(&self->envelope, &world->arena, &self->request, &problem);
    INVARIANT(is_valid);
    job_wait(world, &self->job, choice_delay_us(&world->choices, CHOICE_CACHE, worker->number),
             look_into_cache);
}
