/*
 * tests/support/pg_fixture.c: see pg_fixture.h. The postmaster is our direct child with a death
 * signal, so no test, however it ends, leaves a server behind. As root it runs as "postgres"
 * (PostgreSQL refuses root).
 */
#include "tests/support/pg_fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/migrate.h"

enum { PATH_SIZE = 256, DATABASES_MAX = 256, READY_TRIES = 600, READY_WAIT_MS = 50 };

#define TEMPLATE_DATABASE "oncepay_template"

struct pg_fixture {
    char folder[64];
    char log[PATH_SIZE];
    pid_t postmaster;
    char *urls[DATABASES_MAX];
    size_t database_count;
};

static _Noreturn void give_up(const char *what, const char *why)
{
    (void)fprintf(stderr, "pg_fixture: %s: %s\n", what, why);
    abort();
}

static void sleep_ms(long ms)
{
    const struct timespec wait = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    (void)nanosleep(&wait, NULL);
}

/* The server's programs are not in PATH on Debian. */
static void find_program(const char *name, char path[PATH_SIZE])
{
    static const char *const FOLDERS[] = { "/usr/lib/postgresql/15/bin",
                                           "/usr/lib/postgresql/16/bin",
                                           "/usr/lib/postgresql/17/bin", "/usr/local/bin",
                                           "/usr/bin" };
    const char *given = getenv("ONCEPAY_PG_BIN");
    if (given != NULL) {
        (void)snprintf(path, PATH_SIZE, "%s/%s", given, name);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(FOLDERS); i++) {
        (void)snprintf(path, PATH_SIZE, "%s/%s", FOLDERS[i], name);
        if (access(path, X_OK) == 0) return;
    }
    give_up(name, "not found; ONCEPAY_PG_BIN names its folder");
}

/* In the child: who may run PostgreSQL, and its output goes to the log. */
static void become_server_user(const char *log)
{
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (out >= 0) {
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(out, STDERR_FILENO);
    }
    if (geteuid() == 0) {
        const struct passwd *user = getpwnam("postgres");
        if (user == NULL || initgroups(user->pw_name, user->pw_gid) != 0 ||
            setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0) {
            _exit(126);
        }
    }
    if (chdir("/") != 0) _exit(126);
    /* After setuid, which clears it. SIGQUIT is PostgreSQL's immediate shutdown. */
    (void)prctl(PR_SET_PDEATHSIG, SIGQUIT);
}

static pid_t launch(const char *log, const char *const arguments[])
{
    const pid_t child = fork();
    if (child < 0) give_up("fork", arguments[0]);
    if (child == 0) {
        become_server_user(log);
        union {
            const char *const *given;
            char *const *wanted; /* execv promises not to change them */
        } vector = { .given = arguments };
        (void)execv(arguments[0], vector.wanted);
        _exit(127);
    }
    return child;
}

static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {}
    return status;
}

static void make_cluster(struct pg_fixture *fixture)
{
    char initdb[PATH_SIZE];
    char data[PATH_SIZE];
    find_program("initdb", initdb);
    (void)snprintf(data, sizeof data, "%s/data", fixture->folder);
    const char *const arguments[] = { initdb,    "-D",         data,        "-U",
                                      "oncepay", "-A",         "trust",     "-E",
                                      "UTF8",    "--locale=C", "--no-sync", "--no-instructions",
                                      NULL };
    if (wait_for(launch(fixture->log, arguments)) != 0) give_up("initdb failed, see", fixture->log);
}

static char *database_url(const struct pg_fixture *fixture, const char *database)
{
    char url[PATH_SIZE];
    (void)snprintf(url, sizeof url, "postgresql://oncepay@/%s?host=%s&port=5432", database,
                   fixture->folder);
    return memory_copy_text(url);
}

static void wait_until_ready(const struct pg_fixture *fixture)
{
    char *url = database_url(fixture, "postgres");
    for (int i = 0; i < READY_TRIES; i++) {
        if (PQping(url) == PQPING_OK) {
            free(url);
            return;
        }
        if (waitpid(fixture->postmaster, NULL, WNOHANG) != 0) break;
        sleep_ms(READY_WAIT_MS);
    }
    give_up("the server does not come up, see", fixture->log);
}

static void start_server(struct pg_fixture *fixture)
{
    char postgres[PATH_SIZE];
    char data[PATH_SIZE];
    find_program("postgres", postgres);
    (void)snprintf(data, sizeof data, "%s/data", fixture->folder);
    /* Durability against a power cut is not what store tests are about. */
    const char *const arguments[] = { postgres,
                                      "-D",
                                      data,
                                      "-k",
                                      fixture->folder,
                                      "-p",
                                      "5432",
                                      "-c",
                                      "listen_addresses=",
                                      "-c",
                                      "fsync=off",
                                      "-c",
                                      "shared_buffers=32MB",
                                      "-c",
                                      "max_connections=40",
                                      "-c",
                                      "autovacuum=off",
                                      NULL };
    fixture->postmaster = launch(fixture->log, arguments);
    wait_until_ready(fixture);
}

/* A planted bug of tests/store/mutants.py. */
static void plant_schema(const char *url)
{
    const char *sql = getenv("ONCEPAY_MUTANT_SCHEMA");
    if (sql == NULL) return;
    pg_fixture_run(url, sql);
    (void)fprintf(stderr, "mutant: planted\n");
}

