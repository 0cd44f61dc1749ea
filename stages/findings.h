/*
 * stages/findings.h: from an observation to committed facts. Answers, replays, look-ups and
 * webhooks all come here: each is judged against its attempt, stored with everything that follows
 * from it in one transaction, and, when somebody else moved the attempt meanwhile, read again and
 * judged again (protocol D). What contradicts a final attempt becomes a stray fact.
 *
 * Shared by create and recover; one writer per channel account.
 */
#ifndef ONCEPAY_STAGES_FINDINGS_H
#define ONCEPAY_STAGES_FINDINGS_H

#include "config/recovery_policy.h"
#include "stages/recovery_plan.h"
#include "stages/stage.h"
#include "stages/store_queue.h"
#include "store/attempt_store.h"

struct finding;
typedef void (*finding_ended)(struct finding *finding);

/* What the findings of one fence commit share. */
struct fence_share {
    struct uuid fence_batch;
    size_t open;    /* attempts without a stored result */
    size_t holders; /* findings that point here: one that lost its CAS outlives its stored result */
};
struct fence_share *fence_share_create(struct uuid fence_batch, size_t attempts);
/* One of its findings ended; the last one frees it. NULL is fine. */
void fence_share_leave(struct fence_share *share);

/* One observation on its way into the store. */
struct finding {
    struct finding *next;
    struct arena arena;         /* owns every text in here; finished with the finding */
    struct attempt_row attempt; /* as it is judged; read afresh after a lost CAS */
    bool needs_load;            /* attempt holds only the id yet: read it first */
    struct observation observation;
    struct evidence_id evidence;
    struct request_id request; /* nil: not an answer to a request of ours */
    int64_t asked_us;       /* when the question was asked, by the database's clock; 0: none was */
    bool is_stored;         /* its evidence row stands, whatever happens next */
    int proves_stored;      /* what that row says it proves */
    int rounds;             /* judged again because somebody was faster */
    struct verdict verdict; /* the last one */

    /* create: which fence it belongs to. */
    struct fence_share *fence;
    int sends; /* sending requests so far, for the resend delay */
    /* recover: the lease that it works under. */
    bool has_lease;
    struct recovery_view view;
    int32_t lease_version;
    const struct recovery_rule *rule; /* of the task's own policy version */
    struct recovery_limits limits;
    /* webhooks. */
    struct inbox_id inbox; /* nil: none */

    finding_ended ended; /* the writer is done with it; frees nothing */
    void *owner;
};

struct findings {
    struct stage *stage;
    const struct config_account *account;
    const struct psp_ops *psp;
    const struct recovery_policy *policy; /* new tasks pin its version */
    struct store_queue *queue;
    size_t batch_max;
    struct finding *first;
    struct finding *last;
    size_t waiting;
    bool is_writing;
};

/* Zeroed, with the arena empty. */
struct finding *finding_create(finding_ended ended, void *owner);
/* Hands it to the writer, which gives it back through ended and then destroys it. */
void findings_add(struct findings *findings, struct finding *finding);
/* Starts the next transaction if none is under way. Call it in each round of the loop. */
void findings_service(struct findings *findings);
bool findings_are_idle(const struct findings *findings);
/* At exit: drops what waits. Its requests stay open rows, and recovery does the rest. */
void findings_finish(struct findings *findings);

#endif
