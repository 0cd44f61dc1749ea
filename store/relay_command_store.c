/* store/relay_command_store.c: see relay_command_store.h. */
#include "store/relay_command_store.h"

#include "pipeline/case.h"
#include "store/relay_store.h"

/* Outbox entities (protocol H1); the subject says which kind an attempt's command is. */
enum { OUTBOX_PAYMENT = 1, OUTBOX_ATTEMPT = 2, OUTBOX_DECISION = 5, OUTBOX_INBOX = 6 };

int relay_command_entity(enum command_kind kind)
{
    switch (kind) {
    case COMMAND_ROUTE:
        return OUTBOX_PAYMENT;
    case COMMAND_CREATE:
    case COMMAND_SETTLE:
        return OUTBOX_ATTEMPT;
    case COMMAND_NO_ROUTE:
        return OUTBOX_DECISION;
    case COMMAND_EVIDENCE:
        return OUTBOX_INBOX;
    }
    UNREACHABLE("command kind out of range");
}

/* False: nothing that this build knows; a later one may write more kinds to the same subjects. */
static bool kind_of(const char *subject, int entity, enum command_kind *out)
{
    switch (entity) {
    case OUTBOX_PAYMENT:
        *out = COMMAND_ROUTE;
        return true;
    case OUTBOX_ATTEMPT:
        *out = strncmp(subject, "pay.settle.", 11) == 0 ? COMMAND_SETTLE : COMMAND_CREATE;
        return true;
    case OUTBOX_DECISION:
        *out = COMMAND_NO_ROUTE;
        return true;
    case OUTBOX_INBOX:
        *out = COMMAND_EVIDENCE;
        return true;
    default:
        return false;
    }
}

/* --- pages -------------------------------------------------------------------------------- */

static void read_page(const struct store_result *result, const struct relay_command_mark *marks,
                      struct arena *arena, struct relay_command_page *out)
{
    enum { PLACE, NOW, ID, ENTITY, ENTITY_ID, VERSION, PAYMENT, CREATED };
    const size_t rows = result_rows(result);
    struct relay_command *commands = arena_allocate(arena, (rows + 1) * sizeof *commands);
    size_t count = 0;
    for (size_t i = 0; i < rows; i++) {
        if (result_is_null(result, i, ID)) continue;
        const size_t place = (size_t)result_int(result, i, PLACE) - 1;
        enum command_kind kind = COMMAND_ROUTE;
        const bool is_ours = kind_of(marks[place].subject, result_int(result, i, ENTITY), &kind);
        commands[count++] = (struct relay_command){
            .place = place,
            .is_foreign = !is_ours,
            .created_us = result_time_us(result, i, CREATED),
            .account = "",
            .command = { .outbox = { result_uuid(result, i, ID) },
                         .payment = { result_uuid(result, i, PAYMENT) },
                         .entity = result_uuid(result, i, ENTITY_ID),
                         .version = result_int(result, i, VERSION),
                         .kind = kind },
        };
    }
    *out = (struct relay_command_page){ .now_us = result_time_us(result, 0, NOW),
                                        .commands = commands,
                                        .count = count };
}

enum status relay_command_store_page(struct store *store, const struct relay_command_mark *marks,
                                     size_t count, int64_t age_ms, int32_t limit, int64_t floor_us,
                                     struct arena *arena, struct relay_command_page *out_page)
{
    struct sql_call call;
    struct store_result result;
    INVARIANT(count > 0);
    sql_call_begin(&call, STMT_RELAY_COMMANDS, arena);
    struct sql_array *subjects = sql_bind_array(&call, SQL_TEXT);
    struct sql_array *times = sql_bind_array(&call, SQL_TIMESTAMPTZ);
    for (size_t i = 0; i < count; i++) {
        sql_push_text(subjects, marks[i].subject);
        sql_push_time(times, marks[i].mark_us > 0 ? marks[i].mark_us : 1);
    }
    sql_bind_int8(&call, age_ms);
    sql_bind_int4(&call, limit);
    sql_bind_uuid(&call, relay_store_id_floor(floor_us));
    TRY(store_run(store, &call, &result));
    read_page(&result, marks, arena, out_page);
    store_result_clear(&result);
    return STATUS_OK;
}

/* --- what moved --------------------------------------------------------------------------- */

static enum statement check_of(enum command_kind kind)
{
    switch (kind) {
    case COMMAND_ROUTE:
        return STMT_RELAY_UNMOVED_ROUTE;
    case COMMAND_CREATE:
        return STMT_RELAY_UNMOVED_CREATE;
    case COMMAND_SETTLE:
        return STMT_RELAY_UNMOVED_SETTLE;
    case COMMAND_NO_ROUTE:
        return STMT_RELAY_UNMOVED_NO_ROUTE;
    case COMMAND_EVIDENCE:
        return STMT_RELAY_UNMOVED_EVIDENCE;
    }
    UNREACHABLE("command kind out of range");
}

