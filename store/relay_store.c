/* store/relay_store.c: see relay_store.h. */
#include "store/relay_store.h"

enum { RELAY_LOCK_CLASS = 0x0ca9 };

static const char *copy_text(struct arena *arena, const struct store_result *result, size_t row,
                             int column)
{
    const char *text = result_text(result, row, column);
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text));
}

static int64_t int8_or_zero(const struct store_result *result, size_t row, int column)
{
    return result_is_null(result, row, column) ? 0 : result_int8(result, row, column);
}

enum status relay_store_claim(struct store *store, int32_t shard, struct relay_claim *out)
{
    struct arena arena = { NULL };
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_RELAY_CLAIM, &arena);
    sql_bind_int4(&call, RELAY_LOCK_CLASS);
    sql_bind_int4(&call, shard);
    const enum status status = store_run(store, &call, &result);
    if (status == STATUS_OK) {
        *out = (struct relay_claim){
            .is_held = result_bool(&result, 0, 0),
            .session = result_int(&result, 0, 1),
            .system_identifier = result_int8(&result, 0, 2),
            .now_us = result_time_us(&result, 0, 3),
        };
    }
    store_result_clear(&result);
    arena_finish(&arena);
    return status;
}

enum status relay_store_positions(struct store *store, struct arena *arena,
                                  const struct relay_position **out_positions, size_t *out_count)
{
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_RELAY_POSITIONS, arena);
    TRY(store_run(store, &call, &result));
    const size_t count = result_rows(&result);
    struct relay_position *positions = arena_allocate(arena, (count + 1) * sizeof *positions);
    for (size_t i = 0; i < count; i++) {
        positions[i] = (struct relay_position){
            .name = copy_text(arena, &result, i, 0),
            .mark_us = result_time_us(&result, i, 1),
            .mark_xid = int8_or_zero(&result, i, 2),
            .system_identifier = int8_or_zero(&result, i, 3),
            .stream_created = copy_text(arena, &result, i, 4),
            .stream_last = int8_or_zero(&result, i, 5),
        };
    }
    store_result_clear(&result);
    *out_positions = positions;
    *out_count = count;
    return STATUS_OK;
}

struct uuid relay_store_id_floor(int64_t real_us)
{
    struct uuid id = { { 0 } };
    uint64_t ms = real_us > 0 ? (uint64_t)real_us / 1000 : 0;
    for (int i = 5; i >= 0; i--) {
        id.bytes[i] = (uint8_t)(ms & 0xff);
        ms >>= 8;
    }
    return id;
}

/* --- events -------------------------------------------------------------------------------- */

/* The columns xid, id, payment, version, created_at, subject, headers, body, from this one on. */
static struct relay_row read_row(const struct store_result *result, size_t row, int column,
                                 struct arena *arena)
{
    const char *headers = copy_text(arena, result, row, column + 6);
    return (struct relay_row){
        .xid = result_int8(result, row, column),
        .id = { result_uuid(result, row, column + 1) },
        .payment = { result_uuid(result, row, column + 2) },
        .version = result_int(result, row, column + 3),
        .created_us = result_time_us(result, row, column + 4),
        .subject = copy_text(arena, result, row, column + 5),
        .headers = headers == NULL ? "" : headers,
        .body = arena_copy_span(arena, result_bytea(result, row, column + 7)),
    };
}

static void read_rows(const struct store_result *result, struct arena *arena,
                      const struct relay_row **out_rows, size_t *out_count)
{
    const size_t count = result_rows(result);
    struct relay_row *rows = arena_allocate(arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) rows[i] = read_row(result, i, 0, arena);
    *out_rows = rows;
    *out_count = count;
}

static void read_page(const struct store_result *result, struct arena *arena,
                      struct relay_page *out)
{
    enum { SNAPSHOT, XMIN, NOW, IS_OURS, EVENT, EVENT_ID };
    const size_t count = result_is_null(result, 0, EVENT_ID) ? 0 : result_rows(result);
    struct relay_row *rows = arena_allocate(arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) rows[i] = read_row(result, i, EVENT, arena);
    *out = (struct relay_page){
        .is_ours = result_bool(result, 0, IS_OURS),
        .snapshot = copy_text(arena, result, 0, SNAPSHOT),
        .xmin = result_int8(result, 0, XMIN),
        .now_us = result_time_us(result, 0, NOW),
        .rows = rows,
        .count = count,
    };
}

enum status relay_store_events(struct store *store, const struct relay_page_query *query,
                               struct arena *arena, struct relay_page *out_page)
{
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_RELAY_EVENTS, arena);
    sql_bind_text(&call, query->base);
    sql_bind_text(&call, query->target);
    sql_bind_int8(&call, query->after_xid);
    sql_bind_uuid(&call, query->after_id);
    sql_bind_int4(&call, query->limit);
    sql_bind_uuid(&call, relay_store_id_floor(query->floor_us));
    sql_bind_int4(&call, query->session);
    TRY(store_run(store, &call, &result));
    read_page(&result, arena, out_page);
    store_result_clear(&result);
    return STATUS_OK;
}

