/* tests/unit/judge_test.c: a readable row or test per rule of protocol B, C6 and D. */
#include "tests/unit/judge_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* One rule: what is observed, about an attempt in which state, and what must come of it. */
struct rule_row {
    const char *rule;
    const struct psp_capability *capability;
    enum observation_kind kind;
    enum evidence_source source;
    enum attempt_state state;
    bool prior;
    enum attempt_state next_state; /* equal to state: no change, unless is_version */
    enum certainty certainty;
    int proves;
    bool is_version; /* changes, although the state may be the same */
};

static const struct rule_row RULES[] = {
    /* The create's own answer. */
    { "a success is a success", &KEEPS_ALL, OBSERVED_SUCCEEDED, SOURCE_ANSWER, ATTEMPT_SENDING,
      false, ATTEMPT_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS, CERTAINTY_CONFIRMED_SUCCESS, true },
    { "a decline under a key that keeps it", &KEEPS_ALL, OBSERVED_DECLINED, SOURCE_ANSWER,
      ATTEMPT_SENDING, false, ATTEMPT_FAILED, CERTAINTY_DEFINITE_FAILURE,
      CERTAINTY_DEFINITE_FAILURE, true },
    { "a pending answer", &KEEPS_ALL, OBSERVED_PENDING, SOURCE_ANSWER, ATTEMPT_SENDING, false,
      ATTEMPT_PROCESSING, CERTAINTY_PENDING, CERTAINTY_PENDING, true },
    { "an object that has not run yet is pending", &KEEPS_ALL, OBSERVED_OBJECT_CREATED,
      SOURCE_ANSWER, ATTEMPT_SENDING, false, ATTEMPT_PROCESSING, CERTAINTY_PENDING,
      CERTAINTY_PENDING, true },
    { "a 500 decides nothing", &KEEPS_ALL, OBSERVED_SERVER_ERROR, SOURCE_ANSWER, ATTEMPT_SENDING,
      false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "a lost answer decides nothing", &KEEPS_ALL, OBSERVED_TRANSPORT_LOST, SOURCE_TRANSPORT,
      ATTEMPT_SENDING, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "C18: in progress is unknown", &KEEPS_ALL, OBSERVED_IN_PROGRESS, SOURCE_ANSWER,
      ATTEMPT_SENDING, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "another's parameters under our key", &KEEPS_ALL, OBSERVED_KEY_MISMATCH, SOURCE_ANSWER,
      ATTEMPT_SENDING, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "an answer nobody can read", &KEEPS_ALL, OBSERVED_NOTHING, SOURCE_ANSWER, ATTEMPT_SENDING,
      false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },

    /* B1, B2: rejections of the request. */
    { "A: connection refused, the only request", &KEEPS_ALL, OBSERVED_UNSENT, SOURCE_TRANSPORT,
      ATTEMPT_SENDING, false, ATTEMPT_CREATED, CERTAINTY_NO_SIDE_EFFECT, CERTAINTY_NO_SIDE_EFFECT,
      true },
    { "A: 429 on the only request", &KEEPS_ALL, OBSERVED_RATE_LIMITED, SOURCE_ANSWER,
      ATTEMPT_SENDING, false, ATTEMPT_CREATED, CERTAINTY_NO_SIDE_EFFECT, CERTAINTY_NO_SIDE_EFFECT,
      true },
    { "A: not sent, send_by had passed", &KEEPS_ALL, OBSERVED_UNSENT, SOURCE_LOCAL, ATTEMPT_SENDING,
      false, ATTEMPT_CREATED, CERTAINTY_NO_SIDE_EFFECT, 0, true },
    { "validation error, the only request", &KEEPS_ALL, OBSERVED_REQUEST_REJECTED, SOURCE_ANSWER,
      ATTEMPT_SENDING, false, ATTEMPT_FAILED, CERTAINTY_NO_SIDE_EFFECT, CERTAINTY_NO_SIDE_EFFECT,
      true },
    { "401, the only request", &KEEPS_ALL, OBSERVED_AUTH_REJECTED, SOURCE_ANSWER, ATTEMPT_SENDING,
      false, ATTEMPT_FAILED, CERTAINTY_NO_SIDE_EFFECT, CERTAINTY_NO_SIDE_EFFECT, true },
    { "B1: connection refused, an earlier request open", &KEEPS_ALL, OBSERVED_UNSENT,
      SOURCE_TRANSPORT, ATTEMPT_SENDING, true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "B1: 429, an earlier request open", &KEEPS_ALL, OBSERVED_RATE_LIMITED, SOURCE_ANSWER,
      ATTEMPT_SENDING, true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "B1: validation error, an earlier request open", &KEEPS_ALL, OBSERVED_REQUEST_REJECTED,
      SOURCE_ANSWER, ATTEMPT_SENDING, true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "B1: a replay that could not connect", &KEEPS_ALL, OBSERVED_UNSENT, SOURCE_TRANSPORT,
      ATTEMPT_UNKNOWN, true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, false },
    { "B1: a replay that got 401", &KEEPS_ALL, OBSERVED_AUTH_REJECTED, SOURCE_REPLAY,
      ATTEMPT_UNKNOWN, true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, false },
    { "a replay's 429 after a stored 500, all requests answered", &KEEPS_ALL, OBSERVED_RATE_LIMITED,
      SOURCE_REPLAY, ATTEMPT_UNKNOWN, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, false },
    { "a replay's validation error, all requests answered", &KEEPS_ALL, OBSERVED_REQUEST_REJECTED,
      SOURCE_REPLAY, ATTEMPT_UNKNOWN, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, false },
    { "B2: a 429 the capability row does not list", &PROMISES_NOTHING, OBSERVED_RATE_LIMITED,
      SOURCE_ANSWER, ATTEMPT_SENDING, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "B2: a 400 the capability row does not list", &PROMISES_NOTHING, OBSERVED_REQUEST_REJECTED,
      SOURCE_ANSWER, ATTEMPT_SENDING, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },

    /* Lookups. */
    { "C04: 403 on a lookup", &KEEPS_ALL, OBSERVED_AUTH_REJECTED, SOURCE_RETRIEVE, ATTEMPT_UNKNOWN,
      true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, false },
    { "C01: 404 on a lookup", &KEEPS_ALL, OBSERVED_NOT_FOUND, SOURCE_RETRIEVE, ATTEMPT_UNKNOWN,
      true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, false },
    { "a lookup that got 404 while processing", &KEEPS_ALL, OBSERVED_NOT_FOUND, SOURCE_RETRIEVE,
      ATTEMPT_PROCESSING, false, ATTEMPT_PROCESSING, CERTAINTY_PENDING, 0, false },
    { "a lookup that timed out", &KEEPS_ALL, OBSERVED_TRANSPORT_LOST, SOURCE_TRANSPORT,
      ATTEMPT_PROCESSING, false, ATTEMPT_PROCESSING, CERTAINTY_PENDING, 0, false },
    { "a retrieve finds success", &KEEPS_ALL, OBSERVED_SUCCEEDED, SOURCE_RETRIEVE, ATTEMPT_UNKNOWN,
      true, ATTEMPT_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS, CERTAINTY_CONFIRMED_SUCCESS, true },
    { "a retrieve finds it pending", &KEEPS_ALL, OBSERVED_PENDING, SOURCE_RETRIEVE, ATTEMPT_UNKNOWN,
      true, ATTEMPT_PROCESSING, CERTAINTY_PENDING, CERTAINTY_PENDING, true },
    { "B4: a search hit only fills in the id", &KEEPS_ALL, OBSERVED_SUCCEEDED, SOURCE_SEARCH,
      ATTEMPT_UNKNOWN, true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "B4: not found inside the lag", &KEEPS_SUCCESS, OBSERVED_NOT_FOUND, SOURCE_SEARCH,
      ATTEMPT_UNKNOWN, true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, false },

    /* Webhooks and replays. */
    { "C02: a webhook closes an unknown attempt", &KEEPS_ALL, OBSERVED_SUCCEEDED, SOURCE_WEBHOOK,
      ATTEMPT_UNKNOWN, true, ATTEMPT_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS,
      CERTAINTY_CONFIRMED_SUCCESS, true },
    { "a webhook is faster than the answer", &KEEPS_ALL, OBSERVED_SUCCEEDED, SOURCE_WEBHOOK,
      ATTEMPT_SENDING, false, ATTEMPT_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS,
      CERTAINTY_CONFIRMED_SUCCESS, true },
    { "C08: a decline by webhook proves the same", &KEEPS_ALL, OBSERVED_DECLINED, SOURCE_WEBHOOK,
      ATTEMPT_UNKNOWN, true, ATTEMPT_FAILED, CERTAINTY_DEFINITE_FAILURE, CERTAINTY_DEFINITE_FAILURE,
      true },
    { "C08: a decline by retrieve proves the same", &KEEPS_ALL, OBSERVED_DECLINED, SOURCE_RETRIEVE,
      ATTEMPT_UNKNOWN, true, ATTEMPT_FAILED, CERTAINTY_DEFINITE_FAILURE, CERTAINTY_DEFINITE_FAILURE,
      true },
    { "C6: a replayed decline closes what was open", &KEEPS_ALL, OBSERVED_DECLINED, SOURCE_REPLAY,
      ATTEMPT_UNKNOWN, true, ATTEMPT_FAILED, CERTAINTY_DEFINITE_FAILURE, CERTAINTY_DEFINITE_FAILURE,
      true },
    { "C6: not where failures are not kept", &KEEPS_SUCCESS, OBSERVED_DECLINED, SOURCE_REPLAY,
      ATTEMPT_UNKNOWN, true, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "a decline of the only request where failures are not kept", &KEEPS_SUCCESS,
      OBSERVED_DECLINED, SOURCE_ANSWER, ATTEMPT_SENDING, false, ATTEMPT_FAILED,
      CERTAINTY_DEFINITE_FAILURE, CERTAINTY_DEFINITE_FAILURE, true },
    { "a replay that finds success", &KEEPS_ALL, OBSERVED_SUCCEEDED, SOURCE_REPLAY, ATTEMPT_UNKNOWN,
      true, ATTEMPT_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS, CERTAINTY_CONFIRMED_SUCCESS, true },
    { "a canceled object takes no money any more", &KEEPS_ALL, OBSERVED_CANCELED, SOURCE_RETRIEVE,
      ATTEMPT_PROCESSING, false, ATTEMPT_FAILED, CERTAINTY_DEFINITE_FAILURE,
      CERTAINTY_DEFINITE_FAILURE, true },

    /* Late and impossible things. */
    { "a late word from a worker whose attempt ended", &KEEPS_ALL, OBSERVED_TRANSPORT_LOST,
      SOURCE_TRANSPORT, ATTEMPT_SUCCEEDED, false, ATTEMPT_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS, 0,
      false },
    { "a duplicate webhook", &KEEPS_ALL, OBSERVED_SUCCEEDED, SOURCE_WEBHOOK, ATTEMPT_SUCCEEDED,
      false, ATTEMPT_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS, CERTAINTY_CONFIRMED_SUCCESS, false },
    { "A: evidence for what we have no record of sending", &KEEPS_ALL, OBSERVED_SUCCEEDED,
      SOURCE_WEBHOOK, ATTEMPT_CREATED, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
    { "nothing is learned about an attempt not sent", &KEEPS_ALL, OBSERVED_NOT_FOUND, SOURCE_SEARCH,
      ATTEMPT_CREATED, false, ATTEMPT_CREATED, CERTAINTY_UNKNOWN, 0, false },
    { "a local observation cannot show success", &KEEPS_ALL, OBSERVED_SUCCEEDED, SOURCE_LOCAL,
      ATTEMPT_SENDING, false, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN, 0, true },
};

static void each_rule_gives_its_verdict(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(RULES); i++) {
        const struct rule_row *row = &RULES[i];
        struct judge_attempt attempt = attempt_in(row->state);
        attempt.prior = row->prior;
        const struct observation observation = observed(row->kind, row->source);
        const struct verdict verdict =
            judge(OPERATION_CREATE, &observation, row->capability, &attempt);
        if (verdict.next_state != row->next_state || verdict.certainty != row->certainty ||
            verdict.proves != row->proves || verdict.changes != row->is_version) {
            fail_msg("%s: got %s, %s, proves %d, changes %d (%s)", row->rule,
                     attempt_state_name((int)verdict.next_state),
                     certainty_name((int)verdict.certainty), verdict.proves, verdict.changes,
                     verdict.reason);
        }
    }
}

