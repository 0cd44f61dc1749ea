/*
 * tests/store/two_sessions_test.c: what a statement does that waited for a row or a key which
 * another session was about to commit: its snapshot is older than what it finds then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "pipeline/clock.h"
#include "store/attempt_store.h"
#include "store/task_store.h"
#include "tests/support/payment_rows.h"

static struct pg_fixture *fixture;

struct bench {
    const char *url;
    struct store *first;
    struct store *second;
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
    bench->first = pg_fixture_store(bench->url);
    bench->second = pg_fixture_store(bench->url);
    bench->payment = payment_rows_pay(bench->url, "p-1", "o-1");
    bench->attempt = payment_rows_attempt(bench->url, bench->payment);
    *state = bench;
    return 0;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    store_destroy(bench->first);
    store_destroy(bench->second);
    arena_finish(&bench->arena);
    free(bench);
    return 0;
}

static int64_t number(const struct bench *bench, const char *sql)
{
    return payment_rows_number(bench->url, sql, bench->attempt.uuid);
}

static void execute(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    PQclear(result);
}

/* Sends the call, and returns when it waits for a lock. */
static void send_until_it_waits(struct bench *bench, struct store *store, struct sql_call *call)
{
    while (!store_is_ready(store)) store_service(store, clock_monotonic_us());
    assert_int_equal(store_send(store, call, 1), STATUS_OK);
    while (pg_fixture_number(bench->url, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0)
        store_service(store, clock_monotonic_us());
}

static enum status receive(struct store *store, struct store_result *out_result)
{
    enum status status = STATUS_RETRY;
    while (!store_receive(store, out_result, 1, &status))
        store_service(store, clock_monotonic_us());
    return status;
}

/* To the statement that waits, the attempt is CREATED before and after, but its head is another. */
static void a_local_end_takes_an_attempt_that_was_away_and_came_back(void **state)
{
    struct bench *bench = *state;
    const struct local_end end = {
        bench->attempt, bench->payment, { uuid_new() }, { uuid_new() }, "expired_before_start"
    };
    struct sql_call call;
    struct store_result result = { 0 };
    PGconn *other = PQconnectdb(bench->url);
    execute(other, "BEGIN");
    execute(other, "SELECT test.move_attempt(id, 20, 1, NULL, NULL) FROM oncepay.payment_attempt");
    execute(other, "SELECT test.move_attempt(id, 10, 2, NULL, NULL) FROM oncepay.payment_attempt");
    local_end_call(&call, &bench->arena, &end, 1, "create/test");
    send_until_it_waits(bench, bench->first, &call);
    execute(other, "COMMIT");
    PQfinish(other);
    assert_int_equal(receive(bench->first, &result), STATUS_OK);
    assert_int_equal(result_rows(&result), 1);
    store_result_clear(&result);
    assert_int_equal(number(bench, "SELECT version FROM oncepay.payment_attempt WHERE id = $id"),
                     4);
}

/* What a lost connection leaves running: the first writing, whose outcome nobody has heard. */
static void begin_result(struct bench *bench, const struct attempt_outcome *outcome)
{
    struct sql_call calls[2];
    struct store_result results[2] = { { 0 } };
    sql_call_begin(&calls[0], STMT_BEGIN, &bench->arena);
    attempt_result_call(&calls[1], &bench->arena, outcome, 1, "create/test", "stripe-main");
    assert_int_equal(store_run_many(bench->first, calls, 2, results), STATUS_OK);
    for (size_t i = 0; i < 2; i++) store_result_clear(&results[i]);
}

static void commit(struct bench *bench)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_COMMIT, &bench->arena);
    assert_int_equal(store_run(bench->first, &call, &result), STATUS_OK);
    store_result_clear(&result);
}

/* Evidence that decides nothing: no row of the attempt's is in the way, only the key. */
static void a_repeat_meets_the_evidence_of_a_commit_in_doubt(void **state)
{
    struct bench *bench = *state;
    const struct attempt_outcome outcome = {
        .attempt = bench->attempt,
        .payment = bench->payment,
        .version = 1,
        .from = ATTEMPT_CREATED,
        .verdict = { .strength = 60, .reason = "says_nothing" },
        .observation = { .kind = OBSERVED_TRANSPORT_LOST,
                         .source = SOURCE_WEBHOOK,
                         .phase = PHASE_ANSWERED,
                         .excerpt = "{}" },
        .evidence = { uuid_new() },
        .event = "webhook",
        .policy_version = "1-test",
    };
    struct sql_call call;
    struct store_result result = { 0 };
    begin_result(bench, &outcome);
    attempt_result_call(&call, &bench->arena, &outcome, 1, "create/test", "stripe-main");
    send_until_it_waits(bench, bench->second, &call);
    commit(bench);
    assert_int_equal(receive(bench->second, &result), STATUS_LOST_RACE); /* not BAD_DATA */
    attempt_result_call(&call, &bench->arena, &outcome, 1, "create/test", "stripe-main");
    assert_int_equal(store_run(bench->second, &call, &result), STATUS_OK);
    store_result_clear(&result);
    assert_int_equal(number(bench, "SELECT count(*) FROM oncepay.evidence WHERE attempt_id = $id"),
                     1);
}

