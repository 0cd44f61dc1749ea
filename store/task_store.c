/* store/task_store.c: see task_store.h. */
#include "store/task_store.h"

#include "pipeline/subject.h"

static const char *copy_text(struct arena *arena, const char *text)
{
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text));
}

static struct money money_of(int64_t minor, const char *code)
{
    struct money money = { .minor = minor };
    if (code != NULL) (void)snprintf(money.currency.code, sizeof money.currency.code, "%s", code);
    return money;
}

void task_due_call(struct sql_call *call, struct arena *arena, const char *account, size_t limit)
{
    sql_call_begin(call, STMT_TASK_DUE, arena);
    sql_bind_text(call, account);
    sql_bind_int4(call, (int32_t)limit);
}

size_t task_due_read(const struct store_result *result, struct arena *arena,
                     struct task_due **out_tasks)
{
    const size_t count = result_rows(result);
    struct task_due *tasks = arena_allocate(arena, (count + 1) * sizeof *tasks);
    for (size_t i = 0; i < count; i++) {
        tasks[i].task.uuid = result_uuid(result, i, 0);
        tasks[i].attempt.uuid = result_uuid(result, i, 1);
    }
    *out_tasks = tasks;
    return count;
}

void task_pick_call(struct sql_call *call, struct arena *arena, const struct task_due *tasks,
                    size_t count, bool keeps_results, int64_t call_limit_ms)
{
    sql_call_begin(call, STMT_TASK_PICK, arena);
    struct sql_array *ids = sql_bind_array(call, SQL_UUID);
    for (size_t i = 0; i < count; i++) sql_push_uuid(ids, tasks[i].task.uuid);
    sql_bind_int4(call, (int32_t)count);
    sql_bind_bool(call, keeps_results);
    sql_bind_int8(call, call_limit_ms);
}

size_t task_pick_read(const struct store_result *result, struct arena *arena,
                      struct task_row **out_rows)
{
    const size_t count = result_rows(result);
    struct task_row *rows = arena_allocate(arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct task_row){
            .purpose = (enum task_purpose)result_int(result, i, 3),
            .claims = result_int(result, i, 5),
            .stored_error = result_bool(result, i, 6),
            .policy_version = copy_text(arena, result_text(result, i, 7)),
            .first_unknown_us = result_time_us(result, i, 8),
            .start_by_us = result_time_us(result, i, 27),
            .sends = result_int(result, i, 28),
            .is_escalated = !result_is_null(result, i, 31),
        };
        rows[i].attempt = (struct attempt_row){
            .task = { result_uuid(result, i, 0) },
            .task_version = result_int(result, i, 1),
            .task_state = (enum task_state)result_int(result, i, 2),
            .task_step = result_int(result, i, 4),
            .attempt = { result_uuid(result, i, 9) },
            .payment = { result_uuid(result, i, 10) },
            .state = (enum attempt_state)result_int(result, i, 11),
            .certainty = (enum certainty)result_int(result, i, 12),
            .version = result_int(result, i, 13),
            .amount = money_of(result_int8(result, i, 14), result_text(result, i, 15)),
            .provider_key = copy_text(arena, result_text(result, i, 16)),
            .provider_object = copy_text(arena, result_text(result, i, 17)),
            .handed_out = result_bool(result, i, 18),
            .first_sent_us = result_time_us(result, i, 19),
            .request_bytes = arena_copy_span(arena, result_bytea(result, i, 20)),
            .method_type = copy_text(arena, result_text(result, i, 21)),
            .prior = result_bool(result, i, 22),
            .answered_under_key = result_bool(result, i, 23),
            .last_request_end_us = result_time_us(result, i, 24),
            .payment_state = (enum payment_state)result_int(result, i, 25),
            .expires_at_us = result_time_us(result, i, 26),
            .merchant = copy_text(arena, result_text(result, i, 29)),
            .reason = copy_text(arena, result_text(result, i, 30)),
            .now_us = result_time_us(result, i, 32),
        };
    }
    *out_rows = rows;
    return count;
}

void task_claim_call(struct sql_call *call, struct arena *arena, const struct task_claim *claims,
                     size_t count, int64_t lease_ms, const char *owner, int64_t send_by_ms,
                     const char *account)
{
    char subject[SUBJECT_SIZE];
    (void)subject_create(account, subject);
    sql_call_begin(call, STMT_TASK_CLAIM, arena);
    struct sql_array *tasks = sql_bind_array(call, SQL_UUID);
    struct sql_array *versions = sql_bind_array(call, SQL_INT4);
    struct sql_array *next = sql_bind_array(call, SQL_INT2);
    sql_bind_int8(call, lease_ms);
    struct sql_array *requests = sql_bind_array(call, SQL_UUID);
    struct sql_array *kinds = sql_bind_array(call, SQL_INT2);
    struct sql_array *payments = sql_bind_array(call, SQL_UUID);
    struct sql_array *attempts = sql_bind_array(call, SQL_UUID);
    sql_bind_text(call, owner);
    sql_bind_int8(call, send_by_ms);
    struct sql_array *commands = sql_bind_array(call, SQL_UUID);
    struct sql_array *subjects = sql_bind_array(call, SQL_TEXT);
    struct sql_array *attempt_versions = sql_bind_array(call, SQL_INT4);
    for (size_t i = 0; i < count; i++) {
        sql_push_uuid(tasks, claims[i].task.uuid);
        sql_push_int4(versions, claims[i].version);
        sql_push_int2(next, (int)claims[i].next);
        sql_push_uuid_or_null(requests, claims[i].request.uuid);
        sql_push_int2(kinds, (int)claims[i].kind);
        sql_push_uuid(payments, claims[i].payment.uuid);
        sql_push_uuid(attempts, claims[i].attempt.uuid);
        sql_push_uuid_or_null(commands, claims[i].command.uuid);
        sql_push_text(subjects, subject);
        sql_push_int4(attempt_versions, claims[i].attempt_version);
    }
}