/* B5 */

static void success_that_differs_is_not_success(void **state)
{
    (void)state;
    struct observation amount = observed(OBSERVED_SUCCEEDED, SOURCE_ANSWER);
    amount.amount.minor = 999;
    struct observation currency = observed(OBSERVED_SUCCEEDED, SOURCE_RETRIEVE);
    currency.amount.currency = (struct currency){ "USD" };
    struct observation reference = observed(OBSERVED_SUCCEEDED, SOURCE_WEBHOOK);
    reference.reference = "op_other";
    struct observation object = observed(OBSERVED_SUCCEEDED, SOURCE_WEBHOOK);
    object.provider_object = "pi_2";
    const struct {
        const struct observation *observation;
        enum mismatch mismatch;
    } CASES[] = {
        { &amount, MISMATCH_AMOUNT },
        { &currency, MISMATCH_CURRENCY },
        { &reference, MISMATCH_REFERENCE },
        { &object, MISMATCH_OBJECT },
    };
    static const enum attempt_state STATES[] = { ATTEMPT_SENDING, ATTEMPT_PROCESSING,
                                                 ATTEMPT_UNKNOWN };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        for (size_t j = 0; j < COUNT_OF(STATES); j++) {
            struct judge_attempt attempt = attempt_in(STATES[j]);
            attempt.provider_object = OBJECT;
            const struct verdict verdict =
                judge(OPERATION_CREATE, CASES[i].observation, &KEEPS_ALL, &attempt);
            assert_true(verdict.changes);
            assert_int_equal(verdict.next_state, ATTEMPT_UNKNOWN);
            assert_int_equal(verdict.mismatch, CASES[i].mismatch);
            assert_int_equal(verdict.proves, 0);
            assert_string_equal(verdict.reason, mismatch_name((int)CASES[i].mismatch));
        }
    }
}

