/* ops/sim/deadline.c: see deadline.h. A binary heap whose members know their place. */
#include "ops/sim/deadline.h"

static bool is_sooner(const struct deadline *a, const struct deadline *b)
{
    if (a->due_ms != b->due_ms) return a->due_ms < b->due_ms;
    return a->order < b->order;
}

static void put(struct deadline_queue *queue, size_t position, struct deadline *deadline)
{
    queue->heap[position - 1] = deadline;
    deadline->position = position;
}

static void sift_up(struct deadline_queue *queue, size_t position)
{
    struct deadline *moving = queue->heap[position - 1];
    while (position > 1 && is_sooner(moving, queue->heap[position / 2 - 1])) {
        put(queue, position, queue->heap[position / 2 - 1]);
        position /= 2;
    }
    put(queue, position, moving);
}

static void sift_down(struct deadline_queue *queue, size_t position)
{
    struct deadline *moving = queue->heap[position - 1];
    for (;;) {
        size_t child = position * 2;
        if (child > queue->count) break;
        if (child < queue->count && is_sooner(queue->heap[child], queue->heap[child - 1])) child++;
        if (!is_sooner(queue->heap[child - 1], moving)) break;
        put(queue, position, queue->heap[child - 1]);
        position = child;
    }
    put(queue, position, moving);
}

void deadline_cancel(struct deadline_queue *queue, struct deadline *deadline)
{
    const size_t position = deadline->position;
    if (position == 0) return;
    deadline->position = 0;
    struct deadline *last = queue->heap[queue->count - 1];
    queue->count--;
    if (last == deadline) return;
    put(queue, position, last);
    sift_up(queue, position);
    sift_down(queue, last->position);
}

void deadline_arm(struct deadline_queue *queue, struct deadline *deadline, int64_t due_ms)
{
    INVARIANT(deadline->fire != NULL);
    deadline_cancel(queue, deadline);
    if (queue->count == queue->capacity) {
        queue->capacity = queue->capacity == 0 ? 256 : queue->capacity * 2;
        queue->heap = memory_resize(queue->heap, queue->capacity * sizeof(struct deadline *));
    }
    deadline->due_ms = due_ms;
    deadline->order = queue->armed++;
    queue->count++;
    put(queue, queue->count, deadline);
    sift_up(queue, queue->count);
}

void deadline_run(struct deadline_queue *queue, int64_t now_ms)
{
    while (queue->count > 0 && queue->heap[0]->due_ms <= now_ms) {
        struct deadline *due = queue->heap[0];
        deadline_cancel(queue, due);
        due->fire(due->self);
    }
}

int deadline_wait_ms(const struct deadline_queue *queue, int64_t now_ms, int limit_ms)
{
    if (queue->count == 0) return limit_ms;
    const int64_t left_ms = queue->heap[0]->due_ms - now_ms;
    if (left_ms <= 0) return 0;
    return left_ms < limit_ms ? (int)left_ms : limit_ms;
}

void deadline_finish(struct deadline_queue *queue)
{
    free(queue->heap);
    *queue = (struct deadline_queue){ 0 };
}
