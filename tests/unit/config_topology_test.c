/*
 * tests/unit/config_topology_test.c: subjects, filters, and the streams of design §3: no two
 * consumers of a work queue can get the same message, every subject that a stage publishes to is
 * stored once and has one reader.
 */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void only_what_can_be_published_to_is_a_subject(void **state)
{
    (void)state;
    static const char *const GOOD[] = { "a", "pay.intake.m-1001.pay", "_INBOX.x", "a.b*", "a.>b" };
    static const char *const BAD[] = {
        "",     ".",       "a.", ".a", "a..b", "a b", "a.*", "*", "a.>", "a\n", "a\r\nPUB b 0\r\n",
        "\x7f", "\xc3\xa9"
    };
    for (size_t i = 0; i < COUNT_OF(GOOD); i++) assert_true(bus_subject_is_valid(GOOD[i]));
    for (size_t i = 0; i < COUNT_OF(BAD); i++) assert_false(bus_subject_is_valid(BAD[i]));
    assert_false(bus_subject_is_valid(NULL));
    char longest[BUS_SUBJECT_LENGTH_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[BUS_SUBJECT_LENGTH_MAX + 1] = '\0';
    assert_false(bus_subject_is_valid(longest));
    longest[BUS_SUBJECT_LENGTH_MAX] = '\0';
    assert_true(bus_subject_is_valid(longest));
}

static void filters_match_and_overlap_like_the_servers(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool matches, overlaps;
    } ROWS[] = {
        { "a.b", "a.b", true, true },
        { "a.b", "a.c", false, false },
        { "a.*", "a.b", true, true },
        { "a.*", "a", false, false },
        { "a.*", "a.b.c", false, false },
        { "a.>", "a.b.c", true, true },
        { "a.>", "a", false, false },
        { ">", "a", true, true },
        { "a.b", "a.*", false, true },
        { "a.*.c", "a.b.*", false, true },
        { "a.*.c", "a.b.d", false, false },
        { "a.b", "a.>", false, true },
        { "*.b", "a.*", false, true },
        { "a.b.c", "a.b", false, false },
        { "pay.recover.*.x", "pay.recover.evidence.*", false, true },
        { "pay.recover.*.*", "pay.recover.*.x", true, true },
        { "a.*", "a.>", false, true },
        { "pay.create.x.new", "pay.create.x.follow", false, false },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        assert_int_equal(bus_subject_matches(ROWS[i].a, ROWS[i].b), ROWS[i].matches);
        assert_int_equal(bus_subject_overlaps(ROWS[i].a, ROWS[i].b), ROWS[i].overlaps);
        assert_int_equal(bus_subject_overlaps(ROWS[i].b, ROWS[i].a), ROWS[i].overlaps);
    }
}

static void header_names_are_folded(void **state)
{
    (void)state;
    static const struct bus_header HEADERS[] = { { "idempotency-key", "k" }, { "x", "1" } };
    const struct bus_message message = { .headers = HEADERS, .header_count = COUNT_OF(HEADERS) };
    assert_string_equal(bus_message_header(&message, "Idempotency-Key"), "k");
    assert_null(bus_message_header(&message, "idempotency"));
}

static struct config development(void)
{
    struct config config = { 0 };
    struct config_error error = { "" };
    assert_int_equal(setenv("ONCEPAY_SIM_URL", "http://127.0.0.1:4790", 1), 0);
    if (config_load(SOURCE_DIR "/config/oncepay.yaml", &config, &error) != STATUS_OK) {
        fail_msg("%s", error.text);
    }
    return config;
}

static size_t readers_of(const struct bus_topology *topology, const char *subject)
{
    size_t readers = 0;
    for (size_t i = 0; i < topology->consumer_count; i++) {
        const struct bus_consumer_spec *consumer = &topology->consumers[i];
        const struct bus_stream_spec *stream = bus_topology_stream(topology, consumer->stream);
        bool is_stored = false;
        for (size_t j = 0; j < stream->subject_count; j++) {
            is_stored |= bus_subject_matches(stream->subjects[j], subject);
        }
        readers += is_stored && (consumer->filter_subject == NULL ||
                                 bus_subject_matches(consumer->filter_subject, subject));
    }
    return readers;
}

