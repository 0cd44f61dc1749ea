/*
 * pipeline/arena.h: memory that lives exactly as long as one batch. Everything decided for a
 * batch is taken from its arena and given back in one call; nothing in it is freed singly.
 */
#ifndef ONCEPAY_PIPELINE_ARENA_H
#define ONCEPAY_PIPELINE_ARENA_H

#include "pipeline/base.h"

struct arena_block;

struct arena {
    struct arena_block *head;
};

/* Zeroed, 16-byte aligned memory, valid until arena_reset or arena_finish. Never NULL. */
void *arena_allocate(struct arena *arena, size_t size);

/* A NUL-terminated copy; length may be 0. The copied bytes may contain NUL. */
char *arena_copy(struct arena *arena, const void *data, size_t length);
char *arena_format(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);

static inline struct span arena_copy_span(struct arena *arena, struct span span)
{
    return (struct span){ (const uint8_t *)arena_copy(arena, span.data, span.length), span.length };
}

/* Makes everything handed out invalid and keeps one block for the next batch. */
void arena_reset(struct arena *arena);
/* Frees all; a zeroed or finished arena is a valid empty one. */
void arena_finish(struct arena *arena);

#endif
