/* tests/simulation/db_intake.c: intake_read.sql, intake_view.sql, intake_accept.sql, … */
#include "tests/simulation/check.h"
#include "tests/simulation/streams.h"

static size_t find_key(const struct database *database, const struct pay_request *request)
{
    for (size_t i = 0; i < database->key_count; i++) {
        const struct stored_key *row = &database->keys[i];
        if (memcmp(row->key_hash, request->key_hash, sizeof row->key_hash) == 0 &&
            strcmp(row->merchant, request->merchant) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static bool text_is(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_same_content(const struct payment_row *row, const struct pay_request *request)
{
    return text_is(row->target_kind, request->target_kind) &&
           text_is(row->target_id, request->target_id) &&
           money_equal(row->amount, request->amount) &&
           text_is(row->method_type, request->method_type) &&
           text_is(row->method_token, request->method_token) && row->capture == request->capture &&
           text_is(row->metadata, request->metadata);
}

void db_intake_read(struct world *world, const struct pay_request *request,
                    struct intake_found *out)
{
    const struct database *database = world->database;
    *out = (struct intake_found){ .now_us = world->now_us };
    const size_t key = find_key(database, request);
    if (key != SIZE_MAX) {
        const struct stored_key *row = &database->keys[key];
        out->has_key = true;
        out->key_is_expired = row->expires_us <= world->now_us;
        memcpy(out->fingerprint, row->fingerprint, sizeof out->fingerprint);
        out->fingerprint_version = REQUEST_FINGERPRINT_VERSION;
        out->answer = row->answer;
        out->key_expires_us = row->expires_us;
    }
    const size_t payment =
        database_payment_by_number(database, request->merchant, request->out_trade_no);
    if (payment != SIZE_MAX) {
        out->payment = database->payments[payment].id;
        out->is_same = is_same_content(&database->payments[payment], request);
    }
    const size_t target =
        database_target(database, request->merchant, request->target_kind, request->target_id);
    if (target != SIZE_MAX) {
        const struct stored_target *row = &database->targets[target];
        out->active = database->payments[row->payment].id;
        out->active_version = row->version;
        out->is_held = row->hold != NULL;
        out->active_status = database->payments[row->payment].status;
    }
}

static bool has_open_attempt(const struct database *database, size_t payment)
{
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        if (row->payment == payment && !attempt_state_is_terminal(row->status)) return true;
    }
    return false;
}

static bool has_task(const struct database *database, size_t payment)
{
    for (size_t i = 0; i < database->task_count; i++) {
        const struct stored_task *row = &database->tasks[i];
        if (row->status != TASK_RESOLVED && database->attempts[row->attempt].payment == payment)
            return true;
    }
    return false;
}

void db_intake_view(struct world *world, struct payment_id id, struct payment_view *out)
{
    const struct database *database = world->database;
    const size_t payment = database_payment(database, id);
    const struct payment_row *row = &database->payments[payment];
    const size_t pointer = database_pointer_of(database, payment);
    const char *hold = pointer == SIZE_MAX ? NULL : database->targets[pointer].hold;
    const bool is_over = row->status == PAYMENT_FAILED || row->status == PAYMENT_CANCELED;
    *out = (struct payment_view){
        .payment = row->id,
        .out_trade_no = row->out_trade_no,
        .status = row->status,
        .certainty = row->certainty,
        .amount = row->amount,
        .captured_minor = row->captured_minor,
        .reason = row->reason,
        .hold = hold,
        .version = row->version,
        .safe_to_pay_again = is_over && hold == NULL && !has_task(database, payment) &&
                             !database_payment_has_stray(database, payment) &&
                             !database_payment_has_open_case(database, payment, false) &&
                             row->timer_due_us == 0 && !has_open_attempt(database, payment),
    };
}

/* ON CONFLICT … DO UPDATE … WHERE expires_at <= now(): false if a live key is there. */
static bool write_key(struct world *world, const struct pay_request *request,
                      struct payment_id payment, int64_t lifetime_us,
                      const struct intake_answer *answer)
{
    struct database *database = world->database;
    size_t at = find_key(database, request);
    if (at != SIZE_MAX && database->keys[at].expires_us > world->now_us) return false;
    if (at == SIZE_MAX) at = database_room(world, &database->key_count, KEYS_MAX, "key");
    struct stored_key *row = &database->keys[at];
    *row = (struct stored_key){ .merchant = request->merchant,
                                .answer = *answer,
                                .expires_us = world->now_us + lifetime_us,
                                .payment = payment };
    memcpy(row->key_hash, request->key_hash, sizeof row->key_hash);
    memcpy(row->fingerprint, request->fingerprint, sizeof row->fingerprint);
    return true;
}

static bool has_live_key(const struct world *world, const struct pay_request *request)
{
    const size_t key = find_key(world->database, request);
    return key != SIZE_MAX && world->database->keys[key].expires_us > world->now_us;
}

/* The pointer's CAS: false if it is not as it was read. */
static bool pointer_stands(const struct world *world, const struct intake_accepting *accept)
{
    const struct database *database = world->database;
    const struct pay_request *request = accept->request;
    if (request->target_id == NULL) return true;
    const size_t at =
        database_target(database, request->merchant, request->target_kind, request->target_id);
    if (accept->pointer_version == 0) return at == SIZE_MAX;
    const struct stored_target *row = at == SIZE_MAX ? NULL : &database->targets[at];
    const bool is_free = row != NULL && (row->hold == NULL || world->mutant == MUTANT_HOLD_IGNORED);
    return is_free && row->version == accept->pointer_version &&
           uuid_equal(database->payments[row->payment].id.uuid, accept->pointer_payment.uuid);
}

static void write_pointer(struct world *world, const struct pay_request *request, size_t payment)
{
    struct database *database = world->database;
    if (request->target_id == NULL) return;
    size_t at =
        database_target(database, request->merchant, request->target_kind, request->target_id);
    if (at == SIZE_MAX) {
        at = database_room(world, &database->target_count, TARGETS_MAX, "active_payment");
        database->targets[at] = (struct stored_target){ .merchant = request->merchant,
                                                        .kind = request->target_kind,
                                                        .target = request->target_id,
                                                        .payment = payment,
                                                        .version = 1 };
        return;
    }
    struct stored_target *row = &database->targets[at];
    if (!payment_state_is_terminal(database->payments[row->payment].status) || row->hold != NULL) {
        world_fail(world, "I1", "the pointer leaves payment %s, which is %s",
                   database->payments[row->payment].out_trade_no,
                   row->hold != NULL
                       ? "held"
                       : payment_state_name((int)database->payments[row->payment].status));
    }
    world_reach(world, REACHED_PAID_AGAIN);
    row->payment = payment;
    row->version++;
}

enum status db_intake_accept(struct world *world, const struct intake_accepting *accept)
{
    struct database *database = world->database;
    const struct pay_request *request = accept->request;
    const bool is_known =
        database_payment_by_number(database, request->merchant, request->out_trade_no) != SIZE_MAX;
    if (has_live_key(world, request) || !pointer_stands(world, accept) || is_known)
        return STATUS_LOST_RACE;
    (void)!write_key(world, request, accept->id, accept->key_lifetime_us, &accept->answer);
    const size_t at = database_room(world, &database->payment_count, PAYMENTS_MAX, "payment");
    database->payments[at] = (struct payment_row){
        .id = accept->id,
        .merchant = request->merchant,
        .out_trade_no = request->out_trade_no,
        .target_kind = request->target_kind,
        .target_id = request->target_id,
        .amount = request->amount,
        .method_type = request->method_type,
        .method_token = request->method_token,
        .token_realm = request->method_token_realm,
        .capture = request->capture,
        .metadata = request->metadata,
        .status = PAYMENT_CREATED,
        .version = 1,
        .start_by_us = accept->start_by_us,
        .expires_at_us = request->expires_at_us,
    };
    write_pointer(world, request, at);
    database_birth(world, ENTITY_PAYMENT, accept->id.uuid, at, PAYMENT_CREATED, "accepted");
    database_event(world, accept->event, EVENT_PAYMENT_ACCEPTED, at, 1, false);
    database_command(world, accept->command, COMMAND_ROUTE, STREAM_ROUTE, accept->id.uuid, 0, at);
    return STATUS_OK;
}

enum status db_intake_answer(struct world *world, const struct pay_request *request,
                             struct payment_id payment, int64_t key_lifetime_us,
                             const struct intake_answer *answer)
{
    return write_key(world, request, payment, key_lifetime_us, answer) ? STATUS_OK
                                                                       : STATUS_LOST_RACE;
}

void db_intake_reject(struct world *world, struct outbox_id id)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->outbox_count; i++) {
        if (uuid_equal(database->outbox[i].id.uuid, id.uuid)) return;
    }
    database_event(world, id, EVENT_REQUEST_REJECTED, SIZE_MAX, 0, false);
}
