/* store/settle_store.c: see settle_store.h. Column numbers are those of settle_read.sql. */
#include "store/settle_store.h"

#include "pipeline/case.h"

/* Reading ------------------------------------------------------------------------------------ */

/* One row of a result; text is copied, for the result is released before the facts are used. */
struct row {
    const struct store_result *result;
    size_t at;
    struct arena *arena;
};

static const char *text_of(const struct row *row, int column)
{
    const char *text = result_text(row->result, row->at, column);
    return text == NULL ? NULL : arena_copy(row->arena, text, strlen(text));
}

static int32_t int_of(const struct row *row, int column)
{
    return result_is_null(row->result, row->at, column) ? 0
                                                        : result_int(row->result, row->at, column);
}

static int64_t int8_of(const struct row *row, int column)
{
    return result_is_null(row->result, row->at, column) ? 0
                                                        : result_int8(row->result, row->at, column);
}

static bool bool_of(const struct row *row, int column)
{
    return result_bool(row->result, row->at, column);
}

/* False if either part is NULL. */
static bool money_of(const struct row *row, int amount_column, int currency_column,
                     struct money *out)
{
    const char *code = result_text(row->result, row->at, currency_column);
    if (code == NULL || result_is_null(row->result, row->at, amount_column)) return false;
    out->minor = result_int8(row->result, row->at, amount_column);
    return currency_parse(code, &out->currency);
}

static void read_payment(const struct row *row, struct payment_id id, struct settle_payment *out)
{
    out->exists = bool_of(row, 1);
    if (!out->exists) return;
    out->id = id;
    out->merchant = text_of(row, 2);
    out->out_trade_no = text_of(row, 3);
    (void)money_of(row, 4, 5, &out->amount); /* NULL only in a cancel tombstone */
    out->capture_manual = int_of(row, 6) == 2;
    out->status = (enum payment_state)int_of(row, 7);
    out->version = int_of(row, 8);
    out->certainty = int_of(row, 9);
    out->reason = text_of(row, 10);
    out->announced = int_of(row, 11);
    out->authorised_minor = int8_of(row, 12);
    out->captured_minor = int8_of(row, 13);
    out->refunded_minor = int8_of(row, 14);
    out->next_action = text_of(row, 15);
    out->applied_attempt.uuid = result_uuid(row->result, row->at, 16);
    out->applied_ordinal = int_of(row, 17);
    out->applied_version = int_of(row, 18);
    out->traceparent = text_of(row, 19);
}

static void read_attempt(const struct row *row, struct attempt_id id, struct settle_attempt *out)
{
    out->exists = bool_of(row, 20);
    if (!out->exists) return;
    out->id = id;
    out->operation = (enum operation)int_of(row, 21);
    out->ordinal = int_of(row, 22);
    out->status = (enum attempt_state)int_of(row, 23);
    out->certainty = (enum certainty)int_of(row, 24);
    out->version = int_of(row, 25);
    out->decline = (enum decline_class)int_of(row, 26);
    out->error_code = text_of(row, 27);
    out->channel_account = text_of(row, 28);
    out->provider_key = text_of(row, 29);
    out->provider_object = text_of(row, 30);
    (void)money_of(row, 31, 32, &out->amount);
    out->handed_out = bool_of(row, 33);
    out->evidence.uuid = result_uuid(row->result, row->at, 34);
    out->evidence_source = int_of(row, 35);
    out->has_evidence_amount = money_of(row, 36, 37, &out->evidence_amount);
    out->last_excerpt = text_of(row, 38);
    out->is_cited = bool_of(row, 39);
    out->next_check_us = result_time_us(row->result, row->at, 40);
    out->open_requests = int8_of(row, 41);
    out->has_known_answer = bool_of(row, 42);
    out->last_send_by_us = result_time_us(row->result, row->at, 43);
}

static void read_around(const struct row *row, struct settle_around *out)
{
    out->has_pointer = !result_is_null(row->result, row->at, 44);
    out->pointer_version = int_of(row, 44);
    out->pointer_hold = text_of(row, 45);
    out->has_stray_fact = bool_of(row, 46);
    out->has_case = bool_of(row, 47);
    out->has_grave_case = bool_of(row, 48);
    out->decision = text_of(row, 49);
    out->now_us = result_time_us(row->result, row->at, 50);
}

