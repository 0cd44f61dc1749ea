/*
 * tests/store/query_store_test.c: what show, timeline, explain, watch and dead-letter read, on a
 * real PostgreSQL and on payments in the states that people ask about.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>

#include "ops/cli/explain.h"
#include "pipeline/clock.h"
#include "pipeline/subject.h"
#include "store/query_letter.h"
#include "store/query_totals.h"
#include "tests/support/payment_rows.h"

struct test {
    struct pg_fixture *fixture;
    const char *url;
    struct store *store;
    struct arena arena;
};

static struct test test;

static int start_all(void **state)
{
    (void)state;
    test.fixture = pg_fixture_start();
    return 0;
}

static int stop_all(void **state)
{
    (void)state;
    pg_fixture_stop(test.fixture);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    test.url = pg_fixture_database(test.fixture);
    test.store = pg_fixture_store(test.url);
    payment_rows_install(test.url);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_destroy(test.store);
    arena_finish(&test.arena);
    return 0;
}

static struct query_picture read_picture(struct payment_id payment)
{
    struct query_picture picture;
    assert_int_equal(query_picture_read(test.store, payment, &test.arena, &picture), STATUS_OK);
    return picture;
}

/* Every $id in the text is replaced. */
static void run_about(const char *sql, struct uuid id)
{
    free(payment_rows_text(test.url, sql, id));
}

static void make_task(struct attempt_id attempt, const char *due)
{
    char sql[512];
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO oncepay.recovery_task (id, payment_id, attempt_id, channel_account, "
        "method_type, operation, amount, currency, purpose, status, due_at, "
        "policy_version, version) SELECT test.id(), payment_id, id, channel_account, "
        "method_type, 1, amount, currency, 1, 10, %s, '1-abcd', 1 "
        "FROM oncepay.payment_attempt WHERE id = $id RETURNING id",
        due);
    run_about(sql, attempt.uuid);
}

/* A payment whose answer was lost: UNKNOWN, one open request, a task. */
static struct payment_id make_unknown(struct attempt_id *out_attempt)
{
    const struct payment_id payment = payment_rows_pay(test.url, "T-1", "O-1");
    const struct attempt_id attempt = payment_rows_attempt(test.url, payment);
    payment_rows_send(test.url, attempt, 10);
    (void)payment_rows_news(test.url, attempt,
                            &(struct attempt_news){ .to = ATTEMPT_UNKNOWN,
                                                    .source = SOURCE_TRANSPORT,
                                                    .closure = CLOSURE_OPEN });
    make_task(attempt, "now() + interval '5 seconds'");
    *out_attempt = attempt;
    return payment;
}

/* --- the picture ------------------------------------------------------------------------------ */

static void a_payment_that_is_not_there_is_not_found(void **state)
{
    struct query_picture picture;
    const struct payment_id nobody = { uuid_new() };
    (void)state;
    assert_int_equal(query_picture_read(test.store, nobody, &test.arena, &picture),
                     STATUS_NOT_FOUND);
    /* And the connection is free for the next one. */
    (void)read_picture(payment_rows_pay(test.url, "T-1", NULL));
}

/* Its transaction names its isolation, which must come before anything else in it. */
static void a_picture_is_taken_in_a_session_that_plans_anew(void **state)
{
    (void)state;
    const struct payment_id payment = payment_rows_pay(test.url, "T-1", NULL);
    (void)read_picture(payment);
    store_service(test.store, clock_monotonic_us() + 60 * CLOCK_SECOND_US);
    (void)read_picture(payment);
    (void)read_picture(payment);
}

static void a_decision_knows_its_attempt_by_the_ordinal(void **state)
{
    struct attempt_id attempt;
    const struct payment_id payment = make_unknown(&attempt);
    (void)state;
    run_about("WITH d AS (INSERT INTO routing_decision (id, payment_id, follows, channel_account,"
              " routing_version, reasons) VALUES"
              " (test.id(), $id, 0, 'stripe-main', 'v', '{}'),"
              " (test.id(), $id, 1, NULL, 'v', '{}')) SELECT ''",
              payment.uuid);
    const struct query_picture picture = read_picture(payment);
    assert_int_equal(picture.decision_count, 2);
    assert_true(uuid_equal(picture.decisions[0].attempt.uuid, attempt.uuid));
    assert_string_equal(picture.decisions[0].account, "stripe-main");
    assert_true(uuid_is_nil(picture.decisions[1].attempt.uuid));
}

