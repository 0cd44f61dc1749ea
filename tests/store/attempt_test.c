/*
 * tests/store/attempt_test.c: the fence, judged results, tasks and overdue fences on a real
 * PostgreSQL: what the CAS moves is written whole, what it does not move leaves only evidence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "store/attempt_store.h"
#include "store/task_store.h"
#include "tests/support/payment_rows.h"

#define CHECK(call) assert_int_equal(call, STATUS_OK)

static struct pg_fixture *fixture;

struct bench {
    const char *url;
    struct store *store;
    struct store *other; /* a second worker */
    struct arena arena;
    struct payment_id payment;
    struct attempt_id attempt;
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
    bench->other = pg_fixture_store(bench->url);
    bench->payment = payment_rows_pay(bench->url, "p-1", "o-1");
    bench->attempt = payment_rows_attempt(bench->url, bench->payment);
    *state = bench;
    return 0;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    store_destroy(bench->store);
    store_destroy(bench->other);
    arena_finish(&bench->arena);
    free(bench);
    return 0;
}

static int64_t number(const struct bench *bench, const char *sql)
{
    return payment_rows_number(bench->url, sql, bench->attempt.uuid);
}

static struct fence_row fence(struct bench *bench, struct store *store, struct uuid batch)
{
    struct sql_call call;
    struct store_result result = { 0 };
    const struct fence_input input = { bench->attempt, { uuid_new() } };
    fence_call(&call, &bench->arena, &input, 1, batch, "stripe-main", "create/test", 2000, 37000);
    CHECK(store_run(store, &call, &result));
    struct fence_row *rows = NULL;
    assert_int_equal(fence_read(&result, &bench->arena, &rows), 1);
    store_result_clear(&result);
    return rows[0];
}

static struct attempt_outcome success(const struct bench *bench, const struct fence_row *row)
{
    return (struct attempt_outcome){
        .attempt = bench->attempt,
        .payment = bench->payment,
        .version = row->version,
        .from = ATTEMPT_SENDING,
        .verdict = { .changes = true,
                     .next_state = ATTEMPT_SUCCEEDED,
                     .certainty = CERTAINTY_CONFIRMED_SUCCESS,
                     .proves = CERTAINTY_CONFIRMED_SUCCESS,
                     .strength = 60,
                     .reason = "succeeded" },
        .observation = { .kind = OBSERVED_SUCCEEDED,
                         .source = SOURCE_ANSWER,
                         .phase = PHASE_PARSED,
                         .http_status = 200,
                         .provider_object = "pi_1",
                         .excerpt = "{}" },
        .evidence = { uuid_new() },
        .request = row->request,
        .closure = CLOSURE_KNOWN,
        .event = "answer.succeeded",
        .command = { uuid_new() },
        .policy_version = "1-test",
    };
}

static struct attempt_outcome doubt(const struct bench *bench, const struct fence_row *row)
{
    struct attempt_outcome outcome = success(bench, row);
    outcome.verdict = (struct verdict){ .changes = true,
                                        .next_state = ATTEMPT_UNKNOWN,
                                        .certainty = CERTAINTY_UNKNOWN,
                                        .reason = "transport_lost" };
    outcome.observation = (struct observation){ .kind = OBSERVED_TRANSPORT_LOST,
                                                .source = SOURCE_TRANSPORT,
                                                .phase = PHASE_SENT,
                                                .excerpt = "{}" };
    outcome.closure = CLOSURE_OPEN;
    outcome.event = "transport.unknown";
    outcome.task =
        (struct task_birth){ .id = { uuid_new() }, .due_ms = 0, .purpose = TASK_RESOLVE };
    return outcome;
}

static int32_t write_outcome(struct bench *bench, struct store *store,
                             const struct attempt_outcome *outcome)
{
    struct sql_call call;
    struct store_result result = { 0 };
    int32_t version = 0;
    attempt_result_call(&call, &bench->arena, outcome, 1, "create/test", "stripe-main");
    CHECK(store_run(store, &call, &result));
    attempt_result_read(&result, 1, &version);
    store_result_clear(&result);
    return version;
}

