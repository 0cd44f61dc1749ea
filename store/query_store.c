/* store/query_store.c: see query_store.h. */
#include "store/query_store.h"

#include "pipeline/subject.h"
#include "store/intake_store.h"

/* --- reading cells ---------------------------------------------------------------------------- */

struct row {
    const struct store_result *result;
    size_t at;
    struct arena *arena;
};

static const char *text_at(const struct row *row, int column)
{
    const char *text = result_text(row->result, row->at, column);
    return text == NULL ? NULL : arena_copy(row->arena, text, strlen(text));
}

static int32_t int_at(const struct row *row, int column)
{
    return result_is_null(row->result, row->at, column) ? 0
                                                        : result_int(row->result, row->at, column);
}

static int64_t int8_at(const struct row *row, int column)
{
    return result_is_null(row->result, row->at, column) ? 0
                                                        : result_int8(row->result, row->at, column);
}

static bool bool_at(const struct row *row, int column)
{
    return result_bool(row->result, row->at, column);
}

static struct uuid id_at(const struct row *row, int column)
{
    return result_uuid(row->result, row->at, column);
}

static int64_t time_at(const struct row *row, int column)
{
    return result_time_us(row->result, row->at, column);
}

/* False if there is no amount, or a currency that we do not know. */
static bool money_at(const struct row *row, int column, struct money *out)
{
    const char *currency = result_text(row->result, row->at, column + 1);
    *out = (struct money){ 0 };
    if (currency == NULL || !currency_parse(currency, &out->currency)) return false;
    out->minor = int8_at(row, column);
    return !result_is_null(row->result, row->at, column);
}

/* An array of the list's type with room for its rows, and how many they are. */
static void *list_of(const struct store_result *result, size_t size, struct arena *arena,
                     size_t *out_count)
{
    *out_count = result_rows(result);
    return arena_allocate(arena, (*out_count + 1) * size);
}

/* --- finding it ------------------------------------------------------------------------------- */

static struct query_found found_at(const struct row *row)
{
    return (struct query_found){ { id_at(row, 0) }, text_at(row, 1) };
}

enum status query_find_number(struct store *store, const char *out_trade_no, const char *merchant,
                              struct arena *arena, struct query_found **out_found,
                              size_t *out_count)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_QUERY_FIND_NUMBER, arena);
    sql_bind_text(&call, out_trade_no);
    sql_bind_text(&call, merchant);
    TRY(store_run(store, &call, &result));
    struct query_found *found = list_of(&result, sizeof *found, arena, out_count);
    for (size_t i = 0; i < *out_count; i++) {
        found[i] = found_at(&(struct row){ &result, i, arena });
    }
    store_result_clear(&result);
    *out_found = found;
    return STATUS_OK;
}

enum status query_find_target(struct store *store, const char *merchant, const char *kind,
                              const char *id, struct arena *arena, struct query_found *out_found)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_QUERY_FIND_TARGET, arena);
    sql_bind_text(&call, merchant);
    sql_bind_text(&call, kind);
    sql_bind_text(&call, id);
    TRY(store_run(store, &call, &result));
    const bool is_found = result_rows(&result) == 1;
    if (is_found) *out_found = found_at(&(struct row){ &result, 0, arena });
    store_result_clear(&result);
    return is_found ? STATUS_OK : STATUS_NOT_FOUND;
}

/* --- the rows --------------------------------------------------------------------------------- */

static void read_payment(const struct store_result *result, struct arena *arena,
                         struct query_picture *out)
{
    const struct row row = { result, 0, arena };
    out->payment = (struct query_payment){
        .merchant = text_at(&row, 0),
        .target_kind = text_at(&row, 1),
        .target_id = text_at(&row, 2),
        .method_type = text_at(&row, 3),
        .token_realm = text_at(&row, 4),
        .is_capture_manual = int_at(&row, 5) == 2,
        .authorised_minor = int8_at(&row, 6),
        .start_by_us = time_at(&row, 7),
        .expires_at_us = time_at(&row, 8),
        .applied_attempt = { id_at(&row, 9) },
        .applied_version = int_at(&row, 10),
        .traceparent = text_at(&row, 11),
        .created_us = time_at(&row, 12),
        .pointer_payment = { id_at(&row, 13) },
        .hold_lifts_us = time_at(&row, 14),
    };
    out->now_us = time_at(&row, 15);
}

