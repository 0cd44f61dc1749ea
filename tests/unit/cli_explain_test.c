/*
 * tests/unit/cli_explain_test.c: the five questions about payments in every state: what is said
 * must follow from the rows.
 */
#include "tests/unit/cli_explain_scene.h"

/* --- before anything was sent ----------------------------------------------------------------- */

static void an_accepted_payment_waits_for_route(void **state)
{
    struct scene scene = scene_of(PAYMENT_CREATED);
    (void)state;
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "Nothing has failed.");
    EXPECT(EXPLAIN_KNOWN, "no PSP has been asked for anything");
    EXPECT(EXPLAIN_KNOWN, "The PSP: nothing, for no attempt exists.");
    EXPECT(EXPLAIN_BARRIER, "payment_attempt_ordinal_key");
    EXPECT(EXPLAIN_BARRIER, "409 target_busy");
    EXPECT(EXPLAIN_BARRIER, "start_by: no first send passes the fence after 2026-11-30T10:15:00");
    EXPECT(EXPLAIN_NEXT, "oncepay-route, next: the command on pay.route.");
    EXPECT(EXPLAIN_ONCE, "its end will be one version above 3");
    finish(&scene);
}

static void without_a_route_settle_ends_it(void **state)
{
    struct scene scene = scene_of(PAYMENT_CREATED);
    (void)state;
    scene.decision = (struct query_decision){
        .routing_version = "r",
        .reasons = "{\"reason\":\"no_route\",\"candidates\":[{\"reason\":\"currency\","
                   "\"account\":\"stripe-main\"}]}",
        .created_us = NOW - SECOND,
    };
    scene.picture.decision_count = 1;
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "no account could take it: stripe-main (currency)");
    EXPECT(EXPLAIN_NEXT, "oncepay-settle, next: the decision that there is no route");
    EXPECT_NOT(EXPLAIN_NEXT, "oncepay-route");
    finish(&scene);
}

static void an_unsent_attempt_waits_for_create(void **state)
{
    struct scene scene = scene_of(PAYMENT_AUTHORIZING);
    (void)state;
    add_attempt(&scene, ATTEMPT_CREATED, CERTAINTY_NO_SIDE_EFFECT);
    ask(&scene);
    EXPECT(EXPLAIN_KNOWN, "is stored with its key and bytes, and was not sent");
    EXPECT(EXPLAIN_NEXT, "oncepay-create, as soon as it has budget: the command on "
                         "pay.create.stripe-main.new");
    EXPECT_NOT(EXPLAIN_BARRIER, "replay_until");
    finish(&scene);
}

static void a_proven_unsent_attempt_is_sent_again_when_due(void **state)
{
    struct scene scene = scene_of(PAYMENT_AUTHORIZING);
    (void)state;
    add_attempt(&scene, ATTEMPT_CREATED, CERTAINTY_NO_SIDE_EFFECT);
    scene.attempt.first_sent_us = NOW - 10 * SECOND;
    add_request(&scene, REQUEST_CREATE, CLOSURE_NO_EFFECT, NOW - 10 * SECOND, 1);
    add_evidence(&scene, SOURCE_TRANSPORT, OBSERVED_UNSENT, 0)->error_code = "connect_refused";
    add_task(&scene, TASK_READY, NOW + 2 * SECOND);
    scene.task.purpose = TASK_RESEND;
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "was not sent: no byte left (connect_refused)");
    EXPECT(EXPLAIN_KNOWN, "has had 1 send, each proven to have had no effect");
    EXPECT(EXPLAIN_NEXT, "(in 2.0 s): it claims task");
    EXPECT(EXPLAIN_NEXT, "writes the create command again");
    EXPECT(EXPLAIN_BARRIER, "carries key op_key and the same bytes");
    finish(&scene);
}

/* --- in doubt --------------------------------------------------------------------------------- */

