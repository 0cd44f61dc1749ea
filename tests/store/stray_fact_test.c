/*
 * tests/store/stray_fact_test.c: facts that contradict what is final (protocol D), on a real
 * PostgreSQL: everything that must follow does, once, and no status moves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pipeline/judge.h"
#include "store/stray_fact.h"
#include "tests/support/payment_rows.h"

#define CHECK(call) assert_int_equal(call, STATUS_OK)

static struct pg_fixture *fixture;

struct bench {
    const char *url;
    struct store *store;
    struct arena arena;
    struct attempt_outcome observed;
};

static int start(void **state)
{
    (void)state;
    fixture = pg_fixture_start();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pg_fixture_stop(fixture);
    return 0;
}

static int open_bench(void **state)
{
    struct bench *bench = memory_allocate(sizeof *bench);
    bench->url = pg_fixture_database(fixture);
    payment_rows_install(bench->url);
    bench->store = pg_fixture_store(bench->url);
    *state = bench;
    return 0;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    store_destroy(bench->store);
    arena_finish(&bench->arena);
    free(bench);
    return 0;
}

static int64_t number(const struct bench *bench, const char *sql, struct uuid id)
{
    return payment_rows_number(bench->url, sql, id);
}

static void assert_text(const struct bench *bench, const char *sql, struct uuid id,
                        const char *expected)
{
    char *text = payment_rows_text(bench->url, sql, id);
    assert_string_equal(text, expected);
    free(text);
}

/* A payment whose only attempt was declined, as settle leaves it. */
static struct attempt_id failed_payment(const struct bench *bench, const char *out_trade_no,
                                        const char *target, struct payment_id *out_payment)
{
    const struct attempt_news declined = {
        ATTEMPT_FAILED, SOURCE_ANSWER, "card_declined", CLOSURE_KNOWN, "pi_1",
    };
    *out_payment = payment_rows_pay(bench->url, out_trade_no, target);
    const struct attempt_id attempt = payment_rows_attempt(bench->url, *out_payment);
    payment_rows_send(bench->url, attempt, 10);
    (void)payment_rows_news(bench->url, attempt, &declined);
    payment_rows_move(bench->url, *out_payment, PAYMENT_FAILED);
    return attempt;
}

static struct stray_fact_input late_success(struct bench *bench, struct payment_id payment,
                                            struct attempt_id attempt, const char *object)
{
    const struct evidence_id evidence = { uuid_new() };
    bench->observed = (struct attempt_outcome){
        .attempt = attempt,
        .payment = payment,
        .version = 3,
        .from = ATTEMPT_FAILED,
        .verdict = { .next_state = ATTEMPT_FAILED,
                     .certainty = CERTAINTY_DEFINITE_FAILURE,
                     .proves = CERTAINTY_CONFIRMED_SUCCESS,
                     .strength = 50,
                     .contradiction = CONTRADICTION_LATE_SUCCESS,
                     .reason = "late_success" },
        .observation = { .kind = OBSERVED_SUCCEEDED,
                         .source = SOURCE_WEBHOOK,
                         .phase = PHASE_PARSED,
                         .provider_object = object,
                         .has_amount = true,
                         .amount = { 1099, { "EUR" } },
                         .excerpt = "{}" },
        .evidence = evidence,
        .event = "stray",
    };
    return (struct stray_fact_input){
        .id = uuid_new(),
        .case_id = { uuid_new() },
        .case_event = { uuid_new() },
        .kind = STRAY_LATE_SUCCESS,
        .payment = payment,
        .attempt = attempt,
        .channel_account = "stripe-main",
        .provider_object = object,
        .has_amount = true,
        .amount = { 1099, { "EUR" } },
        .evidence = evidence,
        .observed = &bench->observed,
        .actor = "test",
    };
}