static void a_picture_has_all_that_the_rows_say(void **state)
{
    struct attempt_id attempt;
    const struct payment_id payment = make_unknown(&attempt);
    (void)state;
    const struct query_picture picture = read_picture(payment);
    assert_true(uuid_equal(picture.payment.view.payment.uuid, payment.uuid));
    assert_int_equal(picture.payment.view.status, PAYMENT_AUTHORIZING);
    assert_int_equal(picture.payment.view.amount.minor, 1099);
    assert_string_equal(picture.payment.merchant, "m-1001");
    assert_string_equal(picture.payment.target_id, "O-1");
    assert_true(uuid_equal(picture.payment.pointer_payment.uuid, payment.uuid));
    assert_int_equal(picture.attempt_count, 1);
    assert_true(uuid_equal(picture.attempts[0].id.uuid, attempt.uuid));
    assert_int_equal(picture.attempts[0].status, ATTEMPT_UNKNOWN);
    assert_int_equal(picture.attempts[0].amount.minor, 1099);
    assert_int_equal(picture.request_count, 1);
    assert_int_equal(picture.requests[0].kind, REQUEST_CREATE);
    assert_int_equal(picture.requests[0].evidence_count, 1);
    assert_int_equal(picture.requests[0].closure, CLOSURE_OPEN);
    assert_int_equal(picture.evidence_count, 1);
    assert_int_equal(picture.evidence[0].source, SOURCE_TRANSPORT);
    assert_int_equal(picture.evidence[0].proves, 0);
    assert_true(uuid_equal(picture.evidence[0].request.uuid, picture.requests[0].id.uuid));
    assert_int_equal(picture.task_count, 1);
    assert_int_equal(picture.tasks[0].status, TASK_READY);
    assert_true(picture.tasks[0].due_us > picture.now_us);
    /* Payment CREATED, AUTHORIZING; attempt CREATED, SENDING, UNKNOWN. */
    assert_int_equal(picture.history_count, 5);
    assert_int_equal(picture.history[0].from, 0);
    assert_int_equal(picture.history[4].to, ATTEMPT_UNKNOWN);
    assert_non_null(query_request_find(&picture, picture.requests[0].id));
    assert_null(query_evidence_find(&picture, (struct evidence_id){ uuid_new() }));
}

static void a_task_that_is_never_due_has_no_time(void **state)
{
    struct attempt_id attempt;
    const struct payment_id payment = make_unknown(&attempt);
    (void)state;
    run_about("UPDATE oncepay.recovery_task SET due_at = 'infinity', version = version + 1 "
              "WHERE attempt_id = $id RETURNING 1",
              attempt.uuid);
    const struct query_picture picture = read_picture(payment);
    assert_int_equal(picture.task_count, 1);
    assert_int_equal(picture.tasks[0].due_us, 0);
    assert_int_equal(picture.payment.view.next_check_at_us, 0);
    assert_false(picture.payment.view.safe_to_pay_again);
}

static void an_open_fence_says_when_recover_takes_over(void **state)
{
    const struct payment_id payment = payment_rows_pay(test.url, "T-1", "O-1");
    const struct attempt_id attempt = payment_rows_attempt(test.url, payment);
    (void)state;
    payment_rows_send(test.url, attempt, -2);
    run_about("INSERT INTO oncepay.fence_batch (id, channel_account, worker, attempts, due_at) "
              "VALUES (test.id(), 'stripe-main', 'create/host/1', ARRAY[$id::uuid], "
              "now() + interval '37 seconds') RETURNING 1",
              attempt.uuid);
    const struct query_picture picture = read_picture(payment);
    assert_true(picture.attempts[0].fence_due_us > picture.now_us);
    assert_int_equal(picture.requests[0].evidence_count, 0);
}