static void a_fenced_attempt_belongs_to_its_worker_and_then_to_recover(void **state)
{
    struct scene scene = scene_of(PAYMENT_AUTHORIZING);
    (void)state;
    add_attempt(&scene, ATTEMPT_SENDING, CERTAINTY_UNKNOWN);
    scene.attempt.first_sent_us = NOW - SECOND;
    scene.attempt.fence_due_us = NOW + 36 * SECOND;
    add_request(&scene, REQUEST_CREATE, CLOSURE_OPEN, NOW - SECOND, 0);
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "Nothing has failed.");
    EXPECT(EXPLAIN_KNOWN, "no result is stored");
    EXPECT(EXPLAIN_KNOWN, "The PSP: nothing yet, or one charge of 10.99 EUR under key op_key.");
    EXPECT(EXPLAIN_BARRIER, "the fence: CREATED -> SENDING is won once");
    EXPECT(EXPLAIN_NEXT, "oncepay-create, any moment");
    EXPECT(EXPLAIN_NEXT, "(in 36.0 s)");
    finish(&scene);
}

static void a_silent_worker_is_a_failure_once_its_time_is_over(void **state)
{
    struct scene scene = scene_of(PAYMENT_AUTHORIZING);
    (void)state;
    add_attempt(&scene, ATTEMPT_SENDING, CERTAINTY_UNKNOWN);
    add_request(&scene, REQUEST_CREATE, CLOSURE_OPEN, NOW - 40 * SECOND, 0);
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "no result of the create of attempt 1 at stripe-main, made by "
                           "create/host/1, was stored in its time");
    finish(&scene);
}

static struct scene lost_answer(void)
{
    struct scene scene = scene_of(PAYMENT_AUTHORIZING);
    add_attempt(&scene, ATTEMPT_UNKNOWN, CERTAINTY_UNKNOWN);
    add_request(&scene, REQUEST_CREATE, CLOSURE_OPEN, NOW - 50 * SECOND, 1);
    add_evidence(&scene, SOURCE_TRANSPORT, OBSERVED_TRANSPORT_LOST, 0)->error_code = "timeout";
    add_history(&scene, ENTITY_ATTEMPT, ATTEMPT_SENDING, ATTEMPT_UNKNOWN, "transport.unknown",
                "transport_lost");
    add_task(&scene, TASK_READY, NOW + 5 * SECOND);
    return scene;
}

static void a_lost_answer_is_unknown_and_replayed(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "got no complete answer, and may have arrived (timeout)");
    assert_int_equal(scene.answers[EXPLAIN_FAILED].lines[0].at_us, NOW - 49 * SECOND);
    EXPECT(EXPLAIN_KNOWN, "of 1 send 1 may have had an effect");
    EXPECT(EXPLAIN_KNOWN, "a charge of 10.99 EUR under key op_key, once, however often");
    EXPECT(EXPLAIN_BARRIER, "replay_until: the last replay is before 2026-11-30T10:59:10.000Z");
    EXPECT(EXPLAIN_BARRIER, "no further attempt can be stored before attempt 1");
    EXPECT(EXPLAIN_NEXT, "(in 5.0 s): it claims task");
    EXPECT(EXPLAIN_NEXT, "sends the stored bytes again under key op_key");
    EXPECT(EXPLAIN_NEXT, "a signed webhook of stripe-main that names op_key");
    EXPECT(EXPLAIN_ONCE, "1 create, 0 replay and 0 retrieve rows");
    EXPECT(EXPLAIN_ONCE, "its version (now 5) fences late workers");
    finish(&scene);
}

static void a_known_object_is_retrieved_instead(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.attempt.provider_object = "pi_1";
    ask(&scene);
    EXPECT(EXPLAIN_NEXT, "retrieves object pi_1");
    EXPECT(EXPLAIN_NEXT, "names op_key or pi_1");
    EXPECT_NOT(EXPLAIN_BARRIER, "replay_until");
    finish(&scene);
}

static void past_its_window_nothing_is_replayed(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.attempt.first_sent_us = NOW - 2 * 3600 * SECOND;
    ask(&scene);
    EXPECT(EXPLAIN_BARRIER, "replay_until: no replay after 2026-11-30T09:00:00.000Z");
    EXPECT(EXPLAIN_NEXT, "can ask nothing then; it waits for the PSP's webhook");
    finish(&scene);
}

