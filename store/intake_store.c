/* store/intake_store.c: see intake_store.h. */
#include "store/intake_store.h"

enum read_column {
    READ_NOW,
    READ_FINGERPRINT,
    READ_FINGERPRINT_VERSION,
    READ_STATUS,
    READ_HEADERS,
    READ_BODY,
    READ_EXPIRES,
    READ_IS_EXPIRED,
    READ_PAYMENT,
    READ_IS_TOMBSTONE,
    READ_IS_SAME,
    READ_ACTIVE,
    READ_ACTIVE_VERSION,
    READ_IS_HELD,
    READ_ACTIVE_STATUS,
    READ_ACCEPTED,
};

static const char *copy_text(const struct store_result *result, size_t row, int column,
                             struct arena *arena)
{
    const char *text = result_text(result, row, column);
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text));
}

static void take_found(const struct store_result *result, size_t row, struct arena *arena,
                       struct intake_found *out)
{
    *out = (struct intake_found){
        .now_us = result_time_us(result, row, READ_NOW),
        .has_key = !result_is_null(result, row, READ_FINGERPRINT),
        .payment = { result_uuid(result, row, READ_PAYMENT) },
        .is_tombstone = result_bool(result, row, READ_IS_TOMBSTONE),
        .is_same = result_bool(result, row, READ_IS_SAME),
        .active = { result_uuid(result, row, READ_ACTIVE) },
        .is_held = result_bool(result, row, READ_IS_HELD),
    };
    if (out->has_key) {
        const struct span fingerprint = result_bytea(result, row, READ_FINGERPRINT);
        INVARIANT(fingerprint.length == sizeof out->fingerprint);
        memcpy(out->fingerprint, fingerprint.data, sizeof out->fingerprint);
        out->fingerprint_version = result_int(result, row, READ_FINGERPRINT_VERSION);
        out->answer.status = result_int(result, row, READ_STATUS);
        out->answer.headers = copy_text(result, row, READ_HEADERS, arena);
        out->answer.body = arena_copy_span(arena, result_bytea(result, row, READ_BODY));
        out->accepted.uuid = result_uuid(result, row, READ_ACCEPTED);
        out->key_expires_us = result_time_us(result, row, READ_EXPIRES);
        out->key_is_expired = result_bool(result, row, READ_IS_EXPIRED);
    }
    if (!uuid_is_nil(out->active.uuid)) {
        out->active_version = result_int(result, row, READ_ACTIVE_VERSION);
        out->active_status = (enum payment_state)result_int(result, row, READ_ACTIVE_STATUS);
    }
}

static void bind_read(struct sql_call *call, const struct pay_request *const *requests,
                      size_t count, struct arena *arena)
{
    sql_call_begin(call, STMT_INTAKE_READ, arena);
    struct sql_array *merchant = sql_bind_array(call, SQL_TEXT);
    struct sql_array *key_hash = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *out_trade_no = sql_bind_array(call, SQL_TEXT);
    struct sql_array *target_kind = sql_bind_array(call, SQL_TEXT);
    struct sql_array *target_id = sql_bind_array(call, SQL_TEXT);
    struct sql_array *amount = sql_bind_array(call, SQL_INT8);
    struct sql_array *currency = sql_bind_array(call, SQL_TEXT);
    struct sql_array *method_type = sql_bind_array(call, SQL_TEXT);
    struct sql_array *method_token = sql_bind_array(call, SQL_TEXT);
    struct sql_array *capture = sql_bind_array(call, SQL_INT2);
    struct sql_array *metadata = sql_bind_array(call, SQL_TEXT);
    for (size_t i = 0; i < count; i++) {
        const struct pay_request *request = requests[i];
        sql_push_text(merchant, request->merchant);
        sql_push_bytea(key_hash, (struct span){ request->key_hash, sizeof request->key_hash });
        sql_push_text(out_trade_no, request->out_trade_no);
        sql_push_text(target_kind, request->target_kind);
        sql_push_text(target_id, request->target_id);
        sql_push_int8(amount, request->amount.minor);
        sql_push_text(currency, request->amount.currency.code);
        sql_push_text(method_type, request->method_type);
        sql_push_text(method_token, request->method_token);
        sql_push_int2(capture, (int)request->capture);
        sql_push_text(metadata, request->metadata);
    }
}