static void a_decline_of_another_reference_ends_nothing(void **state)
{
    (void)state;
    struct observation declined = observed(OBSERVED_DECLINED, SOURCE_WEBHOOK);
    declined.reference = "op_other";
    const struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    const struct verdict verdict = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_UNKNOWN);
    assert_int_equal(verdict.mismatch, MISMATCH_REFERENCE);
}

static void a_decline_may_say_that_nothing_was_received(void **state)
{
    (void)state;
    struct observation declined = observed(OBSERVED_DECLINED, SOURCE_ANSWER);
    declined.has_amount = true;
    declined.amount = (struct money){ 0, { "EUR" } };
    const struct judge_attempt attempt = attempt_in(ATTEMPT_SENDING);
    const struct verdict verdict = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_FAILED);
}

static void success_that_cannot_be_compared_asks_for_the_object(void **state)
{
    (void)state;
    struct observation bare = observed(OBSERVED_SUCCEEDED, SOURCE_WEBHOOK);
    bare.has_amount = false;
    struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    struct verdict verdict = judge(OPERATION_CREATE, &bare, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_UNKNOWN);
    assert_int_equal(verdict.mismatch, MISMATCH_NONE);
    assert_true(verdict.wants_retrieve);
    assert_true(verdict.changes); /* the object's id is a new fact */

    bare.source = SOURCE_RETRIEVE; /* the last word: nothing more to ask */
    verdict = judge(OPERATION_CREATE, &bare, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.mismatch, MISMATCH_AMOUNT);
    bare = observed(OBSERVED_SUCCEEDED, SOURCE_RETRIEVE);
    bare.reference = NULL;
    verdict = judge(OPERATION_CREATE, &bare, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.mismatch, MISMATCH_REFERENCE);
}

