/*
 * tests/unit/settle_decide_test.c: one row per thing that an attempt's end or news can mean for its
 * payment (protocol A, C6, E, F). No store: facts are values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pipeline/clock.h"
#include "stages/settle/settle_decide.h"

enum { NOW_S = 1000000, CALL_LIMIT_S = 30, WINDOW_S = 3600, EXTRA_S = 60 };

/* Keeps failures under the key: a definite failure frees the target. */
static const struct psp_capability FAITHFUL = {
    .version = 1,
    .has_idempotency_key = true,
    .keeps_failures_under_key = true,
    .late_arrival_window_s = WINDOW_S,
};
/* Keeps only successes: a failure frees it when the create can no longer arrive. */
static const struct psp_capability HOSTILE = {
    .version = 1,
    .has_idempotency_key = true,
    .late_arrival_window_s = WINDOW_S,
};

static struct settle_rules rules_of(const struct psp_capability *capability)
{
    return (struct settle_rules){
        .capability = capability,
        .call_limit_us = CALL_LIMIT_S * CLOCK_SECOND_US,
        .late_arrival_extra_s = EXTRA_S,
    };
}

/* An authorizing payment of a target, its first attempt sent ten seconds ago. */
static struct settle_facts facts_of(enum payment_state payment, enum attempt_state attempt)
{
    struct settle_facts facts = {
        .payment = { .exists = true,
                     .id = { uuid_new() },
                     .merchant = "m-1001",
                     .out_trade_no = "o-1",
                     .amount = { 1099, { "EUR" } },
                     .status = payment,
                     .version = 2 },
        .attempt = { .exists = true,
                     .id = { uuid_new() },
                     .operation = OPERATION_CREATE,
                     .ordinal = 1,
                     .status = attempt,
                     .certainty = CERTAINTY_UNKNOWN,
                     .version = 3,
                     .channel_account = "stripe-main",
                     .provider_key = "key",
                     .amount = { 1099, { "EUR" } },
                     .evidence = { uuid_new() },
                     .evidence_source = SOURCE_ANSWER,
                     .has_known_answer = true,
                     .last_send_by_us = (NOW_S - 10) * CLOCK_SECOND_US },
        .around = { .has_pointer = true, .pointer_version = 1, .now_us = NOW_S * CLOCK_SECOND_US },
    };
    if (attempt == ATTEMPT_FAILED) facts.attempt.certainty = CERTAINTY_DEFINITE_FAILURE;
    if (attempt == ATTEMPT_FAILED) facts.attempt.error_code = "card_declined";
    if (attempt == ATTEMPT_SUCCEEDED) facts.attempt.certainty = CERTAINTY_CONFIRMED_SUCCESS;
    return facts;
}

static struct settle_decision settle(const struct settle_facts *facts)
{
    const struct settle_rules rules = rules_of(&FAITHFUL);
    return settle_decide(COMMAND_SETTLE, facts, &rules);
}

/* Every state of the payment against every state of the attempt ------------------------------- */

struct pair_row {
    enum payment_state payment;
    enum attempt_state attempt;
    enum settle_action action;
    enum payment_state next;
    int event;
};