enum status intake_read(struct store *store, const struct pay_request *const *requests,
                        size_t count, struct arena *arena, struct intake_found **out_found)
{
    struct sql_call call;
    struct store_result result = { 0 };
    bind_read(&call, requests, count, arena);
    TRY(store_run(store, &call, &result));
    INVARIANT(result_rows(&result) == count);
    struct intake_found *found = arena_allocate(arena, count * sizeof *found);
    for (size_t i = 0; i < count; i++) take_found(&result, i, arena, &found[i]);
    store_result_clear(&result);
    *out_found = found;
    return STATUS_OK;
}

enum view_column {
    VIEW_ID,
    VIEW_OUT_TRADE_NO,
    VIEW_STATUS,
    VIEW_CERTAINTY,
    VIEW_AMOUNT,
    VIEW_CURRENCY,
    VIEW_CAPTURED,
    VIEW_REFUNDED,
    VIEW_NEXT_ACTION,
    VIEW_REASON,
    VIEW_IS_SAFE,
    VIEW_HOLD,
    VIEW_NEXT_CHECK,
    VIEW_VERSION,
};

static void take_view(const struct store_result *result, size_t row, struct arena *arena,
                      struct payment_view *out)
{
    *out = (struct payment_view){
        .payment = { result_uuid(result, row, VIEW_ID) },
        .out_trade_no = copy_text(result, row, VIEW_OUT_TRADE_NO, arena),
        .status = (enum payment_state)result_int(result, row, VIEW_STATUS),
        .certainty = result_int(result, row, VIEW_CERTAINTY),
        .captured_minor = result_int8(result, row, VIEW_CAPTURED),
        .refunded_minor = result_int8(result, row, VIEW_REFUNDED),
        .next_action = copy_text(result, row, VIEW_NEXT_ACTION, arena),
        .reason = copy_text(result, row, VIEW_REASON, arena),
        .safe_to_pay_again = result_bool(result, row, VIEW_IS_SAFE),
        .hold = copy_text(result, row, VIEW_HOLD, arena),
        .next_check_at_us = result_time_us(result, row, VIEW_NEXT_CHECK),
        .version = result_int(result, row, VIEW_VERSION),
    };
    if (!result_is_null(result, row, VIEW_AMOUNT)) {
        out->amount.minor = result_int8(result, row, VIEW_AMOUNT);
        (void)snprintf(out->amount.currency.code, sizeof out->amount.currency.code, "%s",
                       result_text(result, row, VIEW_CURRENCY));
    }
}

enum status intake_read_views(struct store *store, const struct payment_id *payments, size_t count,
                              struct arena *arena, struct payment_view **out_views,
                              size_t *out_count)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_INTAKE_VIEW, arena);
    struct sql_array *ids = sql_bind_array(&call, SQL_UUID);
    for (size_t i = 0; i < count; i++) sql_push_uuid(ids, payments[i].uuid);
    TRY(store_run(store, &call, &result));
    const size_t rows = result_rows(&result);
    struct payment_view *views = arena_allocate(arena, rows * sizeof *views);
    for (size_t i = 0; i < rows; i++) take_view(&result, i, arena, &views[i]);
    store_result_clear(&result);
    *out_views = views;
    *out_count = rows;
    return STATUS_OK;
}

static void push_key(const struct pay_request *request, struct sql_array *key_hash,
                     struct sql_array *fingerprint)
{
    sql_push_bytea(key_hash, (struct span){ request->key_hash, sizeof request->key_hash });
    sql_push_bytea(fingerprint, (struct span){ request->fingerprint, sizeof request->fingerprint });
}

