/*
 * tests/store/relay_test.c: the relay's event half on a real PostgreSQL: nothing skipped, nothing
 * out of order, a backlog that stays flat.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "pipeline/clock.h"
#include "stages/relay/relay_feed.h"
#include "tests/support/pg_fixture.h"

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

/* --- a relay without a bus: what comes out of the queue is published -------------------------- */

struct rig {
    const char *url;
    struct store *store;
    struct relay_queue *queue;
    struct relay_feed feed;
    struct relay_claim claim;
};

static void rig_start(struct rig *rig)
{
    assert_int_equal(relay_store_claim(rig->store, 0, &rig->claim), STATUS_OK);
    assert_true(rig->claim.is_held);
    assert_int_equal(relay_feed_start(&rig->feed, &rig->claim, clock_monotonic_us()), STATUS_OK);
}

static void rig_open(struct rig *rig, const char *url, int32_t page_limit)
{
    *rig =
        (struct rig){ .url = url, .store = pg_fixture_store(url), .queue = relay_queue_create() };
    const struct relay_feed_options options = {
        .store = rig->store,
        .queue = rig->queue,
        .page_limit = page_limit,
        .queue_max = 100000,
        .republish_per_s = 100000,
    };
    relay_feed_init(&rig->feed, &options);
    rig_start(rig);
}

static void rig_close(struct rig *rig)
{
    relay_feed_finish(&rig->feed);
    relay_queue_destroy(rig->queue);
    store_destroy(rig->store);
}

static void rig_poll(struct rig *rig)
{
    bool has_more = true;
    while (has_more) {
        assert_int_equal(relay_feed_poll(&rig->feed, clock_monotonic_us(), &has_more), STATUS_OK);
    }
}

/* Publishes all there is: "<payment's last digit><version> …". */
static const char *rig_publish(struct rig *rig, struct arena *arena)
{
    const char *text = "";
    struct relay_event *event = NULL;
    while ((event = relay_queue_next(rig->queue)) != NULL) {
        text = arena_format(arena, "%s%s%x.%d", text, text[0] == '\0' ? "" : " ",
                            event->payment.uuid.bytes[15], (int)event->version);
        assert_true(relay_queue_confirm(rig->queue, event));
        rig->feed.confirmed++;
    }
    return text;
}

static void rig_save(struct rig *rig)
{
    assert_int_equal(relay_feed_save(&rig->feed, clock_monotonic_us(), true), STATUS_OK);
}

/* An id as ours are: its time in front. */
#define TIME_ID                                                                                    \
    "overlay(gen_random_uuid()::text PLACING left(oncepay.uuid_floor(now())::text, 13) FROM "      \
    "1)::uuid"

/* --- arranging -------------------------------------------------------------------------------- */

/* An event and the history row of its version, as every transition writes them. */
static const char *event_sql(struct arena *arena, int payment, int version)
{
    const char *id =
        arena_format(arena, "00000000-0000-7000-8000-0000000000%02x", (unsigned)payment);
    return arena_format(
        arena,
        "INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status, "
        "to_status,"
        " event, why, actor, prev_hash) VALUES ('%s', 1, '%s', %d, 0, 10, 'e', 'w', 'a', '');"
        "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id, "
        "body,"
        " headers) VALUES (" TIME_ID ", 2, 'pay.event.m.payment.accepted', 1, '%s', %d, '%s',"
        " '{}', '');",
        id, id, version, id, version, id);
}

static void write_event(const char *url, int payment, int version)
{
    struct arena arena = { NULL };
    pg_fixture_run(url, event_sql(&arena, payment, version));
    arena_finish(&arena);
}

static void execute(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    PQclear(result);
}

/* A transaction that has its number and waits. */
static PGconn *begin_numbered(const char *url)
{
    PGconn *connection = PQconnectdb(url);
    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    execute(connection, "BEGIN; SELECT pg_current_xact_id()");
    return connection;
}

static void commit_event(PGconn *connection, int payment, int version)
{
    struct arena arena = { NULL };
    execute(connection, event_sql(&arena, payment, version));
    execute(connection, "COMMIT");
    PQfinish(connection);
    arena_finish(&arena);
}

/* --- C50 -------------------------------------------------------------------------------------- */

