/* stages/recovery_plan.c: see recovery_plan.h. */
#include "stages/recovery_plan.h"

#include "pipeline/clock.h"

enum {
    RESEND_DELAY_MS_MIN = 500,
    RESEND_DELAY_MS_MAX = 30000,
    RETRY_AFTER_S_MAX = 3600,
    RESENDS_MAX = 10,
    CLAIMS_MAX = 5,
};

struct recovery_limits recovery_limits_of(const struct config_timers *timers,
                                          const struct psp_capability *capability)
{
    return (struct recovery_limits){
        .replay_until_us = timers->replay_until_s * CLOCK_SECOND_US,
        .key_usable_us = (capability->key_retention_s - capability->key_margin_s) * CLOCK_SECOND_US,
        .resends_max = RESENDS_MAX,
        .claims_max = CLAIMS_MAX,
        .pending_age_max_us = timers->pending_age_max_s * CLOCK_SECOND_US,
    };
}

const char *recovery_action_name(int code)
{
    static const char *const NAMES[] = {
        [RECOVERY_RESOLVE] = "resolve", [RECOVERY_PAUSE] = "pause",
        [RECOVERY_REPLAY] = "replay",   [RECOVERY_RETRIEVE_OBJECT] = "retrieve",
        [RECOVERY_WAIT] = "wait",       [RECOVERY_STOP] = "stop",
        [RECOVERY_RESEND] = "resend",   [RECOVERY_END_LOCAL] = "end_local",
    };
    return code > 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}

/* A replay is a send and may be the first to arrive (C5, G: an escalated task only looks). */
static bool may_replay(const struct recovery_limits *limits, const struct recovery_view *view)
{
    if (view->is_escalated || view->stored_error || view->first_sent_us == 0) return false;
    if (view->payment_state != PAYMENT_AUTHORIZING) return false;
    if (view->expires_at_us != 0 && view->now_us >= view->expires_at_us) return false;
    const int64_t age_us = view->now_us - view->first_sent_us;
    return age_us < limits->replay_until_us && age_us < limits->key_usable_us;
}

static enum recovery_action choose_resend(const struct recovery_limits *limits,
                                          const struct recovery_view *view)
{
    const bool is_late = view->now_us >= view->start_by_us ||
                         (view->expires_at_us != 0 && view->now_us >= view->expires_at_us);
    return is_late || view->sends >= limits->resends_max ? RECOVERY_END_LOCAL : RECOVERY_RESEND;
}

enum recovery_action recovery_choose(const struct recovery_rule *rule,
                                     const struct recovery_limits *limits,
                                     const struct recovery_view *view)
{
    if (view->claims >= limits->claims_max) return RECOVERY_PAUSE;
    if (view->purpose == TASK_CONFIRM)
        return view->claims == 0 ? RECOVERY_RETRIEVE_OBJECT : RECOVERY_RESOLVE;
    if (attempt_state_is_terminal(view->attempt_state)) return RECOVERY_RESOLVE;
    if (view->attempt_state == ATTEMPT_CREATED) return choose_resend(limits, view);
    /* What is being sent is its fence batch's business. */
    if (view->attempt_state == ATTEMPT_SENDING) return RECOVERY_RESOLVE;
    if (view->mismatch_open) return RECOVERY_STOP;
    for (size_t i = 0; i < rule->strategy_count; i++) {
        switch (rule->strategies[i]) {
        case RECOVERY_IDEMPOTENT_REPLAY:
            /* Once the object is known, looking at it is cheaper and moves nothing. */
            if (!view->has_provider_object && may_replay(limits, view)) return RECOVERY_REPLAY;
            break;
        case RECOVERY_RETRIEVE:
            if (view->has_provider_object) return RECOVERY_RETRIEVE_OBJECT;
            break;
        case RECOVERY_MERCHANT_REFERENCE_SEARCH:
        case RECOVERY_RECONCILIATION:
        case RECOVERY_WAIT_WEBHOOK:
            break;
        }
    }
    return RECOVERY_WAIT;
}

static int64_t at_least_retry_after(int64_t delay_ms, int retry_after_s)
{
    int64_t floor_ms =
        (int64_t)(retry_after_s < RETRY_AFTER_S_MAX ? retry_after_s : RETRY_AFTER_S_MAX) * 1000;
    return delay_ms > floor_ms ? delay_ms : floor_ms;
}

struct recovery_next recovery_schedule(const struct recovery_rule *rule,
                                       const struct recovery_limits *limits,
                                       const struct recovery_view *view, int retry_after_s)
{
    struct recovery_next next = { .state = TASK_READY, .step = view->step + 1 };
    if (view->mismatch_open) {
        next.state = TASK_ESCALATED;
        next.due_ms = -1;
        return next;
    }
    next.due_ms =
        at_least_retry_after(recovery_rule_delay_ms(rule, (size_t)next.step), retry_after_s);
    const int64_t age_us = view->now_us - view->first_unknown_us;
    /* PROCESSING is an answer, not a doubt: its lookups go on, its case has a clock of its own
     * (protocol I). */
    if (view->attempt_state == ATTEMPT_PROCESSING) {
        if (age_us >= limits->pending_age_max_us) next.opens = CASE_PENDING_TOO_LONG;
    } else if ((size_t)next.step >= rule->delay_count ||
               age_us >= rule->unknown_age_max_s * INT64_C(1000000)) {
        if (!view->is_escalated) next.opens = CASE_UNKNOWN;
        next.state = TASK_ESCALATED;
    }
    if (view->is_escalated) next.state = TASK_ESCALATED;
    return next;
}

int64_t recovery_first_delay_ms(const struct recovery_rule *rule, const struct verdict *verdict,
                                int retry_after_s)
{
    if (verdict->mismatch != MISMATCH_NONE) return -1;
    if (verdict->wants_retrieve) return at_least_retry_after(0, retry_after_s);
    return at_least_retry_after(recovery_rule_delay_ms(rule, 0), retry_after_s);
}

int64_t recovery_resend_delay_ms(int sends, int retry_after_s)
{
    const int shift = sends < 8 ? sends : 8;
    int64_t delay_ms = (int64_t)RESEND_DELAY_MS_MIN << shift;
    if (delay_ms > RESEND_DELAY_MS_MAX) delay_ms = RESEND_DELAY_MS_MAX;
    return at_least_retry_after(delay_ms, retry_after_s);
}
