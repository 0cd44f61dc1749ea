/* store/route_store.c: see route_store.h. */
#include "store/route_store.h"

enum read_column {
    READ_NOW,
    READ_EXISTS,
    READ_MERCHANT,
    READ_OUT_TRADE_NO,
    READ_AMOUNT,
    READ_CURRENCY,
    READ_METHOD_TYPE,
    READ_METHOD_TOKEN,
    READ_TOKEN_REALM,
    READ_CAPTURE_MODE,
    READ_RETURN_URL,
    READ_STATUS,
    READ_VERSION,
    READ_START_BY,
    READ_HAS_ATTEMPT,
    READ_HAS_DECISION,
};

enum { CAPTURE_AUTOMATIC = 1 };

static const char *copy_text(const struct store_result *result, size_t row, int column,
                             struct arena *arena)
{
    const char *text = result_text(result, row, column);
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text));
}

static void take_payment(const struct store_result *result, size_t row, struct arena *arena,
                         struct route_payment *out)
{
    *out = (struct route_payment){
        .now_us = result_time_us(result, row, READ_NOW),
        .exists = result_bool(result, row, READ_EXISTS),
        .has_attempt = result_bool(result, row, READ_HAS_ATTEMPT),
        .has_decision = result_bool(result, row, READ_HAS_DECISION),
    };
    if (!out->exists) return;
    out->merchant = copy_text(result, row, READ_MERCHANT, arena);
    out->out_trade_no = copy_text(result, row, READ_OUT_TRADE_NO, arena);
    out->method_type = copy_text(result, row, READ_METHOD_TYPE, arena);
    out->method_token = copy_text(result, row, READ_METHOD_TOKEN, arena);
    out->token_realm = copy_text(result, row, READ_TOKEN_REALM, arena);
    out->capture_automatic = result_int(result, row, READ_CAPTURE_MODE) == CAPTURE_AUTOMATIC;
    out->return_url = copy_text(result, row, READ_RETURN_URL, arena);
    out->status = (enum payment_state)result_int(result, row, READ_STATUS);
    out->version = result_int(result, row, READ_VERSION);
    out->start_by_us = result_time_us(result, row, READ_START_BY);
    if (result_is_null(result, row, READ_AMOUNT)) return; /* a cancel tombstone */
    out->amount.minor = result_int8(result, row, READ_AMOUNT);
    (void)snprintf(out->amount.currency.code, sizeof out->amount.currency.code, "%s",
                   result_text(result, row, READ_CURRENCY));
}

static void bind_read(struct sql_call *call, const struct route_question *questions, size_t count,
                      struct arena *arena)
{
    sql_call_begin(call, STMT_ROUTE_READ, arena);
    struct sql_array *payment = sql_bind_array(call, SQL_UUID);
    struct sql_array *follows = sql_bind_array(call, SQL_INT4);
    for (size_t i = 0; i < count; i++) {
        sql_push_uuid(payment, questions[i].payment.uuid);
        sql_push_int4(follows, questions[i].follows);
    }
}

static void bind_open(struct sql_call *call, const struct route_account *accounts, size_t count,
                      struct arena *arena)
{
    sql_call_begin(call, STMT_ROUTE_OPEN, arena);
    struct sql_array *account = sql_bind_array(call, SQL_TEXT);
    struct sql_array *cap = sql_bind_array(call, SQL_INT8);
    for (size_t i = 0; i < count; i++) {
        sql_push_text(account, accounts[i].id);
        sql_push_int8(cap, accounts[i].cap);
    }
}

enum status route_read(struct store *store, const struct route_question *questions, size_t count,
                       struct arena *arena, struct route_payment **out_payments)
{
    struct sql_call call;
    struct store_result result = { 0 };
    bind_read(&call, questions, count, arena);
    TRY(store_run(store, &call, &result));
    INVARIANT(result_rows(&result) == count);
    struct route_payment *payments = arena_allocate(arena, count * sizeof *payments);
    for (size_t i = 0; i < count; i++) take_payment(&result, i, arena, &payments[i]);
    store_result_clear(&result);
    *out_payments = payments;
    return STATUS_OK;
}

