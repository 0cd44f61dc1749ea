/* tests/simulation/decide.c: see decide.h. */
#include "tests/simulation/decide.h"

#include "pipeline/provider_key.h"
#include "tests/simulation/parts.h"

struct intake_decision decide_intake(struct world *world, const struct pay_request *request,
                                     int64_t start_by_us, const struct intake_found *found)
{
    struct intake_found seen = *found;
    if (world->mutant == MUTANT_TWO_ACTIVE && !uuid_is_nil(seen.active.uuid))
        seen.active_status = PAYMENT_FAILED;
    if (world->mutant == MUTANT_HOLD_IGNORED) seen.is_held = false;
    struct intake_decision decision = intake_decide(request, start_by_us, &seen);
    if (world->mutant == MUTANT_REFUSAL_ANEW && decision.problem != PROBLEM_NONE)
        decision.writes_key = false;
    return decision;
}

struct route_decision decide_route(struct world *world, const struct route_payment *payment,
                                   struct route_candidate *candidates, size_t count)
{
    struct route_payment seen = *payment;
    if (world->mutant == MUTANT_FAILOVER_FROM_UNKNOWN && seen.status == PAYMENT_AUTHORIZING)
        seen.status = PAYMENT_CREATED;
    return route_decide(&seen, candidates, count);
}

const char *decide_key(struct world *world, const struct route_payment *payment, const char *target,
                       int ordinal)
{
    struct provider_key_input input = {
        .installation = "simulated",
        .merchant = payment->merchant,
        .out_trade_no = payment->out_trade_no,
        .operation = OPERATION_CREATE,
        .number = 1,
        .ordinal = ordinal,
        .step = 1,
    };
    if (world->mutant == MUTANT_REUSE_KEY && target != NULL) input.out_trade_no = target;
    char *text = world_allocate(world, PROVIDER_KEY_SIZE);
    return provider_key_make(&input, world->bank->capability.key_length_max, text);
}

/* Bugs of the judge that alter what it hears. */
static void alter_hearing(const struct world *world, struct observation *observation,
                          struct psp_capability *capability, struct judge_attempt *attempt)
{
    if (world->mutant == MUTANT_TIMEOUT_IS_FAILURE &&
        observation->kind == OBSERVED_TRANSPORT_LOST) {
        observation->kind = OBSERVED_DECLINED;
        observation->source = SOURCE_ANSWER;
        attempt->prior = false;
    }
    if (world->mutant == MUTANT_NOT_FOUND_IS_FAILURE && observation->kind == OBSERVED_NOT_FOUND)
        observation->kind = OBSERVED_CANCELED;
    if (world->mutant == MUTANT_FORGET_EARLIER) attempt->prior = false;
    if (world->mutant == MUTANT_PAYABLE_IS_FAILED) observation->object_payable = false;
    if (world->mutant == MUTANT_MISMATCH_IS_SUCCESS) observation->amount = attempt->amount;
    if (world->mutant == MUTANT_REJECTED_REPLAY_ENDS && observation->source == SOURCE_REPLAY &&
        observation->kind == OBSERVED_REQUEST_REJECTED) {
        observation->source = SOURCE_ANSWER;
        attempt->state = ATTEMPT_SENDING;
        attempt->prior = false;
    }
    (void)capability;
}

struct verdict decide_verdict(struct world *world, const struct observation *observation,
                              const struct psp_capability *capability,
                              const struct judge_attempt *attempt)
{
    struct observation heard = *observation;
    struct psp_capability known = *capability;
    struct judge_attempt seen = *attempt;
    alter_hearing(world, &heard, &known, &seen);
    struct verdict verdict = judge(OPERATION_CREATE, &heard, &known, &seen);
    if (world->mutant == MUTANT_TERMINAL_MOVES &&
        verdict.contradiction == CONTRADICTION_LATE_SUCCESS) {
        verdict.changes = true;
        verdict.next_state = ATTEMPT_SUCCEEDED;
        verdict.certainty = CERTAINTY_CONFIRMED_SUCCESS;
        verdict.contradiction = CONTRADICTION_NONE;
    }
    if (world->mutant == MUTANT_LATE_FACT_DROPPED) verdict.contradiction = CONTRADICTION_NONE;
    return verdict;
}

enum recovery_action decide_recovery(struct world *world, const struct recovery_rule *rule,
                                     const struct recovery_limits *limits,
                                     const struct recovery_view *view)
{
    struct recovery_limits known = *limits;
    struct recovery_view seen = *view;
    if (world->mutant == MUTANT_REPLAY_PAST_RETENTION) {
        known.replay_until_us = known.key_usable_us = INT64_MAX;
        seen.is_escalated = false;
    }
    return recovery_choose(rule, &known, &seen);
}

struct settle_decision decide_settle(struct world *world, enum command_kind kind,
                                     const struct settle_facts *facts,
                                     const struct settle_rules *rules)
{
    struct settle_facts seen = *facts;
    if (world->mutant == MUTANT_APPLY_TWICE) {
        seen.attempt.is_cited = false;
        seen.payment.applied_version = 0;
    }
    if (world->mutant == MUTANT_FORGET_AROUND) {
        seen.around.has_case = seen.around.has_grave_case = seen.around.has_stray_fact = false;
        seen.around.pointer_hold = NULL;
    }
    return settle_decide(kind, &seen, rules);
}