static void late_success_becomes_a_fact_a_case_a_hold_and_an_event(void **state)
{
    struct bench *bench = *state;
    struct payment_id payment;
    const struct attempt_id attempt = failed_payment(bench, "o-1", "order-1", &payment);
    const int64_t version =
        number(bench, "SELECT version FROM payment WHERE id = $id", payment.uuid);
    const struct stray_fact_input input = late_success(bench, payment, attempt, "pi_1");
    struct stray_fact_outcome outcome;
    CHECK(stray_fact_write(bench->store, &input, &bench->arena, &outcome));
    assert_true(outcome.is_new);
    assert_int_equal(outcome.kind, STRAY_LATE_SUCCESS);
    assert_int_equal(outcome.command_count, 0);

    assert_int_equal(number(bench, "SELECT status FROM payment WHERE id = $id", payment.uuid),
                     PAYMENT_FAILED);
    assert_int_equal(number(bench, "SELECT version FROM payment WHERE id = $id", payment.uuid),
                     version + 1);
    assert_int_equal(
        number(bench, "SELECT status FROM payment_attempt WHERE id = $id", attempt.uuid),
        ATTEMPT_FAILED);
    assert_text(bench, "SELECT hold FROM active_payment WHERE payment_id = $id", payment.uuid,
                "stray_fact");
    assert_text(
        bench,
        "SELECT kind || ' ' || amount || ' ' || currency FROM stray_fact WHERE payment_id = $id",
        payment.uuid, "1 1099 EUR");
    assert_text(bench, "SELECT kind || ' ' || status FROM manual_case WHERE attempt_id = $id",
                attempt.uuid, "3 10");
    assert_text(bench,
                "SELECT event FROM state_history WHERE id = $id ORDER BY version DESC LIMIT 1",
                payment.uuid, "stray.late_success");
    assert_text(bench,
                "SELECT subject FROM outbox WHERE kind = 2 AND entity_id = $id AND version > 0",
                payment.uuid, "pay.event.m-1001.payment.late_success");
    assert_int_equal(
        number(bench,
               "SELECT version FROM outbox WHERE kind = 2 AND entity_id = $id AND version > 0",
               payment.uuid),
        version + 1);
    assert_int_equal(number(bench,
                            "SELECT count(*) FROM evidence WHERE attempt_id = $id AND source = 7",
                            attempt.uuid),
                     1);
}

static void the_same_fact_again_changes_nothing_but_its_evidence_is_kept(void **state)
{
    struct bench *bench = *state;
    struct payment_id payment;
    const struct attempt_id attempt = failed_payment(bench, "o-1", "order-1", &payment);
    struct stray_fact_outcome outcome;
    const struct stray_fact_input first = late_success(bench, payment, attempt, "pi_1");
    CHECK(stray_fact_write(bench->store, &first, &bench->arena, &outcome));
    const int64_t version =
        number(bench, "SELECT version FROM payment WHERE id = $id", payment.uuid);
    for (int i = 0; i < 3; i++) {
        const struct stray_fact_input again = late_success(bench, payment, attempt, "pi_1");
        CHECK(stray_fact_write(bench->store, &again, &bench->arena, &outcome));
        assert_false(outcome.is_new);
    }
    assert_int_equal(number(bench, "SELECT version FROM payment WHERE id = $id", payment.uuid),
                     version);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM stray_fact WHERE payment_id = $id", payment.uuid), 1);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM manual_case WHERE payment_id = $id", payment.uuid), 1);
    assert_int_equal(number(bench,
                            "SELECT count(*) FROM evidence WHERE attempt_id = $id AND source = 7",
                            attempt.uuid),
                     4);
}

static void another_object_of_the_attempt_joins_the_case(void **state)
{
    struct bench *bench = *state;
    struct payment_id payment;
    const struct attempt_id attempt = failed_payment(bench, "o-1", "order-1", &payment);
    struct stray_fact_outcome outcome;
    const struct stray_fact_input one = late_success(bench, payment, attempt, "pi_1");
    CHECK(stray_fact_write(bench->store, &one, &bench->arena, &outcome));
    const struct stray_fact_input two = late_success(bench, payment, attempt, "pi_2");
    CHECK(stray_fact_write(bench->store, &two, &bench->arena, &outcome));
    assert_true(outcome.is_new);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM stray_fact WHERE attempt_id = $id", attempt.uuid), 2);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM manual_case WHERE attempt_id = $id", attempt.uuid), 1);
}

