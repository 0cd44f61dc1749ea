/*
 * store/store.c: see store.h. The connection is a small state machine (down, connecting, ready,
 * busy) over libpq in pipeline and non-blocking mode; the blocking calls poll on the same machine.
 * Statements are prepared at first use, in the same pipeline.
 */
#include "store/store.h"

#include <poll.h>

#include "pipeline/clock.h"
#include "store/store_connect.h"

enum {
    RECONNECT_US_MIN = 50 * 1000,
    RECONNECT_US_MAX = 2 * 1000 * 1000,
    CONNECT_LIMIT_US = 5 * 1000 * 1000,
    REPLAN_US_MIN = 1000 * 1000,
    REPLAN_US_MAX = 30 * 1000 * 1000,
    GRACE_US = 5 * 1000 * 1000, /* beyond statement_timeout, before the connection is given up */
};

#define POSTGRES_EPOCH_US INT64_C(946684800000000)

enum connection_state {
    CONNECTION_DOWN,
    CONNECTION_CONNECTING,
    CONNECTION_READY,
    CONNECTION_BUSY,
};

struct store {
    char *url;
    char *application;
    char settings[720];
    int statement_timeout_ms;
    PGconn *connection;
    enum connection_state state;
    PostgresPollingStatusType connecting;
    int64_t deadline_us; /* of connecting or of the transaction under way */
    int64_t retry_at_us; /* earliest next connect while down */
    int64_t backoff_us;
    size_t first_host; /* which of the URL's hosts is tried first */
    bool is_prepared[STMT_COUNT + 1];
    /* Plans of this session are made anew after a second, two, four … at most every half minute:
     * between two of them no table grows far beyond what it was planned for. */
    int64_t replan_at_us;
    int64_t replan_us;
    bool replans;        /* before the next transaction */
    bool replan_is_next; /* its result and its end come first */
    /* The transaction under way: what results are still to come, in order. */
    enum statement sent[STORE_CALLS_MAX];
    bool sent_prepare[STORE_CALLS_MAX];
    PGresult *received[STORE_CALLS_MAX];
    size_t sent_count;
    size_t at; /* call whose result comes next */
    bool prepare_is_next;
    bool is_failed;
    enum status failure;
    struct store_error error;
};

struct store *store_create(const struct store_options *options)
{
    struct store *store = memory_allocate(sizeof *store);
    store->url = memory_copy_text(options->url);
    store->application = memory_copy_text(options->application);
    store->statement_timeout_ms = options->statement_timeout_ms;
    store->backoff_us = RECONNECT_US_MIN;
    /* What reads whole tables or indexes is off because plans are cached on small tables and kept
     * when these have grown (research: trap 1). A reader wants exactly those. No two rows of a
     * batch look for the same, so remembering what was found only costs. */
    const char *plans = options->is_reader
                            ? " -c default_transaction_read_only=on -c work_mem=128MB"
                            : " -c enable_seqscan=off -c enable_bitmapscan=off"
                              " -c enable_mergejoin=off -c enable_memoize=off"
                              " -c plan_cache_mode=force_generic_plan";
    (void)snprintf(store->settings, sizeof store->settings,
                   "-c search_path=oncepay,pg_catalog -c statement_timeout=%d -c lock_timeout=%d"
                   " -c idle_in_transaction_session_timeout=15000 -c jit=off -c timezone=UTC"
                   " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5"
                   " -c tcp_keepalives_count=3"
                   " -c client_min_messages=warning%s",
                   options->statement_timeout_ms, options->lock_timeout_ms, plans);
    return store;
}

static void forget_transaction(struct store *store)
{
    for (size_t i = 0; i < store->sent_count; i++) {
        PQclear(store->received[i]);
        store->received[i] = NULL;
    }
    store->sent_count = 0;
    store->at = 0;
}

static void go_down(struct store *store, int64_t now_us)
{
    if (store->connection != NULL) PQfinish(store->connection);
    store->connection = NULL;
    store->state = CONNECTION_DOWN;
    store->retry_at_us = now_us + store->backoff_us;
    store->backoff_us *= 2;
    if (store->backoff_us > RECONNECT_US_MAX) store->backoff_us = RECONNECT_US_MAX;
    memset(store->is_prepared, 0, sizeof store->is_prepared);
}

void store_destroy(struct store *store)
{
    if (store == NULL) return;
    forget_transaction(store);
    if (store->connection != NULL) PQfinish(store->connection);
    memset(store->url, 0, strlen(store->url));
    free(store->url);
    free(store->application);
    free(store);
}