static void read_attempts(const struct store_result *result, struct arena *arena,
                          struct query_picture *out)
{
    out->attempts = list_of(result, sizeof *out->attempts, arena, &out->attempt_count);
    for (size_t i = 0; i < out->attempt_count; i++) {
        const struct row row = { result, i, arena };
        struct query_attempt *attempt = &out->attempts[i];
        *attempt = (struct query_attempt){
            .id = { id_at(&row, 0) },
            .operation = (enum operation)int_at(&row, 1),
            .number = int_at(&row, 2),
            .ordinal = int_at(&row, 3),
            .account = text_at(&row, 4),
            .provider_key = text_at(&row, 7),
            .provider_object = text_at(&row, 8),
            .status = (enum attempt_state)int_at(&row, 9),
            .certainty = (enum certainty)int_at(&row, 10),
            .decline = (enum decline_class)int_at(&row, 11),
            .error_code = text_at(&row, 12),
            .evidence = { id_at(&row, 13) },
            .handed_out = bool_at(&row, 14),
            .policy_version = text_at(&row, 15),
            .routing_version = text_at(&row, 16),
            .guard_decision = text_at(&row, 17),
            .first_sent_us = time_at(&row, 18),
            .version = int_at(&row, 19),
            .created_us = time_at(&row, 20),
            .method_type = text_at(&row, 21),
            .fence_due_us = time_at(&row, 22),
        };
        (void)money_at(&row, 5, &attempt->amount);
    }
}

static void read_requests(const struct store_result *result, struct arena *arena,
                          struct query_picture *out)
{
    out->requests = list_of(result, sizeof *out->requests, arena, &out->request_count);
    for (size_t i = 0; i < out->request_count; i++) {
        const struct row row = { result, i, arena };
        out->requests[i] = (struct query_request){
            .id = { id_at(&row, 0) },
            .attempt = { id_at(&row, 1) },
            .kind = (enum request_kind)int_at(&row, 2),
            .step = int_at(&row, 3),
            .send_by_us = time_at(&row, 4),
            .worker = text_at(&row, 5),
            .started_us = time_at(&row, 6),
            .evidence_count = int8_at(&row, 7),
            .closure = (enum request_closure)int_at(&row, 8),
        };
    }
}

static void read_evidence(const struct store_result *result, struct arena *arena,
                          struct query_picture *out)
{
    out->evidence = list_of(result, sizeof *out->evidence, arena, &out->evidence_count);
    for (size_t i = 0; i < out->evidence_count; i++) {
        const struct row row = { result, i, arena };
        struct query_evidence *evidence = &out->evidence[i];
        *evidence = (struct query_evidence){
            .id = { id_at(&row, 0) },
            .attempt = { id_at(&row, 1) },
            .request = { id_at(&row, 2) },
            .source = (enum evidence_source)int_at(&row, 3),
            .kind = (enum observation_kind)int_at(&row, 4),
            .phase = (enum request_phase)int_at(&row, 5),
            .http_status = int_at(&row, 6),
            .error_code = text_at(&row, 7),
            .provider_status = text_at(&row, 8),
            .provider_object = text_at(&row, 9),
            .provider_event = text_at(&row, 10),
            .reference = text_at(&row, 11),
            .observed_us = time_at(&row, 14),
            .strength = int_at(&row, 15),
            .proves = int_at(&row, 16),
            .closure = (enum request_closure)int_at(&row, 17),
            .created_us = time_at(&row, 18),
        };
        evidence->has_amount = money_at(&row, 12, &evidence->amount);
    }
}

static void read_tasks(const struct store_result *result, struct arena *arena,
                       struct query_picture *out)
{
    out->tasks = list_of(result, sizeof *out->tasks, arena, &out->task_count);
    for (size_t i = 0; i < out->task_count; i++) {
        const struct row row = { result, i, arena };
        out->tasks[i] = (struct query_task){
            .id = { id_at(&row, 0) },
            .attempt = { id_at(&row, 1) },
            .purpose = (enum task_purpose)int_at(&row, 2),
            .status = (enum task_state)int_at(&row, 3),
            .due_us = time_at(&row, 4),
            .lease_owner = text_at(&row, 5),
            .step = int_at(&row, 6),
            .claims = int_at(&row, 7),
            .stored_error = bool_at(&row, 8),
            .policy_version = text_at(&row, 9),
            .first_unknown_us = time_at(&row, 10),
            .escalated_us = time_at(&row, 11),
            .version = int_at(&row, 12),
            .created_us = time_at(&row, 13),
        };
    }
}

