/*
 * tests/contract/bus_consumer_test.c: the pull loop against a private nats-server that is killed,
 * frozen, emptied and reconfigured under it.
 */
#include "tests/contract/bus_fixture.h"

#include "pipeline/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MANY = 512 };

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

static bool body_is(const struct bus_message *message, const char *text)
{
    return span_equal(message->body, span_of_text(text));
}

/* Takes and acks until each of count bodies "<prefix><n>" was seen; repeats are allowed. */
static size_t work_off(struct bus_fixture *fixture, struct bus_consumer *consumer, size_t count,
                       int64_t timeout_ms)
{
    static bool seen[MANY];
    static struct bus_message messages[64];
    const int64_t until_ms = bus_fixture_now_ms() + timeout_ms;
    size_t done = 0;
    memset(seen, 0, sizeof seen);
    while (done < count && bus_fixture_now_ms() < until_ms) {
        const size_t taken = bus_fixture_take(fixture, consumer, 64, 1, messages, 200);
        for (size_t i = 0; i < taken; i++) {
            char text[16] = { 0 };
            memcpy(text, messages[i].body.data, messages[i].body.length);
            const size_t number = strtoul(text + 1, NULL, 10);
            assert_true(number < MANY);
            if (!seen[number]) done++;
            seen[number] = true;
            bus_ack(&messages[i]);
        }
    }
    return done;
}

static void a_missing_consumer_is_not_ready(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_consumer *consumer = NULL;
    const char *error = NULL;
    assert_int_equal(bus_consumer_open(fixture->bus, &fixture->topology, "WORK", "a",
                                       &fixture->arena, &consumer, &error),
                     STATUS_RETRY);
    assert_non_null(strstr(error, "stream WORK is not ready"));
    bus_fixture_apply(fixture);
    bus_fixture_request(fixture, "$JS.API.CONSUMER.DELETE.WORK.a", "");
    assert_int_equal(bus_consumer_open(fixture->bus, &fixture->topology, "WORK", "a",
                                       &fixture->arena, &consumer, &error),
                     STATUS_RETRY);
    assert_non_null(strstr(error, "consumer a is not ready: consumer not found"));
}

static void a_mismatch_is_refused_with_field_expected_and_found(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_consumer *consumer = NULL;
    const char *error = NULL;
    bus_fixture_apply(fixture);
    fixture->consumers[0].ack_pending_max = 6000;
    assert_int_equal(bus_consumer_open(fixture->bus, &fixture->topology, "WORK", "a",
                                       &fixture->arena, &consumer, &error),
                     STATUS_STOP);
    assert_string_equal(error, "consumer a is not as the topology says: field max_ack_pending: "
                               "expected 6000, found 5000");
    fixture->consumers[0].ack_pending_max = 5000;
    fixture->consumers[0].filter_subject = "work.a.x";
    assert_int_equal(bus_consumer_open(fixture->bus, &fixture->topology, "WORK", "a",
                                       &fixture->arena, &consumer, &error),
                     STATUS_STOP);
    assert_string_equal(error, "consumer a is not as the topology says: field filter_subject: "
                               "expected \"work.a.x\", found \"work.a.*\"");
    fixture->streams[0].messages_max = 9;
    assert_int_equal(bus_consumer_open(fixture->bus, &fixture->topology, "WORK", "b",
                                       &fixture->arena, &consumer, &error),
                     STATUS_STOP);
    assert_string_equal(
        error, "stream WORK is not as the topology says: field max_msgs: expected 9, found 10000");
}