static void a_transaction_that_ends_late_is_not_skipped(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 100);
    PGconn *late = begin_numbered(rig.url);
    write_event(rig.url, 1, 1);
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.1");
    rig_save(&rig);
    write_event(rig.url, 2, 1);
    rig_poll(&rig);
    commit_event(late, 1, 2); /* its number is lower than both */
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "2.1 1.2");
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "");
    rig_close(&rig);
    arena_finish(&arena);
}

static void what_is_read_together_goes_by_version_not_by_transaction(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 100);
    PGconn *late = begin_numbered(rig.url);
    write_event(rig.url, 1, 1);
    write_event(rig.url, 1, 2);
    commit_event(late, 1, 3);
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.1 1.2 1.3");
    rig_close(&rig);
    arena_finish(&arena);
}

/* The same where a page ends between the two: the history says that something has to go before. */
static void a_page_does_not_part_what_belongs_together(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 3);
    PGconn *late = begin_numbered(rig.url);
    write_event(rig.url, 2, 1);
    write_event(rig.url, 3, 1);
    write_event(rig.url, 1, 1);
    write_event(rig.url, 1, 2);
    commit_event(late, 1, 3); /* first by its number, last by its version */
    bool has_more = false;
    assert_int_equal(relay_feed_poll(&rig.feed, clock_monotonic_us(), &has_more), STATUS_OK);
    assert_true(has_more);
    assert_string_equal(rig_publish(&rig, &arena), "1.1 2.1 1.2 1.3");
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "3.1 1.1 1.2"); /* copies may repeat */
    rig_close(&rig);
    arena_finish(&arena);
}

/* Transactions are read whole; one that is longer than a page goes in pages of its own. */
static void a_transaction_longer_than_a_page_keeps_its_order(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 3);
    write_event(rig.url, 9, 1);
    const char *sql = "";
    for (int version = 1; version <= 8; version++) {
        sql = arena_format(&arena, "%s%s", sql, event_sql(&arena, 1, version));
    }
    pg_fixture_run(rig.url, sql);
    write_event(rig.url, 8, 1);
    int32_t highest = 0;
    bool has_more = true;
    while (has_more) {
        assert_int_equal(relay_feed_poll(&rig.feed, clock_monotonic_us(), &has_more), STATUS_OK);
        struct relay_event *event = NULL;
        while ((event = relay_queue_next(rig.queue)) != NULL) {
            const bool is_long = event->payment.uuid.bytes[15] == 1;
            if (is_long && event->version > highest) {
                assert_int_equal(event->version, highest + 1); /* first copies in order */
                highest++;
            }
            assert_true(relay_queue_confirm(rig.queue, event));
        }
    }
    assert_int_equal(highest, 8);
    rig_close(&rig);
    arena_finish(&arena);
}

/* --- marks ------------------------------------------------------------------------------------ */

static int64_t saved_mark(const struct rig *rig)
{
    return pg_fixture_number(rig->url, "SELECT mark_xid::text::bigint FROM oncepay.relay_position"
                                       " WHERE name = 'event:0'");
}

static void a_restart_begins_at_the_first_unconfirmed(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 100);
    write_event(rig.url, 1, 1);
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.1");
    rig_save(&rig);
    const int64_t first = saved_mark(&rig);
    write_event(rig.url, 1, 2);
    rig_poll(&rig);
    struct relay_event *unconfirmed = relay_queue_next(rig.queue);
    write_event(rig.url, 2, 1);
    rig_poll(&rig);
    struct relay_event *other = relay_queue_next(rig.queue);
    assert_true(relay_queue_confirm(rig.queue, other));
    rig.feed.confirmed++;
    rig_save(&rig);
    assert_true(saved_mark(&rig) >= first);
    pg_fixture_cut(rig.url); /* the session is gone, and its lock */
    bool has_more = false;
    assert_int_not_equal(relay_feed_poll(&rig.feed, clock_monotonic_us(), &has_more), STATUS_OK);
    rig_start(&rig);
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.2 2.1");
    assert_false(relay_queue_confirm(rig.queue, unconfirmed));
    rig_save(&rig);
    assert_true(saved_mark(&rig) > first);
    rig_close(&rig);
    arena_finish(&arena);
}

