/* tests/simulation/db_route.c: route_read.sql, route_open.sql, route_take.sql, route_deny.sql. */
#include "tests/simulation/database.h"
#include "tests/simulation/streams.h"

enum { DEADLY_CLAIMS = 6 }; /* one more than a task may be claimed without an outcome */

void db_route_read(struct world *world, struct payment_id id, int follows,
                   struct route_payment *out)
{
    const struct database *database = world->database;
    const size_t payment = database_payment(database, id);
    *out = (struct route_payment){ .now_us = world->now_us };
    if (payment == SIZE_MAX) return;
    const struct payment_row *row = &database->payments[payment];
    *out = (struct route_payment){
        .exists = true,
        .now_us = world->now_us,
        .merchant = row->merchant,
        .out_trade_no = row->out_trade_no,
        .amount = row->amount,
        .method_type = row->method_type,
        .method_token = row->method_token,
        .token_realm = row->token_realm,
        .capture_automatic = row->capture == REQUEST_CAPTURE_AUTOMATIC,
        .status = row->status,
        .version = row->version,
        .start_by_us = row->start_by_us,
        .has_attempt = database_attempt_of(database, payment, follows + 1) != SIZE_MAX,
        .has_decision = database_decision(database, payment, follows) != SIZE_MAX,
    };
}

int64_t db_route_open(struct world *world, size_t account)
{
    const struct database *database = world->database;
    int64_t open = 0;
    for (size_t i = 0; i < database->task_count; i++) {
        const struct stored_task *row = &database->tasks[i];
        open += row->status != TASK_RESOLVED && database->attempts[row->attempt].account == account;
    }
    for (size_t i = 0; i < database->fence_count; i++) {
        const struct stored_fence *row = &database->fences[i];
        if (!row->is_gone && row->account == account) open += (int64_t)row->count;
    }
    return open;
}

/* The insert trigger of payment_attempt and its unique keys. */
static void guard_attempt(struct world *world, size_t payment, const struct route_taking *take)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        if (row->account == take->account && strcmp(row->provider_key, take->provider_key) == 0)
            world_fail(world, "I3", "two attempts at one account share the key %s",
                       take->provider_key);
        if (row->payment == payment && row->ordinal == take->ordinal)
            world_fail(world, "I2", "a second attempt with ordinal %d", take->ordinal);
    }
    if (take->ordinal <= 1) return;
    const size_t before = database_attempt_of(database, payment, take->ordinal - 1);
    const struct stored_attempt *row = before == SIZE_MAX ? NULL : &database->attempts[before];
    const bool is_proven = row != NULL && row->status == ATTEMPT_FAILED &&
                           (row->certainty == CERTAINTY_NO_SIDE_EFFECT ||
                            row->certainty == CERTAINTY_DEFINITE_FAILURE);
    if (!is_proven)
        world_fail(world, "I4",
                   "attempt %d of payment %s, and the one before it is not proven failed",
                   take->ordinal, database->payments[payment].out_trade_no);
}

static void add_decision(struct world *world, struct uuid id, size_t payment, int follows,
                         const char *denied)
{
    struct database *database = world->database;
    const size_t at =
        database_room(world, &database->decision_count, PAYMENTS_MAX, "routing_decision");
    database->decisions[at] = (struct stored_decision){ id, payment, follows, denied };
}

enum status db_route_take(struct world *world, const struct route_taking *take)
{
    struct database *database = world->database;
    const size_t payment = database_payment(database, take->payment);
    struct payment_row *row = &database->payments[payment];
    const bool is_failover = take->ordinal > 1; /* the mutant's only: there is none today */
    if (row->version != take->version || (row->status != PAYMENT_CREATED && !is_failover))
        return STATUS_LOST_RACE;
    guard_attempt(world, payment, take);
    database_move_payment(world, payment, PAYMENT_AUTHORIZING, "routed",
                          (struct evidence_id){ { { 0 } } });
    const size_t at = database_room(world, &database->attempt_count, ATTEMPTS_MAX, "attempt");
    database->attempts[at] = (struct stored_attempt){
        .id = take->attempt,
        .payment = payment,
        .ordinal = take->ordinal,
        .account = take->account,
        .provider_key = take->provider_key,
        .status = ATTEMPT_CREATED,
        .certainty = CERTAINTY_NO_SIDE_EFFECT,
        .version = 1,
        .created_us = world->now_us,
    };
    if (choice_strikes(&world->choices, CHOICE_CLAIM_KILLS, (unsigned)payment))
        database->attempts[at].kills = DEADLY_CLAIMS;
    database_birth(world, ENTITY_ATTEMPT, take->attempt.uuid, payment, ATTEMPT_CREATED, "routed");
    add_decision(world, take->decision, payment, take->ordinal - 1, NULL);
    database_command(world, take->command, COMMAND_CREATE, STREAM_CREATE + take->account,
                     take->attempt.uuid, 1, payment);
    return STATUS_OK;
}

enum status db_route_deny(struct world *world, struct payment_id id, int version, int follows,
                          struct uuid decision, const char *reason, struct outbox_id command)
{
    const struct database *database = world->database;
    const size_t payment = database_payment(database, id);
    const struct payment_row *row = &database->payments[payment];
    if (row->version != version || row->status != PAYMENT_CREATED) return STATUS_LOST_RACE;
    if (database_decision(database, payment, follows) != SIZE_MAX) return STATUS_LOST_RACE;
    add_decision(world, decision, payment, follows, reason);
    database_command(world, command, COMMAND_NO_ROUTE, STREAM_SETTLE, decision, follows, payment);
    return STATUS_OK;
}