static void a_message_has_body_headers_and_metadata(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    const struct bus_header headers[] = {
        { "TraceParent", "00-1" }, { "x-two", "first" }, { "x-two", "second" }, { "status", "408" }
    };
    const struct bus_outgoing outgoing = { .subject = "work.a.1",
                                           .body = { (const uint8_t *)"a\0b", 3 },
                                           .headers = headers,
                                           .header_count = COUNT_OF(headers),
                                           .message_id = "id-1" };
    const int64_t before_us = clock_real_us();
    bus_publish(fixture->bus, &outgoing, NULL);
    struct bus_message message;
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 5000), 1);
    assert_string_equal(message.subject, "work.a.1");
    assert_memory_equal(message.body.data, "a\0b", 3);
    assert_int_equal(message.body.length, 3);
    assert_string_equal(bus_message_header(&message, "traceparent"), "00-1");
    assert_string_equal(bus_message_header(&message, "Nats-Msg-Id"), "id-1");
    assert_string_equal(bus_message_header(&message, "X-Two"), "first");
    assert_null(bus_message_header(&message, "absent"));
    for (size_t i = 0; i < message.header_count; i++) {
        assert_null(strpbrk(message.headers[i].name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    }
    assert_int_equal(message.header_count, 5);
    assert_int_equal(message.stream_sequence, 1);
    assert_int_equal(message.deliveries, 1);
    assert_true(message.stored_at_us > before_us - 1000000);
    assert_true(message.stored_at_us < clock_real_us() + 1000000);
    assert_null(message.reply);
    bus_ack(&message);
    assert_null(message.handle);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 2000));
}

/* Raw protocol: what a producer could send is data, whatever its headers say. */
static void forged_and_broken_headers_are_data(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    char command[512];
    (void)snprintf(
        command, sizeof command,
        "python3 - <<'END'\n"
        "import socket\n"
        "s = socket.create_connection(('127.0.0.1', %d))\n"
        "s.recv(4096)\n"
        "s.sendall(b'CONNECT {\"user\":\"oncepay\",\"pass\":\"right\",\"headers\":true,"
        "\"verbose\":false}\\r\\n')\n"
        "for head in (b'NATS/1.0 408 gone\\r\\n\\r\\n', b'NATS/1.0\\r\\nno colon\\r\\n\\r\\n'):\n"
        "    s.sendall(b'HPUB work.a.1 %%d %%d\\r\\n%%sx\\r\\n' %% (len(head), len(head) + 1, "
        "head))\n"
        "s.sendall(b'PING\\r\\n'); s.recv(100)\n"
        "END",
        fixture->server.port);
    assert_int_equal(system(command), 0);
    struct bus_message messages[2];
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 2, messages, 5000), 2);
    assert_true(body_is(&messages[0], "x"));
    assert_true(body_is(&messages[1], "x"));
    assert_true(messages[1].headers_malformed);
    bus_ack(&messages[0]);
    bus_ack(&messages[1]);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 2000));
}

/* As in config/nats-users.conf.in: what is delivered to us passes nobody else. */
static void a_merchants_user_hears_none_of_it(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    char command[768];
    (void)snprintf(
        command, sizeof command,
        "timeout 10 python3 - <<'END'\n"
        "import socket, time\n"
        "s = socket.create_connection(('127.0.0.1', %d))\n"
        "s.sendall(b'CONNECT {\"user\":\"m-1\",\"pass\":\"m-1\",\"verbose\":false}\\r\\n')\n"
        "for n, subject in enumerate((b'_INBOX.>', b'oncepay.inbox.>', b'>', b'$JS.>')):\n"
        "    s.sendall(b'SUB %%s %%d\\r\\n' %% (subject, n))\n"
        "s.sendall(b'PUB work.b.1 1\\r\\nx\\r\\n')\n"
        "s.settimeout(3)\n"
        "heard = b''\n"
        "try:\n"
        "    while True: heard += s.recv(65536)\n"
        "except socket.timeout: pass\n"
        "print(heard.count(b'Permissions Violation'), heard.count(b'MSG '))\n"
        "END",
        fixture->server.port);
    FILE *spy = popen(command, "r");
    assert_non_null(spy);
    server_fixture_sleep_ms(1000);
    bus_fixture_publish(fixture, "work.a.1", "m", 20);
    assert_int_equal(work_off(fixture, consumer, 20, 5000), 20);
    char heard[32] = { 0 };
    assert_non_null(fgets(heard, sizeof heard, spy));
    assert_int_equal(pclose(spy), 0);
    assert_string_equal(heard, "5 0\n");
}

static void a_nak_comes_back_after_its_delay(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 1);
    struct bus_message message;
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 5000), 1);
    const int64_t before_ms = bus_fixture_now_ms();
    bus_nak(&message, 400);
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 5000), 1);
    const int64_t waited_ms = bus_fixture_now_ms() - before_ms;
    assert_in_range(waited_ms, 350, 2000);
    assert_int_equal(message.deliveries, 2);
    bus_ack(&message);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 2000));
}

