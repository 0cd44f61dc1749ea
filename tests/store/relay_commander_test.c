/*
 * tests/store/relay_commander_test.c: the relay's command half on a real PostgreSQL: what counts as
 * moved on, what is emitted again, what is stuck.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "pipeline/clock.h"
#include "stages/relay/relay_commander.h"
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

enum { STUCK_AFTER_S = 60 };

static void open_commander(struct relay_commander *commander, struct store *store,
                           int64_t republish_per_s)
{
    static struct config_account account = { .id = "main" };
    const struct config config = {
        .relay = { .command_lag_ms = 10000, .republish_per_s_max = republish_per_s },
        .postgres = { .statement_timeout_ms = 5000 },
        .timers = { .stuck_after_s = STUCK_AFTER_S },
        .accounts = &account,
        .account_count = 1,
    };
    relay_commander_init(commander, &config, store, NULL);
    assert_int_equal(relay_commander_start(commander, clock_monotonic_us()), STATUS_OK);
}

static void sweep(struct relay_commander *commander)
{
    bool has_more = true;
    while (has_more) {
        assert_int_equal(relay_commander_sweep(commander, clock_monotonic_us(), &has_more),
                         STATUS_OK);
    }
}

/* An id as ours are: its time in front. */
#define TIME_ID                                                                                    \
    "overlay(gen_random_uuid()::text PLACING left(oncepay.uuid_floor(now())::text, 13) FROM "      \
    "1)::uuid"

/* The guards are off: what is tested is what the relay makes of the rows. */
static void arrange(const char *url, const char *sql)
{
    struct arena arena = { NULL };
    pg_fixture_run(url, arena_format(&arena, "SET session_replication_role = replica; %s", sql));
    arena_finish(&arena);
}

static const char *id(struct arena *arena, const char *what, int number)
{
    return arena_format(arena, "00000000-0000-7000-%s-%012d", what, number);
}

static const char *payment_sql(struct arena *arena, int number, int status, const char *more)
{
    return arena_format(
        arena,
        "INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, amount,"
        " currency, method_type, status, version, certainty, start_by, history_hash,"
        " created_at) VALUES ('%s', 'm', 't%d', 'none', 1, 'EUR', 'card',"
        " %d, 1, 1, now(), '', now() - interval '30 s');"
        "INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status,"
        " to_status, event, why, actor, prev_hash, at) VALUES ('%s', 1, '%s', 1, 0,"
        " %d, 'e', 'w', 'a', '', now() - interval '30 s'); %s",
        id(arena, "8000", number), number, status, id(arena, "8000", number),
        id(arena, "8000", number), status, more);
}

static const char *attempt_sql(struct arena *arena, int number, int ordinal, int status,
                               int version, const char *more)
{
    return arena_format(
        arena,
        "INSERT INTO oncepay.payment_attempt (id, payment_id, operation, number, ordinal,"
        " channel_account, method_type, amount, currency, provider_key, request_hash,"
        " request_bytes, status, certainty, version, history_hash)"
        " VALUES ('%s', '%s', 1, 1, %d, 'main', 'card', 1, 'EUR', 'k%d-%d', sha256(''),"
        " '', %d, 1, %d, ''); %s",
        id(arena, ordinal == 1 ? "9000" : "9100", number), id(arena, "8000", number), ordinal,
        number, ordinal, status, version, more);
}

static const char *command_sql(struct arena *arena, const char *subject, int entity,
                               const char *entity_id, int version, const char *payment, int age_s)
{
    return arena_format(arena,
                        "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version,"
                        " payment_id, created_at) VALUES (" TIME_ID ", 1, '%s', %d, '%s', %d, %s,"
                        " now() - interval '%d s');",
                        subject, entity, entity_id, version,
                        payment == NULL ? "NULL" : arena_format(arena, "'%s'", payment), age_s);
}

/* How many new rows there are for an entity. */
static int64_t emitted(const char *url, const char *entity_id)
{
    struct arena arena = { NULL };
    const int64_t count = pg_fixture_number(
        url, arena_format(&arena,
                          "SELECT count(*) FROM oncepay.outbox WHERE kind = 1 AND"
                          " entity_id = '%s' AND created_at > now() - interval '5 s'",
                          entity_id));
    arena_finish(&arena);
    return count;
}

/* --- moved on, or not ------------------------------------------------------------------------- */

