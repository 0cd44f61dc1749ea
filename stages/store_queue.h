/*
 * stages/store_queue.h: transactions of one non-blocking connection, one after the other, so that
 * create and recover never wait for PostgreSQL while PSP calls are in flight. A job that meets an
 * infrastructure fault is sent again after reconnecting: everything here is written so that a
 * repeat of a committed job changes nothing (protocol H5).
 */
#ifndef ONCEPAY_STAGES_STORE_QUEUE_H
#define ONCEPAY_STAGES_STORE_QUEUE_H

#include "store/store.h"

struct store_job;

/*
 * The job has ended with status; results hold one entry per call if STATUS_OK. The job and its
 * arena live until this returns.
 */
typedef void (*store_job_done)(struct store_job *job, enum status status,
                               struct store_result *results);

struct store_job {
    struct store_job *next;
    struct arena arena; /* the calls' parameters and whatever the owner hangs on it */
    struct sql_call calls[STORE_CALLS_MAX];
    size_t call_count;
    store_job_done done;
    void *owner;
    void *detail;   /* the owner's own, usually in the arena */
    bool is_part;   /* inside begin … commit: a fault ends it instead of sending it again */
    bool is_urgent; /* goes before what waits */
};

struct store_queue {
    struct store *store; /* borrowed */
    struct store_job *first;
    struct store_job *last;
    struct store_job *current;
    size_t waiting;
    int repeats;           /* infrastructure faults in a row on a connection that stands */
    int64_t not_before_us; /* … and until when that makes us wait */
};

/* A job with an empty arena; fill calls, then push. */
struct store_job *store_job_create(store_job_done done, void *owner);
struct sql_call *store_job_call(struct store_job *job); /* the next call to fill */
void store_queue_push(struct store_queue *queue, struct store_job *job);
/* Nothing under way and nothing waiting. */
bool store_queue_is_idle(const struct store_queue *queue);
/* Drives the connection and the jobs as far as they go without waiting. */
void store_queue_service(struct store_queue *queue, int64_t now_us);
/* When store_queue_service wants to be called even if nothing happens; INT64_MAX: never. */
int64_t store_queue_wake_us(const struct store_queue *queue);
/* Drops what waits, unsent. */
void store_queue_finish(struct store_queue *queue);

#endif