static void a_term_never_comes_back(void **state)
{
    struct bus_fixture *fixture = *state;
    fixture->consumers[0].ack_wait_s = 1;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 1);
    struct bus_message message;
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 5000), 1);
    bus_term(&message);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 2000));
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 1500), 0);
}

static void in_progress_keeps_a_message_in_hand(void **state)
{
    struct bus_fixture *fixture = *state;
    fixture->consumers[0].ack_wait_s = 1;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 1);
    struct bus_message messages[2];
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, messages, 5000), 1);
    for (int i = 0; i < 10; i++) {
        bus_in_progress(&messages[0]);
        assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &messages[1], 300), 0);
    }
    bus_ack(&messages[0]);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 2000));
}

static void no_more_waits_than_is_wanted(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 500);
    struct bus_message message;
    size_t taken = 0;
    const int64_t until_ms = bus_fixture_now_ms() + 20000;
    while (taken < 500 && bus_fixture_now_ms() < until_ms) {
        const size_t want = 1 + taken % 17;
        assert_int_equal(bus_consumer_want(consumer, want), STATUS_OK);
        bus_wait(fixture->bus, 5);
        assert_in_range(bus_consumer_queued(consumer), 0, 17);
        while (taken < 500 && bus_consumer_take(consumer, 1, &message) == 1) {
            bus_ack(&message);
            taken++;
        }
    }
    assert_int_equal(taken, 500);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 2000));
}

/* The owner is busy for seconds (or stopped) while a request is open and 500 messages arrive. */
static void a_busy_owner_is_not_flooded(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    for (int round = 0; round < 3; round++) {
        char prefix[8];
        (void)snprintf(prefix, sizeof prefix, "%c", 'm' + round);
        assert_int_equal(bus_consumer_want(consumer, 100), STATUS_OK);
        bus_fixture_publish(fixture, "work.a.1", prefix, 500);
        server_fixture_sleep_ms(1000 +
                                3000 * (round == 1)); /* once for longer than silence is borne */
        assert_in_range(bus_consumer_queued(consumer), 1, 100);
        assert_int_equal(work_off(fixture, consumer, 500, 10000), 500);
        assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 2000));
    }
    struct bus_stats stats;
    bus_stats(fixture->bus, &stats);
    assert_int_equal(stats.handed_back, 0);
}

static void a_paused_consumer_hands_back_and_goes_on_later(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    assert_int_equal(bus_consumer_want(consumer, 100), STATUS_OK);
    bus_consumer_pause(consumer, true);
    bus_fixture_publish(fixture, "work.a.1", "m", 500);
    for (int i = 0; i < 20; i++) {
        (void)!bus_consumer_want(consumer, 100);
        assert_int_equal(bus_consumer_queued(consumer), 0);
        bus_wait(fixture->bus, 100);
    }
    bus_consumer_pause(consumer, false);
    assert_int_equal(work_off(fixture, consumer, 500, 10000), 500);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 3000));
}

static void a_killed_server_comes_back_and_work_goes_on(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 300);
    static struct bus_message held[10];
    assert_int_equal(bus_fixture_take(fixture, consumer, 64, 10, held, 5000), 10);
    for (int i = 0; i < 3; i++) {
        server_fixture_kill(&fixture->server);
        for (int tick = 0; tick < 5; tick++) {
            bus_wait(fixture->bus, 100);
            (void)!bus_consumer_want(consumer, 64);
        }
        assert_int_equal(bus_consumer_want(consumer, 64), STATUS_RETRY);
        assert_string_equal(bus_consumer_problem(consumer), "not connected to NATS");
        server_fixture_start(&fixture->server);
        assert_true(bus_fixture_wait_connected(fixture, 10000));
        struct bus_message message;
        const int64_t before_ms = bus_fixture_now_ms();
        assert_int_equal(bus_fixture_take(fixture, consumer, 64, 1, &message, 5000), 1);
        assert_in_range(bus_fixture_now_ms() - before_ms, 0, 3000);
        bus_ack(&message);
    }
    for (size_t i = 0; i < COUNT_OF(held); i++) bus_ack(&held[i]); /* older than the connection */
    /* Acks that the server had not written down when it died are redelivered after the ack wait. */
    const int64_t until_ms = bus_fixture_now_ms() + 60000;
    while (!bus_fixture_wait_stored(fixture, "WORK", 0, 500) && bus_fixture_now_ms() < until_ms) {
        (void)work_off(fixture, consumer, 300, 1000);
    }
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 0));
}