/* The first sixteen parameters: the payment itself. */
static void bind_payments(struct sql_call *call, const struct intake_accept *accepts, size_t count)
{
    struct sql_array *id = sql_bind_array(call, SQL_UUID);
    struct sql_array *merchant = sql_bind_array(call, SQL_TEXT);
    struct sql_array *out_trade_no = sql_bind_array(call, SQL_TEXT);
    struct sql_array *target_kind = sql_bind_array(call, SQL_TEXT);
    struct sql_array *target_id = sql_bind_array(call, SQL_TEXT);
    struct sql_array *amount = sql_bind_array(call, SQL_INT8);
    struct sql_array *currency = sql_bind_array(call, SQL_TEXT);
    struct sql_array *method_type = sql_bind_array(call, SQL_TEXT);
    struct sql_array *method_token = sql_bind_array(call, SQL_TEXT);
    struct sql_array *token_realm = sql_bind_array(call, SQL_TEXT);
    struct sql_array *capture = sql_bind_array(call, SQL_INT2);
    struct sql_array *start_by = sql_bind_array(call, SQL_TIMESTAMPTZ);
    struct sql_array *expires_at = sql_bind_array(call, SQL_TIMESTAMPTZ);
    struct sql_array *return_url = sql_bind_array(call, SQL_TEXT);
    struct sql_array *metadata = sql_bind_array(call, SQL_TEXT);
    struct sql_array *traceparent = sql_bind_array(call, SQL_TEXT);
    for (size_t i = 0; i < count; i++) {
        const struct pay_request *request = accepts[i].request;
        sql_push_uuid(id, accepts[i].id.uuid);
        sql_push_text(merchant, request->merchant);
        sql_push_text(out_trade_no, request->out_trade_no);
        sql_push_text(target_kind, request->target_kind);
        sql_push_text(target_id, request->target_id);
        sql_push_int8(amount, request->amount.minor);
        sql_push_text(currency, request->amount.currency.code);
        sql_push_text(method_type, request->method_type);
        sql_push_text(method_token, request->method_token);
        sql_push_text(token_realm, request->method_token_realm);
        sql_push_int2(capture, (int)request->capture);
        sql_push_time(start_by, accepts[i].start_by_us);
        sql_push_time(expires_at, request->expires_at_us);
        sql_push_text(return_url, request->return_url);
        sql_push_text(metadata, request->metadata);
        sql_push_text(traceparent, accepts[i].traceparent);
    }
}

/* The parameters after them: key, answer, pointer, event, command. */
static void bind_acceptances(struct sql_call *call, const struct intake_accept *accepts,
                             size_t count)
{
    struct sql_array *key_hash = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *fingerprint = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *status = sql_bind_array(call, SQL_INT2);
    struct sql_array *headers = sql_bind_array(call, SQL_TEXT);
    struct sql_array *lifetime_h = sql_bind_array(call, SQL_INT4);
    struct sql_array *pointer_payment = sql_bind_array(call, SQL_UUID);
    struct sql_array *pointer_version = sql_bind_array(call, SQL_INT4);
    struct sql_array *event = sql_bind_array(call, SQL_UUID);
    struct sql_array *event_subject = sql_bind_array(call, SQL_TEXT);
    struct sql_array *event_body = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *event_headers = sql_bind_array(call, SQL_TEXT);
    struct sql_array *command = sql_bind_array(call, SQL_UUID);
    struct sql_array *command_subject = sql_bind_array(call, SQL_TEXT);
    struct sql_array *key_is_expired = sql_bind_array(call, SQL_BOOL);
    for (size_t i = 0; i < count; i++) {
        const struct intake_accept *accept = &accepts[i];
        push_key(accept->request, key_hash, fingerprint);
        sql_push_int2(status, accept->answer.status);
        sql_push_text(headers, accept->answer.headers);
        sql_push_int4(lifetime_h, (int32_t)accept->key_lifetime_h);
        sql_push_uuid_or_null(pointer_payment, accept->pointer_payment.uuid);
        sql_push_int4(pointer_version, accept->pointer_version);
        sql_push_uuid(event, accept->event.uuid);
        sql_push_text(event_subject, accept->event_subject);
        sql_push_bytea(event_body, accept->event_body);
        sql_push_text(event_headers, accept->event_headers);
        sql_push_uuid(command, accept->command.uuid);
        sql_push_text(command_subject, accept->command_subject);
        sql_push_bool(key_is_expired, accept->key_is_expired);
    }
}