static void the_fence_passes_once(void **state)
{
    struct bench *bench = *state;
    const struct fence_row first = fence(bench, bench->store, uuid_new());
    assert_int_equal(first.outcome, FENCE_SENDING);
    assert_int_equal(first.version, 2);
    assert_true(first.request_bytes.length > 0);
    const struct fence_row second = fence(bench, bench->other, uuid_new());
    assert_int_equal(second.outcome, FENCE_NOT_CREATED);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM oncepay.attempt_request WHERE attempt_id = $id"), 1);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM oncepay.fence_batch WHERE $id = ANY (attempts)"), 1);
    assert_int_equal(number(bench,
                            "SELECT (send_by > started_at)::int FROM oncepay.attempt_request "
                            "WHERE attempt_id = $id"),
                     1);
}

static void a_held_target_and_a_late_start_do_not_pass(void **state)
{
    struct bench *bench = *state;
    pg_fixture_run(bench->url,
                   "UPDATE oncepay.active_payment SET hold = 'stray_fact', version = version + 1");
    assert_int_equal(fence(bench, bench->store, uuid_new()).outcome, FENCE_HELD);
    pg_fixture_run(bench->url,
                   "UPDATE oncepay.active_payment SET hold = NULL, version = version + 1");
    pg_fixture_run(bench->url, "SET session_replication_role = replica; "
                               "UPDATE oncepay.payment SET start_by = now() - interval '1 second'");
    assert_int_equal(fence(bench, bench->store, uuid_new()).outcome, FENCE_EXPIRED);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM oncepay.attempt_request WHERE attempt_id = $id"), 0);
    assert_int_equal(number(bench, "SELECT status FROM oncepay.payment_attempt WHERE id = $id"),
                     ATTEMPT_CREATED);
}

static void a_result_writes_all_that_follows(void **state)
{
    struct bench *bench = *state;
    const struct fence_row row = fence(bench, bench->store, uuid_new());
    const struct attempt_outcome outcome = success(bench, &row);
    assert_int_equal(write_outcome(bench, bench->store, &outcome), 3);
    assert_int_equal(number(bench, "SELECT count(*) FROM oncepay.state_history WHERE id = $id"), 3);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM oncepay.outbox WHERE entity_id = $id AND subject LIKE "
                      "'pay.settle.%' AND version = 3"),
        1);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM oncepay.provider_object WHERE attempt_id = $id"), 1);
    /* The same again, as after a COMMIT whose answer was lost: nothing more. */
    assert_int_equal(write_outcome(bench, bench->store, &outcome), 0);
    assert_int_equal(number(bench, "SELECT count(*) FROM oncepay.evidence WHERE attempt_id = $id"),
                     1);
    assert_int_equal(number(bench, "SELECT count(*) FROM oncepay.state_history WHERE id = $id"), 3);
}

static void the_loser_leaves_its_evidence_and_nothing_else(void **state)
{
    struct bench *bench = *state;
    const struct fence_row row = fence(bench, bench->store, uuid_new());
    const struct attempt_outcome winner = success(bench, &row);
    const struct attempt_outcome loser = doubt(bench, &row);
    assert_int_equal(write_outcome(bench, bench->store, &winner), 3);
    assert_int_equal(write_outcome(bench, bench->other, &loser), 0);
    assert_int_equal(number(bench, "SELECT count(*) FROM oncepay.evidence WHERE attempt_id = $id"),
                     2);
    assert_int_equal(number(bench, "SELECT count(*) FROM oncepay.state_history WHERE id = $id"), 3);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM oncepay.recovery_task WHERE attempt_id = $id"), 0);
    assert_int_equal(number(bench, "SELECT status FROM oncepay.payment_attempt WHERE id = $id"),
                     ATTEMPT_SUCCEEDED);
}

static void an_end_without_proof_is_refused_by_the_database(void **state)
{
    struct bench *bench = *state;
    const struct fence_row row = fence(bench, bench->store, uuid_new());
    struct attempt_outcome outcome = success(bench, &row);
    outcome.verdict.proves = 0;
    struct sql_call call;
    struct store_result result = { 0 };
    attempt_result_call(&call, &bench->arena, &outcome, 1, "create/test", "stripe-main");
    assert_int_equal(store_run(bench->store, &call, &result), STATUS_BAD_DATA);
    assert_string_equal(store_last_error(bench->store)->sqlstate, "OP006");
    assert_int_equal(number(bench, "SELECT count(*) FROM oncepay.evidence WHERE attempt_id = $id"),
                     0);
}

