/* store/attempt_store.c: see attempt_store.h. */
#include "store/attempt_store.h"

#include "pipeline/subject.h"
#include "pipeline/value.h"

static struct currency currency_of(const char *code)
{
    struct currency currency = { "" };
    if (code != NULL) (void)snprintf(currency.code, sizeof currency.code, "%s", code);
    return currency;
}

static const char *copy_text(struct arena *arena, const char *text)
{
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text));
}

void fence_call(struct sql_call *call, struct arena *arena, const struct fence_input *inputs,
                size_t count, struct uuid fence_batch, const char *account, const char *actor,
                int64_t send_by_ms, int64_t takeover_ms)
{
    sql_call_begin(call, STMT_ATTEMPT_FENCE, arena);
    struct sql_array *attempts = sql_bind_array(call, SQL_UUID);
    struct sql_array *requests = sql_bind_array(call, SQL_UUID);
    for (size_t i = 0; i < count; i++) {
        sql_push_uuid(attempts, inputs[i].attempt.uuid);
        sql_push_uuid(requests, inputs[i].request.uuid);
    }
    sql_bind_uuid(call, fence_batch);
    sql_bind_text(call, account);
    sql_bind_text(call, actor);
    sql_bind_int8(call, send_by_ms);
    sql_bind_int8(call, takeover_ms);
}

size_t fence_read(const struct store_result *result, struct arena *arena,
                  struct fence_row **out_rows)
{
    const size_t count = result_rows(result);
    struct fence_row *rows = arena_allocate(arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct fence_row){
            .attempt = { result_uuid(result, i, 0) },
            .payment = { result_uuid(result, i, 1) },
            .outcome = (enum fence_outcome)result_int(result, i, 2),
            .version = result_int(result, i, 3),
            .request = { result_uuid(result, i, 4) },
            .provider_key = copy_text(arena, result_text(result, i, 5)),
            .request_bytes = arena_copy_span(arena, result_bytea(result, i, 6)),
            .amount = { result_int8(result, i, 7), currency_of(result_text(result, i, 8)) },
            .method_type = copy_text(arena, result_text(result, i, 9)),
            .merchant = copy_text(arena, result_text(result, i, 10)),
        };
    }
    *out_rows = rows;
    return count;
}

void fence_done_call(struct sql_call *call, struct arena *arena, const struct uuid *fence_batches,
                     size_t count)
{
    sql_call_begin(call, STMT_FENCE_DONE, arena);
    struct sql_array *ids = sql_bind_array(call, SQL_UUID);
    for (size_t i = 0; i < count; i++) sql_push_uuid(ids, fence_batches[i]);
}

void local_end_call(struct sql_call *call, struct arena *arena, const struct local_end *ends,
                    size_t count, const char *actor)
{
    sql_call_begin(call, STMT_ATTEMPT_FAIL_LOCAL, arena);
    struct sql_array *attempts = sql_bind_array(call, SQL_UUID);
    struct sql_array *evidence = sql_bind_array(call, SQL_UUID);
    struct sql_array *commands = sql_bind_array(call, SQL_UUID);
    struct sql_array *subjects = sql_bind_array(call, SQL_TEXT);
    struct sql_array *reasons = sql_bind_array(call, SQL_TEXT);
    for (size_t i = 0; i < count; i++) {
        char subject[SUBJECT_SIZE];
        sql_push_uuid(attempts, ends[i].attempt.uuid);
        sql_push_uuid(evidence, ends[i].evidence.uuid);
        sql_push_uuid(commands, ends[i].command.uuid);
        sql_push_text(subjects, subject_settle(ends[i].payment, subject));
        sql_push_text(reasons, ends[i].reason);
    }
    sql_bind_text(call, actor);
}

size_t local_end_read(const struct store_result *result, struct arena *arena,
                      struct local_end_row **out_rows)
{
    const size_t count = result_rows(result);
    struct local_end_row *rows = arena_allocate(arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i].attempt.uuid = result_uuid(result, i, 0);
        rows[i].payment.uuid = result_uuid(result, i, 1);
        rows[i].version = result_int(result, i, 2);
    }
    *out_rows = rows;
    return count;
}