static void after_a_mismatch_only_people_decide(void **state)
{
    (void)state;
    struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    attempt.mismatch_open = true;
    struct observation success = observed(OBSERVED_SUCCEEDED, SOURCE_RETRIEVE);
    assert_false(judge(OPERATION_CREATE, &success, &KEEPS_ALL, &attempt).changes);
    success.source = SOURCE_MANUAL;
    struct verdict verdict = judge(OPERATION_CREATE, &success, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_SUCCEEDED);
    const struct observation declined = observed(OBSERVED_DECLINED, SOURCE_MANUAL);
    verdict = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_FAILED);
    assert_false(verdict.frees_target); /* manual evidence never opens the guard */
    assert_false(verdict.closes_earlier_requests);
}

/* B3 */

static void a_decline_of_what_others_can_still_pay_is_pending(void **state)
{
    (void)state;
    struct judge_attempt attempt = attempt_in(ATTEMPT_PROCESSING);
    attempt.handed_out = true;
    attempt.provider_object = OBJECT;
    struct observation declined = observed(OBSERVED_DECLINED, SOURCE_RETRIEVE);
    struct verdict verdict = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_PROCESSING);
    assert_int_equal(verdict.certainty, CERTAINTY_PENDING);

    attempt = attempt_in(ATTEMPT_SENDING);
    declined = observed(OBSERVED_DECLINED, SOURCE_ANSWER);
    declined.object_payable = true;
    verdict = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_PROCESSING);

    attempt.handed_out = true; /* until the PSP confirms that it is closed */
    const struct observation canceled = observed(OBSERVED_CANCELED, SOURCE_RETRIEVE);
    verdict = judge(OPERATION_CREATE, &canceled, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_FAILED);
}

