/*
 * stages/recover/recover_fences.c: attempts that a worker fenced and never brought a result for.
 * Only here does SENDING become UNKNOWN without an answer (protocol C2, C3): the bytes may have
 * left.
 */
#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "stages/recover/recover_lane.h"

enum { FENCES_MAX = 16, FENCES_IDLE_US = 1000 * 1000, FENCE_LEASE_MS = 45000 };

static void on_finding_ended(struct finding *finding)
{
    fence_share_leave(finding->fence);
}

static void add_finding(struct recover_lane *self, const struct overdue_fence *row,
                        struct fence_share *share)
{
    struct finding *finding = finding_create(on_finding_ended, self);
    finding->attempt.attempt = row->attempt;
    finding->needs_load = true;
    finding->request = row->request;
    finding->fence = share;
    finding->observation = (struct observation){
        .kind = OBSERVED_TRANSPORT_LOST,
        .source = SOURCE_TRANSPORT,
        .phase = PHASE_SENT,
        .error_code = "worker_lost",
        .excerpt = "{}",
    };
    findings_add(&self->lane.findings, finding);
}

static void on_done(struct store_job *job, enum status status, struct store_result *results)
{
    (void)job;
    (void)results;
    if (status != STATUS_OK)
        LOG_WARNING("a finished fence was not deleted, ignoring: it comes again");
}

/* Every attempt of these has moved on: nothing is left to do but to forget them. */
static void forget(struct recover_lane *self, const struct uuid *fences, size_t count)
{
    if (count == 0) return;
    struct store_job *job = store_job_create(on_done, self);
    fence_done_call(store_job_call(job), &job->arena, fences, count);
    store_queue_push(&self->lane.queue, job);
}

static void on_claimed(struct store_job *job, enum status status, struct store_result *results)
{
    struct recover_lane *self = job->owner;
    self->is_reading_fences = false;
    self->next_fences_us = clock_monotonic_us() + FENCES_IDLE_US;
    if (status != STATUS_OK) return;
    struct overdue_fence *rows = NULL;
    const size_t count = fence_claim_read(&results[0], &job->arena, &rows);
    struct uuid done[FENCES_MAX];
    size_t done_count = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && uuid_equal(rows[end].fence_batch, rows[i].fence_batch)) end++;
        if (uuid_is_nil(rows[i].attempt.uuid)) {
            INVARIANT(done_count < FENCES_MAX);
            done[done_count++] = rows[i].fence_batch;
        } else {
            struct fence_share *share = fence_share_create(rows[i].fence_batch, end - i);
            LOG_WARNING("a worker left attempts in SENDING",
                        LOG_TEXT("account", self->lane.account->id),
                        LOG_NUMBER("attempts", (int64_t)(end - i)));
            for (size_t k = i; k < end; k++) add_finding(self, &rows[k], share);
        }
        i = end;
    }
    forget(self, done, done_count);
}

void recover_fences_service(struct recover_lane *self, int64_t now_us)
{
    if (self->is_reading_fences || now_us < self->next_fences_us ||
        !store_is_connected(self->lane.store))
        return;
    struct store_job *job = store_job_create(on_claimed, self);
    fence_claim_call(store_job_call(job), &job->arena, self->lane.account->id, FENCES_MAX,
                     FENCE_LEASE_MS);
    self->is_reading_fences = true;
    store_queue_push(&self->lane.queue, job);
}