static void route_has_moved_when_the_ordinal_exists(void **state)
{
    (void)state;
    struct arena a = { NULL };
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_commander commander;
    arrange(url, payment_sql(&a, 1, 10, "")); /* lost */
    arrange(url, payment_sql(&a, 2, 20, "")); /* routed */
    arrange(url, attempt_sql(&a, 2, 1, 10, 1, ""));
    arrange(url, payment_sql(&a, 3, 10, "")); /* decided: no route */
    arrange(url, arena_format(
                     &a,
                     "INSERT INTO oncepay.routing_decision (id, payment_id, follows,"
                     " routing_version, reasons) VALUES (gen_random_uuid(), '%s', 0, 'v', '{}')",
                     id(&a, "8000", 3)));
    arrange(url, payment_sql(&a, 4, 10, "")); /* dead-lettered */
    arrange(url,
            arena_format(&a,
                         "INSERT INTO oncepay.dead_letter (id, consumer, subject, headers, body,"
                         " code, problem, payment_id) VALUES (gen_random_uuid(), 'route', 's', '',"
                         " '', 'c', '{}', '%s')",
                         id(&a, "8000", 4)));
    arrange(url, payment_sql(&a, 5, 20, "")); /* failover decided, not routed: lost */
    arrange(url, attempt_sql(&a, 5, 1, 60, 3, ""));
    arrange(url, payment_sql(&a, 6, 90, "")); /* over */
    arrange(url, payment_sql(&a, 7, 10, "")); /* too young to be looked at */
    for (int i = 1; i <= 7; i++) {
        arrange(url, command_sql(&a, "pay.route.3", 1, id(&a, "8000", i), i == 5 ? 1 : 0,
                                 id(&a, "8000", i), i == 7 ? 12 : 20));
    }
    open_commander(&commander, store, 1000);
    sweep(&commander);
    static const int EXPECTED[] = { 1, 0, 0, 0, 1, 0, 0 };
    for (int i = 1; i <= 7; i++) {
        assert_int_equal(emitted(url, id(&a, "8000", i)), EXPECTED[i - 1]);
    }
    sweep(&commander); /* the mark has moved over them: once is enough */
    assert_int_equal(emitted(url, id(&a, "8000", 1)), 1);
    relay_commander_finish(&commander);
    store_destroy(store);
    arena_finish(&a);
}

static void create_has_moved_when_the_attempt_left_created(void **state)
{
    (void)state;
    struct arena a = { NULL };
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_commander commander;
    for (int i = 1; i <= 4; i++) arrange(url, payment_sql(&a, i, 20, ""));
    arrange(url, attempt_sql(&a, 1, 1, 10, 1, "")); /* lost */
    arrange(url, attempt_sql(&a, 2, 1, 20, 2, "")); /* fenced */
    arrange(url, attempt_sql(&a, 3, 1, 10, 3, "")); /* proven unsent: this command did its work */
    arrange(url, attempt_sql(&a, 4, 1, 10, 3, "")); /* … and its next one was lost */
    for (int i = 1; i <= 4; i++) {
        arrange(url, command_sql(&a, "pay.create.main.new", 2, id(&a, "9000", i), i == 4 ? 3 : 1,
                                 id(&a, "8000", i), 20));
    }
    open_commander(&commander, store, 1000);
    sweep(&commander);
    static const int EXPECTED[] = { 1, 0, 0, 1 };
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(emitted(url, id(&a, "9000", i)), EXPECTED[i - 1]);
    }
    relay_commander_finish(&commander);
    store_destroy(store);
    arena_finish(&a);
}

static void set_applied(const char *url, struct arena *a, int number, const char *attempt,
                        int version)
{
    arrange(url,
            arena_format(a,
                         "UPDATE oncepay.payment SET applied_attempt = '%s', applied_version = %d"
                         " WHERE id = '%s'",
                         attempt, version, id(a, "8000", number)));
}