static void a_frozen_server_blocks_nobody_for_long(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 100);
    assert_int_equal(bus_consumer_want(consumer, 10), STATUS_OK);
    server_fixture_freeze(&fixture->server);
    for (int i = 0; i < 60; i++) {
        const int64_t before_ms = bus_fixture_now_ms();
        (void)!bus_consumer_want(consumer, 10);
        bus_wait(fixture->bus, 100);
        assert_in_range(bus_fixture_now_ms() - before_ms, 0, 2500);
        assert_in_range(bus_consumer_queued(consumer), 0, 10);
    }
    server_fixture_thaw(&fixture->server);
    assert_true(bus_fixture_wait_connected(fixture, 15000));
    assert_int_equal(work_off(fixture, consumer, 100, 15000), 100);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 3000));
}

static void a_deleted_consumer_is_reported_and_its_successor_served(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    struct bus_message message;
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 300), 0);
    bus_fixture_request(fixture, "$JS.API.CONSUMER.DELETE.WORK.a", "");
    bus_fixture_publish(fixture, "work.a.1", "m", 50);
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 4000), 0);
    assert_int_equal(bus_consumer_want(consumer, 10), STATUS_RETRY);
    assert_string_equal(bus_consumer_problem(consumer), "consumer not found");
    bus_fixture_apply(fixture);
    const int64_t before_ms = bus_fixture_now_ms();
    assert_int_equal(work_off(fixture, consumer, 50, 10000), 50);
    assert_in_range(bus_fixture_now_ms() - before_ms, 0, 5000);
    assert_int_equal(bus_consumer_want(consumer, 10), STATUS_OK);
    assert_string_equal(bus_consumer_problem(consumer), "");
}

static void a_lost_stream_is_served_once_it_is_there_again(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    struct bus_message message;
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 300), 0);
    bus_fixture_request(fixture, "$JS.API.STREAM.DELETE.WORK", "");
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 2000), 0);
    bus_fixture_apply(fixture);
    bus_fixture_publish(fixture, "work.a.1", "m", 50);
    assert_int_equal(work_off(fixture, consumer, 50, 10000), 50);
}

static void another_consumer_under_the_same_name_stops_the_worker(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    struct bus_message message;
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 300), 0);
    bus_fixture_request(fixture, "$JS.API.CONSUMER.DELETE.WORK.a", "");
    fixture->consumers[0].filter_subject = "work.a.x";
    bus_fixture_apply(fixture);
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 4000), 0);
    assert_int_equal(bus_consumer_want(consumer, 10), STATUS_STOP);
    assert_string_equal(bus_consumer_problem(consumer),
                        "consumer a is not as the topology says: field filter_subject: expected "
                        "\"work.a.*\", found \"work.a.x\"");
}

static void a_drain_hands_back_what_was_not_started(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 300);
    static struct bus_message held[10];
    assert_int_equal(bus_fixture_take(fixture, consumer, 100, 10, held, 5000), 10);
    assert_int_equal(bus_consumer_want(consumer, 100), STATUS_OK); /* more is under way now */
    const int64_t before_ms = bus_fixture_now_ms();
    bus_consumer_drain(consumer, 2000);
    assert_in_range(bus_fixture_now_ms() - before_ms, 0, 2000);
    assert_int_equal(bus_consumer_queued(consumer), 0);

    struct bus *other_bus = bus_fixture_connect(fixture);
    struct bus_fixture other = *fixture;
    other.bus = other_bus;
    struct bus_consumer *other_consumer = bus_fixture_consumer(&other, "a");
    assert_int_equal(work_off(&other, other_consumer, 290, 5000),
                     290); /* long before the ack wait */
    for (size_t i = 0; i < COUNT_OF(held); i++) bus_ack(&held[i]);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 2000));
    fixture->arena = other.arena;
    bus_consumer_close(consumer);
    bus_close(other_bus);
}