const char *store_settings(const struct store *store)
{
    return store->settings;
}

bool store_is_ready(const struct store *store)
{
    return store->state == CONNECTION_READY;
}

bool store_is_busy(const struct store *store)
{
    return store->state == CONNECTION_BUSY;
}

bool store_is_connected(const struct store *store)
{
    return store->state == CONNECTION_READY || store->state == CONNECTION_BUSY;
}

const struct store_error *store_last_error(const struct store *store)
{
    return &store->error;
}

static void note_connection_error(struct store *store, const char *what)
{
    store->error = (struct store_error){ .sqlstate = "08000" };
    (void)snprintf(store->error.message, sizeof store->error.message, "%s", what);
}

static void lose(struct store *store, const char *what, int64_t now_us)
{
    note_connection_error(store, what);
    go_down(store, now_us);
}

static void fail_connecting(struct store *store, const char *what, int64_t now_us)
{
    store->first_host++;
    lose(store, what, now_us);
}

static void start_connecting(struct store *store, int64_t now_us)
{
    store->connection =
        store_connect_start(store->url, store->first_host, store->application, store->settings);
    if (store->connection == NULL || PQstatus(store->connection) == CONNECTION_BAD) {
        fail_connecting(store, "PostgreSQL refused the connection", now_us);
        return;
    }
    store->state = CONNECTION_CONNECTING;
    store->connecting = PGRES_POLLING_WRITING;
    store->deadline_us = now_us + CONNECT_LIMIT_US;
}

static void go_on_connecting(struct store *store, int64_t now_us)
{
    store->connecting = PQconnectPoll(store->connection);
    if (store->connecting == PGRES_POLLING_OK) {
        if (PQsetnonblocking(store->connection, 1) != 0 ||
            PQenterPipelineMode(store->connection) != 1) {
            fail_connecting(store, "pipeline mode refused", now_us);
            return;
        }
        store->state = CONNECTION_READY;
        store->backoff_us = RECONNECT_US_MIN;
        store->replan_us = REPLAN_US_MIN;
        store->replan_at_us = now_us + store->replan_us;
    } else if (store->connecting == PGRES_POLLING_FAILED || now_us >= store->deadline_us) {
        fail_connecting(store, "PostgreSQL cannot be reached", now_us);
    }
}

void store_service(struct store *store, int64_t now_us)
{
    switch (store->state) {
    case CONNECTION_DOWN:
        if (store->sent_count == 0 && now_us >= store->retry_at_us) start_connecting(store, now_us);
        return;
    case CONNECTION_CONNECTING:
        go_on_connecting(store, now_us);
        return;
    case CONNECTION_READY:
        if (now_us >= store->replan_at_us) store->replans = true;
        /* Nothing is expected on an idle connection but notices and its end. */
        if (PQconsumeInput(store->connection) == 0)
            lose(store, "connection lost while idle", now_us);
        return;
    case CONNECTION_BUSY:
        if (PQflush(store->connection) < 0) {
            lose(store, "connection lost while sending", now_us);
        } else if (now_us >= store->deadline_us) {
            lose(store, "no answer within the time limit", now_us);
        }
        return;
    }
    UNREACHABLE("connection state out of range");
}

int store_poll_fd(const struct store *store, short *out_events)
{
    if (store->connection == NULL) return -1;
    switch (store->state) {
    case CONNECTION_DOWN:
        return -1;
    case CONNECTION_CONNECTING:
        *out_events = store->connecting == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        break;
    case CONNECTION_READY:
        *out_events = POLLIN;
        break;
    case CONNECTION_BUSY:
        *out_events = PQflush(store->connection) == 1 ? POLLIN | POLLOUT : POLLIN;
        break;
    }
    return PQsocket(store->connection);
}

int64_t store_wake_us(const struct store *store)
{
    switch (store->state) {
    case CONNECTION_DOWN:
        return store->retry_at_us;
    case CONNECTION_CONNECTING:
    case CONNECTION_BUSY:
        return store->deadline_us;
    case CONNECTION_READY:
        return INT64_MAX;
    }
    UNREACHABLE("connection state out of range");
}