void task_schedule_call(struct sql_call *call, struct arena *arena,
                        const struct task_schedule *schedules, size_t count)
{
    sql_call_begin(call, STMT_TASK_SCHEDULE, arena);
    struct sql_array *tasks = sql_bind_array(call, SQL_UUID);
    struct sql_array *versions = sql_bind_array(call, SQL_INT4);
    struct sql_array *next = sql_bind_array(call, SQL_INT2);
    struct sql_array *due = sql_bind_array(call, SQL_INT8);
    struct sql_array *steps = sql_bind_array(call, SQL_INT4);
    struct sql_array *stored_errors = sql_bind_array(call, SQL_BOOL);
    struct sql_array *outcomes = sql_bind_array(call, SQL_BOOL);
    for (size_t i = 0; i < count; i++) {
        sql_push_uuid(tasks, schedules[i].task.uuid);
        sql_push_int4(versions, schedules[i].version);
        sql_push_int2(next, (int)schedules[i].next);
        if (schedules[i].due_ms < 0) {
            sql_push_null(due);
        } else {
            sql_push_int8(due, schedules[i].due_ms);
        }
        sql_push_int4(steps, schedules[i].step);
        sql_push_bool(stored_errors, schedules[i].stored_error);
        sql_push_bool(outcomes, schedules[i].has_outcome);
    }
}

void fence_claim_call(struct sql_call *call, struct arena *arena, const char *account, size_t limit,
                      int64_t lease_ms)
{
    sql_call_begin(call, STMT_FENCE_CLAIM, arena);
    sql_bind_text(call, account);
    sql_bind_int4(call, (int32_t)limit);
    sql_bind_int8(call, lease_ms);
}

size_t fence_claim_read(const struct store_result *result, struct arena *arena,
                        struct overdue_fence **out_rows)
{
    const size_t count = result_rows(result);
    struct overdue_fence *rows = arena_allocate(arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i].fence_batch = result_uuid(result, i, 0);
        rows[i].attempt.uuid = result_uuid(result, i, 1);
        rows[i].request.uuid = result_uuid(result, i, 2);
    }
    *out_rows = rows;
    return count;
}

void inbox_load_call(struct sql_call *call, struct arena *arena, const struct inbox_id *ids,
                     size_t count)
{
    sql_call_begin(call, STMT_INBOX_LOAD, arena);
    struct sql_array *column = sql_bind_array(call, SQL_UUID);
    for (size_t i = 0; i < count; i++) sql_push_uuid(column, ids[i].uuid);
}

static void read_observation(const struct store_result *result, size_t i, struct arena *arena,
                             struct observation *out)
{
    *out = (struct observation){
        .source = SOURCE_WEBHOOK,
        .phase = PHASE_PARSED,
        .provider_event = copy_text(arena, result_text(result, i, 2)),
        .kind = (enum observation_kind)result_int(result, i, 3),
        .provider_status = copy_text(arena, result_text(result, i, 4)),
        .provider_object = copy_text(arena, result_text(result, i, 5)),
        .reference = copy_text(arena, result_text(result, i, 6)),
        .error_code = copy_text(arena, result_text(result, i, 7)),
        .decline = (enum decline_class)result_int(result, i, 8),
        .has_amount = !result_is_null(result, i, 9),
        .handed_out = result_bool(result, i, 11),
        .object_payable = result_bool(result, i, 12),
        .observed_at_us = result_time_us(result, i, 13),
        .excerpt = copy_text(arena, result_text(result, i, 15)),
    };
    if (out->has_amount)
        out->amount = money_of(result_int8(result, i, 9), result_text(result, i, 10));
    const struct span digest = result_bytea(result, i, 14);
    if (digest.length == sizeof out->digest) memcpy(out->digest, digest.data, sizeof out->digest);
}

size_t inbox_load_read(const struct store_result *result, struct arena *arena,
                       struct inbox_row **out_rows)
{
    const size_t count = result_rows(result);
    struct inbox_row *rows = arena_allocate(arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i].inbox.uuid = result_uuid(result, i, 0);
        rows[i].is_processed = result_bool(result, i, 16);
        rows[i].attempt.uuid = result_uuid(result, i, 17);
        read_observation(result, i, arena, &rows[i].observation);
    }
    *out_rows = rows;
    return count;
}

void inbox_park_call(struct sql_call *call, struct arena *arena, const struct inbox_id *ids,
                     size_t count)
{
    sql_call_begin(call, STMT_INBOX_PARK, arena);
    struct sql_array *column = sql_bind_array(call, SQL_UUID);
    for (size_t i = 0; i < count; i++) sql_push_uuid(column, ids[i].uuid);
}

void inbox_due_call(struct sql_call *call, struct arena *arena, const char *account, size_t limit)
{
    sql_call_begin(call, STMT_INBOX_DUE, arena);
    sql_bind_text(call, account);
    sql_bind_int4(call, (int32_t)limit);
}
