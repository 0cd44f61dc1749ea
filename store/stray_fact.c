/*
 * store/stray_fact.c: see stray_fact.h. Locks follow protocol H7: pointer, payment, attempts and
 * their tasks, case. Evidence comes first: it is an observation, whoever wins.
 */
#include "store/stray_fact.h"

#include "pipeline/subject.h"
#include "store/payment_event.h"

enum { WRITE_TRIES_MAX = 5 };

#define HOLD_STRAY_FACT "stray_fact"
#define REASON_TARGET_HELD "target_held"

/* Reading ------------------------------------------------------------------------------------ */

void stray_fact_load_call(struct sql_call *call, struct arena *arena,
                          const struct stray_fact_input *input)
{
    sql_call_begin(call, STMT_STRAY_LOAD, arena);
    sql_bind_uuid(call, input->payment.uuid);
    sql_bind_uuid(call, input->attempt.uuid);
    sql_bind_text(call, input->channel_account);
    sql_bind_text(call, input->provider_object);
    sql_bind_int2(call, (int)input->kind);
}

static const char *copy_text(const struct store_result *result, int column, struct arena *arena)
{
    const char *text = result_text(result, 0, column);
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text));
}

static bool holds_money(enum payment_state state)
{
    switch (state) {
    case PAYMENT_AUTHORIZED:
    case PAYMENT_VOIDING:
    case PAYMENT_CAPTURING:
    case PAYMENT_CAPTURED:
    case PAYMENT_REFUNDING:
        return true;
    case PAYMENT_CREATED:
    case PAYMENT_AUTHORIZING:
    case PAYMENT_CANCELING:
    case PAYMENT_REFUNDED:
    case PAYMENT_REVERSED:
    case PAYMENT_FAILED:
    case PAYMENT_CANCELED:
        return false;
    }
    UNREACHABLE("payment state out of range");
}

static void read_view(const struct store_result *result, struct arena *arena,
                      struct payment_view *out)
{
    *out = (struct payment_view){
        .out_trade_no = copy_text(result, 1, arena),
        .status = (enum payment_state)result_int(result, 0, 6),
        .version = result_int(result, 0, 7),
        .certainty = result_int(result, 0, 8),
        .reason = copy_text(result, 9, arena),
        .captured_minor = result_int8(result, 0, 10),
        .refunded_minor = result_int8(result, 0, 11),
        .next_action = copy_text(result, 12, arena),
        .hold = copy_text(result, 16, arena),
    };
    const char *currency = result_text(result, 0, 5);
    if (currency == NULL) return; /* a cancel tombstone */
    out->amount.minor = result_int8(result, 0, 4);
    INVARIANT(currency_parse(currency, &out->amount.currency));
}

void stray_fact_load_read(const struct store_result *result, struct arena *arena,
                          struct stray_fact_rows *out_rows)
{
    *out_rows = (struct stray_fact_rows){ 0 };
    const size_t count = result_rows(result);
    if (count == 0) return;
    out_rows->has_payment = true;
    out_rows->merchant = copy_text(result, 0, arena);
    out_rows->target_kind = copy_text(result, 2, arena);
    out_rows->target_id = copy_text(result, 3, arena);
    read_view(result, arena, &out_rows->view);
    out_rows->traceparent = copy_text(result, 13, arena);
    out_rows->pointer_payment.uuid = result_uuid(result, 0, 14);
    if (!uuid_is_nil(out_rows->pointer_payment.uuid))
        out_rows->pointer_version = result_int(result, 0, 15);
    out_rows->other_holds_money = result_bool(result, 0, 17) || holds_money(out_rows->view.status);
    out_rows->is_known = result_bool(result, 0, 18);
    out_rows->is_case_closed = result_bool(result, 0, 19);
    for (size_t i = 0; i < count && !result_is_null(result, i, 20); i++) {
        INVARIANT(i < STRAY_FACT_ATTEMPTS_MAX);
        out_rows->unsent[i].uuid = result_uuid(result, i, 20);
        out_rows->unsent_payments[i].uuid = result_uuid(result, i, 21);
        out_rows->unsent_count = i + 1;
    }
}

/* Writing ------------------------------------------------------------------------------------ */

static enum stray_kind final_kind(const struct stray_fact_input *input,
                                  const struct stray_fact_rows *rows)
{
    const bool is_late = input->kind == STRAY_LATE_SUCCESS;
    return is_late && rows->other_holds_money ? STRAY_SECOND_SUCCESS : input->kind;
}

