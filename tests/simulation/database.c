/* tests/simulation/database.c: see database.h. Rows, transactions and what the triggers refuse. */
#include "tests/simulation/database.h"

#include "tests/simulation/check.h"

struct database *database_create(void)
{
    return memory_allocate(sizeof(struct database));
}

void database_destroy(struct database *database)
{
    free(database);
}

void database_begin(struct world *world)
{
    struct database *database = world->database;
    database->payment_count = database->attempt_count = database->request_count = 0;
    database->evidence_count = database->history_count = database->outbox_count = 0;
    database->task_count = database->fence_count = database->inbox_count = 0;
    database->stray_count = database->case_count = database->key_count = 0;
    database->target_count = database->decision_count = database->object_count = 0;
    database->relay_mark_xid = 0;
    database->next_xid = 1000;
    database->running_count = 0;
    database->is_dirty = false;
}

size_t database_room(struct world *world, size_t *count, size_t limit, const char *table)
{
    if (*count == limit) {
        world_fail(world, "rest", "table %s grows without end", table);
        return limit - 1;
    }
    return (*count)++;
}

/* --- transactions ----------------------------------------------------------------------------- */

int64_t database_number(struct database *database, const struct job *job)
{
    INVARIANT(database->running_count < RUNNING_MAX);
    database->running[database->running_count++] = job;
    return database->next_xid++;
}

void database_end(struct database *database, const struct job *job)
{
    for (size_t i = 0; i < database->running_count; i++) {
        if (database->running[i] != job) continue;
        database->running[i] = database->running[--database->running_count];
        return;
    }
}

void database_hang_up(struct database *database, const struct worker *worker)
{
    for (size_t i = database->running_count; i > 0; i--) {
        const struct job *job = database->running[i - 1];
        if (job->worker == worker && !job->is_sent) database_end(database, job);
    }
    for (size_t i = 0; i < database->task_count; i++) {
        const struct job *lock = database->tasks[i].locked_by;
        if (lock != NULL && lock->worker == worker && !lock->is_sent)
            database->tasks[i].locked_by = NULL;
    }
}

void database_unlock(struct database *database, const struct job *job)
{
    for (size_t i = 0; i < database->task_count; i++) {
        if (database->tasks[i].locked_by == job) database->tasks[i].locked_by = NULL;
    }
}

static int by_xid(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;
    return (*left > *right) - (*left < *right);
}

const char *database_snapshot(struct world *world, int64_t *out_xmin)
{
    const struct database *database = world->database;
    int64_t xids[RUNNING_MAX] = { 0 };
    enum { XID_LENGTH = 12 };
    char *text = world_allocate(world, (RUNNING_MAX + 2) * XID_LENGTH);
    for (size_t i = 0; i < database->running_count; i++) xids[i] = database->running[i]->xid;
    qsort(xids, database->running_count, sizeof *xids, by_xid);
    *out_xmin = database->running_count > 0 ? xids[0] : database->next_xid;
    int length =
        snprintf(text, 3 * XID_LENGTH, "%" PRId64 ":%" PRId64 ":", *out_xmin, database->next_xid);
    for (size_t i = 0; i < database->running_count; i++) {
        length += snprintf(text + length, XID_LENGTH, "%s%" PRId64, i == 0 ? "" : ",", xids[i]);
    }
    return text;
}

/* --- rows ------------------------------------------------------------------------------------- */

size_t database_payment(const struct database *database, struct payment_id id)
{
    for (size_t i = 0; i < database->payment_count; i++) {
        if (uuid_equal(database->payments[i].id.uuid, id.uuid)) return i;
    }
    return SIZE_MAX;
}

size_t database_payment_by_number(const struct database *database, const char *merchant,
                                  const char *out_trade_no)
{
    for (size_t i = 0; i < database->payment_count; i++) {
        const struct payment_row *row = &database->payments[i];
        if (strcmp(row->out_trade_no, out_trade_no) == 0 && strcmp(row->merchant, merchant) == 0)
            return i;
    }
    return SIZE_MAX;
}

