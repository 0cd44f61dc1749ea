/*
 * pipeline/judge.c: see judge.h. First the observation gets a meaning for the operation, by table;
 * then the attempt's state says which rules apply. Every path ends in one of the makers at the
 * top, so a verdict is never half filled.
 */
#include "pipeline/judge.h"

#include "pipeline/clock.h"

enum meaning {
    MEANS_NOTHING,
    MEANS_UNSENT,    /* no request byte left */
    MEANS_REJECTED,  /* this request was refused before anything ran */
    MEANS_UNDECIDED, /* it may have run */
    MEANS_NOT_FOUND,
    MEANS_PENDING,
    MEANS_SUCCESS,
    MEANS_FAILURE,
};

struct meaning_row {
    enum meaning takes;    /* for an operation that moves money: create, capture, refund */
    enum meaning releases; /* for one that lets go of it: void, cancel */
    const char *reason;
};

static const struct meaning_row MEANINGS[] = {
    [OBSERVED_NOTHING] = { MEANS_NOTHING, MEANS_NOTHING, "nothing_observed" },
    [OBSERVED_UNSENT] = { MEANS_UNSENT, MEANS_UNSENT, "unsent" },
    [OBSERVED_TRANSPORT_LOST] = { MEANS_UNDECIDED, MEANS_UNDECIDED, "transport_lost" },
    [OBSERVED_SERVER_ERROR] = { MEANS_UNDECIDED, MEANS_UNDECIDED, "server_error" },
    [OBSERVED_IN_PROGRESS] = { MEANS_UNDECIDED, MEANS_UNDECIDED, "in_progress" },
    [OBSERVED_RATE_LIMITED] = { MEANS_REJECTED, MEANS_REJECTED, "rate_limited" },
    [OBSERVED_AUTH_REJECTED] = { MEANS_REJECTED, MEANS_REJECTED, "auth_rejected" },
    [OBSERVED_REQUEST_REJECTED] = { MEANS_REJECTED, MEANS_REJECTED, "request_rejected" },
    [OBSERVED_KEY_MISMATCH] = { MEANS_UNDECIDED, MEANS_UNDECIDED, "key_mismatch" },
    [OBSERVED_NOT_FOUND] = { MEANS_NOT_FOUND, MEANS_NOT_FOUND, "not_found" },
    [OBSERVED_OBJECT_CREATED] = { MEANS_PENDING, MEANS_PENDING, "object_created" },
    [OBSERVED_PENDING] = { MEANS_PENDING, MEANS_PENDING, "pending" },
    [OBSERVED_SUCCEEDED] = { MEANS_SUCCESS, MEANS_FAILURE, "succeeded" },
    [OBSERVED_DECLINED] = { MEANS_FAILURE, MEANS_FAILURE, "declined" },
    [OBSERVED_CANCELED] = { MEANS_FAILURE, MEANS_SUCCESS, "canceled" },
};

/* Everything a rule looks at. */
struct hearing {
    enum operation operation;
    const struct observation *observation;
    const struct psp_capability *capability;
    const struct judge_attempt *attempt;
    enum meaning meaning;
    const char *reason; /* of the table */
};

const char *contradiction_name(int code)
{
    static const char *const NAMES[] = {
        [CONTRADICTION_NONE] = "none",
        [CONTRADICTION_LATE_SUCCESS] = "late_success",
        [CONTRADICTION_SECOND_SUCCESS] = "second_success",
        [CONTRADICTION_REFUND_RETURNED] = "refund_returned",
        [CONTRADICTION_CAPTURE_RETURNED] = "capture_returned",
        [CONTRADICTION_EVIDENCE_CONFLICT] = "evidence_conflict",
        [CONTRADICTION_UNRECORDED_SEND] = "unrecorded_send",
    };
    return code >= 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}

const char *mismatch_name(int code)
{
    static const char *const NAMES[] = {
        [MISMATCH_NONE] = "none",
        [MISMATCH_REFERENCE] = "reference_mismatch",
        [MISMATCH_OBJECT] = "object_mismatch",
        [MISMATCH_CURRENCY] = "currency_mismatch",
        [MISMATCH_AMOUNT] = "amount_mismatch",
    };
    return code >= 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}

