/*
 * store/store.h: one PostgreSQL connection. It runs named statements (store/sql) and nothing else;
 * there is no general query function. One or more calls sent together are one transaction: they
 * travel in one libpq pipeline before one Sync, without BEGIN and COMMIT.
 *
 * Two ways of use, never mixed in mid-transaction: store_run blocks (intake, route, settle, CLI);
 * store_send and store_receive do not (create, recover), so that PSP calls go on meanwhile.
 *
 * A connection that is lost while a transaction is under way leaves its outcome unknown. The answer
 * is STATUS_RETRY like for every other infrastructure fault, and the caller's duty is the same:
 * decide the same work again from fresh rows (protocol H5).
 */
#ifndef ONCEPAY_STORE_STORE_H
#define ONCEPAY_STORE_STORE_H

#include "store/sql_call.h"

struct store;
struct pg_result;

struct store_options {
    const char *url;         /* postgresql://… ; may hold a password: never logged */
    const char *application; /* shown in pg_stat_activity: "oncepay-create/1" */
    int statement_timeout_ms;
    int lock_timeout_ms;
    /* Reads whole tables and writes nothing (oncepay verify): transactions are READ ONLY, plans may
     * scan. */
    bool is_reader;
};

/* What went wrong last. Texts hold no row values. */
struct store_error {
    char sqlstate[6];
    char constraint[64];
    char statement[64];
    char message[200];
};

enum { STORE_CALLS_MAX = 10 };

/* Rows of one call. Zeroed is valid and empty; release with store_result_clear. */
struct store_result {
    struct pg_result *rows;
};

/* Never connects by itself; the URL and name are copied. */
struct store *store_create(const struct store_options *options);
void store_destroy(struct store *store);

/* libpq's options of its sessions: what a statement is planned with. Lives as long as the store. */
const char *store_settings(const struct store *store);

bool store_is_ready(const struct store *store); /* connected, nothing under way */
bool store_is_busy(const struct store *store);  /* a transaction is under way */
bool store_is_connected(const struct store *store);
const struct store_error *store_last_error(const struct store *store);

/*
 * Blocking: connects if needed, runs the calls as one transaction and fills one result per call.
 * STATUS_RETRY, LOST_RACE, BAD_DATA, STOP as mapped from SQLSTATE; results are empty then.
 */
enum status store_run_many(struct store *store, struct sql_call *calls, size_t count,
                           struct store_result *out_results) MUST_CHECK;
enum status store_run(struct store *store, struct sql_call *call,
                      struct store_result *out_result) MUST_CHECK;

/*
 * Non-blocking. store_service drives connecting and flushing; call it when the descriptor is
 * ready or store_wake_us has passed. now_us is monotonic.
 */
void store_service(struct store *store, int64_t now_us);
/* -1 when there is nothing to wait for on a descriptor. events: POLLIN, POLLOUT. */
int store_poll_fd(const struct store *store, short *out_events);
/* When store_service wants to be called even if nothing happens (reconnect, time limit); INT64_MAX:
 * never. */
int64_t store_wake_us(const struct store *store);
/* Sends a transaction on a ready connection. The calls' arena must live until it is received. */
enum status store_send(struct store *store, struct sql_call *calls, size_t count) MUST_CHECK;
/*
 * True when the transaction under way has ended; out_status and out_results are set then. Takes
 * what has arrived, never blocks. count as in store_send.
 */
bool store_receive(struct store *store, struct store_result *out_results, size_t count,
                   enum status *out_status);

/* Values of a result. Column numbers start at 0. Text is NUL-terminated; both live as long as the
 * result. */
size_t result_rows(const struct store_result *result);
bool result_is_null(const struct store_result *result, size_t row, int column);
bool result_bool(const struct store_result *result, size_t row, int column);
int32_t result_int(const struct store_result *result, size_t row, int column); /* int2 or int4 */
int64_t result_int8(const struct store_result *result, size_t row, int column);
const char *result_text(const struct store_result *result, size_t row,
                        int column); /* NULL for SQL NULL */
struct span result_bytea(const struct store_result *result, size_t row, int column);
struct uuid result_uuid(const struct store_result *result, size_t row,
                        int column); /* nil for SQL NULL */
int64_t result_time_us(const struct store_result *result, size_t row,
                       int column); /* 0 for SQL NULL */
void store_result_clear(struct store_result *result);

#endif