static void cases_strays_and_holds_are_shown(void **state)
{
    const struct payment_id payment = payment_rows_pay(test.url, "T-1", "O-1");
    const struct attempt_id attempt = payment_rows_attempt(test.url, payment);
    (void)state;
    payment_rows_send(test.url, attempt, 10);
    (void)payment_rows_news(test.url, attempt,
                            &(struct attempt_news){ .to = ATTEMPT_FAILED,
                                                    .source = SOURCE_ANSWER,
                                                    .error_code = "card_declined",
                                                    .closure = CLOSURE_KNOWN });
    payment_rows_move(test.url, payment, PAYMENT_FAILED);
    assert_true(read_picture(payment).payment.view.safe_to_pay_again);
    run_about(
        "INSERT INTO oncepay.stray_fact (id, payment_id, attempt_id, kind, channel_account, "
        "provider_object, amount, currency, evidence_id) SELECT test.id(), payment_id, id, 1, "
        "channel_account, 'pi_1', amount, currency, test.observe(id, 7, 5, 0, 'pi_1') "
        "FROM oncepay.payment_attempt WHERE payment_id = $id RETURNING 1",
        payment.uuid);
    run_about(
        "INSERT INTO oncepay.manual_case (id, kind, payment_id, attempt_id, priority, reason) "
        "SELECT test.id(), 3, payment_id, id, 2, 'late_success' FROM oncepay.payment_attempt "
        "WHERE payment_id = $id RETURNING 1",
        payment.uuid);
    run_about("UPDATE oncepay.active_payment SET hold = 'stray_fact', version = version + 1 "
              "WHERE payment_id = $id RETURNING 1",
              payment.uuid);
    run_about("INSERT INTO oncepay.payment_timer (id, payment_id, kind, due_at) VALUES (test.id(), "
              "$id, 1, now() + interval '1 hour') RETURNING 1",
              payment.uuid);
    const struct query_picture picture = read_picture(payment);
    assert_int_equal(picture.case_count, 1);
    assert_int_equal(picture.cases[0].kind, CASE_STRAY_FACT);
    assert_true(picture.cases[0].is_open);
    assert_int_equal(picture.stray_count, 1);
    assert_true(picture.strays[0].is_open);
    assert_int_equal(picture.strays[0].amount.minor, 1099);
    assert_string_equal(picture.payment.view.hold, "stray_fact");
    assert_true(picture.payment.hold_lifts_us > picture.now_us);
    assert_false(picture.payment.view.safe_to_pay_again);
}

static void webhooks_are_found_before_and_after_they_are_judged(void **state)
{
    struct attempt_id attempt;
    const struct payment_id payment = make_unknown(&attempt);
    (void)state;
    run_about(
        "INSERT INTO oncepay.webhook_inbox (id, channel_account, event_id, kind, reference, "
        "digest, excerpt) SELECT test.id(), channel_account, 'evt_1', 12, provider_key, '', '' "
        "FROM oncepay.payment_attempt WHERE id = $id RETURNING 1",
        attempt.uuid);
    /* Somebody else's. */
    pg_fixture_run(
        test.url,
        "INSERT INTO oncepay.webhook_inbox (id, channel_account, event_id, kind, "
        "reference, digest, excerpt) VALUES (test.id(), 'stripe-main', 'evt_2', 12, 'no', "
        "'', '')");
    struct query_picture picture = read_picture(payment);
    assert_int_equal(picture.webhook_count, 1);
    assert_string_equal(picture.webhooks[0].event, "evt_1");
    assert_int_equal(picture.webhooks[0].processed_us, 0);
    run_about(
        "WITH i AS (UPDATE oncepay.webhook_inbox SET processed_at = now() WHERE event_id = "
        "'evt_1') INSERT INTO oncepay.evidence (payment_id, id, attempt_id, source, kind, "
        "phase, provider_event, strength, digest, excerpt) SELECT payment_id, test.id(), id, 7, "
        "12, 5, 'evt_1', 60, '', '{}' FROM oncepay.payment_attempt WHERE id = $id RETURNING 1",
        attempt.uuid);
    picture = read_picture(payment);
    assert_int_equal(picture.webhook_count, 1);
    assert_true(picture.webhooks[0].processed_us > 0);
}

static void commands_and_events_are_found_without_an_index_by_payment(void **state)
{
    struct attempt_id attempt;
    char settle[SUBJECT_SIZE];
    char sql[1024];
    const struct payment_id payment = make_unknown(&attempt);
    const struct payment_id other = payment_rows_pay(test.url, "T-2", "O-2");
    (void)state;
    (void)subject_settle(payment, settle);
    /* At the moment of the last transition, soon after it, too late; and another payment's. */
    (void)snprintf(
        sql, sizeof sql,
        "WITH o AS (INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, "
        "payment_id, created_at) SELECT test.id(), 1, '%s', 2, h.id, h.version, "
        "h.payment_id, h.at + x.late FROM oncepay.state_history h, "
        "(VALUES (interval '0'), (interval '25 seconds'), (interval '3 hours')) AS x(late) "
        "WHERE h.payment_id = $id AND h.to_status = 40 AND h.entity = 2 RETURNING 1) SELECT "
        "count(*) FROM o",
        settle);
    run_about(sql, payment.uuid);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, "
                   "payment_id) VALUES (test.id(), 1, '%s', 1, $id, 0, $id) RETURNING 1",
                   settle);
    run_about(sql, other.uuid);
    /* An event belongs to the transaction that wrote history. */
    run_about(
        "WITH e AS (INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, "
        "payment_id, body, headers) VALUES (test.id(), 2, 'pay.event.m-1001.payment.unknown', 1, "
        "$id, 3, $id, '{}', '')) SELECT test.move_payment($id, 20)",
        payment.uuid);
    const struct query_picture picture = read_picture(payment);
    assert_int_equal(picture.command_count, 2);
    assert_true(picture.commands[0].created_us < picture.commands[1].created_us);
    assert_string_equal(picture.commands[0].subject, settle);
    assert_int_equal(picture.event_count, 1);
    assert_string_equal(picture.events[0].subject, "pay.event.m-1001.payment.unknown");
}

