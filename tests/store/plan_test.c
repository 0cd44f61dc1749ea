/*
 * tests/store/plan_test.c: no statement of the stages scans a big table, whenever it was planned:
 * on empty tables and kept since, on full ones that nobody has analyzed, on full ones with
 * statistics. What was planned on a few rows does, until the session plans anew (store.c).
 * Statements are prepared as the stages prepare them (generic plans) and EXPLAINed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <libpq-fe.h>

#include "pipeline/clock.h"
#include "store/intake_store.h"
#include "tests/support/pg_fixture.h"

enum { PAYMENTS = 100000, WAITING = 20000, FEW = 100, SQL_SIZE = 1024, PLANS_SHOWN = 20 };

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

/* Tables that grow with every payment, or with trouble; partitions go by their parent's name. */
static const char *const BIG[] = {
    "payment",         "payment_attempt", "payment_operation", "attempt_request",
    "attempt_step",    "evidence",        "state_history",     "outbox",
    "idempotency_key", "active_payment",  "provider_object",   "routing_decision",
    "recovery_task",   "webhook_inbox",   "stray_fact",        "manual_case",
    "dead_letter",     "payment_timer",   "fence_batch",       "stuck_command",
};

static bool is_big(const char *relation)
{
    for (size_t i = 0; i < COUNT_OF(BIG); i++) {
        const size_t length = strlen(BIG[i]);
        if (strncmp(relation, BIG[i], length) != 0) continue;
        if (relation[length] == '\0') return true;
        /* state_history_202611, outbox_20261130, idempotency_key_07, evidence_default */
        if (relation[length] == '_' && strcmp(relation + length, "_operation") != 0) return true;
    }
    return false;
}

/* Statements that people run, or migrations: they may read what they like. */
static bool is_of_stages(const char *name)
{
    static const char *const OTHERS[] = { "verify_",     "query_", "migration_", "transition_",
                                          "partitions_", "plans_", "begin",      "commit" };
    for (size_t i = 0; i < COUNT_OF(OTHERS); i++) {
        if (strncmp(name, OTHERS[i], strlen(OTHERS[i])) == 0) return false;
    }
    return true;
}

/* Scans that are meant: all of what is there is the answer, and it is little. */
static const struct {
    const char *statement;
    const char *what; /* table or index */
    const char *why;
} MEANT[] = {
    { "gauge_recovery", "recovery_task_unresolved", "sums over what is open" },
    { "gauge_stuck", "stuck_command", "counts what is stuck" },
    { "relay_stuck_cases", "stuck_command", "counts what is stuck" },
    { "route_open", "fence_batch", "sums over the calls in flight" },
};

static bool is_meant(const char *statement, const char *what)
{
    for (size_t i = 0; i < COUNT_OF(MEANT); i++) {
        if (strcmp(MEANT[i].statement, statement) == 0 && strcmp(MEANT[i].what, what) == 0) {
            return true;
        }
    }
    return false;
}

struct search {
    const char *statement;
    const char *when;
    size_t found;
};

static const char *text_of(const json_t *node, const char *name)
{
    const char *text = json_string_value(json_object_get(node, name));
    return text == NULL ? "" : text;
}

static void complain(struct search *search, const json_t *node)
{
    search->found++;
    fprintf(stderr, "%s (planned %s): %s of %s %s\n", search->statement, search->when,
            text_of(node, "Node Type"), text_of(node, "Relation Name"),
            text_of(node, "Index Name"));
}

/* A bitmap's scan of the index names the index only; its parent names the table. */
static void look_at(struct search *search, const json_t *node, const char *parent_relation)
{
    const char *type = text_of(node, "Node Type");
    const char *own = text_of(node, "Relation Name");
    const char *relation = own[0] == '\0' ? parent_relation : own;
    if (strcmp(type, "Seq Scan") == 0 && is_big(relation) &&
        !is_meant(search->statement, relation)) {
        complain(search, node);
    }
    if ((strcmp(type, "Index Scan") == 0 || strcmp(type, "Index Only Scan") == 0 ||
         strcmp(type, "Bitmap Index Scan") == 0) &&
        json_object_get(node, "Index Cond") == NULL && is_big(relation) &&
        !is_meant(search->statement, text_of(node, "Index Name"))) {
        complain(search, node);
    }
    size_t i = 0;
    const json_t *child = NULL;
    json_array_foreach(json_object_get(node, "Plans"), i, child) look_at(search, child, relation);
}

/* ---- the session --------------------------------------------------------------------------- */

static PGconn *open_session(const char *url)
{
    struct store *store = pg_fixture_store(url);
    const char *const names[] = { "dbname", "options", NULL };
    const char *const values[] = { url, store_settings(store), NULL };
    PGconn *connection = PQconnectdbParams(names, values, 1);
    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    store_destroy(store);
    for (const struct sql_text *text = statement_texts; text->name != NULL; text++) {
        if (!is_of_stages(text->name)) continue;
        PGresult *result = PQprepare(connection, text->name, text->text, 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK) {
            fail_msg("%s: %s", text->name, PQerrorMessage(connection));
        }
        PQclear(result);
    }
    return connection;
}

static int parameter_count(PGconn *connection, const char *statement)
{
    PGresult *result = PQdescribePrepared(connection, statement);
    assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    const int count = PQnparams(result);
    PQclear(result);
    return count;
}

