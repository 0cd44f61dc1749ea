/*
 * tests/simulation/part_create.c: oncepay-create (stages/create/create_lane.c): the fence, the ack
 * after it, the call, and the end of what the fence let nobody send.
 */
#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"

#define HAND_BACK_US (1000 * CLOCK_MILLISECOND_US)
#define AGAIN_US (100 * CLOCK_MILLISECOND_US)

struct fence_job {
    struct job job;
    size_t account;
    struct part_hand *hand;
    struct attempt_id attempts[MESSAGE_COMMANDS_MAX];
    struct request_id requests[MESSAGE_COMMANDS_MAX];
    struct fence_row rows[MESSAGE_COMMANDS_MAX];
    size_t count;
    struct uuid fence_batch;
    int64_t send_by_us; /* the worker's own clock; never later than the row's */
};

/* --- local ends ------------------------------------------------------------------------------- */

struct local_job {
    struct job job;
    struct part_hand *hand;
    struct local_end end;
    int32_t version;
};

static enum status fail_local(struct world *world, struct job *job)
{
    struct local_job *self = (struct local_job *)job;
    job->is_locked =
        db_task_is_locked(world, database_attempt(world->database, self->end.attempt), job);
    if (!job->is_locked) self->version = db_attempt_fail_local(world, &self->end);
    return STATUS_OK;
}

static void failed_local(struct world *world, struct job *job, enum status status)
{
    struct local_job *self = (struct local_job *)job;
    if (status == STATUS_RETRY) { /* store_queue.c: the same again */
        job_write(world, job, fail_local, failed_local);
        return;
    }
    if (self->version != 0) {
        const struct command command = { .outbox = self->end.command,
                                         .payment = self->end.payment,
                                         .entity = self->end.attempt.uuid,
                                         .version = self->version,
                                         .kind = COMMAND_SETTLE };
        stream_publish_commands(world, STREAM_SETTLE, &command, 1);
    }
    part_hand_done(world, self->hand, 0);
}

static void end_locally(struct world *world, const struct fence_job *fence,
                        const struct fence_row *row)
{
    struct local_job *self = (struct local_job *)job_create(world, fence->job.worker, sizeof *self);
    self->hand = fence->hand;
    self->end = (struct local_end){
        .attempt = row->attempt,
        .payment = row->payment,
        .evidence = { world_id(world) },
        .command = { world_id(world) },
        .reason = row->outcome == FENCE_HELD ? "target_held" : "expired_before_start",
    };
    if (row->outcome == FENCE_EXPIRED) world_reach(world, REACHED_EXPIRED);
    job_write(world, &self->job, fail_local, failed_local);
}

/* --- sending ---------------------------------------------------------------------------------- */

static void send(struct world *world, struct fence_job *fence, const struct fence_row *row,
                 struct part_fence *share)
{
    struct part_finding *finding = part_finding_create(world, fence->job.worker, fence->account);
    const size_t payment = database_payment(world->database, row->payment);
    finding->tag = (unsigned)payment;
    finding->fence = share;
    finding->real.attempt = (struct attempt_row){
        .attempt = row->attempt,
        .payment = row->payment,
        .account = world->parts->accounts[fence->account].id,
        .state = ATTEMPT_SENDING,
        .certainty = CERTAINTY_UNKNOWN,
        .version = row->version,
        .amount = row->amount,
        .provider_key = row->provider_key,
        .merchant = row->merchant,
        .method_type = row->method_type,
        .payment_state = PAYMENT_AUTHORIZING,
        .now_us = world->now_us,
        .last_request_end_us = world->now_us,
    };
    finding->real.request = row->request;
    finding->real.sends = row->version / 2;
    struct call *call = world_allocate(world, sizeof *call);
    *call = (struct call){ .worker = fence->job.worker,
                           .life = fence->job.worker->life,
                           .account = fence->account,
                           .kind = REQUEST_CREATE,
                           .key = row->provider_key,
                           .amount = row->amount,
                           .request = row->request,
                           .tag = finding->tag,
                           .answered = part_finding_answered,
                           .owner = finding };
    if (world->mutant == MUTANT_VOLATILE_KEY)
        call->key = arena_format(&world->arena, "%s-%s", row->provider_key,
                                 world_short(world, row->request.uuid));
    part_call(world, call, fence->send_by_us);
}

static void take_fenced(struct world *world, struct fence_job *fence)
{
    struct part_fence *share = world_allocate(world, sizeof *share);
    share->id = fence->fence_batch;
    for (size_t i = 0; i < fence->count; i++)
        share->open += fence->rows[i].outcome == FENCE_SENDING;
    for (size_t i = 0; i < fence->count; i++) { /* the bytes first: send_by runs */
        if (fence->rows[i].outcome == FENCE_SENDING) send(world, fence, &fence->rows[i], share);
    }
    for (size_t i = 0; i < fence->count; i++) {
        const enum fence_outcome outcome = fence->rows[i].outcome;
        if (outcome == FENCE_EXPIRED || outcome == FENCE_HELD) {
            end_locally(world, fence, &fence->rows[i]);
        } else {
            part_hand_done(world, fence->hand, 0);
        }
    }
}

/* --- the fence -------------------------------------------------------------------------------- */

static enum status fence_all(struct world *world, struct job *job)
{
    struct fence_job *self = (struct fence_job *)job;
    for (size_t i = 0; i < self->count; i++) {
        const size_t attempt = database_attempt(world->database, self->attempts[i]);
        if (attempt != SIZE_MAX && db_task_is_locked(world, attempt, job)) job->is_locked = true;
    }
    if (job->is_locked) return STATUS_OK;
    for (size_t i = 0; i < self->count; i++) {
        db_attempt_fence(world, self->attempts[i], self->requests[i], self->account,
                         world->now_us + SEND_BY_US, &self->rows[i]);
    }
    db_fence_batch(world, self->fence_batch, self->account, self->rows, self->count,
                   world->now_us + SEND_BY_US + CALL_LIMIT_US + FENCE_GRACE_US);
    return STATUS_OK;
}

static void fenced(struct world *world, struct job *job, enum status status);

static void fence_again(struct world *world, struct job *job)
{
    job_write(world, job, fence_all, fenced);
}

static void fenced(struct world *world, struct job *job, enum status status)
{
    struct fence_job *self = (struct fence_job *)job;
    if (status == STATUS_OK) {
        take_fenced(world, self);
    } else { /* store_queue.c: outcome unknown, the same again */
        job_wait(world, job, AGAIN_US, fence_again);
    }
}

static void start_fence(struct world *world, struct worker *worker, size_t account,
                        struct part_hand *hand)
{
    struct fence_job *self = (struct fence_job *)job_create(world, worker, sizeof *self);
    self->account = account;
    self->hand = hand;
    for (size_t i = 0; i < hand->message->command_count; i++) {
        self->attempts[self->count] = (struct attempt_id){ hand->message->commands[i].entity };
        self->requests[self->count++].uuid = world_id(world);
    }
    self->fence_batch = world_id(world);
    self->send_by_us = world->now_us + SEND_BY_US;
    job_write(world, &self->job, fence_all, fenced);
}

void part_create_look(struct world *world, struct worker *worker)
{
    for (size_t account = 0; account < ACCOUNTS; account++) {
        struct part_hand *hand = part_hand_take(world, worker, STREAM_CREATE + account);
        if (hand != NULL) {
            start_fence(world, worker, account, hand);
            worker_look(world, worker, world->now_us + CLOCK_MILLISECOND_US);
        } else {
            part_look_later(world, worker, STREAM_CREATE + account);
        }
    }
}
