/*
 * tests/contract/bus_topology_test.c: apply is idempotent, says what it changed, never lets two
 * consumers of a work queue meet, and JetStream's API is read right.
 */
#include "tests/contract/bus_fixture.h"

#include "config/config.h"
#include "pipeline/clock.h"

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

static enum status apply(struct bus_fixture *fixture, enum bus_apply mode,
                         struct bus_report *out_report)
{
    enum status status = STATUS_RETRY;
    for (int i = 0; status == STATUS_RETRY && i < 50; i++) {
        if (i > 0) server_fixture_sleep_ms(100);
        status =
            bus_topology_apply(fixture->bus, &fixture->topology, mode, &fixture->arena, out_report);
    }
    return status;
}

static size_t count_of(const struct bus_report *report, enum bus_change_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < report->change_count; i++) count += report->changes[i].kind == kind;
    return count;
}

static const struct bus_change *first_of(const struct bus_report *report, enum bus_change_kind kind)
{
    for (size_t i = 0; i < report->change_count; i++) {
        if (report->changes[i].kind == kind) return &report->changes[i];
    }
    return NULL;
}

static void apply_creates_once_and_then_finds_nothing_to_do(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    assert_int_equal(apply(fixture, BUS_APPLY_PLAN, &report), STATUS_OK);
    assert_int_equal(count_of(&report, BUS_CHANGE_CREATE), 5);
    assert_int_equal(apply(fixture, BUS_APPLY_ALL, &report), STATUS_OK);
    assert_int_equal(count_of(&report, BUS_CHANGE_CREATE), 5);
    assert_int_equal(apply(fixture, BUS_APPLY_ALL, &report), STATUS_OK);
    assert_int_equal(report.change_count, 5);
    assert_int_equal(count_of(&report, BUS_CHANGE_NONE), 5);
}

static void a_difference_is_named_and_only_updated_when_all_is_applied(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    bus_fixture_apply(fixture);
    fixture->streams[0].messages_max = 7;
    fixture->consumers[1].ack_pending_max = 70;
    for (int mode = BUS_APPLY_PLAN; mode <= BUS_APPLY_MISSING; mode++) {
        assert_int_equal(apply(fixture, (enum bus_apply)mode, &report), STATUS_OK);
        assert_int_equal(count_of(&report, BUS_CHANGE_UPDATE), 2);
        const struct bus_change *change = first_of(&report, BUS_CHANGE_UPDATE);
        assert_string_equal(change->stream, "WORK");
        assert_null(change->durable);
        assert_int_equal(change->difference_count, 1);
        assert_string_equal(change->differences[0].field, "max_msgs");
        assert_string_equal(change->differences[0].expected, "7");
        assert_string_equal(change->differences[0].found, "10000");
    }
    assert_int_equal(apply(fixture, BUS_APPLY_ALL, &report), STATUS_OK);
    assert_int_equal(count_of(&report, BUS_CHANGE_UPDATE), 2);
    assert_int_equal(apply(fixture, BUS_APPLY_PLAN, &report), STATUS_OK);
    assert_int_equal(count_of(&report, BUS_CHANGE_NONE), 5);
}

static void only_what_is_missing_comes_back_in_the_relays_mode(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    bus_fixture_apply(fixture);
    bus_fixture_request(fixture, "$JS.API.STREAM.DELETE.WORK", "");
    fixture->streams[1].messages_max = 5;
    assert_int_equal(apply(fixture, BUS_APPLY_MISSING, &report), STATUS_OK);
    assert_int_equal(count_of(&report, BUS_CHANGE_CREATE), 3);
    fixture->streams[1].messages_max = 10000;
    assert_int_equal(apply(fixture, BUS_APPLY_PLAN, &report), STATUS_OK);
    assert_int_equal(count_of(&report, BUS_CHANGE_NONE), 5);
}

static void what_the_server_refuses_is_reported(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    bus_fixture_apply(fixture);
    fixture->streams[1].retention = BUS_WORK_QUEUE; /* cannot be changed */
    assert_int_equal(apply(fixture, BUS_APPLY_ALL, &report), STATUS_STOP);
    const struct bus_change *change = first_of(&report, BUS_CHANGE_REFUSED);
    assert_string_equal(change->stream, "LOG");
    assert_non_null(strstr(change->text, "retention"));
}

static void overlapping_filters_are_refused_before_anything_is_touched(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    fixture->consumers[1].filter_subject = "work.a.1";
    assert_int_equal(apply(fixture, BUS_APPLY_ALL, &report), STATUS_STOP);
    assert_int_equal(report.change_count, 1);
    assert_string_equal(report.changes[0].text,
                        "consumers a and b of WORK could get the same message");
    struct bus_stream_info info;
    assert_int_equal(bus_stream_info(fixture->bus, "WORK", &fixture->arena, &info),
                     STATUS_NOT_FOUND);
}

