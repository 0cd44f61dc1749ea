/* tests/contract/relay_nats_test.c: the relay with a nats-server that loses what it held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/clock.h"
#include "pipeline/metrics.h"
#include "stages/relay/relay_commander.h"
#include "stages/relay/relay_feed.h"
#include "stages/relay/relay_publisher.h"
#include "stages/relay/relay_stream.h"
#include "tests/contract/bus_fixture.h"
#include "tests/support/pg_fixture.h"

static struct pg_fixture *postgres;

static int start_all(void **state)
{
    (void)state;
    postgres = pg_fixture_start();
    return 0;
}

static int stop_all(void **state)
{
    (void)state;
    pg_fixture_stop(postgres);
    return 0;
}

/* --- a relay, driven by hand -------------------------------------------------------------- */

static const char *const EVENT_SUBJECTS[] = { "pay.event.>" };
static const char *const ROUTE_SUBJECTS[] = { "pay.route.*" };

struct rig {
    struct bus_fixture nats;
    const char *url;
    struct bus_stream_spec streams[2];
    struct bus_consumer_spec consumer;
    struct bus_topology topology;
    struct store *store;
    struct relay_queue *queue;
    struct relay_feed feed;
    struct relay_publisher publisher;
    struct relay_stream stream;
    struct relay_commander commander;
};

static void describe(struct rig *rig)
{
    const struct bus_stream_spec spec = {
        .messages_max = 100000,
        .bytes_max = 64 * 1024 * 1024,
        .message_bytes_max = 65536,
        .replicas = 1,
        .duplicate_window_s = 120,
    };
    rig->streams[0] = rig->streams[1] = spec;
    rig->streams[0].name = "PAY_EVENT";
    rig->streams[0].subjects = EVENT_SUBJECTS;
    rig->streams[0].subject_count = 1;
    rig->streams[0].retention = BUS_LIMITS;
    rig->streams[0].age_max_s = 3600;
    rig->streams[1].name = "PAY_ROUTE";
    rig->streams[1].subjects = ROUTE_SUBJECTS;
    rig->streams[1].subject_count = 1;
    rig->consumer = (struct bus_consumer_spec){
        .stream = "PAY_ROUTE", .durable = "route", .ack_wait_s = 30, .ack_pending_max = 1000
    };
    rig->topology = (struct bus_topology){ rig->streams, 2, &rig->consumer, 1 };
}

static void rig_open(struct rig *rig)
{
    static const struct config config = {
        .relay = { .command_lag_ms = 1000, .republish_per_s_max = 100000 },
        .timers = { .stuck_after_s = 60 },
    };
    bus_fixture_start(&rig->nats);
    describe(rig);
    rig->url = pg_fixture_database(postgres);
    rig->store = pg_fixture_store(rig->url);
    rig->queue = relay_queue_create();
    const struct relay_feed_options options = { .store = rig->store,
                                                .queue = rig->queue,
                                                .page_limit = 100,
                                                .queue_max = 1000,
                                                .republish_per_s = 100000 };
    relay_feed_init(&rig->feed, &options);
    relay_publisher_init(&rig->publisher, rig->nats.bus, rig->queue, 64);
    rig->stream = (struct relay_stream){ .bus = rig->nats.bus,
                                         .topology = &rig->topology,
                                         .age_max_us = 3600 * CLOCK_SECOND_US };
    relay_commander_init(&rig->commander, &config, rig->store, rig->nats.bus);
    struct relay_claim claim;
    assert_int_equal(relay_store_claim(rig->store, 0, &claim), STATUS_OK);
    assert_int_equal(relay_feed_start(&rig->feed, &claim, clock_monotonic_us()), STATUS_OK);
    assert_int_equal(relay_commander_start(&rig->commander, clock_monotonic_us()), STATUS_OK);
    rig->publisher.is_stream_missing = true;
}

static void rig_close(struct rig *rig)
{
    while (relay_queue_in_flight(rig->queue) > 0) {
        bus_wait(rig->nats.bus, 20);
        relay_publisher_results(&rig->publisher, &rig->commander.cookie, clock_monotonic_us());
    }
    relay_commander_finish(&rig->commander);
    relay_feed_finish(&rig->feed);
    relay_queue_destroy(rig->queue);
    store_destroy(rig->store);
    bus_fixture_finish(&rig->nats);
}