const char *judge_alarm_name(int code)
{
    static const char *const NAMES[] = {
        [JUDGE_ALARM_NONE] = "none",
        [JUDGE_ALARM_PSP_AUTH] = "psp_auth",
        [JUDGE_ALARM_KEY_MISMATCH] = "key_mismatch",
    };
    return code >= 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}

int evidence_strength(enum evidence_source source)
{
    switch (source) {
    case SOURCE_SEARCH:
        return 10;
    case SOURCE_LOCAL:
        return 20;
    case SOURCE_TRANSPORT:
        return 30;
    case SOURCE_MANUAL:
        return 40;
    case SOURCE_WEBHOOK:
        return 50;
    case SOURCE_ANSWER:
        return 60;
    case SOURCE_REPLAY:
        return 65;
    case SOURCE_RETRIEVE:
        return 70;
    case SOURCE_SETTLEMENT:
        return 80;
    }
    UNREACHABLE("evidence source out of range");
}

/* Makers of verdicts. */

static struct verdict stay(const struct judge_attempt *attempt, const char *reason)
{
    return (struct verdict){
        .next_state = attempt->state,
        .certainty = attempt->certainty,
        .reason = reason,
    };
}

static struct verdict move(enum attempt_state next_state, enum certainty certainty,
                           const char *reason)
{
    return (struct verdict){
        .changes = true,
        .next_state = next_state,
        .certainty = certainty,
        .reason = reason,
    };
}

static struct verdict move_proven(const struct hearing *hearing, enum attempt_state next_state,
                                  enum certainty certainty, const char *reason)
{
    struct verdict verdict = move(next_state, certainty, reason);
    verdict.proves = (int)certainty;
    verdict.strength = evidence_strength(hearing->observation->source);
    return verdict;
}

/* What the rules ask about. */

static bool has_new_facts(const struct hearing *hearing)
{
    const struct observation *observation = hearing->observation;
    const struct judge_attempt *attempt = hearing->attempt;
    return (observation->provider_object != NULL && attempt->provider_object == NULL) ||
           (observation->handed_out && !attempt->handed_out);
}

/* Did the request that SENDING stands for, or a replay of it, bring this? */
static bool is_about_the_send(const struct hearing *hearing)
{
    switch (hearing->observation->source) {
    case SOURCE_LOCAL:
    case SOURCE_TRANSPORT:
    case SOURCE_ANSWER:
    case SOURCE_REPLAY:
        return true;
    case SOURCE_RETRIEVE:
    case SOURCE_SEARCH:
    case SOURCE_WEBHOOK:
    case SOURCE_SETTLEMENT:
    case SOURCE_MANUAL:
        return false;
    }
    UNREACHABLE("evidence source out of range");
}

/*
 * Is this about the only request that can have reached the PSP? From UNKNOWN and PROCESSING on
 * something may have happened whatever prior says: a stored 500 closes its request and decides
 * nothing.
 */
static bool is_about_the_only_request(const struct hearing *hearing)
{
    return hearing->attempt->state == ATTEMPT_SENDING && !hearing->attempt->prior &&
           is_about_the_send(hearing) && hearing->observation->source != SOURCE_REPLAY;
}

/* A window that the capability row does not give has never passed. */
static bool late_arrival_has_passed(const struct psp_capability *capability,
                                    const struct judge_attempt *attempt, int64_t at_us)
{
    return capability->late_arrival_window_s > 0 && attempt->last_request_end_us > 0 &&
           at_us - attempt->last_request_end_us >
               capability->late_arrival_window_s * CLOCK_SECOND_US;
}

/* B4, C6: could no create under this key start any more, at that time? */
static bool create_cannot_arrive(const struct psp_capability *capability,
                                 const struct judge_attempt *attempt, int64_t at_us)
{
    return attempt->key_consumed || attempt->canceled_by_reference ||
           late_arrival_has_passed(capability, attempt, at_us);
}

bool judge_frees_target(const struct psp_capability *capability,
                        const struct judge_attempt *attempt, enum evidence_source proof)
{
    if (attempt->state != ATTEMPT_FAILED || proof == SOURCE_MANUAL) return false;
    if (attempt->certainty == CERTAINTY_NO_SIDE_EFFECT) return !attempt->prior;
    if (attempt->certainty != CERTAINTY_DEFINITE_FAILURE) return false;
    return capability->keeps_failures_under_key ||
           create_cannot_arrive(capability, attempt, attempt->now_us);
}