static void an_escalated_task_only_looks(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.task.status = TASK_ESCALATED;
    scene.task.escalated_us = NOW - SECOND;
    add_case(&scene, CASE_UNKNOWN, "out of strategies: nobody knows how it ended");
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "a case was opened (unknown)");
    EXPECT_NOT(EXPLAIN_NEXT, "sends the stored bytes again");
    EXPECT(EXPLAIN_NEXT, "People: case 01000000-0000-0000-0000-000000000028 (unknown, priority 3)");
    EXPECT_NOT(EXPLAIN_BARRIER, "replay_until");
    finish(&scene);
}

static void a_leased_task_names_who_holds_it(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.task.status = TASK_LEASED;
    scene.task.due_us = NOW + 44 * SECOND;
    ask(&scene);
    EXPECT(EXPLAIN_NEXT, "recover/host/2, now: it holds task");
    EXPECT(EXPLAIN_NEXT, "(in 44.0 s), then another takes over");
    finish(&scene);
}

static void a_paused_task_waits_for_a_person(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.task.status = TASK_PAUSED;
    scene.task.claims = 5;
    ask(&scene);
    EXPECT(EXPLAIN_NEXT, "is paused after 5 claims without outcome");
    finish(&scene);
}

static void without_the_pinned_policy_nobody_guesses(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.has_rule = false;
    ask(&scene);
    EXPECT(EXPLAIN_NEXT, "what it will do is not known here");
    finish(&scene);
}

static void a_lost_worker_is_said_in_words(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.evidence[0].error_code = "worker_lost";
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "its worker was lost after the fence");
    finish(&scene);
}

static void processing_can_end_either_way(void **state)
{
    struct scene scene = scene_of(PAYMENT_AUTHORIZING);
    (void)state;
    add_attempt(&scene, ATTEMPT_PROCESSING, CERTAINTY_PENDING);
    scene.attempt.provider_object = "pi_1";
    scene.attempt.handed_out = true;
    add_request(&scene, REQUEST_CREATE, CLOSURE_KNOWN, NOW - 50 * SECOND, 1);
    add_evidence(&scene, SOURCE_ANSWER, OBSERVED_PENDING, CERTAINTY_PENDING)->provider_status =
        "requires_action";
    add_task(&scene, TASK_READY, NOW + SECOND);
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "Nothing has failed.");
    EXPECT(EXPLAIN_KNOWN, "is not done (requires_action); a next action is with the customer");
    EXPECT(EXPLAIN_KNOWN, "an object that can still end either way, for 10.99 EUR at most");
    EXPECT(EXPLAIN_NEXT, "retrieves object pi_1");
    finish(&scene);
}

static void a_success_that_differs_is_for_people(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.attempt.error_code = mismatch_name(MISMATCH_AMOUNT);
    scene.attempt.provider_object = "pi_1";
    scene.evidence[0] = (struct query_evidence){ 0 };
    scene.picture.evidence_count = 0;
    struct query_evidence *evidence = add_evidence(&scene, SOURCE_ANSWER, OBSERVED_SUCCEEDED, 0);
    evidence->amount = euro(999);
    evidence->reference = "op_key";
    scene.task.status = TASK_ESCALATED;
    scene.task.due_us = 0;
    add_case(&scene, CASE_AMOUNT_MISMATCH, "amount_mismatch");
    ask(&scene);
    EXPECT(EXPLAIN_FAILED,
           "reports a success of 9.99 EUR under reference op_key; asked was 10.99 EUR");
    EXPECT(EXPLAIN_KNOWN, "is not what was asked (amount_mismatch)");
    EXPECT(EXPLAIN_KNOWN, "as it reports, a charge of 9.99 EUR, where 10.99 EUR was asked");
    EXPECT_NOT(EXPLAIN_KNOWN, "nothing at all");
    EXPECT_NOT(EXPLAIN_BARRIER, "replay_until");
    EXPECT(EXPLAIN_NEXT, "never by itself");
    EXPECT(EXPLAIN_NEXT, "it is stored and decides nothing");
    EXPECT(EXPLAIN_NEXT, "(amount_mismatch, priority 1)");
    finish(&scene);
}

/* --- ended ------------------------------------------------------------------------------------ */

