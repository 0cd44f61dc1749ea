/*
 * pipeline/case.h: codes of what a person has to look at (manual_case), of facts that contradict a
 * final attempt or payment (stray_fact), of timers and of task purposes. Stored: never renumbered.
 */
#ifndef ONCEPAY_PIPELINE_CASE_H
#define ONCEPAY_PIPELINE_CASE_H

#include "pipeline/base.h"

enum case_kind {
    CASE_UNKNOWN = 1, /* out of strategies or past max_unknown_age; closes when the attempt ends */
    CASE_AMOUNT_MISMATCH = 2,   /* protocol B5; only two people close it */
    CASE_STRAY_FACT = 3,        /* money moved that no open operation explains */
    CASE_EVIDENCE_CONFLICT = 4, /* a failure after a success */
    CASE_STUCK = 5,             /* protocol I: one per stage and account */
    CASE_DEAD_LETTER = 6,       /* a command that could not be handled */
    CASE_TASK_PAUSED = 7,       /* claimed five times without an outcome */
    CASE_PENDING_TOO_LONG = 8,  /* PROCESSING past the method's max_pending_age */
    CASE_UNRECORDED_SEND = 9,   /* evidence for something we have no record of sending */
    CASE_PSP_REJECTS_US = 10,   /* credentials, rights, or our key with other parameters */
};
const char *case_kind_name(int code); /* "unknown" … */
/* 1 highest. */
int case_kind_priority(enum case_kind kind);

enum stray_kind {
    STRAY_LATE_SUCCESS = 1,
    STRAY_SECOND_SUCCESS = 2,
    STRAY_OUTSIDE_REFUND = 3,
    STRAY_OUTSIDE_CAPTURE = 4,
    STRAY_REFUND_RETURNED = 5,
    STRAY_CAPTURE_RETURNED = 6,
    STRAY_DISPUTE_OPENED = 7,
    STRAY_DISPUTE_LOST = 8,
    STRAY_DISPUTE_WON = 9,
};
const char *stray_kind_name(int code); /* "late_success" … */

enum timer_kind {
    TIMER_LIFT_HOLD = 1, /* the late-arrival window of a payment that ended has passed */
};

enum task_purpose {
    TASK_RESOLVE = 1, /* find out what became of the attempt */
    TASK_RESEND = 2,  /* proven unsent: same attempt, same key again, or end it */
    TASK_CONFIRM =
        3, /* evidence_conflict on a final attempt: one retrieve, whatever it says (protocol D) */
};

/* How an evidence row closes the request that it names (protocol B1). */
enum request_closure {
    CLOSURE_OPEN = 0,      /* the request may have had an effect */
    CLOSURE_NO_EFFECT = 1, /* proven that this request had none */
    CLOSURE_KNOWN = 2,     /* its outcome is known */
};

#endif
