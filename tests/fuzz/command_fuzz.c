/*
 * tests/fuzz/command_fuzz.c: the body of a stage's message (pipeline/command.h). What was read is
 * read again from what it is written as.
 */
#include "pipeline/command.h"
#include "tests/fuzz/fuzz.h"

static void check_command(const struct command *command, const struct command *again)
{
    INVARIANT(command_kind_name((int)command->kind) != NULL && command->version >= 0);
    INVARIANT(uuid_equal(command->outbox.uuid, again->outbox.uuid));
    INVARIANT(uuid_equal(command->payment.uuid, again->payment.uuid));
    INVARIANT(uuid_equal(command->entity, again->entity));
    INVARIANT(command->version == again->version && command->kind == again->kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    const struct command *commands;
    const struct command *again;
    size_t count;
    size_t count_again;
    if (command_batch_decode((struct span){ data, size }, &arena, &commands, &count) ==
        COMMAND_READ) {
        INVARIANT(count > 0 && count <= COMMAND_BATCH_MAX);
        const struct span written = command_batch_encode(commands, count, &arena);
        INVARIANT(written.length <= COMMAND_BODY_BYTES_MAX);
        INVARIANT(command_batch_decode(written, &arena, &again, &count_again) == COMMAND_READ);
        INVARIANT(count_again == count);
        for (size_t i = 0; i < count; i++) check_command(&commands[i], &again[i]);
    }
    arena_finish(&arena);
    return 0;
}