/* Results -------------------------------------------------------------------------------------- */

/* The columns of attempt_result.sql, $1 to $38, in order. */
struct result_columns {
    struct sql_array *n, *attempt, *payment, *version, *from, *next, *certainty, *evidence,
        *request, *source, *kind, *phase, *http_status, *error_code, *provider_status,
        *provider_object, *provider_event, *reference, *amount, *currency, *observed_at, *strength,
        *proves, *closure, *digest, *excerpt, *event, *why, *reason, *decline, *handed_out,
        *command, *subject, *task, *task_due, *purpose, *policy, *stored_error;
};

static void bind_columns(struct sql_call *call, struct result_columns *c)
{
    c->n = sql_bind_array(call, SQL_INT4);
    c->attempt = sql_bind_array(call, SQL_UUID);
    c->payment = sql_bind_array(call, SQL_UUID);
    c->version = sql_bind_array(call, SQL_INT4);
    c->from = sql_bind_array(call, SQL_INT2);
    c->next = sql_bind_array(call, SQL_INT2);
    c->certainty = sql_bind_array(call, SQL_INT2);
    c->evidence = sql_bind_array(call, SQL_UUID);
    c->request = sql_bind_array(call, SQL_UUID);
    c->source = sql_bind_array(call, SQL_INT2);
    c->kind = sql_bind_array(call, SQL_INT2);
    c->phase = sql_bind_array(call, SQL_INT2);
    c->http_status = sql_bind_array(call, SQL_INT2);
    c->error_code = sql_bind_array(call, SQL_TEXT);
    c->provider_status = sql_bind_array(call, SQL_TEXT);
    c->provider_object = sql_bind_array(call, SQL_TEXT);
    c->provider_event = sql_bind_array(call, SQL_TEXT);
    c->reference = sql_bind_array(call, SQL_TEXT);
    c->amount = sql_bind_array(call, SQL_INT8);
    c->currency = sql_bind_array(call, SQL_TEXT);
    c->observed_at = sql_bind_array(call, SQL_TIMESTAMPTZ);
    c->strength = sql_bind_array(call, SQL_INT2);
    c->proves = sql_bind_array(call, SQL_INT2);
    c->closure = sql_bind_array(call, SQL_INT2);
    c->digest = sql_bind_array(call, SQL_BYTEA);
    c->excerpt = sql_bind_array(call, SQL_TEXT);
    c->event = sql_bind_array(call, SQL_TEXT);
    c->why = sql_bind_array(call, SQL_TEXT);
    c->reason = sql_bind_array(call, SQL_TEXT);
    c->decline = sql_bind_array(call, SQL_INT2);
    c->handed_out = sql_bind_array(call, SQL_BOOL);
    c->command = sql_bind_array(call, SQL_UUID);
    c->subject = sql_bind_array(call, SQL_TEXT);
    c->task = sql_bind_array(call, SQL_UUID);
    c->task_due = sql_bind_array(call, SQL_INT8);
    c->purpose = sql_bind_array(call, SQL_INT2);
    c->policy = sql_bind_array(call, SQL_TEXT);
    c->stored_error = sql_bind_array(call, SQL_BOOL);
}

static void push_int2_or_null(struct sql_array *array, int value)
{
    if (value == 0) {
        sql_push_null(array);
    } else {
        sql_push_int2(array, value);
    }
}

static void push_observation(struct result_columns *c, const struct observation *seen)
{
    sql_push_int2(c->source, (int)seen->source);
    sql_push_int2(c->kind, (int)seen->kind);
    sql_push_int2(c->phase, (int)seen->phase);
    push_int2_or_null(c->http_status, seen->http_status);
    sql_push_text(c->error_code, seen->error_code);
    sql_push_text(c->provider_status, seen->provider_status);
    sql_push_text(c->provider_object, seen->provider_object);
    sql_push_text(c->provider_event, seen->provider_event);
    sql_push_text(c->reference, seen->reference);
    if (seen->has_amount) {
        sql_push_int8(c->amount, seen->amount.minor);
        sql_push_text(c->currency, seen->amount.currency.code);
    } else {
        sql_push_null(c->amount);
        sql_push_null(c->currency);
    }
    sql_push_time(c->observed_at, seen->observed_at_us);
    sql_push_bytea(c->digest, (struct span){ seen->digest, sizeof seen->digest });
    sql_push_text(c->excerpt, seen->excerpt == NULL ? "{}" : seen->excerpt);
}