/* B5. Success has all three or is incomplete; anything else is compared in what it carries. */
static enum mismatch compare(const struct hearing *hearing)
{
    const struct observation *observation = hearing->observation;
    const struct judge_attempt *attempt = hearing->attempt;
    const bool is_success = hearing->meaning == MEANS_SUCCESS;
    if (observation->reference != NULL && strcmp(observation->reference, attempt->reference) != 0) {
        return MISMATCH_REFERENCE;
    }
    if (observation->provider_object != NULL && attempt->provider_object != NULL &&
        strcmp(observation->provider_object, attempt->provider_object) != 0) {
        return MISMATCH_OBJECT;
    }
    const bool moves_money =
        hearing->operation != OPERATION_VOID && hearing->operation != OPERATION_CANCEL;
    /* What has not succeeded may rightly say that 0 was received. */
    const bool is_compared =
        observation->has_amount && moves_money && (is_success || observation->amount.minor != 0);
    if (!is_compared) return MISMATCH_NONE;
    if (!currency_equal(observation->amount.currency, attempt->amount.currency)) {
        return MISMATCH_CURRENCY;
    }
    return observation->amount.minor == attempt->amount.minor ? MISMATCH_NONE : MISMATCH_AMOUNT;
}

static enum mismatch missing(const struct hearing *hearing)
{
    const bool moves_money =
        hearing->operation != OPERATION_VOID && hearing->operation != OPERATION_CANCEL;
    if (hearing->observation->reference == NULL) return MISMATCH_REFERENCE;
    return moves_money && !hearing->observation->has_amount ? MISMATCH_AMOUNT : MISMATCH_NONE;
}

/* The rules for an attempt that is sending or open. */

/* Nothing is decided: SENDING becomes UNKNOWN by its own request, new facts are a version. */
static struct verdict undecided(const struct hearing *hearing, const char *reason)
{
    const struct judge_attempt *attempt = hearing->attempt;
    if (attempt->state == ATTEMPT_SENDING && is_about_the_send(hearing)) {
        return move(ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, reason);
    }
    if (attempt->state != ATTEMPT_SENDING && has_new_facts(hearing)) {
        return move(attempt->state, attempt->certainty, reason);
    }
    return stay(attempt, reason);
}

static struct verdict send_again(const struct hearing *hearing)
{
    struct verdict verdict =
        move_proven(hearing, ATTEMPT_CREATED, CERTAINTY_NO_SIDE_EFFECT, hearing->reason);
    verdict.retry_unsent = true;
    if (hearing->observation->source == SOURCE_LOCAL) { /* I6: proof only from CREATED */
        verdict.proves = 0;
        verdict.strength = 0;
    }
    return verdict;
}

static struct verdict judge_unsent(const struct hearing *hearing)
{
    /* Proof that no byte left and a phase that says otherwise: believe the worse. */
    const bool is_proof = hearing->observation->phase <= PHASE_CONNECT;
    if (is_proof && is_about_the_only_request(hearing)) return send_again(hearing);
    return undecided(hearing, is_proof ? hearing->reason : "unsent_without_proof");
}

/* B1, B2: what the capability row lists as before execution, if no earlier request may be there. */
static struct verdict judge_rejected(const struct hearing *hearing)
{
    const struct psp_capability *capability = hearing->capability;
    const enum observation_kind kind = hearing->observation->kind;
    const bool is_answer = hearing->observation->source == SOURCE_ANSWER;
    const bool is_before_execution =
        (kind == OBSERVED_RATE_LIMITED && capability->rate_limit_is_before_execution) ||
        (kind == OBSERVED_AUTH_REJECTED && capability->auth_rejection_is_before_execution) ||
        (kind == OBSERVED_REQUEST_REJECTED && capability->rejection_is_before_execution);
    struct verdict verdict;
    if (!is_answer || !is_before_execution || !is_about_the_only_request(hearing)) {
        verdict = undecided(hearing, hearing->reason);
    } else if (kind == OBSERVED_RATE_LIMITED) {
        verdict = send_again(hearing);
    } else {
        verdict = move_proven(hearing, ATTEMPT_FAILED, CERTAINTY_NO_SIDE_EFFECT, hearing->reason);
        verdict.frees_target = hearing->operation == OPERATION_CREATE;
    }
    if (kind == OBSERVED_AUTH_REJECTED) verdict.alarm = JUDGE_ALARM_PSP_AUTH;
    return verdict;
}

