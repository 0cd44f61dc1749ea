/*
 * tests/contract/bus_publish_test.c: every publish has exactly one end, and a repeat with the same
 * message id is stored once, whatever happened to the server meanwhile.
 */
#include "tests/contract/bus_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct bus_fixture fixture;
    bus_fixture_start(&fixture);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    bus_fixture_finish(*state);
    return 0;
}

static int cookie_value;

static void publish(struct bus_fixture *fixture, const char *subject, const char *body,
                    const char *id)
{
    const struct bus_outgoing message = { .subject = subject,
                                          .body = span_of_text(body),
                                          .message_id = id };
    bus_publish(fixture->bus, &message, &cookie_value);
}

static struct bus_result result(struct bus_fixture *fixture, int64_t timeout_ms)
{
    struct bus_result one = { 0 };
    const int64_t until_ms = bus_fixture_now_ms() + timeout_ms;
    while (bus_publish_results(fixture->bus, 1, &one) == 0) {
        assert_true(bus_fixture_now_ms() < until_ms);
        bus_wait(fixture->bus, 100);
    }
    assert_ptr_equal(one.cookie, &cookie_value);
    return one;
}

static void no_more_results(struct bus_fixture *fixture)
{
    struct bus_result one;
    assert_int_equal(bus_publish_results(fixture->bus, 1, &one), 0);
    assert_int_equal(bus_publish_outstanding(fixture->bus), 0);
}

static void a_repeat_with_the_same_id_is_stored_once(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    publish(fixture, "work.a.1", "x", "id-1");
    struct bus_result first = result(fixture, 5000);
    assert_int_equal(first.outcome, BUS_STORED);
    assert_int_equal(first.sequence, 1);
    assert_false(first.duplicate);
    publish(fixture, "work.a.1", "x", "id-1");
    struct bus_result second = result(fixture, 5000);
    assert_int_equal(second.outcome, BUS_STORED);
    assert_int_equal(second.sequence, 1);
    assert_true(second.duplicate);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 1, 1000));
    no_more_results(fixture);
}

static void a_full_stream_refuses_visibly_and_the_repeat_works(void **state)
{
    struct bus_fixture *fixture = *state;
    fixture->streams[0].messages_max = 3;
    bus_fixture_apply(fixture);
    bus_fixture_publish(fixture, "work.a.1", "m", 3);
    publish(fixture, "work.a.1", "x", "id-1");
    struct bus_result refused = result(fixture, 5000);
    assert_int_equal(refused.outcome, BUS_REFUSED_FULL);
    assert_int_equal(refused.error_code, 10077);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    struct bus_message message;
    assert_int_equal(bus_fixture_take(fixture, consumer, 1, 1, &message, 5000), 1);
    bus_ack(&message);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 2, 2000));
    publish(fixture, "work.a.1", "x", "id-1");
    struct bus_result stored = result(fixture, 5000);
    assert_int_equal(stored.outcome, BUS_STORED);
    assert_false(stored.duplicate);
}

static void refusals_have_their_kinds(void **state)
{
    struct bus_fixture *fixture = *state;
    static char big[70000];
    static char huge[2 * 1024 * 1024];
    memset(big, 'x', sizeof big - 1);
    memset(huge, 'x', sizeof huge - 1);
    bus_fixture_apply(fixture);
    publish(fixture, "nowhere.1", "x", "id-1");
    assert_int_equal(result(fixture, 5000).outcome, BUS_REFUSED_NO_STREAM);
    publish(fixture, "work.a.1", big, "id-2"); /* over the stream's limit */
    assert_int_equal(result(fixture, 5000).outcome, BUS_REFUSED_TOO_BIG);
    publish(fixture, "work.a.1", huge, "id-3"); /* over the server's limit */
    assert_int_equal(result(fixture, 5000).outcome, BUS_REFUSED_TOO_BIG);
    const struct bus_outgoing misplaced = { .subject = "work.a.1",
                                            .body = span_of_text("x"),
                                            .message_id = "id-4",
                                            .expected_stream = "LOG" };
    bus_publish(fixture->bus, &misplaced, &cookie_value);
    struct bus_result wrong_stream = result(fixture, 5000);
    assert_int_equal(wrong_stream.outcome, BUS_REFUSED);
    assert_int_equal(wrong_stream.error_code, 10060);
    publish(fixture, "work.a.1", "x", "id-5"); /* the connection survived all that */
    assert_int_equal(result(fixture, 5000).outcome, BUS_STORED);
    no_more_results(fixture);
}