static void *move_often(void *payment)
{
    enum { MOVES = 100 };
    for (int i = 0; i < MOVES; i++) {
        payment_rows_move(test.url, *(const struct payment_id *)payment, PAYMENT_AUTHORIZING);
    }
    return NULL;
}

/* All statements of a picture see one snapshot, however busy the payment is meanwhile. */
static void a_picture_is_of_one_moment(void **state)
{
    struct payment_id payment = payment_rows_pay(test.url, "T-1", "O-1");
    pthread_t mover;
    int64_t first_version = 0;
    int64_t version = 0;
    (void)state;
    assert_int_equal(pthread_create(&mover, NULL, move_often, &payment), 0);
    for (int i = 0; i < 50; i++) {
        const struct query_picture picture = read_picture(payment);
        version = picture.payment.view.version;
        if (i == 0) first_version = version;
        assert_int_equal(picture.history_count, version);
    }
    assert_int_equal(pthread_join(mover, NULL), 0);
    assert_true(version > first_version);
}

/* --- explain on real rows --------------------------------------------------------------------- */

static void explain_answers_from_real_rows(void **state)
{
    struct attempt_id attempt;
    const struct payment_id payment = make_unknown(&attempt);
    (void)state;
    const struct query_picture picture = read_picture(payment);
    const struct config_timers timers = { .replay_until_s = 3600, .call_limit_ms = 30000 };
    const struct psp_capability capability = { .has_idempotency_key = true,
                                               .key_retention_s = 86400,
                                               .key_margin_s = 3600 };
    const struct recovery_rule rule = { .strategies = { RECOVERY_IDEMPOTENT_REPLAY },
                                        .strategy_count = 1,
                                        .delays_ms = { 1000 },
                                        .delay_count = 1,
                                        .unknown_age_max_s = 86400 };
    const struct psp_capability *capabilities[] = { &capability };
    const struct recovery_rule *rules[] = { &rule };
    const struct explain_input input = {
        .picture = &picture, .capabilities = capabilities, .rules = rules, .timers = &timers
    };
    struct explain_answer answers[EXPLAIN_QUESTION_COUNT];
    explain(&input, &test.arena, answers);
    assert_non_null(strstr(answers[EXPLAIN_FAILED].lines[0].text, "the create of attempt 1"));
    assert_non_null(strstr(answers[EXPLAIN_NEXT].lines[0].text, "sends the stored bytes again"));
}

/* --- finding ---------------------------------------------------------------------------------- */

static void a_number_is_found_by_itself_and_by_merchant(void **state)
{
    struct query_found *found = NULL;
    size_t count = 0;
    const struct payment_id payment = payment_rows_pay(test.url, "T-1", NULL);
    (void)state;
    pg_fixture_run(test.url, "INSERT INTO oncepay.merchant (id) VALUES ('m-1002')");
    assert_int_equal(query_find_number(test.store, "T-1", NULL, &test.arena, &found, &count),
                     STATUS_OK);
    assert_int_equal(count, 1);
    assert_true(uuid_equal(found[0].payment.uuid, payment.uuid));
    assert_string_equal(found[0].merchant, "m-1001");
    assert_int_equal(query_find_number(test.store, "T-1", "m-1002", &test.arena, &found, &count),
                     STATUS_OK);
    assert_int_equal(count, 0);
}

static void a_target_names_its_last_payment(void **state)
{
    struct query_found found;
    const struct payment_id payment = payment_rows_pay(test.url, "T-1", "O-1");
    (void)state;
    assert_int_equal(query_find_target(test.store, "m-1001", "order", "O-1", &test.arena, &found),
                     STATUS_OK);
    assert_true(uuid_equal(found.payment.uuid, payment.uuid));
    assert_int_equal(query_find_target(test.store, "m-1001", "order", "O-2", &test.arena, &found),
                     STATUS_NOT_FOUND);
}

/* --- totals ----------------------------------------------------------------------------------- */