static void a_recovered_success_is_told_once(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.picture.payment.view.status = PAYMENT_CAPTURED;
    scene.picture.payment.view.certainty = CERTAINTY_CONFIRMED_SUCCESS;
    scene.picture.payment.applied_attempt = scene.attempt.id;
    scene.picture.payment.applied_version = 4;
    scene.picture.task_count = 0;
    scene.attempt.status = ATTEMPT_SUCCEEDED;
    scene.attempt.provider_object = "pi_1";
    add_evidence(&scene, SOURCE_WEBHOOK, OBSERVED_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS);
    add_history(&scene, ENTITY_ATTEMPT, ATTEMPT_UNKNOWN, ATTEMPT_SUCCEEDED, "webhook.succeeded",
                "succeeded");
    add_history(&scene, ENTITY_PAYMENT, PAYMENT_AUTHORIZING, PAYMENT_CAPTURED, "settled.succeeded",
                "captured");
    scene.event = (struct relay_row){ .id = { id_of(50) },
                                      .version = 3,
                                      .subject = "pay.event.m-1001.payment.succeeded" };
    scene.picture.event_count = 1;
    ask(&scene);
    EXPECT(EXPLAIN_KNOWN, "SUCCEEDED, proven by webhook evt_1, 10.99 EUR");
    EXPECT(EXPLAIN_KNOWN, "one charge of 10.99 EUR under key op_key (object pi_1)");
    EXPECT(EXPLAIN_BARRIER, "is SUCCEEDED for ever");
    EXPECT(EXPLAIN_NEXT, "Nobody: nothing of it is open.");
    EXPECT(EXPLAIN_ONCE, "went UNKNOWN -> SUCCEEDED once, at version 2");
    EXPECT(EXPLAIN_ONCE, "payment: it went AUTHORIZING -> CAPTURED once, at version 3");
    EXPECT(EXPLAIN_ONCE, "event: payment.succeeded, version 3");
    EXPECT_NOT(EXPLAIN_ONCE, "never in doubt");
    finish(&scene);
}

static void an_end_that_settle_has_not_read_is_next(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.picture.task_count = 0;
    scene.attempt.status = ATTEMPT_SUCCEEDED;
    add_evidence(&scene, SOURCE_WEBHOOK, OBSERVED_SUCCEEDED, CERTAINTY_CONFIRMED_SUCCESS);
    ask(&scene);
    EXPECT(EXPLAIN_NEXT, "oncepay-settle, next: the end of attempt 1 at stripe-main (version 3)");
    EXPECT_NOT(EXPLAIN_NEXT, "Nobody");
    finish(&scene);
}

static struct scene declined(void)
{
    struct scene scene = scene_of(PAYMENT_FAILED);
    add_attempt(&scene, ATTEMPT_FAILED, CERTAINTY_DEFINITE_FAILURE);
    scene.attempt.error_code = "card_declined";
    add_request(&scene, REQUEST_CREATE, CLOSURE_KNOWN, NOW - 50 * SECOND, 1);
    struct query_evidence *evidence =
        add_evidence(&scene, SOURCE_ANSWER, OBSERVED_DECLINED, CERTAINTY_DEFINITE_FAILURE);
    evidence->http_status = 402;
    evidence->error_code = "card_declined";
    add_history(&scene, ENTITY_ATTEMPT, ATTEMPT_SENDING, ATTEMPT_FAILED, "answer.failed",
                "declined");
    add_history(&scene, ENTITY_PAYMENT, PAYMENT_AUTHORIZING, PAYMENT_FAILED, "settled.failed",
                "card_declined");
    return scene;
}

static void a_decline_frees_the_target(void **state)
{
    struct scene scene = declined();
    (void)state;
    scene.picture.payment.view.safe_to_pay_again = true;
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "brought a decline (HTTP 402, card_declined)");
    EXPECT(EXPLAIN_FAILED, "ended FAILED, DEFINITE_FAILURE: card_declined");
    EXPECT(EXPLAIN_FAILED, "the payment ended FAILED: card_declined");
    EXPECT(EXPLAIN_KNOWN, "a refusal, card_declined, and no charge; of 1 send 0 had no answer");
    EXPECT(EXPLAIN_BARRIER, "nothing needs to any more");
    EXPECT_NOT(EXPLAIN_BARRIER, "target_busy");
    EXPECT(EXPLAIN_NEXT, "Nobody");
    EXPECT(EXPLAIN_ONCE, "It was never in doubt");
    finish(&scene);
}