static void a_mark_never_falls(void **state)
{
    (void)state;
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_marks marks = {
        .event_name = "event:0", .event_xid = 500, .event_at_us = 1000000, .system_identifier = 7
    };
    bool has_moved = false;
    assert_int_equal(relay_store_mark(store, &marks, &has_moved), STATUS_OK);
    assert_true(has_moved);
    marks.event_xid = 499;
    assert_int_equal(relay_store_mark(store, &marks, &has_moved), STATUS_OK);
    assert_false(has_moved);
    marks.event_xid = 501;
    assert_int_equal(relay_store_mark(store, &marks, &has_moved), STATUS_OK);
    assert_true(has_moved);
    marks.event_xid = 3; /* of another database: its numbers begin anew */
    marks.system_identifier = 8;
    assert_int_equal(relay_store_mark(store, &marks, &has_moved), STATUS_OK);
    assert_true(has_moved);
    assert_int_equal(
        pg_fixture_number(url, "SELECT mark_xid::text::int8 FROM oncepay.relay_position"), 3);
    store_destroy(store);
}

static void only_one_relay_holds_a_shard(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 100);
    struct store *standby = pg_fixture_store(rig.url);
    struct relay_claim claim;
    assert_int_equal(relay_store_claim(standby, 0, &claim), STATUS_OK);
    assert_false(claim.is_held);
    assert_int_equal(relay_store_claim(standby, 1, &claim), STATUS_OK);
    assert_true(claim.is_held);
    rig_close(&rig);
    int tries = 0;
    do { /* the server needs a moment to see that the session is gone */
        assert_int_equal(relay_store_claim(standby, 0, &claim), STATUS_OK);
    } while (!claim.is_held && ++tries < 2000);
    assert_true(claim.is_held);
    store_destroy(standby);
}

static void a_session_that_is_not_ours_says_nothing(void **state)
{
    (void)state;
    struct rig rig;
    bool has_more = false;
    rig_open(&rig, pg_fixture_database(fixture), 100);
    write_event(rig.url, 1, 1);
    rig.feed.claim.session++;
    assert_int_equal(relay_feed_poll(&rig.feed, clock_monotonic_us(), &has_more), STATUS_LOST_RACE);
    assert_int_equal(relay_queue_count(rig.queue), 0);
    rig_close(&rig);
}

/* --- a stream that lost what it held ---------------------------------------------------------- */

static void poll_old(struct rig *rig)
{
    for (int i = 0; i < 100 && relay_feed_is_republishing(&rig->feed); i++) {
        assert_int_equal(
            relay_feed_poll_old(&rig->feed, clock_monotonic_us() + i * CLOCK_SECOND_US), STATUS_OK);
        if (rig->feed.is_old_read) return;
    }
}

static void what_a_stream_lost_is_published_again(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 2);
    for (int version = 1; version <= 5; version++) write_event(rig.url, 1, version);
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.1 1.2 1.3 1.4 1.5");
    rig_save(&rig);
    int64_t from_xid = 0;
    const struct relay_stream_known stream = { .created = "2026-11-30T10:00:00Z",
                                               .last_sequence = 4 };
    assert_int_equal(relay_store_republish_since(rig.store, 0, &from_xid), STATUS_OK);
    assert_int_equal(relay_feed_republish(&rig.feed, from_xid, &stream, clock_monotonic_us()),
                     STATUS_OK);
    /* A new event brings the lost ones with it, so that the new stream has them in order. */
    write_event(rig.url, 1, 6);
    write_event(rig.url, 2, 1);
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.1 2.1 1.2 1.3 1.4 1.5 1.6");
    poll_old(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.1 1.2 1.3 1.4 1.5");
    assert_int_equal(relay_feed_poll_old(&rig.feed, clock_monotonic_us()), STATUS_OK);
    assert_false(relay_feed_is_republishing(&rig.feed));
    assert_int_equal(pg_fixture_number(rig.url, "SELECT count(*) FROM oncepay.relay_position WHERE"
                                                " name = 'republish:0' AND mark_xid IS NULL"),
                     1);
    assert_int_equal(pg_fixture_number(rig.url,
                                       "SELECT stream_last FROM oncepay.relay_position WHERE"
                                       " name = 'stream:PAY_EVENT'"),
                     4);
    rig_close(&rig);
    arena_finish(&arena);
}