static enum event_type event_of(enum stray_kind kind)
{
    switch (kind) {
    case STRAY_LATE_SUCCESS:
        return EVENT_PAYMENT_LATE_SUCCESS;
    case STRAY_SECOND_SUCCESS:
        return EVENT_PAYMENT_DOUBLE_SUCCESS;
    case STRAY_OUTSIDE_REFUND:
    case STRAY_OUTSIDE_CAPTURE:
    case STRAY_REFUND_RETURNED:
    case STRAY_CAPTURE_RETURNED:
    case STRAY_DISPUTE_OPENED:
    case STRAY_DISPUTE_LOST:
    case STRAY_DISPUTE_WON:
        return EVENT_PAYMENT_STRAY_FACT;
    }
    UNREACHABLE("stray kind out of range");
}

static void make_hold_call(const struct stray_fact_rows *rows, struct arena *arena,
                           struct sql_call *call)
{
    sql_call_begin(call, STMT_STRAY_HOLD, arena);
    sql_bind_text(call, rows->merchant);
    sql_bind_text(call, rows->target_kind);
    sql_bind_text(call, rows->target_id);
    sql_bind_uuid(call, rows->pointer_payment.uuid);
    sql_bind_int4(call, rows->pointer_version);
}

static void bind_event(struct sql_call *call, const struct stray_fact_input *input,
                       const struct stray_fact_rows *rows, enum event_type type,
                       struct arena *arena)
{
    struct payment_view view = rows->view;
    view.payment = input->payment;
    view.version++;
    view.safe_to_pay_again = false;
    if (!uuid_is_nil(rows->pointer_payment.uuid)) view.hold = HOLD_STRAY_FACT;
    const struct payment_event event =
        payment_event_make(type, rows->merchant, &view, rows->traceparent, arena);
    sql_bind_uuid(call, event.id.uuid);
    sql_bind_text(call, event.subject);
    sql_bind_bytea(call, event.body);
    sql_bind_text(call, event.headers);
}

static void make_write_call(const struct stray_fact_input *input,
                            const struct stray_fact_rows *rows, const struct stray_fact_plan *plan,
                            struct arena *arena, struct sql_call *call)
{
    const char *kind = stray_kind_name((int)plan->kind);
    sql_call_begin(call, STMT_STRAY_WRITE, arena);
    sql_bind_uuid(call, input->id);
    sql_bind_uuid(call, input->payment.uuid);
    sql_bind_uuid(call, input->attempt.uuid);
    sql_bind_int2(call, (int)plan->kind);
    sql_bind_text(call, input->channel_account);
    sql_bind_text(call, input->provider_object);
    if (input->has_amount) {
        sql_bind_int8(call, input->amount.minor);
        sql_bind_text(call, input->amount.currency.code);
    } else {
        sql_bind_null(call, SQL_INT8);
        sql_bind_null(call, SQL_TEXT);
    }
    sql_bind_uuid(call, input->evidence.uuid);
    sql_bind_int4(call, (int32_t)rows->view.version);
    sql_bind_int2(call, (int)rows->view.status);
    if (input->applied_version > 0) {
        sql_bind_int4(call, input->applied_version);
    } else {
        sql_bind_null(call, SQL_INT4);
    }
    sql_bind_text(call, arena_format(arena, "stray.%s", kind));
    sql_bind_text(call, kind);
    sql_bind_text(call, input->actor);
    bind_event(call, input, rows, plan->event, arena);
}

static void plan_ends(const struct stray_fact_rows *rows, struct stray_fact_plan *plan)
{
    for (size_t i = 0; i < rows->unsent_count; i++) {
        plan->ends[i] = (struct local_end){
            .attempt = rows->unsent[i],
            .payment = rows->unsent_payments[i],
            .evidence = { uuid_new() },
            .command = { uuid_new() },
            .reason = REASON_TARGET_HELD,
        };
    }
    plan->end_count = rows->unsent_count;
}

static void make_case_call(const struct stray_fact_input *input, const struct stray_fact_rows *rows,
                           const struct stray_fact_plan *plan, struct arena *arena,
                           struct sql_call *call)
{
    const char *reason = stray_kind_name((int)plan->kind);
    if (rows->is_case_closed) {
        sql_call_begin(call, STMT_STRAY_CASE_REOPEN, arena);
        sql_bind_uuid(call, input->attempt.uuid);
        sql_bind_text(call, reason);
        return;
    }
    const struct case_opening opening = {
        .id = input->case_id,
        .kind = CASE_STRAY_FACT,
        .payment = input->payment,
        .attempt = input->attempt,
        .account = input->channel_account,
        .merchant = rows->merchant,
        .reason = reason,
        .event = input->case_event,
    };
    case_open_call(call, arena, &opening, 1);
}