static struct verdict judge_undecided(const struct hearing *hearing)
{
    const struct observation *observation = hearing->observation;
    struct verdict verdict = undecided(hearing, hearing->reason);
    if (observation->kind == OBSERVED_KEY_MISMATCH) verdict.alarm = JUDGE_ALARM_KEY_MISMATCH;
    if (observation->kind == OBSERVED_SERVER_ERROR) {
        /* A first 5xx may come from a proxy; one that a replay meets again is the kept answer. */
        verdict.stored_error = observation->replayed || observation->source == SOURCE_REPLAY;
    }
    return verdict;
}

/* B4, and B3: not found ends an attempt only if nobody but us can drive what may be there. */
static struct verdict judge_not_found(const struct hearing *hearing)
{
    const struct psp_capability *capability = hearing->capability;
    const struct judge_attempt *attempt = hearing->attempt;
    const int64_t lag_end_us =
        attempt->last_request_end_us + capability->lookup_lag_s * CLOCK_SECOND_US;
    const bool is_by_reference = hearing->observation->source == SOURCE_SEARCH;
    if (attempt->state == ATTEMPT_SENDING || !is_by_reference || attempt->provider_object != NULL ||
        !capability->lookup_by_reference_is_complete || attempt->last_request_end_us == 0) {
        return undecided(hearing, hearing->reason);
    }
    if (attempt->asked_us <= lag_end_us) return undecided(hearing, "not_found_within_lag");
    if (attempt->handed_out || !create_cannot_arrive(capability, attempt, attempt->asked_us)) {
        return undecided(hearing, "not_found_but_create_may_arrive");
    }
    struct verdict verdict =
        move_proven(hearing, ATTEMPT_FAILED, CERTAINTY_DEFINITE_FAILURE, "not_found_closed");
    verdict.rests_on_requests = true;
    verdict.frees_target = hearing->operation == OPERATION_CREATE;
    return verdict;
}

static struct verdict judge_pending(const struct hearing *hearing, const char *reason)
{
    const struct judge_attempt *attempt = hearing->attempt;
    if (attempt->state == ATTEMPT_PROCESSING && attempt->certainty == CERTAINTY_PENDING &&
        !has_new_facts(hearing)) {
        struct verdict verdict = stay(attempt, reason);
        verdict.proves = CERTAINTY_PENDING;
        verdict.strength = evidence_strength(hearing->observation->source);
        return verdict;
    }
    return move_proven(hearing, ATTEMPT_PROCESSING, CERTAINTY_PENDING, reason);
}

static struct verdict judge_mismatch(enum mismatch mismatch)
{
    struct verdict verdict = move(ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, mismatch_name((int)mismatch));
    verdict.mismatch = mismatch;
    return verdict;
}

static struct verdict judge_success(const struct hearing *hearing)
{
    const enum evidence_source source = hearing->observation->source;
    const enum mismatch absent = source == SOURCE_MANUAL ? MISMATCH_NONE : missing(hearing);
    if (absent != MISMATCH_NONE) {
        /* The retrieve is the last word: what it does not show cannot be compared at all. */
        if (source == SOURCE_RETRIEVE) return judge_mismatch(absent);
        struct verdict verdict = undecided(hearing, "success_without_comparison");
        verdict.wants_retrieve = true;
        return verdict;
    }
    return move_proven(hearing, ATTEMPT_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS, hearing->reason);
}