static void bind_stored(struct sql_call *call, const struct intake_stored *stored, size_t count)
{
    struct sql_array *merchant = sql_bind_array(call, SQL_TEXT);
    struct sql_array *key_hash = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *fingerprint = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *payment = sql_bind_array(call, SQL_UUID);
    struct sql_array *status = sql_bind_array(call, SQL_INT2);
    struct sql_array *headers = sql_bind_array(call, SQL_TEXT);
    struct sql_array *body = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *lifetime_h = sql_bind_array(call, SQL_INT4);
    for (size_t i = 0; i < count; i++) {
        sql_push_text(merchant, stored[i].request->merchant);
        push_key(stored[i].request, key_hash, fingerprint);
        sql_push_uuid_or_null(payment, stored[i].payment.uuid);
        sql_push_int2(status, stored[i].answer.status);
        sql_push_text(headers, stored[i].answer.headers);
        sql_push_bytea(body, stored[i].answer.body);
        sql_push_int4(lifetime_h, (int32_t)stored[i].key_lifetime_h);
    }
    sql_bind_int2(call, REQUEST_FINGERPRINT_VERSION);
}

static void bind_rejections(struct sql_call *call, const struct intake_rejection *rejections,
                            size_t count)
{
    struct sql_array *id = sql_bind_array(call, SQL_UUID);
    struct sql_array *subject = sql_bind_array(call, SQL_TEXT);
    struct sql_array *body = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *headers = sql_bind_array(call, SQL_TEXT);
    for (size_t i = 0; i < count; i++) {
        sql_push_uuid(id, rejections[i].id.uuid);
        sql_push_text(subject, rejections[i].subject);
        sql_push_bytea(body, rejections[i].body);
        sql_push_text(headers, rejections[i].headers);
    }
}

static void bind_letters(struct sql_call *call, const struct intake_letter *letters, size_t count)
{
    struct sql_array *id = sql_bind_array(call, SQL_UUID);
    struct sql_array *subject = sql_bind_array(call, SQL_TEXT);
    struct sql_array *sequence = sql_bind_array(call, SQL_INT8);
    struct sql_array *deliveries = sql_bind_array(call, SQL_INT8);
    struct sql_array *headers = sql_bind_array(call, SQL_TEXT);
    struct sql_array *body = sql_bind_array(call, SQL_BYTEA);
    struct sql_array *method_token = sql_bind_array(call, SQL_TEXT);
    struct sql_array *code = sql_bind_array(call, SQL_TEXT);
    struct sql_array *field = sql_bind_array(call, SQL_TEXT);
    struct sql_array *problem = sql_bind_array(call, SQL_TEXT);
    struct sql_array *stored_at = sql_bind_array(call, SQL_TIMESTAMPTZ);
    for (size_t i = 0; i < count; i++) {
        const struct intake_letter *letter = &letters[i];
        sql_push_uuid(id, letter->id);
        sql_push_text(subject, letter->subject);
        sql_push_int8(sequence, (int64_t)letter->sequence);
        sql_push_int8(deliveries, (int64_t)letter->deliveries);
        sql_push_text(headers, letter->headers);
        sql_push_bytea(body, letter->body);
        sql_push_text(method_token, letter->method_token);
        sql_push_text(code, letter->code);
        sql_push_text(field, letter->field);
        sql_push_text(problem, letter->problem);
        sql_push_time(stored_at, letter->stored_at_us);
    }
}

enum status intake_write(struct store *store, const struct intake_writes *writes,
                         struct arena *arena)
{
    struct sql_call calls[4];
    struct store_result results[4];
    size_t count = 0;
    if (writes->stored_count > 0) {
        sql_call_begin(&calls[count], STMT_INTAKE_ANSWER, arena);
        bind_stored(&calls[count++], writes->stored, writes->stored_count);
    }
    if (writes->accept_count > 0) {
        struct sql_call *call = &calls[count++];
        sql_call_begin(call, STMT_INTAKE_ACCEPT, arena);
        bind_payments(call, writes->accepts, writes->accept_count);
        bind_acceptances(call, writes->accepts, writes->accept_count);
        sql_bind_text(call, writes->actor);
        sql_bind_int2(call, REQUEST_FINGERPRINT_VERSION);
    }
    if (writes->rejection_count > 0) {
        sql_call_begin(&calls[count], STMT_INTAKE_REJECT, arena);
        bind_rejections(&calls[count++], writes->rejections, writes->rejection_count);
    }
    if (writes->letter_count > 0) {
        sql_call_begin(&calls[count], STMT_INTAKE_KEEP, arena);
        bind_letters(&calls[count++], writes->letters, writes->letter_count);
    }
    if (count == 0) return STATUS_OK;
    TRY(store_run_many(store, calls, count, results));
    for (size_t i = 0; i < count; i++) store_result_clear(&results[i]);
    return STATUS_OK;
}