static void a_closed_case_is_opened_again(void **state)
{
    struct bench *bench = *state;
    struct payment_id payment;
    const struct attempt_id attempt = failed_payment(bench, "o-1", "order-1", &payment);
    struct stray_fact_outcome outcome;
    const struct stray_fact_input one = late_success(bench, payment, attempt, "pi_1");
    CHECK(stray_fact_write(bench->store, &one, &bench->arena, &outcome));
    pg_fixture_run(
        bench->url,
        "UPDATE manual_case SET status = 50, closed_at = now(), close_reason = 'given back',"
        " version = version + 1");
    const struct stray_fact_input two = late_success(bench, payment, attempt, "pi_2");
    CHECK(stray_fact_write(bench->store, &two, &bench->arena, &outcome));
    assert_text(bench, "SELECT status || ' ' || version FROM manual_case WHERE attempt_id = $id",
                attempt.uuid, "10 3");
}

static void an_attempt_of_the_target_that_was_not_sent_is_failed(void **state)
{
    struct bench *bench = *state;
    struct payment_id first;
    const struct attempt_id attempt = failed_payment(bench, "o-1", "order-1", &first);
    const struct payment_id second = payment_rows_pay(bench->url, "o-2", "order-1");
    const struct attempt_id unsent = payment_rows_attempt(bench->url, second);
    pg_fixture_run(
        bench->url,
        "INSERT INTO recovery_task (id, payment_id, attempt_id, channel_account, method_type, "
        "operation,"
        " amount, currency, purpose, status, due_at, policy_version, version) SELECT test.id(), "
        "payment_id,"
        " id, channel_account, 'card', 1, 1099, 'EUR', 2, 10, now(), '1', 1 FROM payment_attempt"
        " WHERE status = 10");
    const struct stray_fact_input input = late_success(bench, first, attempt, "pi_1");
    struct stray_fact_outcome outcome;
    CHECK(stray_fact_write(bench->store, &input, &bench->arena, &outcome));
    assert_int_equal(outcome.kind, STRAY_LATE_SUCCESS);
    assert_int_equal(outcome.command_count, 1);
    assert_memory_equal(&outcome.commands[0].entity, &unsent.uuid, sizeof unsent.uuid);
    assert_int_equal(outcome.commands[0].kind, COMMAND_SETTLE);
    assert_int_equal(outcome.commands[0].version, 2);

    assert_text(bench,
                "SELECT status || ' ' || certainty || ' ' || error_code FROM payment_attempt WHERE "
                "id = $id",
                unsent.uuid, "60 2 target_held");
    assert_int_equal(
        number(bench, "SELECT status FROM recovery_task WHERE attempt_id = $id", unsent.uuid),
        TASK_RESOLVED);
    assert_int_equal(
        number(bench,
               "SELECT count(*) FROM outbox WHERE kind = 1 AND entity = 2 AND entity_id = $id",
               unsent.uuid),
        1);
    /* The pointer names the newer payment; the target is one and the same. */
    assert_text(bench, "SELECT hold FROM active_payment WHERE payment_id = $id", second.uuid,
                "stray_fact");
}

static void an_attempt_that_is_sending_is_left_alone(void **state)
{
    struct bench *bench = *state;
    struct payment_id first;
    const struct attempt_id attempt = failed_payment(bench, "o-1", "order-1", &first);
    const struct payment_id second = payment_rows_pay(bench->url, "o-2", "order-1");
    const struct attempt_id sending = payment_rows_attempt(bench->url, second);
    payment_rows_send(bench->url, sending, 0);
    const struct stray_fact_input input = late_success(bench, first, attempt, "pi_1");
    struct stray_fact_outcome outcome;
    CHECK(stray_fact_write(bench->store, &input, &bench->arena, &outcome));
    assert_int_equal(outcome.command_count, 0);
    assert_int_equal(
        number(bench, "SELECT status FROM payment_attempt WHERE id = $id", sending.uuid),
        ATTEMPT_SENDING);
}