static void turn(struct rig *rig)
{
    const int64_t now_us = clock_monotonic_us();
    bool has_more = false;
    relay_publisher_results(&rig->publisher, &rig->commander.cookie, now_us);
    relay_feed_confirmed(&rig->feed, rig->publisher.confirmed, rig->publisher.last_sequence);
    if (bus_is_connected(rig->nats.bus)) {
        const enum status status =
            relay_stream_look(&rig->stream, &rig->publisher, &rig->feed, now_us);
        assert_true(status == STATUS_OK || status == STATUS_RETRY);
    }
    assert_int_equal(relay_feed_poll(&rig->feed, now_us, &has_more), STATUS_OK);
    assert_int_equal(relay_feed_poll_old(&rig->feed, now_us), STATUS_OK);
    relay_publisher_send(&rig->publisher, now_us);
    assert_int_equal(relay_feed_save(&rig->feed, now_us, false), STATUS_OK);
    bus_wait(rig->nats.bus, 10);
}

/* Until the stream holds that many and nothing is under way; 30 s at most. */
static void work_until_stored(struct rig *rig, uint64_t messages)
{
    const int64_t until_us = clock_monotonic_us() + 30 * CLOCK_SECOND_US;
    struct bus_stream_info info = { .messages = 0 };
    while (clock_monotonic_us() < until_us) {
        struct arena arena = { NULL };
        turn(rig);
        const enum status status = bus_stream_info(rig->nats.bus, "PAY_EVENT", &arena, &info);
        arena_finish(&arena);
        if (status == STATUS_OK && info.messages == messages &&
            relay_queue_count(rig->queue) == 0 && !relay_feed_is_republishing(&rig->feed)) {
            return;
        }
    }
    fail_msg("the stream holds %d messages, not %d", (int)info.messages, (int)messages);
}

static void request(struct rig *rig, const char *subject)
{
    bus_fixture_request(&rig->nats, subject, "");
}

/* --- rows --------------------------------------------------------------------------------- */

/* One version of so many payments: one transaction, as a batch of a stage is. */
static void write_version(struct rig *rig, int payments, int version)
{
    struct arena arena = { NULL };
    pg_fixture_run(
        rig->url,
        arena_format(
            &arena,
            "WITH p AS MATERIALIZED (SELECT ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))"
            "::uuid AS id FROM generate_series(1, %d) i), h AS (INSERT INTO oncepay.state_history"
            " (payment_id, entity, id, version, from_status, to_status, event, why, actor,"
            " prev_hash) SELECT id, 1, id, %d, 10, 20, 'e', 'w', 'a', '' FROM p)"
            " INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, "
            "payment_id,"
            " body, headers) SELECT overlay(gen_random_uuid()::text PLACING"
            " left(oncepay.uuid_floor(now())::text, 13) FROM 1)::uuid, 2,"
            " 'pay.event.m-1.payment.accepted', 1, id, %d, id, '{}',"
            " '' FROM p",
            payments, version, version));
    arena_finish(&arena);
}

/* Every message of the stream in its order: each payment's versions rise by one, copies aside. */
static void check_order(struct rig *rig, int payments, int versions)
{
    struct bus_consumer *consumer = NULL;
    struct arena arena = { NULL };
    const char *error = NULL;
    rig->consumer = (struct bus_consumer_spec){
        .stream = "PAY_EVENT", .durable = "check", .ack_wait_s = 30, .ack_pending_max = 10000
    };
    struct bus_report report;
    assert_int_equal(
        bus_topology_apply(rig->nats.bus, &rig->topology, BUS_APPLY_MISSING, &arena, &report),
        STATUS_OK);
    assert_int_equal(bus_consumer_open(rig->nats.bus, &rig->topology, "PAY_EVENT", "check", &arena,
                                       &consumer, &error),
                     STATUS_OK);
    int *highest = arena_allocate(&arena, (size_t)(payments + 1) * sizeof *highest);
    int whole = 0;
    while (whole < payments) {
        struct bus_message message;
        if (bus_fixture_take(&rig->nats, consumer, 500, 1, &message, 5000) == 0) break;
        const char *payment = bus_message_header(&message, "ce-subject");
        const long version = strtol(bus_message_header(&message, "ce-sequence"), NULL, 10);
        int *at = &highest[strtol(payment + 24, NULL, 10)];
        assert_true(version <= *at + 1);
        if (version == *at + 1) *at = (int)version;
        if (version == versions && *at == versions) whole++;
        bus_ack(&message);
    }
    assert_int_equal(whole, payments);
    bus_consumer_close(consumer);
    arena_finish(&arena);
}