static void settle_has_moved_when_the_version_is_applied(void **state)
{
    (void)state;
    struct arena a = { NULL };
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_commander commander;
    for (int i = 1; i <= 6; i++) {
        arrange(url, payment_sql(&a, i, i == 6 ? 90 : 20, ""));
        arrange(url, attempt_sql(&a, i, 1, i == 4 ? 50 : i >= 5 ? 60 : 30, 3, ""));
    }
    set_applied(url, &a, 1, id(&a, "9000", 1), 2); /* older news: version 3 was lost */
    set_applied(url, &a, 2, id(&a, "9000", 2), 3); /* applied */
    for (int i = 4; i <= 5; i++) {                 /* a later attempt was applied */
        arrange(url, attempt_sql(&a, i, 2, 30, 2, ""));
        set_applied(url, &a, i, id(&a, "9100", i), 2);
    }
    arrange(url, arena_format(&a,
                              "INSERT INTO oncepay.stray_fact (id, payment_id, attempt_id, kind,"
                              " channel_account, provider_object, evidence_id) VALUES"
                              " (gen_random_uuid(), '%s', '%s', 1, 'main', 'o', gen_random_uuid())",
                              id(&a, "8000", 6), id(&a, "9000", 6)));
    for (int i = 1; i <= 6; i++) {
        arrange(url,
                command_sql(&a, "pay.settle.7", 2, id(&a, "9000", i), 3, id(&a, "8000", i), 20));
    }
    open_commander(&commander, store, 1000);
    sweep(&commander);
    static const int EXPECTED[] = {
        1, 0, 1, /* nothing applied at all */
        1,       /* a success is never overtaken */
        0,       /* a failure is */
        0,       /* recorded as a stray fact */
    };
    for (int i = 1; i <= 6; i++) {
        assert_int_equal(emitted(url, id(&a, "9000", i)), EXPECTED[i - 1]);
    }
    relay_commander_finish(&commander);
    store_destroy(store);
    arena_finish(&a);
}

static void no_route_and_evidence(void **state)
{
    (void)state;
    struct arena a = { NULL };
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_commander commander;
    arrange(url, payment_sql(&a, 1, 10, ""));
    arrange(url, payment_sql(&a, 2, 90, ""));
    for (int i = 1; i <= 2; i++) {
        arrange(url,
                command_sql(&a, "pay.settle.1", 5, id(&a, "a000", i), 0, id(&a, "8000", i), 20));
    }
    for (int i = 3; i <= 5; i++) { /* waiting, looked at and parked, done */
        arrange(url, arena_format(
                         &a,
                         "INSERT INTO oncepay.webhook_inbox (id, channel_account, event_id, kind,"
                         " digest, excerpt, looks, processed_at) VALUES ('%s', 'main', 'e%d', 1,"
                         " '', '', %d, %s)",
                         id(&a, "a000", i), i, i == 4 ? 1 : 0, i == 5 ? "now()" : "NULL"));
        arrange(url,
                command_sql(&a, "pay.recover.evidence.main", 6, id(&a, "a000", i), 0, NULL, 20));
    }
    open_commander(&commander, store, 1000);
    sweep(&commander);
    static const int EXPECTED[] = { 1, 0, 1, 0, 0 };
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(emitted(url, id(&a, "a000", i)), EXPECTED[i - 1]);
    }
    relay_commander_finish(&commander);
    store_destroy(store);
    arena_finish(&a);
}

/* --- marks and caps --------------------------------------------------------------------------- */

static void a_whole_lost_stream_costs_one_sweep_under_the_cap(void **state)
{
    (void)state;
    struct arena a = { NULL };
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_commander commander;
    arrange(
        url,
        "INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, amount, currency,"
        " method_type, status, version, certainty, start_by, history_hash)"
        " SELECT ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'm', 't' || i,"
        " 'none', 1, 'EUR', 'card', 10, 1, 1, now(), '' FROM generate_series(1, 3000) i;"
        "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id,"
        " created_at) SELECT " TIME_ID ", 1, 'pay.route.' || id % 16, 1, p, 0, p, now()"
        " - interval '40 s' + id * interval '1 ms' FROM (SELECT i AS id,"
        " ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid AS p"
        " FROM generate_series(1, 3000) i) x");
    open_commander(&commander, store, 1000);
    int64_t now_us = clock_monotonic_us();
    bool has_more = false;
    assert_int_equal(relay_commander_sweep(&commander, now_us, &has_more), STATUS_OK);
    const char *const fresh =
        "SELECT count(*) FROM oncepay.outbox WHERE kind = 1 AND created_at > now()"
        " - interval '10 s'";
    assert_int_equal(pg_fixture_number(url, fresh), 1000);
    for (int second = 1; second <= 3; second++) {
        assert_int_equal(
            relay_commander_sweep(&commander, now_us + second * CLOCK_SECOND_US, &has_more),
            STATUS_OK);
    }
    assert_int_equal(pg_fixture_number(url, fresh), 3000); /* each once */
    assert_int_equal(
        pg_fixture_number(url, "SELECT max(n) FROM (SELECT count(*) AS n FROM oncepay.outbox"
                               " GROUP BY entity_id) x"),
        2);
    assert_int_equal(
        pg_fixture_number(url, "SELECT count(*) FROM oncepay.relay_position WHERE name LIKE"
                               " 'command:pay.route.%' AND mark_at > now() - interval '60 s'"),
        16);
    relay_commander_finish(&commander);
    store_destroy(store);
    arena_finish(&a);
}

