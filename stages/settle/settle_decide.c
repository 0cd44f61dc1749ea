/* stages/settle/settle_decide.c: see settle_decide.h. No clock, no I/O, no allocation. */
#include "stages/settle/settle_decide.h"

#include "pipeline/clock.h"

static struct settle_decision nothing(const char *why)
{
    return (struct settle_decision){ .action = SETTLE_NOTHING, .why = why };
}

static struct settle_decision missing(const char *why)
{
    return (struct settle_decision){ .action = SETTLE_MISSING, .why = why };
}

/* A move that so far changes nothing but what was applied. */
static struct settle_decision move(const struct settle_payment *payment,
                                   enum payment_state next_status, const char *history_event,
                                   const char *why)
{
    return (struct settle_decision){
        .action = SETTLE_MOVE,
        .why = why,
        .next_status = next_status,
        .certainty = (enum certainty)payment->certainty,
        .reason = payment->reason,
        .announced = payment->announced,
        .authorised_minor = payment->authorised_minor,
        .captured_minor = payment->captured_minor,
        .is_applied = true,
        .history_event = history_event,
    };
}

/* Is the payment still waiting for what its attempt says? */
static bool is_waiting(enum payment_state status)
{
    return status == PAYMENT_AUTHORIZING || status == PAYMENT_CANCELING;
}

/*
 * Applied news is what the payment remembers, or cites in its history. Attempts follow each other,
 * so a lower ordinal is old; but a success is never old until it is cited.
 */
static bool is_news(const struct settle_payment *payment, const struct settle_attempt *attempt)
{
    if (attempt->is_cited) return false;
    if (attempt->ordinal == payment->applied_ordinal)
        return attempt->version > payment->applied_version;
    return attempt->ordinal > payment->applied_ordinal || attempt->status == ATTEMPT_SUCCEEDED;
}

/* Late facts about a payment that waits for nothing: remembered, so that nobody asks again. */
static struct settle_decision note(const struct settle_facts *facts)
{
    if (facts->payment.status == PAYMENT_CREATED) return missing("attempt_without_authorizing");
    return move(&facts->payment, facts->payment.status, "settled.noted", "payment_is_past_this");
}

/* Open news: PROCESSING and UNKNOWN ----------------------------------------------------------- */

static bool is_mismatch(const char *code)
{
    static const enum mismatch KINDS[] = { MISMATCH_AMOUNT, MISMATCH_CURRENCY, MISMATCH_REFERENCE,
                                           MISMATCH_OBJECT };
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        if (strcmp(code, mismatch_name((int)KINDS[i])) == 0) return true;
    }
    return false;
}

static struct settle_decision processing(const struct settle_facts *facts)
{
    const struct settle_payment *payment = &facts->payment;
    struct settle_decision decision =
        move(payment, payment->status, "settled.processing", "processing");
    const bool wants_customer = facts->attempt.handed_out;
    const int bit = wants_customer ? ANNOUNCED_ACTION_REQUIRED : ANNOUNCED_PROCESSING;
    decision.certainty = CERTAINTY_PENDING;
    decision.reason = NULL;
    if (wants_customer) decision.why = "action_required";
    if ((payment->announced & bit) != 0) return decision;
    decision.announced |= bit;
    decision.event = wants_customer ? EVENT_PAYMENT_ACTION_REQUIRED : EVENT_PAYMENT_PROCESSING;
    return decision;
}

static struct settle_decision unknown(const struct settle_facts *facts)
{
    const struct settle_payment *payment = &facts->payment;
    const char *code = facts->attempt.error_code;
    struct settle_decision decision =
        move(payment, payment->status, "settled.unknown", "outcome_unknown");
    if (code != NULL) decision.why = code;
    decision.certainty = CERTAINTY_UNKNOWN;
    decision.reason = decision.why;
    if (code != NULL && is_mismatch(code)) {
        /* Once per kind: the payment's reason says that it was told. */
        const bool is_told = payment->reason != NULL && strcmp(payment->reason, code) == 0;
        decision.history_event = "settled.mismatch";
        decision.event = is_told ? 0 : EVENT_PAYMENT_AMOUNT_MISMATCH;
    } else if ((payment->announced & ANNOUNCED_UNKNOWN) == 0) {
        decision.event = EVENT_PAYMENT_UNKNOWN;
    }
    decision.announced |= ANNOUNCED_UNKNOWN;
    return decision;
}