static void a_restart_goes_on_republishing(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 3);
    for (int payment = 1; payment <= 5; payment++) write_event(rig.url, payment, 1);
    rig_poll(&rig);
    (void)rig_publish(&rig, &arena);
    rig_save(&rig);
    int64_t from_xid = 0;
    const struct relay_stream_known stream = { .created = "2026-11-30T10:00:00Z" };
    assert_int_equal(relay_store_republish_since(rig.store, 0, &from_xid), STATUS_OK);
    assert_int_equal(relay_feed_republish(&rig.feed, from_xid, &stream, clock_monotonic_us()),
                     STATUS_OK);
    assert_int_equal(relay_feed_poll_old(&rig.feed, clock_monotonic_us()), STATUS_OK);
    assert_string_equal(rig_publish(&rig, &arena), "1.1 2.1");
    rig_save(&rig);
    rig_start(&rig);
    assert_true(relay_feed_is_republishing(&rig.feed));
    assert_string_equal(rig.feed.stream.created, stream.created);
    poll_old(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "2.1 3.1 4.1 5.1");
    rig_close(&rig);
    arena_finish(&arena);
}

static void republishing_begins_before_the_last_event_held(void **state)
{
    (void)state;
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    for (int payment = 1; payment <= 9; payment++) write_event(url, payment, 1);
    char *text =
        pg_fixture_text(url, "SELECT id FROM oncepay.outbox ORDER BY xid OFFSET 7 LIMIT 1");
    struct outbox_id id;
    assert_true(uuid_parse(text, &id.uuid));
    free(text);
    int64_t xid = 0;
    assert_int_equal(relay_store_republish_after(store, id, 3, &xid), STATUS_OK);
    assert_int_equal(xid, pg_fixture_number(url, "SELECT xid::text::int8 FROM oncepay.outbox"
                                                 " ORDER BY xid OFFSET 4 LIMIT 1"));
    assert_int_equal(relay_store_republish_after(store, id, 1000, &xid), STATUS_OK);
    assert_int_equal(xid,
                     pg_fixture_number(url, "SELECT min(xid::text::int8) FROM oncepay.outbox"));
    id.uuid.bytes[0] ^= 1;
    assert_int_equal(relay_store_republish_after(store, id, 3, &xid), STATUS_NOT_FOUND);
    store_destroy(store);
}

/* Restored from a dump: the marks' numbers are of a cluster that is gone. */
static void another_database_is_published_again_by_time(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 100);
    write_event(rig.url, 1, 1);
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.1");
    rig_save(&rig);
    pg_fixture_run(rig.url,
                   "UPDATE oncepay.relay_position SET system_identifier = 42;"
                   "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version,"
                   " payment_id, body, headers, xid) VALUES (" TIME_ID ", 2, 'pay.event.m.x',"
                   " 1, '00000000-0000-7000-8000-000000000009', 1,"
                   " '00000000-0000-7000-8000-000000000009', '', '', '900000000')");
    rig_start(&rig);
    assert_true(relay_feed_is_republishing(&rig.feed));
    write_event(rig.url, 2, 1);
    rig_poll(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "2.1");
    poll_old(&rig);
    assert_string_equal(rig_publish(&rig, &arena), "1.1 2.1 9.1");
    rig_close(&rig);
    arena_finish(&arena);
}

/* --- a backlog -------------------------------------------------------------------------------- */

enum { BACKLOG = 100000 };

static void fill_backlog(const char *url)
{
    /* 20 events a transaction, two of each payment. */
    pg_fixture_run(
        url,
        "CREATE PROCEDURE fill(n int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..n / 20 LOOP"
        " INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id,"
        " body, headers) SELECT gen_random_uuid(), 2, 's', 1, p, v, p,"
        " convert_to(repeat('b', 400), 'UTF8'), repeat('h', 150) FROM (SELECT"
        " gen_random_uuid() AS p FROM generate_series(1, 10)) x, generate_series(1, 2) v;"
        " COMMIT; END LOOP; END $$");
    char sql[64];
    (void)snprintf(sql, sizeof sql, "CALL fill(%d)", BACKLOG);
    pg_fixture_run(url, sql);
}

static int64_t buffers_of_page(PGconn *connection, const char *base, bool *out_has_scan)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE page('%s', NULL, 0,"
                   " '00000000-0000-0000-0000-000000000000', 512,"
                   " '00000000-0000-0000-0000-000000000000', 0)",
                   base);
    PGresult *result = PQexec(connection, sql);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    int64_t buffers = -1;
    for (int i = 0; i < PQntuples(result); i++) {
        const char *line = PQgetvalue(result, i, 0);
        if (strstr(line, "Seq Scan on outbox") != NULL) *out_has_scan = true;
        const char *hit = strstr(line, "shared hit=");
        if (hit == NULL || buffers >= 0) continue; /* the first line of the plan counts all */
        buffers = strtoll(hit + 11, NULL, 10);
        const char *read = strstr(line, "read=");
        if (read != NULL) buffers += strtoll(read + 5, NULL, 10);
    }
    PQclear(result);
    return buffers;
}