static struct attempt_row load(struct bench *bench, struct request_id except)
{
    struct sql_call call;
    struct store_result result = { 0 };
    attempt_load_call(&call, &bench->arena, &bench->attempt, &except, 1, true, 30000);
    CHECK(store_run(bench->store, &call, &result));
    struct attempt_row *rows = NULL;
    assert_int_equal(attempt_load_read(&result, &bench->arena, &rows), 1);
    store_result_clear(&result);
    return rows[0];
}

static void prior_is_what_no_answer_and_no_proof_has_closed(void **state)
{
    struct bench *bench = *state;
    const struct fence_row row = fence(bench, bench->store, uuid_new());
    assert_false(load(bench, row.request).prior); /* its own request is left out */
    assert_true(load(bench, (struct request_id){ uuid_new() }).prior);
    const struct attempt_outcome lost = doubt(bench, &row);
    assert_int_equal(write_outcome(bench, bench->store, &lost), 3);
    assert_true(
        load(bench, (struct request_id){ uuid_new() }).prior); /* evidence that closes nothing */
    struct attempt_outcome answered = success(bench, &row);
    answered.version = 3;
    answered.from = ATTEMPT_UNKNOWN;
    answered.observation.source = SOURCE_REPLAY;
    assert_int_equal(write_outcome(bench, bench->store, &answered), 4);
    const struct attempt_row after = load(bench, (struct request_id){ uuid_new() });
    assert_false(after.prior);
    assert_true(after.answered_under_key);
}

static size_t pick(struct bench *bench, struct store *store, const struct task_due *due,
                   size_t count, struct task_row **out_rows)
{
    struct sql_call calls[2];
    struct store_result results[2] = { { 0 } };
    sql_call_begin(&calls[0], STMT_BEGIN, &bench->arena);
    task_pick_call(&calls[1], &bench->arena, due, count, true, 30000);
    CHECK(store_run_many(store, calls, 2, results));
    const size_t picked = task_pick_read(&results[1], &bench->arena, out_rows);
    for (size_t i = 0; i < 2; i++) store_result_clear(&results[i]);
    return picked;
}

static size_t look(struct bench *bench, struct task_due **out_due)
{
    struct sql_call call;
    struct store_result result = { 0 };
    task_due_call(&call, &bench->arena, "stripe-main", 10);
    CHECK(store_run(bench->store, &call, &result));
    const size_t count = task_due_read(&result, &bench->arena, out_due);
    store_result_clear(&result);
    return count;
}

static void claim(struct bench *bench, struct store *store, const struct task_row *row,
                  int64_t lease_ms)
{
    const struct task_claim claims[] = { {
        .task = row->attempt.task,
        .version = row->attempt.task_version,
        .next = TASK_LEASED,
        .request = { uuid_new() },
        .kind = REQUEST_REPLAY,
        .payment = bench->payment,
        .attempt = bench->attempt,
    } };
    struct sql_call calls[2];
    struct store_result results[2] = { { 0 } };
    task_claim_call(&calls[0], &bench->arena, claims, 1, lease_ms, "recover/test", 2000,
                    "stripe-main");
    sql_call_begin(&calls[1], STMT_COMMIT, &bench->arena);
    CHECK(store_run_many(store, calls, 2, results));
    assert_int_equal(result_rows(&results[0]), 1);
    for (size_t i = 0; i < 2; i++) store_result_clear(&results[i]);
}

static size_t schedule(struct bench *bench, const struct task_row *row, int32_t version)
{
    const struct task_schedule schedules[] = { { .task = row->attempt.task,
                                                 .version = version,
                                                 .next = TASK_READY,
                                                 .due_ms = 60000,
                                                 .step = 1,
                                                 .has_outcome = true } };
    struct sql_call call;
    struct store_result result = { 0 };
    task_schedule_call(&call, &bench->arena, schedules, 1);
    CHECK(store_run(bench->store, &call, &result));
    const size_t moved = result_rows(&result);
    store_result_clear(&result);
    return moved;
}