static void every_pair_of_states_has_its_meaning(void **state)
{
    (void)state;
    static const struct pair_row ROWS[] = {
        { PAYMENT_CREATED, ATTEMPT_PROCESSING, SETTLE_MISSING, 0, 0 },
        { PAYMENT_CREATED, ATTEMPT_UNKNOWN, SETTLE_MISSING, 0, 0 },
        { PAYMENT_CREATED, ATTEMPT_SUCCEEDED, SETTLE_MISSING, 0, 0 },
        { PAYMENT_CREATED, ATTEMPT_FAILED, SETTLE_MISSING, 0, 0 },
        { PAYMENT_AUTHORIZING, ATTEMPT_CREATED, SETTLE_NOTHING, 0, 0 },
        { PAYMENT_AUTHORIZING, ATTEMPT_SENDING, SETTLE_NOTHING, 0, 0 },
        { PAYMENT_AUTHORIZING, ATTEMPT_PROCESSING, SETTLE_MOVE, PAYMENT_AUTHORIZING,
          EVENT_PAYMENT_PROCESSING },
        { PAYMENT_AUTHORIZING, ATTEMPT_UNKNOWN, SETTLE_MOVE, PAYMENT_AUTHORIZING,
          EVENT_PAYMENT_UNKNOWN },
        { PAYMENT_AUTHORIZING, ATTEMPT_SUCCEEDED, SETTLE_MOVE, PAYMENT_CAPTURED,
          EVENT_PAYMENT_SUCCEEDED },
        { PAYMENT_AUTHORIZING, ATTEMPT_FAILED, SETTLE_MOVE, PAYMENT_FAILED, EVENT_PAYMENT_FAILED },
        { PAYMENT_CANCELING, ATTEMPT_PROCESSING, SETTLE_MOVE, PAYMENT_CANCELING,
          EVENT_PAYMENT_PROCESSING },
        { PAYMENT_CANCELING, ATTEMPT_UNKNOWN, SETTLE_MOVE, PAYMENT_CANCELING,
          EVENT_PAYMENT_UNKNOWN },
        { PAYMENT_CANCELING, ATTEMPT_SUCCEEDED, SETTLE_MOVE, PAYMENT_CAPTURED,
          EVENT_PAYMENT_SUCCEEDED },
        { PAYMENT_CANCELING, ATTEMPT_FAILED, SETTLE_MOVE, PAYMENT_FAILED, EVENT_PAYMENT_FAILED },
        /* What is past waiting keeps its status; a success there is money nobody expected. */
        { PAYMENT_AUTHORIZED, ATTEMPT_UNKNOWN, SETTLE_MOVE, PAYMENT_AUTHORIZED, 0 },
        { PAYMENT_AUTHORIZED, ATTEMPT_SUCCEEDED, SETTLE_STRAY, 0, 0 },
        { PAYMENT_CAPTURED, ATTEMPT_PROCESSING, SETTLE_MOVE, PAYMENT_CAPTURED, 0 },
        { PAYMENT_CAPTURED, ATTEMPT_UNKNOWN, SETTLE_MOVE, PAYMENT_CAPTURED, 0 },
        { PAYMENT_CAPTURED, ATTEMPT_SUCCEEDED, SETTLE_STRAY, 0, 0 },
        { PAYMENT_CAPTURED, ATTEMPT_FAILED, SETTLE_MOVE, PAYMENT_CAPTURED, 0 },
        { PAYMENT_REFUNDED, ATTEMPT_FAILED, SETTLE_MOVE, PAYMENT_REFUNDED, 0 },
        { PAYMENT_FAILED, ATTEMPT_UNKNOWN, SETTLE_MOVE, PAYMENT_FAILED, 0 },
        { PAYMENT_FAILED, ATTEMPT_FAILED, SETTLE_MOVE, PAYMENT_FAILED, 0 },
        { PAYMENT_FAILED, ATTEMPT_SUCCEEDED, SETTLE_STRAY, 0, 0 },
        { PAYMENT_CANCELED, ATTEMPT_SUCCEEDED, SETTLE_STRAY, 0, 0 },
        { PAYMENT_CANCELED, ATTEMPT_FAILED, SETTLE_MOVE, PAYMENT_CANCELED, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const struct settle_facts facts = facts_of(ROWS[i].payment, ROWS[i].attempt);
        const struct settle_decision decision = settle(&facts);
        assert_int_equal(decision.action, ROWS[i].action);
        assert_non_null(decision.why);
        if (decision.action != SETTLE_MOVE) continue;
        assert_int_equal(decision.next_status, ROWS[i].next);
        assert_int_equal(decision.event, ROWS[i].event);
        assert_true(decision.is_applied);
        /* Nothing that the transition table does not list. */
        assert_non_null(
            transition_find(ENTITY_PAYMENT, (int)facts.payment.status, (int)decision.next_status));
    }
}

static void success_captures_the_amount(void **state)
{
    (void)state;
    struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_SUCCEEDED);
    facts.attempt.error_code = "transport_lost"; /* what stood there while it was unknown */
    facts.payment.reason = "transport_lost";
    const struct settle_decision decision = settle(&facts);
    assert_int_equal(decision.authorised_minor, 1099);
    assert_int_equal(decision.captured_minor, 1099);
    assert_int_equal(decision.certainty, CERTAINTY_CONFIRMED_SUCCESS);
    assert_null(decision.reason);
    assert_null(decision.hold);
    assert_false(decision.is_safe_to_pay_again);
}

