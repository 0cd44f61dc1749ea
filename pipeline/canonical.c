/* pipeline/canonical.c: see canonical.h. */
#include "pipeline/canonical.h"

#include "pipeline/buffer.h"

static int member_compare(const void *a, const void *b)
{
    return strcmp(((const struct value_member *)a)->name, ((const struct value_member *)b)->name);
}

static void print_canonical(const struct value *value, struct arena *arena, struct buffer *out);

static void print_map(const struct value *map, struct arena *arena, struct buffer *out)
{
    const size_t size = map->count * sizeof *map->members;
    struct value_member *sorted = arena_allocate(arena, size);
    if (size > 0) {
        memcpy(sorted, map->members, size);
        qsort(sorted, map->count, sizeof *sorted, member_compare);
    }
    buffer_add_byte(out, '{');
    for (size_t i = 0; i < map->count; i++) {
        if (i > 0) buffer_add_byte(out, ',');
        value_print_json_text(span_of_text(sorted[i].name), out);
        buffer_add_byte(out, ':');
        print_canonical(&sorted[i].value, arena, out);
    }
    buffer_add_byte(out, '}');
}

static void print_list(const struct value *list, struct arena *arena, struct buffer *out)
{
    buffer_add_byte(out, '[');
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0) buffer_add_byte(out, ',');
        print_canonical(&list->items[i], arena, out);
    }
    buffer_add_byte(out, ']');
}

static void print_canonical(const struct value *value, struct arena *arena, struct buffer *out)
{
    switch (value->kind) {
    case VALUE_MAP:
        print_map(value, arena, out);
        return;
    case VALUE_LIST:
        print_list(value, arena, out);
        return;
    case VALUE_NULL:
    case VALUE_BOOLEAN:
    case VALUE_INTEGER:
    case VALUE_DECIMAL:
    case VALUE_TEXT:
    case VALUE_BINARY: {
        const struct span plain = value_write_json(value, arena);
        buffer_add(out, plain.data, plain.length);
        return;
    }
    }
    UNREACHABLE("value kind out of range");
}

struct span canonical_json(const struct value *value, struct arena *arena)
{
    struct buffer out = { .arena = arena };
    print_canonical(value, arena, &out);
    return buffer_span(&out);
}
