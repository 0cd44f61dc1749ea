/* store/migrate.c: see migrate.h. Blocking and rare, so it talks to libpq directly. */
#include "store/migrate.h"

#include <libpq-fe.h>

#include "pipeline/hash.h"
#include "pipeline/state.h"
#include "store/statements.gen.h"

/* Any number will do, as long as every oncepay uses the same. */
#define MIGRATE_LOCK "8101975423077"

static enum status fail(struct migrate_report *report, const char *what, PGconn *connection)
{
    (void)snprintf(report->error, sizeof report->error, "%s: %s", what, PQerrorMessage(connection));
    return PQstatus(connection) == CONNECTION_OK ? STATUS_STOP : STATUS_RETRY;
}

static enum status run(PGconn *connection, const char *what, const char *sql,
                       struct migrate_report *report)
{
    PGresult *result = PQexec(connection, sql);
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return STATUS_OK;
    return fail(report, what, connection);
}

/* First column of the first row as text, or empty. */
static enum status ask(PGconn *connection, enum statement statement, int count,
                       const char *const *values, char *out, size_t size,
                       struct migrate_report *report)
{
    const struct sql_text *sql = &statement_texts[statement];
    PGresult *result = PQexecParams(connection, sql->text, count, NULL, values, NULL, NULL, 0);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        PQclear(result);
        return fail(report, sql->name, connection);
    }
    if (out != NULL) {
        (void)snprintf(out, size, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    }
    PQclear(result);
    return STATUS_OK;
}

static enum status apply(PGconn *connection, const struct sql_text *migration,
                         struct migrate_report *report)
{
    char hash[HASH_HEX_SIZE];
    char stored[HASH_HEX_SIZE];
    uint8_t digest[HASH_SIZE];
    hash_sha256(span_of_text(migration->text), digest);
    (void)hash_hex((struct span){ digest, sizeof digest }, hash);
    const char *const values[] = { migration->name, hash };
    TRY(ask(connection, STMT_MIGRATION_FIND, 1, values, stored, sizeof stored, report));
    if (stored[0] != '\0') {
        if (strcmp(stored, hash) != 0) {
            (void)snprintf(report->error, sizeof report->error,
                           "%s: the database was migrated with another text of this file",
                           migration->name);
            return STATUS_STOP;
        }
        report->known++;
        return STATUS_OK;
    }
    TRY(run(connection, migration->name, "BEGIN", report));
    enum status status = run(connection, migration->name, migration->text, report);
    if (status == STATUS_OK)
        status = ask(connection, STMT_MIGRATION_NOTE, 2, values, NULL, 0, report);
    if (status == STATUS_OK) status = run(connection, migration->name, "COMMIT", report);
    if (status == STATUS_OK) report->applied++;
    return status;
}

/* state_transition is a copy of pipeline/transition.def: rows that are not there any more go. */
static enum status write_transitions(PGconn *connection, struct migrate_report *report)
{
    size_t count = 0;
    const struct transition *rows = transition_table(&count);
    TRY(run(connection, "transitions", "BEGIN", report));
    TRY(ask(connection, STMT_TRANSITION_CLEAR, 0, NULL, NULL, 0, report));
    for (size_t i = 0; i < count; i++) {
        char entity[16];
        char from[16];
        char to[16];
        (void)snprintf(entity, sizeof entity, "%d", (int)rows[i].entity);
        (void)snprintf(from, sizeof from, "%d", rows[i].from);
        (void)snprintf(to, sizeof to, "%d", rows[i].to);
        const char *const values[] = { entity, from, to, rows[i].why };
        TRY(ask(connection, STMT_TRANSITION_WRITE, 4, values, NULL, 0, report));
    }
    return run(connection, "transitions", "COMMIT", report);
}

static enum status migrate_connected(PGconn *connection, struct migrate_report *report)
{
    char answer[64];
    TRY(run(connection, "settings", "SET client_min_messages = warning; SET timezone = 'UTC'",
            report));
    TRY(run(connection, "lock", "SELECT pg_advisory_lock(" MIGRATE_LOCK ")", report));
    for (size_t i = 0; migration_texts[i].name != NULL; i++) {
        if (i == 0) {
            TRY(run(connection, migration_texts[0].name, migration_texts[0].text, report));
        } else {
            TRY(apply(connection, &migration_texts[i], report));
        }
    }
    TRY(write_transitions(connection, report));
    TRY(ask(connection, STMT_PARTITIONS_MAKE, 0, NULL, answer, sizeof answer, report));
    report->partitions_made = (int)strtol(answer, NULL, 10);
    TRY(ask(connection, STMT_STANDBY_NAMES, 0, NULL, answer, sizeof answer, report));
    report->no_standby = answer[0] == '\0';
    return STATUS_OK; /* the lock goes with the connection */
}

enum status store_migrate(const char *url, struct migrate_report *out_report)
{
    *out_report = (struct migrate_report){ 0 };
    PGconn *connection = PQconnectdb(url);
    enum status status;
    if (PQstatus(connection) != CONNECTION_OK) {
        status = fail(out_report, "connect", connection);
    } else {
        status = migrate_connected(connection, out_report);
    }
    PQfinish(connection);
    return status;
}