static void success_beside_a_captured_payment_is_a_double_success(void **state)
{
    struct bench *bench = *state;
    struct payment_id first;
    const struct attempt_id attempt = failed_payment(bench, "o-1", "order-1", &first);
    const struct payment_id second = payment_rows_pay(bench->url, "o-2", "order-1");
    const struct attempt_news paid = { ATTEMPT_SUCCEEDED, SOURCE_ANSWER, NULL, CLOSURE_KNOWN,
                                       "pi_2" };
    const struct attempt_id winner = payment_rows_attempt(bench->url, second);
    payment_rows_send(bench->url, winner, 10);
    (void)payment_rows_news(bench->url, winner, &paid);
    payment_rows_move(bench->url, second, PAYMENT_CAPTURED);

    const struct stray_fact_input input = late_success(bench, first, attempt, "pi_1");
    struct stray_fact_outcome outcome;
    CHECK(stray_fact_write(bench->store, &input, &bench->arena, &outcome));
    assert_int_equal(outcome.kind, STRAY_SECOND_SUCCESS);
    assert_text(bench,
                "SELECT subject FROM outbox WHERE kind = 2 AND entity_id = $id AND version > 0",
                first.uuid, "pay.event.m-1001.payment.double_success");
    assert_int_equal(number(bench, "SELECT status FROM payment WHERE id = $id", second.uuid),
                     PAYMENT_CAPTURED);
    /* Found again by whoever still takes it for a late one: one object, one fact. */
    const struct stray_fact_input again = late_success(bench, first, attempt, "pi_1");
    CHECK(stray_fact_write(bench->store, &again, &bench->arena, &outcome));
    assert_false(outcome.is_new);
}

static void a_payment_without_a_target_has_no_pointer_to_hold(void **state)
{
    struct bench *bench = *state;
    struct payment_id payment;
    const struct attempt_id attempt = failed_payment(bench, "o-1", NULL, &payment);
    const struct stray_fact_input input = late_success(bench, payment, attempt, "pi_1");
    struct stray_fact_outcome outcome;
    CHECK(stray_fact_write(bench->store, &input, &bench->arena, &outcome));
    assert_true(outcome.is_new);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM active_payment WHERE payment_id = $id", payment.uuid),
        0);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM manual_case WHERE payment_id = $id", payment.uuid), 1);
}

static void no_such_payment_is_said(void **state)
{
    struct bench *bench = *state;
    const struct payment_id nobody = { uuid_new() };
    struct stray_fact_input input =
        late_success(bench, nobody, (struct attempt_id){ uuid_new() }, "pi_1");
    struct stray_fact_outcome outcome;
    assert_int_equal(stray_fact_write(bench->store, &input, &bench->arena, &outcome),
                     STATUS_NOT_FOUND);
}

/* Two find the same thing at the same time: the loser reads again and sees that it is known. */
static void whoever_loses_the_race_writes_nothing(void **state)
{
    struct bench *bench = *state;
    struct payment_id payment;
    const struct attempt_id attempt = failed_payment(bench, "o-1", "order-1", &payment);
    const struct stray_fact_input input = late_success(bench, payment, attempt, "pi_1");
    struct sql_call load;
    struct store_result loaded = { 0 };
    struct stray_fact_rows rows;
    stray_fact_load_call(&load, &bench->arena, &input);
    CHECK(store_run(bench->store, &load, &loaded));
    stray_fact_load_read(&loaded, &bench->arena, &rows);
    store_result_clear(&loaded);

    struct stray_fact_outcome outcome;
    const struct stray_fact_input faster = late_success(bench, payment, attempt, "pi_1");
    CHECK(stray_fact_write(bench->store, &faster, &bench->arena, &outcome));

    struct sql_call calls[STRAY_FACT_CALLS_MAX];
    struct store_result results[STRAY_FACT_CALLS_MAX] = { 0 };
    struct stray_fact_plan plan;
    stray_fact_calls(&input, &rows, &bench->arena, calls, &plan);
    assert_int_equal(store_run_many(bench->store, calls, plan.call_count, results),
                     STATUS_LOST_RACE);
    CHECK(stray_fact_write(bench->store, &input, &bench->arena, &outcome));
    assert_false(outcome.is_new);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM stray_fact WHERE payment_id = $id", payment.uuid), 1);
}