/* B3, C6. */
static struct verdict judge_failure(const struct hearing *hearing)
{
    const struct observation *observation = hearing->observation;
    const struct psp_capability *capability = hearing->capability;
    const struct judge_attempt *attempt = hearing->attempt;
    const bool is_manual = observation->source == SOURCE_MANUAL;
    const bool is_create = hearing->operation == OPERATION_CREATE;
    const bool is_in_customers_hands = attempt->handed_out || observation->handed_out;
    const bool is_closed = observation->kind == OBSERVED_CANCELED;
    if (is_create && !is_manual &&
        (observation->object_payable || (is_in_customers_hands && !is_closed))) {
        return judge_pending(hearing, "declined_but_payable");
    }
    /* Where the record of the send is lost, nobody knows what it handed to the customer. */
    const bool is_recorded = attempt->is_recorded || is_about_the_send(hearing);
    if (is_create && !is_manual && !is_recorded && !is_closed)
        return undecided(hearing, "declined_but_send_unrecorded");
    const bool keeps = capability->keeps_failures_under_key;
    /* The window only ends what may still arrive: what arrived inside it may have succeeded, on an
     * object that this decline is not about. */
    const bool is_excluded = attempt->key_consumed || attempt->canceled_by_reference;
    if (!is_manual && !keeps && attempt->prior && !is_excluded) {
        return undecided(hearing, "declined_but_earlier_request_open");
    }
    struct verdict verdict =
        move_proven(hearing, ATTEMPT_FAILED, CERTAINTY_DEFINITE_FAILURE, hearing->reason);
    struct judge_attempt after = *attempt;
    after.state = ATTEMPT_FAILED;
    after.certainty = CERTAINTY_DEFINITE_FAILURE;
    verdict.rests_on_requests = !keeps && !is_manual;
    verdict.closes_earlier_requests = keeps && !is_manual;
    verdict.frees_target = is_create && judge_frees_target(capability, &after, observation->source);
    return verdict;
}

/* Evidence that shows an object at the PSP. */
static struct verdict judge_object(const struct hearing *hearing)
{
    const enum evidence_source source = hearing->observation->source;
    /* A search hit only fills in the id (B4); an event about the payment's object does not tell a
     * capture or refund of ours from one made outside. The retrieve tells. */
    const bool is_hint = source == SOURCE_SEARCH ||
                         (source == SOURCE_WEBHOOK && hearing->operation != OPERATION_CREATE);
    const enum mismatch mismatch = source == SOURCE_MANUAL ? MISMATCH_NONE : compare(hearing);
    if (mismatch != MISMATCH_NONE) return judge_mismatch(mismatch);
    if (is_hint) {
        struct verdict verdict = undecided(hearing, "retrieve_decides");
        verdict.wants_retrieve = true;
        return verdict;
    }
    if (hearing->meaning == MEANS_SUCCESS) return judge_success(hearing);
    if (hearing->meaning == MEANS_FAILURE) return judge_failure(hearing);
    return judge_pending(hearing, hearing->reason);
}

static struct verdict judge_open(const struct hearing *hearing)
{
    if (hearing->attempt->mismatch_open && hearing->observation->source != SOURCE_MANUAL) {
        return stay(hearing->attempt, "stopped_by_mismatch");
    }
    switch (hearing->meaning) {
    case MEANS_NOTHING:
        return undecided(hearing, hearing->reason);
    case MEANS_UNSENT:
        return judge_unsent(hearing);
    case MEANS_REJECTED:
        return judge_rejected(hearing);
    case MEANS_UNDECIDED:
        return judge_undecided(hearing);
    case MEANS_NOT_FOUND:
        return judge_not_found(hearing);
    case MEANS_PENDING:
    case MEANS_SUCCESS:
    case MEANS_FAILURE:
        return judge_object(hearing);
    }
    UNREACHABLE("meaning out of range");
}

static bool shows_object(const struct hearing *hearing)
{
    return hearing->meaning == MEANS_PENDING || hearing->meaning == MEANS_SUCCESS ||
           hearing->meaning == MEANS_FAILURE;
}

/* CREATED: whatever the PSP knows of it, we have no record of sending it (A). */
static struct verdict judge_created(const struct hearing *hearing)
{
    if (!shows_object(hearing)) return stay(hearing->attempt, hearing->reason);
    struct verdict verdict = move(ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, "unrecorded_send");
    verdict.contradiction = CONTRADICTION_UNRECORDED_SEND;
    verdict.wants_retrieve = true;
    return verdict;
}

/* A final attempt never changes; what contradicts it is a late fact (D). */
static struct verdict contradict(const struct hearing *hearing, enum contradiction contradiction,
                                 enum certainty proves)
{
    struct verdict verdict = stay(hearing->attempt, contradiction_name((int)contradiction));
    verdict.contradiction = contradiction;
    verdict.proves = (int)proves;
    verdict.strength = evidence_strength(hearing->observation->source);
    return verdict;
}