static void an_end_without_a_server_comes_soon(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    for (int is_frozen = 0; is_frozen <= 1; is_frozen++) {
        struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
        struct bus_consumer *other = bus_fixture_consumer(fixture, "b");
        struct bus_message message;
        bus_fixture_publish(fixture, "work.a.1", is_frozen ? "m" : "n", 5);
        assert_int_equal(bus_fixture_take(fixture, consumer, 10, 1, &message, 5000), 1);
        if (is_frozen) {
            server_fixture_freeze(&fixture->server);
        } else {
            server_fixture_kill(&fixture->server);
        }
        bus_wait(fixture->bus, 300);
        const int64_t before_ms = bus_fixture_now_ms();
        bus_consumer_drain(consumer, 1000);
        bus_consumer_drain(other, 1000);
        bus_nak(&message, 100);
        bus_consumer_close(consumer);
        bus_close(fixture->bus); /* closes the other one, too */
        fixture->bus = NULL;
        assert_in_range(bus_fixture_now_ms() - before_ms, 0, is_frozen ? 8000 : 4000);
        server_fixture_thaw(&fixture->server);
        if (!is_frozen) server_fixture_start(&fixture->server);
        fixture->bus = bus_fixture_connect(fixture);
    }
}

static void a_connection_given_up_after_wrong_passwords_is_made_anew(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 100);
    server_fixture_kill(&fixture->server);
    bus_fixture_password(fixture, "wrong");
    server_fixture_start(&fixture->server);
    for (int i = 0; i < 40; i++) {
        (void)!bus_consumer_want(consumer, 10);
        bus_wait(fixture->bus, 100);
    }
    assert_false(bus_is_connected(fixture->bus));
    server_fixture_kill(&fixture->server);
    bus_fixture_password(fixture, "right");
    server_fixture_start(&fixture->server);
    assert_true(bus_fixture_wait_connected(fixture, 15000));
    assert_int_equal(work_off(fixture, consumer, 100, 10000), 100);
    bus_fixture_publish(fixture, "work.a.1", "n", 10);
    assert_int_equal(work_off(fixture, consumer, 10, 10000), 10);
}

static void lag_is_seen_without_waiting(void **state)
{
    struct bus_fixture *fixture = *state;
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 30);
    struct bus_lag lag;
    bus_consumer_lag(consumer, &lag);
    assert_int_equal(lag.asked_ms_ago, -1);
    static struct bus_message messages[10];
    assert_int_equal(bus_fixture_take(fixture, consumer, 10, 10, messages, 5000), 10);
    for (int i = 0; i < 60; i++) {
        (void)!bus_consumer_want(consumer, 0);
        bus_wait(fixture->bus, 100);
    }
    bus_consumer_lag(consumer, &lag);
    assert_in_range(lag.asked_ms_ago, 0, 6000);
    assert_int_equal(lag.pending + lag.ack_pending, 30);
    for (size_t i = 0; i < COUNT_OF(messages); i++) bus_nak(&messages[i], 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_missing_consumer_is_not_ready, setup, teardown),
        cmocka_unit_test_setup_teardown(a_mismatch_is_refused_with_field_expected_and_found, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_message_has_body_headers_and_metadata, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_and_broken_headers_are_data, setup, teardown),
        cmocka_unit_test_setup_teardown(a_merchants_user_hears_none_of_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_nak_comes_back_after_its_delay, setup, teardown),
        cmocka_unit_test_setup_teardown(a_term_never_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(in_progress_keeps_a_message_in_hand, setup, teardown),
        cmocka_unit_test_setup_teardown(no_more_waits_than_is_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_busy_owner_is_not_flooded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_paused_consumer_hands_back_and_goes_on_later, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_killed_server_comes_back_and_work_goes_on, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_frozen_server_blocks_nobody_for_long, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deleted_consumer_is_reported_and_its_successor_served,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_stream_is_served_once_it_is_there_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(another_consumer_under_the_same_name_stops_the_worker,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_drain_hands_back_what_was_not_started, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_without_a_server_comes_soon, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_given_up_after_wrong_passwords_is_made_anew,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(lag_is_seen_without_waiting, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