static void success_of_a_manual_capture_authorizes(void **state)
{
    (void)state;
    struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_SUCCEEDED);
    facts.payment.capture_manual = true;
    const struct settle_decision decision = settle(&facts);
    assert_int_equal(decision.next_status, PAYMENT_AUTHORIZED);
    assert_int_equal(decision.event, EVENT_PAYMENT_AUTHORIZED);
    assert_int_equal(decision.authorised_minor, 1099);
    assert_int_equal(decision.captured_minor, 0);
}

/* Once only ----------------------------------------------------------------------------------- */

struct news_row {
    int32_t applied_ordinal;
    int32_t applied_version;
    int32_t ordinal;
    int32_t version;
    enum attempt_state status;
    bool is_cited;
    enum settle_action action;
};

static void what_was_applied_is_not_applied_again(void **state)
{
    (void)state;
    static const struct news_row ROWS[] = {
        { 0, 0, 1, 3, ATTEMPT_PROCESSING, false, SETTLE_MOVE },
        { 1, 2, 1, 3, ATTEMPT_PROCESSING, false, SETTLE_MOVE },
        { 1, 3, 1, 3, ATTEMPT_PROCESSING, false, SETTLE_NOTHING },
        { 1, 4, 1, 3, ATTEMPT_PROCESSING, false, SETTLE_NOTHING },
        { 1, 3, 1, 3, ATTEMPT_SUCCEEDED, false, SETTLE_NOTHING },
        { 1, 4, 2, 2, ATTEMPT_PROCESSING, false, SETTLE_MOVE },  /* a failover's first news */
        { 2, 2, 1, 4, ATTEMPT_FAILED, false, SETTLE_NOTHING },   /* repeated after the failover */
        { 2, 2, 1, 4, ATTEMPT_SUCCEEDED, true, SETTLE_NOTHING }, /* its end stands in the history */
        { 2, 2, 1, 4, ATTEMPT_SUCCEEDED, false, SETTLE_MOVE },   /* money is never old */
        { 0, 0, 1, 4, ATTEMPT_FAILED, true, SETTLE_NOTHING },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ROWS[i].status);
        facts.payment.applied_ordinal = ROWS[i].applied_ordinal;
        facts.payment.applied_version = ROWS[i].applied_version;
        facts.attempt.ordinal = ROWS[i].ordinal;
        facts.attempt.version = ROWS[i].version;
        facts.attempt.is_cited = ROWS[i].is_cited;
        assert_int_equal(settle(&facts).action, ROWS[i].action);
    }
}

static void open_news_is_announced_once_and_applied_always(void **state)
{
    (void)state;
    struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_PROCESSING);
    facts.payment.announced = ANNOUNCED_PROCESSING;
    struct settle_decision decision = settle(&facts);
    assert_int_equal(decision.action, SETTLE_MOVE);
    assert_int_equal(decision.event, 0);

    facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_UNKNOWN);
    facts.payment.announced = ANNOUNCED_PROCESSING | ANNOUNCED_UNKNOWN;
    decision = settle(&facts);
    assert_int_equal(decision.action, SETTLE_MOVE);
    assert_int_equal(decision.event, 0);
    assert_int_equal(decision.announced, ANNOUNCED_PROCESSING | ANNOUNCED_UNKNOWN);
}