static bool queue_call(struct store *store, struct sql_call *call, size_t index)
{
    const struct sql_text *statement = &statement_texts[call->statement];
    Oid types[SQL_PARAM_MAX];
    const char *values[SQL_PARAM_MAX];
    int lengths[SQL_PARAM_MAX];
    int formats[SQL_PARAM_MAX];
    sql_call_finish(call);
    for (size_t i = 0; i < call->param_count; i++) {
        types[i] = call->params[i].type_oid;
        values[i] = call->params[i].data;
        lengths[i] = call->params[i].length;
        formats[i] = 1;
    }
    const int count = (int)call->param_count;
    store->sent[index] = call->statement;
    store->sent_prepare[index] = !store->is_prepared[call->statement];
    if (store->sent_prepare[index] &&
        PQsendPrepare(store->connection, statement->name, statement->text, count, types) != 1) {
        return false;
    }
    /* A statement used twice in one pipeline is prepared by the first use. */
    store->is_prepared[call->statement] = true;
    return PQsendQueryPrepared(store->connection, statement->name, count, values, lengths, formats,
                               1) == 1;
}

/* Before the transaction and not in it: one that names its isolation must do so first. */
static bool queue_replan(struct store *store, int64_t now_us)
{
    store->replan_is_next = store->replans;
    if (!store->replans) return true;
    store->replans = false;
    store->replan_us *= 2;
    if (store->replan_us > REPLAN_US_MAX) store->replan_us = REPLAN_US_MAX;
    store->replan_at_us = now_us + store->replan_us;
    return PQsendQueryParams(store->connection, statement_texts[STMT_PLANS_DISCARD].text, 0, NULL,
                             NULL, NULL, NULL, 1) == 1 &&
           PQpipelineSync(store->connection) == 1;
}

enum status store_send(struct store *store, struct sql_call *calls, size_t count)
{
    INVARIANT(count >= 1 && count <= STORE_CALLS_MAX);
    if (store->state != CONNECTION_READY) return STATUS_RETRY;
    store->sent_count = count;
    store->at = 0;
    store->is_failed = false;
    store->failure = STATUS_OK;
    const int64_t now_us = clock_monotonic_us();
    bool is_queued = queue_replan(store, now_us);
    for (size_t i = 0; i < count && is_queued; i++) is_queued = queue_call(store, &calls[i], i);
    if (!is_queued) {
        lose(store, "connection lost while sending", now_us);
        store->sent_count = 0;
        return STATUS_RETRY;
    }
    store->prepare_is_next = store->sent_prepare[0];
    store->state = CONNECTION_BUSY;
    store->deadline_us = now_us + (int64_t)store->statement_timeout_ms * 1000 + GRACE_US;
    if (PQpipelineSync(store->connection) != 1 || PQflush(store->connection) < 0) {
        lose(store, "connection lost while sending", now_us); /* store_receive reports it */
    }
    return STATUS_OK;
}

/* Which unique keys say "somebody was first" rather than "this is a bug" (protocol H4). */
static bool is_race_constraint(const char *constraint)
{
    static const char *const NAMES[] = {
        "idempotency_key", /* prefix: the partition's index is named after it */
        "evidence_",       /* likewise: written by a commit whose outcome nobody had heard */
        "payment_out_trade_no_key",
        "active_payment_pk",
        "payment_attempt_ordinal_key",
        "payment_attempt_provider_key",
        "webhook_inbox_event_key",
        "routing_decision_pk",
        "recovery_task_open",
        "stray_fact_object_key",
        "manual_case_attempt_key",
        "manual_case_stuck",
    };
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        if (strncmp(constraint, NAMES[i], strlen(NAMES[i])) == 0) return true;
    }
    return false;
}

static enum status status_of_error(const struct store_error *error)
{
    static const struct {
        const char *prefix;
        enum status status;
    } TABLE[] = {
        { "OP001", STATUS_LOST_RACE }, { "OP", STATUS_BAD_DATA }, { "22", STATUS_BAD_DATA },
        { "23", STATUS_BAD_DATA },     { "42", STATUS_STOP },     { "3F", STATUS_STOP },
        { "28", STATUS_STOP },         { "0A", STATUS_STOP },
    };
    if (strcmp(error->sqlstate, "23505") == 0 && is_race_constraint(error->constraint))
        return STATUS_LOST_RACE;
    for (size_t i = 0; i < COUNT_OF(TABLE); i++) {
        if (strncmp(error->sqlstate, TABLE[i].prefix, strlen(TABLE[i].prefix)) == 0)
            return TABLE[i].status;
    }
    return STATUS_RETRY; /* 40001, 40P01, 55P03, 57, 53, 08 and whatever else is not ours to judge
                          */
}

