/* ops/yardstick/yardstick_payment.c: see yardstick_payment.h. */
#include "ops/yardstick/yardstick_payment.h"

#include "pipeline/answer.h"
#include "pipeline/buffer.h"
#include "pipeline/clock.h"
#include "pipeline/hash.h"
#include "pipeline/provider_key.h"
#include "pipeline/subject.h"

#define POSTGRES_EPOCH_US INT64_C(946684800000000)
#define START_BY_US (15 * 60 * CLOCK_SECOND_US)

static const char *const MERCHANTS[] = { "m-1001", "m-1002" };
static const struct uuid NIL;

/* ---- history ------------------------------------------------------------------------------- */

struct link {
    enum entity entity;
    struct uuid id;
    int32_t version;
    int from;
    int to;
    const char *event;
    const char *why;
    const char *actor;
    struct uuid evidence;
};

static void put(struct buffer *out, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) {
        buffer_add_byte(out, (char)(uint8_t)(value >> (8 * i)));
    }
}

/* oncepay.history_link, outside of the database. */
static struct span chain(struct span prev, const struct link *link, int64_t at_us,
                         struct arena *arena)
{
    struct buffer text = { .arena = arena };
    buffer_add(&text, prev.data, prev.length);
    put(&text, (uint64_t)link->entity, 2);
    buffer_add(&text, link->id.bytes, sizeof link->id.bytes);
    put(&text, (uint64_t)link->version, 4);
    put(&text, (uint64_t)link->from, 2);
    put(&text, (uint64_t)link->to, 2);
    put(&text, (uint64_t)(at_us - POSTGRES_EPOCH_US), 8);
    if (!uuid_is_nil(link->evidence)) {
        buffer_add(&text, link->evidence.bytes, sizeof link->evidence.bytes);
    }
    const char *words = arena_format(arena, "%s\x1f%s\x1f%s", link->event, link->why, link->actor);
    buffer_add_text(&text, words);
    uint8_t *hash = arena_allocate(arena, HASH_SIZE);
    hash_sha256(buffer_span(&text), hash);
    return (struct span){ hash, HASH_SIZE };
}

static void make_history(struct yardstick_payment *out, struct arena *arena)
{
    const struct link payment[] = {
        { ENTITY_PAYMENT, out->payment_id, 1, 0, PAYMENT_CREATED, "accepted", "new_request",
          "intake/yardstick/1", NIL },
        { ENTITY_PAYMENT, out->payment_id, 2, PAYMENT_CREATED, PAYMENT_AUTHORIZING, "routed",
          "first_that_serves", "route/yardstick/1", NIL },
        { ENTITY_PAYMENT, out->payment_id, 3, PAYMENT_AUTHORIZING, PAYMENT_CAPTURED,
          "settled.succeeded", "captured", "settle/yardstick/1", out->evidence_id },
    };
    const struct link attempt[] = {
        { ENTITY_ATTEMPT, out->attempt_id, 1, 0, ATTEMPT_CREATED, "routed", "first_that_serves",
          "route/yardstick/1", NIL },
        { ENTITY_ATTEMPT, out->attempt_id, 2, ATTEMPT_CREATED, ATTEMPT_SENDING, "fence",
          "about to be sent", "create/yardstick/1", NIL },
        { ENTITY_ATTEMPT, out->attempt_id, 3, ATTEMPT_SENDING, ATTEMPT_SUCCEEDED,
          "answer.succeeded", "succeeded", "create/yardstick/1", out->evidence_id },
    };
    out->zero_hash = (struct span){ arena_allocate(arena, HASH_SIZE), HASH_SIZE };
    out->payment_hash_1 = chain(out->zero_hash, &payment[0], out->at, arena);
    out->payment_hash_2 = chain(out->payment_hash_1, &payment[1], out->at, arena);
    out->payment_hash_3 = chain(out->payment_hash_2, &payment[2], out->at, arena);
    out->attempt_hash_1 = chain(out->payment_hash_2, &attempt[0], out->at, arena);
    out->attempt_hash_2 = chain(out->attempt_hash_1, &attempt[1], out->at, arena);
    out->attempt_hash_3 = chain(out->attempt_hash_2, &attempt[2], out->at, arena);
}

/* ---- the payment --------------------------------------------------------------------------- */

static const char *keep(const char *text, struct arena *arena)
{
    return arena_copy(arena, text, strlen(text));
}

static struct span digest_of(struct span data, struct arena *arena)
{
    uint8_t *hash = arena_allocate(arena, HASH_SIZE);
    hash_sha256(data, hash);
    return (struct span){ hash, HASH_SIZE };
}

static void draw_ids(struct yardstick_payment *out, struct uuid fence_batch)
{
    struct uuid *const ids[] = {
        &out->payment_id,        &out->route_command_id,  &out->accepted_id, &out->attempt_id,
        &out->decision_id,       &out->create_command_id, &out->request_id,  &out->evidence_id,
        &out->settle_command_id, &out->succeeded_id,
    };
    for (size_t i = 0; i < COUNT_OF(ids); i++) *ids[i] = uuid_new();
    out->fence_id = fence_batch;
}

