/* tests/simulation/db_settle.c: settle_read.sql, settle_hold.sql, settle_move.sql. */
#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"

static void read_payment(const struct database *database, size_t payment,
                         struct settle_payment *out)
{
    const struct payment_row *row = &database->payments[payment];
    const size_t applied = database_attempt(database, row->applied_attempt);
    *out = (struct settle_payment){
        .exists = true,
        .id = row->id,
        .merchant = row->merchant,
        .out_trade_no = row->out_trade_no,
        .amount = row->amount,
        .capture_manual = row->capture == REQUEST_CAPTURE_MANUAL,
        .status = row->status,
        .version = row->version,
        .certainty = row->certainty,
        .reason = row->reason,
        .announced = row->announced,
        .authorised_minor = row->authorised_minor,
        .captured_minor = row->captured_minor,
        .applied_attempt = row->applied_attempt,
        .applied_ordinal = applied == SIZE_MAX ? 0 : database->attempts[applied].ordinal,
        .applied_version = row->applied_version,
    };
}

/* Does the payment's history cite the evidence of the attempt's end? */
static bool is_cited(const struct database *database, const struct stored_attempt *attempt)
{
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

static void read_attempt(struct world *world, size_t attempt, struct settle_attempt *out)
{
    const struct database *database = world->database;
    const struct stored_attempt *row = &database->attempts[attempt];
    const struct stored_evidence *proof = database_evidence(database, row->evidence);
    const struct request_sums sums =
        database_requests_of(database, attempt, (struct request_id){ { { 0 } } }, false);
    const size_t task = database_task_of(database, attempt);
    *out = (struct settle_attempt){
        .exists = true,
        .id = row->id,
        .operation = OPERATION_CREATE,
        .ordinal = row->ordinal,
        .status = row->status,
        .certainty = row->certainty,
        .version = row->version,
        .decline = row->decline,
        .error_code = row->error_code,
        .channel_account = world->parts->accounts[row->account].id,
        .provider_key = row->provider_key,
        .provider_object = row->provider_object,
        .amount = database->payments[row->payment].amount,
        .handed_out = row->handed_out,
        .evidence = row->evidence,
        .is_cited = is_cited(database, row),
        .open_requests = sums.open,
        .has_known_answer = sums.is_answered,
        .last_send_by_us = sums.last_send_by_us,
    };
    if (proof != NULL) {
        out->evidence_source = (int)proof->observation.source;
        out->has_evidence_amount = proof->observation.has_amount;
        out->evidence_amount = proof->observation.amount;
        if (out->provider_object == NULL) out->provider_object = proof->observation.provider_object;
    }
    if (task != SIZE_MAX && database->tasks[task].due_us != INT64_MAX)
        out->next_check_us = database->tasks[task].due_us;
}

void db_settle_read(struct world *world, const struct command *command, struct settle_facts *out)
{
    const struct database *database = world->database;
    *out = (struct settle_facts){ .around.now_us = world->now_us };
    const size_t payment = database_payment(database, command->payment);
    if (payment == SIZE_MAX) return;
    read_payment(database, payment, &out->payment);
    if (command->kind == COMMAND_SETTLE) {
        const size_t attempt = database_attempt(database, (struct attempt_id){ command->entity });
        if (attempt != SIZE_MAX && database->attempts[attempt].payment == payment)
            read_attempt(world, attempt, &out->attempt);
    } else {
        const size_t decision = database_decision(database, payment, (int)command->version);
        if (decision != SIZE_MAX) out->around.decision = database->decisions[decision].denied;
    }
    const size_t pointer = database_pointer_of(database, payment);
    if (pointer != SIZE_MAX) {
        out->around.has_pointer = true;
        out->around.pointer_version = database->targets[pointer].version;
        out->around.pointer_hold = database->targets[pointer].hold;
    }
    out->around.has_stray_fact = database_payment_has_stray(database, payment);
    out->around.has_case = database_payment_has_open_case(database, payment, false);
    out->around.has_grave_case = database_payment_has_open_case(database, payment, true);
}

/* settle_hold.sql: false if the pointer is not at its version. */
static bool hold_stands(const struct database *database, size_t payment,
                        const struct settle_move *move)
{
    if (move->hold == NULL) return true;
    const size_t pointer = database_pointer_of(database, payment);
    return pointer != SIZE_MAX &&
           database->targets[pointer].version == move->around->pointer_version;
}

static void write_hold(struct world *world, size_t payment, const struct settle_move *move)
{
    struct database *database = world->database;
    if (move->hold != NULL) {
        struct stored_target *row = &database->targets[database_pointer_of(database, payment)];
        row->hold = move->hold;
        row->version++;
        world_reach(world, REACHED_HELD);
        world_say(world, "  its target is held: %s", move->hold);
    }
    if (!uuid_is_nil(move->timer) && database->payments[payment].timer_due_us == 0)
        database->payments[payment].timer_due_us = move->timer_due_us;
}

enum status db_settle_move(struct world *world, const struct settle_move *move,
                           const struct settle_decision *decision, struct outbox_id event)
{
    struct database *database = world->database;
    const size_t payment = database_payment(database, move->payment->id);
    struct payment_row *row = &database->payments[payment];
    if (row->version != move->payment->version || row->status != move->payment->status ||
        !hold_stands(database, payment, move)) {
        return STATUS_LOST_RACE;
    }
    write_hold(world, payment, move);
    row->certainty = (int)move->certainty;
    row->reason = move->reason;
    row->announced = move->announced;
    row->authorised_minor = move->authorised_minor;
    row->captured_minor = move->captured_minor;
    if (!uuid_is_nil(move->applied_attempt.uuid)) {
        row->applied_attempt = move->applied_attempt;
        row->applied_version = move->applied_version;
    }
    database_move_payment(world, payment, move->next_status, move->history_event, move->evidence);
    if (decision->event != 0) {
        database_event(world, event, (enum event_type)decision->event, payment, row->version,
                       decision->is_safe_to_pay_again);
    }
    return STATUS_OK;
}
