/* pipeline/buffer.c: see buffer.h. */
#include "pipeline/buffer.h"

enum { BUFFER_CAPACITY_MIN = 256 };

/* One byte is always left for the NUL. */
static void buffer_reserve(struct buffer *buffer, size_t length)
{
    INVARIANT(length < SIZE_MAX / 4 && buffer->length < SIZE_MAX / 4);
    const size_t needed = buffer->length + length + 1;
    if (needed <= buffer->capacity) return;
    size_t capacity = buffer->capacity * 2;
    if (capacity < BUFFER_CAPACITY_MIN) capacity = BUFFER_CAPACITY_MIN;
    if (capacity < needed) capacity = needed;
    char *moved = arena_allocate(buffer->arena, capacity);
    if (buffer->length > 0) memcpy(moved, buffer->data, buffer->length);
    buffer->data = moved;
    buffer->capacity = capacity;
}

void buffer_add(struct buffer *buffer, const void *data, size_t length)
{
    if (length == 0) return;
    buffer_reserve(buffer, length);
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

void buffer_add_byte(struct buffer *buffer, char byte)
{
    buffer_add(buffer, &byte, 1);
}

void buffer_add_text(struct buffer *buffer, const char *text)
{
    buffer_add(buffer, text, strlen(text));
}

void buffer_add_integer(struct buffer *buffer, int64_t integer)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, integer);
    buffer_add_text(buffer, text);
}

struct span buffer_span(struct buffer *buffer)
{
    buffer_reserve(buffer, 0);
    buffer->data[buffer->length] = '\0';
    return (struct span){ (const uint8_t *)buffer->data, buffer->length };
}