static void a_hold_for_late_arrivals_names_its_timer(void **state)
{
    struct scene scene = declined();
    (void)state;
    scene.picture.payment.view.hold = "late_arrival";
    scene.picture.payment.hold_lifts_us = NOW + 3600 * SECOND;
    ask(&scene);
    EXPECT(EXPLAIN_BARRIER, "the hold on order/O-1 (late_arrival): at least until "
                            "2026-11-30T11:00:00.000Z (in 1 h 0 min)");
    EXPECT(EXPLAIN_NEXT, "a timer");
    EXPECT_NOT(EXPLAIN_BARRIER, "nothing needs to");
    finish(&scene);
}

static void a_late_success_is_a_stray_fact_under_a_hold(void **state)
{
    struct scene scene = declined();
    (void)state;
    scene.picture.payment.view.hold = "stray_fact";
    scene.stray = (struct query_stray){ .id = id_of(60),
                                        .attempt = { id_of(2) },
                                        .kind = STRAY_LATE_SUCCESS,
                                        .account = "stripe-main",
                                        .provider_object = "pi_1",
                                        .has_amount = true,
                                        .amount = euro(1099),
                                        .evidence = { id_of(21) },
                                        .is_open = true,
                                        .created_us = NOW - 5 * SECOND };
    scene.picture.stray_count = 1;
    add_case(&scene, CASE_STRAY_FACT, "late_success");
    ask(&scene);
    EXPECT(EXPLAIN_FAILED,
           "a stray fact (late_success): object pi_1 at stripe-main moved 10.99 EUR");
    EXPECT(EXPLAIN_KNOWN, "The PSP, besides: 10.99 EUR of object pi_1 at stripe-main");
    EXPECT(EXPLAIN_KNOWN, "nobody has dealt with it");
    EXPECT(EXPLAIN_BARRIER, "until people close the case behind it");
    EXPECT(EXPLAIN_BARRIER, "stray_fact_object_key");
    EXPECT(EXPLAIN_NEXT, "(stray_fact, priority 2)");
    /* What happened is told in the order of its times. */
    for (size_t i = 1; i < scene.answers[EXPLAIN_FAILED].count; i++) {
        const struct explain_line *lines = scene.answers[EXPLAIN_FAILED].lines;
        assert_true(lines[i - 1].at_us <= lines[i].at_us);
    }
    finish(&scene);
}

static void our_own_decision_not_to_send_is_no_psp_refusal(void **state)
{
    struct scene scene = scene_of(PAYMENT_FAILED);
    (void)state;
    add_attempt(&scene, ATTEMPT_FAILED, CERTAINTY_NO_SIDE_EFFECT);
    scene.attempt.error_code = "expired_before_start";
    add_evidence(&scene, SOURCE_LOCAL, OBSERVED_UNSENT, CERTAINTY_NO_SIDE_EFFECT)->error_code =
        "expired_before_start";
    ask(&scene);
    EXPECT(EXPLAIN_FAILED,
           "the create of attempt 1 at stripe-main was not made: the time to start");
    EXPECT(EXPLAIN_KNOWN, "The PSP: nothing of it that has an effect.");
    finish(&scene);
}

/* --- around it -------------------------------------------------------------------------------- */

static void what_waits_besides_is_named(void **state)
{
    struct scene scene = scene_of(PAYMENT_CREATED);
    (void)state;
    scene.webhook = (struct query_webhook){ .account = "stripe-main",
                                            .event = "evt_9",
                                            .received_us = NOW - SECOND,
                                            .look_us = NOW + 9 * SECOND };
    scene.stuck = (struct query_stuck){ .stage = "route",
                                        .account = "",
                                        .since_us = NOW - 90 * SECOND,
                                        .next_us = NOW + 8 * SECOND,
                                        .emissions = 3 };
    scene.letter = (struct query_letter_of){
        .id = id_of(70), .consumer = "settle", .code = "internal", .created_us = NOW - 3 * SECOND
    };
    scene.picture.webhook_count = 1;
    scene.picture.stuck_count = 1;
    scene.picture.letter_count = 1;
    ask(&scene);
    EXPECT(EXPLAIN_FAILED, "route has not moved its work since; its command was written again 3");
    EXPECT(EXPLAIN_FAILED, "a command to settle could not be handled (internal)");
    EXPECT(EXPLAIN_NEXT, "webhook evt_9 of stripe-main");
    EXPECT(EXPLAIN_NEXT, "oncepay-relay, 2026-11-30T10:00:08.000Z (in 8.0 s)");
    EXPECT(EXPLAIN_NEXT, "oncepay dead-letter replay 01000000-0000-0000-0000-000000000046");
    finish(&scene);
}

