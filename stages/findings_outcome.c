/* stages/findings_outcome.c: see findings_outcome.h. */
#include "stages/findings_outcome.h"

static const struct recovery_rule *rule_of(const struct findings *findings,
                                           const struct finding *finding)
{
    if (finding->rule != NULL) return finding->rule;
    return recovery_policy_rule(findings->policy, findings->account->psp, findings->account->id,
                                finding->attempt.method_type, OPERATION_CREATE);
}

/* "answer.succeeded": where it came from and what became of the attempt. */
static const char *event_word(struct finding *finding)
{
    static const struct {
        enum attempt_state state;
        const char *word;
    } WORDS[] = {
        { ATTEMPT_CREATED, "unsent" },        { ATTEMPT_SENDING, "sending" },
        { ATTEMPT_PROCESSING, "processing" }, { ATTEMPT_UNKNOWN, "unknown" },
        { ATTEMPT_SUCCEEDED, "succeeded" },   { ATTEMPT_FAILED, "failed" },
    };
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        if (WORDS[i].state != finding->verdict.next_state) continue;
        return arena_format(&finding->arena, "%s.%s",
                            evidence_source_name((int)finding->observation.source), WORDS[i].word);
    }
    UNREACHABLE("attempt state out of range");
}

/* The task that an attempt gets when it is left open and has none. */
static struct task_birth plan_birth(const struct findings *findings, const struct finding *finding)
{
    const struct verdict *verdict = &finding->verdict;
    struct task_birth birth = { .purpose = TASK_RESOLVE, .stored_error = verdict->stored_error };
    if (!verdict->changes || attempt_state_is_terminal(verdict->next_state) ||
        !uuid_is_nil(finding->attempt.task.uuid)) {
        return birth;
    }
    birth.id.uuid = uuid_new();
    if (verdict->retry_unsent) {
        birth.purpose = TASK_RESEND;
        birth.due_ms = stage_spread_ms(
            recovery_resend_delay_ms(finding->sends, finding->observation.retry_after_s));
    } else {
        const int64_t delay_ms = recovery_first_delay_ms(rule_of(findings, finding), verdict,
                                                         finding->observation.retry_after_s);
        birth.due_ms = delay_ms < 0 ? -1 : stage_spread_ms(delay_ms);
    }
    return birth;
}

/* The reason that the attempt carries on: of its end, of a mismatch; NULL keeps what is there. */
static const char *plan_reason(const struct finding *finding)
{
    const struct verdict *verdict = &finding->verdict;
    if (verdict->mismatch != MISMATCH_NONE) return mismatch_name((int)verdict->mismatch);
    if (verdict->next_state != ATTEMPT_FAILED) return NULL;
    return finding->observation.error_code != NULL ? finding->observation.error_code
                                                   : verdict->reason;
}

/* Settle hears of every new status, of mismatches and of next actions; not of further doubt. */
static bool is_news(const struct finding *finding)
{
    const struct verdict *verdict = &finding->verdict;
    if (!verdict->changes || verdict->next_state == ATTEMPT_CREATED) return false;
    return verdict->next_state != finding->attempt.state || verdict->mismatch != MISMATCH_NONE ||
           (finding->observation.handed_out && !finding->attempt.handed_out);
}

/* Nearly all evidence names the attempt's own reference, which a sign for it says as well. */
static struct observation with_short_reference(const struct finding *finding)
{
    struct observation seen = finding->observation;
    if (seen.reference == NULL) return seen;
    if (strcmp(seen.reference, finding->attempt.provider_key) == 0) {
        seen.reference = EVIDENCE_OWN_REFERENCE;
    } else if (strcmp(seen.reference, EVIDENCE_OWN_REFERENCE) == 0) {
        seen.reference = "'" EVIDENCE_OWN_REFERENCE "'"; /* a PSP may say anything */
    }
    return seen;
}

struct attempt_outcome finding_outcome(const struct findings *findings, struct finding *finding)
{
    return (struct attempt_outcome){
        .attempt = finding->attempt.attempt,
        .payment = finding->attempt.payment,
        .version = finding->attempt.version,
        .from = finding->attempt.state,
        .verdict = finding->verdict,
        .observation = with_short_reference(finding),
        .evidence = finding->evidence,
        .request = finding->request,
        .closure = observation_closure(&finding->observation, &findings->psp->capability),
        .event = event_word(finding),
        .reason = plan_reason(finding),
        .command =
            is_news(finding) ? (struct outbox_id){ uuid_new() } : (struct outbox_id){ { { 0 } } },
        .task = plan_birth(findings, finding),
        .task_version = finding->verdict.rests_on_requests ? finding->attempt.task_version : 0,
        .policy_version = findings->policy->version,
    };
}
