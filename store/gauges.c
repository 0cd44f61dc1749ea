/* store/gauges.c: see gauges.h. */
#include "store/gauges.h"

#include "pipeline/state.h"

static const char *copy_text(struct arena *arena, const struct store_result *result, size_t row,
                             int column)
{
    const char *text = result_text(result, row, column);
    return arena_copy(arena, text, strlen(text));
}

static void read_recovery(const struct store_result *result, struct arena *arena,
                          struct gauges *out)
{
    const size_t count = result_rows(result);
    struct gauge_recovery *rows = arena_allocate(arena, count * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct gauge_recovery){
            .account = copy_text(arena, result, i, 0),
            .method = copy_text(arena, result, i, 1),
            .currency = copy_text(arena, result, i, 2),
            .unknown = result_int8(result, i, 3),
            .unknown_amount_minor = result_int8(result, i, 4),
            .unknown_oldest_us = result_int8(result, i, 5),
            .oldest_us = result_int8(result, i, 6),
        };
    }
    out->recovery = rows;
    out->recovery_count = count;
}

static void read_stuck(const struct store_result *result, struct arena *arena, struct gauges *out)
{
    const size_t count = result_rows(result);
    struct gauge_stuck *rows = arena_allocate(arena, count * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        const char *name =
            state_name((enum entity)result_int(result, i, 0), result_int(result, i, 1));
        rows[i] = (struct gauge_stuck){ .state = name == NULL ? "other" : name,
                                        .count = result_int8(result, i, 2) };
    }
    out->stuck = rows;
    out->stuck_count = count;
}

enum status gauges_read(struct store *store, int64_t stuck_after_s, struct arena *arena,
                        struct gauges *out)
{
    struct sql_call calls[2];
    struct store_result results[2];
    sql_call_begin(&calls[0], STMT_GAUGE_RECOVERY, arena);
    sql_call_begin(&calls[1], STMT_GAUGE_STUCK, arena);
    sql_bind_int8(&calls[1], stuck_after_s * 1000);
    TRY(store_run_many(store, calls, COUNT_OF(calls), results));
    struct gauges read = { NULL, 0, NULL, 0 };
    read_recovery(&results[0], arena, &read);
    read_stuck(&results[1], arena, &read);
    for (size_t i = 0; i < COUNT_OF(results); i++) store_result_clear(&results[i]);
    *out = read;
    return STATUS_OK;
}