static void rows_of_one_moment_are_not_parted(void **state)
{
    (void)state;
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_commander commander;
    arrange(url,
            "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id,"
            " created_at) SELECT gen_random_uuid(), 1, 'pay.route.1', 1, p, 0, p, now() - interval "
            "'20 s'"
            " FROM (SELECT gen_random_uuid() AS p FROM generate_series(1, 2000)) x");
    open_commander(&commander, store, 1000);
    struct arena arena = { NULL };
    struct relay_command_page page;
    const struct relay_command_mark mark = { "pay.route.1", 0 };
    assert_int_equal(relay_command_store_page(store, &mark, 1, 15000, 512, 0, &arena, &page),
                     STATUS_OK);
    assert_int_equal(page.count, 2000);
    sweep(&commander);
    arena_finish(&arena);
    relay_commander_finish(&commander);
    store_destroy(store);
}

/* --- stuck ------------------------------------------------------------------------------------ */

static void stuck_work_is_emitted_then_told_then_a_case(void **state)
{
    (void)state;
    struct arena a = { NULL };
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_commander commander;
    const char *attempt = id(&a, "9000", 1);
    arrange(url, payment_sql(&a, 1, 20, attempt_sql(&a, 1, 1, 10, 1, "")));
    arrange(url,
            arena_format(
                &a, "UPDATE oncepay.payment_attempt SET created_at = now() - interval '61 s'"));
    arrange(url, command_sql(&a, "pay.create.main.new", 2, attempt, 1, id(&a, "8000", 1), 20));
    open_commander(&commander, store, 1000);
    sweep(&commander);
    assert_int_equal(emitted(url, attempt), 1);
    assert_int_equal(
        pg_fixture_number(url, "SELECT count(*) FROM oncepay.stuck_command WHERE stage = 'create'"
                               " AND channel_account = 'main' AND state = 20"),
        1);
    assert_int_equal(relay_commander_stuck(&commander, clock_monotonic_us()), STATUS_OK);
    assert_int_equal(emitted(url, attempt), 1); /* not due yet */
    const char *const cases =
        "SELECT count(*) FROM oncepay.manual_case WHERE kind = 5 AND status = 10 AND"
        " stage = 'create' AND channel_account = 'main'";
    assert_int_equal(pg_fixture_number(url, cases), 0);
    /* Five times as long: a case, one however much is stuck; it goes on being emitted. */
    pg_fixture_run(
        url, "UPDATE oncepay.stuck_command SET since = now() - interval '301 s', next_at = now()");
    assert_int_equal(relay_commander_stuck(&commander, clock_monotonic_us()), STATUS_OK);
    assert_int_equal(relay_commander_stuck(&commander, clock_monotonic_us()), STATUS_OK);
    assert_int_equal(pg_fixture_number(url, cases), 1);
    assert_int_equal(emitted(url, attempt), 2);
    assert_int_equal(pg_fixture_number(url, "SELECT emissions FROM oncepay.stuck_command"), 2);
    /* Its own rows in the outbox are the list's business, not the sweep's. */
    pg_fixture_run(
        url,
        "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, payment_id,"
        " created_at) SELECT gen_random_uuid(), 1, subject, 2, entity_id, version, payment_id,"
        " now() - interval '16 s' FROM oncepay.stuck_command");
    sweep(&commander);
    assert_int_equal(emitted(url, attempt), 2);
    /* It moves: off the list, and the case closes. */
    arrange(url, "UPDATE oncepay.payment_attempt SET status = 20, version = 2");
    pg_fixture_run(url, "UPDATE oncepay.stuck_command SET next_at = now()");
    assert_int_equal(relay_commander_stuck(&commander, clock_monotonic_us()), STATUS_OK);
    assert_int_equal(pg_fixture_number(url, "SELECT count(*) FROM oncepay.stuck_command"), 0);
    assert_int_equal(pg_fixture_number(url, cases), 0);
    assert_int_equal(emitted(url, attempt), 2);
    relay_commander_finish(&commander);
    store_destroy(store);
    arena_finish(&a);
}

