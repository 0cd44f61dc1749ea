/* pipeline/command.c: see command.h. */
#include "pipeline/command.h"

#include "pipeline/value.h"

const char *command_kind_name(int code)
{
    switch (code) {
    case COMMAND_ROUTE:
        return "route";
    case COMMAND_CREATE:
        return "create";
    case COMMAND_SETTLE:
        return "settle";
    case COMMAND_NO_ROUTE:
        return "no_route";
    case COMMAND_EVIDENCE:
        return "evidence";
    default:
        return NULL;
    }
}

static struct value value_of_uuid(const struct uuid *uuid)
{
    return (struct value){ .kind = VALUE_BINARY, .bytes = { uuid->bytes, sizeof uuid->bytes } };
}

static struct value value_of_command(const struct command *command, struct arena *arena)
{
    struct value map = value_map_make(arena, 5);
    value_map_add(&map, "o", value_of_uuid(&command->outbox.uuid));
    value_map_add(&map, "p", value_of_uuid(&command->payment.uuid));
    value_map_add(&map, "e", value_of_uuid(&command->entity));
    value_map_add(&map, "n", value_of_integer(command->version));
    value_map_add(&map, "k", value_of_integer(command->kind));
    return map;
}

struct span command_batch_encode(const struct command *commands, size_t count, struct arena *arena)
{
    INVARIANT(count > 0 && count <= COMMAND_BATCH_MAX);
    struct value list = { .kind = VALUE_LIST, .count = count };
    list.items = arena_allocate(arena, count * sizeof *list.items);
    for (size_t i = 0; i < count; i++) list.items[i] = value_of_command(&commands[i], arena);
    struct value map = value_map_make(arena, 2);
    value_map_add(&map, "v", value_of_integer(COMMAND_SCHEMA_VERSION));
    value_map_add(&map, "commands", list);
    return value_write_msgpack(&map, arena);
}

static bool read_uuid(const struct value *map, const char *name, struct uuid *out)
{
    const struct value *value = value_find(map, name);
    if (value == NULL || value->kind != VALUE_BINARY) return false;
    if (value->bytes.length != sizeof out->bytes) return false;
    memcpy(out->bytes, value->bytes.data, sizeof out->bytes);
    return true;
}

static bool read_integer(const struct value *map, const char *name, int64_t *out)
{
    const struct value *value = value_find(map, name);
    if (value == NULL || value->kind != VALUE_INTEGER || value->integer < 0) return false;
    *out = value->integer;
    return true;
}

/* A kind that this build does not know was written by a newer one. */
static enum command_reading read_command(const struct value *map, struct command *out)
{
    int64_t kind;
    if (!read_uuid(map, "o", &out->outbox.uuid)) return COMMAND_MALFORMED;
    if (!read_uuid(map, "p", &out->payment.uuid)) return COMMAND_MALFORMED;
    if (!read_uuid(map, "e", &out->entity)) return COMMAND_MALFORMED;
    if (!read_integer(map, "n", &out->version)) return COMMAND_MALFORMED;
    if (!read_integer(map, "k", &kind) || kind == 0) return COMMAND_MALFORMED;
    if (kind > INT32_MAX || command_kind_name((int)kind) == NULL) return COMMAND_NEWER;
    out->kind = (enum command_kind)kind;
    return COMMAND_READ;
}

enum command_reading command_batch_decode(struct span body, struct arena *arena,
                                          const struct command **out_commands, size_t *out_count)
{
    struct value map;
    int64_t version;
    if (body.length > COMMAND_BODY_BYTES_MAX) return COMMAND_MALFORMED;
    if (value_read_msgpack(body, arena, &map, NULL) != STATUS_OK) return COMMAND_MALFORMED;
    if (!read_integer(&map, "v", &version)) return COMMAND_MALFORMED;
    if (version > COMMAND_SCHEMA_VERSION) return COMMAND_NEWER;
    const struct value *list = value_find(&map, "commands");
    if (version < 1 || list == NULL || list->kind != VALUE_LIST) return COMMAND_MALFORMED;
    if (list->count == 0 || list->count > COMMAND_BATCH_MAX) return COMMAND_MALFORMED;

    struct command *commands = arena_allocate(arena, list->count * sizeof *commands);
    for (size_t i = 0; i < list->count; i++) {
        const enum command_reading reading = read_command(&list->items[i], &commands[i]);
        if (reading != COMMAND_READ) return reading;
    }
    *out_commands = commands;
    *out_count = list->count;
    return COMMAND_READ;
}

char *command_message_id(struct outbox_id first, int64_t run, char text[COMMAND_MESSAGE_ID_SIZE])
{
    INVARIANT(run >= 0);
    char id[UUID_TEXT_SIZE];
    if (run == 0) return uuid_format(first.uuid, text);
    (void)snprintf(text, COMMAND_MESSAGE_ID_SIZE, "%s.%" PRId64, uuid_format(first.uuid, id), run);
    return text;
}