static void a_stranger_is_named_and_one_that_takes_our_messages_is_refused(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    bus_fixture_apply(fixture);
    bus_fixture_request(fixture, "$JS.API.CONSUMER.DELETE.WORK.b", "");
    bus_fixture_request(fixture, "$JS.API.CONSUMER.DURABLE.CREATE.WORK.stranger",
                        "{\"stream_name\":\"WORK\",\"config\":{\"durable_name\":\"stranger\","
                        "\"ack_policy\":\"explicit\",\"filter_subject\":\"work.b.9\"}}");
    fixture->topology.consumer_count = 1;
    assert_int_equal(apply(fixture, BUS_APPLY_ALL, &report), STATUS_OK);
    const struct bus_change *change = first_of(&report, BUS_CHANGE_UNKNOWN_CONSUMER);
    assert_string_equal(change->durable, "stranger");
    fixture->topology.consumer_count = 2;
    assert_int_equal(apply(fixture, BUS_APPLY_PLAN, &report), STATUS_STOP);
    assert_non_null(
        strstr(first_of(&report, BUS_CHANGE_REFUSED)->text, "takes messages from consumer b"));
}

static void a_consumer_with_settings_of_somebody_else_is_a_difference(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    bus_fixture_apply(fixture);
    bus_fixture_request(fixture, "$JS.API.CONSUMER.DELETE.WORK.b", "");
    bus_fixture_request(fixture, "$JS.API.CONSUMER.DURABLE.CREATE.WORK.b",
                        "{\"stream_name\":\"WORK\",\"config\":{\"durable_name\":\"b\","
                        "\"ack_policy\":\"explicit\",\"filter_subject\":\"work.b.*\","
                        "\"max_deliver\":-1,\"max_ack_pending\":5000,\"ack_wait\":30000000000,"
                        "\"inactive_threshold\":60000000000}}");
    assert_int_equal(apply(fixture, BUS_APPLY_PLAN, &report), STATUS_OK);
    const struct bus_change *change = first_of(&report, BUS_CHANGE_UPDATE);
    assert_string_equal(change->durable, "b");
    assert_int_equal(change->difference_count, 1);
    assert_string_equal(change->differences[0].field, "inactive_threshold");
    assert_string_equal(change->differences[0].expected, "absent");
}

/* As a disk that was full leaves it: messages and their numbers are gone, the places are not. */
static void lose_messages_of_work(struct bus_fixture *fixture)
{
    struct bus_stream_info info = { .last_sequence = 1 };
    enum status status = STATUS_RETRY;
    server_fixture_stop(&fixture->server);
    server_fixture_remove(&fixture->server, "store/jetstream/PAY/streams/WORK/msgs");
    server_fixture_start(&fixture->server);
    assert_true(bus_fixture_wait_connected(fixture, 10000));
    for (int i = 0; status != STATUS_OK && i < 50; i++) { /* JetStream starts after the port */
        if (i > 0) server_fixture_sleep_ms(100);
        status = bus_stream_info(fixture->bus, "WORK", &fixture->arena, &info);
    }
    assert_int_equal(info.last_sequence, 0);
}

static void a_consumer_beyond_the_end_of_its_stream_is_made_anew(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    struct bus_message messages[4];
    bus_fixture_apply(fixture);
    struct bus_consumer *consumer = bus_fixture_consumer(fixture, "a");
    bus_fixture_publish(fixture, "work.a.1", "m", 3);
    assert_int_equal(bus_fixture_take(fixture, consumer, 4, 3, messages, 5000), 3);
    for (size_t i = 0; i < 3; i++) bus_ack(&messages[i]);
    assert_true(bus_fixture_wait_stored(fixture, "WORK", 0, 5000));
    lose_messages_of_work(fixture);
    bus_fixture_publish(fixture, "work.a.1", "n", 1);
    assert_int_equal(apply(fixture, BUS_APPLY_PLAN, &report), STATUS_OK);
    assert_int_equal(count_of(&report, BUS_CHANGE_BEYOND_END), 1);
    assert_int_equal(bus_fixture_take(fixture, consumer, 4, 1, messages, 1500), 0);
    assert_int_equal(apply(fixture, BUS_APPLY_MISSING, &report), STATUS_OK);
    assert_string_equal(first_of(&report, BUS_CHANGE_BEYOND_END)->durable, "a");
    assert_int_equal(bus_fixture_take(fixture, consumer, 4, 1, messages, 10000), 1);
    bus_ack(&messages[0]);
    assert_int_equal(apply(fixture, BUS_APPLY_MISSING, &report), STATUS_OK);
    assert_int_equal(count_of(&report, BUS_CHANGE_NONE), 5);
    bus_consumer_close(consumer);
}

