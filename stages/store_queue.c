/* stages/store_queue.c: see store_queue.h. */
#include "stages/store_queue.h"

#include "stages/stage.h"

struct store_job *store_job_create(store_job_done done, void *owner)
{
    struct store_job *job = memory_allocate(sizeof *job);
    job->done = done;
    job->owner = owner;
    return job;
}

struct sql_call *store_job_call(struct store_job *job)
{
    INVARIANT(job->call_count < STORE_CALLS_MAX);
    return &job->calls[job->call_count++];
}

static void destroy(struct store_job *job)
{
    arena_finish(&job->arena);
    free(job);
}

static void put_first(struct store_queue *queue, struct store_job *job)
{
    job->next = queue->first;
    queue->first = job;
    if (queue->last == NULL) queue->last = job;
    queue->waiting++;
}

void store_queue_push(struct store_queue *queue, struct store_job *job)
{
    if (job->is_urgent) {
        put_first(queue, job);
        return;
    }
    job->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = job;
    } else {
        queue->first = job;
    }
    queue->last = job;
    queue->waiting++;
}

bool store_queue_is_idle(const struct store_queue *queue)
{
    return queue->current == NULL && queue->first == NULL;
}

static struct store_job *take_first(struct store_queue *queue)
{
    struct store_job *job = queue->first;
    queue->first = job->next;
    if (queue->first == NULL) queue->last = NULL;
    queue->waiting--;
    return job;
}

/* Deadlock, serialization failure, timeout on a standing connection: the same again, after a
 * moment. */
static void slow_down(struct store_queue *queue, int64_t now_us)
{
    const int shift = queue->repeats < 6 ? queue->repeats++ : 6;
    queue->not_before_us = now_us + stage_jitter_ms(INT64_C(10) << shift) * 1000;
}

static void end_current(struct store_queue *queue, enum status status, struct store_result *results,
                        int64_t now_us)
{
    struct store_job *job = queue->current;
    queue->current = NULL;
    if (status == STATUS_RETRY && !job->is_part) {
        put_first(queue, job); /* outcome unknown or not started: the same again, from the top */
        if (store_is_connected(queue->store)) slow_down(queue, now_us);
        return;
    }
    queue->repeats = 0;
    job->done(job, status, results);
    destroy(job);
}

/* True if something ended. */
static bool receive(struct store_queue *queue, int64_t now_us)
{
    struct store_result results[STORE_CALLS_MAX] = { { 0 } };
    enum status status = STATUS_OK;
    const size_t count = queue->current->call_count;
    if (!store_receive(queue->store, results, count, &status)) return false;
    end_current(queue, status, results, now_us);
    for (size_t i = 0; i < count; i++) store_result_clear(&results[i]);
    return true;
}

void store_queue_service(struct store_queue *queue, int64_t now_us)
{
    store_service(queue->store, now_us);
    for (;;) {
        if (queue->current != NULL && !receive(queue, now_us)) return;
        if (queue->first == NULL || !store_is_ready(queue->store)) {
            if (queue->first != NULL && queue->first->is_part) { /* its transaction is gone */
                queue->current = take_first(queue);
                end_current(queue, STATUS_RETRY, NULL, now_us);
                continue;
            }
            return;
        }
        if (now_us < queue->not_before_us) return;
        queue->current = take_first(queue);
        if (store_send(queue->store, queue->current->calls, queue->current->call_count) !=
            STATUS_OK) {
            end_current(queue, STATUS_RETRY, NULL, now_us);
            return;
        }
    }
}

int64_t store_queue_wake_us(const struct store_queue *queue)
{
    const int64_t wake_us = store_wake_us(queue->store);
    if (queue->current != NULL || queue->first == NULL || !store_is_ready(queue->store))
        return wake_us;
    return queue->not_before_us < wake_us ? queue->not_before_us : wake_us;
}

void store_queue_finish(struct store_queue *queue)
{
    while (queue->first != NULL) destroy(take_first(queue));
    if (queue->current != NULL) destroy(queue->current);
    queue->current = NULL;
}