/* Of one kind; out_members says which commands they are. */
static size_t check_call(struct sql_call *call, enum command_kind kind,
                         struct relay_command *commands, size_t count, struct arena *arena,
                         struct relay_command **out_members)
{
    size_t members = 0;
    sql_call_begin(call, check_of(kind), arena);
    struct sql_array *keys = sql_bind_array(call, SQL_UUID);
    struct sql_array *versions = kind == COMMAND_EVIDENCE ? NULL : sql_bind_array(call, SQL_INT4);
    struct sql_array *payments = kind == COMMAND_SETTLE ? sql_bind_array(call, SQL_UUID) : NULL;
    for (size_t i = 0; i < count; i++) {
        const struct command *command = &commands[i].command;
        if (commands[i].is_foreign || command->kind != kind) continue;
        out_members[members++] = &commands[i];
        /* A decision is known by its payment and the ordinal that it follows. */
        sql_push_uuid(keys, kind == COMMAND_NO_ROUTE ? command->payment.uuid : command->entity);
        if (versions != NULL) sql_push_int4(versions, (int32_t)command->version);
        if (payments != NULL) sql_push_uuid(payments, command->payment.uuid);
    }
    return members;
}

static void read_check(const struct store_result *result, struct relay_command *const *members,
                       struct arena *arena)
{
    enum { PLACE, STATE, SINCE, ACCOUNT, IS_DEAD };
    for (size_t i = 0; i < result_rows(result); i++) {
        struct relay_command *command = members[result_int(result, i, PLACE) - 1];
        if (result_bool(result, i, IS_DEAD)) continue;
        const char *account = result_text(result, i, ACCOUNT);
        command->is_unmoved = true;
        command->state = result_int(result, i, STATE);
        command->since_us = result_time_us(result, i, SINCE);
        command->account = arena_copy(arena, account, strlen(account));
    }
}

static enum status check_known(struct store *store, struct relay_command *commands, size_t count,
                               struct arena *arena)
{
    struct relay_command **members = arena_allocate(arena, (count + 1) * sizeof(void *));
    struct sql_call call;
    struct store_result result;
    size_t unmoved = 0;
    sql_call_begin(&call, STMT_RELAY_STUCK_KNOWN, arena);
    struct sql_array *kinds = sql_bind_array(&call, SQL_INT2);
    struct sql_array *entities = sql_bind_array(&call, SQL_UUID);
    struct sql_array *versions = sql_bind_array(&call, SQL_INT4);
    for (size_t i = 0; i < count; i++) {
        if (!commands[i].is_unmoved) continue;
        members[unmoved++] = &commands[i];
        sql_push_int2(kinds, (int)commands[i].command.kind);
        sql_push_uuid(entities, commands[i].command.entity);
        sql_push_int4(versions, (int32_t)commands[i].command.version);
    }
    if (unmoved == 0) return STATUS_OK;
    TRY(store_run(store, &call, &result));
    for (size_t i = 0; i < result_rows(&result); i++) {
        members[result_int(&result, i, 0) - 1]->is_known_stuck = true;
    }
    store_result_clear(&result);
    return STATUS_OK;
}

enum status relay_command_store_check(struct store *store, struct relay_command *commands,
                                      size_t count, struct arena *arena)
{
    static const enum command_kind KINDS[] = { COMMAND_ROUTE, COMMAND_CREATE, COMMAND_SETTLE,
                                               COMMAND_NO_ROUTE, COMMAND_EVIDENCE };
    struct sql_call calls[COUNT_OF(KINDS)];
    struct store_result results[COUNT_OF(KINDS)];
    struct relay_command **members[COUNT_OF(KINDS)];
    size_t call_count = 0;
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        members[call_count] = arena_allocate(arena, (count + 1) * sizeof(void *));
        if (check_call(&calls[call_count], KINDS[i], commands, count, arena, members[call_count]) >
            0) {
            call_count++;
        }
    }
    if (call_count == 0) return STATUS_OK;
    TRY(store_run_many(store, calls, call_count, results));
    for (size_t i = 0; i < call_count; i++) {
        read_check(&results[i], members[i], arena);
        store_result_clear(&results[i]);
    }
    return check_known(store, commands, count, arena);
}

enum status relay_command_store_born(struct store *store, struct outbox_id id, const char *subject,
                                     int64_t *out_created_us)
{
    enum { CLOCKS_APART_MS = 10 * 60 * 1000 };
    struct arena arena = { NULL };
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_RELAY_COMMAND_BORN, &arena);
    sql_bind_uuid(&call, id.uuid);
    sql_bind_text(&call, subject);
    sql_bind_int8(&call, CLOCKS_APART_MS);
    enum status status = store_run(store, &call, &result);
    if (status == STATUS_OK) {
        if (result_rows(&result) == 1)
            *out_created_us = result_time_us(&result, 0, 0);
        else
            status = STATUS_NOT_FOUND;
    }
    store_result_clear(&result);
    arena_finish(&arena);
    return status;
}