static void what_the_customer_has_to_do_is_announced_as_such(void **state)
{
    (void)state;
    struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_PROCESSING);
    facts.attempt.handed_out = true;
    struct settle_decision decision = settle(&facts);
    assert_int_equal(decision.event, EVENT_PAYMENT_ACTION_REQUIRED);
    assert_int_equal(decision.announced, ANNOUNCED_ACTION_REQUIRED);
    facts.payment.announced = decision.announced;
    assert_int_equal(settle(&facts).event, 0);
}

static void unknown_says_why_and_is_no_failure(void **state)
{
    (void)state;
    struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_UNKNOWN);
    facts.attempt.error_code = "timeout";
    const struct settle_decision decision = settle(&facts);
    assert_int_equal(decision.next_status, PAYMENT_AUTHORIZING);
    assert_int_equal(decision.certainty, CERTAINTY_UNKNOWN);
    assert_string_equal(decision.reason, "timeout");
    assert_int_equal(decision.announced, ANNOUNCED_UNKNOWN);
    facts.attempt.error_code = NULL;
    assert_string_equal(settle(&facts).reason, "outcome_unknown");
}

static void a_success_that_does_not_match_is_told_once(void **state)
{
    (void)state;
    static const char *const CODES[] = { "amount_mismatch", "currency_mismatch",
                                         "reference_mismatch", "object_mismatch" };
    for (size_t i = 0; i < COUNT_OF(CODES); i++) {
        struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_UNKNOWN);
        facts.attempt.error_code = CODES[i];
        facts.payment.announced = ANNOUNCED_UNKNOWN;
        const struct settle_decision decision = settle(&facts);
        assert_int_equal(decision.event, EVENT_PAYMENT_AMOUNT_MISMATCH);
        assert_int_equal(decision.next_status, PAYMENT_AUTHORIZING);
        assert_int_equal(decision.captured_minor, 0);
        facts.payment.reason = decision.reason;
        assert_int_equal(settle(&facts).event, 0);
    }
}

/* The target after a failure (C6, D, E) ------------------------------------------------------- */

enum { NO_TIMER = 0 };
#define WINDOW_END_US ((int64_t)(NOW_S - 10 + CALL_LIMIT_S + WINDOW_S + EXTRA_S) * CLOCK_SECOND_US)

struct hold_row {
    const char *name;
    const struct psp_capability *capability;
    enum certainty certainty;
    enum evidence_source source;
    int64_t open_requests;
    bool has_known_answer;
    int64_t sent_ago_s; /* 0: never sent */
    bool has_stray_fact, has_case, has_grave_case, has_pointer;
    const char *pointer_hold;
    const char *hold;
    bool has_timer;
    bool is_safe;
};