/* Ends ---------------------------------------------------------------------------------------- */

static struct settle_decision stray(const struct settle_payment *payment)
{
    const bool is_over_unpaid =
        payment->status == PAYMENT_FAILED || payment->status == PAYMENT_CANCELED;
    struct settle_decision decision = {
        .action = SETTLE_STRAY,
        .stray = is_over_unpaid ? STRAY_LATE_SUCCESS : STRAY_SECOND_SUCCESS,
    };
    decision.why = stray_kind_name((int)decision.stray);
    return decision;
}

static struct settle_decision succeeded(const struct settle_facts *facts)
{
    const struct settle_payment *payment = &facts->payment;
    if (payment->status == PAYMENT_CREATED) return missing("attempt_without_authorizing");
    if (!is_waiting(payment->status)) return stray(payment);
    const bool is_captured = !payment->capture_manual;
    struct settle_decision decision =
        move(payment, is_captured ? PAYMENT_CAPTURED : PAYMENT_AUTHORIZED, "settled.succeeded",
             is_captured ? "captured" : "authorized");
    decision.certainty = CERTAINTY_CONFIRMED_SUCCESS;
    decision.reason = NULL;
    decision.authorised_minor = payment->amount.minor;
    decision.captured_minor = is_captured ? payment->amount.minor : 0;
    decision.event = is_captured ? EVENT_PAYMENT_SUCCEEDED : EVENT_PAYMENT_AUTHORIZED;
    return decision;
}

/* A PSP that nothing is known of: it keeps nothing, and no window of its ever passes. */
static const struct psp_capability UNKNOWN_PSP = { 0 };

/* C6, from fresh rows. The configured extra widens the window, never narrows it. */
static bool is_target_free(const struct settle_facts *facts,
                           const struct psp_capability *capability, int64_t last_request_end_us)
{
    const struct settle_attempt *attempt = &facts->attempt;
    const bool is_answered = capability->keeps_failures_under_key && attempt->has_known_answer;
    const struct judge_attempt view = {
        .state = attempt->status,
        .certainty = attempt->certainty,
        .amount = attempt->amount,
        .reference = attempt->provider_key,
        .provider_object = attempt->provider_object,
        .prior = attempt->open_requests > 0 && !is_answered,
        .handed_out = attempt->handed_out,
        .key_consumed = is_answered, /* by a failure only where failures are kept */
        .last_request_end_us = last_request_end_us,
        .now_us = facts->around.now_us,
    };
    return judge_frees_target(capability, &view, (enum evidence_source)attempt->evidence_source);
}

/* What stands in the way of paying the target again, and until when (protocol C6, D, E). */
static void hold_target(struct settle_decision *decision, const struct settle_facts *facts,
                        const struct settle_rules *rules)
{
    const struct settle_attempt *attempt = &facts->attempt;
    const struct settle_around *around = &facts->around;
    struct psp_capability capability = rules->capability != NULL ? *rules->capability : UNKNOWN_PSP;
    if (capability.late_arrival_window_s > 0)
        capability.late_arrival_window_s += rules->late_arrival_extra_s;
    const int64_t last_request_end_us =
        attempt->last_send_by_us == 0 ? 0 : attempt->last_send_by_us + rules->call_limit_us;
    const bool is_free = is_target_free(facts, &capability, last_request_end_us);
    const bool is_manual = attempt->evidence_source == SOURCE_MANUAL;

    if (around->has_stray_fact || around->has_grave_case) {
        decision->hold = "case";
    } else if (!is_free) {
        decision->hold = is_manual ? "manual_evidence" : "late_arrival";
    }
    if (!is_free && !is_manual && around->has_pointer && last_request_end_us > 0 &&
        capability.late_arrival_window_s > 0) {
        decision->lift_hold_us =
            last_request_end_us + capability.late_arrival_window_s * CLOCK_SECOND_US;
    }
    decision->is_safe_to_pay_again = is_free && decision->hold == NULL &&
                                     around->pointer_hold == NULL && !around->has_case &&
                                     !around->has_stray_fact;
    /* A hold that stands is kept: whoever set it knows when it may go. */
    if (!around->has_pointer || around->pointer_hold != NULL) decision->hold = NULL;
}