/* --- writing ------------------------------------------------------------------------------ */

static void emit_call(struct sql_call *call, struct arena *arena,
                      const struct relay_emission *emissions, size_t count)
{
    sql_call_begin(call, STMT_RELAY_EMIT, arena);
    struct sql_array *ids = sql_bind_array(call, SQL_UUID);
    struct sql_array *subjects = sql_bind_array(call, SQL_TEXT);
    struct sql_array *entities = sql_bind_array(call, SQL_INT2);
    struct sql_array *entity_ids = sql_bind_array(call, SQL_UUID);
    struct sql_array *versions = sql_bind_array(call, SQL_INT4);
    struct sql_array *payments = sql_bind_array(call, SQL_UUID);
    for (size_t i = 0; i < count; i++) {
        sql_push_uuid(ids, emissions[i].command.outbox.uuid);
        sql_push_text(subjects, emissions[i].subject);
        sql_push_int2(entities, emissions[i].entity);
        sql_push_uuid(entity_ids, emissions[i].command.entity);
        sql_push_int4(versions, (int32_t)emissions[i].command.version);
        sql_push_uuid_or_null(payments, emissions[i].command.payment.uuid);
    }
}

static void mark_call(struct sql_call *call, struct arena *arena,
                      const struct relay_command_mark *marks, size_t count)
{
    sql_call_begin(call, STMT_RELAY_MARK_COMMAND, arena);
    struct sql_array *names = sql_bind_array(call, SQL_TEXT);
    struct sql_array *times = sql_bind_array(call, SQL_TIMESTAMPTZ);
    for (size_t i = 0; i < count; i++) {
        sql_push_text(names, arena_format(arena, "command:%s", marks[i].subject));
        sql_push_time(times, marks[i].mark_us);
    }
}

static void note_call(struct sql_call *call, struct arena *arena, const struct relay_stuck *stuck,
                      size_t count, int64_t wait_ms)
{
    sql_call_begin(call, STMT_RELAY_STUCK_NOTE, arena);
    struct sql_array *kinds = sql_bind_array(call, SQL_INT2);
    struct sql_array *entities = sql_bind_array(call, SQL_UUID);
    struct sql_array *versions = sql_bind_array(call, SQL_INT4);
    struct sql_array *payments = sql_bind_array(call, SQL_UUID);
    struct sql_array *subjects = sql_bind_array(call, SQL_TEXT);
    struct sql_array *stages = sql_bind_array(call, SQL_TEXT);
    struct sql_array *accounts = sql_bind_array(call, SQL_TEXT);
    struct sql_array *states = sql_bind_array(call, SQL_INT2);
    struct sql_array *since = sql_bind_array(call, SQL_TIMESTAMPTZ);
    for (size_t i = 0; i < count; i++) {
        sql_push_int2(kinds, (int)stuck[i].kind);
        sql_push_uuid(entities, stuck[i].entity_id);
        sql_push_int4(versions, stuck[i].version);
        sql_push_uuid_or_null(payments, stuck[i].payment.uuid);
        sql_push_text(subjects, stuck[i].subject);
        sql_push_text(stages, stuck[i].stage);
        sql_push_text(accounts, stuck[i].account);
        sql_push_int2(states, stuck[i].state);
        sql_push_time(since, stuck[i].since_us);
    }
    sql_bind_int8(call, wait_ms);
}

static enum status run_all(struct store *store, struct sql_call *calls, size_t count)
{
    struct store_result results[STORE_CALLS_MAX];
    if (count == 0) return STATUS_OK;
    TRY(store_run_many(store, calls, count, results));
    for (size_t i = 0; i < count; i++) store_result_clear(&results[i]);
    return STATUS_OK;
}

enum status relay_command_store_end(struct store *store, const struct relay_command_end *end,
                                    struct arena *arena)
{
    struct sql_call calls[3];
    size_t count = 0;
    if (end->emission_count > 0) {
        emit_call(&calls[count++], arena, end->emissions, end->emission_count);
    }
    if (end->mark_count > 0) mark_call(&calls[count++], arena, end->marks, end->mark_count);
    if (end->stuck_count > 0) {
        note_call(&calls[count++], arena, end->stuck, end->stuck_count, end->stuck_wait_ms);
    }
    return run_all(store, calls, count);
}

/* --- the list of the stuck ---------------------------------------------------------------- */

