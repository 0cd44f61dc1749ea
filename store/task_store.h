/*
 * store/task_store.h: recovery tasks, overdue fences and the webhook inbox, as recover works on
 * them. *_call and *_read as in attempt_store.h.
 */
#ifndef ONCEPAY_STORE_TASK_STORE_H
#define ONCEPAY_STORE_TASK_STORE_H

#include "store/attempt_store.h"

struct task_due {
    struct task_id task;
    struct attempt_id attempt;
};
void task_due_call(struct sql_call *call, struct arena *arena, const char *account, size_t limit);
size_t task_due_read(const struct store_result *result, struct arena *arena,
                     struct task_due **out_tasks);

/* A locked task with its attempt (attempt.task, task_version and task_step are set too). */
struct task_row {
    struct attempt_row attempt;
    enum task_purpose purpose;
    int32_t claims;
    bool stored_error;
    bool is_escalated;
    const char *policy_version;
    int64_t first_unknown_us;
    int64_t start_by_us;
    int32_t sends;
};
void task_pick_call(struct sql_call *call, struct arena *arena, const struct task_due *tasks,
                    size_t count, bool keeps_results, int64_t call_limit_ms);
size_t task_pick_read(const struct store_result *result, struct arena *arena,
                      struct task_row **out_rows);

struct task_claim {
    struct task_id task;
    int32_t version;
    enum task_state next;      /* TASK_LEASED, TASK_PAUSED or TASK_RESOLVED */
    struct request_id request; /* nil: no call follows */
    enum request_kind kind;
    struct payment_id payment;
    struct attempt_id attempt;
    struct outbox_id command; /* nil: none; else a create command is written again */
    int32_t attempt_version;
};
/* claims sorted by task. */
void task_claim_call(struct sql_call *call, struct arena *arena, const struct task_claim *claims,
                     size_t count, int64_t lease_ms, const char *owner, int64_t send_by_ms,
                     const char *account);

struct task_schedule {
    struct task_id task;
    int32_t version;
    enum task_state next; /* TASK_READY or TASK_ESCALATED */
    int64_t due_ms;       /* -1: never by itself */
    int32_t step;
    bool stored_error;
    bool has_outcome;
};
/* schedules sorted by task. */
void task_schedule_call(struct sql_call *call, struct arena *arena,
                        const struct task_schedule *schedules, size_t count);

struct overdue_fence {
    struct uuid fence_batch;
    struct attempt_id attempt; /* nil: none is left in SENDING */
    struct request_id request;
};
void fence_claim_call(struct sql_call *call, struct arena *arena, const char *account, size_t limit,
                      int64_t lease_ms);
/* Rows of one batch stand together. */
size_t fence_claim_read(const struct store_result *result, struct arena *arena,
                        struct overdue_fence **out_rows);

struct inbox_row {
    struct inbox_id inbox;
    bool is_processed;
    struct attempt_id attempt; /* nil: nobody matches */
    struct observation observation;
};
void inbox_load_call(struct sql_call *call, struct arena *arena, const struct inbox_id *ids,
                     size_t count);
size_t inbox_load_read(const struct store_result *result, struct arena *arena,
                       struct inbox_row **out_rows);
void inbox_park_call(struct sql_call *call, struct arena *arena, const struct inbox_id *ids,
                     size_t count);
void inbox_due_call(struct sql_call *call, struct arena *arena, const char *account, size_t limit);

#endif
