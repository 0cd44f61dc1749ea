/*
 * stages/recovery_plan.h: what happens next to an attempt whose end is not known: when to look,
 * by which strategy, when a person must be called. Pure, and shared by create (which makes the
 * first task) and recover (which works on it). Time never ends an attempt here (protocol B7).
 */
#ifndef ONCEPAY_STAGES_RECOVERY_PLAN_H
#define ONCEPAY_STAGES_RECOVERY_PLAN_H

#include "config/recovery_policy.h"
#include "pipeline/case.h"
#include "pipeline/judge.h"

/* Everything about one claimed task that the next step depends on. */
struct recovery_view {
    enum task_purpose purpose;
    enum task_state task_state; /* before the claim */
    int step;                   /* position in the delays: probes that had an outcome */
    int claims;                 /* claims since the last stored outcome, without this one */
    bool stored_error;          /* the key answers with a kept error */
    bool is_escalated;
    int64_t first_unknown_us;
    enum attempt_state attempt_state;
    bool has_provider_object;
    bool mismatch_open;
    int64_t first_sent_us; /* first fence; 0: never */
    int sends;             /* requests that may move money, so far */
    enum payment_state payment_state;
    int64_t expires_at_us; /* 0: never */
    int64_t start_by_us;
    int64_t now_us;
};

struct recovery_limits {
    int64_t replay_until_us; /* after the first fence (C5) */
    int64_t key_usable_us;   /* retention - margin (C5) */
    int resends_max;         /* then a proven-unsent attempt ends */
    int claims_max;          /* without a stored outcome; then the task is paused with a case */
    int64_t pending_age_max_us;
};

/* The same for every process of an installation, so that who explains it says what recover does. */
struct recovery_limits recovery_limits_of(const struct config_timers *timers,
                                          const struct psp_capability *capability);

enum recovery_action {
    RECOVERY_RESOLVE = 1, /* the attempt is final: nothing to do */
    RECOVERY_PAUSE,       /* claimed too often without an outcome: a person must look */
    RECOVERY_REPLAY,      /* the stored bytes under the stored key */
    RECOVERY_RETRIEVE_OBJECT,
    RECOVERY_WAIT,      /* nothing can be asked now: on to the next delay */
    RECOVERY_STOP,      /* a mismatch is open: never by itself again (B5) */
    RECOVERY_RESEND,    /* proven unsent: a new create command, same attempt, same key */
    RECOVERY_END_LOCAL, /* proven unsent, and out of tries or time: FAILED, NO_SIDE_EFFECT */
};
/* "replay" … */
const char *recovery_action_name(int code);

enum recovery_action recovery_choose(const struct recovery_rule *rule,
                                     const struct recovery_limits *limits,
                                     const struct recovery_view *view);

/* When the task is due again after a step that left the attempt open. */
struct recovery_next {
    enum task_state state; /* TASK_READY or TASK_ESCALATED */
    int64_t due_ms;        /* -1: never by itself */
    int step;
    enum case_kind opens; /* CASE_UNKNOWN: the delays are used up, or max_unknown_age has passed;
                              CASE_PENDING_TOO_LONG: PROCESSING past its age; 0: none */
};
struct recovery_next recovery_schedule(const struct recovery_rule *rule,
                                       const struct recovery_limits *limits,
                                       const struct recovery_view *view, int retry_after_s);

/* Delay before the first look at an attempt that just became UNKNOWN or PROCESSING. Without jitter.
 */
int64_t recovery_first_delay_ms(const struct recovery_rule *rule, const struct verdict *verdict,
                                int retry_after_s);
/* Delay before a proven-unsent attempt is sent again: doubles with the requests so far. Without
 * jitter. */
int64_t recovery_resend_delay_ms(int sends, int retry_after_s);

#endif