static const struct hold_row HOLDS[] = {
    { "a decline that the PSP keeps", &FAITHFUL, CERTAINTY_DEFINITE_FAILURE, SOURCE_ANSWER, 0, true,
      10, false, false, false, true, NULL, NULL, false, true },
    { "a decline by webhook, the answer was lost", &FAITHFUL, CERTAINTY_DEFINITE_FAILURE,
      SOURCE_WEBHOOK, 1, false, 10, false, false, false, true, NULL, NULL, false, true },
    { "never sent", &FAITHFUL, CERTAINTY_NO_SIDE_EFFECT, SOURCE_LOCAL, 0, false, 0, false, false,
      false, true, NULL, NULL, false, true },
    { "never sent, at an account that is no longer configured", NULL, CERTAINTY_NO_SIDE_EFFECT,
      SOURCE_LOCAL, 0, false, 0, false, false, false, true, NULL, NULL, false, true },
    { "rejected before execution", &HOSTILE, CERTAINTY_NO_SIDE_EFFECT, SOURCE_ANSWER, 0, false, 10,
      false, false, false, true, NULL, NULL, false, true },
    { "a decline that the PSP may forget does not consume the key", &HOSTILE,
      CERTAINTY_DEFINITE_FAILURE, SOURCE_ANSWER, 0, true, 10, false, false, false, true, NULL,
      "late_arrival", true, false },
    { "a decline by webhook while the create may still arrive", &HOSTILE,
      CERTAINTY_DEFINITE_FAILURE, SOURCE_WEBHOOK, 1, false, 10, false, false, false, true, NULL,
      "late_arrival", true, false },
    { "… without a target there is nothing to hold", &HOSTILE, CERTAINTY_DEFINITE_FAILURE,
      SOURCE_WEBHOOK, 1, false, 10, false, false, false, false, NULL, NULL, false, false },
    { "… after the window", &HOSTILE, CERTAINTY_DEFINITE_FAILURE, SOURCE_WEBHOOK, 1, false,
      WINDOW_S + EXTRA_S + CALL_LIMIT_S + 1, false, false, false, true, NULL, NULL, false, true },
    { "… after the window, but not after what we add to it", &HOSTILE, CERTAINTY_DEFINITE_FAILURE,
      SOURCE_WEBHOOK, 1, false, WINDOW_S + CALL_LIMIT_S + 1, false, false, false, true, NULL,
      "late_arrival", true, false },
    { "… at an account that is no longer configured", NULL, CERTAINTY_DEFINITE_FAILURE,
      SOURCE_WEBHOOK, 1, false, 10, false, false, false, true, NULL, "late_arrival", false, false },
    { "ended by hand", &FAITHFUL, CERTAINTY_DEFINITE_FAILURE, SOURCE_MANUAL, 1, false, 10, false,
      false, false, true, NULL, "manual_evidence", false, false },
    { "a stray fact is open", &FAITHFUL, CERTAINTY_DEFINITE_FAILURE, SOURCE_ANSWER, 0, true, 10,
      true, true, true, true, NULL, "case", false, false },
    { "a case that questions what is proven", &FAITHFUL, CERTAINTY_DEFINITE_FAILURE, SOURCE_ANSWER,
      0, true, 10, false, true, true, true, NULL, "case", false, false },
    { "a case of another kind frees the target but is no advice to pay", &FAITHFUL,
      CERTAINTY_DEFINITE_FAILURE, SOURCE_ANSWER, 0, true, 10, false, true, false, true, NULL, NULL,
      false, false },
    { "a hold that stands is kept", &FAITHFUL, CERTAINTY_DEFINITE_FAILURE, SOURCE_ANSWER, 0, true,
      10, false, false, false, true, "stray_fact", NULL, false, false },
    { "… with the timer of our own reason", &HOSTILE, CERTAINTY_DEFINITE_FAILURE, SOURCE_WEBHOOK, 1,
      false, 10, false, false, false, true, "stray_fact", NULL, true, false },
};

static void a_failure_frees_the_target_only_when_nothing_can_still_take_money(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(HOLDS); i++) {
        const struct hold_row *row = &HOLDS[i];
        struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_FAILED);
        facts.attempt.certainty = row->certainty;
        facts.attempt.evidence_source = (int)row->source;
        facts.attempt.open_requests = row->open_requests;
        facts.attempt.has_known_answer = row->has_known_answer;
        facts.attempt.last_send_by_us =
            row->sent_ago_s == 0 ? 0 : (NOW_S - row->sent_ago_s) * CLOCK_SECOND_US;
        facts.around.has_stray_fact = row->has_stray_fact;
        facts.around.has_case = row->has_case;
        facts.around.has_grave_case = row->has_grave_case;
        facts.around.has_pointer = row->has_pointer;
        facts.around.pointer_hold = row->pointer_hold;
        const struct settle_rules rules = rules_of(row->capability);
        const struct settle_decision decision = settle_decide(COMMAND_SETTLE, &facts, &rules);
        print_message("%s\n", row->name);
        assert_int_equal(decision.next_status, PAYMENT_FAILED);
        if (row->hold == NULL) assert_null(decision.hold);
        if (row->hold != NULL) assert_string_equal(decision.hold, row->hold);
        assert_int_equal(decision.lift_hold_us != NO_TIMER, row->has_timer);
        assert_int_equal(decision.is_safe_to_pay_again, row->is_safe);
    }
}