void stray_fact_calls(const struct stray_fact_input *input, const struct stray_fact_rows *rows,
                      struct arena *arena, struct sql_call out_calls[STRAY_FACT_CALLS_MAX],
                      struct stray_fact_plan *out_plan)
{
    struct stray_fact_plan plan = { .kind = final_kind(input, rows) };
    plan.event = event_of(plan.kind);
    plan.is_new = rows->has_payment && !rows->is_known;
    if (input->observed != NULL) {
        INVARIANT(!input->observed->verdict.changes);
        attempt_result_call(&out_calls[plan.call_count++], arena, input->observed, 1, input->actor,
                            input->channel_account);
    }
    if (plan.is_new) {
        const bool is_held =
            rows->view.hold != NULL && strcmp(rows->view.hold, HOLD_STRAY_FACT) == 0;
        if (!uuid_is_nil(rows->pointer_payment.uuid) && !is_held) {
            make_hold_call(rows, arena, &out_calls[plan.call_count++]);
        }
        make_write_call(input, rows, &plan, arena, &out_calls[plan.call_count++]);
        plan_ends(rows, &plan);
    }
    plan.local_end_call = SIZE_MAX;
    if (plan.end_count > 0) {
        plan.local_end_call = plan.call_count;
        local_end_call(&out_calls[plan.call_count++], arena, plan.ends, plan.end_count,
                       input->actor);
    }
    if (plan.is_new) make_case_call(input, rows, &plan, arena, &out_calls[plan.call_count++]);
    if (plan.local_end_call == SIZE_MAX) plan.local_end_call = plan.call_count;
    *out_plan = plan;
}

size_t stray_fact_commands(const struct stray_fact_plan *plan, const struct store_result *results,
                           struct arena *arena,
                           struct command out_commands[STRAY_FACT_ATTEMPTS_MAX])
{
    if (plan->local_end_call == plan->call_count) return 0;
    struct local_end_row *rows = NULL;
    const size_t count = local_end_read(&results[plan->local_end_call], arena, &rows);
    INVARIANT(count <= plan->end_count);
    size_t commands = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < plan->end_count; k++) {
            if (!uuid_equal(plan->ends[k].attempt.uuid, rows[i].attempt.uuid)) continue;
            out_commands[commands++] = (struct command){
                .outbox = plan->ends[k].command,
                .payment = rows[i].payment,
                .entity = rows[i].attempt.uuid,
                .version = rows[i].version,
                .kind = COMMAND_SETTLE,
            };
        }
    }
    return commands;
}

static enum status write_once(struct store *store, const struct stray_fact_input *input,
                              struct arena *arena, struct stray_fact_outcome *out)
{
    struct sql_call load;
    struct store_result loaded = { 0 };
    struct stray_fact_rows rows;
    stray_fact_load_call(&load, arena, input);
    TRY(store_run(store, &load, &loaded));
    stray_fact_load_read(&loaded, arena, &rows);
    store_result_clear(&loaded);
    if (!rows.has_payment) return STATUS_NOT_FOUND;

    struct sql_call calls[STRAY_FACT_CALLS_MAX];
    struct store_result results[STRAY_FACT_CALLS_MAX] = { 0 };
    struct stray_fact_plan plan;
    stray_fact_calls(input, &rows, arena, calls, &plan);
    *out = (struct stray_fact_outcome){ .is_new = plan.is_new, .kind = plan.kind };
    if (plan.call_count == 0) return STATUS_OK;
    TRY(store_run_many(store, calls, plan.call_count, results));
    out->command_count = stray_fact_commands(&plan, results, arena, out->commands);
    for (size_t i = 0; i < plan.call_count; i++) store_result_clear(&results[i]);
    return STATUS_OK;
}

enum status stray_fact_write(struct store *store, const struct stray_fact_input *input,
                             struct arena *arena, struct stray_fact_outcome *out_outcome)
{
    enum status status = STATUS_LOST_RACE;
    for (int i = 0; i < WRITE_TRIES_MAX && status == STATUS_LOST_RACE; i++) {
        struct stray_fact_outcome outcome;
        status = write_once(store, input, arena, &outcome);
        if (status == STATUS_OK) *out_outcome = outcome;
    }
    return status;
}

size_t evidence_conflict_calls(const struct attempt_outcome *observed, const char *merchant,
                               const char *account, struct case_id case_id,
                               struct outbox_id case_event, const char *actor, struct arena *arena,
                               struct sql_call out_calls[EVIDENCE_CONFLICT_CALLS_MAX])
{
    INVARIANT(!observed->verdict.changes);
    attempt_result_call(&out_calls[0], arena, observed, 1, actor, account);
    const struct case_opening opening = {
        .id = case_id,
        .kind = CASE_EVIDENCE_CONFLICT,
        .payment = observed->payment,
        .attempt = observed->attempt,
        .account = account,
        .merchant = merchant,
        .reason = case_kind_name(CASE_EVIDENCE_CONFLICT),
        .event = case_event,
    };
    case_open_call(&out_calls[1], arena, &opening, 1);
    return EVIDENCE_CONFLICT_CALLS_MAX;
}
