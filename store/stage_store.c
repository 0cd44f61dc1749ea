/* store/stage_store.c: see stage_store.h. */
#include "store/stage_store.h"

#include "pipeline/case.h"

static void bind_uuid_or_null(struct sql_call *call, struct uuid uuid)
{
    if (uuid_is_nil(uuid)) {
        sql_bind_null(call, SQL_UUID);
    } else {
        sql_bind_uuid(call, uuid);
    }
}

void dead_letter_call(struct sql_call *call, const struct dead_letter *letter, struct arena *arena)
{
    sql_call_begin(call, STMT_STAGE_DEAD_LETTER, arena);
    sql_bind_uuid(call, letter->id);
    sql_bind_text(call, letter->consumer);
    sql_bind_text(call, letter->subject);
    sql_bind_int8(call, (int64_t)letter->sequence);
    sql_bind_int8(call, (int64_t)letter->deliveries);
    sql_bind_text(call, letter->headers);
    sql_bind_bytea(call, letter->body);
    sql_bind_text(call, letter->method_token);
    sql_bind_text(call, letter->code);
    sql_bind_text(call, letter->field);
    sql_bind_text(call, letter->problem);
    bind_uuid_or_null(call, letter->payment.uuid);
    bind_uuid_or_null(call, letter->case_id.uuid);
    sql_bind_int2(call, CASE_DEAD_LETTER);
    sql_bind_int2(call, case_kind_priority(CASE_DEAD_LETTER));
    sql_bind_time(call, letter->stored_at_us);
}

enum status dead_letter_write(struct store *store, const struct dead_letter *letter,
                              struct arena *arena)
{
    struct sql_call call;
    dead_letter_call(&call, letter, arena);
    struct store_result result = { 0 };
    const enum status status = store_run(store, &call, &result);
    store_result_clear(&result);
    return status;
}

void delivery_trial_note_call(struct sql_call *call, const char *consumer, const char *message,
                              struct arena *arena)
{
    sql_call_begin(call, STMT_STAGE_TRIAL, arena);
    sql_bind_text(call, consumer);
    sql_bind_text(call, message);
}

enum status delivery_trial_note(struct store *store, const char *consumer, const char *message,
                                struct arena *arena, int *out_trials)
{
    struct sql_call call;
    delivery_trial_note_call(&call, consumer, message, arena);
    struct store_result result = { 0 };
    TRY(store_run(store, &call, &result));
    *out_trials = result_int(&result, 0, 0);
    store_result_clear(&result);
    return STATUS_OK;
}

void delivery_trial_clear_call(struct sql_call *call, const char *consumer, const char *message,
                               struct arena *arena)
{
    sql_call_begin(call, STMT_STAGE_TRIAL_CLEAR, arena);
    sql_bind_text(call, consumer);
    sql_bind_text(call, message);
}

enum status delivery_trial_clear(struct store *store, const char *consumer, const char *message,
                                 struct arena *arena)
{
    struct sql_call call;
    delivery_trial_clear_call(&call, consumer, message, arena);
    struct store_result result = { 0 };
    const enum status status = store_run(store, &call, &result);
    store_result_clear(&result);
    return status;
}
