/* store/account_store.c: see account_store.h. */
#include "store/account_store.h"

/* The facts that decide about money, as JSON, so that a later reader sees by what a verdict was
 * reached. */
static const char *facts(const struct psp_capability *c, struct arena *arena)
{
    return arena_format(
        arena,
        "{\"idempotency_key\":%s,\"keeps_failures_under_key\":%s,\"retrieve\":%s,\"search\":%s,"
        "\"cancel_by_reference\":%s,\"key_retention_s\":%" PRId64 ",\"key_margin_s\":%" PRId64
        ",\"late_arrival_window_s\":%" PRId64 ",\"lookup_lag_s\":%" PRId64 "}",
        c->has_idempotency_key ? "true" : "false", c->keeps_failures_under_key ? "true" : "false",
        c->has_retrieve ? "true" : "false", c->has_search ? "true" : "false",
        c->has_cancel_by_reference ? "true" : "false", c->key_retention_s, c->key_margin_s,
        c->late_arrival_window_s, c->lookup_lag_s);
}

enum status accounts_write(struct store *store, const char *const *merchants, size_t merchant_count,
                           const struct account_upsert *accounts, size_t account_count,
                           struct arena *arena)
{
    struct sql_call calls[3];
    struct store_result results[3] = { { 0 } };
    sql_call_begin(&calls[0], STMT_MERCHANT_WRITE, arena);
    struct sql_array *ids = sql_bind_array(&calls[0], SQL_TEXT);
    for (size_t i = 0; i < merchant_count; i++) sql_push_text(ids, merchants[i]);
    sql_call_begin(&calls[1], STMT_CAPABILITY_WRITE, arena);
    struct sql_array *capability_psps = sql_bind_array(&calls[1], SQL_TEXT);
    struct sql_array *versions = sql_bind_array(&calls[1], SQL_INT4);
    struct sql_array *facts_column = sql_bind_array(&calls[1], SQL_TEXT);
    sql_call_begin(&calls[2], STMT_ACCOUNT_WRITE, arena);
    struct sql_array *account_ids = sql_bind_array(&calls[2], SQL_TEXT);
    struct sql_array *account_psps = sql_bind_array(&calls[2], SQL_TEXT);
    struct sql_array *domains = sql_bind_array(&calls[2], SQL_TEXT);
    struct sql_array *account_versions = sql_bind_array(&calls[2], SQL_INT4);
    for (size_t i = 0; i < account_count; i++) {
        sql_push_text(capability_psps, accounts[i].psp);
        sql_push_int4(versions, accounts[i].capability->version);
        sql_push_text(facts_column, facts(accounts[i].capability, arena));
        sql_push_text(account_ids, accounts[i].account);
        sql_push_text(account_psps, accounts[i].psp);
        sql_push_text(domains, accounts[i].failure_domain);
        sql_push_int4(account_versions, accounts[i].capability->version);
    }
    const enum status status = store_run_many(store, calls, COUNT_OF(calls), results);
    for (size_t i = 0; i < COUNT_OF(results); i++) store_result_clear(&results[i]);
    return status;
}