enum status settle_read(struct store *store, const struct command *const *commands, size_t count,
                        struct arena *arena, struct settle_facts *out_facts)
{
    struct sql_call call;
    sql_call_begin(&call, STMT_SETTLE_READ, arena);
    struct sql_array *payments = sql_bind_array(&call, SQL_UUID);
    struct sql_array *kinds = sql_bind_array(&call, SQL_INT2);
    struct sql_array *attempts = sql_bind_array(&call, SQL_UUID);
    struct sql_array *follows = sql_bind_array(&call, SQL_INT4);
    for (size_t i = 0; i < count; i++) {
        const struct command *command = commands[i];
        sql_push_uuid(payments, command->payment.uuid);
        sql_push_int2(kinds, (int)command->kind);
        sql_push_uuid(attempts, command->entity);
        sql_push_int4(follows, (int32_t)command->version);
    }
    struct store_result result = { 0 };
    TRY(store_run(store, &call, &result));
    INVARIANT(result_rows(&result) == count);
    for (size_t i = 0; i < count; i++) {
        const struct row row = { &result, i, arena };
        const size_t place = (size_t)result_int(&result, i, 0) - 1;
        INVARIANT(place < count);
        struct settle_facts *facts = &out_facts[place];
        *facts = (struct settle_facts){ 0 };
        read_payment(&row, commands[place]->payment, &facts->payment);
        read_attempt(&row, (struct attempt_id){ commands[place]->entity }, &facts->attempt);
        read_around(&row, &facts->around);
    }
    store_result_clear(&result);
    return STATUS_OK;
}

/* Writing ------------------------------------------------------------------------------------ */

static int compare_moves(const void *a, const void *b)
{
    const struct settle_move *const *left = a;
    const struct settle_move *const *right = b;
    return uuid_compare((*left)->payment->id.uuid, (*right)->payment->id.uuid);
}

static bool has_pointer_work(const struct settle_move *move)
{
    return move->hold != NULL || !uuid_is_nil(move->timer);
}

/* False if no move touches its pointer. */
static bool make_hold_call(struct sql_call *call, const struct settle_move *const *sorted,
                           size_t count, struct arena *arena)
{
    sql_call_begin(call, STMT_SETTLE_HOLD, arena);
    struct sql_array *payments = sql_bind_array(call, SQL_UUID);
    struct sql_array *versions = sql_bind_array(call, SQL_INT4);
    struct sql_array *holds = sql_bind_array(call, SQL_TEXT);
    struct sql_array *timers = sql_bind_array(call, SQL_UUID);
    struct sql_array *due = sql_bind_array(call, SQL_TIMESTAMPTZ);
    sql_bind_int2(call, TIMER_LIFT_HOLD);
    for (size_t i = 0; i < count; i++) {
        const struct settle_move *move = sorted[i];
        if (!has_pointer_work(move)) continue;
        sql_push_uuid(payments, move->payment->id.uuid);
        sql_push_int4(versions, move->around->pointer_version);
        sql_push_text(holds, move->hold);
        sql_push_uuid_or_null(timers, move->timer);
        sql_push_time(due, uuid_is_nil(move->timer) ? 0 : move->timer_due_us);
    }
    return sql_array_count(payments) > 0;
}

/* The columns of settle_move.sql, in its order. */
struct move_columns {
    struct sql_array *payments, *versions, *from, *to, *certainties, *reasons, *announced,
        *authorised, *captured, *next_actions, *applied_attempts, *applied_versions, *events, *whys,
        *evidence, *must_move, *outbox, *subjects, *bodies, *headers;
};

static void bind_columns(struct sql_call *call, struct move_columns *out)
{
    out->payments = sql_bind_array(call, SQL_UUID);
    out->versions = sql_bind_array(call, SQL_INT4);
    out->from = sql_bind_array(call, SQL_INT2);
    out->to = sql_bind_array(call, SQL_INT2);
    out->certainties = sql_bind_array(call, SQL_INT2);
    out->reasons = sql_bind_array(call, SQL_TEXT);
    out->announced = sql_bind_array(call, SQL_INT2);
    out->authorised = sql_bind_array(call, SQL_INT8);
    out->captured = sql_bind_array(call, SQL_INT8);
    out->next_actions = sql_bind_array(call, SQL_TEXT);
    out->applied_attempts = sql_bind_array(call, SQL_UUID);
    out->applied_versions = sql_bind_array(call, SQL_INT4);
    out->events = sql_bind_array(call, SQL_TEXT);
    out->whys = sql_bind_array(call, SQL_TEXT);
    out->evidence = sql_bind_array(call, SQL_UUID);
    out->must_move = sql_bind_array(call, SQL_BOOL);
    out->outbox = sql_bind_array(call, SQL_UUID);
    out->subjects = sql_bind_array(call, SQL_TEXT);
    out->bodies = sql_bind_array(call, SQL_BYTEA);
    out->headers = sql_bind_array(call, SQL_TEXT);
}

