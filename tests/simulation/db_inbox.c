/* tests/simulation/db_inbox.c: gateway_keep.sql, inbox_*.sql. */
#include "tests/simulation/check.h"
#include "tests/simulation/streams.h"

bool db_gateway_keep(struct world *world, struct inbox_id id, size_t account,
                     const struct observation *observation, struct outbox_id command)
{
    struct database *database = world->database;
    for (size_t i = 0; i < database->inbox_count; i++) {
        const struct stored_webhook *row = &database->inbox[i];
        if (row->account == account && strcmp(row->event_id, observation->provider_event) == 0)
            return false;
    }
    const size_t at = database_room(world, &database->inbox_count, INBOX_MAX, "webhook_inbox");
    database->inbox[at] =
        (struct stored_webhook){ .id = id,
                                 .account = account,
                                 .event_id = observation->provider_event,
                                 .observation = *observation,
                                 .received_us = world->now_us,
                                 .look_at_us = world->now_us + 10 * CLOCK_SECOND_US };
    database_command(world, command, COMMAND_EVIDENCE, STREAM_RECOVER + account, id.uuid, 0,
                     SIZE_MAX);
    return true;
}

/* By PSP object, else by our reference (protocol B6). */
static size_t attempt_of(const struct database *database, const struct stored_webhook *webhook)
{
    const struct observation *seen = &webhook->observation;
    for (size_t i = 0; seen->provider_object != NULL && i < database->object_count; i++) {
        const struct provider_object_row *row = &database->objects[i];
        if (row->account == webhook->account && strcmp(row->object, seen->provider_object) == 0)
            return row->attempt;
    }
    for (size_t i = 0; seen->reference != NULL && i < database->attempt_count; i++) {
        const struct stored_attempt *row = &database->attempts[i];
        if (row->account == webhook->account && strcmp(row->provider_key, seen->reference) == 0)
            return i;
    }
    return SIZE_MAX;
}

bool db_inbox_load(struct world *world, struct inbox_id id, struct inbox_row *out)
{
    const struct database *database = world->database;
    const size_t at = database_webhook(database, id);
    if (at == SIZE_MAX) return false;
    const struct stored_webhook *row = &database->inbox[at];
    const size_t attempt = attempt_of(database, row);
    *out = (struct inbox_row){ .inbox = id,
                               .is_processed = row->is_processed,
                               .observation = row->observation };
    if (attempt != SIZE_MAX) out->attempt = database->attempts[attempt].id;
    return true;
}

void db_inbox_park(struct world *world, struct inbox_id id)
{
    enum { SHIFT_MAX = 12 };
    struct stored_webhook *row = &world->database->inbox[database_webhook(world->database, id)];
    if (row->is_processed) return;
    int64_t wait_us = CLOCK_SECOND_US << (row->looks < SHIFT_MAX ? row->looks : SHIFT_MAX);
    if (wait_us > 3600 * CLOCK_SECOND_US) wait_us = 3600 * CLOCK_SECOND_US;
    row->looks++;
    row->look_at_us = world->now_us + wait_us;
    world_reach(world, REACHED_PARKED);
}

size_t db_inbox_due(struct world *world, size_t account, struct inbox_id *out, size_t limit)
{
    struct database *database = world->database;
    size_t count = 0;
    for (size_t i = 0; i < database->inbox_count && count < limit; i++) {
        struct stored_webhook *row = &database->inbox[i];
        if (row->is_processed || row->account != account || row->look_at_us > world->now_us)
            continue;
        row->look_at_us = world->now_us + 30 * CLOCK_SECOND_US;
        out[count++] = row->id;
    }
    return count;
}

void db_inbox_done(struct world *world, struct inbox_id id)
{
    struct stored_webhook *row = &world->database->inbox[database_webhook(world->database, id)];
    if (row->is_processed) return;
    row->is_processed = true;
    row->looks++;
}