static void what_would_break_the_wire_is_refused_here(void **state)
{
    struct bus_fixture *fixture = *state;
    static const char *const SUBJECTS[] = { "",       "a b",   "a..b", ".a",       "a.",
                                            "work.>", "a.*.b", "a\tb", "a\r\nPUB", "\xc3\xa4" };
    for (size_t i = 0; i < COUNT_OF(SUBJECTS); i++) {
        publish(fixture, SUBJECTS[i], "x", "id");
        assert_int_equal(result(fixture, 100).outcome, BUS_REFUSED);
        const struct bus_outgoing core = { .subject = "ok", .reply = SUBJECTS[i] };
        assert_int_equal(bus_publish_core(fixture->bus, &core), STATUS_BAD_DATA);
    }
    static const struct bus_header HEADERS[] = { { "x", "a\r\nNats-Expected-Stream: LOG" },
                                                 { "x", "a\nb" },
                                                 { "a b", "x" },
                                                 { "a:b", "x" },
                                                 { "", "x" } };
    for (size_t i = 0; i < COUNT_OF(HEADERS); i++) {
        const struct bus_outgoing message = { .subject = "work.a.1",
                                              .headers = &HEADERS[i],
                                              .header_count = 1 };
        assert_int_equal(bus_publish_core(fixture->bus, &message), STATUS_BAD_DATA);
    }
    publish(fixture, "work.a.1", "x", "id\r\nx");
    assert_int_equal(result(fixture, 100).outcome, BUS_REFUSED);
    assert_true(bus_is_connected(fixture->bus));
}

static void no_answer_in_time_is_unknown_and_the_repeat_is_no_second_message(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    server_fixture_freeze(&fixture->server);
    publish(fixture, "work.a.1", "x", "id-1");
    const int64_t before_ms = bus_fixture_now_ms();
    struct bus_result lost = result(fixture, 20000);
    assert_int_equal(lost.outcome, BUS_OUTCOME_UNKNOWN);
    assert_in_range(bus_fixture_now_ms() - before_ms, 4000, 8000);
    server_fixture_thaw(&fixture->server); /* it reads what lay in the socket, and stores it */
    assert_true(bus_fixture_wait_connected(fixture, 15000));
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 1, 5000));
    publish(fixture, "work.a.1", "x", "id-1");
    struct bus_result repeated = result(fixture, 10000);
    assert_int_equal(repeated.outcome, BUS_STORED);
    assert_true(repeated.duplicate);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 1, 1000));
    no_more_results(fixture);
}

static void publish_numbered(struct bus_fixture *fixture, int from, int to)
{
    for (int i = from; i < to; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "id-%d", i);
        publish(fixture, "work.a.1", "x", id);
    }
}

static void a_killed_server_leaves_no_publish_without_an_end(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_stats stats = { 0 };
    publish_numbered(fixture, 0, 1000);
    while (stats.published == 0) bus_stats(fixture->bus, &stats);
    server_fixture_kill(&fixture->server);
    publish_numbered(fixture, 1000, 1500);
    while (bus_is_connected(fixture->bus)) server_fixture_sleep_ms(10);
    publish_numbered(fixture, 1500, 2000);
    assert_int_equal(bus_publish_flush(fixture->bus, 8000), STATUS_OK);
    static struct bus_result results[2001];
    assert_int_equal(bus_publish_results(fixture->bus, 2001, results), 2000);
    size_t stored = 0;
    size_t unsent = 0;
    for (size_t i = 0; i < 2000; i++) {
        stored += results[i].outcome == BUS_STORED;
        unsent += results[i].outcome == BUS_NOT_SENT;
        assert_in_range(results[i].outcome, BUS_STORED, BUS_OUTCOME_UNKNOWN);
    }
    assert_true(stored > 0 && unsent > 0);
    server_fixture_start(&fixture->server);
    assert_true(bus_fixture_wait_connected(fixture, 10000));
    assert_true(bus_fixture_wait_stored(fixture, "LOG", 0, 10000)); /* JetStream is up */
    publish_numbered(fixture, 0, 2000);
    assert_int_equal(bus_publish_flush(fixture->bus, 10000), STATUS_OK);
    assert_int_equal(bus_publish_results(fixture->bus, 2001, results), 2000);
    for (size_t i = 0; i < 2000; i++) assert_int_equal(results[i].outcome, BUS_STORED);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 2000, 5000));
}