enum status route_count_open(struct store *store, struct route_account *accounts, size_t count,
                             struct arena *arena)
{
    struct sql_call call;
    struct store_result result = { 0 };
    bind_open(&call, accounts, count, arena);
    TRY(store_run(store, &call, &result));
    INVARIANT(result_rows(&result) == count);
    for (size_t i = 0; i < count; i++) accounts[i].open_attempts = result_int8(&result, i, 0);
    store_result_clear(&result);
    return STATUS_OK;
}

static void bind_takes(struct sql_call *call, const struct route_writes *writes,
                       struct arena *arena)
{
    sql_call_begin(call, STMT_ROUTE_TAKE, arena);
    struct sql_array *payment = sql_bind_array(call, SQL_UUID);
    struct sql_array *version = sql_bind_array(call, SQL_INT4);
    struct sql_array *attempt = sql_bind_array(call, SQL_UUID);
    struct sql_array *ordinal = sql_bind_array(call, SQL_INT4);
    struct sql_array *account = sql_bind_array(call, SQL_TEXT);
    struct sql_array *provider_key = sql_bind_array(call, SQL_TEXT);
    struct sql_array *request_hash = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *request_bytes = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *decision = sql_bind_array(call, SQL_UUID);
    struct sql_array *reasons = sql_bind_array(call, SQL_TEXT);
    struct sql_array *command = sql_bind_array(call, SQL_UUID);
    struct sql_array *subject = sql_bind_array(call, SQL_TEXT);
    for (size_t i = 0; i < writes->take_count; i++) {
        const struct route_take *take = &writes->takes[i];
        sql_push_uuid(payment, take->payment.uuid);
        sql_push_int4(version, take->version);
        sql_push_uuid(attempt, take->attempt.uuid);
        sql_push_int4(ordinal, take->ordinal);
        sql_push_text(account, take->account);
        sql_push_text(provider_key, take->provider_key);
        sql_push_bytea(request_hash,
                       (struct span){ take->request_hash, sizeof take->request_hash });
        sql_push_bytea(request_bytes, take->request_bytes);
        sql_push_uuid(decision, take->decision);
        sql_push_text(reasons, take->reasons);
        sql_push_uuid(command, take->command.uuid);
        sql_push_text(subject, take->command_subject);
    }
    sql_bind_text(call, writes->actor);
    sql_bind_text(call, writes->routing_version);
}

static void bind_denials(struct sql_call *call, const struct route_writes *writes,
                         struct arena *arena)
{
    sql_call_begin(call, STMT_ROUTE_DENY, arena);
    struct sql_array *payment = sql_bind_array(call, SQL_UUID);
    struct sql_array *version = sql_bind_array(call, SQL_INT4);
    struct sql_array *follows = sql_bind_array(call, SQL_INT4);
    struct sql_array *decision = sql_bind_array(call, SQL_UUID);
    struct sql_array *reasons = sql_bind_array(call, SQL_TEXT);
    struct sql_array *command = sql_bind_array(call, SQL_UUID);
    struct sql_array *subject = sql_bind_array(call, SQL_TEXT);
    for (size_t i = 0; i < writes->denial_count; i++) {
        const struct route_deny *deny = &writes->denials[i];
        sql_push_uuid(payment, deny->payment.uuid);
        sql_push_int4(version, deny->version);
        sql_push_int4(follows, deny->follows);
        sql_push_uuid(decision, deny->decision);
        sql_push_text(reasons, deny->reasons);
        sql_push_uuid(command, deny->command.uuid);
        sql_push_text(subject, deny->command_subject);
    }
    sql_bind_text(call, writes->routing_version);
}

enum status route_write(struct store *store, const struct route_writes *writes, struct arena *arena)
{
    struct sql_call calls[2];
    struct store_result results[2];
    size_t count = 0;
    if (writes->take_count > 0) bind_takes(&calls[count++], writes, arena);
    if (writes->denial_count > 0) bind_denials(&calls[count++], writes, arena);
    if (count == 0) return STATUS_OK;
    TRY(store_run_many(store, calls, count, results));
    for (size_t i = 0; i < count; i++) store_result_clear(&results[i]);
    return STATUS_OK;
}