static void the_hold_is_lifted_when_the_window_has_passed(void **state)
{
    (void)state;
    struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_FAILED);
    facts.attempt.evidence_source = SOURCE_WEBHOOK;
    facts.attempt.open_requests = 1;
    facts.attempt.has_known_answer = false;
    const struct settle_rules rules = rules_of(&HOSTILE);
    assert_int_equal(settle_decide(COMMAND_SETTLE, &facts, &rules).lift_hold_us, WINDOW_END_US);
}

struct reason_row {
    const char *error_code;
    enum decline_class decline;
    const char *reason;
};

static void a_failure_says_why(void **state)
{
    (void)state;
    static const struct reason_row ROWS[] = {
        { "card_declined", DECLINE_GENERIC, "card_declined" },
        { NULL, DECLINE_FUNDS_LIMIT, NULL },
        { "expired_before_start", DECLINE_NONE, "expired_before_start" },
        { NULL, DECLINE_NONE, "failed" },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_FAILED);
        facts.attempt.error_code = ROWS[i].error_code;
        facts.attempt.decline = ROWS[i].decline;
        const char *expected =
            ROWS[i].reason != NULL ? ROWS[i].reason : decline_class_name((int)ROWS[i].decline);
        assert_string_equal(settle(&facts).reason, expected);
        assert_string_equal(settle(&facts).why, expected);
    }
}

/* C08: effects hang on the transition, not on who found out. */
static void the_finder_makes_no_difference(void **state)
{
    (void)state;
    static const enum evidence_source SOURCES[] = { SOURCE_ANSWER, SOURCE_REPLAY, SOURCE_RETRIEVE,
                                                    SOURCE_WEBHOOK, SOURCE_SETTLEMENT };
    struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_FAILED);
    const struct settle_decision first = settle(&facts);
    for (size_t i = 1; i < COUNT_OF(SOURCES); i++) {
        facts.attempt.evidence_source = (int)SOURCES[i];
        const struct settle_decision other = settle(&facts);
        assert_int_equal(other.next_status, first.next_status);
        assert_int_equal(other.certainty, first.certainty);
        assert_int_equal(other.event, first.event);
        assert_string_equal(other.reason, first.reason);
        assert_string_equal(other.why, first.why);
        assert_string_equal(other.history_event, first.history_event);
        assert_int_equal(other.is_safe_to_pay_again, first.is_safe_to_pay_again);
        assert_int_equal(other.lift_hold_us, first.lift_hold_us);
    }
}

/* Strays, missing rows, no route -------------------------------------------------------------- */

static void a_stray_success_has_its_kind(void **state)
{
    (void)state;
    struct settle_facts facts = facts_of(PAYMENT_FAILED, ATTEMPT_SUCCEEDED);
    assert_int_equal(settle(&facts).stray, STRAY_LATE_SUCCESS);
    facts = facts_of(PAYMENT_CANCELED, ATTEMPT_SUCCEEDED);
    assert_int_equal(settle(&facts).stray, STRAY_LATE_SUCCESS);
    facts = facts_of(PAYMENT_CAPTURED, ATTEMPT_SUCCEEDED);
    assert_int_equal(settle(&facts).stray, STRAY_SECOND_SUCCESS);
}