/* B4 */

static struct verdict judge_empty_search(struct judge_attempt attempt,
                                         const struct psp_capability *capability)
{
    const struct observation empty = observed(OBSERVED_NOT_FOUND, SOURCE_SEARCH);
    return judge(OPERATION_CREATE, &empty, capability, &attempt);
}

static void not_found_is_proof_only_where_the_create_cannot_arrive(void **state)
{
    (void)state;
    struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    attempt.prior = true;
    attempt.asked_us = 1070 * CLOCK_SECOND_US; /* past the lag, inside the arrival window */
    assert_false(judge_empty_search(attempt, &KEEPS_SUCCESS).changes);

    struct judge_attempt consumed = attempt;
    consumed.key_consumed = true;
    struct verdict verdict = judge_empty_search(consumed, &KEEPS_SUCCESS);
    assert_int_equal(verdict.next_state, ATTEMPT_FAILED);
    assert_int_equal(verdict.certainty, CERTAINTY_DEFINITE_FAILURE);
    assert_string_equal(verdict.reason, "not_found_closed");

    struct judge_attempt canceled = attempt;
    canceled.canceled_by_reference = true;
    assert_int_equal(judge_empty_search(canceled, &KEEPS_SUCCESS).next_state, ATTEMPT_FAILED);

    struct judge_attempt late = attempt;
    late.asked_us = 1601 * CLOCK_SECOND_US;
    assert_int_equal(judge_empty_search(late, &KEEPS_SUCCESS).next_state, ATTEMPT_FAILED);
    assert_false(judge_empty_search(late, &KEEPS_ALL).changes); /* its search proves nothing */

    late.handed_out = true;
    assert_false(judge_empty_search(late, &KEEPS_SUCCESS).changes);
    late.handed_out = false;
    late.provider_object = OBJECT; /* it was there: an empty search contradicts what we know */
    assert_false(judge_empty_search(late, &KEEPS_SUCCESS).changes);
}

/* B4: what counts is when it was looked for, not when somebody came to judge what was not there. */
static void not_found_is_as_old_as_its_question(void **state)
{
    (void)state;
    static const int64_t TOO_EARLY_S[] = { 0, 1010, 1070, 1600 };
    struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    attempt.now_us = 9000 * CLOCK_SECOND_US;
    for (size_t i = 0; i < COUNT_OF(TOO_EARLY_S); i++) {
        attempt.asked_us = TOO_EARLY_S[i] * CLOCK_SECOND_US;
        assert_false(judge_empty_search(attempt, &KEEPS_SUCCESS).changes);
    }
    attempt.asked_us = 1601 * CLOCK_SECOND_US;
    const struct verdict verdict = judge_empty_search(attempt, &KEEPS_SUCCESS);
    assert_int_equal(verdict.next_state, ATTEMPT_FAILED);
    assert_true(verdict.rests_on_requests);
    /* A replay that was sent meanwhile is the last request now. */
    attempt.last_request_end_us = 1700 * CLOCK_SECOND_US;
    assert_false(judge_empty_search(attempt, &KEEPS_SUCCESS).changes);
}