static void push_task(struct result_columns *c, const struct task_birth *task,
                      const char *policy_version)
{
    sql_push_uuid_or_null(c->task, task->id.uuid);
    if (task->due_ms < 0) {
        sql_push_null(c->task_due);
    } else {
        sql_push_int8(c->task_due, task->due_ms);
    }
    push_int2_or_null(c->purpose, (int)task->purpose);
    sql_push_text(c->policy, policy_version);
    sql_push_bool(c->stored_error, task->stored_error);
}

static void push_outcome(struct result_columns *c, const struct attempt_outcome *outcome, size_t n)
{
    char subject[SUBJECT_SIZE];
    const struct verdict *verdict = &outcome->verdict;
    sql_push_int4(c->n, (int32_t)n);
    sql_push_uuid(c->attempt, outcome->attempt.uuid);
    sql_push_uuid(c->payment, outcome->payment.uuid);
    sql_push_int4(c->version, outcome->version);
    sql_push_int2(c->from, (int)outcome->from);
    push_int2_or_null(c->next, verdict->changes ? (int)verdict->next_state : 0);
    sql_push_int2(c->certainty, (int)verdict->certainty);
    sql_push_uuid(c->evidence, outcome->evidence.uuid);
    sql_push_uuid_or_null(c->request, outcome->request.uuid);
    push_observation(c, &outcome->observation);
    sql_push_int2(c->strength, verdict->strength);
    push_int2_or_null(c->proves, verdict->proves);
    sql_push_int2(c->closure, (int)outcome->closure);
    sql_push_text(c->event, outcome->event);
    sql_push_text(c->why, verdict->reason);
    sql_push_text(c->reason, outcome->reason);
    sql_push_int2(c->decline, (int)outcome->observation.decline);
    sql_push_bool(c->handed_out, outcome->observation.handed_out);
    sql_push_uuid_or_null(c->command, outcome->command.uuid);
    sql_push_text(c->subject, subject_settle(outcome->payment, subject));
    push_task(c, &outcome->task, outcome->policy_version);
}

void attempt_result_call(struct sql_call *call, struct arena *arena,
                         const struct attempt_outcome *outcomes, size_t count, const char *actor,
                         const char *account)
{
    sql_call_begin(call, STMT_ATTEMPT_RESULT, arena);
    struct result_columns columns;
    bind_columns(call, &columns);
    for (size_t i = 0; i < count; i++) push_outcome(&columns, &outcomes[i], i);
    sql_bind_text(call, actor);
    sql_bind_text(call, account);
    struct sql_array *task_version = sql_bind_array(call, SQL_INT4);
    for (size_t i = 0; i < count; i++) {
        if (outcomes[i].task_version == 0) {
            sql_push_null(task_version);
        } else {
            sql_push_int4(task_version, outcomes[i].task_version);
        }
    }
}

void attempt_result_read(const struct store_result *result, size_t count, int32_t *out_versions)
{
    memset(out_versions, 0, count * sizeof *out_versions);
    for (size_t i = 0; i < result_rows(result); i++) {
        const int32_t n = result_int(result, i, 0);
        INVARIANT(n >= 0 && (size_t)n < count);
        out_versions[n] = result_int(result, i, 1);
    }
}

void attempt_load_call(struct sql_call *call, struct arena *arena,
                       const struct attempt_id *attempts, const struct request_id *requests,
                       size_t count, bool keeps_results, int64_t call_limit_ms)
{
    sql_call_begin(call, STMT_ATTEMPT_LOAD, arena);
    struct sql_array *attempt_ids = sql_bind_array(call, SQL_UUID);
    struct sql_array *request_ids = sql_bind_array(call, SQL_UUID);
    for (size_t i = 0; i < count; i++) {
        sql_push_uuid(attempt_ids, attempts[i].uuid);
        sql_push_uuid_or_null(request_ids, requests[i].uuid);
    }
    sql_bind_bool(call, keeps_results);
    sql_bind_int8(call, call_limit_ms);
}