static struct settle_decision failed(const struct settle_facts *facts,
                                     const struct settle_rules *rules)
{
    const struct settle_payment *payment = &facts->payment;
    const struct settle_attempt *attempt = &facts->attempt;
    if (!is_waiting(payment->status)) return note(facts);
    const char *reason = attempt->error_code;
    if (reason == NULL)
        reason =
            attempt->decline == DECLINE_NONE ? "failed" : decline_class_name((int)attempt->decline);
    struct settle_decision decision = move(payment, PAYMENT_FAILED, "settled.failed", reason);
    decision.certainty = attempt->certainty;
    decision.reason = reason;
    decision.event = EVENT_PAYMENT_FAILED;
    hold_target(&decision, facts, rules);
    return decision;
}

static struct settle_decision decide_attempt(const struct settle_facts *facts,
                                             const struct settle_rules *rules)
{
    const struct settle_attempt *attempt = &facts->attempt;
    if (!attempt->exists) return missing("attempt_missing");
    if (attempt->operation != OPERATION_CREATE) return missing("operation_not_supported");
    if (!is_news(&facts->payment, attempt)) return nothing("applied");
    switch (attempt->status) {
    case ATTEMPT_CREATED:
    case ATTEMPT_SENDING:
        return nothing("no_news");
    case ATTEMPT_PROCESSING:
        return is_waiting(facts->payment.status) ? processing(facts) : note(facts);
    case ATTEMPT_UNKNOWN:
        return is_waiting(facts->payment.status) ? unknown(facts) : note(facts);
    case ATTEMPT_SUCCEEDED:
        return succeeded(facts);
    case ATTEMPT_FAILED:
        return failed(facts, rules);
    }
    UNREACHABLE("attempt state out of range");
}

/* Route found no account, and no attempt was made: nothing can have happened. */
static struct settle_decision decide_no_route(const struct settle_facts *facts)
{
    const struct settle_payment *payment = &facts->payment;
    const struct settle_around *around = &facts->around;
    if (around->decision == NULL) return missing("decision_missing");
    if (payment->status != PAYMENT_CREATED) return nothing("overtaken");
    struct settle_decision decision = move(payment, PAYMENT_FAILED, "no_route", around->decision);
    decision.is_applied = false; /* there is no attempt */
    decision.certainty = CERTAINTY_NO_SIDE_EFFECT;
    decision.reason = around->decision;
    decision.event = EVENT_PAYMENT_FAILED;
    decision.is_safe_to_pay_again =
        around->pointer_hold == NULL && !around->has_case && !around->has_stray_fact;
    return decision;
}

struct settle_decision settle_decide(enum command_kind kind, const struct settle_facts *facts,
                                     const struct settle_rules *rules)
{
    if (!facts->payment.exists) return missing("payment_missing");
    switch (kind) {
    case COMMAND_SETTLE:
        return decide_attempt(facts, rules);
    case COMMAND_NO_ROUTE:
        return decide_no_route(facts);
    case COMMAND_ROUTE:
    case COMMAND_CREATE:
    case COMMAND_EVIDENCE:
        break;
    }
    UNREACHABLE("not a command to settle");
}