/*
 * Trap 2 of the speed notes: a poll must not sort or scan what was published long ago, nor what
 * comes later.
 */
static void a_page_costs_the_same_anywhere_in_a_backlog(void **state)
{
    (void)state;
    const char *url = pg_fixture_database(fixture);
    PGconn *connection = PQconnectdb(url);
    execute(connection, "SET enable_seqscan = off; SET enable_mergejoin = off; SET jit = off;"
                        "SET plan_cache_mode = force_generic_plan");
    struct arena arena = { NULL };
    execute(connection,
            arena_format(&arena, "PREPARE page (text, text, int8, uuid, int4, uuid, int4) AS\n%s",
                         statement_texts[STMT_RELAY_EVENTS].text));
    bool has_scan = false;
    (void)buffers_of_page(connection, "3:3:", &has_scan); /* planned while all is small */
    fill_backlog(url);
    const int64_t low = pg_fixture_number(url, "SELECT min(xid::text::int8) FROM oncepay.outbox");
    const int64_t high = pg_fixture_number(url, "SELECT max(xid::text::int8) FROM oncepay.outbox");
    char base[3][128];
    (void)snprintf(base[0], sizeof base[0], "%" PRId64 ":%" PRId64 ":", low, low);
    (void)snprintf(base[1], sizeof base[1], "%" PRId64 ":%" PRId64 ":%" PRId64 ",%" PRId64, low + 2,
                   (low + high) / 2, low + 2, low + 9);
    (void)snprintf(base[2], sizeof base[2], "%" PRId64 ":%" PRId64 ":", high + 1, high + 1);
    for (size_t i = 0; i < COUNT_OF(base); i++) {
        const int64_t buffers = buffers_of_page(connection, base[i], &has_scan);
        assert_true(buffers >= 0 && buffers < 2000);
    }
    assert_false(has_scan);
    PQfinish(connection);
    arena_finish(&arena);
}

static void a_backlog_is_published_whole_in_bounded_memory(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 512);
    rig.feed.options.queue_max = 4096;
    fill_backlog(rig.url);
    int64_t published = 0;
    size_t most = 0;
    bool has_more = true;
    while (has_more || relay_queue_count(rig.queue) > 0) {
        assert_int_equal(relay_feed_poll(&rig.feed, clock_monotonic_us(), &has_more), STATUS_OK);
        if (relay_queue_count(rig.queue) > most) most = relay_queue_count(rig.queue);
        struct relay_event *event = NULL;
        for (int i = 0; i < 600 && (event = relay_queue_next(rig.queue)) != NULL; i++) {
            assert_true(relay_queue_confirm(rig.queue, event));
            published++;
        }
    }
    assert_int_equal(published, BACKLOG);
    assert_true(most <= 4096 + 512);
    rig.feed.confirmed = (uint64_t)published;
    rig_save(&rig);
    assert_true(saved_mark(&rig) > pg_fixture_number(rig.url, "SELECT max(xid::text::int8) FROM"
                                                              " oncepay.outbox"));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transaction_that_ends_late_is_not_skipped),
        cmocka_unit_test(what_is_read_together_goes_by_version_not_by_transaction),
        cmocka_unit_test(a_page_does_not_part_what_belongs_together),
        cmocka_unit_test(a_transaction_longer_than_a_page_keeps_its_order),
        cmocka_unit_test(a_restart_begins_at_the_first_unconfirmed),
        cmocka_unit_test(a_mark_never_falls),
        cmocka_unit_test(only_one_relay_holds_a_shard),
        cmocka_unit_test(a_session_that_is_not_ours_says_nothing),
        cmocka_unit_test(what_a_stream_lost_is_published_again),
        cmocka_unit_test(a_restart_goes_on_republishing),
        cmocka_unit_test(republishing_begins_before_the_last_event_held),
        cmocka_unit_test(another_database_is_published_again_by_time),
        cmocka_unit_test(a_page_costs_the_same_anywhere_in_a_backlog),
        cmocka_unit_test(a_backlog_is_published_whole_in_bounded_memory),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
