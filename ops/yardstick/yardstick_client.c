/* ops/yardstick/yardstick_client.c: see yardstick_client.h. */
#include "ops/yardstick/yardstick_client.h"

#include <libpq-fe.h>

struct client {
    struct yardstick_run *run;
    PGconn *connection;
    struct arena arena;
};

/* The stages' own: what is planned on empty tables must not turn into scans when they grow. */
static const char SETTINGS[] = "-c search_path=oncepay,pg_catalog -c jit=off -c timezone=UTC"
                               " -c enable_seqscan=off -c enable_bitmapscan=off"
                               " -c enable_mergejoin=off -c enable_memoize=off"
                               " -c plan_cache_mode=force_generic_plan"
                               " -c client_min_messages=warning";

static bool fail(struct client *client, const char *what)
{
    if (!atomic_exchange(&client->run->is_failed, true)) {
        fprintf(stderr, "oncepay-yardstick: %s: %s", what, PQerrorMessage(client->connection));
    }
    atomic_store(&client->run->is_stopped, true);
    return false;
}

static bool is_good(const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_PIPELINE_SYNC;
}

static bool check(struct client *client, PGresult *result, const char *what)
{
    const bool good = is_good(result);
    PQclear(result);
    return good || fail(client, what);
}

static bool connect_client(struct client *client)
{
    const char *const names[] = { "dbname", "application_name", "options", NULL };
    const char *const values[] = { client->run->url, "oncepay-yardstick", SETTINGS, NULL };
    client->connection = PQconnectdbParams(names, values, 1);
    if (PQstatus(client->connection) != CONNECTION_OK) return fail(client, "connect");
    const struct script *script = client->run->script;
    for (size_t i = 0; i < script->statement_count; i++) {
        const struct script_statement *statement = &script->statements[i];
        PGresult *result = PQprepare(client->connection, statement->name, statement->text, 0, NULL);
        if (!check(client, result, statement->text)) return false;
    }
    if (script->is_array && PQenterPipelineMode(client->connection) != 1) {
        return fail(client, "pipeline mode");
    }
    return true;
}

struct arguments {
    const char *values[SQL_PARAM_MAX];
    int lengths[SQL_PARAM_MAX];
    int formats[SQL_PARAM_MAX];
};

static void bind(struct client *client, const struct script_statement *statement,
                 const struct yardstick_payment *payments, size_t count, struct arguments *out)
{
    struct sql_call call;
    sql_call_begin(&call, STMT_COUNT, &client->arena); /* none of the stages' statements */
    for (size_t i = 0; i < statement->column_count; i++) {
        yardstick_column_bind(statement->columns[i], payments, count, client->run->script->is_array,
                              &call);
    }
    sql_call_finish(&call);
    for (size_t i = 0; i < call.param_count; i++) {
        out->values[i] = call.params[i].data;
        out->lengths[i] = call.params[i].length;
        out->formats[i] = 1;
    }
}

/* All statements, then the end of the transaction, in one go; then all results. */
static bool run_together(struct client *client, const struct script_transaction *transaction,
                         const struct yardstick_payment *payments, size_t count)
{
    const struct script *script = client->run->script;
    struct arguments arguments;
    for (size_t i = 0; i < transaction->count; i++) {
        const struct script_statement *statement = &script->statements[transaction->first + i];
        bind(client, statement, payments, count, &arguments);
        if (PQsendQueryPrepared(client->connection, statement->name, (int)statement->column_count,
                                arguments.values, arguments.lengths, arguments.formats, 1) != 1) {
            return fail(client, "send");
        }
    }
    if (PQpipelineSync(client->connection) != 1) return fail(client, "send");
    for (size_t i = 0; i < transaction->count; i++) {
        const struct script_statement *statement = &script->statements[transaction->first + i];
        if (!check(client, PQgetResult(client->connection), statement->text)) return false;
        PQclear(PQgetResult(client->connection)); /* NULL: end of this statement */
    }
    return check(client, PQgetResult(client->connection), "commit");
}

/* As most programs do it: every statement waits for its answer. */
static bool run_one_by_one(struct client *client, const struct script_transaction *transaction,
                           const struct yardstick_payment *payments)
{
    const struct script *script = client->run->script;
    struct arguments arguments;
    if (!check(client, PQexec(client->connection, "BEGIN"), "begin")) return false;
    for (size_t i = 0; i < transaction->count; i++) {
        const struct script_statement *statement = &script->statements[transaction->first + i];
        bind(client, statement, payments, 1, &arguments);
        PGresult *result =
            PQexecPrepared(client->connection, statement->name, (int)statement->column_count,
                           arguments.values, arguments.lengths, arguments.formats, 1);
        if (!check(client, result, statement->text)) return false;
    }
    return check(client, PQexec(client->connection, "COMMIT"), "commit");
}

/* How many payments this client writes next, and which; 0: none are left. */
static size_t take(struct yardstick_run *run, size_t *out_first)
{
    const size_t first = atomic_fetch_add(&run->started, run->batch);
    *out_first = first;
    if (run->payments == 0) return run->batch;
    if (first >= run->payments) return 0;
    return run->payments - first < run->batch ? run->payments - first : run->batch;
}

static bool write_batch(struct client *client, struct yardstick_payment *payments)
{
    struct yardstick_run *run = client->run;
    size_t first = 0;
    const size_t count = take(run, &first);
    if (count == 0) return false;
    arena_reset(&client->arena);
    const struct uuid fence_batch = uuid_new();
    for (size_t i = 0; i < count; i++) {
        yardstick_payment_make(&run->names, first + i, fence_batch, &client->arena, &payments[i]);
    }
    for (size_t i = 0; i < run->script->transaction_count; i++) {
        const struct script_transaction *transaction = &run->script->transactions[i];
        const bool good = run->script->is_array ? run_together(client, transaction, payments, count)
                                                : run_one_by_one(client, transaction, payments);
        if (!good) return false;
    }
    atomic_fetch_add(&run->written, count);
    return true;
}

void *yardstick_client_main(void *argument)
{
    struct client client = { .run = argument };
    struct yardstick_payment *payments = memory_allocate(client.run->batch * sizeof *payments);
    if (connect_client(&client)) {
        while (!atomic_load(&client.run->is_stopped) && write_batch(&client, payments)) {}
    }
    PQfinish(client.connection);
    arena_finish(&client.arena);
    free(payments);
    return NULL;
}
