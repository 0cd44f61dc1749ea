/*
 * tests/simulation/audit.c: what must hold when all is quiet: the books against the PSP's own
 * ledger, every owner, every history, every event (protocol J).
 */
#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"

/* --- I9 --------------------------------------------------------------------------------------- */

static size_t attempt_of_charge(const struct database *database, const struct charge *charge)
{
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        if (row->account == charge->account && strcmp(row->provider_key, charge->key) == 0)
            return i;
    }
    return SIZE_MAX;
}

static bool has_stray(const struct database *database, const struct charge *charge)
{
    for (size_t i = 0; i < database->stray_count; i++) {
        const struct stored_stray *row = &database->strays[i];
        if (row->account == charge->account && strcmp(row->provider_object, charge->object) == 0)
            return true;
    }
    return false;
}

static void audit_charge(struct world *world, const struct charge *charge)
{
    const struct database *database = world->database;
    if (charge->state != CHARGE_SUCCEEDED) return;
    const size_t at = attempt_of_charge(database, charge);
    if (at == SIZE_MAX && charge->is_remembered) return; /* it was never routed again */
    if (at == SIZE_MAX) {
        world_fail(world, "I9", "the PSP charged %s under the key %s, and we know no such attempt",
                   charge->object, charge->key);
        return;
    }
    const struct stored_attempt *attempt = &database->attempts[at];
    const struct money amount = database->payments[attempt->payment].amount;
    const bool is_ours = attempt->status == ATTEMPT_SUCCEEDED &&
                         strcmp(attempt->provider_object, charge->object) == 0;
    if (is_ours && money_equal(charge->amount_shown, amount)) return;
    if (has_stray(database, charge)) return;
    if (!attempt_state_is_terminal(attempt->status)) return; /* up to the UNKNOWN ones */
    if (charge->is_contradicted && database_payment_has_open_case(database, attempt->payment, true))
        return; /* the PSP lied, and a person looks */
    world_fail(world, "I9", "the PSP charged %s of payment %s, our attempt is %s%s", charge->object,
               database->payments[attempt->payment].out_trade_no,
               attempt_state_name((int)attempt->status), is_ours ? " with another amount" : "");
}

static bool is_charged(const struct world *world, size_t account, const char *object)
{
    for (size_t i = 0; i < world->bank->charge_count; i++) {
        const struct charge *charge = &world->bank->charges[i];
        if (charge->account == account && charge->state == CHARGE_SUCCEEDED &&
            (strcmp(charge->object, object) == 0 || strcmp(charge->key, object) == 0)) {
            return true;
        }
    }
    return false;
}

/* Was the payment captured by the end of this attempt? */
static bool has_captured(const struct database *database, const struct stored_attempt *attempt)
{
    for (size_t i = 0; i < database->history_count; i++) {
        const struct history_row *row = &database->history[i];
        if (row->entity == ENTITY_PAYMENT && row->payment == attempt->payment &&
            row->to == PAYMENT_CAPTURED && row->from != row->to &&
            uuid_equal(row->evidence.uuid, attempt->evidence.uuid)) {
            return true;
        }
    }
    return false;
}

/* The same charge stands in the books as paid and as a stray fact, or as two of them. */
static void audit_once(struct world *world, const struct charge *charge)
{
    const struct database *database = world->database;
    size_t count = 0;
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        count += row->account == charge->account && row->provider_object != NULL &&
                 strcmp(row->provider_object, charge->object) == 0 && has_captured(database, row);
    }
    for (size_t i = 0; i < database->stray_count; i++) {
        const struct stored_stray *row = &database->strays[i];
        count +=
            row->account == charge->account && strcmp(row->provider_object, charge->object) == 0;
    }
    if (count > 1)
        world_fail(world, "I17", "the charge %s stands in our books %zu times", charge->object,
                   count);
}

