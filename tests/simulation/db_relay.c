/* tests/simulation/db_relay.c: relay_events.sql, relay_events_before.sql, relay_unmoved_*.sql. */
#include "tests/simulation/database.h"
#include "tests/simulation/streams.h"

/* --- snapshots -------------------------------------------------------------------------------- */

struct snapshot {
    int64_t xmin;
    int64_t xmax;
    int64_t running[RUNNING_MAX];
    size_t count;
};

static struct snapshot parse(const char *text)
{
    struct snapshot snapshot = { .count = 0 };
    char *rest = NULL;
    snapshot.xmin = strtoll(text, &rest, 10);
    snapshot.xmax = strtoll(rest + 1, &rest, 10);
    for (rest++; *rest != '\0'; rest = *rest == ',' ? rest + 1 : rest) {
        INVARIANT(snapshot.count < RUNNING_MAX);
        snapshot.running[snapshot.count++] = strtoll(rest, &rest, 10);
    }
    return snapshot;
}

/* pg_visible_in_snapshot */
static bool is_visible(const struct snapshot *snapshot, int64_t xid)
{
    if (xid < snapshot->xmin) return true;
    if (xid >= snapshot->xmax) return false;
    for (size_t i = 0; i < snapshot->count; i++) {
        if (snapshot->running[i] == xid) return false;
    }
    return true;
}

static int by_xid_and_id(const void *a, const void *b)
{
    const struct relay_row_double *left = a;
    const struct relay_row_double *right = b;
    if (left->xid != right->xid) return left->xid < right->xid ? -1 : 1;
    const struct database *database = world_current()->database;
    return uuid_compare(database->outbox[left->outbox].id.uuid,
                        database->outbox[right->outbox].id.uuid);
}

static bool is_after(const struct outbox_row *row, int64_t xid, struct uuid id)
{
    return row->xid > xid || (row->xid == xid && uuid_compare(row->id.uuid, id) > 0);
}

void db_relay_events(struct world *world, const char *base, const char *target, int64_t after_xid,
                     struct uuid after_id, size_t limit, struct relay_page_double *out)
{
    const struct database *database = world->database;
    int64_t xmin = 0;
    const char *text = target;
    if (text == NULL) text = database_snapshot(world, &xmin);
    const struct snapshot seen = parse(base);
    const struct snapshot shown = parse(text);
    *out = (struct relay_page_double){ .snapshot = text, .xmin = shown.xmin };
    out->rows = world_allocate(world, (database->outbox_count + 1) * sizeof *out->rows);
    for (size_t i = 0; i < database->outbox_count; i++) {
        const struct outbox_row *row = &database->outbox[i];
        if (row->kind != 0 || !is_visible(&shown, row->xid) || is_visible(&seen, row->xid) ||
            !is_after(row, after_xid, after_id)) {
            continue;
        }
        out->rows[out->count++] = (struct relay_row_double){ row->xid, i };
    }
    qsort(out->rows, out->count, sizeof *out->rows, by_xid_and_id);
    if (out->count > limit) out->count = limit;
}

size_t db_relay_events_before(struct world *world, size_t payment, int32_t version,
                              int64_t after_xid, struct uuid after_id, const char *text,
                              struct relay_row_double *out, size_t limit)
{
    const struct database *database = world->database;
    const struct snapshot shown = parse(text);
    size_t count = 0;
    for (size_t i = 0; i < database->outbox_count && count < limit; i++) {
        const struct outbox_row *row = &database->outbox[i];
        if (row->kind != 0 || row->payment != payment || row->version == 0 ||
            row->version >= version || !is_after(row, after_xid, after_id) ||
            !is_visible(&shown, row->xid)) {
            continue;
        }
        out[count++] = (struct relay_row_double){ row->xid, i };
    }
    return count;
}

/* --- commands that did not move --------------------------------------------------------------- */

static bool create_is_unmoved(const struct world *world, const struct outbox_row *row)
{
    const struct database *database = world->database;
    const size_t attempt = database_attempt(database, (struct attempt_id){ row->entity });
    if (attempt == SIZE_MAX) return false;
    const struct stored_attempt *found = &database->attempts[attempt];
    if (found->status != ATTEMPT_CREATED || found->version > row->version) return false;
    const size_t task = database_task_of(database, attempt);
    return task == SIZE_MAX || database->tasks[task].due_us <= world->now_us;
}

static bool route_is_unmoved(const struct world *world, const struct outbox_row *row)
{
    const struct database *database = world->database;
    const enum payment_state status = database->payments[row->payment].status;
    const bool waits =
        status == PAYMENT_CREATED || (status == PAYMENT_AUTHORIZING && row->version > 0);
    return waits && database_attempt_of(database, row->payment, row->version + 1) == SIZE_MAX &&
           database_decision(database, row->payment, row->version) == SIZE_MAX;
}

static bool no_route_is_unmoved(const struct world *world, const struct outbox_row *row)
{
    const struct database *database = world->database;
    const enum payment_state status = database->payments[row->payment].status;
    const bool waits =
        status == PAYMENT_CREATED || (status == PAYMENT_AUTHORIZING && row->version > 0);
    return waits && database_attempt_of(database, row->payment, row->version + 1) == SIZE_MAX;
}

static bool end_is_known(const struct database *database, const struct stored_attempt *attempt,
                         size_t place)
{
    for (size_t i = 0; i < database->stray_count; i++) {
        if (database->strays[i].attempt == place) return true;
    }
    if (!attempt_state_is_terminal(attempt->status)) return false;
    for (size_t i = 0; i < database->history_count; i++) {
        const struct history_row *row = &database->history[i];
        if (row->entity == ENTITY_PAYMENT && row->payment == attempt->payment &&
            uuid_equal(row->evidence.uuid, attempt->evidence.uuid)) {
            return true;
        }
    }
    return false;
}

static bool settle_is_unmoved(const struct world *world, const struct outbox_row *row)
{
    const struct database *database = world->database;
    const size_t place = database_attempt(database, (struct attempt_id){ row->entity });
    const struct payment_row *payment = &database->payments[row->payment];
    if (place == SIZE_MAX) return false;
    const struct stored_attempt *attempt = &database->attempts[place];
    const size_t applied = database_attempt(database, payment->applied_attempt);
    if (applied == place && payment->applied_version >= row->version) return false;
    if (applied != SIZE_MAX && database->attempts[applied].ordinal > attempt->ordinal &&
        attempt->status != ATTEMPT_SUCCEEDED) {
        return false;
    }
    return !end_is_known(database, attempt, place);
}

static bool evidence_is_unmoved(const struct world *world, const struct outbox_row *row)
{
    const struct database *database = world->database;
    const size_t at = database_webhook(database, (struct inbox_id){ row->entity });
    return at != SIZE_MAX && !database->inbox[at].is_processed && database->inbox[at].looks == 0;
}

bool db_relay_unmoved(struct world *world, const struct outbox_row *row)
{
    switch (row->kind) {
    case COMMAND_ROUTE:
        return route_is_unmoved(world, row);
    case COMMAND_CREATE:
        return create_is_unmoved(world, row);
    case COMMAND_SETTLE:
        return settle_is_unmoved(world, row);
    case COMMAND_NO_ROUTE:
        return no_route_is_unmoved(world, row);
    case COMMAND_EVIDENCE:
        return evidence_is_unmoved(world, row);
    }
    UNREACHABLE("command kind out of range");
}