/* Both have seen it CREATED: one sends, and the other leaves it. */
static void two_workers_fence_one_attempt_and_one_sends(void **state)
{
    struct bench *bench = *state;
    const struct fence_input inputs[] = { { bench->attempt, { uuid_new() } },
                                          { bench->attempt, { uuid_new() } } };
    struct sql_call calls[2];
    struct store_result results[2] = { { 0 } };
    struct fence_row *rows = NULL;
    sql_call_begin(&calls[0], STMT_BEGIN, &bench->arena);
    fence_call(&calls[1], &bench->arena, &inputs[0], 1, uuid_new(), "stripe-main", "create/1", 2000,
               37000);
    assert_int_equal(store_run_many(bench->first, calls, 2, results), STATUS_OK);
    assert_int_equal(fence_read(&results[1], &bench->arena, &rows), 1);
    assert_int_equal(rows[0].outcome, FENCE_SENDING);
    for (size_t i = 0; i < 2; i++) store_result_clear(&results[i]);

    struct store_result late = { 0 };
    fence_call(&calls[0], &bench->arena, &inputs[1], 1, uuid_new(), "stripe-main", "create/2", 2000,
               37000);
    send_until_it_waits(bench, bench->second, &calls[0]);
    commit(bench);
    assert_int_equal(receive(bench->second, &late), STATUS_OK);
    assert_int_equal(fence_read(&late, &bench->arena, &rows), 1);
    assert_int_equal(rows[0].outcome, FENCE_NOT_CREATED);
    store_result_clear(&late);
    assert_int_equal(
        number(bench, "SELECT count(*) FROM oncepay.attempt_request WHERE attempt_id = $id"), 1);
}

static int64_t inbox_done(struct bench *bench, struct uuid inbox, int version, struct uuid evidence)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_INBOX_DONE, &bench->arena);
    sql_push_uuid(sql_bind_array(&call, SQL_UUID), inbox);
    sql_push_uuid(sql_bind_array(&call, SQL_UUID), bench->payment.uuid);
    sql_push_uuid(sql_bind_array(&call, SQL_UUID), bench->attempt.uuid);
    sql_push_int4(sql_bind_array(&call, SQL_INT4), version);
    sql_push_uuid(sql_bind_array(&call, SQL_UUID), evidence);
    assert_int_equal(store_run(bench->first, &call, &result), STATUS_OK);
    store_result_clear(&result);
    return pg_fixture_number(
        bench->url, "SELECT count(*) FROM oncepay.webhook_inbox WHERE processed_at IS NOT NULL");
}

/* The same version was made by somebody else's evidence: the event waits to be judged again. */
static void a_webhook_that_lost_its_move_is_not_done(void **state)
{
    struct bench *bench = *state;
    const struct uuid inbox = uuid_new();
    const struct uuid proof = uuid_new();
    char text[UUID_TEXT_SIZE];
    pg_fixture_run(bench->url,
                   arena_format(&bench->arena,
                                "INSERT INTO oncepay.webhook_inbox (id, channel_account, event_id,"
                                " kind, digest, excerpt) VALUES ('%s', 'a', 'evt_1', 12, '', '{}')",
                                uuid_format(inbox, text)));
    pg_fixture_run(bench->url, arena_format(&bench->arena,
                                            "SELECT test.move_attempt(id, 20, 1, '%s', NULL)"
                                            " FROM oncepay.payment_attempt",
                                            uuid_format(proof, text)));
    assert_int_equal(inbox_done(bench, inbox, 2, uuid_new()), 0);
    assert_int_equal(inbox_done(bench, inbox, 3, proof), 0);
    assert_int_equal(inbox_done(bench, inbox, 2, proof), 1);
}

/* In UNKNOWN after its fence, with a task. */
static void open_unknown(struct bench *bench)
{
    static const struct attempt_news DOUBT = { .to = ATTEMPT_UNKNOWN,
                                               .source = SOURCE_TRANSPORT,
                                               .closure = CLOSURE_OPEN };
    payment_rows_send(bench->url, bench->attempt, 0);
    (void)payment_rows_news(bench->url, bench->attempt, &DOUBT);
    pg_fixture_run(bench->url,
                   "INSERT INTO oncepay.recovery_task (id, payment_id, attempt_id,"
                   " channel_account, method_type, operation, amount, currency, purpose, status,"
                   " due_at, stored_error, policy_version, version) SELECT gen_random_uuid(),"
                   " payment_id, id, channel_account, 'card', 1, 1099, 'EUR', 1, 10, now(), false,"
                   " '1-test', 1 FROM oncepay.payment_attempt");
}

