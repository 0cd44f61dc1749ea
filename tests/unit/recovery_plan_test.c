/* tests/unit/recovery_plan_test.c: what happens next to an attempt whose end is not known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stages/budget.h"
#include "stages/recovery_plan.h"

#define SECOND INT64_C(1000000)
#define NOW (INT64_C(1800000000) * SECOND)

static const struct recovery_rule RULE = {
    .strategies = { RECOVERY_RETRIEVE, RECOVERY_IDEMPOTENT_REPLAY, RECOVERY_WAIT_WEBHOOK },
    .strategy_count = 3,
    .delays_ms = { 1000, 2000, 5000 },
    .delay_count = 3,
    .unknown_age_max_s = 3600,
};

static const struct recovery_limits LIMITS = {
    .replay_until_us = 3600 * SECOND,
    .key_usable_us = 23 * 3600 * SECOND,
    .resends_max = 3,
    .claims_max = 5,
    .pending_age_max_us = 7200 * SECOND,
};

/* An attempt that became UNKNOWN ten seconds ago and of which no object is known. */
static struct recovery_view unknown(void)
{
    return (struct recovery_view){
        .purpose = TASK_RESOLVE,
        .task_state = TASK_READY,
        .first_unknown_us = NOW - 10 * SECOND,
        .attempt_state = ATTEMPT_UNKNOWN,
        .first_sent_us = NOW - 11 * SECOND,
        .sends = 1,
        .payment_state = PAYMENT_AUTHORIZING,
        .start_by_us = NOW + 900 * SECOND,
        .now_us = NOW,
    };
}

static void choose_is(struct recovery_view view, enum recovery_action expected)
{
    assert_int_equal(recovery_choose(&RULE, &LIMITS, &view), expected);
}

static void a_known_object_is_looked_at_rather_than_sent_again(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    choose_is(view, RECOVERY_REPLAY);
    view.has_provider_object = true;
    choose_is(view, RECOVERY_RETRIEVE_OBJECT);
}

static void no_replay_where_the_protocol_forbids_it(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    view.payment_state = PAYMENT_CANCELING;
    choose_is(view, RECOVERY_WAIT);
    view = unknown();
    view.payment_state = PAYMENT_FAILED;
    choose_is(view, RECOVERY_WAIT);
    view = unknown();
    view.expires_at_us = NOW;
    choose_is(view, RECOVERY_WAIT);
    view = unknown();
    view.first_sent_us = NOW - LIMITS.replay_until_us;
    choose_is(view, RECOVERY_WAIT);
    view = unknown();
    view.is_escalated = true;
    choose_is(view, RECOVERY_WAIT);
    view = unknown();
    view.stored_error = true;
    choose_is(view, RECOVERY_WAIT);
    view = unknown();
    view.first_sent_us = 0;
    choose_is(view, RECOVERY_WAIT);
}

static void the_key_window_ends_replays_before_replay_until_does(void **state)
{
    (void)state;
    struct recovery_limits limits = LIMITS;
    limits.replay_until_us = 100 * 3600 * SECOND;
    struct recovery_view view = unknown();
    view.first_sent_us = NOW - limits.key_usable_us + 1;
    assert_int_equal(recovery_choose(&RULE, &limits, &view), RECOVERY_REPLAY);
    view.first_sent_us = NOW - limits.key_usable_us;
    assert_int_equal(recovery_choose(&RULE, &limits, &view), RECOVERY_WAIT);
}

static void a_mismatch_stops_and_a_final_attempt_resolves(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    view.mismatch_open = true;
    choose_is(view, RECOVERY_STOP);
    const struct recovery_next next = recovery_schedule(&RULE, &LIMITS, &view, 0);
    assert_int_equal(next.state, TASK_ESCALATED);
    assert_int_equal(next.due_ms, -1);
    view = unknown();
    view.attempt_state = ATTEMPT_SUCCEEDED;
    choose_is(view, RECOVERY_RESOLVE);
    view.attempt_state = ATTEMPT_FAILED;
    choose_is(view, RECOVERY_RESOLVE);
}

static void claimed_five_times_without_an_outcome_pauses(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    view.claims = 4;
    choose_is(view, RECOVERY_REPLAY);
    view.claims = 5;
    choose_is(view, RECOVERY_PAUSE);
}

static void a_proven_unsent_attempt_is_sent_again_until_out_of_tries_or_time(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    view.purpose = TASK_RESEND;
    view.attempt_state = ATTEMPT_CREATED;
    choose_is(view, RECOVERY_RESEND);
    view.sends = 3;
    choose_is(view, RECOVERY_END_LOCAL);
    view.sends = 1;
    view.start_by_us = NOW;
    choose_is(view, RECOVERY_END_LOCAL);
    view.start_by_us = NOW + SECOND;
    view.expires_at_us = NOW;
    choose_is(view, RECOVERY_END_LOCAL);
    view.attempt_state = ATTEMPT_SENDING; /* its fence batch owns it */
    choose_is(view, RECOVERY_RESOLVE);
    view = unknown(); /* evidence came for something that we thought unsent: find out */
    view.purpose = TASK_RESEND;
    choose_is(view, RECOVERY_REPLAY);
}

