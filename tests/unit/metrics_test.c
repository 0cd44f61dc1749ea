/* tests/unit/metrics_test.c: counting from many threads, bounded labels, and the text format. */
#include "pipeline/metrics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int forget(void **state)
{
    (void)state;
    metrics_reset();
    return 0;
}

static void assert_rendered(const char *piece)
{
    size_t length = 0;
    char *text = metrics_render(&length);
    assert_int_equal(strlen(text), length);
    const bool is_there = strstr(text, piece) != NULL;
    if (!is_there) print_error("%s", text);
    free(text);
    assert_true(is_there);
}

static void what_nobody_touched_is_not_shown(void **state)
{
    (void)state;
    size_t length = 0;
    char *text = metrics_render(&length);
    assert_string_equal(text, "");
    free(text);
}

static void counters_and_gauges_have_help_type_and_labels(void **state)
{
    (void)state;
    metrics_add(METRIC_STAGE_MESSAGES, 2, METRICS_LABELS("intake", "ack"));
    metrics_add(METRIC_STAGE_MESSAGES, 3, METRICS_LABELS("intake", "ack"));
    metrics_add(METRIC_IDEMPOTENCY_HITS, 1, NULL);
    metrics_set(METRIC_UNKNOWN_AMOUNT, INT64_MAX, METRICS_LABELS("stripe-main", "EUR"));
    assert_rendered("# HELP oncepay_stage_messages_total Messages disposed of, by verdict.\n"
                    "# TYPE oncepay_stage_messages_total counter\n"
                    "oncepay_stage_messages_total{stage=\"intake\",verdict=\"ack\"} 5\n");
    assert_rendered("# TYPE oncepay_idempotency_hits_total counter\n"
                    "oncepay_idempotency_hits_total 1\n");
    assert_rendered("oncepay_unknown_amount_minor{account=\"stripe-main\",currency=\"EUR\"} "
                    "9223372036854775807\n");
    assert_int_equal(metrics_value(METRIC_STAGE_MESSAGES, METRICS_LABELS("intake", "ack")), 5);
    assert_int_equal(metrics_value(METRIC_STAGE_MESSAGES, METRICS_LABELS("route", "ack")), 0);
}

static void times_are_seconds_with_six_places(void **state)
{
    (void)state;
    metrics_set(METRIC_UNKNOWN_OLDEST, 1500000, NULL);
    assert_rendered("oncepay_unknown_oldest_seconds 1.500000\n");
    metrics_set(METRIC_UNKNOWN_OLDEST, -1, NULL);
    assert_rendered("oncepay_unknown_oldest_seconds -0.000001\n");
}

static void histograms_are_cumulative(void **state)
{
    (void)state;
    static const int64_t VALUES_US[] = { 0, 500, 501, 2000000, 40000000 };
    for (size_t i = 0; i < COUNT_OF(VALUES_US); i++) {
        metrics_observe(METRIC_STAGE_BATCH, VALUES_US[i], NULL);
    }
    assert_rendered("# TYPE oncepay_stage_batch_seconds histogram\n"
                    "oncepay_stage_batch_seconds_bucket{le=\"0.0005\"} 2\n"
                    "oncepay_stage_batch_seconds_bucket{le=\"0.001\"} 3\n");
    assert_rendered("oncepay_stage_batch_seconds_bucket{le=\"1\"} 3\n"
                    "oncepay_stage_batch_seconds_bucket{le=\"2.5\"} 4\n");
    assert_rendered("oncepay_stage_batch_seconds_bucket{le=\"30\"} 4\n"
                    "oncepay_stage_batch_seconds_bucket{le=\"+Inf\"} 5\n"
                    "oncepay_stage_batch_seconds_sum 42.001001\n"
                    "oncepay_stage_batch_seconds_count 5\n");
    metrics_observe(METRIC_PSP_REQUEST, 1, METRICS_LABELS("a", "create", "ok"));
    assert_rendered("oncepay_psp_request_seconds_bucket{account=\"a\",operation=\"create\","
                    "outcome=\"ok\",le=\"0.0005\"} 1\n");
}

static void label_values_are_escaped_and_cut(void **state)
{
    (void)state;
    char long_value[100];
    memset(long_value, 'x', sizeof long_value - 1);
    long_value[sizeof long_value - 1] = '\0';
    metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS("a\"b\\c\nd"));
    assert_rendered("oncepay_requests_total{endpoint=\"a\\\"b\\\\c\\nd\"} 1\n");
    metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS(long_value));
    long_value[70] = 'y'; /* behind the cut: the same series */
    metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS(long_value));
    assert_int_equal(metrics_value(METRIC_REQUESTS, METRICS_LABELS(long_value)), 2);
    metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS(NULL));
    assert_rendered("oncepay_requests_total{endpoint=\"\"} 1\n");
}

static void a_gauge_that_lost_its_subject_reads_zero(void **state)
{
    (void)state;
    metrics_set(METRIC_UNKNOWN_OPEN, 3, METRICS_LABELS("a", "card"));
    metrics_set(METRIC_UNKNOWN_OPEN, 4, METRICS_LABELS("b", "card"));
    metrics_zero(METRIC_UNKNOWN_OPEN);
    metrics_set(METRIC_UNKNOWN_OPEN, 5, METRICS_LABELS("b", "card"));
    assert_rendered("oncepay_unknown_open{account=\"a\",method=\"card\"} 0\n");
    assert_rendered("oncepay_unknown_open{account=\"b\",method=\"card\"} 5\n");
}

static void too_many_series_are_counted_together(void **state)
{
    (void)state;
    for (int i = 0; i < METRICS_SERIES_MAX + 88; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "e%d", i);
        metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS(name));
    }
    assert_int_equal(metrics_value(METRIC_REQUESTS, METRICS_LABELS("e0")), 1);
    assert_int_equal(metrics_value(METRIC_REQUESTS, METRICS_LABELS("other")), 88);
}

enum { THREAD_COUNT = 4, ROUNDS = 20000 };

static void *count(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "a%d", i % 100);
        metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS(name));
        metrics_observe(METRIC_STAGE_BATCH, i, NULL);
    }
    return unused;
}

static void threads_lose_no_count(void **state)
{
    (void)state;
    pthread_t threads[THREAD_COUNT];
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    }
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        size_t length;
        free(metrics_render(&length)); /* while they count */
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "a%d", i);
        assert_int_equal(metrics_value(METRIC_REQUESTS, METRICS_LABELS(name)),
                         THREAD_COUNT * ROUNDS / 100);
    }
    assert_rendered("oncepay_stage_batch_seconds_count 80000\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_nobody_touched_is_not_shown, forget),
        cmocka_unit_test_setup(counters_and_gauges_have_help_type_and_labels, forget),
        cmocka_unit_test_setup(times_are_seconds_with_six_places, forget),
        cmocka_unit_test_setup(histograms_are_cumulative, forget),
        cmocka_unit_test_setup(label_values_are_escaped_and_cut, forget),
        cmocka_unit_test_setup(a_gauge_that_lost_its_subject_reads_zero, forget),
        cmocka_unit_test_setup(too_many_series_are_counted_together, forget),
        cmocka_unit_test_setup(threads_lose_no_count, forget),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
