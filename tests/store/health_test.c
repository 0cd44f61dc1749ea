/*
 * tests/store/health_test.c: health: parts that wait, and gauges from small tables that never make
 * a scrape hang.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pipeline/clock.h"
#include "pipeline/metrics.h"
#include "stages/health.h"
#include "tests/support/pg_fixture.h"
#include "tests/support/raw_http.h"

static struct pg_fixture *fixture;

static int start_all(void **state)
{
    (void)state;
    fixture = pg_fixture_start();
    return 0;
}

static int stop_all(void **state)
{
    (void)state;
    pg_fixture_stop(fixture);
    return 0;
}

static struct health *open_on(struct store *gauges)
{
    const struct health_options options = {
        .program = "oncepay-test",
        .address = "127.0.0.1",
        .gauges = gauges,
        .stuck_after_s = 60,
    };
    struct health *health = health_open(&options);
    assert_non_null(health);
    return health;
}

static struct raw_http_answer get(struct health *health, const char *path, struct arena *arena)
{
    return raw_http(health_port(health), "GET", path, NULL, (struct span){ NULL, 0 }, arena);
}

static void ready_says_what_is_waited_for(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct health *health = open_on(NULL);
    assert_int_equal(get(health, "/readyz", &arena).status, 200);
    health_set(health, "postgres", "connection refused");
    health_set(health, "consumer", "");
    struct raw_http_answer answer = get(health, "/readyz", &arena);
    assert_int_equal(answer.status, 503);
    assert_string_equal(answer.body, "postgres: connection refused\n");
    assert_false(health_is_ready(health));
    assert_int_equal(get(health, "/livez", &arena).status, 200);
    health_set(health, "postgres", NULL);
    answer = get(health, "/readyz", &arena);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "ok\n");
    assert_int_equal(get(health, "/elsewhere", &arena).status, 404);
    assert_int_equal(
        raw_http(health_port(health), "POST", "/livez", NULL, span_of_text("x"), &arena).status,
        405);
    health_close(health);
    arena_finish(&arena);
}

#define TASK(n, account, currency, amount, status, minutes)                                        \
    "INSERT INTO oncepay.recovery_task (id, payment_id, attempt_id, channel_account, method_type," \
    " operation, amount, currency, purpose, status, due_at, policy_version, first_unknown_at,"     \
    " created_at, version) VALUES ('00000000-0000-7000-8000-0000000000" n "',"                     \
    " '00000000-0000-7000-8000-0000000001" n "', '00000000-0000-7000-8000-0000000002" n            \
    "', '" account "', 'card', 1, " amount ", '" currency "', 1, " status ", now(), 'v',"          \
    " now() - interval '" minutes " minutes', now() - interval '" minutes " minutes', 1);"

/* An attempt in UNKNOWN without its history: the guards are off for this arrangement. */
#define ATTEMPT(n, status)                                                                         \
    "INSERT INTO oncepay.payment_attempt (id, payment_id, operation, number, ordinal,"             \
    " channel_account, method_type, amount, currency, provider_key, request_hash, request_bytes,"  \
    " status, certainty, version, history_hash) VALUES"                                            \
    " ('00000000-0000-7000-8000-0000000002" n "', '00000000-0000-7000-8000-0000000001" n           \
    "', 1, 1,"                                                                                     \
    " 1, 'a', 'card', 1, 'EUR', 'k" n "', sha256(''), '', " status ", 1, 1, '');"

static void gauges_come_from_small_tables(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    const char *url = pg_fixture_database(fixture);
    pg_fixture_run(url, "SET session_replication_role = replica;" ATTEMPT("01", "40")
                            ATTEMPT("02", "40") ATTEMPT("03", "30") ATTEMPT("04", "50")
                                TASK("01", "main", "EUR", "100", "10", "5")
                                    TASK("02", "main", "USD", "250", "40", "10")
                                        TASK("03", "main", "EUR", "999", "10", "20")
                                            TASK("04", "main", "EUR", "7", "50", "90"));
    pg_fixture_run(
        url, "INSERT INTO oncepay.stuck_command (kind, entity_id, version, payment_id, subject,"
             " stage, channel_account, state, since, emitted_at, next_at)"
             " SELECT 1, p, 0, p, 'pay.route.1', 'route', '', 10, now() - a * interval '1 s',"
             " now(), now() FROM (VALUES (gen_random_uuid(), 61), (gen_random_uuid(), 99),"
             " (gen_random_uuid(), 5)) AS v(p, a);"
             "INSERT INTO oncepay.fence_batch (id, channel_account, worker, attempts, due_at)"
             " VALUES (gen_random_uuid(), 'main', 'w', ARRAY[gen_random_uuid(),"
             " gen_random_uuid()], now() - interval '2 minutes')");
    struct health *health = open_on(pg_fixture_store(url));
    const struct raw_http_answer answer = get(health, "/metrics", &arena);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, "oncepay_build_info{"));
    const char *const *main_card = METRICS_LABELS("main", "card");
    assert_int_equal(metrics_value(METRIC_UNKNOWN_OPEN, main_card), 2);
    assert_int_equal(metrics_value(METRIC_UNKNOWN_AMOUNT, METRICS_LABELS("main", "EUR")), 100);
    assert_int_equal(metrics_value(METRIC_UNKNOWN_AMOUNT, METRICS_LABELS("main", "USD")), 250);
    assert_true(metrics_value(METRIC_UNKNOWN_OLDEST, NULL) >= 10 * 60 * CLOCK_SECOND_US);
    assert_true(metrics_value(METRIC_UNKNOWN_OLDEST, NULL) < 20 * 60 * CLOCK_SECOND_US);
    assert_true(metrics_value(METRIC_RECOVERY_OLDEST_AGE, main_card) >= 20 * 60 * CLOCK_SECOND_US);
    assert_int_equal(metrics_value(METRIC_PAYMENT_STUCK, METRICS_LABELS("CREATED")), 2);
    assert_int_equal(metrics_value(METRIC_PAYMENT_STUCK, METRICS_LABELS("SENDING")), 2);
    health_close(health);
    arena_finish(&arena);
}

static void scrape_answers_without_a_database(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct health *health = open_on(pg_fixture_store("postgresql://nobody@127.0.0.1:1/none"));
    const int64_t before_us = clock_monotonic_us();
    assert_int_equal(get(health, "/metrics", &arena).status, 200);
    assert_int_equal(get(health, "/livez", &arena).status, 200);
    assert_true(clock_monotonic_us() - before_us < 3 * CLOCK_SECOND_US);
    health_close(health);
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_says_what_is_waited_for),
        cmocka_unit_test(gauges_come_from_small_tables),
        cmocka_unit_test(scrape_answers_without_a_database),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
