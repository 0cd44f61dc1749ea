/*
 * pipeline/buffer.h: bytes that grow inside an arena. What was outgrown stays in the arena until
 * its reset, which at most doubles the memory.
 */
#ifndef ONCEPAY_PIPELINE_BUFFER_H
#define ONCEPAY_PIPELINE_BUFFER_H

#include "pipeline/arena.h"

/* { .arena = arena } is a valid empty one. */
struct buffer {
    struct arena *arena;
    char *data;
    size_t length;
    size_t capacity;
};

void buffer_add(struct buffer *buffer, const void *data, size_t length);
void buffer_add_byte(struct buffer *buffer, char byte);
void buffer_add_text(struct buffer *buffer, const char *text);
void buffer_add_integer(struct buffer *buffer, int64_t integer);
/* The bytes so far, with a NUL behind them that length does not count. Valid until the next add. */
struct span buffer_span(struct buffer *buffer);

#endif
