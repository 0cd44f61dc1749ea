/* store/query_totals.c: see query_totals.h. */
#include "store/query_totals.h"

enum { EVENTS_COUNTED_MAX = 10000 };

static void read_recent(const struct store_result *result, struct arena *arena,
                        struct query_totals *out)
{
    out->recent_count = result_rows(result);
    out->recent = arena_allocate(arena, (out->recent_count + 1) * sizeof *out->recent);
    for (size_t i = 0; i < out->recent_count; i++) {
        out->recent[i] = (struct query_total_state){
            .status = (enum payment_state)result_int(result, i, 0),
            .count = result_int8(result, i, 1),
        };
    }
}

static void read_cases(const struct store_result *result, struct arena *arena,
                       struct query_totals *out)
{
    out->case_count = result_rows(result);
    out->cases = arena_allocate(arena, (out->case_count + 1) * sizeof *out->cases);
    for (size_t i = 0; i < out->case_count; i++) {
        out->cases[i] = (struct query_total_case){
            .kind = (enum case_kind)result_int(result, i, 0),
            .count = result_int8(result, i, 1),
            .oldest_us = result_int8(result, i, 2),
        };
    }
}

static void read_work(const struct store_result *result, struct query_totals *out)
{
    out->tasks_due = result_int8(result, 0, 0);
    out->tasks_open = result_int8(result, 0, 1);
    out->webhooks_waiting = result_int8(result, 0, 2);
    out->stuck_commands = result_int8(result, 0, 3);
    out->dead_letters = result_int8(result, 0, 4);
    out->now_us = result_time_us(result, 0, 5);
}

enum status query_totals_read(struct store *store, int64_t recent_ms, int32_t recent_max,
                              struct arena *arena, struct query_totals *out_totals)
{
    enum { RECENT, CASES, WORK, OUTBOX, CALL_COUNT };
    struct sql_call calls[CALL_COUNT];
    struct store_result results[CALL_COUNT];
    sql_call_begin(&calls[RECENT], STMT_QUERY_RECENT, arena);
    sql_bind_int8(&calls[RECENT], recent_ms);
    sql_bind_int4(&calls[RECENT], recent_max);
    sql_call_begin(&calls[CASES], STMT_QUERY_OPEN_CASES, arena);
    sql_call_begin(&calls[WORK], STMT_QUERY_WORK, arena);
    sql_call_begin(&calls[OUTBOX], STMT_QUERY_OUTBOX_LAG, arena);
    sql_bind_int4(&calls[OUTBOX], EVENTS_COUNTED_MAX);
    TRY(store_run_many(store, calls, CALL_COUNT, results));
    struct query_totals totals = { 0 };
    read_recent(&results[RECENT], arena, &totals);
    read_cases(&results[CASES], arena, &totals);
    read_work(&results[WORK], &totals);
    totals.events_behind = result_int8(&results[OUTBOX], 0, 0);
    totals.events_oldest_us = result_int8(&results[OUTBOX], 0, 1);
    for (size_t i = 0; i < CALL_COUNT; i++) store_result_clear(&results[i]);
    *out_totals = totals;
    return STATUS_OK;
}