static void copy_field(char *to, size_t size, const PGresult *result, int field)
{
    const char *text = PQresultErrorField(result, field);
    (void)snprintf(to, size, "%s", text == NULL ? "" : text);
}

static void note_failure(struct store *store, const PGresult *result)
{
    if (store->is_failed) return; /* the first one counts; what follows is "pipeline aborted" */
    store->is_failed = true;
    copy_field(store->error.sqlstate, sizeof store->error.sqlstate, result, PG_DIAG_SQLSTATE);
    copy_field(store->error.constraint, sizeof store->error.constraint, result,
               PG_DIAG_CONSTRAINT_NAME);
    copy_field(store->error.message, sizeof store->error.message, result, PG_DIAG_MESSAGE_PRIMARY);
    (void)snprintf(store->error.statement, sizeof store->error.statement, "%s",
                   statement_texts[store->sent[store->at]].name);
    store->failure = status_of_error(&store->error);
}

/*
 * Steps over the result of a prepare or of a call. What was prepared stays prepared when the
 * transaction fails after it; what the failed pipeline skipped is not there.
 */
static void take_result(struct store *store, PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    const bool was_prepare = store->prepare_is_next;
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        note_failure(store, result);
        if (was_prepare) store->is_prepared[store->sent[store->at]] = false;
    }
    if (was_prepare) {
        store->prepare_is_next = false;
        PQclear(result);
        return;
    }
    store->received[store->at++] = result;
    if (store->at < store->sent_count) store->prepare_is_next = store->sent_prepare[store->at];
}

static bool end_transaction(struct store *store, struct store_result *out_results,
                            enum status *out_status)
{
    *out_status = store->is_failed ? store->failure : STATUS_OK;
    if (store->is_failed) {
        forget_transaction(store);
    } else {
        for (size_t i = 0; i < store->sent_count; i++) {
            out_results[i].rows = (struct pg_result *)store->received[i];
            store->received[i] = NULL;
        }
        store->sent_count = 0;
    }
    return true;
}

bool store_receive(struct store *store, struct store_result *out_results, size_t count,
                   enum status *out_status)
{
    INVARIANT(store->sent_count == count);
    memset(out_results, 0, count * sizeof *out_results);
    if (store->state == CONNECTION_BUSY && PQconsumeInput(store->connection) == 0) {
        lose(store, "connection lost, outcome unknown", clock_monotonic_us());
    }
    if (store->state != CONNECTION_BUSY) { /* lost on the way: outcome unknown */
        store->is_failed = true;
        store->failure = STATUS_RETRY;
        return end_transaction(store, out_results, out_status);
    }
    while (!PQisBusy(store->connection)) {
        PGresult *result = PQgetResult(store->connection);
        if (result == NULL) { /* end of one command's results, or nothing at all yet */
            if (PQisBusy(store->connection) || PQstatus(store->connection) == CONNECTION_BAD) break;
            continue;
        }
        const bool is_end = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (store->replan_is_next) { /* what comes after it says what is wrong */
            store->replan_is_next = !is_end;
            PQclear(result);
            continue;
        }
        if (is_end) {
            PQclear(result);
            store->state = CONNECTION_READY;
            /* A failure inside begin.sql … commit.sql leaves a dead transaction open: the
             * connection goes with it. */
            if (store->is_failed && PQtransactionStatus(store->connection) != PQTRANS_IDLE)
                go_down(store, 0);
            return end_transaction(store, out_results, out_status);
        }
        take_result(store, result);
    }
    if (PQstatus(store->connection) == CONNECTION_BAD) {
        lose(store, "connection lost, outcome unknown", clock_monotonic_us());
        store->is_failed = true;
        store->failure = STATUS_RETRY;
        return end_transaction(store, out_results, out_status);
    }
    return false;
}

static void wait_on(struct store *store, int64_t now_us, int64_t until_us)
{
    short events = 0;
    struct pollfd descriptor = { .fd = store_poll_fd(store, &events) };
    descriptor.events = events;
    int64_t wake_us = store_wake_us(store);
    if (wake_us > until_us) wake_us = until_us;
    const int64_t wait_us = wake_us > now_us ? wake_us - now_us : 0;
    (void)poll(&descriptor, descriptor.fd >= 0 ? 1 : 0, (int)(wait_us / 1000) + 1);
}