static void read_attempt(const struct store_result *result, size_t i, struct arena *arena,
                         struct attempt_row *row)
{
    *row = (struct attempt_row){
        .attempt = { result_uuid(result, i, 0) },
        .payment = { result_uuid(result, i, 1) },
        .account = copy_text(arena, result_text(result, i, 2)),
        .state = (enum attempt_state)result_int(result, i, 3),
        .certainty = (enum certainty)result_int(result, i, 4),
        .version = result_int(result, i, 5),
        .amount = { result_int8(result, i, 6), currency_of(result_text(result, i, 7)) },
        .provider_key = copy_text(arena, result_text(result, i, 8)),
        .provider_object = copy_text(arena, result_text(result, i, 9)),
        .handed_out = result_bool(result, i, 10),
        .reason = copy_text(arena, result_text(result, i, 11)),
        .first_sent_us = result_time_us(result, i, 12),
        .prior = result_bool(result, i, 13),
        .answered_under_key = result_bool(result, i, 14),
        .last_request_end_us = result_time_us(result, i, 15),
        .success_at_us = result_time_us(result, i, 16),
        .payment_state = (enum payment_state)result_int(result, i, 17),
        .merchant = copy_text(arena, result_text(result, i, 18)),
        .expires_at_us = result_time_us(result, i, 19),
        .method_type = copy_text(arena, result_text(result, i, 20)),
        .task = { result_uuid(result, i, 21) },
        .now_us = result_time_us(result, i, 22),
        .task_version = result_is_null(result, i, 23) ? 0 : result_int(result, i, 23),
    };
}

size_t attempt_load_read(const struct store_result *result, struct arena *arena,
                         struct attempt_row **out_rows)
{
    const size_t count = result_rows(result);
    struct attempt_row *rows = arena_allocate(arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) read_attempt(result, i, arena, &rows[i]);
    *out_rows = rows;
    return count;
}

static bool is_mismatch(const char *reason)
{
    return reason != NULL &&
           (strcmp(reason, "amount_mismatch") == 0 || strcmp(reason, "currency_mismatch") == 0 ||
            strcmp(reason, "reference_mismatch") == 0 || strcmp(reason, "object_mismatch") == 0);
}

struct judge_attempt attempt_row_judge(const struct attempt_row *row)
{
    return (struct judge_attempt){
        .state = row->state,
        .certainty = row->certainty,
        .amount = row->amount,
        .reference = row->provider_key,
        .provider_object = row->provider_object,
        .prior = row->prior,
        .is_recorded = row->prior || row->answered_under_key,
        .handed_out = row->handed_out,
        .mismatch_open = !attempt_state_is_terminal(row->state) && is_mismatch(row->reason),
        .key_consumed = row->answered_under_key,
        .success_at_us = row->success_at_us,
        .last_request_end_us = row->last_request_end_us,
        .now_us = row->now_us,
    };
}

enum request_closure observation_closure(const struct observation *observation,
                                         const struct psp_capability *capability)
{
    switch (observation->kind) {
    case OBSERVED_UNSENT:
        return CLOSURE_NO_EFFECT;
    case OBSERVED_RATE_LIMITED:
        return capability->rate_limit_is_before_execution ? CLOSURE_NO_EFFECT : CLOSURE_OPEN;
    case OBSERVED_AUTH_REJECTED:
        return capability->auth_rejection_is_before_execution ? CLOSURE_NO_EFFECT : CLOSURE_OPEN;
    case OBSERVED_REQUEST_REJECTED:
        return capability->rejection_is_before_execution ? CLOSURE_NO_EFFECT : CLOSURE_OPEN;
    case OBSERVED_SUCCEEDED:
    case OBSERVED_DECLINED:
    case OBSERVED_CANCELED:
    case OBSERVED_PENDING:
    case OBSERVED_OBJECT_CREATED:
        return CLOSURE_KNOWN;
    /* Another request under the key runs, or ran: this one's answer says nothing of its effect. */
    case OBSERVED_IN_PROGRESS:
    case OBSERVED_KEY_MISMATCH:
    case OBSERVED_NOTHING:
    case OBSERVED_TRANSPORT_LOST:
    case OBSERVED_SERVER_ERROR:
    case OBSERVED_NOT_FOUND:
        return CLOSURE_OPEN;
    }
    UNREACHABLE("observation kind out of range");
}