/* Proven unsent: CREATED again, with a task that says when it may be sent. */
static struct attempt_outcome unsent(const struct bench *bench, const struct fence_row *row)
{
    struct attempt_outcome outcome = doubt(bench, row);
    outcome.verdict = (struct verdict){ .changes = true,
                                        .next_state = ATTEMPT_CREATED,
                                        .certainty = CERTAINTY_NO_SIDE_EFFECT,
                                        .proves = CERTAINTY_NO_SIDE_EFFECT,
                                        .reason = "rate_limited" };
    outcome.closure = CLOSURE_NO_EFFECT;
    outcome.event = "answer.unsent";
    outcome.command = (struct outbox_id){ { { 0 } } };
    outcome.task.purpose = TASK_RESEND;
    outcome.task.due_ms = 30000;
    return outcome;
}

static void what_was_proven_unsent_is_not_sent_before_it_is_due(void **state)
{
    struct bench *bench = *state;
    const struct fence_row fenced = fence(bench, bench->store, uuid_new());
    const struct attempt_outcome outcome = unsent(bench, &fenced);
    assert_int_equal(write_outcome(bench, bench->store, &outcome), 3);
    /* A command that is repeated meanwhile passes nothing … */
    assert_int_equal(fence(bench, bench->store, uuid_new()).outcome, FENCE_NOT_CREATED);
    pg_fixture_run(bench->url,
                   "UPDATE oncepay.recovery_task SET due_at = now(), version = version + 1");
    const struct fence_row again = fence(bench, bench->store, uuid_new());
    assert_int_equal(again.outcome, FENCE_SENDING);
    /* … and when it is sent, the wait for it is over: a lost answer gets a task of its own. */
    const struct attempt_outcome lost = doubt(bench, &again);
    assert_int_equal(write_outcome(bench, bench->store, &lost), 5);
    assert_int_equal(number(bench,
                            "SELECT count(*) FROM oncepay.recovery_task WHERE attempt_id = $id "
                            "AND status <> 50 AND purpose = 1"),
                     1);
}

static void an_older_fence_does_not_take_over_a_later_send(void **state)
{
    struct bench *bench = *state;
    const struct uuid older = uuid_new();
    const struct fence_row fenced = fence(bench, bench->store, older);
    const struct attempt_outcome outcome = unsent(bench, &fenced);
    assert_int_equal(write_outcome(bench, bench->store, &outcome), 3);
    pg_fixture_run(bench->url,
                   "UPDATE oncepay.recovery_task SET due_at = now(), version = version + 1");
    assert_int_equal(fence(bench, bench->store, uuid_new()).outcome, FENCE_SENDING);
    pg_fixture_run(bench->url, "UPDATE oncepay.fence_batch SET due_at = now() WHERE created_at = "
                               "(SELECT min(created_at) FROM oncepay.fence_batch)");
    struct sql_call call;
    struct store_result result = { 0 };
    struct overdue_fence *rows = NULL;
    fence_claim_call(&call, &bench->arena, "stripe-main", 10, 45000);
    CHECK(store_run(bench->store, &call, &result));
    assert_int_equal(fence_claim_read(&result, &bench->arena, &rows), 1);
    store_result_clear(&result);
    assert_true(uuid_equal(rows[0].fence_batch, older));
    assert_true(uuid_is_nil(rows[0].attempt.uuid));
}