enum status relay_command_store_due(struct store *store, int32_t limit, struct arena *arena,
                                    struct relay_stuck **out_stuck, size_t *out_count)
{
    enum { KIND, ENTITY_ID, VERSION, PAYMENT, SUBJECT, EMITTED, EMISSIONS };
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_RELAY_STUCK_DUE, arena);
    sql_bind_int4(&call, limit);
    TRY(store_run(store, &call, &result));
    const size_t count = result_rows(&result);
    struct relay_stuck *stuck = arena_allocate(arena, (count + 1) * sizeof *stuck);
    for (size_t i = 0; i < count; i++) {
        const char *subject = result_text(&result, i, SUBJECT);
        stuck[i] = (struct relay_stuck){
            .kind = (enum command_kind)result_int(&result, i, KIND),
            .entity_id = result_uuid(&result, i, ENTITY_ID),
            .version = result_int(&result, i, VERSION),
            .payment = { result_uuid(&result, i, PAYMENT) },
            .subject = arena_copy(arena, subject, strlen(subject)),
            .emitted_us = result_time_us(&result, i, EMITTED),
            .emissions = result_int(&result, i, EMISSIONS),
        };
    }
    store_result_clear(&result);
    *out_stuck = stuck;
    *out_count = count;
    return STATUS_OK;
}

struct key_arrays {
    struct sql_array *kinds;
    struct sql_array *entities;
    struct sql_array *versions;
};

static struct key_arrays bind_keys(struct sql_call *call, const struct relay_stuck *stuck,
                                   size_t count)
{
    const struct key_arrays keys = { sql_bind_array(call, SQL_INT2), sql_bind_array(call, SQL_UUID),
                                     sql_bind_array(call, SQL_INT4) };
    for (size_t i = 0; i < count; i++) {
        sql_push_int2(keys.kinds, (int)stuck[i].kind);
        sql_push_uuid(keys.entities, stuck[i].entity_id);
        sql_push_int4(keys.versions, stuck[i].version);
    }
    return keys;
}

static void again_call(struct sql_call *call, struct arena *arena,
                       const struct relay_stuck_round *round)
{
    sql_call_begin(call, STMT_RELAY_STUCK_AGAIN, arena);
    (void)bind_keys(call, round->again, round->again_count);
    struct sql_array *emitted = sql_bind_array(call, SQL_BOOL);
    struct sql_array *states = sql_bind_array(call, SQL_INT2);
    for (size_t i = 0; i < round->again_count; i++) {
        sql_push_bool(emitted, round->again[i].is_emitted);
        sql_push_int2(states, round->again[i].state);
    }
    sql_bind_int8(call, round->wait_ms_min);
    sql_bind_int8(call, round->wait_ms_max);
}

enum status relay_command_store_round(struct store *store, const struct relay_stuck_round *round,
                                      struct arena *arena)
{
    struct sql_call calls[3];
    size_t count = 0;
    if (round->emission_count > 0) {
        emit_call(&calls[count++], arena, round->emissions, round->emission_count);
    }
    if (round->moved_count > 0) {
        sql_call_begin(&calls[count], STMT_RELAY_STUCK_MOVED, arena);
        (void)bind_keys(&calls[count++], round->moved, round->moved_count);
    }
    if (round->again_count > 0) again_call(&calls[count++], arena, round);
    return run_all(store, calls, count);
}

enum status relay_command_store_cases(struct store *store, int64_t age_ms, struct arena *arena,
                                      const struct relay_stuck_case **out_cases, size_t *out_count)
{
    enum { CASES_MAX = 64 }; /* what is beyond them is opened next time */
    struct sql_call call;
    struct store_result result;
    sql_call_begin(&call, STMT_RELAY_STUCK_CASES, arena);
    sql_bind_int2(&call, CASE_STUCK);
    sql_bind_int2(&call, case_kind_priority(CASE_STUCK));
    sql_bind_int8(&call, age_ms);
    struct sql_array *ids = sql_bind_array(&call, SQL_UUID);
    for (int i = 0; i < CASES_MAX; i++) sql_push_uuid(ids, uuid_new());
    TRY(store_run(store, &call, &result));
    const size_t count = result_rows(&result);
    struct relay_stuck_case *cases = arena_allocate(arena, (count + 1) * sizeof *cases);
    for (size_t i = 0; i < count; i++) {
        const char *stage = result_text(&result, i, 1);
        const char *account = result_text(&result, i, 2);
        cases[i] = (struct relay_stuck_case){
            .is_opened = result_bool(&result, i, 0),
            .stage = arena_copy(arena, stage, strlen(stage)),
            .account = arena_copy(arena, account, strlen(account)),
            .count = result_int8(&result, i, 3),
        };
    }
    store_result_clear(&result);
    *out_cases = cases;
    *out_count = count;
    return STATUS_OK;
}