static void make_events(struct yardstick_payment *out, struct arena *arena)
{
    struct payment_view view = {
        .payment = { out->payment_id },
        .out_trade_no = out->out_trade_no,
        .status = PAYMENT_CREATED,
        .amount = { out->amount, { "EUR" } },
        .version = 1,
    };
    char subject[SUBJECT_SIZE];
    out->accepted_body = answer_event_body(&view, CONTENT_MSGPACK, arena);
    out->accepted_headers = event_headers_encode(CONTENT_MSGPACK, NULL, arena);
    out->accepted_subject =
        keep(subject_event(out->merchant, event_type_name(EVENT_PAYMENT_ACCEPTED), subject), arena);
    view.status = PAYMENT_CAPTURED;
    view.certainty = CERTAINTY_CONFIRMED_SUCCESS;
    view.captured_minor = out->amount;
    view.version = 3;
    out->succeeded_body = answer_event_body(&view, CONTENT_MSGPACK, arena);
    out->succeeded_headers = event_headers_encode(CONTENT_MSGPACK, NULL, arena);
    out->succeeded_subject = keep(
        subject_event(out->merchant, event_type_name(EVENT_PAYMENT_SUCCEEDED), subject), arena);
    const struct payment_id payment = { out->payment_id };
    out->route_subject = keep(subject_route(payment, subject), arena);
    out->create_subject = keep(subject_create(out->account, subject), arena);
    out->settle_subject = keep(subject_settle(payment, subject), arena);
}

/* What goes to the PSP, and what comes back. */
static void make_call(struct yardstick_payment *out, struct arena *arena)
{
    const struct provider_key_input input = {
        .installation = "yardstick",
        .merchant = out->merchant,
        .out_trade_no = out->out_trade_no,
        .operation = OPERATION_CREATE,
        .number = 1,
        .ordinal = 1,
        .step = 1,
    };
    char key[PROVIDER_KEY_SIZE];
    out->provider_key = keep(provider_key_make(&input, PROVIDER_KEY_SIZE - 1, key), arena);
    out->provider_object = arena_format(arena, "pi_%.24s", out->provider_key + 3);
    out->request_bytes = span_of_text(arena_format(
        arena,
        "POST /v1/payment_intents\ncontent-type: application/x-www-form-urlencoded\n"
        "version: 2026-10-28.endive\n\namount=%" PRId64 "&currency=eur&payment_method=%s"
        "&confirm=true&capture_method=automatic&metadata[reference]=%s"
        "&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never",
        out->amount, out->method_token, out->provider_key));
    out->request_hash = digest_of(out->request_bytes, arena);
    out->excerpt = arena_format(
        arena,
        "{\"id\":\"%s\",\"object\":\"payment_intent\",\"status\":\"succeeded\",\"amount\":%" PRId64
        ",\"currency\":\"eur\",\"created\":%" PRId64 ",\"latest_charge\":\"ch_%.24s\","
        "\"amount_received\":%" PRId64 "}",
        out->provider_object, out->amount, out->at / CLOCK_SECOND_US, out->provider_key + 20,
        out->amount);
    out->digest = digest_of(span_of_text(out->excerpt), arena);
}

void yardstick_payment_make(const struct yardstick_names *names, size_t place,
                            struct uuid fence_batch, struct arena *arena,
                            struct yardstick_payment *out)
{
    *out = (struct yardstick_payment){
        .merchant = MERCHANTS[place % COUNT_OF(MERCHANTS)],
        .out_trade_no = arena_format(arena, "%s-%07zu", names->prefix, place),
        .currency = "EUR",
        .method_type = "card",
        .method_token = "pm_card_visa",
        .token_realm = "stripe",
        .account = names->account,
        .reasons = "{}",
        .routing_version = "first-000000000000",
        .policy_version = "1-0000000000000000",
        .answer_headers = "",
        .amount = (int64_t)(100 + place * 7919 % 50000),
        .at = clock_real_us(),
        .lifetime_h = 24,
    };
    out->start_by = out->at + START_BY_US;
    draw_ids(out, fence_batch);
    out->key_hash = digest_of(span_of_text(out->out_trade_no), arena);
    out->fingerprint = digest_of(out->key_hash, arena);
    make_call(out, arena);
    make_events(out, arena);
    make_history(out, arena);
}

/* ---- columns ------------------------------------------------------------------------------- */

#define COLUMN(field, type)                                                                        \
    {                                                                                              \
#field, type, offsetof(struct yardstick_payment, field), false                             \
    }