struct pg_fixture *pg_fixture_start(void)
{
    struct pg_fixture *fixture = memory_allocate(sizeof *fixture);
    (void)snprintf(fixture->folder, sizeof fixture->folder, "/tmp/oncepay-test-pg-XXXXXX");
    if (mkdtemp(fixture->folder) == NULL) give_up("mkdtemp", fixture->folder);
    if (geteuid() == 0) {
        const struct passwd *user = getpwnam("postgres");
        if (user == NULL || chown(fixture->folder, user->pw_uid, user->pw_gid) != 0) {
            give_up("there is no user to run PostgreSQL as", "postgres");
        }
    }
    (void)snprintf(fixture->log, sizeof fixture->log, "%s/log", fixture->folder);
    make_cluster(fixture);
    start_server(fixture);
    char *admin = database_url(fixture, "postgres");
    pg_fixture_run(admin, "CREATE DATABASE " TEMPLATE_DATABASE);
    free(admin);
    char *url = database_url(fixture, TEMPLATE_DATABASE);
    struct migrate_report report;
    if (store_migrate(url, &report) != STATUS_OK) give_up("migrate", report.error);
    plant_schema(url);
    free(url);
    return fixture;
}

static void remove_folder(const char *folder)
{
    const pid_t child = fork();
    if (child < 0) give_up("fork", "rm");
    if (child == 0) {
        (void)execlp("rm", "rm", "-rf", "--", folder, (char *)NULL);
        _exit(127);
    }
    (void)wait_for(child);
}

void pg_fixture_stop(struct pg_fixture *fixture)
{
    if (fixture == NULL) return;
    (void)kill(fixture->postmaster, SIGQUIT);
    (void)wait_for(fixture->postmaster);
    remove_folder(fixture->folder);
    for (size_t i = 0; i < fixture->database_count; i++) free(fixture->urls[i]);
    free(fixture);
}

void pg_fixture_crash(struct pg_fixture *fixture)
{
    (void)kill(fixture->postmaster, SIGQUIT);
    (void)wait_for(fixture->postmaster);
    start_server(fixture);
}

const char *pg_fixture_database(struct pg_fixture *fixture)
{
    INVARIANT(fixture->database_count < DATABASES_MAX);
    char name[32];
    char sql[128];
    (void)snprintf(name, sizeof name, "test_%zu", fixture->database_count);
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE " TEMPLATE_DATABASE, name);
    char *admin = database_url(fixture, "postgres");
    pg_fixture_run(admin, sql);
    free(admin);
    char *url = database_url(fixture, name);
    fixture->urls[fixture->database_count++] = url;
    return url;
}

struct store *pg_fixture_store(const char *url)
{
    const struct store_options options = {
        .url = url,
        .application = "oncepay-test",
        .statement_timeout_ms = 10000,
        .lock_timeout_ms = 5000,
    };
    return store_create(&options);
}

/* The result of the last statement of sql; *out_connection is to be finished after it. */
static PGresult *execute(const char *url, const char *sql, PGconn **out_connection)
{
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) != CONNECTION_OK) give_up("connect", PQerrorMessage(connection));
    PQclear(PQexec(connection, "SET client_min_messages = warning"));
    PQclear(PQexec(connection, "SET search_path = oncepay, pg_catalog"));
    *out_connection = connection;
    return PQexec(connection, sql);
}

static bool is_success(const PGresult *result)
{
    return PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;
}

void pg_fixture_run(const char *url, const char *sql)
{
    PGconn *connection = NULL;
    PGresult *result = execute(url, sql, &connection);
    if (!is_success(result)) give_up(sql, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
}

const char *pg_fixture_try(const char *url, const char *sql,
                           char sqlstate[PG_FIXTURE_SQLSTATE_SIZE])
{
    PGconn *connection = NULL;
    PGresult *result = execute(url, sql, &connection);
    const char *state = is_success(result) ? "00000" : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    (void)snprintf(sqlstate, PG_FIXTURE_SQLSTATE_SIZE, "%s", state == NULL ? "08000" : state);
    PQclear(result);
    PQfinish(connection);
    return sqlstate;
}

char *pg_fixture_text(const char *url, const char *sql)
{
    PGconn *connection = NULL;
    PGresult *result = execute(url, sql, &connection);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) give_up(sql, PQerrorMessage(connection));
    if (PQntuples(result) != 1) give_up(sql, "not exactly one row");
    char *text = memory_copy_text(PQgetvalue(result, 0, 0));
    PQclear(result);
    PQfinish(connection);
    return text;
}

int64_t pg_fixture_number(const char *url, const char *sql)
{
    char *text = pg_fixture_text(url, sql);
    const int64_t number = strtoll(text, NULL, 10);
    free(text);
    return number;
}

/* A connection reports what it read when it ends, and leaves the list after that. */
static void wait_until_alone(const char *url)
{
    for (int i = 0; i < READY_TRIES; i++) {
        if (pg_fixture_number(
                url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                     " AND backend_type = 'client backend' AND pid <> pg_backend_pid()") == 0) {
            return;
        }
        sleep_ms(READY_WAIT_MS);
    }
    give_up(url, "connections are still open");
}

int64_t pg_fixture_reads_per_row(const char *url, const char *table)
{
    char sql[500];
    wait_until_alone(url);
    (void)snprintf(
        sql, sizeof sql,
        "SELECT coalesce(sum(s.seq_tup_read), 0) + coalesce(sum(i.reads), 0)"
        " FROM pg_partition_tree('%s') t JOIN pg_stat_user_tables s ON s.relid = t.relid"
        " LEFT JOIN LATERAL (SELECT sum(x.idx_tup_read) AS reads FROM pg_stat_user_indexes x"
        " WHERE x.relid = t.relid) i ON true",
        table);
    const int64_t reads = pg_fixture_number(url, sql);
    (void)snprintf(sql, sizeof sql, "SELECT greatest(count(*), 1) FROM %s", table);
    return reads / pg_fixture_number(url, sql);
}

void pg_fixture_cut(const char *url)
{
    (void)pg_fixture_number(url, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                 " WHERE datname = current_database() AND pid <> pg_backend_pid()");
}