static void audit_books(struct world *world)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < world->bank->charge_count; i++) {
        audit_charge(world, &world->bank->charges[i]);
        audit_once(world, &world->bank->charges[i]);
    }
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        if (row->status != ATTEMPT_SUCCEEDED) continue;
        if (row->provider_object == NULL ||
            !is_charged(world, row->account, row->provider_object)) {
            world_fail(world, "I9", "attempt %s succeeded, and the PSP charged nothing",
                       world_short(world, row->id.uuid));
        }
    }
    for (size_t i = 0; i < database->stray_count; i++) {
        const struct stored_stray *row = &database->strays[i];
        if (!is_charged(world, row->account, row->provider_object))
            world_fail(world, "I9", "a stray fact about %s, and the PSP charged nothing there",
                       row->provider_object);
    }
}

/* --- I5, I8, I17 ------------------------------------------------------------------------------ */

static void audit_entity(struct world *world, enum entity entity, struct uuid id, int status,
                         int32_t version)
{
    const struct database *database = world->database;
    int from = 0;
    int32_t expected = 1;
    for (size_t i = 0; i < database->history_count; i++) {
        const struct history_row *row = &database->history[i];
        if (row->entity != entity || !uuid_equal(row->id, id)) continue;
        if (row->version != expected || row->from != from) {
            world_fail(world, "I8", "%s %s: history has v%d from %d where v%d from %d belongs",
                       entity_name((int)entity), world_short(world, id), (int)row->version,
                       row->from, (int)expected, from);
            return;
        }
        if (from != 0 && state_is_terminal(entity, from) && row->to != from)
            world_fail(world, "I5", "%s %s left its terminal state", entity_name((int)entity),
                       world_short(world, id));
        from = row->to;
        expected++;
    }
    if (from != status || expected != version + 1)
        world_fail(world, "I8", "%s %s is not what its history says", entity_name((int)entity),
                   world_short(world, id));
}

static bool is_wait(int status)
{
    return status == PAYMENT_CREATED || status == PAYMENT_AUTHORIZING ||
           status == PAYMENT_CANCELING;
}

/* I17, as verify_i17.sql asks it. */
static void audit_ends(struct world *world, size_t payment)
{
    const struct database *database = world->database;
    const struct payment_row *payment_row = &database->payments[payment];
    size_t ends = 0;
    for (size_t i = 0; i < database->history_count; i++) {
        const struct history_row *row = &database->history[i];
        if (row->entity != ENTITY_PAYMENT || row->payment != payment) continue;
        ends += row->from != 0 && is_wait(row->from) && !is_wait(row->to);
        for (size_t k = i + 1; k < database->history_count; k++) {
            const struct history_row *other = &database->history[k];
            if (other->entity == ENTITY_PAYMENT && other->payment == payment &&
                !uuid_is_nil(row->evidence.uuid) &&
                uuid_equal(row->evidence.uuid, other->evidence.uuid) && row->from != row->to &&
                other->from != other->to) {
                world_fail(world, "I17", "one end was applied to payment %s twice",
                           payment_row->out_trade_no);
            }
        }
    }
    if (ends > 1)
        world_fail(world, "I17", "payment %s left its wait %zu times", payment_row->out_trade_no,
                   ends);
    const bool is_paid = payment_row->status == PAYMENT_CAPTURED;
    const int64_t captured = is_paid && payment_row->capture == REQUEST_CAPTURE_AUTOMATIC
                                 ? payment_row->amount.minor
                                 : 0;
    if (payment_row->captured_minor != captured)
        world_fail(world, "I17", "payment %s captured %" PRId64, payment_row->out_trade_no,
                   payment_row->captured_minor);
}

static void audit_history(struct world *world)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->payment_count; i++) {
        const struct payment_row *row = &database->payments[i];
        audit_entity(world, ENTITY_PAYMENT, row->id.uuid, (int)row->status, row->version);
        audit_ends(world, i);
    }
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        audit_entity(world, ENTITY_ATTEMPT, row->id.uuid, (int)row->status, row->version);
    }
}

/* --- I10, I13 --------------------------------------------------------------------------------- */