static enum status connect_blocking(struct store *store)
{
    int64_t now_us = clock_monotonic_us();
    const int64_t until_us = now_us + CONNECT_LIMIT_US;
    bool has_tried = store->state == CONNECTION_CONNECTING;
    while (!store_is_ready(store)) {
        if (now_us >= until_us || (has_tried && store->state == CONNECTION_DOWN))
            return STATUS_RETRY;
        const bool was_down = store->state == CONNECTION_DOWN;
        store_service(store, now_us);
        has_tried = has_tried || (was_down && now_us >= store->retry_at_us) ||
                    store->state != CONNECTION_DOWN;
        if (!store_is_ready(store)) wait_on(store, now_us, until_us);
        now_us = clock_monotonic_us();
    }
    return STATUS_OK;
}

enum status store_run_many(struct store *store, struct sql_call *calls, size_t count,
                           struct store_result *out_results)
{
    memset(out_results, 0, count * sizeof *out_results);
    if (store_is_ready(store))
        store_service(store, clock_monotonic_us()); /* notices a connection that died idle */
    if (!store_is_ready(store)) TRY(connect_blocking(store));
    TRY(store_send(store, calls, count));
    enum status status = STATUS_OK;
    while (!store_receive(store, out_results, count, &status)) {
        const int64_t now_us = clock_monotonic_us();
        wait_on(store, now_us, store->deadline_us);
        store_service(store, clock_monotonic_us());
    }
    return status;
}

enum status store_run(struct store *store, struct sql_call *call, struct store_result *out_result)
{
    return store_run_many(store, call, 1, out_result);
}

/* Results ------------------------------------------------------------------------------------ */

static const PGresult *rows_of(const struct store_result *result)
{
    return (const PGresult *)result->rows;
}

static const uint8_t *value_of(const struct store_result *result, size_t row, int column,
                               int length)
{
    const PGresult *rows = rows_of(result);
    INVARIANT(rows != NULL && (int)row < PQntuples(rows) && column < PQnfields(rows));
    INVARIANT(!PQgetisnull(rows, (int)row, column) &&
              PQgetlength(rows, (int)row, column) == length);
    return (const uint8_t *)PQgetvalue(rows, (int)row, column);
}

static uint64_t read_big_endian(const uint8_t *bytes, int length)
{
    uint64_t value = 0;
    for (int i = 0; i < length; i++) value = value << 8 | bytes[i];
    return value;
}

size_t result_rows(const struct store_result *result)
{
    return result->rows == NULL ? 0 : (size_t)PQntuples(rows_of(result));
}

bool result_is_null(const struct store_result *result, size_t row, int column)
{
    return PQgetisnull(rows_of(result), (int)row, column) == 1;
}

bool result_bool(const struct store_result *result, size_t row, int column)
{
    return *value_of(result, row, column, 1) != 0;
}

int32_t result_int(const struct store_result *result, size_t row, int column)
{
    const int length = PQgetlength(rows_of(result), (int)row, column);
    const uint64_t raw =
        read_big_endian(value_of(result, row, column, length == 2 ? 2 : 4), length);
    return length == 2 ? (int32_t)(int16_t)raw : (int32_t)(uint32_t)raw;
}

int64_t result_int8(const struct store_result *result, size_t row, int column)
{
    return (int64_t)read_big_endian(value_of(result, row, column, 8), 8);
}

const char *result_text(const struct store_result *result, size_t row, int column)
{
    if (result_is_null(result, row, column)) return NULL;
    return PQgetvalue(rows_of(result), (int)row, column);
}

struct span result_bytea(const struct store_result *result, size_t row, int column)
{
    if (result_is_null(result, row, column)) return (struct span){ NULL, 0 };
    const PGresult *rows = rows_of(result);
    return (struct span){ (const uint8_t *)PQgetvalue(rows, (int)row, column),
                          (size_t)PQgetlength(rows, (int)row, column) };
}

struct uuid result_uuid(const struct store_result *result, size_t row, int column)
{
    struct uuid uuid = { { 0 } };
    if (!result_is_null(result, row, column)) {
        memcpy(uuid.bytes, value_of(result, row, column, sizeof uuid.bytes), sizeof uuid.bytes);
    }
    return uuid;
}

int64_t result_time_us(const struct store_result *result, size_t row, int column)
{
    if (result_is_null(result, row, column)) return 0;
    return result_int8(result, row, column) + POSTGRES_EPOCH_US;
}

void store_result_clear(struct store_result *result)
{
    PQclear((PGresult *)result->rows);
    result->rows = NULL;
}