/* C24: a failure after a success is evidence and a case, nothing else. */
static void a_failure_after_success_is_a_conflict_for_people(void **state)
{
    struct bench *bench = *state;
    const struct payment_id payment = payment_rows_pay(bench->url, "o-1", "order-1");
    const struct attempt_id attempt = payment_rows_attempt(bench->url, payment);
    const struct attempt_news paid = { ATTEMPT_SUCCEEDED, SOURCE_ANSWER, NULL, CLOSURE_KNOWN,
                                       "pi_1" };
    payment_rows_send(bench->url, attempt, 10);
    (void)payment_rows_news(bench->url, attempt, &paid);
    payment_rows_move(bench->url, payment, PAYMENT_CAPTURED);
    const int64_t version =
        number(bench, "SELECT version FROM payment WHERE id = $id", payment.uuid);
    for (int i = 0; i < 2; i++) {
        struct stray_fact_input input = late_success(bench, payment, attempt, "pi_1");
        bench->observed.observation.kind = OBSERVED_DECLINED;
        bench->observed.from = ATTEMPT_SUCCEEDED;
        bench->observed.verdict.next_state = ATTEMPT_SUCCEEDED;
        bench->observed.verdict.proves = 0;
        struct sql_call calls[EVIDENCE_CONFLICT_CALLS_MAX];
        struct store_result results[EVIDENCE_CONFLICT_CALLS_MAX] = { 0 };
        const size_t count =
            evidence_conflict_calls(&bench->observed, "m-1001", "stripe-main", input.case_id,
                                    input.case_event, "test", &bench->arena, calls);
        CHECK(store_run_many(bench->store, calls, count, results));
        assert_int_equal(result_rows(&results[1]), i == 0 ? 1 : 0);
        for (size_t k = 0; k < count; k++) store_result_clear(&results[k]);
    }
    assert_text(bench, "SELECT kind || ' ' || status FROM manual_case WHERE attempt_id = $id",
                attempt.uuid, "4 10");
    assert_int_equal(number(bench,
                            "SELECT count(*) FROM evidence WHERE attempt_id = $id AND source = 7",
                            attempt.uuid),
                     2);
    assert_int_equal(number(bench, "SELECT version FROM payment WHERE id = $id", payment.uuid),
                     version);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM active_payment WHERE hold IS NULL AND payment_id = $id",
               payment.uuid),
        1);
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(late_success_becomes_a_fact_a_case_a_hold_and_an_event),
        BENCH_TEST(the_same_fact_again_changes_nothing_but_its_evidence_is_kept),
        BENCH_TEST(another_object_of_the_attempt_joins_the_case),
        BENCH_TEST(a_closed_case_is_opened_again),
        BENCH_TEST(an_attempt_of_the_target_that_was_not_sent_is_failed),
        BENCH_TEST(an_attempt_that_is_sending_is_left_alone),
        BENCH_TEST(success_beside_a_captured_payment_is_a_double_success),
        BENCH_TEST(a_payment_without_a_target_has_no_pointer_to_hold),
        BENCH_TEST(no_such_payment_is_said),
        BENCH_TEST(whoever_loses_the_race_writes_nothing),
        BENCH_TEST(a_failure_after_success_is_a_conflict_for_people),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