enum status relay_store_events_before(struct store *store, const struct relay_before *before,
                                      size_t count, int64_t after_xid, struct uuid after_id,
                                      const char *snapshot, int64_t floor_us, struct arena *arena,
                                      const struct relay_row **out_rows, size_t *out_count)
{
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_RELAY_EVENTS_BEFORE, arena);
    struct sql_array *payments = sql_bind_array(&call, SQL_UUID);
    struct sql_array *versions = sql_bind_array(&call, SQL_INT4);
    for (size_t i = 0; i < count; i++) {
        sql_push_uuid(payments, before[i].payment.uuid);
        sql_push_int4(versions, before[i].version);
    }
    sql_bind_int8(&call, after_xid);
    sql_bind_text(&call, snapshot);
    sql_bind_uuid(&call, relay_store_id_floor(floor_us));
    sql_bind_uuid(&call, after_id);
    TRY(store_run(store, &call, &result));
    read_rows(&result, arena, out_rows, out_count);
    store_result_clear(&result);
    return STATUS_OK;
}

enum status relay_store_events_payment(struct store *store, struct payment_id payment,
                                       struct arena *arena, const struct relay_row **out_rows,
                                       size_t *out_count)
{
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_RELAY_EVENTS_PAYMENT, arena);
    sql_bind_uuid(&call, payment.uuid);
    TRY(store_run(store, &call, &result));
    read_rows(&result, arena, out_rows, out_count);
    store_result_clear(&result);
    return STATUS_OK;
}

/* --- marks --------------------------------------------------------------------------------- */

static void mark_event_call(struct sql_call *call, struct arena *arena,
                            const struct relay_marks *marks)
{
    sql_call_begin(call, STMT_RELAY_MARK_EVENT, arena);
    sql_bind_text(call, marks->event_name);
    sql_bind_int8(call, marks->event_xid);
    sql_bind_int8(call, marks->system_identifier);
    sql_bind_time(call, marks->event_at_us);
}

static void mark_stream_call(struct sql_call *call, struct arena *arena,
                             const struct relay_marks *marks)
{
    sql_call_begin(call, STMT_RELAY_MARK_STREAM, arena);
    sql_bind_text(call, marks->stream_name);
    sql_bind_text(call, marks->stream_created);
    sql_bind_int8(call, marks->stream_last);
}

static void mark_republish_call(struct sql_call *call, struct arena *arena,
                                const struct relay_marks *marks)
{
    sql_call_begin(call, STMT_RELAY_MARK_REPUBLISH, arena);
    sql_bind_text(call, marks->republish_name);
    if (marks->republish_xid == 0)
        sql_bind_null(call, SQL_INT8);
    else
        sql_bind_int8(call, marks->republish_xid);
    sql_bind_int8(call, marks->system_identifier);
}

enum status relay_store_mark(struct store *store, const struct relay_marks *marks,
                             bool *out_has_moved)
{
    enum { CALLS_MAX = 3 };
    struct arena arena = { NULL };
    struct sql_call calls[CALLS_MAX];
    struct store_result results[CALLS_MAX];
    size_t count = 0;
    if (marks->event_name != NULL) mark_event_call(&calls[count++], &arena, marks);
    if (marks->stream_name != NULL) mark_stream_call(&calls[count++], &arena, marks);
    if (marks->republish_name != NULL) mark_republish_call(&calls[count++], &arena, marks);
    enum status status = STATUS_OK;
    if (count > 0) status = store_run_many(store, calls, count, results);
    if (status == STATUS_OK) {
        *out_has_moved = marks->event_name != NULL && result_rows(&results[0]) == 1;
        for (size_t i = 0; i < count; i++) store_result_clear(&results[i]);
    }
    arena_finish(&arena);
    return status;
}

static enum status read_xid(struct store *store, struct sql_call *call, int64_t *out_xid)
{
    struct store_result result;
    TRY(store_run(store, call, &result));
    const bool is_found = result_rows(&result) == 1;
    if (is_found) *out_xid = result_int8(&result, 0, 0);
    store_result_clear(&result);
    return is_found ? STATUS_OK : STATUS_NOT_FOUND;
}

enum status relay_store_republish_after(struct store *store, struct outbox_id last,
                                        int32_t events_before, int64_t *out_xid)
{
    struct arena arena = { NULL };
    struct sql_call call;
    sql_call_begin(&call, STMT_RELAY_REPUBLISH_ID, &arena);
    sql_bind_uuid(&call, last.uuid);
    sql_bind_int4(&call, events_before);
    const enum status status = read_xid(store, &call, out_xid);
    arena_finish(&arena);
    return status;
}

enum status relay_store_republish_since(struct store *store, int64_t since_us, int64_t *out_xid)
{
    struct arena arena = { NULL };
    struct sql_call call;
    sql_call_begin(&call, STMT_RELAY_REPUBLISH_TIME, &arena);
    sql_bind_time(&call, since_us);
    const enum status status = read_xid(store, &call, out_xid);
    arena_finish(&arena);
    return status;
}

enum status relay_store_make_partitions(struct store *store, int32_t *out_made)
{
    struct arena arena = { NULL };
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_PARTITIONS_MAKE, &arena);
    const enum status status = store_run(store, &call, &result);
    if (status == STATUS_OK) *out_made = result_int(&result, 0, 0);
    store_result_clear(&result);
    arena_finish(&arena);
    return status;
}