static void push_event(const struct move_columns *columns, const struct payment_event *event)
{
    static const struct payment_event NONE = { 0 };
    if (event == NULL) event = &NONE;
    sql_push_uuid_or_null(columns->outbox, event->id.uuid);
    sql_push_text(columns->subjects, event->subject);
    sql_push_bytea(columns->bodies, event->body);
    sql_push_text(columns->headers, event->headers);
}

static void push_move(const struct move_columns *columns, const struct settle_move *move)
{
    sql_push_uuid(columns->payments, move->payment->id.uuid);
    sql_push_int4(columns->versions, move->payment->version);
    sql_push_int2(columns->from, (int)move->payment->status);
    sql_push_int2(columns->to, (int)move->next_status);
    sql_push_int2(columns->certainties, (int)move->certainty);
    sql_push_text(columns->reasons, move->reason);
    sql_push_int2(columns->announced, move->announced);
    sql_push_int8(columns->authorised, move->authorised_minor);
    sql_push_int8(columns->captured, move->captured_minor);
    sql_push_text(columns->next_actions, move->next_action);
    sql_push_uuid_or_null(columns->applied_attempts, move->applied_attempt.uuid);
    sql_push_int4(columns->applied_versions, move->applied_version);
    sql_push_text(columns->events, move->history_event);
    sql_push_text(columns->whys, move->why);
    sql_push_uuid_or_null(columns->evidence, move->evidence.uuid);
    sql_push_bool(columns->must_move, has_pointer_work(move));
    push_event(columns, move->event);
}

static void make_move_call(struct sql_call *call, const struct settle_move *const *sorted,
                           size_t count, const char *actor, struct arena *arena)
{
    struct move_columns columns;
    sql_call_begin(call, STMT_SETTLE_MOVE, arena);
    bind_columns(call, &columns);
    sql_bind_text(call, actor);
    for (size_t i = 0; i < count; i++) push_move(&columns, sorted[i]);
}

static int compare_id_with_move(const void *key, const void *element)
{
    const struct uuid *id = key;
    const struct settle_move *const *move = element;
    return uuid_compare(*id, (*move)->payment->id.uuid);
}

static void read_moved(const struct store_result *result, const struct settle_move *const *sorted,
                       const struct settle_move *moves, size_t count, bool *out_moved)
{
    for (size_t i = 0; i < count; i++) out_moved[i] = false;
    for (size_t row = 0; row < result_rows(result); row++) {
        if (result_is_null(result, row, 0)) continue; /* nothing moved */
        const struct uuid id = result_uuid(result, row, 0);
        const struct settle_move *const *found =
            bsearch(&id, sorted, count, sizeof *sorted, compare_id_with_move);
        INVARIANT(found != NULL);
        out_moved[*found - moves] = true;
    }
}

enum status settle_write(struct store *store, const struct settle_move *moves, size_t count,
                         const char *actor, struct arena *arena, bool *out_moved)
{
    const struct settle_move **sorted = arena_allocate(arena, count * sizeof *sorted);
    for (size_t i = 0; i < count; i++) sorted[i] = &moves[i];
    qsort(sorted, count, sizeof *sorted, compare_moves);
    struct sql_call calls[2];
    struct store_result results[2] = { 0 };
    size_t call_count = 0;
    if (make_hold_call(&calls[0], sorted, count, arena)) call_count++;
    make_move_call(&calls[call_count++], sorted, count, actor, arena);
    TRY(store_run_many(store, calls, call_count, results));
    read_moved(&results[call_count - 1], sorted, moves, count, out_moved);
    for (size_t i = 0; i < call_count; i++) store_result_clear(&results[i]);
    return STATUS_OK;
}