static void read_cases(const struct store_result *result, struct arena *arena,
                       struct query_picture *out)
{
    out->cases = list_of(result, sizeof *out->cases, arena, &out->case_count);
    for (size_t i = 0; i < out->case_count; i++) {
        const struct row row = { result, i, arena };
        out->cases[i] = (struct query_case){
            .id = { id_at(&row, 0) },
            .kind = (enum case_kind)int_at(&row, 1),
            .attempt = { id_at(&row, 2) },
            .account = text_at(&row, 3),
            .priority = int_at(&row, 4),
            .reason = text_at(&row, 5),
            .is_open = bool_at(&row, 6),
            .opened_us = time_at(&row, 7),
            .closed_us = time_at(&row, 8),
            .close_reason = text_at(&row, 9),
        };
    }
}

static void read_strays(const struct store_result *result, struct arena *arena,
                        struct query_picture *out)
{
    out->strays = list_of(result, sizeof *out->strays, arena, &out->stray_count);
    for (size_t i = 0; i < out->stray_count; i++) {
        const struct row row = { result, i, arena };
        struct query_stray *stray = &out->strays[i];
        *stray = (struct query_stray){
            .id = id_at(&row, 0),
            .attempt = { id_at(&row, 1) },
            .kind = (enum stray_kind)int_at(&row, 2),
            .account = text_at(&row, 3),
            .provider_object = text_at(&row, 4),
            .evidence = { id_at(&row, 7) },
            .is_open = bool_at(&row, 8),
            .created_us = time_at(&row, 9),
        };
        stray->has_amount = money_at(&row, 5, &stray->amount);
    }
}

static void read_decisions(const struct store_result *result, struct arena *arena,
                           struct query_picture *out)
{
    out->decisions = list_of(result, sizeof *out->decisions, arena, &out->decision_count);
    for (size_t i = 0; i < out->decision_count; i++) {
        const struct row row = { result, i, arena };
        out->decisions[i] = (struct query_decision){
            .follows = int_at(&row, 0),
            .account = text_at(&row, 1),
            .attempt = { id_at(&row, 2) },
            .routing_version = text_at(&row, 3),
            .reasons = text_at(&row, 4),
            .created_us = time_at(&row, 5),
        };
    }
}

static void read_webhooks(const struct store_result *result, struct arena *arena,
                          struct query_picture *out)
{
    out->webhooks = list_of(result, sizeof *out->webhooks, arena, &out->webhook_count);
    for (size_t i = 0; i < out->webhook_count; i++) {
        const struct row row = { result, i, arena };
        out->webhooks[i] = (struct query_webhook){
            .id = { id_at(&row, 0) },
            .account = text_at(&row, 1),
            .event = text_at(&row, 2),
            .kind = (enum observation_kind)int_at(&row, 3),
            .provider_status = text_at(&row, 4),
            .provider_object = text_at(&row, 5),
            .received_us = time_at(&row, 6),
            .processed_us = time_at(&row, 7),
            .look_us = time_at(&row, 8),
        };
    }
}

static void read_stuck(const struct store_result *result, struct arena *arena,
                       struct query_picture *out)
{
    out->stuck = list_of(result, sizeof *out->stuck, arena, &out->stuck_count);
    for (size_t i = 0; i < out->stuck_count; i++) {
        const struct row row = { result, i, arena };
        out->stuck[i] = (struct query_stuck){
            .stage = text_at(&row, 0),
            .account = text_at(&row, 1),
            .since_us = time_at(&row, 2),
            .emitted_us = time_at(&row, 3),
            .next_us = time_at(&row, 4),
            .emissions = int_at(&row, 5),
        };
    }
}

