/* stages/intake/intake_decide.c: see intake_decide.h. */
#include "stages/intake/intake_decide.h"

#include "pipeline/clock.h"

const char *intake_verdict_name(enum intake_verdict verdict)
{
    switch (verdict) {
    case INTAKE_REPLAY:
        return "replayed";
    case INTAKE_CONFLICT:
        return "conflict";
    case INTAKE_CANCELED_BEFORE:
        return "canceled_before_start";
    case INTAKE_SAME_PAYMENT:
        return "same_payment";
    case INTAKE_TAKEN:
        return "out_trade_no_taken";
    case INTAKE_EXPIRED:
        return "expired";
    case INTAKE_TARGET_BUSY:
        return "target_busy";
    case INTAKE_TARGET_HELD:
        return "target_held";
    case INTAKE_NEW:
        return "accepted";
    }
    UNREACHABLE("intake verdict out of range");
}

static bool has_fingerprint(const struct pay_request *request, const struct intake_found *found)
{
    return found->fingerprint_version == REQUEST_FINGERPRINT_VERSION &&
           memcmp(found->fingerprint, request->fingerprint, sizeof request->fingerprint) == 0;
}

static struct intake_decision refuse(enum intake_verdict verdict, enum problem_code problem,
                                     bool key_is_free, struct payment_id existing)
{
    return (struct intake_decision){ verdict, problem, key_is_free && problem_is_stored(problem),
                                     existing };
}

/*
 * The number is known: the business key answers, whatever the idempotency key. The row of an
 * expired key is the record of that payment's acceptance and stays as it is.
 */
static struct intake_decision decide_known(const struct intake_found *found)
{
    const bool key_is_free = !found->has_key;
    if (found->is_tombstone) {
        return refuse(INTAKE_CANCELED_BEFORE, PROBLEM_CANCELED_BEFORE_START, key_is_free,
                      found->payment);
    }
    if (!found->is_same)
        return refuse(INTAKE_TAKEN, PROBLEM_OUT_TRADE_NO_TAKEN, key_is_free, found->payment);
    return (
        struct intake_decision){ INTAKE_SAME_PAYMENT, PROBLEM_NONE, key_is_free, { { { 0 } } } };
}

struct intake_decision intake_decide(const struct pay_request *request, int64_t start_by_us,
                                     const struct intake_found *found)
{
    const struct payment_id nobody = { { { 0 } } };
    if (found->has_key && !found->key_is_expired) {
        if (has_fingerprint(request, found)) {
            return (struct intake_decision){ INTAKE_REPLAY, PROBLEM_NONE, false, nobody };
        }
        return refuse(INTAKE_CONFLICT, PROBLEM_IDEMPOTENCY_CONFLICT, false, nobody);
    }
    if (!uuid_is_nil(found->payment.uuid)) return decide_known(found);
    if (start_by_us <= found->now_us) return refuse(INTAKE_EXPIRED, PROBLEM_EXPIRED, true, nobody);
    if (pay_request_has_target(request) && !uuid_is_nil(found->active.uuid)) {
        if (!payment_state_is_terminal(found->active_status)) {
            return refuse(INTAKE_TARGET_BUSY, PROBLEM_TARGET_BUSY, true, found->active);
        }
        if (found->is_held)
            return refuse(INTAKE_TARGET_HELD, PROBLEM_TARGET_HELD, true, found->active);
    }
    return (struct intake_decision){ INTAKE_NEW, PROBLEM_NONE, true, nobody };
}

int64_t intake_start_by(const struct intake_age *age, int64_t expires_at_us, int64_t start_by_s,
                        int64_t now_us)
{
    int64_t since_us = age->stored_us;
    if (age->first_stored_us > 0 && age->first_stored_us < since_us)
        since_us = age->first_stored_us;
    if (since_us > now_us) since_us = now_us;
    const int64_t start_by_us = since_us + start_by_s * CLOCK_SECOND_US;
    return expires_at_us != 0 && expires_at_us < start_by_us ? expires_at_us : start_by_us;
}

int64_t intake_first_stored(const char *header)
{
    enum { DIGITS_MAX = 18 }; /* fits int64 */
    if (header == NULL) return 0;
    const size_t length = strlen(header);
    if (length == 0 || length > DIGITS_MAX || strspn(header, "0123456789") != length) return 0;
    return strtoll(header, NULL, 10);
}