/* Cases ---------------------------------------------------------------------------------------- */

/* The subject and body of case.opened and case.closed: ids and words only. */
static void push_case_event(struct arena *arena, struct sql_array *subjects,
                            struct sql_array *bodies, enum event_type type, const char *merchant,
                            struct payment_id payment, struct attempt_id attempt, const char *kind,
                            const char *reason)
{
    char subject[SUBJECT_SIZE];
    char payment_text[UUID_TEXT_SIZE];
    char attempt_text[UUID_TEXT_SIZE];
    struct value body = value_map_make(arena, 4);
    value_map_add(&body, "payment", value_of_text(uuid_format(payment.uuid, payment_text)));
    value_map_add(&body, "attempt", value_of_text(uuid_format(attempt.uuid, attempt_text)));
    if (kind != NULL) value_map_add(&body, "case", value_of_text(kind));
    value_map_add(&body, "reason", value_of_text(reason));
    sql_push_text(subjects, subject_event(merchant, event_type_name((int)type), subject));
    sql_push_bytea(bodies, value_write_msgpack(&body, arena));
}

void case_open_call(struct sql_call *call, struct arena *arena, const struct case_opening *cases,
                    size_t count)
{
    sql_call_begin(call, STMT_CASE_OPEN, arena);
    struct sql_array *ids = sql_bind_array(call, SQL_UUID);
    struct sql_array *kinds = sql_bind_array(call, SQL_INT2);
    struct sql_array *payments = sql_bind_array(call, SQL_UUID);
    struct sql_array *attempts = sql_bind_array(call, SQL_UUID);
    struct sql_array *accounts = sql_bind_array(call, SQL_TEXT);
    struct sql_array *priorities = sql_bind_array(call, SQL_INT2);
    struct sql_array *reasons = sql_bind_array(call, SQL_TEXT);
    struct sql_array *versions = sql_bind_array(call, SQL_INT4);
    struct sql_array *events = sql_bind_array(call, SQL_UUID);
    struct sql_array *subjects = sql_bind_array(call, SQL_TEXT);
    struct sql_array *bodies = sql_bind_array(call, SQL_BYTEA);
    for (size_t i = 0; i < count; i++) {
        const struct case_opening *opening = &cases[i];
        sql_push_uuid(ids, opening->id.uuid);
        sql_push_int2(kinds, (int)opening->kind);
        sql_push_uuid(payments, opening->payment.uuid);
        sql_push_uuid(attempts, opening->attempt.uuid);
        sql_push_text(accounts, opening->account);
        sql_push_int2(priorities, case_kind_priority(opening->kind));
        sql_push_text(reasons, opening->reason);
        if (opening->attempt_version == 0) {
            sql_push_null(versions);
        } else {
            sql_push_int4(versions, opening->attempt_version);
        }
        sql_push_uuid(events, opening->event.uuid);
        push_case_event(arena, subjects, bodies, EVENT_CASE_OPENED, opening->merchant,
                        opening->payment, opening->attempt, case_kind_name((int)opening->kind),
                        opening->reason);
    }
}

void case_close_call(struct sql_call *call, struct arena *arena,
                     const struct case_closing *closings, size_t count)
{
    sql_call_begin(call, STMT_CASE_CLOSE, arena);
    struct sql_array *attempts = sql_bind_array(call, SQL_UUID);
    struct sql_array *events = sql_bind_array(call, SQL_UUID);
    struct sql_array *subjects = sql_bind_array(call, SQL_TEXT);
    struct sql_array *bodies = sql_bind_array(call, SQL_BYTEA);
    for (size_t i = 0; i < count; i++) {
        const struct case_closing *closing = &closings[i];
        sql_push_uuid(attempts, closing->attempt.uuid);
        sql_push_uuid(events, closing->event.uuid);
        push_case_event(arena, subjects, bodies, EVENT_CASE_CLOSED, closing->merchant,
                        closing->payment, closing->attempt, NULL, "the attempt ended");
    }
}