size_t database_attempt(const struct database *database, struct attempt_id id)
{
    for (size_t i = 0; i < database->attempt_count; i++) {
        if (uuid_equal(database->attempts[i].id.uuid, id.uuid)) return i;
    }
    return SIZE_MAX;
}

size_t database_attempt_of(const struct database *database, size_t payment, int32_t ordinal)
{
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        if (row->payment == payment && row->ordinal == ordinal) return i;
    }
    return SIZE_MAX;
}

size_t database_target(const struct database *database, const char *merchant, const char *kind,
                       const char *target)
{
    if (target == NULL) return SIZE_MAX;
    for (size_t i = 0; i < database->target_count; i++) {
        const struct stored_target *row = &database->targets[i];
        if (strcmp(row->target, target) == 0 && strcmp(row->kind, kind) == 0 &&
            strcmp(row->merchant, merchant) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

size_t database_pointer_of(const struct database *database, size_t payment)
{
    for (size_t i = 0; i < database->target_count; i++) {
        if (database->targets[i].payment == payment) return i;
    }
    return SIZE_MAX;
}

size_t database_decision(const struct database *database, size_t payment, int follows)
{
    for (size_t i = 0; i < database->decision_count; i++) {
        const struct stored_decision *row = &database->decisions[i];
        if (row->payment == payment && row->follows == follows) return i;
    }
    return SIZE_MAX;
}

size_t database_task_of(const struct database *database, size_t attempt)
{
    for (size_t i = 0; i < database->task_count; i++) {
        const struct stored_task *row = &database->tasks[i];
        if (row->attempt == attempt && row->status != TASK_RESOLVED) return i;
    }
    return SIZE_MAX;
}

size_t database_task(const struct database *database, struct task_id id)
{
    for (size_t i = 0; i < database->task_count; i++) {
        if (uuid_equal(database->tasks[i].id.uuid, id.uuid)) return i;
    }
    return SIZE_MAX;
}

size_t database_webhook(const struct database *database, struct inbox_id id)
{
    for (size_t i = 0; i < database->inbox_count; i++) {
        if (uuid_equal(database->inbox[i].id.uuid, id.uuid)) return i;
    }
    return SIZE_MAX;
}

const struct stored_evidence *database_evidence(const struct database *database,
                                                struct evidence_id id)
{
    for (size_t i = 0; i < database->evidence_count; i++) {
        if (uuid_equal(database->evidence[i].id.uuid, id.uuid)) return &database->evidence[i];
    }
    return NULL;
}

bool database_has_case(const struct database *database, size_t attempt, enum case_kind kind)
{
    for (size_t i = 0; i < database->case_count; i++) {
        if (database->cases[i].attempt == attempt && database->cases[i].kind == kind) return true;
    }
    return false;
}

static bool is_grave(enum case_kind kind) /* settle_read.sql: kinds 2, 3, 4, 9 */
{
    return kind == CASE_AMOUNT_MISMATCH || kind == CASE_STRAY_FACT ||
           kind == CASE_EVIDENCE_CONFLICT || kind == CASE_UNRECORDED_SEND;
}

bool database_payment_has_open_case(const struct database *database, size_t payment,
                                    bool only_grave)
{
    for (size_t i = 0; i < database->case_count; i++) {
        const struct stored_case *row = &database->cases[i];
        if (row->payment == payment && !row->is_closed && (!only_grave || is_grave(row->kind)))
            return true;
    }
    return false;
}

bool database_payment_has_stray(const struct database *database, size_t payment)
{
    for (size_t i = 0; i < database->stray_count; i++) {
        if (database->strays[i].payment == payment) return true; /* nobody closes cases here */
    }
    return false;
}

struct closing {
    bool is_closed;
    bool is_known;
};

static struct closing closing_of(const struct database *database, struct request_id request)
{
    struct closing closing = { false, false };
    for (size_t i = 0; i < database->evidence_count; i++) {
        const struct stored_evidence *row = &database->evidence[i];
        if (!uuid_equal(row->request.uuid, request.uuid)) continue;
        const enum evidence_source source = row->observation.source;
        closing.is_closed = closing.is_closed || row->closure != CLOSURE_OPEN;
        closing.is_known =
            closing.is_known ||
            (row->closure == CLOSURE_KNOWN && (source == SOURCE_ANSWER || source == SOURCE_REPLAY));
    }
    return closing;
}

struct request_sums database_requests_of(const struct database *database, size_t attempt,
                                         struct request_id except, bool keeps_results)
{
    struct request_sums sums = { 0 };
    for (size_t i = 0; i < database->evidence_count; i++) {
        const struct stored_evidence *row = &database->evidence[i];
        const enum evidence_source source = row->observation.source;
        if (row->attempt == attempt && row->closure == CLOSURE_KNOWN &&
            (source == SOURCE_ANSWER || source == SOURCE_REPLAY)) {
            sums.is_answered = true;
        }
    }
    for (size_t i = 0; i < database->request_count; i++) {
        const struct stored_request *row = &database->requests[i];
        if (row->attempt != attempt ||
            (row->kind != REQUEST_CREATE && row->kind != REQUEST_REPLAY)) {
            continue;
        }
        sums.sends++;
        if (row->send_by_us > sums.last_send_by_us) sums.last_send_by_us = row->send_by_us;
        if (uuid_equal(row->id.uuid, except.uuid) || (sums.is_answered && keeps_results)) continue;
        if (!closing_of(database, row->id).is_closed) sums.open++;
    }
    return sums;
}

/* --- guarded writes --------------------------------------------------------------------------- */

static void add_history(struct world *world, struct history_row row)
{
    struct database *database = world->database;
    const size_t at = database_room(world, &database->history_count, HISTORY_MAX, "state_history");
    database->history[at] = row;
    database->is_dirty = true;
    if (row.payment != SIZE_MAX) database->payments[row.payment].is_dirty = true;
    if (transition_find(row.entity, row.from, row.to) == NULL) {
        world_fail(world, "I5", "%s %s: %s -> %s is not listed (%s)", entity_name((int)row.entity),
                   world_short(world, row.id),
                   row.from == 0 ? "birth" : state_name(row.entity, row.from),
                   state_name(row.entity, row.to), row.event);
    }
    world_say(world, "  %s: %s %s %s -> %s v%d (%s)", database->writer->name,
              entity_name((int)row.entity), world_short(world, row.id),
              row.from == 0 ? "birth" : state_name(row.entity, row.from),
              state_name(row.entity, row.to), (int)row.version, row.event);
}

void database_birth(struct world *world, enum entity entity, struct uuid id, size_t payment, int to,
                    const char *event)
{
    add_history(world, (struct history_row){ .entity = entity,
                                             .id = id,
                                             .payment = payment,
                                             .version = 1,
                                             .to = to,
                                             .event = event });
}

void database_move_payment(struct world *world, size_t payment, enum payment_state next,
                           const char *event, struct evidence_id evidence)
{
    struct payment_row *row = &world->database->payments[payment];
    const enum payment_state from = row->status;
    row->status = next;
    row->version++;
    add_history(world, (struct history_row){ .entity = ENTITY_PAYMENT,
                                             .id = row->id.uuid,
                                             .payment = payment,
                                             .version = row->version,
                                             .from = (int)from,
                                             .to = (int)next,
                                             .event = event,
                                             .evidence = evidence });
}

/* I6, as the trigger of payment_attempt asks it. */
static void check_proof(struct world *world, const struct stored_attempt *row,
                        enum attempt_state from)
{
    const struct database *database = world->database;
    const size_t attempt = (size_t)(row - database->attempts);
    const struct stored_evidence *proof = database_evidence(database, row->evidence);
    bool is_proof =
        proof != NULL && proof->attempt == attempt && proof->proves == (int)row->certainty &&
        (row->status == ATTEMPT_SUCCEEDED ? proof->proves == CERTAINTY_CONFIRMED_SUCCESS
                                          : proof->proves == CERTAINTY_NO_SIDE_EFFECT ||
                                                proof->proves == CERTAINTY_DEFINITE_FAILURE);
    if (is_proof && proof->observation.source == SOURCE_LOCAL) {
        is_proof = from == ATTEMPT_CREATED && row->certainty == CERTAINTY_NO_SIDE_EFFECT;
        for (size_t i = 0; i < database->request_count; i++) {
            const struct stored_request *request = &database->requests[i];
            bool is_unsent = request->attempt != attempt || request->kind == REQUEST_RETRIEVE;
            for (size_t k = 0; k < database->evidence_count; k++) {
                is_unsent = is_unsent ||
                            (uuid_equal(database->evidence[k].request.uuid, request->id.uuid) &&
                             database->evidence[k].closure == CLOSURE_NO_EFFECT);
            }
            is_proof = is_proof && is_unsent;
        }
    }
    if (!is_proof)
        world_fail(world, "I6", "attempt %s ends without evidence that proves it",
                   world_short(world, row->id.uuid));
}

void database_move_attempt(struct world *world, size_t attempt, enum attempt_state next,
                           const char *event, struct evidence_id evidence)
{
    struct stored_attempt *row = &world->database->attempts[attempt];
    const enum attempt_state from = row->status;
    row->status = next;
    row->version++;
    add_history(world, (struct history_row){ .entity = ENTITY_ATTEMPT,
                                             .id = row->id.uuid,
                                             .payment = row->payment,
                                             .version = row->version,
                                             .from = (int)from,
                                             .to = (int)next,
                                             .event = event,
                                             .evidence = evidence });
    if (next == ATTEMPT_UNKNOWN) world_reach(world, REACHED_UNKNOWN);
    if (attempt_state_is_terminal(next)) check_proof(world, row, from);
}

void database_move_task(struct world *world, size_t task, enum task_state next)
{
    struct stored_task *row = &world->database->tasks[task];
    const bool is_listed = transition_find(ENTITY_TASK, (int)row->status, (int)next) != NULL ||
                           (row->status == next && next != TASK_RESOLVED);
    if (!is_listed) {
        world_fail(world, "I5", "task %s: %s -> %s is not listed", world_short(world, row->id.uuid),
                   task_state_name((int)row->status), task_state_name((int)next));
    }
    if (row->status != next)
        world_say(world, "  task %s of attempt %s: %s -> %s", world_short(world, row->id.uuid),
                  world_short(world, world->database->attempts[row->attempt].id.uuid),
                  task_state_name((int)row->status), task_state_name((int)next));
    row->status = next;
    row->version++;
    if (next == TASK_PAUSED) world_reach(world, REACHED_PAUSED);
}

void database_command(struct world *world, struct outbox_id id, enum command_kind kind,
                      size_t stream, struct uuid entity, int32_t version, size_t payment)
{
    struct database *database = world->database;
    const size_t at = database_room(world, &database->outbox_count, OUTBOX_MAX, "outbox");
    database->has_news = true;
    database->outbox[at] = (struct outbox_row){
        .id = id,
        .xid = database->xid,
        .created_us = world->now_us,
        .kind = kind,
        .stream = stream,
        .entity = entity,
        .version = version,
        .payment = payment,
    };
}

void database_event(struct world *world, struct outbox_id id, enum event_type type, size_t payment,
                    int32_t version, bool safe_to_pay_again)
{
    struct database *database = world->database;
    const size_t at = database_room(world, &database->outbox_count, OUTBOX_MAX, "outbox");
    database->has_news = true;
    database->outbox[at] = (struct outbox_row){
        .id = id,
        .xid = database->xid,
        .created_us = world->now_us,
        .type = type,
        .entity = payment == SIZE_MAX ? id.uuid : database->payments[payment].id.uuid,
        .version = version,
        .payment = payment,
        .safe_to_pay_again = safe_to_pay_again,
    };
    if (safe_to_pay_again) {
        database->payments[payment].is_told_safe = true;
        check_safe(world, payment);
    }
    world_say(world, "  event %s v%d in transaction %" PRId64, event_type_name((int)type),
              (int)version, database->xid);
}