/* I10, as verify_i10.sql asks it. */
static void audit_successes(struct world *world)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        const struct payment_row *payment = &database->payments[row->payment];
        if (row->status != ATTEMPT_SUCCEEDED || database_has_case(database, i, CASE_STRAY_FACT))
            continue;
        for (size_t k = i + 1; k < database->attempt_count; k++) {
            const struct stored_attempt *other = &database->attempts[k];
            const char *target = database->payments[other->payment].target_id;
            const bool is_same = payment->target_id != NULL && target != NULL
                                     ? strcmp(payment->target_id, target) == 0
                                     : row->payment == other->payment;
            if (is_same && other->status == ATTEMPT_SUCCEEDED &&
                !database_has_case(database, k, CASE_STRAY_FACT)) {
                world_fail(world, "I10", "two successes of %s, and no case",
                           payment->target_id != NULL ? payment->target_id : payment->out_trade_no);
            }
        }
    }
    for (size_t i = 0; i < database->stray_count; i++) {
        if (!database_has_case(database, database->strays[i].attempt, CASE_STRAY_FACT))
            world_fail(world, "I10", "a stray fact without a case");
    }
}

static bool has_owner(const struct world *world, size_t payment)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->task_count; i++) {
        const struct stored_task *row = &database->tasks[i];
        if (row->status != TASK_RESOLVED && database->attempts[row->attempt].payment == payment)
            return true;
    }
    return database_payment_has_open_case(database, payment, false);
}

/* I13: final, or somebody has it in hand; with nothing left to be delivered there is no other. */
static void audit_owners(struct world *world)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->payment_count; i++) {
        const struct payment_row *row = &database->payments[i];
        const bool waits = row->status == PAYMENT_CREATED || row->status == PAYMENT_AUTHORIZING;
        if (waits && !has_owner(world, i))
            world_fail(world, "I13", "payment %s is %s, and nobody has it in hand",
                       row->out_trade_no, payment_state_name((int)row->status));
    }
    for (size_t i = 0; i < database->key_count; i++) {
        const struct stored_key *row = &database->keys[i];
        if (row->answer.status == ANSWER_ACCEPTED && !uuid_is_nil(row->payment.uuid) &&
            database_payment(database, row->payment) == SIZE_MAX) {
            world_fail(world, "I13", "what was accepted under a key does not exist");
        }
    }
}

/* Every end of an attempt reached its payment, or is a stray fact. */
static void audit_applied(struct world *world)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        const struct outbox_row command = { .kind = COMMAND_SETTLE,
                                            .entity = row->id.uuid,
                                            .version = row->version,
                                            .payment = row->payment };
        if (attempt_state_is_terminal(row->status) && db_relay_unmoved(world, &command))
            world_fail(world, "I17", "the end of attempt %s was never applied",
                       world_short(world, row->id.uuid));
    }
}

/* Every producer that went on asking was answered; every message was dealt with. */
static void audit_streams(struct world *world)
{
    for (size_t i = 0; i < world->streams->count; i++) {
        const struct stored_message *message = &world->streams->messages[i];
        if (!message->is_acked && !message->is_gone)
            world_fail(world, "rest", "message %" PRIu64 " of stream %zu is never done",
                       message->sequence, message->stream);
    }
}

static void audit_events(struct world *world)
{
    const struct database *database = world->database;
    if (part_relay_is_done(world)) return;
    for (size_t i = 0; i < database->outbox_count; i++) {
        size_t count = 0;
        bool is_there = database->outbox[i].kind != 0;
        const size_t *stream = part_relay_stream(world, &count);
        for (size_t k = 0; k < count; k++) is_there = is_there || stream[k] == i;
        if (!is_there)
            world_fail(world, "I14", "event %s v%d was never published",
                       event_type_name((int)database->outbox[i].type),
                       (int)database->outbox[i].version);
    }
}

/* A transaction that is left open would hold the relay's mark for ever. */
static void audit_transactions(struct world *world)
{
    for (size_t i = 0; i < world->database->running_count; i++) {
        const struct job *job = world->database->running[i];
        if (job->xid < world->database->next_xid - RUNNING_MAX)
            world_fail(world, "rest", "transaction %" PRId64 " of %s never ends", job->xid,
                       job->worker->name);
    }
}

void audit_rest(struct world *world)
{
    audit_transactions(world);
    audit_history(world);
    audit_successes(world);
    audit_books(world);
    audit_events(world);
    audit_streams(world);
    audit_owners(world);
    audit_applied(world);
}
