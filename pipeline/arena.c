/*
 * pipeline/arena.c: see arena.h. Blocks double up to a cap; big requests get a block of their own.
 */
#include "pipeline/arena.h"

#include <stdarg.h>

enum { ARENA_BLOCK_BYTES_MIN = 16 * 1024, ARENA_BLOCK_BYTES_MAX = 1024 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t size;
    size_t used;
    size_t padding_; /* keeps the data 16-byte aligned */
};

void *arena_allocate(struct arena *arena, size_t size)
{
    INVARIANT(size < SIZE_MAX / 2);
    const size_t rounded = (size + 15u) & ~(size_t)15u;
    struct arena_block *head = arena->head;
    if (head == NULL || head->size - head->used < rounded) {
        size_t block_size = head == NULL ? ARENA_BLOCK_BYTES_MIN : head->size * 2;
        if (block_size > ARENA_BLOCK_BYTES_MAX) block_size = ARENA_BLOCK_BYTES_MAX;
        if (block_size < rounded) block_size = rounded;
        struct arena_block *block = memory_resize(NULL, sizeof *block + block_size);
        *block = (struct arena_block){ .next = head, .size = block_size };
        arena->head = head = block;
    }
    uint8_t *data = (uint8_t *)(head + 1) + head->used;
    head->used += rounded;
    memset(data, 0, rounded);
    return data;
}

char *arena_copy(struct arena *arena, const void *data, size_t length)
{
    char *copy = arena_allocate(arena, length + 1);
    if (length > 0) memcpy(copy, data, length);
    return copy;
}

/* Most texts are short: they are printed once. */
char *arena_format(struct arena *arena, const char *format, ...)
{
    char brief[256];
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(brief, sizeof brief, format, arguments);
    va_end(arguments);
    INVARIANT(length >= 0);
    char *text = arena_allocate(arena, (size_t)length + 1);
    if ((size_t)length < sizeof brief) {
        memcpy(text, brief, (size_t)length);
    } else {
        (void)vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    return text;
}

void arena_reset(struct arena *arena)
{
    struct arena_block *keep = arena->head;
    if (keep == NULL) return;
    struct arena_block *block = keep->next;
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    keep->next = NULL;
    keep->used = 0;
}

void arena_finish(struct arena *arena)
{
    arena_reset(arena);
    free(arena->head);
    arena->head = NULL;
}
