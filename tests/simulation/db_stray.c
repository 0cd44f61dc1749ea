/* tests/simulation/db_stray.c: stray_load.sql, stray_hold.sql, stray_write.sql, … */
#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"

static bool holds_money(enum payment_state status) /* stray_load.sql: 30, 35, 40, 50, 60 */
{
    return status == PAYMENT_AUTHORIZED || status == PAYMENT_VOIDING ||
           status == PAYMENT_CAPTURING || status == PAYMENT_CAPTURED || status == PAYMENT_REFUNDING;
}

static bool is_success(enum stray_kind kind)
{
    return kind == STRAY_LATE_SUCCESS || kind == STRAY_SECOND_SUCCESS;
}

static bool is_known(const struct world *world, const struct stray_fact_input *input)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->stray_count; i++) {
        const struct stored_stray *row = &database->strays[i];
        if (strcmp(world->parts->accounts[row->account].id, input->channel_account) != 0 ||
            strcmp(row->provider_object, input->provider_object) != 0) {
            continue;
        }
        if (row->kind == input->kind || (is_success(row->kind) && is_success(input->kind)))
            return true;
    }
    return false;
}

void db_stray_load(struct world *world, const struct stray_fact_input *input,
                   struct stray_fact_rows *out)
{
    const struct database *database = world->database;
    *out = (struct stray_fact_rows){ 0 };
    const size_t payment = database_payment(database, input->payment);
    if (payment == SIZE_MAX) return;
    const struct payment_row *row = &database->payments[payment];
    const size_t target =
        database_target(database, row->merchant, row->target_kind, row->target_id);
    size_t named = SIZE_MAX;
    out->has_payment = true;
    out->is_known = is_known(world, input);
    out->merchant = row->merchant;
    out->target_kind = row->target_kind;
    out->target_id = row->target_id;
    out->view = (struct payment_view){ .payment = row->id,
                                       .out_trade_no = row->out_trade_no,
                                       .status = row->status,
                                       .version = row->version,
                                       .certainty = row->certainty,
                                       .amount = row->amount,
                                       .reason = row->reason,
                                       .captured_minor = row->captured_minor };
    if (target != SIZE_MAX) {
        named = database->targets[target].payment;
        out->pointer_payment = database->payments[named].id;
        out->pointer_version = database->targets[target].version;
        out->view.hold = database->targets[target].hold;
        out->other_holds_money = named != payment && holds_money(database->payments[named].status);
    }
    out->other_holds_money = out->other_holds_money || holds_money(row->status);
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *attempt = &database->attempts[i];
        const bool is_near = attempt->payment == payment || attempt->payment == named;
        if (!is_near || attempt->status != ATTEMPT_CREATED ||
            out->unsent_count == STRAY_FACT_ATTEMPTS_MAX) {
            continue;
        }
        out->unsent[out->unsent_count] = attempt->id;
        out->unsent_payments[out->unsent_count++] = database->payments[attempt->payment].id;
    }
}

/* stray_hold.sql: false if the pointer moved. */
static bool pointer_stands(const struct database *database, const struct stray_fact_rows *rows,
                           size_t *out_target)
{
    *out_target = SIZE_MAX;
    const bool is_held = rows->view.hold != NULL && strcmp(rows->view.hold, "stray_fact") == 0;
    if (uuid_is_nil(rows->pointer_payment.uuid) || is_held) return true;
    const size_t target =
        database_target(database, rows->merchant, rows->target_kind, rows->target_id);
    const struct stored_target *row = &database->targets[target];
    if (row->version != rows->pointer_version ||
        !uuid_equal(database->payments[row->payment].id.uuid, rows->pointer_payment.uuid)) {
        return false;
    }
    *out_target = target;
    return true;
}

static void write_fact(struct world *world, const struct stray_fact_input *input,
                       const struct stray_fact_plan *plan, size_t payment)
{
    struct database *database = world->database;
    struct payment_row *row = &database->payments[payment];
    const size_t attempt = database_attempt(database, input->attempt);
    if (input->applied_version > 0) {
        row->applied_attempt = input->attempt;
        row->applied_version = input->applied_version;
    }
    database_move_payment(world, payment, row->status, "stray", input->evidence);
    const size_t at = database_room(world, &database->stray_count, STRAYS_MAX, "stray_fact");
    database->strays[at] = (struct stored_stray){ .id = input->id,
                                                  .payment = payment,
                                                  .attempt = attempt,
                                                  .kind = plan->kind,
                                                  .account = database->attempts[attempt].account,
                                                  .provider_object = input->provider_object,
                                                  .amount = input->amount };
    world_reach(world, REACHED_STRAY_FACT);
    world_say(world, "  stray fact: %s of %s", stray_kind_name((int)plan->kind),
              input->provider_object);
    struct outbox_id event = { world_id(world) };
    database_event(world, event, plan->event, payment, row->version, false);
}

enum status db_stray_write(struct world *world, const struct stray_fact_input *input,
                           const struct stray_fact_rows *rows, const struct stray_fact_plan *plan,
                           struct command *out_commands, size_t *out_count)
{
    struct database *database = world->database;
    *out_count = 0;
    const size_t payment = database_payment(database, input->payment);
    const struct payment_row *row = &database->payments[payment];
    size_t target = SIZE_MAX;
    if (plan->is_new) {
        const bool stands = (int64_t)row->version == rows->view.version &&
                            row->status == rows->view.status &&
                            pointer_stands(database, rows, &target);
        if (!stands) return STATUS_LOST_RACE;
    }
    int32_t moved = 0;
    if (input->observed != NULL) TRY(db_attempt_result(world, input->observed, &moved));
    if (!plan->is_new) return STATUS_OK;
    if (target != SIZE_MAX) {
        database->targets[target].hold = "stray_fact";
        database->targets[target].version++;
    }
    write_fact(world, input, plan, payment);
    for (size_t i = 0; i < plan->end_count; i++) {
        const int32_t version = db_attempt_fail_local(world, &plan->ends[i]);
        if (version == 0) continue;
        out_commands[(*out_count)++] = (struct command){ .outbox = plan->ends[i].command,
                                                         .payment = plan->ends[i].payment,
                                                         .entity = plan->ends[i].attempt.uuid,
                                                         .version = version,
                                                         .kind = COMMAND_SETTLE };
    }
    const struct case_opening opening = { .id = input->case_id,
                                          .kind = CASE_STRAY_FACT,
                                          .payment = input->payment,
                                          .attempt = input->attempt,
                                          .event = input->case_event };
    db_case_open(world, &opening);
    return STATUS_OK;
}