static void time_alone_makes_a_case_and_never_an_end(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    struct recovery_next next = recovery_schedule(&RULE, &LIMITS, &view, 0);
    assert_int_equal(next.state, TASK_READY);
    assert_int_equal(next.opens, 0);
    assert_int_equal(next.due_ms, 2000);
    view.step = 2; /* the third delay was used */
    next = recovery_schedule(&RULE, &LIMITS, &view, 0);
    assert_int_equal(next.state, TASK_ESCALATED);
    assert_int_equal(next.opens, CASE_UNKNOWN);
    assert_int_equal(next.due_ms, 5000); /* look-ups go on at the last delay */
    view.is_escalated = true;
    next = recovery_schedule(&RULE, &LIMITS, &view, 0);
    assert_int_equal(next.state, TASK_ESCALATED);
    assert_int_equal(next.opens, 0);
    view = unknown();
    view.first_unknown_us = NOW - RULE.unknown_age_max_s * SECOND;
    assert_int_equal(recovery_schedule(&RULE, &LIMITS, &view, 0).opens, CASE_UNKNOWN);
}

static void pending_is_an_answer_with_a_clock_of_its_own(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    view.attempt_state = ATTEMPT_PROCESSING;
    view.step = 100;
    struct recovery_next next = recovery_schedule(&RULE, &LIMITS, &view, 0);
    assert_int_equal(next.state, TASK_READY);
    assert_int_equal(next.opens, 0);
    view.first_unknown_us = NOW - LIMITS.pending_age_max_us;
    next = recovery_schedule(&RULE, &LIMITS, &view, 0);
    assert_int_equal(next.state, TASK_READY);
    assert_int_equal(next.opens, CASE_PENDING_TOO_LONG);
}

static void retry_after_only_lengthens(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    assert_int_equal(recovery_schedule(&RULE, &LIMITS, &view, 30).due_ms, 30000);
    assert_int_equal(recovery_schedule(&RULE, &LIMITS, &view, 1).due_ms, 2000);
    assert_int_equal(recovery_resend_delay_ms(1, 0), 1000);
    assert_int_equal(recovery_resend_delay_ms(2, 0), 2000);
    assert_int_equal(recovery_resend_delay_ms(100, 0), 30000);
    assert_int_equal(recovery_resend_delay_ms(1, 7), 7000);
}

static void one_look_confirms_a_conflict(void **state)
{
    (void)state;
    struct recovery_view view = unknown();
    view.purpose = TASK_CONFIRM;
    view.attempt_state = ATTEMPT_SUCCEEDED;
    choose_is(view, RECOVERY_RETRIEVE_OBJECT);
    view.claims = 1;
    choose_is(view, RECOVERY_RESOLVE);
}

static void a_budget_holds_rate_and_slots(void **state)
{
    (void)state;
    struct budget budget;
    budget_init(&budget, 10, 4, NOW);
    assert_int_equal(budget_available(&budget, NOW), 4);
    budget_take(&budget, 4);
    assert_int_equal(budget_available(&budget, NOW), 0);
    for (int i = 0; i < 4; i++) budget_release(&budget, false);
    assert_int_equal(budget_available(&budget, NOW), 4);
    budget_take(&budget, 4);
    for (int i = 0; i < 4; i++) budget_release(&budget, false);
    assert_int_equal(budget_available(&budget, NOW), 2); /* 10 tokens, 8 spent */
    budget_take(&budget, 2);
    budget_release(&budget, true); /* never sent: its token comes back */
    budget_release(&budget, false);
    assert_int_equal(budget_available(&budget, NOW), 1);
    assert_int_equal(budget_available(&budget, NOW + SECOND / 2), 4);
    budget_take(&budget, 1);
    assert_true(budget_next_us(&budget, NOW + SECOND / 2) == NOW + SECOND / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_object_is_looked_at_rather_than_sent_again),
        cmocka_unit_test(no_replay_where_the_protocol_forbids_it),
        cmocka_unit_test(the_key_window_ends_replays_before_replay_until_does),
        cmocka_unit_test(a_mismatch_stops_and_a_final_attempt_resolves),
        cmocka_unit_test(claimed_five_times_without_an_outcome_pauses),
        cmocka_unit_test(a_proven_unsent_attempt_is_sent_again_until_out_of_tries_or_time),
        cmocka_unit_test(time_alone_makes_a_case_and_never_an_end),
        cmocka_unit_test(pending_is_an_answer_with_a_clock_of_its_own),
        cmocka_unit_test(retry_after_only_lengthens),
        cmocka_unit_test(one_look_confirms_a_conflict),
        cmocka_unit_test(a_budget_holds_rate_and_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