/* C36: the second attempt of a captured payment may end as it likes. */
static void a_captured_payment_stays_captured(void **state)
{
    (void)state;
    struct settle_facts facts = facts_of(PAYMENT_CAPTURED, ATTEMPT_FAILED);
    facts.payment.certainty = CERTAINTY_CONFIRMED_SUCCESS;
    facts.payment.captured_minor = facts.payment.authorised_minor = 1099;
    facts.payment.applied_ordinal = 1;
    facts.payment.applied_version = 3;
    facts.attempt.ordinal = 2;
    const struct settle_decision decision = settle(&facts);
    assert_int_equal(decision.next_status, PAYMENT_CAPTURED);
    assert_int_equal(decision.captured_minor, 1099);
    assert_int_equal(decision.certainty, CERTAINTY_CONFIRMED_SUCCESS);
    assert_int_equal(decision.event, 0);
    assert_null(decision.hold);
}

static void what_is_not_there_is_said(void **state)
{
    (void)state;
    const struct settle_rules rules = rules_of(&FAITHFUL);
    struct settle_facts facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_SUCCEEDED);
    facts.payment.exists = false;
    assert_int_equal(settle(&facts).action, SETTLE_MISSING);
    assert_int_equal(settle_decide(COMMAND_NO_ROUTE, &facts, &rules).action, SETTLE_MISSING);
    facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_SUCCEEDED);
    facts.attempt.exists = false;
    assert_int_equal(settle(&facts).action, SETTLE_MISSING);
    facts = facts_of(PAYMENT_AUTHORIZING, ATTEMPT_SUCCEEDED);
    facts.attempt.operation = OPERATION_REFUND;
    assert_int_equal(settle(&facts).action, SETTLE_MISSING);
}

static void no_route_ends_a_payment_that_has_not_begun(void **state)
{
    (void)state;
    const struct settle_rules rules = rules_of(NULL);
    struct settle_facts facts = facts_of(PAYMENT_CREATED, ATTEMPT_CREATED);
    facts.attempt = (struct settle_attempt){ 0 };
    assert_int_equal(settle_decide(COMMAND_NO_ROUTE, &facts, &rules).action, SETTLE_MISSING);
    facts.around.decision = "expired_before_start";
    struct settle_decision decision = settle_decide(COMMAND_NO_ROUTE, &facts, &rules);
    assert_int_equal(decision.action, SETTLE_MOVE);
    assert_int_equal(decision.next_status, PAYMENT_FAILED);
    assert_int_equal(decision.certainty, CERTAINTY_NO_SIDE_EFFECT);
    assert_string_equal(decision.reason, "expired_before_start");
    assert_int_equal(decision.event, EVENT_PAYMENT_FAILED);
    assert_true(decision.is_safe_to_pay_again);
    assert_false(decision.is_applied);

    facts.around.pointer_hold = "stray_fact";
    assert_false(settle_decide(COMMAND_NO_ROUTE, &facts, &rules).is_safe_to_pay_again);
    facts.payment.status = PAYMENT_AUTHORIZING;
    assert_int_equal(settle_decide(COMMAND_NO_ROUTE, &facts, &rules).action, SETTLE_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_states_has_its_meaning),
        cmocka_unit_test(success_captures_the_amount),
        cmocka_unit_test(success_of_a_manual_capture_authorizes),
        cmocka_unit_test(what_was_applied_is_not_applied_again),
        cmocka_unit_test(open_news_is_announced_once_and_applied_always),
        cmocka_unit_test(what_the_customer_has_to_do_is_announced_as_such),
        cmocka_unit_test(unknown_says_why_and_is_no_failure),
        cmocka_unit_test(a_success_that_does_not_match_is_told_once),
        cmocka_unit_test(a_failure_frees_the_target_only_when_nothing_can_still_take_money),
        cmocka_unit_test(the_hold_is_lifted_when_the_window_has_passed),
        cmocka_unit_test(a_failure_says_why),
        cmocka_unit_test(the_finder_makes_no_difference),
        cmocka_unit_test(a_stray_success_has_its_kind),
        cmocka_unit_test(a_captured_payment_stays_captured),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(no_route_ends_a_payment_that_has_not_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