static void one_worker_holds_a_task_and_a_lease_that_ran_out_is_taken_over(void **state)
{
    struct bench *bench = *state;
    const struct fence_row fenced = fence(bench, bench->store, uuid_new());
    const struct attempt_outcome lost = doubt(bench, &fenced);
    assert_int_equal(write_outcome(bench, bench->store, &lost), 3);
    struct task_due *due = NULL;
    assert_int_equal(look(bench, &due), 1);
    struct task_row *rows = NULL;
    struct task_row *none = NULL;
    assert_int_equal(pick(bench, bench->store, due, 1, &rows), 1);
    assert_int_equal(pick(bench, bench->other, due, 1, &none),
                     0); /* SKIP LOCKED: no wait, no second worker */
    struct sql_call commit;
    struct store_result result = { 0 };
    sql_call_begin(&commit, STMT_COMMIT, &bench->arena);
    CHECK(store_run(bench->other, &commit, &result));
    store_result_clear(&result);
    assert_true(rows[0].attempt.prior);
    claim(bench, bench->store, &rows[0], 45000);
    assert_int_equal(look(bench, &due), 0); /* under a valid lease nobody else calls */
    pg_fixture_run(bench->url,
                   "UPDATE oncepay.recovery_task SET due_at = now() - interval '1 second', "
                   "version = version + 1");
    assert_int_equal(look(bench, &due), 1);
    struct task_row *taken = NULL;
    assert_int_equal(pick(bench, bench->other, due, 1, &taken), 1);
    claim(bench, bench->other, &taken[0], 45000);
    assert_int_equal(schedule(bench, &rows[0], rows[0].attempt.task_version + 1),
                     0); /* the late worker changes nothing */
    assert_int_equal(schedule(bench, &taken[0], taken[0].attempt.task_version + 1), 1);
    assert_int_equal(
        number(bench,
               "SELECT count(*) FROM oncepay.attempt_request WHERE attempt_id = $id AND kind = 2"),
        2);
}

static void the_end_of_the_attempt_resolves_its_task(void **state)
{
    struct bench *bench = *state;
    const struct fence_row fenced = fence(bench, bench->store, uuid_new());
    const struct attempt_outcome lost = doubt(bench, &fenced);
    assert_int_equal(write_outcome(bench, bench->store, &lost), 3);
    struct attempt_outcome end = success(bench, &fenced);
    end.version = 3;
    end.from = ATTEMPT_UNKNOWN;
    end.observation.source = SOURCE_WEBHOOK;
    assert_int_equal(write_outcome(bench, bench->store, &end), 4);
    assert_int_equal(
        number(bench, "SELECT status FROM oncepay.recovery_task WHERE attempt_id = $id"),
        TASK_RESOLVED);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM oncepay.recovery_task WHERE attempt_id = $id"), 1);
}

static void an_overdue_fence_names_what_is_still_sending(void **state)
{
    struct bench *bench = *state;
    const struct uuid batch = uuid_new();
    const struct fence_row fenced = fence(bench, bench->store, batch);
    struct sql_call call;
    struct store_result result = { 0 };
    struct overdue_fence *rows = NULL;
    fence_claim_call(&call, &bench->arena, "stripe-main", 10, 45000);
    CHECK(store_run(bench->store, &call, &result));
    assert_int_equal(fence_claim_read(&result, &bench->arena, &rows), 0); /* not due */
    store_result_clear(&result);
    pg_fixture_run(bench->url, "UPDATE oncepay.fence_batch SET due_at = now()");
    fence_claim_call(&call, &bench->arena, "stripe-main", 10, 45000);
    CHECK(store_run(bench->store, &call, &result));
    assert_int_equal(fence_claim_read(&result, &bench->arena, &rows), 1);
    store_result_clear(&result);
    assert_true(uuid_equal(rows[0].fence_batch, batch));
    assert_true(uuid_equal(rows[0].attempt.uuid, bench->attempt.uuid));
    assert_true(uuid_equal(rows[0].request.uuid, fenced.request.uuid));
    fence_claim_call(&call, &bench->arena, "stripe-main", 10, 45000);
    CHECK(store_run(bench->other, &call, &result));
    assert_int_equal(result_rows(&result), 0); /* under the first one's lease */
    store_result_clear(&result);
    fence_done_call(&call, &bench->arena, &batch, 1);
    CHECK(store_run(bench->store, &call, &result));
    store_result_clear(&result);
    assert_int_equal(pg_fixture_number(bench->url, "SELECT count(*) FROM oncepay.fence_batch"), 0);
}