static void fences_that_nobody_took_over_are_stuck_too(void **state)
{
    (void)state;
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct relay_commander commander;
    pg_fixture_run(url,
                   "INSERT INTO oncepay.fence_batch (id, channel_account, worker, attempts, due_at)"
                   " SELECT gen_random_uuid(), 'main', 'w', ARRAY[gen_random_uuid()], now()"
                   " - interval '301 s' FROM generate_series(1, 3)");
    open_commander(&commander, store, 1000);
    const char *const cases =
        "SELECT count(*) FROM oncepay.manual_case WHERE kind = 5 AND status = 10 AND"
        " stage = 'recover' AND channel_account = 'main'";
    assert_int_equal(relay_commander_stuck(&commander, clock_monotonic_us()), STATUS_OK);
    assert_int_equal(relay_commander_stuck(&commander, clock_monotonic_us()), STATUS_OK);
    assert_int_equal(pg_fixture_number(url, cases), 1);
    pg_fixture_run(url, "DELETE FROM oncepay.fence_batch");
    assert_int_equal(relay_commander_stuck(&commander, clock_monotonic_us()), STATUS_OK);
    assert_int_equal(pg_fixture_number(url, cases), 0);
    relay_commander_finish(&commander);
    store_destroy(store);
}

/* --- plans ------------------------------------------------------------------------------------ */

enum { PLANNED = 20000, ASKED = 200 };

struct planned {
    enum statement statement;
    const char *types;
    const char
        *arguments; /* @p: payments, @a: attempts, @n: as many ones, @s: subjects, @t: times */
};

static const struct planned PLANS[] = {
    { STMT_RELAY_UNMOVED_ROUTE, "uuid[], int4[]", "@p, @n" },
    { STMT_RELAY_UNMOVED_CREATE, "uuid[], int4[]", "@a, @n" },
    { STMT_RELAY_UNMOVED_SETTLE, "uuid[], int4[], uuid[]", "@a, @n, @p" },
    { STMT_RELAY_UNMOVED_NO_ROUTE, "uuid[], int4[]", "@p, @n" },
    { STMT_RELAY_UNMOVED_EVIDENCE, "uuid[]", "@p" },
    { STMT_RELAY_STUCK_KNOWN, "int2[], uuid[], int4[]", "@n, @p, @n" },
    { STMT_RELAY_COMMANDS, "text[], timestamptz[], int8, int4, uuid",
      "@s, @t, 15000, 512, '00000000-0000-0000-0000-000000000000'" },
    { STMT_RELAY_EVENTS_BEFORE, "uuid[], int4[], int8, text, uuid, uuid",
      "@p, @n, 3, '900000:900000:', '00000000-0000-0000-0000-000000000000',"
      " '00000000-0000-0000-0000-000000000000'" },
};

static char *text_of(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    char *text = memory_copy_text(PQgetvalue(result, 0, 0));
    PQclear(result);
    return text;
}

static void run(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    PQclear(result);
}

/* The arguments with their arrays as literals. */
static const char *fill_in(PGconn *connection, const char *arguments, struct arena *arena)
{
    static const struct {
        char letter;
        const char *sql;
    } ARRAYS[] = {
        { 'p', "SELECT array_agg(id)::text FROM (SELECT id FROM oncepay.payment ORDER BY id LIMIT "
               "%d) x" },
        { 'a', "SELECT array_agg(id)::text FROM (SELECT id FROM oncepay.payment_attempt ORDER BY "
               "payment_id"
               " LIMIT %d) x" },
        { 'n', "SELECT array_fill(1, ARRAY[(SELECT least(count(*), %d)::int FROM "
               "oncepay.payment)])::text" },
        { 's',
          "SELECT array_agg('pay.route.' || i)::text FROM generate_series(0, 15) i WHERE %d > 0" },
        { 't', "SELECT array_agg(now() - interval '1 d')::text FROM generate_series(0, 15) i WHERE "
               "%d > 0" },
    };
    const char *text = "";
    for (const char *c = arguments; *c != '\0'; c++) {
        if (*c != '@') {
            text = arena_format(arena, "%s%c", text, *c);
            continue;
        }
        c++;
        for (size_t i = 0; i < COUNT_OF(ARRAYS); i++) {
            if (ARRAYS[i].letter != *c) continue;
            char sql[256];
            (void)snprintf(sql, sizeof sql, "%.*s%d%s",
                           (int)(strchr(ARRAYS[i].sql, '%') - ARRAYS[i].sql), ARRAYS[i].sql, ASKED,
                           strchr(ARRAYS[i].sql, '%') + 2);
            char *array = text_of(connection, sql);
            text = arena_format(arena, "%s'%s'", text, array[0] == '\0' ? "{}" : array);
            free(array);
        }
    }
    return text;
}

