/*
 * tests/store/work_finding_test.c: whoever looks for work reads as much when a million rows wait as
 * when a thousand do. Buffers are counted, not time: EXPLAIN (ANALYZE, BUFFERS) of the very
 * statements, prepared as the stages prepare them and rolled back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <libpq-fe.h>

#include "tests/support/pg_fixture.h"

enum { FEW = 1000, MANY = 1000000, SQL_SIZE = 512 };
/* A B-tree over a million rows is two levels deeper; each of the rows found may pay for that. */
enum { SLACK_BUFFERS = 40, GROWTH_PERCENT = 160 };

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

/* A statement that finds work, and values as its stage gives them. */
struct finder {
    const char *statement;
    const char *arguments; /* NULL: it takes none */
};

/* What waits, how it is made, and who looks for it. */
struct queue {
    const char *kind;    /* CALL many_<kind>(first, last) */
    bool is_of_payments; /* many_payments makes them too */
    struct finder finders[3];
};

#define SUBJECTS                                                                                   \
    "ARRAY['pay.settle.0','pay.settle.1','pay.settle.2','pay.settle.3']::text[],"                  \
    " array_fill(now() - interval '1 day', ARRAY[4])"
#define NO_ID "'00000000-0000-0000-0000-000000000000'"

static const struct queue QUEUES[] = {
    { "tasks",
      false,
      { { "task_due", "'stripe-main', 64" },
        { "task_pick", "many_ids(8, 64), 64, true, 30000" },
        { "route_open", "ARRAY['stripe-main'], ARRAY[500]" } } },
    { "timers", false, { { "timer_lift_hold", "64" } } },
    { "fences", false, { { "fence_claim", "'stripe-main', 4, 45000" } } },
    { "webhooks", false, { { "inbox_due", "'stripe-main', 64" } } },
    { "stuck", false, { { "relay_stuck_due", "64" } } },
    { "commands", true, { { "relay_commands", SUBJECTS ", 10000, 64, " NO_ID } } },
    { "events",
      true,
      { { "relay_events", "'5:5:', NULL, 0, " NO_ID ", 256, " NO_ID ", 0" },
        { "query_outbox_lag", "1000" } } },
};

static void run_file(const char *url, const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *sql = memory_allocate(65536);
    const size_t length = fread(sql, 1, 65535, file);
    assert_true(length > 0 && length < 65535);
    (void)fclose(file);
    pg_fixture_run(url, sql);
    free(sql);
}

static void run(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    PQclear(result);
}

static const char *text_of_statement(const char *name)
{
    for (const struct sql_text *text = statement_texts; text->name != NULL; text++) {
        if (strcmp(text->name, name) == 0) return text->text;
    }
    fail_msg("there is no statement %s", name);
    return NULL;
}

static int64_t buffers_of(const json_t *plan)
{
    return json_integer_value(json_object_get(plan, "Shared Hit Blocks")) +
           json_integer_value(json_object_get(plan, "Shared Read Blocks"));
}

/* Pages that one execution touches, and how many rows it finds; the second execution of two, so
 * that catalogs and visibility hints are not counted. */
static int64_t measure(PGconn *connection, const struct finder *finder, int64_t *out_rows)
{
    char sql[SQL_SIZE];
    int64_t buffers = 0;
    (void)snprintf(sql, sizeof sql, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE %s(%s)",
                   finder->statement, finder->arguments);
    for (int i = 0; i < 2; i++) {
        run(connection, "BEGIN");
        PGresult *result = PQexec(connection, sql);
        if (PQresultStatus(result) != PGRES_TUPLES_OK) {
            fail_msg("%s: %s", sql, PQerrorMessage(connection));
        }
        json_t *root = json_loads(PQgetvalue(result, 0, 0), 0, NULL);
        const json_t *plan = json_object_get(json_array_get(root, 0), "Plan");
        assert_non_null(plan);
        buffers = buffers_of(plan);
        *out_rows = json_integer_value(json_object_get(plan, "Actual Rows"));
        json_decref(root);
        PQclear(result);
        run(connection, "ROLLBACK");
    }
    return buffers;
}

static PGconn *open_session(const char *url, const struct queue *queue)
{
    struct store *store = pg_fixture_store(url);
    const char *const names[] = { "dbname", "options", NULL };
    const char *const values[] = { url, store_settings(store), NULL };
    PGconn *connection = PQconnectdbParams(names, values, 1);
    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    store_destroy(store);
    run(connection, "SET statement_timeout = '60s'");
    for (size_t i = 0; i < COUNT_OF(queue->finders) && queue->finders[i].statement; i++) {
        const char *name = queue->finders[i].statement;
        PGresult *result = PQprepare(connection, name, text_of_statement(name), 0, NULL);
        assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
        PQclear(result);
    }
    return connection;
}

/* Index entries one by one would take most of the time: they are built when the rows are there. */
static void fill(const char *url, const struct queue *queue, int first, int last)
{
    char sql[2 * SQL_SIZE];
    (void)snprintf(sql, sizeof sql,
                   "UPDATE pg_index SET indisready = false WHERE indrelid = many_table('%s');"
                   " CALL many_%s(%d, %d);"
                   " UPDATE pg_index SET indisready = true WHERE indrelid = many_table('%s')",
                   queue->kind, queue->kind, first, last, queue->kind);
    pg_fixture_run(url, sql);
    (void)snprintf(sql, sizeof sql, "SELECT format('REINDEX TABLE %%s', many_table('%s'))",
                   queue->kind);
    char *reindex = pg_fixture_text(url, sql);
    pg_fixture_run(url, reindex);
    free(reindex);
}

static void check_queue(const struct queue *queue)
{
    const char *url = pg_fixture_database(fixture);
    run_file(url, SOURCE_DIR "/tests/support/many_rows.sql");
    PGconn *session = open_session(url, queue);
    int64_t few[COUNT_OF(queue->finders)] = { 0 };
    int64_t rows = 0;
    char sql[SQL_SIZE];
    (void)snprintf(sql, sizeof sql, "CALL many_payments(1, %d)", FEW);
    pg_fixture_run(url, sql); /* what the first ones that wait are about */
    if (!queue->is_of_payments) fill(url, queue, 1, FEW);
    for (size_t i = 0; i < COUNT_OF(few) && queue->finders[i].statement; i++) {
        few[i] = measure(session, &queue->finders[i], &rows);
        assert_true(rows > 0);
    }
    fill(url, queue, FEW + 1, MANY);
    for (size_t i = 0; i < COUNT_OF(few) && queue->finders[i].statement; i++) {
        const int64_t many = measure(session, &queue->finders[i], &rows);
        printf("%-22s %8" PRId64 " buffers at %d rows, %8" PRId64 " at %d\n",
               queue->finders[i].statement, few[i], FEW, many, MANY);
        assert_true(rows > 0);
        if (many > few[i] * GROWTH_PERCENT / 100 + SLACK_BUFFERS) {
            fail_msg("%s reads more when more waits", queue->finders[i].statement);
        }
    }
    PQfinish(session);
}

static void looking_for_work_costs_the_same_however_much_waits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(QUEUES); i++) check_queue(&QUEUES[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looking_for_work_costs_the_same_however_much_waits),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
