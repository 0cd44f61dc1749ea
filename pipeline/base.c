/* pipeline/base.c: see base.h. */
#include "pipeline/base.h"

const char *status_name(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return "ok";
    case STATUS_RETRY:
        return "retry";
    case STATUS_LOST_RACE:
        return "lost_race";
    case STATUS_BAD_DATA:
        return "bad_data";
    case STATUS_NOT_FOUND:
        return "not_found";
    case STATUS_STOP:
        return "stop";
    }
    UNREACHABLE("status out of range");
}

_Noreturn void invariant_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "oncepay: invariant failed: %s (%s:%d)\n", what, file, line);
    abort();
}

void *memory_allocate(size_t size)
{
    void *block = calloc(1, size == 0 ? 1 : size);
    INVARIANT(block != NULL);
    return block;
}

void *memory_resize(void *block, size_t size)
{
    void *moved = realloc(block, size == 0 ? 1 : size);
    INVARIANT(moved != NULL);
    return moved;
}

char *memory_copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = memory_allocate(size);
    memcpy(copy, text, size);
    return copy;
}