static void a_target_that_moved_on_names_its_new_payment(void **state)
{
    struct scene scene = declined();
    (void)state;
    scene.picture.payment.pointer_payment.uuid = id_of(9);
    ask(&scene);
    EXPECT(EXPLAIN_BARRIER, "has moved on to payment 01000000-0000-0000-0000-000000000009");
    finish(&scene);
}

static void without_a_target_nothing_holds_other_numbers_back(void **state)
{
    struct scene scene = lost_answer();
    (void)state;
    scene.picture.payment.target_kind = "none";
    scene.picture.payment.target_id = NULL;
    scene.picture.payment.pointer_payment.uuid = (struct uuid){ { 0 } };
    ask(&scene);
    EXPECT(EXPLAIN_BARRIER, "its target is none");
    EXPECT_NOT(EXPLAIN_BARRIER, "target_busy");
    EXPECT(EXPLAIN_BARRIER, "payment_out_trade_no_key: out_trade_no T-1 of m-1001");
    finish(&scene);
}

/* Every state of a payment and of an attempt has an answer to each question. */
static void no_state_is_left_without_an_answer(void **state)
{
    (void)state;
    for (size_t p = 0; state_code_at(ENTITY_PAYMENT, p) != 0; p++) {
        for (size_t a = 0; state_code_at(ENTITY_ATTEMPT, a) != 0; a++) {
            struct scene scene = scene_of((enum payment_state)state_code_at(ENTITY_PAYMENT, p));
            add_attempt(&scene, (enum attempt_state)state_code_at(ENTITY_ATTEMPT, a),
                        CERTAINTY_UNKNOWN);
            ask(&scene);
            for (size_t i = 0; i < EXPLAIN_QUESTION_COUNT; i++) {
                assert_true(scene.answers[i].count > 0);
                for (size_t k = 0; k < scene.answers[i].count; k++) {
                    assert_null(strstr(scene.answers[i].lines[k].text, "(null)"));
                }
            }
            finish(&scene);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_accepted_payment_waits_for_route),
        cmocka_unit_test(without_a_route_settle_ends_it),
        cmocka_unit_test(an_unsent_attempt_waits_for_create),
        cmocka_unit_test(a_proven_unsent_attempt_is_sent_again_when_due),
        cmocka_unit_test(a_fenced_attempt_belongs_to_its_worker_and_then_to_recover),
        cmocka_unit_test(a_silent_worker_is_a_failure_once_its_time_is_over),
        cmocka_unit_test(a_lost_answer_is_unknown_and_replayed),
        cmocka_unit_test(a_known_object_is_retrieved_instead),
        cmocka_unit_test(past_its_window_nothing_is_replayed),
        cmocka_unit_test(an_escalated_task_only_looks),
        cmocka_unit_test(a_leased_task_names_who_holds_it),
        cmocka_unit_test(a_paused_task_waits_for_a_person),
        cmocka_unit_test(without_the_pinned_policy_nobody_guesses),
        cmocka_unit_test(a_lost_worker_is_said_in_words),
        cmocka_unit_test(processing_can_end_either_way),
        cmocka_unit_test(a_success_that_differs_is_for_people),
        cmocka_unit_test(a_recovered_success_is_told_once),
        cmocka_unit_test(an_end_that_settle_has_not_read_is_next),
        cmocka_unit_test(a_decline_frees_the_target),
        cmocka_unit_test(a_hold_for_late_arrivals_names_its_timer),
        cmocka_unit_test(a_late_success_is_a_stray_fact_under_a_hold),
        cmocka_unit_test(our_own_decision_not_to_send_is_no_psp_refusal),
        cmocka_unit_test(what_waits_besides_is_named),
        cmocka_unit_test(a_target_that_moved_on_names_its_new_payment),
        cmocka_unit_test(without_a_target_nothing_holds_other_numbers_back),
        cmocka_unit_test(no_state_is_left_without_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
