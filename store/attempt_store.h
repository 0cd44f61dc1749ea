/*
 * store/attempt_store.h: what create and recover read and write about attempts. Each *_call fills
 * one sql_call, each *_read takes its result; who sends them (blocking or not, alone or with
 * others in one transaction) is the caller's business.
 */
#ifndef ONCEPAY_STORE_ATTEMPT_STORE_H
#define ONCEPAY_STORE_ATTEMPT_STORE_H

#include "pipeline/case.h"
#include "pipeline/event.h"
#include "pipeline/judge.h"
#include "store/store.h"

/* --- fence (create) ------------------------------------------------------------------------ */

struct fence_input {
    struct attempt_id attempt;
    struct request_id request; /* drawn by the caller */
};

enum fence_outcome {
    FENCE_SENDING = 1,     /* ours: send now */
    FENCE_NOT_CREATED = 2, /* somebody else's, or done: nothing to do */
    FENCE_EXPIRED = 3,     /* start_by or expires_at has passed: end it locally */
    FENCE_HELD = 4,        /* the target is held: end it locally */
    FENCE_NOT_AUTHORIZING = 5,
};

struct fence_row {
    struct attempt_id attempt;
    struct payment_id payment;
    enum fence_outcome outcome;
    int32_t version;
    struct request_id request;
    const char *provider_key;
    struct span request_bytes;
    struct money amount;
    const char *method_type;
    const char *merchant;
};

/* inputs sorted by attempt. send_by_ms, takeover_ms: from the database's now. */
void fence_call(struct sql_call *call, struct arena *arena, const struct fence_input *inputs,
                size_t count, struct uuid fence_batch, const char *account, const char *actor,
                int64_t send_by_ms, int64_t takeover_ms);
/* One row per attempt that exists. Text and bytes are copied to the arena. */
size_t fence_read(const struct store_result *result, struct arena *arena,
                  struct fence_row **out_rows);

void fence_done_call(struct sql_call *call, struct arena *arena, const struct uuid *fence_batches,
                     size_t count);

struct local_end {
    struct attempt_id attempt;
    struct payment_id payment;
    struct evidence_id evidence;
    struct outbox_id command;
    const char *reason;
};
struct local_end_row {
    struct attempt_id attempt;
    struct payment_id payment;
    int32_t version;
};
/* CREATED -> FAILED by our own decision. ends sorted by attempt. */
void local_end_call(struct sql_call *call, struct arena *arena, const struct local_end *ends,
                    size_t count, const char *actor);
size_t local_end_read(const struct store_result *result, struct arena *arena,
                      struct local_end_row **out_rows);

/* --- results ------------------------------------------------------------------------------- */

/* A recovery task to be made if the attempt moves and has none. */
struct task_birth {
    struct task_id id; /* nil: none */
    int64_t due_ms;    /* -1: never by itself (ESCALATED at once) */
    enum task_purpose purpose;
    bool stored_error;
};

/* What evidence.reference says instead of the attempt's own provider key. */
#define EVIDENCE_OWN_REFERENCE "="

/* One judged observation of one attempt. */
struct attempt_outcome {
    struct attempt_id attempt;
    struct payment_id payment;
    int32_t version; /* of the row that was judged */
    enum attempt_state from;
    struct verdict verdict;
    struct observation observation;
    struct evidence_id evidence;
    struct request_id request; /* nil: not an answer to a request */
    enum request_closure closure;
    const char *event;        /* "answer.succeeded" */
    const char *reason;       /* goes to the attempt; NULL keeps what is there */
    struct outbox_id command; /* to settle; nil: none */
    struct task_birth task;
    /* Of the attempt's open task as it was judged: every further request raises it in its own
     * commit. 0: need not stand. */
    int32_t task_version;
    const char *policy_version;
};

/* outcomes sorted by attempt, at most one per attempt. */
void attempt_result_call(struct sql_call *call, struct arena *arena,
                         const struct attempt_outcome *outcomes, size_t count, const char *actor,
                         const char *account);
/* STATUS_LOST_RACE: a task's version does not stand; nothing is stored. */
/* out_versions[i]: the attempt's new version, 0 if the CAS did not move it. count as in the call.
 */
void attempt_result_read(const struct store_result *result, size_t count, int32_t *out_versions);

/* An attempt as its row says now, with everything that judging and scheduling need. */
struct attempt_row {
    struct attempt_id attempt;
    struct payment_id payment;
    const char *account;
    enum attempt_state state;
    enum certainty certainty;
    int32_t version;
    struct money amount;
    const char *provider_key;
    const char *provider_object; /* NULL if not known */
    bool handed_out;
    const char *reason;    /* NULL if none */
    int64_t first_sent_us; /* 0: never fenced */
    struct span request_bytes;
    bool prior;
    bool answered_under_key;
    int64_t last_request_end_us; /* 0: none was sent */
    int64_t success_at_us;
    enum payment_state payment_state;
    const char *merchant;
    int64_t expires_at_us; /* 0: never */
    const char *method_type;
    struct task_id task; /* nil: no open task */
    enum task_state task_state;
    int32_t task_version;
    int32_t task_step;
    int64_t now_us; /* the database's */
};
/* requests[i]: the request whose observation will be judged; nil: none. */
void attempt_load_call(struct sql_call *call, struct arena *arena,
                       const struct attempt_id *attempts, const struct request_id *requests,
                       size_t count, bool keeps_results, int64_t call_limit_ms);
size_t attempt_load_read(const struct store_result *result, struct arena *arena,
                         struct attempt_row **out_rows);
/* The judge's view of a row. */
struct judge_attempt attempt_row_judge(const struct attempt_row *row);

/* How an observation closes the request that it answers (protocol B1). */
enum request_closure observation_closure(const struct observation *observation,
                                         const struct psp_capability *capability);

/* --- cases --------------------------------------------------------------------------------- */

struct case_opening {
    struct case_id id;
    enum case_kind kind;
    struct payment_id payment;
    struct attempt_id attempt;
    const char *account;
    const char *merchant;
    const char *reason;
    int32_t attempt_version; /* must stand when the case is opened; 0: any */
    struct outbox_id event;
};
void case_open_call(struct sql_call *call, struct arena *arena, const struct case_opening *cases,
                    size_t count);

struct case_closing {
    struct payment_id payment;
    struct attempt_id attempt;
    const char *merchant;
    struct outbox_id event;
};
/* Closes what only asked how the attempt ends, in the transaction that ends it. */
void case_close_call(struct sql_call *call, struct arena *arena,
                     const struct case_closing *closings, size_t count);

#endif