static void read_letters(const struct store_result *result, struct arena *arena,
                         struct query_picture *out)
{
    out->letters = list_of(result, sizeof *out->letters, arena, &out->letter_count);
    for (size_t i = 0; i < out->letter_count; i++) {
        const struct row row = { result, i, arena };
        out->letters[i] = (struct query_letter_of){
            .id = id_at(&row, 0),
            .consumer = text_at(&row, 1),
            .code = text_at(&row, 2),
            .field = text_at(&row, 3),
            .replays = int_at(&row, 4),
            .replayed_us = time_at(&row, 5),
            .created_us = time_at(&row, 6),
        };
    }
}

static void read_history(const struct store_result *result, struct arena *arena,
                         struct query_picture *out)
{
    out->history = list_of(result, sizeof *out->history, arena, &out->history_count);
    for (size_t i = 0; i < out->history_count; i++) {
        const struct row row = { result, i, arena };
        out->history[i] = (struct query_history){
            .entity = (enum entity)int_at(&row, 0),
            .id = id_at(&row, 1),
            .version = int_at(&row, 2),
            .from = int_at(&row, 3),
            .to = int_at(&row, 4),
            .event = text_at(&row, 5),
            .why = text_at(&row, 6),
            .actor = text_at(&row, 7),
            .evidence = { id_at(&row, 8) },
            .policy_version = text_at(&row, 9),
            .routing_version = text_at(&row, 10),
            .at_us = time_at(&row, 11),
        };
    }
}

static void read_commands(const struct store_result *result, struct arena *arena,
                          struct query_picture *out)
{
    out->commands = list_of(result, sizeof *out->commands, arena, &out->command_count);
    for (size_t i = 0; i < out->command_count; i++) {
        const struct row row = { result, i, arena };
        out->commands[i] = (struct query_command){
            .id = { id_at(&row, 0) },
            .subject = text_at(&row, 1),
            .entity = id_at(&row, 2),
            .version = int_at(&row, 3),
            .created_us = time_at(&row, 4),
        };
    }
}

/* --- the picture ------------------------------------------------------------------------------ */

struct part {
    enum statement statement;
    void (*read)(const struct store_result *result, struct arena *arena, struct query_picture *out);
};

/* Each takes the payment as its only parameter. One pipeline holds STORE_CALLS_MAX: so, two. */
static const struct part FIRST[] = {
    { STMT_QUERY_ATTEMPTS, read_attempts }, { STMT_QUERY_REQUESTS, read_requests },
    { STMT_QUERY_EVIDENCE, read_evidence }, { STMT_QUERY_TASKS, read_tasks },
    { STMT_QUERY_CASES, read_cases },       { STMT_QUERY_STRAYS, read_strays },
};
static const struct part SECOND[] = {
    { STMT_QUERY_DECISIONS, read_decisions }, { STMT_QUERY_WEBHOOKS, read_webhooks },
    { STMT_QUERY_STUCK, read_stuck },         { STMT_QUERY_LETTERS_OF, read_letters },
    { STMT_QUERY_HISTORY, read_history },
};

static void clear_all(struct store_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) store_result_clear(&results[i]);
}

static void add_parts(const struct part *parts, size_t count, struct payment_id payment,
                      struct arena *arena, struct sql_call *calls)
{
    for (size_t i = 0; i < count; i++) {
        sql_call_begin(&calls[i], parts[i].statement, arena);
        sql_bind_uuid(&calls[i], payment.uuid);
    }
}

/* Opens the transaction too. Without a payment the lists stay empty. */
static enum status read_first(struct store *store, struct payment_id payment, struct arena *arena,
                              struct query_picture *out, bool *out_exists)
{
    enum { BEFORE = 2 };
    struct sql_call calls[BEFORE + COUNT_OF(FIRST)];
    struct store_result results[BEFORE + COUNT_OF(FIRST)];
    sql_call_begin(&calls[0], STMT_QUERY_BEGIN, arena);
    sql_call_begin(&calls[1], STMT_QUERY_PAYMENT, arena);
    sql_bind_uuid(&calls[1], payment.uuid);
    add_parts(FIRST, COUNT_OF(FIRST), payment, arena, calls + BEFORE);
    TRY(store_run_many(store, calls, COUNT_OF(calls), results));
    *out_exists = result_rows(&results[1]) == 1;
    if (*out_exists) {
        read_payment(&results[1], arena, out);
        for (size_t i = 0; i < COUNT_OF(FIRST); i++) {
            FIRST[i].read(&results[BEFORE + i], arena, out);
        }
    }
    clear_all(results, COUNT_OF(results));
    return STATUS_OK;
}