static void a_decline_rests_on_requests_where_failures_are_not_kept(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    struct observation declined = observed(OBSERVED_DECLINED, SOURCE_WEBHOOK);
    declined.provider_object = OBJECT;
    declined.reference = KEY;
    const struct verdict kept = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_int_equal(kept.next_state, ATTEMPT_FAILED);
    assert_false(kept.rests_on_requests);
    const struct verdict open = judge(OPERATION_CREATE, &declined, &KEEPS_SUCCESS, &attempt);
    assert_int_equal(open.next_state, ATTEMPT_FAILED);
    assert_true(open.rests_on_requests);
}

/* B3: who sent it, and what was handed out then, is not in our books: a person looks. */
static void a_decline_ends_nothing_that_we_have_no_record_of_sending(void **state)
{
    (void)state;
    struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    attempt.is_recorded = false;
    struct observation seen = observed(OBSERVED_DECLINED, SOURCE_WEBHOOK);
    seen.provider_object = OBJECT;
    seen.reference = KEY;
    assert_int_equal(judge(OPERATION_CREATE, &seen, &KEEPS_ALL, &attempt).next_state,
                     ATTEMPT_UNKNOWN);
    seen.source = SOURCE_MANUAL;
    assert_int_equal(judge(OPERATION_CREATE, &seen, &KEEPS_ALL, &attempt).next_state,
                     ATTEMPT_FAILED);
    seen.source = SOURCE_RETRIEVE;
    seen.kind = OBSERVED_CANCELED;
    assert_int_equal(judge(OPERATION_CREATE, &seen, &KEEPS_ALL, &attempt).next_state,
                     ATTEMPT_FAILED);
}

/* C6 */

static void a_passed_window_does_not_tell_what_arrived_inside_it(void **state)
{
    (void)state;
    struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    attempt.prior = true;
    attempt.provider_object = OBJECT;
    attempt.now_us = 1601 * CLOCK_SECOND_US; /* past the arrival window */
    const struct observation declined = observed(OBSERVED_DECLINED, SOURCE_RETRIEVE);
    struct verdict verdict = judge(OPERATION_CREATE, &declined, &KEEPS_SUCCESS, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_UNKNOWN);
    assert_int_equal(verdict.proves, 0);

    attempt.canceled_by_reference = true; /* now nothing of it can have succeeded unseen */
    verdict = judge(OPERATION_CREATE, &declined, &KEEPS_SUCCESS, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_FAILED);
}

/* C16, C18, alarms */

static void a_stored_error_is_told_from_a_first_one(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    struct observation error = observed(OBSERVED_SERVER_ERROR, SOURCE_ANSWER);
    struct judge_attempt sending = attempt_in(ATTEMPT_SENDING);
    assert_false(judge(OPERATION_CREATE, &error, &KEEPS_ALL, &sending).stored_error);
    error.source = SOURCE_REPLAY;
    assert_true(judge(OPERATION_CREATE, &error, &KEEPS_ALL, &attempt).stored_error);
    error.source = SOURCE_ANSWER;
    error.replayed = true;
    assert_true(judge(OPERATION_CREATE, &error, &KEEPS_ALL, &sending).stored_error);
    const struct observation busy = observed(OBSERVED_IN_PROGRESS, SOURCE_REPLAY);
    assert_false(judge(OPERATION_CREATE, &busy, &KEEPS_ALL, &attempt).stored_error);
}

static void people_hear_of_refused_credentials_and_taken_keys(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    const struct observation auth = observed(OBSERVED_AUTH_REJECTED, SOURCE_RETRIEVE);
    assert_int_equal(judge(OPERATION_CREATE, &auth, &KEEPS_ALL, &attempt).alarm,
                     JUDGE_ALARM_PSP_AUTH);
    const struct observation taken = observed(OBSERVED_KEY_MISMATCH, SOURCE_REPLAY);
    assert_int_equal(judge(OPERATION_CREATE, &taken, &KEEPS_ALL, &attempt).alarm,
                     JUDGE_ALARM_KEY_MISMATCH);
}

static void unsent_needs_a_phase_that_agrees(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_SENDING);
    struct observation unsent = observed(OBSERVED_UNSENT, SOURCE_TRANSPORT);
    assert_true(judge(OPERATION_CREATE, &unsent, &KEEPS_ALL, &attempt).retry_unsent);
    unsent.phase = PHASE_SENT;
    const struct verdict verdict = judge(OPERATION_CREATE, &unsent, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_UNKNOWN);
    assert_string_equal(verdict.reason, "unsent_without_proof");
}

