/*
 * pipeline/judge.h: what one observation proves about one attempt (protocol B, C6, D). Pure: no
 * clock, no store, no allocation. Nothing else in oncepay decides that money moved or did not.
 *
 * The rules in short: a rejected request says nothing about an attempt that an earlier request may
 * have reached (B1); no side effect needs proof (B2); a decline ends an attempt only when nobody
 * else can still drive its object (B3); not found is proof only where the create can no longer
 * arrive (B4); a success that differs in amount, currency or reference is none (B5); time is never
 * evidence (B7); a final attempt never changes, what contradicts it is a late fact (D).
 */
#ifndef ONCEPAY_PIPELINE_JUDGE_H
#define ONCEPAY_PIPELINE_JUDGE_H

#include "pipeline/psp.h"

/* The attempt as its row says now, read afresh, and what its requests left open. */
struct judge_attempt {
    enum attempt_state state;
    enum certainty certainty;
    struct money amount;
    const char *reference;       /* our provider_key, as the create body carried it */
    const char *provider_object; /* the PSP's id, if a fact has given one; else NULL */
    /*
     * May a request of this attempt, other than the one this observation answers, have reached the
     * PSP? A request row closed neither by an answer nor by proof that no byte left (B1).
     */
    bool prior;
    bool is_recorded;           /* a request of it may have arrived, or was answered: we sent it */
    bool handed_out;            /* a next action reached the customer (B3) */
    bool mismatch_open;         /* B5 stopped the automation: only manual evidence decides */
    bool key_consumed;          /* proven: a create under this key can no longer start (B4, C6) */
    bool canceled_by_reference; /* the PSP confirmed a cancel by our reference (B4, C6) */
    int64_t success_at_us;      /* SUCCEEDED: the PSP's own time of it; 0 when it gave none */
    /* Latest send_by + call limit of the create and its replays; 0: none sent. */
    int64_t last_request_end_us;
    /* When the question was asked whose answer is judged; 0: none was. An answer says nothing of
     * what came after its question, however late it is judged (B4). */
    int64_t asked_us;
    int64_t now_us; /* the database's clock */
};

/* What contradicts a final attempt, or has no record (protocol A, D). */
enum contradiction {
    CONTRADICTION_NONE = 0,
    CONTRADICTION_LATE_SUCCESS,     /* success on FAILED */
    CONTRADICTION_SECOND_SUCCESS,   /* another object succeeded under a SUCCEEDED attempt */
    CONTRADICTION_REFUND_RETURNED,  /* a refund failed after it had succeeded */
    CONTRADICTION_CAPTURE_RETURNED, /* a capture failed after it had succeeded */
    /* A failure on a SUCCEEDED create: no late fact, a case and one retrieve. */
    CONTRADICTION_EVIDENCE_CONFLICT,
    /* A PSP object for an attempt that has no record of sending: UNKNOWN and a case. */
    CONTRADICTION_UNRECORDED_SEND,
};
/* "late_success" …: also the stray_fact or case kind. "none" for CONTRADICTION_NONE. */
const char *contradiction_name(int code);

/* What differs from the attempt (B5); the first of them. */
enum mismatch {
    MISMATCH_NONE = 0,
    MISMATCH_REFERENCE,
    MISMATCH_OBJECT, /* our reference, on another object than the one we know */
    MISMATCH_CURRENCY,
    MISMATCH_AMOUNT,
};
const char *mismatch_name(int code);

/* Something a person should hear about although the attempt does not move by it. */
enum judge_alarm {
    JUDGE_ALARM_NONE = 0,
    JUDGE_ALARM_PSP_AUTH, /* 401, 403: our credentials or rights at this account (C04) */
    /* The key is taken by other parameters: a bug of ours, or a restored database. */
    JUDGE_ALARM_KEY_MISMATCH,
};
const char *judge_alarm_name(int code);

struct verdict {
    /* True: one transition state -> next_state, cited by this evidence (a self-transition for new
     * facts). False: an evidence row only; next_state and certainty then repeat the attempt's. */
    bool changes;
    enum attempt_state next_state;
    enum certainty certainty;
    int proves;   /* enum certainty that the evidence row proves; 0: nothing */
    int strength; /* evidence_strength, 0 when nothing is proven */
    enum contradiction contradiction;
    enum mismatch mismatch; /* set: escalate the task, payment.amount_mismatch, a case (B5) */
    enum judge_alarm alarm;
    bool retry_unsent; /* next_state is CREATED: same key, same bytes, at due_at */
    /* Proof only as long as no further request of the attempt was written since it was read (B1):
     * whoever stores it makes sure of that. */
    bool rests_on_requests;
    bool closes_earlier_requests; /* C6: an answer under a key that keeps all results */
    bool frees_target;            /* next_state FAILED: the target may be paid again at once (C6) */
    bool wants_retrieve;          /* ask for the object now: this hint alone decides nothing */
    bool stored_error;            /* the key answers with a kept error: replays are useless (C16) */
    const char *reason;           /* short word for history's why and for logs; never NULL */
};

struct verdict judge(enum operation operation, const struct observation *observation,
                     const struct psp_capability *capability, const struct judge_attempt *attempt);

/*
 * C6: is every way closed by which this attempt, FAILED now, could still take money? Settle and the
 * guard ask it from fresh rows. prior: as above, about all requests. proof: the source of the
 * evidence that ended it; manual evidence never opens the guard (D).
 */
bool judge_frees_target(const struct psp_capability *capability,
                        const struct judge_attempt *attempt, enum evidence_source proof);

/* How much one source weighs: 10 search … 80 settlement. */
int evidence_strength(enum evidence_source source);

#endif