static void totals_count_what_waits(void **state)
{
    struct attempt_id attempt;
    struct query_totals totals;
    const struct payment_id payment = make_unknown(&attempt);
    (void)state;
    for (int i = 0; i < 3; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "N-%d", i);
        (void)payment_rows_pay(test.url, number, NULL);
    }
    run_about(
        "WITH t AS (UPDATE oncepay.recovery_task SET due_at = now() - interval '1 second', "
        "version = version + 1 WHERE payment_id = $id), "
        "e AS (INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, "
        "payment_id, body, headers) VALUES (test.id(), 2, 'pay.event.m-1001.payment.unknown', 1, "
        "$id, 3, $id, '{}', '')) "
        "INSERT INTO oncepay.manual_case (id, kind, payment_id, attempt_id, priority, reason, "
        "opened_at) SELECT test.id(), 1, payment_id, id, 3, 'unknown', now() - interval '1 hour' "
        "FROM oncepay.payment_attempt WHERE payment_id = $id RETURNING 1",
        payment.uuid);
    assert_int_equal(query_totals_read(test.store, 300000, 2000, &test.arena, &totals), STATUS_OK);
    assert_int_equal(totals.recent_count, 2);
    assert_int_equal(totals.recent[0].status, PAYMENT_CREATED);
    assert_int_equal(totals.recent[0].count, 3);
    assert_int_equal(totals.tasks_open, 1);
    assert_int_equal(totals.tasks_due, 1);
    assert_int_equal(totals.case_count, 1);
    assert_int_equal(totals.cases[0].kind, CASE_UNKNOWN);
    assert_true(totals.cases[0].oldest_us >= INT64_C(3600000000));
    assert_int_equal(totals.events_behind, 1); /* no relay has a mark yet */
    /* The look at payments is bounded. */
    assert_int_equal(query_totals_read(test.store, 300000, 2, &test.arena, &totals), STATUS_OK);
    int64_t looked_at = 0;
    for (size_t i = 0; i < totals.recent_count; i++) looked_at += totals.recent[i].count;
    assert_int_equal(looked_at, 2);
}

/* --- dead letters ----------------------------------------------------------------------------- */

static void a_letter_is_read_whole_and_its_replay_closes_its_case(void **state)
{
    const struct dead_letter letter = {
        .id = uuid_new(),
        .consumer = "settle",
        .subject = "pay.settle.3",
        .sequence = 17,
        .deliveries = 5,
        .headers = "content-type: application/msgpack\n",
        .body = { (const uint8_t *)"\x81\x00", 2 },
        .method_token = "tok",
        .code = "internal",
        .problem = "{}",
        .case_id = { uuid_new() },
        .stored_at_us = INT64_C(1796032800000000),
    };
    struct query_letter *letters = NULL;
    struct query_letter read;
    size_t count = 0;
    int32_t replays = 0;
    (void)state;
    assert_int_equal(dead_letter_write(test.store, &letter, &test.arena), STATUS_OK);
    assert_int_equal(query_letters_read(test.store, 10, &test.arena, &letters, &count), STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(letters[0].letter.consumer, "settle");
    assert_null(letters[0].letter.method_token); /* a list has no use for it */
    assert_int_equal(query_letter_read(test.store, letter.id, &test.arena, &read), STATUS_OK);
    assert_true(span_equal(read.letter.body, letter.body));
    assert_string_equal(read.letter.method_token, "tok");
    assert_int_equal(read.letter.stored_at_us, letter.stored_at_us);
    assert_int_equal(query_letter_replayed(test.store, letter.id, "me@host", &test.arena, &replays),
                     STATUS_OK);
    assert_int_equal(replays, 1);
    assert_int_equal(pg_fixture_number(test.url, "SELECT count(*) FROM oncepay.manual_case WHERE "
                                                 "status = 50 AND close_reason = "
                                                 "'replayed by me@host'"),
                     1);
    assert_int_equal(
        query_letter_replayed(test.store, uuid_new(), "me@host", &test.arena, &replays),
        STATUS_NOT_FOUND);
    assert_int_equal(query_letter_read(test.store, uuid_new(), &test.arena, &read),
                     STATUS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_payment_that_is_not_there_is_not_found, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_picture_is_taken_in_a_session_that_plans_anew, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_picture_has_all_that_the_rows_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_decision_knows_its_attempt_by_the_ordinal, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_task_that_is_never_due_has_no_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_open_fence_says_when_recover_takes_over, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(cases_strays_and_holds_are_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(webhooks_are_found_before_and_after_they_are_judged, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(commands_and_events_are_found_without_an_index_by_payment,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_picture_is_of_one_moment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(explain_answers_from_real_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_number_is_found_by_itself_and_by_merchant, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_target_names_its_last_payment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(totals_count_what_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_letter_is_read_whole_and_its_replay_closes_its_case,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