static void look_at_plan(PGconn *connection, size_t number, bool is_full, struct arena *arena)
{
    const char *sql =
        arena_format(arena, "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE p%zu(%s)",
                     number, fill_in(connection, PLANS[number].arguments, arena));
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    int64_t buffers = -1;
    for (int i = 0; i < PQntuples(result); i++) {
        const char *line = PQgetvalue(result, i, 0);
        const char *hit = strstr(line, "shared hit=");
        if (hit != NULL && buffers < 0) buffers = strtoll(hit + 11, NULL, 10);
        if (is_full && (strstr(line, "Seq Scan") != NULL || strstr(line, "Hash") != NULL)) {
            fail_msg("%s: %s", statement_texts[PLANS[number].statement].name, line);
        }
    }
    /* A few pages for each look-up, however much there is. */
    if (is_full && buffers > ASKED * 60) {
        fail_msg("%s: %" PRId64 " buffers", statement_texts[PLANS[number].statement].name, buffers);
    }
    PQclear(result);
}

/* Traps 1 and 3 of the speed notes: planned while all is empty, used when it is not. */
static void look_ups_stay_look_ups(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    const char *url = pg_fixture_database(fixture);
    PGconn *connection = PQconnectdb(url);
    run(connection, "SET enable_seqscan = off; SET enable_mergejoin = off; SET jit = off;"
                    "SET plan_cache_mode = force_generic_plan");
    for (size_t i = 0; i < COUNT_OF(PLANS); i++) {
        run(connection, arena_format(&arena, "PREPARE p%zu (%s) AS\n%s", i, PLANS[i].types,
                                     statement_texts[PLANS[i].statement].text));
        look_at_plan(connection, i, false, &arena);
    }
    arrange(url,
            arena_format(
                &arena,
                "INSERT INTO oncepay.payment (id, merchant, out_trade_no, target_kind, amount,"
                " currency, method_type, status, version, certainty, start_by, history_hash)"
                " SELECT gen_random_uuid(), 'm', 't' || i, 'none', 1, 'EUR', 'card',"
                " 20, 1, 1, now(), '' FROM generate_series(1, %d) i;"
                "INSERT INTO oncepay.payment_attempt (id, payment_id, operation, number, ordinal,"
                " channel_account, method_type, amount, currency, provider_key, request_hash,"
                " request_bytes, status, certainty, version, history_hash)"
                " SELECT gen_random_uuid(), id, 1, 1, 1, 'main', 'card', 1, 'EUR', id::text,"
                " sha256(''), '', 10, 1, 1, '' FROM oncepay.payment;"
                "INSERT INTO oncepay.state_history (payment_id, entity, id, version, from_status,"
                " to_status, event, why, actor, prev_hash) SELECT id, 1, id, v, 10, 20, 'e',"
                " 'w', 'a', '' FROM oncepay.payment, generate_series(1, 3) v;"
                "INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version,"
                " payment_id, created_at) SELECT id, 1, 'pay.route.' || abs(hashtext(id::text)) %%"
                " 200, 1, id, 0, id, now() - interval '20 s' FROM oncepay.payment;",
                PLANNED));
    for (size_t i = 0; i < COUNT_OF(PLANS); i++) look_at_plan(connection, i, true, &arena);
    PQfinish(connection);
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(route_has_moved_when_the_ordinal_exists),
        cmocka_unit_test(create_has_moved_when_the_attempt_left_created),
        cmocka_unit_test(settle_has_moved_when_the_version_is_applied),
        cmocka_unit_test(no_route_and_evidence),
        cmocka_unit_test(a_whole_lost_stream_costs_one_sweep_under_the_cap),
        cmocka_unit_test(rows_of_one_moment_are_not_parted),
        cmocka_unit_test(stuck_work_is_emitted_then_told_then_a_case),
        cmocka_unit_test(fences_that_nobody_took_over_are_stuck_too),
        cmocka_unit_test(look_ups_stay_look_ups),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