/* The values do not matter to a generic plan. */
static json_t *explain(PGconn *connection, const char *statement)
{
    char sql[SQL_SIZE];
    const int count = parameter_count(connection, statement);
    int used = snprintf(sql, sizeof sql, "EXPLAIN (FORMAT JSON) EXECUTE %s%s", statement,
                        count == 0 ? "" : "(");
    for (int i = 0; i < count; i++) {
        used += snprintf(sql + used, sizeof sql - (size_t)used, "%s", i == 0 ? "NULL" : ", NULL");
    }
    (void)snprintf(sql + used, sizeof sql - (size_t)used, "%s", count == 0 ? "" : ")");
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", statement, PQerrorMessage(connection));
    }
    json_t *plan = json_loads(PQgetvalue(result, 0, 0), 0, NULL);
    PQclear(result);
    assert_non_null(plan);
    return plan;
}

static size_t count_scans(PGconn *connection, const char *when)
{
    struct search search = { .when = when };
    size_t looked_at = 0;
    for (const struct sql_text *text = statement_texts; text->name != NULL; text++) {
        if (!is_of_stages(text->name)) continue;
        search.statement = text->name;
        json_t *plan = explain(connection, text->name);
        const json_t *root = json_object_get(json_array_get(plan, 0), "Plan");
        assert_non_null(root);
        look_at(&search, root, "");
        json_decref(plan);
        looked_at++;
    }
    assert_true(looked_at > 50);
    return search.found;
}

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

static void add_payments(const char *url, int first, int last)
{
    char sql[SQL_SIZE];
    (void)snprintf(sql, sizeof sql, "CALL many_payments(%d, %d)", first, last);
    pg_fixture_run(url, sql);
}

static void add_waiting(const char *url, int last)
{
    static const char *const KINDS[] = { "tasks", "timers", "fences", "webhooks", "stuck" };
    char sql[SQL_SIZE];
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        (void)snprintf(sql, sizeof sql, "CALL many_%s(1, %d)", KINDS[i], last);
        pg_fixture_run(url, sql);
    }
}

/* Plans are kept for a while, so those of empty tables must do for full ones. */
static void no_plan_of_the_stages_scans_a_big_table(void **state)
{
    (void)state;
    const char *url = pg_fixture_database(fixture);
    run_file(url, SOURCE_DIR "/tests/support/many_rows.sql");
    PGconn *session = open_session(url);
    size_t found = count_scans(session, "on empty tables");
    add_payments(url, 1, FEW);
    pg_fixture_run(url, "ANALYZE");
    add_payments(url, FEW + 1, PAYMENTS);
    add_waiting(url, WAITING);
    PGconn *second = open_session(url);
    found += count_scans(second, "on many payments, statistics of few");
    pg_fixture_run(url, "ANALYZE");
    found += count_scans(session, "on many payments with statistics");
    PQfinish(second);
    PQfinish(session);
    assert_int_equal(found, 0);
}

static int64_t payments_read(const char *url)
{
    return pg_fixture_number(url, "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes"
                                  " WHERE relname = 'payment'");
}

static void view_a_payment(const char *url, struct store *store)
{
    struct arena arena = { NULL };
    struct payment_view *views = NULL;
    struct payment_id payment;
    size_t count = 0;
    char *id = pg_fixture_text(url, "SELECT id FROM payment ORDER BY id LIMIT 1");
    assert_true(uuid_parse(id, &payment.uuid));
    assert_int_equal(intake_read_views(store, &payment, 1, &arena, &views, &count), STATUS_OK);
    assert_int_equal(count, 1);
    free(id);
    arena_finish(&arena);
}

static void explain_all(PGconn *session)
{
    for (const struct sql_text *text = statement_texts; text->name != NULL; text++) {
        if (is_of_stages(text->name)) json_decref(explain(session, text->name));
    }
}

/*
 * Where the few are analyzed, a scan of all of them is cheapest, and that plan is kept until the
 * session discards it. A store does so by itself: the time is told to it.
 */
static void what_was_planned_on_few_rows_is_planned_anew(void **state)
{
    (void)state;
    enum { VIEWS = 10 };
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    run_file(url, SOURCE_DIR "/tests/support/many_rows.sql");
    add_payments(url, 1, FEW);
    pg_fixture_run(url, "ANALYZE");
    PGconn *session = open_session(url);
    explain_all(session);
    view_a_payment(url, store);
    add_payments(url, FEW + 1, PAYMENTS);
    add_waiting(url, WAITING);

    PGresult *result = PQexec(session, statement_texts[STMT_PLANS_DISCARD].text);
    assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    PQclear(result);
    const size_t found = count_scans(session, "anew on many rows");
    PQfinish(session);
    assert_int_equal(found, 0);

    const int64_t before = payments_read(url);
    for (int i = 0; i < VIEWS; i++) {
        store_service(store, clock_monotonic_us() + 60 * CLOCK_SECOND_US);
        view_a_payment(url, store);
    }
    store_destroy(store);
    (void)pg_fixture_reads_per_row(url, "payment"); /* waits until all is counted */
    assert_in_range(payments_read(url) - before, 0, PAYMENTS / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_plan_of_the_stages_scans_a_big_table),
        cmocka_unit_test(what_was_planned_on_few_rows_is_planned_anew),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
