/* stages/route/route_decide.c: see route_decide.h. */
#include "stages/route/route_decide.h"

const char *route_reason_name(enum route_reason reason)
{
    switch (reason) {
    case ROUTE_REASON_TAKEN:
        return "taken";
    case ROUTE_REASON_NOT_NEEDED:
        return "not_needed";
    case ROUTE_REASON_CURRENCY:
        return "currency";
    case ROUTE_REASON_METHOD:
        return "method";
    case ROUTE_REASON_AMOUNT:
        return "amount";
    case ROUTE_REASON_TOKEN_REALM:
        return "token_realm";
    case ROUTE_REASON_INEXPRESSIBLE:
        return "inexpressible";
    case ROUTE_REASON_FULL:
        return "open_attempts";
    }
    UNREACHABLE("route reason out of range");
}

static enum route_reason judge_account(const struct route_payment *payment,
                                       const struct route_candidate *candidate)
{
    const struct config_account *account = candidate->account;
    if (!config_texts_contain(&account->currencies, payment->amount.currency.code))
        return ROUTE_REASON_CURRENCY;
    if (!config_texts_contain(&account->methods, payment->method_type)) return ROUTE_REASON_METHOD;
    if (payment->amount.minor < account->amount_minor_min ||
        payment->amount.minor > account->amount_minor_max) {
        return ROUTE_REASON_AMOUNT;
    }
    if (payment->token_realm != NULL &&
        !config_texts_contain(&account->token_realms, payment->token_realm)) {
        return ROUTE_REASON_TOKEN_REALM;
    }
    if (candidate->is_inexpressible) return ROUTE_REASON_INEXPRESSIBLE;
    if (candidate->open_attempts >= account->limits.open_attempts_max) return ROUTE_REASON_FULL;
    return ROUTE_REASON_TAKEN;
}

static struct route_decision choose(const struct route_payment *payment,
                                    struct route_candidate *candidates, size_t count)
{
    struct route_decision decision = { ROUTE_DENY, 0, "no_route" };
    for (size_t i = 0; i < count; i++) {
        if (decision.verdict == ROUTE_TAKE) {
            candidates[i].reason = ROUTE_REASON_NOT_NEEDED;
            continue;
        }
        candidates[i].reason = judge_account(payment, &candidates[i]);
        if (candidates[i].reason == ROUTE_REASON_TAKEN) {
            decision = (struct route_decision){ ROUTE_TAKE, i, "taken" };
        } else if (candidates[i].reason == ROUTE_REASON_FULL) {
            decision = (struct route_decision){ ROUTE_WAIT, 0, "open_attempts" };
        }
    }
    return decision;
}

struct route_decision route_decide(const struct route_payment *payment,
                                   struct route_candidate *candidates, size_t count)
{
    if (!payment->exists) return (struct route_decision){ ROUTE_NOTHING, 0, "payment_missing" };
    if (payment->has_attempt) return (struct route_decision){ ROUTE_NOTHING, 0, "attempt_exists" };
    if (payment->has_decision)
        return (struct route_decision){ ROUTE_NOTHING, 0, "decision_exists" };
    if (payment->status != PAYMENT_CREATED)
        return (struct route_decision){ ROUTE_NOTHING, 0, "overtaken" };
    struct route_decision decision = choose(payment, candidates, count);
    if (payment->start_by_us <= payment->now_us) {
        decision = (struct route_decision){ ROUTE_DENY, 0, "expired_before_start" };
    }
    return decision;
}