static struct verdict judge_success_of_final(const struct hearing *hearing)
{
    if (hearing->attempt->state == ATTEMPT_FAILED) {
        return contradict(hearing, CONTRADICTION_LATE_SUCCESS, CERTAINTY_CONFIRMED_SUCCESS);
    }
    const enum mismatch mismatch = compare(hearing);
    if (mismatch == MISMATCH_NONE) {
        struct verdict verdict = stay(hearing->attempt, "already_succeeded");
        verdict.proves = CERTAINTY_CONFIRMED_SUCCESS;
        verdict.strength = evidence_strength(hearing->observation->source);
        return verdict;
    }
    if (mismatch == MISMATCH_OBJECT) {
        return contradict(hearing, CONTRADICTION_SECOND_SUCCESS, CERTAINTY_CONFIRMED_SUCCESS);
    }
    struct verdict verdict =
        contradict(hearing, CONTRADICTION_EVIDENCE_CONFLICT, CERTAINTY_CONFIRMED_SUCCESS);
    verdict.wants_retrieve = hearing->observation->source != SOURCE_RETRIEVE;
    return verdict;
}

static struct verdict judge_failure_of_succeeded(const struct hearing *hearing)
{
    const struct observation *observation = hearing->observation;
    const int64_t success_at_us = hearing->attempt->success_at_us;
    const bool is_older = observation->observed_at_us != 0 && success_at_us != 0 &&
                          observation->observed_at_us < success_at_us;
    if (is_older) return stay(hearing->attempt, "older_than_success");
    if (hearing->operation == OPERATION_REFUND) {
        return contradict(hearing, CONTRADICTION_REFUND_RETURNED, CERTAINTY_DEFINITE_FAILURE);
    }
    if (hearing->operation == OPERATION_CAPTURE) {
        return contradict(hearing, CONTRADICTION_CAPTURE_RETURNED, CERTAINTY_DEFINITE_FAILURE);
    }
    struct verdict verdict = stay(hearing->attempt, "evidence_conflict");
    verdict.contradiction = CONTRADICTION_EVIDENCE_CONFLICT;
    verdict.wants_retrieve = observation->source != SOURCE_RETRIEVE;
    return verdict;
}

static struct verdict judge_final(const struct hearing *hearing)
{
    const bool is_hint = hearing->observation->source == SOURCE_SEARCH;
    if (!is_hint && hearing->meaning == MEANS_SUCCESS) return judge_success_of_final(hearing);
    if (!is_hint && hearing->meaning == MEANS_FAILURE &&
        hearing->attempt->state == ATTEMPT_SUCCEEDED) {
        return judge_failure_of_succeeded(hearing);
    }
    return stay(hearing->attempt, "already_final");
}

static enum meaning meaning_of(enum operation operation, const struct observation *observation)
{
    INVARIANT((size_t)observation->kind < COUNT_OF(MEANINGS));
    const struct meaning_row *row = &MEANINGS[observation->kind];
    const bool is_from_psp =
        observation->source != SOURCE_LOCAL && observation->source != SOURCE_TRANSPORT;
    enum meaning meaning = row->takes;
    switch (operation) {
    case OPERATION_CREATE:
    case OPERATION_CAPTURE:
    case OPERATION_REFUND:
        break;
    case OPERATION_VOID:
    case OPERATION_CANCEL:
        meaning = row->releases;
        break;
    }
    /* Only the PSP can show an object; anything else that claims to decides nothing. */
    const bool is_about_object = meaning == MEANS_PENDING || meaning == MEANS_SUCCESS ||
                                 meaning == MEANS_FAILURE || meaning == MEANS_NOT_FOUND;
    return is_about_object && !is_from_psp ? MEANS_UNDECIDED : meaning;
}

struct verdict judge(enum operation operation, const struct observation *observation,
                     const struct psp_capability *capability, const struct judge_attempt *attempt)
{
    const struct hearing hearing = {
        .operation = operation,
        .observation = observation,
        .capability = capability,
        .attempt = attempt,
        .meaning = meaning_of(operation, observation),
        .reason = MEANINGS[observation->kind].reason,
    };
    switch (attempt->state) {
    case ATTEMPT_CREATED:
        return judge_created(&hearing);
    case ATTEMPT_SENDING:
    case ATTEMPT_PROCESSING:
    case ATTEMPT_UNKNOWN:
        return judge_open(&hearing);
    case ATTEMPT_SUCCEEDED:
    case ATTEMPT_FAILED:
        return judge_final(&hearing);
    }
    UNREACHABLE("attempt state out of range");
}