/* --- events ------------------------------------------------------------------------------- */

static void a_missing_stream_is_made_and_filled(void **state)
{
    (void)state;
    struct rig rig = { .url = NULL };
    rig_open(&rig);
    for (int version = 1; version <= 3; version++) write_version(&rig, 150, version);
    work_until_stored(&rig, 450);
    struct bus_consumer_info info;
    assert_int_equal(bus_consumer_info(rig.nats.bus, "PAY_ROUTE", "route", &rig.nats.arena, &info),
                     STATUS_OK);
    check_order(&rig, 150, 3);
    rig_close(&rig);
}

static void a_deleted_stream_is_filled_again(void **state)
{
    (void)state;
    struct rig rig = { .url = NULL };
    rig_open(&rig);
    const int64_t before = metrics_value(METRIC_NATS_ROLLED_BACK, NULL);
    for (int version = 1; version <= 2; version++) write_version(&rig, 150, version);
    work_until_stored(&rig, 300);
    request(&rig, "$JS.API.STREAM.DELETE.PAY_EVENT");
    write_version(&rig, 150, 3); /* new events go on, after those that they follow */
    work_until_stored(&rig, 450);
    assert_int_equal(metrics_value(METRIC_NATS_ROLLED_BACK, NULL), before + 1);
    check_order(&rig, 150, 3);
    rig_close(&rig);
}

static void shell(const struct rig *rig, const char *script)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (chdir(rig->nats.server.folder) == 0) {
            (void)execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        }
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_lost_tail_is_published_again(void **state)
{
    (void)state;
    struct rig rig = { .url = NULL };
    rig_open(&rig);
    const int64_t before = metrics_value(METRIC_NATS_ROLLED_BACK, NULL);
    write_version(&rig, 100, 1);
    work_until_stored(&rig, 100);
    server_fixture_kill(&rig.nats.server);
    shell(&rig, "cp -r store old");
    server_fixture_start(&rig.nats.server);
    write_version(&rig, 100, 2);
    work_until_stored(&rig, 200);
    server_fixture_kill(&rig.nats.server); /* a power cut: what came last was never synced */
    shell(&rig, "rm -rf store && cp -r old store");
    server_fixture_start(&rig.nats.server);
    write_version(&rig, 100, 3);
    work_until_stored(&rig, 300);
    assert_int_equal(metrics_value(METRIC_NATS_ROLLED_BACK, NULL), before + 1);
    check_order(&rig, 100, 3);
    rig_close(&rig);
}

static void the_whole_store_may_go(void **state)
{
    (void)state;
    struct rig rig = { .url = NULL };
    rig_open(&rig);
    write_version(&rig, 100, 1);
    work_until_stored(&rig, 100);
    server_fixture_kill(&rig.nats.server);
    shell(&rig, "rm -rf store");
    server_fixture_start(&rig.nats.server);
    write_version(&rig, 100, 2);
    work_until_stored(&rig, 200);
    check_order(&rig, 100, 2);
    rig_close(&rig);
}

/* --- commands ----------------------------------------------------------------------------- */

static uint64_t commands_left(struct rig *rig)
{
    struct bus_stream_info info;
    assert_int_equal(bus_stream_info(rig->nats.bus, "PAY_ROUTE", &rig->nats.arena, &info),
                     STATUS_OK);
    return info.messages;
}

static void sweep(struct rig *rig)
{
    bool has_more = false;
    for (size_t i = 0; i < rig->commander.subject_count; i++) {
        rig->commander.subjects[i].held_until_us = 0; /* the test does not wait for the next look */
    }
    assert_int_equal(relay_commander_sweep(&rig->commander, clock_monotonic_us(), &has_more),
                     STATUS_OK);
    assert_int_equal(bus_publish_flush(rig->nats.bus, 5000), STATUS_OK);
}

/* A payment that is CREATED, and its route command of two seconds ago. */
static void insert_command(const char *url)
{
    pg_fixture_run(
        url,
        "SET session_replication_role = replica;"
        "INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, amount, currency,"
        " method_type, status, version, certainty, start_by, history_hash) VALUES"
        " ('00000000-0000-7000-8000-000000000001', 'm', 't', 'none', 1, 'EUR', 'card', 10, 1, 1,"
        " now(), '');"
        "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id,"
        " created_at) SELECT overlay(id::text PLACING left(oncepay.uuid_floor(now())::text,"
        " 13) FROM 1)::uuid, 1, 'pay.route.5', 1, id, 0, "
        "id,"
        " now() - interval '2 s' FROM oncepay.payment");
}

