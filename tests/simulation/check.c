/* tests/simulation/check.c: see check.h. What is looked at while the run goes on. */
#include "tests/simulation/check.h"

#include "tests/simulation/parts.h"

const char *reached_word(unsigned what)
{
    static const char *const WORDS[] = {
#define REACHED(name, word) word,
#include "tests/simulation/reached.def"
#undef REACHED
    };
    return WORDS[what];
}

/* --- after each step -------------------------------------------------------------------------- */

/* I1: a live payment is what its target's pointer names, and the reverse. */
static void check_pointer(struct world *world, size_t payment)
{
    const struct database *database = world->database;
    const struct payment_row *row = &database->payments[payment];
    if (row->target_id == NULL) return;
    const size_t target =
        database_target(database, row->merchant, row->target_kind, row->target_id);
    if (target == SIZE_MAX) {
        world_fail(world, "I1", "the target of payment %s has no pointer", row->out_trade_no);
        return;
    }
    const size_t named = database->targets[target].payment;
    if (!payment_state_is_terminal(row->status) && named != payment) {
        world_fail(world, "I1", "payment %s is live, and the pointer of %s names %s",
                   row->out_trade_no, row->target_id, database->payments[named].out_trade_no);
    }
}

/* I10: two payments of one target never hold money at once. */
static void check_successes(struct world *world, size_t payment)
{
    const struct database *database = world->database;
    const struct payment_row *row = &database->payments[payment];
    const bool holds = row->status == PAYMENT_CAPTURED || row->status == PAYMENT_AUTHORIZED;
    if (row->target_id == NULL || !holds) return;
    for (size_t i = 0; i < database->payment_count; i++) {
        const struct payment_row *other = &database->payments[i];
        if (i != payment && other->target_id != NULL &&
            strcmp(other->target_id, row->target_id) == 0 &&
            (other->status == PAYMENT_CAPTURED || other->status == PAYMENT_AUTHORIZED)) {
            world_fail(world, "I10", "payments %s and %s of one target are both paid",
                       row->out_trade_no, other->out_trade_no);
        }
    }
}

/* I18: an open create has its payment in AUTHORIZING or CANCELING; what is paid has a success. */
static void check_creates(struct world *world, size_t payment)
{
    const struct database *database = world->database;
    const struct payment_row *row = &database->payments[payment];
    bool has_success = false;
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *attempt = &database->attempts[i];
        if (attempt->payment != payment) continue;
        has_success = has_success || attempt->status == ATTEMPT_SUCCEEDED;
        const bool is_open = !attempt_state_is_terminal(attempt->status);
        const bool may_be = row->status == PAYMENT_AUTHORIZING ||
                            row->status == PAYMENT_CANCELING ||
                            database_has_case(database, i, CASE_UNRECORDED_SEND);
        if (is_open && !may_be) {
            world_fail(world, "I18", "payment %s is %s and its create is %s", row->out_trade_no,
                       payment_state_name((int)row->status),
                       attempt_state_name((int)attempt->status));
        }
    }
    const bool needs_success = row->status == PAYMENT_AUTHORIZED || row->status == PAYMENT_CAPTURED;
    if (needs_success && !has_success)
        world_fail(world, "I18", "payment %s is %s and no create of it succeeded",
                   row->out_trade_no, payment_state_name((int)row->status));
}

void check_step(struct world *world)
{
    struct database *database = world->database;
    if (!database->is_dirty) return;
    database->is_dirty = false;
    for (size_t i = 0; i < database->payment_count; i++) {
        if (!database->payments[i].is_dirty) continue;
        database->payments[i].is_dirty = false;
        check_pointer(world, i);
        check_successes(world, i);
        check_creates(world, i);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

void check_request_row(struct world *world, size_t attempt, enum request_kind kind)
{
    const struct database *database = world->database;
    const struct payment_row *payment = &database->payments[database->attempts[attempt].payment];
    const size_t target =
        database_target(database, payment->merchant, payment->target_kind, payment->target_id);
    const bool is_send = kind == REQUEST_CREATE || kind == REQUEST_REPLAY;
    if (is_send && (payment_state_is_terminal(payment->status) ||
                    payment->status == PAYMENT_CANCELING || payment->status == PAYMENT_CAPTURED)) {
        world_fail(world, "I20", "a %s is fenced, and payment %s is %s",
                   request_kind_name((int)kind), payment->out_trade_no,
                   payment_state_name((int)payment->status));
    }
    if (kind != REQUEST_CREATE) return;
    if (payment->start_by_us <= world->now_us)
        world_fail(world, "C8", "a create of payment %s is fenced after its start_by",
                   payment->out_trade_no);
    if (target != SIZE_MAX && database->targets[target].hold != NULL)
        world_fail(world, "D", "a create of payment %s is fenced, and its target is held: %s",
                   payment->out_trade_no, database->targets[target].hold);
}

void check_send(struct world *world, const struct call *call)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->request_count; i++) {
        const struct stored_request *row = &database->requests[i];
        if (!uuid_equal(row->id.uuid, call->request.uuid)) continue;
        if (world->now_us > row->send_by_us)
            world_fail(world, "I20", "%s sends %" PRId64 " ms after send_by", call->worker->name,
                       (world->now_us - row->send_by_us) / 1000);
        return;
    }
    world_fail(world, "I20", "%s sends a %s without a request row", call->worker->name,
               request_kind_name((int)call->kind));
}