static void stored_messages_are_found_by_subject(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_stored stored;
    struct bus_stream_info info;
    struct bus_consumer_info consumer;
    bus_fixture_apply(fixture);
    assert_int_equal(bus_stream_find(fixture->bus, "WORK", "work.a.1", 0, &fixture->arena, &stored),
                     STATUS_NOT_FOUND);
    const int64_t before_us = clock_real_us();
    bus_fixture_publish(fixture, "work.a.1", "m", 3);
    bus_fixture_publish(fixture, "work.b.1", "n", 2);
    bus_fixture_publish(fixture, "work.a.2", "o", 1);
    assert_int_equal(bus_stream_find(fixture->bus, "WORK", "work.a.1", 0, &fixture->arena, &stored),
                     STATUS_OK);
    assert_int_equal(stored.sequence, 1);
    assert_string_equal(stored.message_id, "m0");
    assert_in_range(stored.stored_at_us - before_us, 0, 5000000);
    assert_int_equal(bus_stream_find(fixture->bus, "WORK", "work.b.*", 5, &fixture->arena, &stored),
                     STATUS_OK);
    assert_int_equal(stored.sequence, 5);
    assert_string_equal(stored.subject, "work.b.1");
    assert_int_equal(bus_stream_find(fixture->bus, "WORK", "work.b.1", 6, &fixture->arena, &stored),
                     STATUS_NOT_FOUND);
    assert_int_equal(bus_stream_info(fixture->bus, "WORK", &fixture->arena, &info), STATUS_OK);
    assert_int_equal(info.messages, 6);
    assert_int_equal(info.last_sequence, 6);
    assert_int_equal(info.consumer_count, 2);
    assert_true(info.created_at_us <= before_us);
    assert_true(info.created_at_us > before_us - 60000000);
    assert_int_equal(bus_consumer_info(fixture->bus, "WORK", "b", &fixture->arena, &consumer),
                     STATUS_OK);
    assert_int_equal(consumer.pending, 2);
    assert_int_equal(consumer.ack_pending, 0);
}

static void a_dead_server_is_a_reason_to_ask_again(void **state)
{
    struct bus_fixture *fixture = *state;
    struct bus_report report;
    struct bus_stream_info info;
    bus_fixture_apply(fixture);
    server_fixture_kill(&fixture->server);
    assert_int_equal(bus_topology_apply(fixture->bus, &fixture->topology, BUS_APPLY_ALL,
                                        &fixture->arena, &report),
                     STATUS_RETRY);
    assert_int_equal(bus_stream_info(fixture->bus, "WORK", &fixture->arena, &info), STATUS_RETRY);
}

static void the_development_topology_is_applied_and_bound(void **state)
{
    struct bus_fixture *fixture = *state;
    struct config config = { 0 };
    struct config_error refusal = { "" };
    assert_int_equal(setenv("ONCEPAY_SIM_URL", "http://127.0.0.1:4790", 1), 0);
    if (config_load(SOURCE_DIR "/config/oncepay.yaml", &config, &refusal) != STATUS_OK) {
        fail_msg("%s", refusal.text);
    }
    /* The fixture's server has less room to reserve than a real one. */
    config.streams.event.bytes_max = config.streams.intake.bytes_max = 64 << 20;
    config.streams.route.bytes_max = config.streams.create.bytes_max = 64 << 20;
    config.streams.recover.bytes_max = config.streams.settle.bytes_max = 64 << 20;
    config_topology(&config, &fixture->arena, &fixture->topology);
    bus_fixture_apply(fixture);
    for (size_t i = 0; i < fixture->topology.consumer_count; i++) {
        const struct bus_consumer_spec *spec = &fixture->topology.consumers[i];
        struct bus_consumer *consumer = NULL;
        const char *error = "";
        if (bus_consumer_open(fixture->bus, &fixture->topology, spec->stream, spec->durable,
                              &fixture->arena, &consumer, &error) != STATUS_OK) {
            fail_msg("%s", error);
        }
        bus_consumer_close(consumer);
    }
    config_finish(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(apply_creates_once_and_then_finds_nothing_to_do, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_difference_is_named_and_only_updated_when_all_is_applied,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_is_missing_comes_back_in_the_relays_mode, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_the_server_refuses_is_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(overlapping_filters_are_refused_before_anything_is_touched,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_stranger_is_named_and_one_that_takes_our_messages_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_consumer_with_settings_of_somebody_else_is_a_difference,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_consumer_beyond_the_end_of_its_stream_is_made_anew, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_development_topology_is_applied_and_bound, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(stored_messages_are_found_by_subject, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dead_server_is_a_reason_to_ask_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