static struct attempt_outcome decline(const struct bench *bench, int32_t task_version)
{
    return (struct attempt_outcome){
        .attempt = bench->attempt,
        .payment = bench->payment,
        .version =
            (int32_t)number(bench, "SELECT version FROM oncepay.payment_attempt WHERE id = $id"),
        .from = ATTEMPT_UNKNOWN,
        .verdict = { .changes = true,
                     .next_state = ATTEMPT_FAILED,
                     .certainty = CERTAINTY_DEFINITE_FAILURE,
                     .proves = CERTAINTY_DEFINITE_FAILURE,
                     .strength = 50,
                     .rests_on_requests = true,
                     .reason = "declined" },
        .observation = { .kind = OBSERVED_DECLINED,
                         .source = SOURCE_WEBHOOK,
                         .phase = PHASE_PARSED,
                         .provider_object = "pi_1",
                         .decline = DECLINE_GENERIC,
                         .excerpt = "{}" },
        .evidence = { uuid_new() },
        .event = "webhook.failed",
        .task_version = task_version,
        .policy_version = "1-test",
    };
}

/*
 * Protocol B1: where failures are not kept, a decline proves something only as long as no further
 * request is open. A replay that was claimed since it was judged is seen, although the claim does
 * not touch the attempt: both write the task.
 */
static void an_end_that_rests_on_requests_sees_a_claim(void **state)
{
    struct bench *bench = *state;
    struct sql_call call;
    struct store_result result = { 0 };
    open_unknown(bench);
    PGconn *recover = PQconnectdb(bench->url);
    execute(recover, "BEGIN");
    execute(recover, "UPDATE oncepay.recovery_task SET status = 20, version = version + 1");
    execute(recover, "INSERT INTO oncepay.attempt_request (payment_id, id, attempt_id, kind,"
                     " send_by, worker) SELECT payment_id, gen_random_uuid(), id, 2,"
                     " now() + interval '2 s', 'recover/test' FROM oncepay.payment_attempt");
    const struct attempt_outcome judged_before = decline(bench, 1);
    attempt_result_call(&call, &bench->arena, &judged_before, 1, "recover/test", "stripe-main");
    send_until_it_waits(bench, bench->first, &call);
    execute(recover, "COMMIT");
    PQfinish(recover);
    assert_int_equal(receive(bench->first, &result), STATUS_LOST_RACE);
    assert_int_equal(number(bench, "SELECT status FROM oncepay.payment_attempt WHERE id = $id"),
                     ATTEMPT_UNKNOWN);

    /* Also when the claim was committed long before; and read afresh it may end. */
    attempt_result_call(&call, &bench->arena, &judged_before, 1, "recover/test", "stripe-main");
    assert_int_equal(store_run(bench->first, &call, &result), STATUS_LOST_RACE);
    const struct attempt_outcome judged_after = decline(bench, 2);
    attempt_result_call(&call, &bench->arena, &judged_after, 1, "recover/test", "stripe-main");
    assert_int_equal(store_run(bench->first, &call, &result), STATUS_OK);
    assert_int_equal(result_rows(&result), 1);
    store_result_clear(&result);
    assert_int_equal(number(bench, "SELECT status FROM oncepay.payment_attempt WHERE id = $id"),
                     ATTEMPT_FAILED);
    assert_int_equal(number(bench, "SELECT count(*) FROM oncepay.recovery_task"
                                   " WHERE attempt_id = $id AND status <> 50"),
                     0);
}

static size_t count_picked(struct bench *bench)
{
    struct task_due due = { .attempt = bench->attempt };
    struct sql_call call;
    struct store_result result = { 0 };
    struct task_row *rows = NULL;
    char *task = pg_fixture_text(bench->url, "SELECT id FROM oncepay.recovery_task");
    assert_true(uuid_parse(task, &due.task.uuid));
    free(task);
    task_pick_call(&call, &bench->arena, &due, 1, true, 30000);
    assert_int_equal(store_run(bench->first, &call, &result), STATUS_OK);
    const size_t count = task_pick_read(&result, &bench->arena, &rows);
    store_result_clear(&result);
    return count;
}

/* Both have heard that it is due, and one was faster: its lease runs (protocol G). */
static void a_task_that_was_due_is_not_picked_under_a_lease(void **state)
{
    struct bench *bench = *state;
    open_unknown(bench);
    assert_int_equal(count_picked(bench), 1);
    pg_fixture_run(bench->url, "UPDATE oncepay.recovery_task SET status = 20,"
                               " due_at = now() + interval '45 s', version = version + 1");
    assert_int_equal(count_picked(bench), 0);
    pg_fixture_run(bench->url, "UPDATE oncepay.recovery_task SET due_at = now(),"
                               " version = version + 1");
    assert_int_equal(count_picked(bench), 1);
}

#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_local_end_takes_an_attempt_that_was_away_and_came_back),
        BENCH_TEST(a_repeat_meets_the_evidence_of_a_commit_in_doubt),
        BENCH_TEST(two_workers_fence_one_attempt_and_one_sends),
        BENCH_TEST(a_webhook_that_lost_its_move_is_not_done),
        BENCH_TEST(an_end_that_rests_on_requests_sees_a_claim),
        BENCH_TEST(a_task_that_was_due_is_not_picked_under_a_lease),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