/* D */

static void success_on_a_failed_attempt_is_a_late_fact(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_FAILED);
    const struct observation success = observed(OBSERVED_SUCCEEDED, SOURCE_WEBHOOK);
    const struct verdict verdict = judge(OPERATION_CREATE, &success, &KEEPS_ALL, &attempt);
    assert_false(verdict.changes);
    assert_int_equal(verdict.contradiction, CONTRADICTION_LATE_SUCCESS);
    assert_int_equal(verdict.proves, CERTAINTY_CONFIRMED_SUCCESS);
}

static void a_failure_after_success_is_a_conflict_and_before_it_nothing(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_SUCCEEDED);
    struct observation declined = observed(OBSERVED_DECLINED, SOURCE_WEBHOOK);
    declined.observed_at_us = attempt.success_at_us + 1;
    struct verdict verdict = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_false(verdict.changes);
    assert_int_equal(verdict.contradiction, CONTRADICTION_EVIDENCE_CONFLICT);
    assert_true(verdict.wants_retrieve);

    declined.observed_at_us = attempt.success_at_us - 1;
    verdict = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.contradiction, CONTRADICTION_NONE);
    assert_false(verdict.wants_retrieve);

    declined.observed_at_us = 0; /* undated: the worse is believed */
    verdict = judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.contradiction, CONTRADICTION_EVIDENCE_CONFLICT);

    declined.source = SOURCE_RETRIEVE; /* the one retrieve has been made */
    assert_false(judge(OPERATION_CREATE, &declined, &KEEPS_ALL, &attempt).wants_retrieve);
}

static void returned_money_is_a_late_fact(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_SUCCEEDED);
    const struct observation failed = observed(OBSERVED_DECLINED, SOURCE_RETRIEVE);
    assert_int_equal(judge(OPERATION_REFUND, &failed, &KEEPS_ALL, &attempt).contradiction,
                     CONTRADICTION_REFUND_RETURNED);
    assert_int_equal(judge(OPERATION_CAPTURE, &failed, &KEEPS_ALL, &attempt).contradiction,
                     CONTRADICTION_CAPTURE_RETURNED);
}

static void a_second_object_that_succeeded_is_a_second_success(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_SUCCEEDED);
    struct observation second = observed(OBSERVED_SUCCEEDED, SOURCE_WEBHOOK);
    second.provider_object = "pi_2";
    struct verdict verdict = judge(OPERATION_CREATE, &second, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.contradiction, CONTRADICTION_SECOND_SUCCESS);
    second = observed(OBSERVED_SUCCEEDED, SOURCE_RETRIEVE);
    second.amount.minor = 5;
    verdict = judge(OPERATION_CREATE, &second, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.contradiction, CONTRADICTION_EVIDENCE_CONFLICT);
    assert_false(verdict.changes);
}

static void evidence_without_a_record_of_sending_goes_to_people(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_CREATED);
    const struct observation pending = observed(OBSERVED_PENDING, SOURCE_WEBHOOK);
    const struct verdict verdict = judge(OPERATION_CREATE, &pending, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.contradiction, CONTRADICTION_UNRECORDED_SEND);
    assert_true(verdict.wants_retrieve);
}

/* Other operations */

static void a_cancel_succeeds_by_the_cancel_and_fails_by_the_payment(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_SENDING);
    const struct observation canceled = observed(OBSERVED_CANCELED, SOURCE_ANSWER);
    assert_int_equal(judge(OPERATION_CANCEL, &canceled, &KEEPS_ALL, &attempt).next_state,
                     ATTEMPT_SUCCEEDED);
    const struct observation paid = observed(OBSERVED_SUCCEEDED, SOURCE_ANSWER);
    assert_int_equal(judge(OPERATION_CANCEL, &paid, &KEEPS_ALL, &attempt).next_state,
                     ATTEMPT_FAILED);
}

static void an_event_about_the_payment_does_not_decide_a_refund(void **state)
{
    (void)state;
    const struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
    const struct observation paid = observed(OBSERVED_SUCCEEDED, SOURCE_WEBHOOK);
    const struct verdict verdict = judge(OPERATION_REFUND, &paid, &KEEPS_ALL, &attempt);
    assert_int_equal(verdict.next_state, ATTEMPT_UNKNOWN);
    assert_true(verdict.wants_retrieve);
}