static const struct yardstick_column COLUMNS[] = {
    COLUMN(payment_id, SQL_UUID),
    COLUMN(attempt_id, SQL_UUID),
    COLUMN(request_id, SQL_UUID),
    COLUMN(evidence_id, SQL_UUID),
    COLUMN(decision_id, SQL_UUID),
    { "fence_id", SQL_UUID, offsetof(struct yardstick_payment, fence_id), true },
    COLUMN(accepted_id, SQL_UUID),
    COLUMN(route_command_id, SQL_UUID),
    COLUMN(create_command_id, SQL_UUID),
    COLUMN(settle_command_id, SQL_UUID),
    COLUMN(succeeded_id, SQL_UUID),
    COLUMN(merchant, SQL_TEXT),
    COLUMN(out_trade_no, SQL_TEXT),
    COLUMN(currency, SQL_TEXT),
    COLUMN(method_type, SQL_TEXT),
    COLUMN(method_token, SQL_TEXT),
    COLUMN(token_realm, SQL_TEXT),
    COLUMN(account, SQL_TEXT),
    COLUMN(provider_key, SQL_TEXT),
    COLUMN(provider_object, SQL_TEXT),
    COLUMN(excerpt, SQL_TEXT),
    COLUMN(reasons, SQL_TEXT),
    COLUMN(routing_version, SQL_TEXT),
    COLUMN(policy_version, SQL_TEXT),
    COLUMN(answer_headers, SQL_TEXT),
    COLUMN(accepted_subject, SQL_TEXT),
    COLUMN(route_subject, SQL_TEXT),
    COLUMN(create_subject, SQL_TEXT),
    COLUMN(settle_subject, SQL_TEXT),
    COLUMN(succeeded_subject, SQL_TEXT),
    COLUMN(accepted_headers, SQL_TEXT),
    COLUMN(succeeded_headers, SQL_TEXT),
    COLUMN(key_hash, SQL_BYTEA),
    COLUMN(fingerprint, SQL_BYTEA),
    COLUMN(accepted_body, SQL_BYTEA),
    COLUMN(succeeded_body, SQL_BYTEA),
    COLUMN(request_hash, SQL_BYTEA),
    COLUMN(request_bytes, SQL_BYTEA),
    COLUMN(digest, SQL_BYTEA),
    COLUMN(zero_hash, SQL_BYTEA),
    COLUMN(payment_hash_1, SQL_BYTEA),
    COLUMN(payment_hash_2, SQL_BYTEA),
    COLUMN(payment_hash_3, SQL_BYTEA),
    COLUMN(attempt_hash_1, SQL_BYTEA),
    COLUMN(attempt_hash_2, SQL_BYTEA),
    COLUMN(attempt_hash_3, SQL_BYTEA),
    COLUMN(amount, SQL_INT8),
    COLUMN(at, SQL_TIMESTAMPTZ),
    COLUMN(start_by, SQL_TIMESTAMPTZ),
    COLUMN(lifetime_h, SQL_INT4),
};

const struct yardstick_column *yardstick_column_find(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT_OF(COLUMNS); i++) {
        if (strlen(COLUMNS[i].name) == length && memcmp(COLUMNS[i].name, name, length) == 0) {
            return &COLUMNS[i];
        }
    }
    return NULL;
}

static const void *field(const struct yardstick_column *column,
                         const struct yardstick_payment *payment)
{
    return (const uint8_t *)payment + column->offset;
}

static void push(const struct yardstick_column *column, const void *value, struct sql_array *array)
{
    switch (column->type) {
    case SQL_UUID:
        sql_push_uuid(array, *(const struct uuid *)value);
        return;
    case SQL_TEXT:
        sql_push_text(array, *(const char *const *)value);
        return;
    case SQL_BYTEA:
        sql_push_bytea(array, *(const struct span *)value);
        return;
    case SQL_INT4:
        sql_push_int4(array, *(const int32_t *)value);
        return;
    case SQL_INT8:
        sql_push_int8(array, *(const int64_t *)value);
        return;
    case SQL_TIMESTAMPTZ:
        sql_push_time(array, *(const int64_t *)value);
        return;
    case SQL_BOOL:
    case SQL_INT2:
        break;
    }
    UNREACHABLE("no column has this type");
}

static void bind_one(const struct yardstick_column *column, const void *value,
                     struct sql_call *call)
{
    switch (column->type) {
    case SQL_UUID:
        sql_bind_uuid(call, *(const struct uuid *)value);
        return;
    case SQL_TEXT:
        sql_bind_text(call, *(const char *const *)value);
        return;
    case SQL_BYTEA:
        sql_bind_bytea(call, *(const struct span *)value);
        return;
    case SQL_INT4:
        sql_bind_int4(call, *(const int32_t *)value);
        return;
    case SQL_INT8:
        sql_bind_int8(call, *(const int64_t *)value);
        return;
    case SQL_TIMESTAMPTZ:
        sql_bind_time(call, *(const int64_t *)value);
        return;
    case SQL_BOOL:
    case SQL_INT2:
        break;
    }
    UNREACHABLE("no column has this type");
}

void yardstick_column_bind(const struct yardstick_column *column,
                           const struct yardstick_payment *payments, size_t count, bool is_array,
                           struct sql_call *call)
{
    if (!is_array || column->is_of_batch) {
        bind_one(column, field(column, payments), call);
        return;
    }
    struct sql_array *array = sql_bind_array(call, column->type);
    for (size_t i = 0; i < count; i++) push(column, field(column, &payments[i]), array);
}