static void a_lost_command_is_emitted_once_while_it_waits(void **state)
{
    (void)state;
    struct rig rig = { .url = NULL };
    rig_open(&rig);
    work_until_stored(&rig, 0);
    insert_command(rig.url);
    sweep(&rig);
    assert_int_equal(commands_left(&rig), 1);
    server_fixture_sleep_ms(1200); /* the new row is old enough by now, but its message is left */
    sweep(&rig);
    assert_int_equal(commands_left(&rig), 1);
    request(&rig, "$JS.API.STREAM.PURGE.PAY_ROUTE"); /* lost again */
    sweep(&rig);
    assert_int_equal(commands_left(&rig), 1);
    assert_int_equal(pg_fixture_number(rig.url, "SELECT count(*) FROM oncepay.outbox"), 3);
    pg_fixture_run(rig.url, "SET session_replication_role = replica;"
                            "UPDATE oncepay.payment SET status = 90");
    request(&rig, "$JS.API.STREAM.PURGE.PAY_ROUTE");
    server_fixture_sleep_ms(1200);
    sweep(&rig);
    assert_int_equal(commands_left(&rig), 0); /* it moved on */
    rig_close(&rig);
}

/* Takes the only message and acks it; returns when the server knows. */
static void take_and_ack(struct rig *rig)
{
    struct bus_message message;
    struct bus_consumer_info info = { .ack_floor_sequence = 0 };
    struct bus_consumer *consumer = NULL;
    const char *error = NULL;
    assert_int_equal(bus_consumer_open(rig->nats.bus, &rig->topology, "PAY_ROUTE", "route",
                                       &rig->nats.arena, &consumer, &error),
                     STATUS_OK);
    assert_int_equal(bus_fixture_take(&rig->nats, consumer, 1, 1, &message, 5000), 1);
    bus_ack(&message);
    for (int i = 0; i < 100 && info.ack_floor_sequence == 0; i++) {
        server_fixture_sleep_ms(20);
        assert_int_equal(
            bus_consumer_info(rig->nats.bus, "PAY_ROUTE", "route", &rig->nats.arena, &info),
            STATUS_OK);
    }
    assert_int_equal(info.ack_floor_sequence, 1);
    bus_consumer_close(consumer);
}

/* As after a kill of a 2.9 server; here the stream keeps by limits, so that it stays for sure. */
static void a_message_that_stayed_after_its_ack_holds_nothing_back(void **state)
{
    (void)state;
    struct rig rig = { .url = NULL };
    rig_open(&rig);
    rig.streams[1].retention = BUS_LIMITS;
    work_until_stored(&rig, 0);
    insert_command(rig.url);
    sweep(&rig);
    assert_int_equal(commands_left(&rig), 1);
    take_and_ack(&rig); /* and whoever took it lost the work */
    server_fixture_sleep_ms(1200);
    sweep(&rig);
    assert_int_equal(commands_left(&rig), 2);
    server_fixture_sleep_ms(1200);
    sweep(&rig);
    assert_int_equal(commands_left(&rig), 2); /* this one somebody will get */
    rig_close(&rig);
}

static void without_its_stream_nothing_is_emitted(void **state)
{
    (void)state;
    struct rig rig = { .url = NULL };
    rig_open(&rig);
    work_until_stored(&rig, 0);
    request(&rig, "$JS.API.STREAM.DELETE.PAY_ROUTE");
    insert_command(rig.url);
    sweep(&rig);
    assert_int_equal(pg_fixture_number(rig.url, "SELECT count(*) FROM oncepay.outbox"), 1);
    assert_true(rig.commander.is_stream_missing);
    rig.publisher.is_stream_missing = true;
    while (rig.publisher.is_stream_missing) turn(&rig);
    sweep(&rig);
    assert_int_equal(commands_left(&rig), 1);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_stream_is_made_and_filled),
        cmocka_unit_test(a_deleted_stream_is_filled_again),
        cmocka_unit_test(a_lost_tail_is_published_again),
        cmocka_unit_test(the_whole_store_may_go),
        cmocka_unit_test(a_lost_command_is_emitted_once_while_it_waits),
        cmocka_unit_test(a_message_that_stayed_after_its_ack_holds_nothing_back),
        cmocka_unit_test(without_its_stream_nothing_is_emitted),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