void check_safe(struct world *world, size_t payment)
{
    const struct database *database = world->database;
    const struct payment_row *row = &database->payments[payment];
    const size_t pointer = database_pointer_of(database, payment);
    const bool is_held = pointer != SIZE_MAX && database->targets[pointer].hold != NULL;
    if (is_held || database_payment_has_stray(database, payment) ||
        database_payment_has_open_case(database, payment, false)) {
        world_fail(world, "E", "payment %s is said to be safe to pay again, and %s",
                   row->out_trade_no, is_held ? "its target is held" : "something of it is open");
    }
}

void check_charge(struct world *world, const struct charge *charge)
{
    const struct bank *bank = world->bank;
    const struct database *database = world->database;
    for (size_t i = 0; i < bank->charge_count; i++) {
        const struct charge *other = &bank->charges[i];
        if (other == charge || other->state != CHARGE_SUCCEEDED ||
            other->account != charge->account || strcmp(other->key, charge->key) != 0) {
            continue;
        }
        world_fail(world, "I9", "two charges under the key %s", charge->key);
    }
    if (bank->profile == BANK_DECLINED_PAYABLE_UNTOLD) return;
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *attempt = &database->attempts[i];
        if (attempt->account != charge->account ||
            strcmp(attempt->provider_key, charge->key) != 0 ||
            !database->payments[attempt->payment].is_told_safe) {
            continue;
        }
        world_fail(world, "E", "money moved for payment %s, which was said to be safe to pay again",
                   database->payments[attempt->payment].out_trade_no);
    }
}

void check_observation(struct world *world, struct evidence_id evidence)
{
    if (database_evidence(world->database, evidence) == NULL)
        world_fail(world, "D", "an observation was made, and there is no row of it");
}

void check_unjudged(struct world *world, const struct finding *finding)
{
    const struct database *database = world->database;
    const struct inbox_id inbox = finding->inbox;
    const size_t at = uuid_is_nil(inbox.uuid) ? SIZE_MAX : database_webhook(database, inbox);
    struct attempt_row row;
    /* A decline may have been no proof when another copy was judged, and be one now; of what has no
     * record of sending the retrieve tells. */
    if (at == SIZE_MAX || !database->inbox[at].is_processed ||
        finding->observation.kind != OBSERVED_SUCCEEDED ||
        finding->verdict.contradiction == CONTRADICTION_UNRECORDED_SEND ||
        !db_attempt_load(world, finding->attempt.attempt, finding->request, &row)) {
        return;
    }
    const struct judge_attempt attempt = attempt_row_judge(&row);
    const struct verdict verdict =
        judge(OPERATION_CREATE, &finding->observation, &world->bank->capability, &attempt);
    if (verdict.changes)
        world_fail(world, "D", "webhook %s counts as processed, and it would still move it",
                   database->inbox[at].event_id);
}

/* --- messages --------------------------------------------------------------------------------- */

void check_ack(struct world *world, size_t stream, const struct command *command)
{
    const struct outbox_row row = {
        .kind = command->kind,
        .stream = stream,
        .entity = command->entity,
        .version = (int32_t)command->version,
        .payment = database_payment(world->database, command->payment),
    };
    /* A webhook without a match is parked, and found by the sweep. */
    if (command->kind == COMMAND_EVIDENCE || row.payment == SIZE_MAX) return;
    if (db_relay_unmoved(world, &row)) {
        world_fail(world, "H1", "a %s command is acked and its work is not done",
                   command_kind_name((int)command->kind));
    }
}

static bool has_key_row(const struct world *world, const struct pay_request *request,
                        const struct stored_key **out)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->key_count; i++) {
        *out = &database->keys[i];
        if (memcmp((*out)->key_hash, request->key_hash, sizeof request->key_hash) == 0) return true;
    }
    return false;
}

void check_intake_ack(struct world *world, const struct pay_request *request)
{
    const struct stored_key *key = NULL;
    if (!has_key_row(world, request, &key))
        world_fail(world, "H1", "request %s is acked and nothing is stored under its key",
                   request->out_trade_no);
}

void check_early(struct world *world, const struct pay_request *request)
{
    const struct stored_key *key = NULL;
    if (!has_key_row(world, request, &key)) {
        world_fail(world, "E", "Redis answers request %s, and nothing is stored under its key",
                   request->out_trade_no);
    } else if (key->expires_us <= world->now_us) {
        world_fail(world, "E", "Redis answers request %s %" PRId64 " us after its key expired",
                   request->out_trade_no, world->now_us - key->expires_us);
    }
}

int64_t check_answer(struct world *world, const struct pay_request *request,
                     const struct intake_answer *answer)
{
    const struct stored_key *key = NULL;
    const struct database *database = world->database;
    const bool is_known = has_key_row(world, request, &key);
    const bool is_acceptance = answer->status == ANSWER_ACCEPTED;
    if (is_acceptance && database_payment_by_number(database, request->merchant,
                                                    request->out_trade_no) == SIZE_MAX) {
        world_fail(world, "I22", "request %s is told that it is accepted, and it is not stored",
                   request->out_trade_no);
    }
    if (answer->status == problem_status(PROBLEM_IN_PROGRESS) && !is_known)
        world_fail(world, "I22", "request %s is refused, and nothing is stored under its key",
                   request->out_trade_no);
    if (!is_known || key->expires_us <= world->now_us) return 0;
    const bool is_ours =
        memcmp(key->fingerprint, request->fingerprint, sizeof request->fingerprint) == 0;
    if (is_ours && !span_equal(key->answer.body, answer->body))
        world_fail(world, "I22", "request %s hears another answer than the stored one",
                   request->out_trade_no);
    return key->expires_us;
}
