/*
 * tests/simulation/part_inbox.c: verified webhooks become findings (recover/recover_inbox.c). The
 * message only says that an inbox row is there; a sweep finds those without a message.
 */
#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"

enum { SWEEP_MAX = 8 };
#define HAND_BACK_US (1000 * CLOCK_MILLISECOND_US)

struct inbox_job {
    struct job job;
    size_t account;
    struct part_hand *hand; /* NULL: the sweep asked */
    struct inbox_id inbox;
    struct inbox_row row;
    struct inbox_id swept[SWEEP_MAX];
    size_t swept_count;
};

static enum status park(struct world *world, struct job *job)
{
    db_inbox_park(world, ((struct inbox_job *)job)->inbox);
    return STATUS_OK;
}

static void parked(struct world *world, struct job *job, enum status status)
{
    (void)world;
    (void)job;
    (void)status; /* the sweep comes again */
}

static void start_finding(struct world *world, const struct inbox_job *self)
{
    struct part_finding *finding = part_finding_create(world, self->job.worker, self->account);
    finding->hand = self->hand;
    finding->real.attempt.attempt = self->row.attempt;
    finding->real.needs_load = true;
    finding->real.inbox = self->inbox;
    finding->real.observation = self->row.observation;
    world_say(world, "%s looks at webhook %s: %s", self->job.worker->name,
              self->row.observation.provider_event,
              observation_kind_name((int)self->row.observation.kind));
    part_finding_load(world, finding);
}

static void loaded(struct world *world, struct job *job, enum status status)
{
    struct inbox_job *self = (struct inbox_job *)job;
    if (status == STATUS_RETRY) {
        if (self->hand != NULL) part_hand_done(world, self->hand, HAND_BACK_US);
    } else if (status != STATUS_OK || self->row.is_processed) {
        if (self->hand != NULL) part_hand_done(world, self->hand, 0);
    } else if (uuid_is_nil(self->row.attempt.uuid)) {
        if (self->hand != NULL) part_hand_done(world, self->hand, 0);
        job_write(world, job, park, parked);
    } else {
        start_finding(world, self);
    }
}

static enum status load(struct world *world, struct job *job)
{
    struct inbox_job *self = (struct inbox_job *)job;
    return db_inbox_load(world, self->inbox, &self->row) ? STATUS_OK : STATUS_NOT_FOUND;
}

static void start_load(struct world *world, struct worker *worker, size_t account,
                       struct part_hand *hand, struct inbox_id inbox)
{
    struct inbox_job *self = (struct inbox_job *)job_create(world, worker, sizeof *self);
    self->account = account;
    self->hand = hand;
    self->inbox = inbox;
    job_read(world, &self->job, load, loaded);
}

static enum status sweep(struct world *world, struct job *job)
{
    struct inbox_job *self = (struct inbox_job *)job;
    self->swept_count = db_inbox_due(world, self->account, self->swept, SWEEP_MAX);
    return STATUS_OK;
}

static void swept(struct world *world, struct job *job, enum status status)
{
    const struct inbox_job *self = (const struct inbox_job *)job;
    for (size_t i = 0; status == STATUS_OK && i < self->swept_count; i++)
        start_load(world, job->worker, self->account, NULL, self->swept[i]);
}

void part_inbox_look(struct world *world, struct worker *worker, size_t account, bool is_sweep_due)
{
    struct part_hand *hand = part_hand_take(world, worker, STREAM_RECOVER + account);
    if (hand != NULL) {
        for (size_t i = 0; i < hand->message->command_count; i++) {
            start_load(world, worker, account, hand,
                       (struct inbox_id){ hand->message->commands[i].entity });
        }
        worker_look(world, worker, world->now_us + CLOCK_MILLISECOND_US);
    } else {
        part_look_later(world, worker, STREAM_RECOVER + account);
    }
    if (is_sweep_due) {
        struct inbox_job *self = (struct inbox_job *)job_create(world, worker, sizeof *self);
        self->account = account;
        job_write(world, &self->job, sweep, swept);
    }
}