static void more_than_can_be_outstanding_is_not_sent(void **state)
{
    struct bus_fixture *fixture = *state;
    fixture->streams[0].messages_max = 100000;
    bus_fixture_apply(fixture);
    server_fixture_freeze(&fixture->server);
    for (int i = 0; i < BUS_OUTSTANDING_MAX + 10; i++) publish(fixture, "work.a.1", "x", NULL);
    size_t unsent = 0;
    for (int i = 0; i < 10; i++) unsent += result(fixture, 100).outcome == BUS_NOT_SENT;
    assert_int_equal(unsent, 10);
    server_fixture_thaw(&fixture->server);
    assert_int_equal(bus_publish_flush(fixture->bus, 10000), STATUS_OK);
    for (int i = 0; i < BUS_OUTSTANDING_MAX; i++) (void)result(fixture, 100);
    no_more_results(fixture);
}

static void core_messages_are_queued_and_the_oldest_give_way(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_subscription *pokes = NULL;
    struct bus_subscription *inbox = NULL;
    char prefix[BUS_INBOX_SIZE];
    char subject[BUS_INBOX_SIZE + 2];
    (void)snprintf(subject, sizeof subject, "%s.*", bus_inbox_new(prefix));
    assert_int_equal(bus_subscription_open(fixture->bus, "oncepay.wake.relay", 2, &pokes),
                     STATUS_OK);
    assert_int_equal(bus_subscription_open(fixture->bus, subject, 10, &inbox), STATUS_OK);
    (void)snprintf(subject, sizeof subject, "%s.7", prefix);
    for (int i = 0; i < 3; i++) {
        char body[8];
        (void)snprintf(body, sizeof body, "%d", i);
        const struct bus_header header = { "content-type", "text/plain" };
        const struct bus_outgoing poke = { .subject = "oncepay.wake.relay",
                                           .body = span_of_text(body),
                                           .headers = &header,
                                           .header_count = 1,
                                           .reply = subject };
        assert_int_equal(bus_publish_core(fixture->bus, &poke), STATUS_OK);
    }
    const struct bus_outgoing answer = { .subject = subject, .body = span_of_text("answer") };
    assert_int_equal(bus_publish_core(fixture->bus, &answer), STATUS_OK);
    struct bus_message messages[4];
    const int64_t until_ms = bus_fixture_now_ms() + 5000;
    while (bus_subscription_take(inbox, 4, messages) == 0) {
        assert_true(bus_fixture_now_ms() < until_ms);
        bus_wait(fixture->bus, 100);
    }
    assert_memory_equal(messages[0].body.data, "answer", 6);
    bus_release(&messages[0]);
    struct bus_stats stats = { 0 };
    while (stats.core_dropped == 0 && bus_fixture_now_ms() < until_ms) {
        bus_stats(fixture->bus, &stats);
    }
    assert_int_equal(bus_subscription_take(pokes, 4, messages), 2);
    assert_memory_equal(messages[0].body.data, "1", 1);
    assert_memory_equal(messages[1].body.data, "2", 1);
    assert_string_equal(messages[1].reply, subject);
    assert_string_equal(bus_message_header(&messages[1], "Content-Type"), "text/plain");
    bus_release(&messages[0]);
    bus_release(&messages[1]);
    assert_int_equal(stats.core_dropped, 1);
    bus_subscription_close(pokes);
    bus_subscription_close(inbox);
}

static void connecting_ends_when_asked_and_refuses_nonsense(void **state)
{
    struct bus_fixture *fixture = *state;
    static volatile sig_atomic_t stop;
    struct bus *bus = NULL;
    const char *error = NULL;
    struct bus_options options = { .url = "http://127.0.0.1:1", .name = "x" };
    assert_int_equal(bus_connect(&options, &bus, &error), STATUS_STOP);
    assert_string_equal(error, "the NATS address must begin with nats:// or tls://");
    options.url = "tls://127.0.0.1:1";
    assert_int_equal(bus_connect(&options, &bus, &error), STATUS_STOP);
    stop = 1;
    options.url = "nats://127.0.0.1:1";
    options.stop = &stop;
    assert_int_equal(bus_connect(&options, &bus, &error), STATUS_RETRY);
    (void)fixture;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_repeat_with_the_same_id_is_stored_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_stream_refuses_visibly_and_the_repeat_works, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(refusals_have_their_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(what_would_break_the_wire_is_refused_here, setup, teardown),
        cmocka_unit_test_setup_teardown(
            no_answer_in_time_is_unknown_and_the_repeat_is_no_second_message, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_server_leaves_no_publish_without_an_end, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(more_than_can_be_outstanding_is_not_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(core_messages_are_queued_and_the_oldest_give_way, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(connecting_ends_when_asked_and_refuses_nonsense, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
