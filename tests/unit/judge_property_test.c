/*
 * tests/unit/judge_property_test.c: what must hold whatever is observed, from whichever source,
 * about an attempt in any state, with or without an earlier request that may have arrived.
 */
#include "tests/unit/judge_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct sweep {
    enum observation_kind kind;
    enum evidence_source source;
    struct judge_attempt attempt;
    const struct psp_capability *capability;
};

static void check_properties(const struct sweep *sweep, enum operation operation)
{
    const struct observation observation = observed(sweep->kind, sweep->source);
    const struct judge_attempt *attempt = &sweep->attempt;
    const struct verdict verdict = judge(operation, &observation, sweep->capability, attempt);
    const bool is_final = attempt_state_is_terminal(attempt->state);
    const bool is_rejection =
        sweep->kind == OBSERVED_UNSENT || sweep->kind == OBSERVED_RATE_LIMITED ||
        sweep->kind == OBSERVED_AUTH_REJECTED || sweep->kind == OBSERVED_REQUEST_REJECTED;
    const bool decides_nothing =
        sweep->kind == OBSERVED_NOTHING || sweep->kind == OBSERVED_TRANSPORT_LOST ||
        sweep->kind == OBSERVED_SERVER_ERROR || sweep->kind == OBSERVED_IN_PROGRESS ||
        sweep->kind == OBSERVED_KEY_MISMATCH;

    assert_non_null(verdict.reason);
    if (verdict.changes) { /* only listed pairs, and a final attempt never moves */
        assert_false(is_final);
        assert_non_null(
            transition_find(ENTITY_ATTEMPT, (int)attempt->state, (int)verdict.next_state));
    } else {
        assert_int_equal(verdict.next_state, attempt->state);
        assert_int_equal(verdict.certainty, attempt->certainty);
    }
    if (attempt->prior && is_rejection) { /* B1 */
        assert_true(verdict.next_state != ATTEMPT_FAILED || is_final);
        assert_int_equal(verdict.proves, 0);
        assert_false(verdict.retry_unsent);
    }
    if (decides_nothing && !is_final) {
        assert_true(verdict.next_state != ATTEMPT_FAILED);
        assert_true(verdict.next_state != ATTEMPT_SUCCEEDED);
        assert_int_equal(verdict.proves, 0);
    }
    if (verdict.changes && attempt_state_is_terminal(verdict.next_state)) { /* I6 */
        assert_int_equal(verdict.proves, verdict.certainty);
        assert_true(verdict.strength > 0);
        assert_true(sweep->source != SOURCE_LOCAL && sweep->source != SOURCE_SEARCH);
    }
    if (verdict.next_state == ATTEMPT_SUCCEEDED && verdict.changes) {
        assert_int_equal(verdict.certainty, CERTAINTY_CONFIRMED_SUCCESS);
    }
    if (verdict.certainty == CERTAINTY_NO_SIDE_EFFECT && verdict.changes) { /* B2 */
        assert_int_equal(attempt->state, ATTEMPT_SENDING);
        assert_false(attempt->prior);
    }
    assert_true(!verdict.retry_unsent || verdict.next_state == ATTEMPT_CREATED);
    assert_true(!verdict.frees_target ||
                (verdict.next_state == ATTEMPT_FAILED && sweep->source != SOURCE_MANUAL));
    assert_true(verdict.contradiction == CONTRADICTION_NONE || is_final ||
                attempt->state == ATTEMPT_CREATED);
}

static void sweep_attempts(struct sweep sweep)
{
    static const enum operation OPERATIONS[] = { OPERATION_CREATE, OPERATION_CAPTURE,
                                                 OPERATION_VOID, OPERATION_CANCEL,
                                                 OPERATION_REFUND };
    static const enum attempt_state STATES[] = { ATTEMPT_CREATED,    ATTEMPT_SENDING,
                                                 ATTEMPT_PROCESSING, ATTEMPT_UNKNOWN,
                                                 ATTEMPT_SUCCEEDED,  ATTEMPT_FAILED };
    for (size_t i = 0; i < COUNT_OF(STATES); i++) {
        for (unsigned bits = 0; bits < 16; bits++) {
            sweep.attempt = attempt_in(STATES[i]);
            sweep.attempt.prior = (bits & 1) != 0;
            sweep.attempt.handed_out = (bits & 2) != 0;
            sweep.attempt.mismatch_open = (bits & 4) != 0;
            if (bits & 8) sweep.attempt.provider_object = OBJECT;
            for (size_t j = 0; j < COUNT_OF(OPERATIONS); j++) {
                check_properties(&sweep, OPERATIONS[j]);
            }
        }
    }
}

static void the_properties_hold_for_everything_observable(void **state)
{
    (void)state;
    static const struct psp_capability *const CAPABILITIES[] = { &KEEPS_ALL, &KEEPS_SUCCESS,
                                                                 &PROMISES_NOTHING };
    for (int kind = OBSERVED_NOTHING; kind <= OBSERVED_CANCELED; kind++) {
        for (int source = SOURCE_LOCAL; source <= SOURCE_MANUAL; source++) {
            for (size_t i = 0; i < COUNT_OF(CAPABILITIES); i++) {
                sweep_attempts((struct sweep){ .kind = (enum observation_kind)kind,
                                               .source = (enum evidence_source)source,
                                               .capability = CAPABILITIES[i] });
            }
        }
    }
}

static void time_alone_never_ends_an_attempt(void **state)
{
    (void)state;
    for (int kind = OBSERVED_NOTHING; kind <= OBSERVED_KEY_MISMATCH; kind++) {
        for (int source = SOURCE_LOCAL; source <= SOURCE_SETTLEMENT; source++) {
            const struct observation observation =
                observed((enum observation_kind)kind, (enum evidence_source)source);
            struct judge_attempt attempt = attempt_in(ATTEMPT_UNKNOWN);
            attempt.asked_us = attempt.now_us = INT64_C(10) * 365 * 86400 * CLOCK_SECOND_US;
            for (int prior = 0; prior <= 1; prior++) {
                attempt.prior = prior == 1;
                const struct verdict verdict =
                    judge(OPERATION_CREATE, &observation, &KEEPS_SUCCESS, &attempt);
                assert_int_equal(verdict.next_state, ATTEMPT_UNKNOWN);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_properties_hold_for_everything_observable),
        cmocka_unit_test(time_alone_never_ends_an_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
