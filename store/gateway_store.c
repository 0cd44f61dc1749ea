/* store/gateway_store.c: see gateway_store.h. */
#include "store/gateway_store.h"

#include "pipeline/subject.h"

enum { COLUMNS = 18 };

static int by_event(const void *a, const void *b)
{
    const struct gateway_row *const *left = a;
    const struct gateway_row *const *right = b;
    const int order = strcmp((*left)->account, (*right)->account);
    if (order != 0) return order;
    return strcmp((*left)->observation->provider_event, (*right)->observation->provider_event);
}

static void push_row(struct sql_array *const column[COLUMNS], const struct gateway_row *row)
{
    const struct observation *observation = row->observation;
    char subject[SUBJECT_SIZE];
    size_t next = 0;
    sql_push_uuid(column[next++], row->id.uuid);
    sql_push_text(column[next++], row->account);
    sql_push_text(column[next++], observation->provider_event);
    sql_push_int2(column[next++], (int)observation->kind);
    sql_push_text(column[next++], observation->provider_status);
    sql_push_text(column[next++], observation->provider_object);
    sql_push_text(column[next++], observation->reference);
    sql_push_text(column[next++], observation->error_code);
    sql_push_int2(column[next++], (int)observation->decline);
    if (observation->has_amount) {
        sql_push_int8(column[next++], observation->amount.minor);
        sql_push_text(column[next++], observation->amount.currency.code);
    } else {
        sql_push_null(column[next++]);
        sql_push_null(column[next++]);
    }
    sql_push_bool(column[next++], observation->handed_out);
    sql_push_bool(column[next++], observation->object_payable);
    sql_push_time(column[next++], observation->observed_at_us);
    sql_push_bytea(column[next++],
                   (struct span){ observation->digest, sizeof observation->digest });
    sql_push_text(column[next++], observation->excerpt);
    sql_push_uuid(column[next++], row->command.uuid);
    sql_push_text(column[next++], subject_evidence(row->account, subject));
    INVARIANT(next == COLUMNS);
}

enum status gateway_store_keep(struct store *store, const struct gateway_row *const *rows,
                               size_t count, struct arena *arena, bool *out_is_new)
{
    static const enum sql_type TYPES[COLUMNS] = {
        SQL_UUID, SQL_TEXT,        SQL_TEXT,  SQL_INT2, SQL_TEXT, SQL_TEXT,
        SQL_TEXT, SQL_TEXT,        SQL_INT2,  SQL_INT8, SQL_TEXT, SQL_BOOL,
        SQL_BOOL, SQL_TIMESTAMPTZ, SQL_BYTEA, SQL_TEXT, SQL_UUID, SQL_TEXT,
    };
    /*
     * Sorted, so that two gateways that are told the same events do not wait for each other in a
     * circle.
     */
    const struct gateway_row **sorted = arena_allocate(arena, (count + 1) * sizeof(void *));
    for (size_t i = 0; i < count; i++) sorted[i] = rows[i];
    qsort(sorted, count, sizeof *sorted, by_event);
    struct sql_call call;
    struct sql_array *column[COLUMNS];
    struct store_result result;
    sql_call_begin(&call, STMT_GATEWAY_KEEP, arena);
    for (size_t i = 0; i < COLUMNS; i++) column[i] = sql_bind_array(&call, TYPES[i]);
    for (size_t i = 0; i < count; i++) push_row(column, sorted[i]);
    TRY(store_run(store, &call, &result));
    memset(out_is_new, 0, count * sizeof *out_is_new);
    for (size_t i = 0; i < result_rows(&result); i++) {
        const struct uuid id = result_uuid(&result, i, 0);
        for (size_t j = 0; j < count; j++) {
            if (uuid_equal(rows[j]->id.uuid, id)) out_is_new[j] = true;
        }
    }
    store_result_clear(&result);
    return STATUS_OK;
}