static void bind_subjects(struct sql_call *call, const struct query_picture *picture,
                          struct payment_id payment)
{
    char subject[SUBJECT_SIZE];
    struct sql_array *subjects = sql_bind_array(call, SQL_TEXT);
    sql_push_text(subjects, subject_route(payment, subject));
    sql_push_text(subjects, subject_settle(payment, subject));
    for (size_t i = 0; i < picture->attempt_count; i++) {
        bool is_first = true;
        for (size_t k = 0; k < i && is_first; k++) {
            is_first = strcmp(picture->attempts[k].account, picture->attempts[i].account) != 0;
        }
        if (is_first)
            sql_push_text(subjects, subject_create(picture->attempts[i].account, subject));
    }
}

static enum status read_second(struct store *store, struct payment_id payment, struct arena *arena,
                               struct query_picture *out)
{
    struct sql_call calls[COUNT_OF(SECOND) + 1];
    struct store_result results[COUNT_OF(SECOND) + 1];
    add_parts(SECOND, COUNT_OF(SECOND), payment, arena, calls);
    struct sql_call *commands = &calls[COUNT_OF(SECOND)];
    sql_call_begin(commands, STMT_QUERY_COMMANDS, arena);
    sql_bind_uuid(commands, payment.uuid);
    bind_subjects(commands, out, payment);
    TRY(store_run_many(store, calls, COUNT_OF(calls), results));
    for (size_t i = 0; i < COUNT_OF(SECOND); i++) SECOND[i].read(&results[i], arena, out);
    read_commands(&results[COUNT_OF(SECOND)], arena, out);
    clear_all(results, COUNT_OF(results));
    return relay_store_events_payment(store, payment, arena, &out->events, &out->event_count);
}

static enum status end_reading(struct store *store, struct arena *arena)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_COMMIT, arena);
    const enum status status = store_run(store, &call, &result);
    store_result_clear(&result);
    return status;
}

enum status query_picture_read(struct store *store, struct payment_id payment, struct arena *arena,
                               struct query_picture *out_picture)
{
    struct query_picture picture = { 0 };
    struct payment_view *views = NULL;
    size_t view_count = 0;
    bool exists = false;
    TRY(read_first(store, payment, arena, &picture, &exists));
    if (exists) {
        TRY(read_second(store, payment, arena, &picture));
        TRY(intake_read_views(store, &payment, 1, arena, &views, &view_count));
    }
    TRY(end_reading(store, arena));
    if (!exists || view_count != 1) return STATUS_NOT_FOUND;
    picture.payment.view = views[0];
    *out_picture = picture;
    return STATUS_OK;
}

enum status query_policy_text(struct store *store, const char *version, struct arena *arena,
                              const char **out_text)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_POLICY_READ, arena);
    sql_bind_text(&call, version);
    TRY(store_run(store, &call, &result));
    const bool is_found = result_rows(&result) == 1;
    if (is_found) *out_text = text_at(&(struct row){ &result, 0, arena }, 0);
    store_result_clear(&result);
    return is_found ? STATUS_OK : STATUS_NOT_FOUND;
}

const struct query_attempt *query_attempt_find(const struct query_picture *picture,
                                               struct attempt_id id)
{
    for (size_t i = 0; i < picture->attempt_count; i++) {
        if (uuid_equal(picture->attempts[i].id.uuid, id.uuid)) return &picture->attempts[i];
    }
    return NULL;
}

const struct query_evidence *query_evidence_find(const struct query_picture *picture,
                                                 struct evidence_id id)
{
    for (size_t i = 0; i < picture->evidence_count; i++) {
        if (uuid_equal(picture->evidence[i].id.uuid, id.uuid)) return &picture->evidence[i];
    }
    return NULL;
}

const struct query_request *query_request_find(const struct query_picture *picture,
                                               struct request_id id)
{
    for (size_t i = 0; i < picture->request_count; i++) {
        if (uuid_equal(picture->requests[i].id.uuid, id.uuid)) return &picture->requests[i];
    }
    return NULL;
}