/* Local ends and freeing the target */

static void a_failure_frees_the_target_only_when_every_way_is_closed(void **state)
{
    (void)state;
    struct judge_attempt failed = attempt_in(ATTEMPT_FAILED);
    assert_true(judge_frees_target(&KEEPS_ALL, &failed, SOURCE_WEBHOOK));
    assert_false(judge_frees_target(&KEEPS_ALL, &failed, SOURCE_MANUAL));
    assert_false(judge_frees_target(&KEEPS_SUCCESS, &failed, SOURCE_ANSWER));
    failed.key_consumed = true;
    assert_true(judge_frees_target(&KEEPS_SUCCESS, &failed, SOURCE_ANSWER));
    failed.key_consumed = false;
    failed.now_us = 1601 * CLOCK_SECOND_US;
    assert_true(judge_frees_target(&KEEPS_SUCCESS, &failed, SOURCE_ANSWER));
    assert_false(judge_frees_target(&PROMISES_NOTHING, &failed, SOURCE_ANSWER));

    failed = attempt_in(ATTEMPT_FAILED);
    failed.certainty = CERTAINTY_NO_SIDE_EFFECT;
    assert_true(judge_frees_target(&PROMISES_NOTHING, &failed, SOURCE_ANSWER));
    failed.prior = true;
    assert_false(judge_frees_target(&PROMISES_NOTHING, &failed, SOURCE_ANSWER));
    const struct judge_attempt unknown = attempt_in(ATTEMPT_UNKNOWN);
    assert_false(judge_frees_target(&KEEPS_ALL, &unknown, SOURCE_ANSWER));
}

static void names_cover_the_enums(void **state)
{
    (void)state;
    assert_string_equal(contradiction_name(CONTRADICTION_UNRECORDED_SEND), "unrecorded_send");
    assert_null(contradiction_name(CONTRADICTION_UNRECORDED_SEND + 1));
    assert_string_equal(mismatch_name(MISMATCH_AMOUNT), "amount_mismatch");
    assert_null(mismatch_name(-1));
    assert_string_equal(judge_alarm_name(JUDGE_ALARM_PSP_AUTH), "psp_auth");
    assert_null(judge_alarm_name(9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_gives_its_verdict),
        cmocka_unit_test(success_that_differs_is_not_success),
        cmocka_unit_test(a_decline_of_another_reference_ends_nothing),
        cmocka_unit_test(a_decline_may_say_that_nothing_was_received),
        cmocka_unit_test(success_that_cannot_be_compared_asks_for_the_object),
        cmocka_unit_test(after_a_mismatch_only_people_decide),
        cmocka_unit_test(a_decline_of_what_others_can_still_pay_is_pending),
        cmocka_unit_test(not_found_is_proof_only_where_the_create_cannot_arrive),
        cmocka_unit_test(not_found_is_as_old_as_its_question),
        cmocka_unit_test(a_decline_rests_on_requests_where_failures_are_not_kept),
        cmocka_unit_test(a_decline_ends_nothing_that_we_have_no_record_of_sending),
        cmocka_unit_test(a_passed_window_does_not_tell_what_arrived_inside_it),
        cmocka_unit_test(a_stored_error_is_told_from_a_first_one),
        cmocka_unit_test(people_hear_of_refused_credentials_and_taken_keys),
        cmocka_unit_test(unsent_needs_a_phase_that_agrees),
        cmocka_unit_test(success_on_a_failed_attempt_is_a_late_fact),
        cmocka_unit_test(a_failure_after_success_is_a_conflict_and_before_it_nothing),
        cmocka_unit_test(returned_money_is_a_late_fact),
        cmocka_unit_test(a_second_object_that_succeeded_is_a_second_success),
        cmocka_unit_test(evidence_without_a_record_of_sending_goes_to_people),
        cmocka_unit_test(a_cancel_succeeds_by_the_cancel_and_fails_by_the_payment),
        cmocka_unit_test(an_event_about_the_payment_does_not_decide_a_refund),
        cmocka_unit_test(a_failure_frees_the_target_only_when_every_way_is_closed),
        cmocka_unit_test(names_cover_the_enums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
