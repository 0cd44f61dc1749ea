/* store/query_letter.c: see query_letter.h. */
#include "store/query_letter.h"

static const char *copy_text(const struct store_result *result, size_t row, int column,
                             struct arena *arena)
{
    const char *text = result_text(result, row, column);
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text));
}

static struct query_letter letter_at(const struct store_result *result, size_t row,
                                     struct arena *arena)
{
    enum { ID, CONSUMER, SUBJECT, CODE, FIELD, PAYMENT, REPLAYS, REPLAYED, STORED, CREATED };
    return (struct query_letter){
        .letter = {
            .id = result_uuid(result, row, ID),
            .consumer = copy_text(result, row, CONSUMER, arena),
            .subject = copy_text(result, row, SUBJECT, arena),
            .code = copy_text(result, row, CODE, arena),
            .field = copy_text(result, row, FIELD, arena),
            .payment = { result_uuid(result, row, PAYMENT) },
            .stored_at_us = result_time_us(result, row, STORED),
        },
        .replays = result_int(result, row, REPLAYS),
        .replayed_us = result_time_us(result, row, REPLAYED),
        .created_us = result_time_us(result, row, CREATED),
    };
}

enum status query_letters_read(struct store *store, int32_t limit, struct arena *arena,
                               struct query_letter **out_letters, size_t *out_count)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_QUERY_LETTERS, arena);
    sql_bind_int4(&call, limit);
    TRY(store_run(store, &call, &result));
    const size_t count = result_rows(&result);
    struct query_letter *letters = arena_allocate(arena, (count + 1) * sizeof *letters);
    for (size_t i = 0; i < count; i++) letters[i] = letter_at(&result, i, arena);
    store_result_clear(&result);
    *out_letters = letters;
    *out_count = count;
    return STATUS_OK;
}

static uint64_t number_or_zero(const struct store_result *result, int column)
{
    return result_is_null(result, 0, column) ? 0 : (uint64_t)result_int8(result, 0, column);
}

static struct query_letter whole_letter(const struct store_result *result, struct uuid id,
                                        struct arena *arena)
{
    return (struct query_letter){
        .letter = {
            .id = id,
            .consumer = copy_text(result, 0, 0, arena),
            .subject = copy_text(result, 0, 1, arena),
            .sequence = number_or_zero(result, 2),
            .deliveries = number_or_zero(result, 3),
            .headers = copy_text(result, 0, 4, arena),
            .body = arena_copy_span(arena, result_bytea(result, 0, 5)),
            .method_token = copy_text(result, 0, 6, arena),
            .code = copy_text(result, 0, 7, arena),
            .field = copy_text(result, 0, 8, arena),
            .problem = copy_text(result, 0, 9, arena),
            .payment = { result_uuid(result, 0, 10) },
            .case_id = { result_uuid(result, 0, 11) },
            .stored_at_us = result_time_us(result, 0, 12),
        },
        .replays = result_int(result, 0, 13),
        .replayed_us = result_time_us(result, 0, 14),
        .created_us = result_time_us(result, 0, 15),
    };
}

enum status query_letter_read(struct store *store, struct uuid id, struct arena *arena,
                              struct query_letter *out_letter)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_QUERY_LETTER, arena);
    sql_bind_uuid(&call, id);
    TRY(store_run(store, &call, &result));
    const bool is_found = result_rows(&result) == 1;
    if (is_found) *out_letter = whole_letter(&result, id, arena);
    store_result_clear(&result);
    return is_found ? STATUS_OK : STATUS_NOT_FOUND;
}

enum status query_letter_replayed(struct store *store, struct uuid id, const char *who,
                                  struct arena *arena, int32_t *out_replays)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_QUERY_LETTER_REPLAYED, arena);
    sql_bind_uuid(&call, id);
    sql_bind_text(&call, who);
    TRY(store_run(store, &call, &result));
    const bool is_found = result_rows(&result) == 1;
    if (is_found) *out_replays = result_int(&result, 0, 0);
    store_result_clear(&result);
    return is_found ? STATUS_OK : STATUS_NOT_FOUND;
}