static void a_local_end_needs_a_created_attempt(void **state)
{
    struct bench *bench = *state;
    const struct local_end end = {
        bench->attempt, bench->payment, { uuid_new() }, { uuid_new() }, "expired_before_start"
    };
    struct sql_call call;
    struct store_result result = { 0 };
    local_end_call(&call, &bench->arena, &end, 1, "create/test");
    CHECK(store_run(bench->store, &call, &result));
    assert_int_equal(result_rows(&result), 1);
    store_result_clear(&result);
    assert_int_equal(number(bench, "SELECT certainty FROM oncepay.payment_attempt WHERE id = $id"),
                     CERTAINTY_NO_SIDE_EFFECT);
    assert_int_equal(fence(bench, bench->store, uuid_new()).outcome, FENCE_NOT_CREATED);
    local_end_call(&call, &bench->arena, &end, 1, "create/test");
    CHECK(store_run(bench->store, &call, &result));
    assert_int_equal(result_rows(&result), 0);
    store_result_clear(&result);
}

static void a_case_is_opened_once_and_closed_with_the_attempt(void **state)
{
    struct bench *bench = *state;
    const struct fence_row fenced = fence(bench, bench->store, uuid_new());
    struct case_opening opening = {
        .id = { uuid_new() },
        .kind = CASE_UNKNOWN,
        .payment = bench->payment,
        .attempt = bench->attempt,
        .account = "stripe-main",
        .merchant = "m-1001",
        .reason = "out of strategies",
        .attempt_version = 99,
        .event = { uuid_new() },
    };
    struct sql_call call;
    struct store_result result = { 0 };
    case_open_call(&call, &bench->arena, &opening, 1);
    CHECK(store_run(bench->store, &call, &result));
    assert_int_equal(result_rows(&result), 0); /* follows only from what was stored */
    store_result_clear(&result);
    opening.attempt_version = 2;
    for (int i = 0; i < 2; i++) {
        opening.id.uuid = uuid_new();
        opening.event.uuid = uuid_new();
        case_open_call(&call, &bench->arena, &opening, 1);
        CHECK(store_run(bench->store, &call, &result));
        assert_int_equal(result_rows(&result), i == 0 ? 1 : 0);
        store_result_clear(&result);
    }
    assert_int_equal(pg_fixture_number(bench->url,
                                       "SELECT count(*) FROM oncepay.outbox WHERE subject LIKE "
                                       "'%case.opened'"),
                     1);
    const struct attempt_outcome end = success(bench, &fenced);
    assert_int_equal(write_outcome(bench, bench->store, &end), 3);
    opening.id.uuid = uuid_new();
    opening.kind = CASE_PENDING_TOO_LONG;
    opening.attempt_version = 0;
    case_open_call(&call, &bench->arena, &opening, 1);
    CHECK(store_run(bench->store, &call, &result));
    assert_int_equal(result_rows(&result), 0); /* nobody asks any more how it ends */
    store_result_clear(&result);
    const struct case_closing closing = {
        bench->payment, bench->attempt, "m-1001", { uuid_new() }
    };
    case_close_call(&call, &bench->arena, &closing, 1);
    CHECK(store_run(bench->store, &call, &result));
    assert_int_equal(result_rows(&result), 1);
    store_result_clear(&result);
    assert_int_equal(number(bench, "SELECT status FROM oncepay.manual_case WHERE attempt_id = $id"),
                     50);
}

#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(the_fence_passes_once),
        BENCH_TEST(a_held_target_and_a_late_start_do_not_pass),
        BENCH_TEST(a_result_writes_all_that_follows),
        BENCH_TEST(the_loser_leaves_its_evidence_and_nothing_else),
        BENCH_TEST(an_end_without_proof_is_refused_by_the_database),
        BENCH_TEST(prior_is_what_no_answer_and_no_proof_has_closed),
        BENCH_TEST(what_was_proven_unsent_is_not_sent_before_it_is_due),
        BENCH_TEST(an_older_fence_does_not_take_over_a_later_send),
        BENCH_TEST(one_worker_holds_a_task_and_a_lease_that_ran_out_is_taken_over),
        BENCH_TEST(the_end_of_the_attempt_resolves_its_task),
        BENCH_TEST(an_overdue_fence_names_what_is_still_sending),
        BENCH_TEST(a_local_end_needs_a_created_attempt),
        BENCH_TEST(a_case_is_opened_once_and_closed_with_the_attempt),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