static void every_command_has_one_reader(void **state)
{
    (void)state;
    static const char *const SUBJECTS[] = {
        "pay.intake.m-1001.pay",
        "pay.intake.m-1001.pay.too.long",
        "pay.route.0",
        "pay.route.15",
        "pay.settle.7",
        "pay.create.stripe-main.new",
        "pay.create.stripe-main.follow",
        "pay.create.stripe-backup.new",
        "pay.recover.evidence.stripe-main",
        "pay.recover.wake.stripe-backup",
    };
    struct config config = development();
    struct arena arena = { 0 };
    struct bus_topology topology;
    const char *error = "";
    config_topology(&config, &arena, &topology);
    assert_int_equal(bus_topology_check(&topology, &arena, &error), STATUS_OK);
    for (size_t i = 0; i < COUNT_OF(SUBJECTS); i++) {
        assert_int_equal(readers_of(&topology, SUBJECTS[i]), 1);
    }
    assert_int_equal(readers_of(&topology, "pay.event.m-1001.payment.succeeded"), 0);
    assert_non_null(bus_topology_consumer(&topology, "PAY_CREATE", "stripe-main_new"));
    assert_non_null(bus_topology_consumer(&topology, "PAY_CREATE", "stripe-main_follow"));
    assert_non_null(bus_topology_consumer(&topology, "PAY_RECOVER", "stripe-backup"));
    assert_non_null(bus_topology_consumer(&topology, "PAY_INTAKE", "intake"));
    arena_finish(&arena);
    config_finish(&config);
}

static void stage_streams_refuse_when_full_and_never_forget(void **state)
{
    (void)state;
    struct config config = development();
    struct arena arena = { 0 };
    struct bus_topology topology;
    config_topology(&config, &arena, &topology);
    assert_int_equal(topology.stream_count, 7);
    for (size_t i = 0; i < topology.stream_count; i++) {
        const struct bus_stream_spec *stream = &topology.streams[i];
        assert_true(stream->messages_max > 0 && stream->bytes_max > 0);
        if (stream->retention != BUS_WORK_QUEUE) continue;
        assert_false(stream->discard_old);
        assert_int_equal(stream->age_max_s, 0);
    }
    const struct bus_stream_spec *event = bus_topology_stream(&topology, "PAY_EVENT");
    assert_int_equal(event->retention, BUS_LIMITS);
    assert_int_equal(event->age_max_s, 7 * 86400);
    assert_null(bus_topology_stream(&topology, "PAY_SAGA"));
    arena_finish(&arena);
    config_finish(&config);
}

static void a_wrong_topology_is_named(void **state)
{
    (void)state;
    static const char *const SUBJECTS[] = { "a.*" };
    static const char *const OTHERS[] = { "*.b" };
    struct bus_stream_spec streams[] = { { .name = "A", .subjects = SUBJECTS, .subject_count = 1 },
                                         { .name = "B", .subjects = OTHERS, .subject_count = 1 } };
    struct bus_consumer_spec consumers[] = {
        { .stream = "A", .durable = "x", .filter_subject = "a.b" },
        { .stream = "A", .durable = "y", .filter_subject = "a.*" }
    };
    struct bus_topology topology = { streams, 2, consumers, 0 };
    struct arena arena = { 0 };
    const char *error = "";
    assert_int_equal(bus_topology_check(&topology, &arena, &error), STATUS_STOP);
    assert_string_equal(error, "streams A and B share a subject");
    topology.stream_count = 1;
    topology.consumer_count = 2;
    assert_int_equal(bus_topology_check(&topology, &arena, &error), STATUS_STOP);
    assert_string_equal(error, "consumers x and y of A could get the same message");
    consumers[1].filter_subject = NULL;
    assert_int_equal(bus_topology_check(&topology, &arena, &error), STATUS_STOP);
    consumers[1].filter_subject = "b.c";
    assert_int_equal(bus_topology_check(&topology, &arena, &error), STATUS_STOP);
    assert_string_equal(error, "consumer y of A: filter b.c is outside the stream");
    consumers[1] =
        (struct bus_consumer_spec){ .stream = "A", .durable = "x", .filter_subject = "a.c" };
    assert_int_equal(bus_topology_check(&topology, &arena, &error), STATUS_STOP);
    assert_string_equal(error, "consumer x of A stands twice");
    consumers[1].durable = "y.z";
    assert_int_equal(bus_topology_check(&topology, &arena, &error), STATUS_STOP);
    assert_string_equal(error, "consumer name \"y.z\" of A is not a token");
    consumers[1].durable = "y";
    assert_int_equal(bus_topology_check(&topology, &arena, &error), STATUS_OK);
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_can_be_published_to_is_a_subject),
        cmocka_unit_test(filters_match_and_overlap_like_the_servers),
        cmocka_unit_test(header_names_are_folded),
        cmocka_unit_test(every_command_has_one_reader),
        cmocka_unit_test(stage_streams_refuse_when_full_and_never_forget),
        cmocka_unit_test(a_wrong_topology_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
