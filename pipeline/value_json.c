/*
 * pipeline/value_json.c: JSON for value.h. A reader of our own, because the packaged ones turn
 * 100.00 into a double and give up on 9223372036854775808 before a refusal could name the field.
 */
#include "pipeline/buffer.h"
#include "pipeline/value.h"

#include <errno.h>

struct json_reader {
    char *cursor; /* in a copy with a NUL behind it, which is never skipped */
    const char *end;
    struct arena *arena;
    const struct value_bounds *bounds;
    int depth;
    size_t count;
    const char *error;
};

static bool fail(struct json_reader *reader, const char *error)
{
    if (reader->error == NULL) reader->error = error;
    return false;
}

static void skip_space(struct json_reader *reader)
{
    while (*reader->cursor == ' ' || *reader->cursor == '\t' || *reader->cursor == '\n' ||
           *reader->cursor == '\r') {
        reader->cursor++;
    }
}

static bool take(struct json_reader *reader, char expected)
{
    if (*reader->cursor != expected) return false;
    reader->cursor++;
    return true;
}

static bool take_word(struct json_reader *reader, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(reader->cursor, word, length) != 0) return fail(reader, "not a JSON value");
    reader->cursor += length;
    return true;
}

/* Four hex digits behind "\u". */
static bool take_unit(struct json_reader *reader, uint32_t *out)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        const char c = *reader->cursor;
        uint32_t digit;
        if (c >= '0' && c <= '9') {
            digit = (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint32_t)(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (uint32_t)(c - 'A') + 10;
        } else {
            return fail(reader, "a \\u escape needs four hex digits");
        }
        unit = unit << 4 | digit;
        reader->cursor++;
    }
    *out = unit;
    return true;
}

static bool take_code_point(struct json_reader *reader, uint32_t *out)
{
    uint32_t high = 0;
    uint32_t low = 0;
    if (!take_unit(reader, &high)) return false;
    if (high == 0) return fail(reader, "text must not contain NUL");
    if (high < 0xd800 || high > 0xdfff) {
        *out = high;
        return true;
    }
    if (high > 0xdbff || !take(reader, '\\') || !take(reader, 'u') || !take_unit(reader, &low) ||
        low < 0xdc00 || low > 0xdfff) {
        return fail(reader, "a surrogate stands alone");
    }
    *out = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static char *put_code_point(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

static bool take_escape(struct json_reader *reader, char **to)
{
    static const char ESCAPES[] = "\"\\/bfnrt";
    static const char MEANINGS[] = "\"\\/\b\f\n\r\t";
    const char c = *reader->cursor;
    if (c == 'u') {
        uint32_t code = 0;
        reader->cursor++;
        if (!take_code_point(reader, &code)) return false;
        *to = put_code_point(*to, code);
        return true;
    }
    const char *found = c == '\0' ? NULL : strchr(ESCAPES, c);
    if (found == NULL) return fail(reader, "there is no such escape");
    *(*to)++ = MEANINGS[found - ESCAPES];
    reader->cursor++;
    return true;
}

/* Text is decoded in place, where it never gets longer, and ends with a NUL for its quote. */
static bool take_text(struct json_reader *reader, struct span *out)
{
    if (!take(reader, '"')) return fail(reader, "text was expected");
    char *const text = reader->cursor;
    char *to = text;
    bool is_ascii = true;
    while (*reader->cursor != '"') {
        const unsigned char c = (unsigned char)*reader->cursor;
        if (reader->cursor >= reader->end) return fail(reader, "text does not end");
        if (c < 0x20) return fail(reader, "text must not contain control characters");
        is_ascii = is_ascii && c < 0x80;
        reader->cursor++;
        if (c != '\\') {
            *to++ = (char)c;
        } else if (!take_escape(reader, &to)) {
            return false;
        }
    }
    reader->cursor++;
    *to = '\0';
    const struct span span = { (const uint8_t *)text, (size_t)(to - text) };
    /* Escapes cannot make anything invalid: they are code points, and NUL is refused. */
    if (!is_ascii && !value_text_is_valid(span)) return fail(reader, "text must be UTF-8");
    *out = span;
    return true;
}

/* The usual number: up to 18 digits without sign, and so within int64. */
static bool take_plain_integer(struct json_reader *reader, struct value *out)
{
    const char *at = reader->cursor;
    int64_t integer = 0;
    while (*at >= '0' && *at <= '9' && at - reader->cursor < 18)
        integer = integer * 10 + *at++ - '0';
    const ptrdiff_t length = at - reader->cursor;
    const bool has_more = *at != '\0' && strchr("-+.eE0123456789", *at) != NULL;
    if (length == 0 || has_more || (length > 1 && *reader->cursor == '0')) return false;
    reader->cursor += length;
    *out = value_of_integer(integer);
    return true;
}

static bool take_number(struct json_reader *reader, struct value *out)
{
    if (take_plain_integer(reader, out)) return true;
    const char *start = reader->cursor;
    const size_t length = strspn(start, "-+.eE0123456789");
    if (length == 0) return fail(reader, "not a JSON value");
    const struct span token = { (const uint8_t *)start, length };
    struct span normal;
    if (!value_normalise_number(token, reader->arena, &normal)) {
        return fail(reader, "not a JSON number, or one out of bounds");
    }
    reader->cursor += length;
    const bool is_integral = strspn(start, "-0123456789") == length;
    char *stop;
    errno = 0;
    const long long integer = strtoll((const char *)normal.data, &stop, 10);
    if (is_integral && errno == 0 && *stop == '\0') { /* a long one is normalised to 1e49 */
        *out = value_of_integer(integer);
    } else {
        *out = (struct value){ .kind = VALUE_DECIMAL, .is_integral = is_integral, .bytes = normal };
    }
    return true;
}

static bool take_value(struct json_reader *reader, struct value *out);

/* Room for one more element of a list or map: arrays grow in the arena, twice as long each time. */
static void *grow(struct json_reader *reader, void *array, size_t count, size_t size)
{
    if (count != 0 && (count < 4 || (count & (count - 1)) != 0)) return array;
    void *moved = arena_allocate(reader->arena, (count == 0 ? 4 : count * 2) * size);
    if (count > 0) memcpy(moved, array, count * size);
    return moved;
}

static bool take_list(struct json_reader *reader, struct value *out)
{
    struct value list = { .kind = VALUE_LIST };
    skip_space(reader);
    if (!take(reader, ']')) {
        do {
            list.items = grow(reader, list.items, list.count, sizeof *list.items);
            if (!take_value(reader, &list.items[list.count++])) return false;
        } while (take(reader, ','));
        if (!take(reader, ']')) return fail(reader, "a list does not end");
    }
    *out = list;
    return true;
}

static bool take_member(struct json_reader *reader, struct value_member *out)
{
    struct span name;
    skip_space(reader);
    if (!take_text(reader, &name)) return false;
    out->name = (const char *)name.data;
    skip_space(reader);
    if (!take(reader, ':')) return fail(reader, "a member has no value");
    return take_value(reader, &out->value);
}

static bool take_map(struct json_reader *reader, struct value *out)
{
    struct value map = { .kind = VALUE_MAP };
    skip_space(reader);
    if (!take(reader, '}')) {
        do {
            map.members = grow(reader, map.members, map.count, sizeof *map.members);
            if (!take_member(reader, &map.members[map.count++])) return false;
        } while (take(reader, ','));
        if (!take(reader, '}')) return fail(reader, "an object does not end");
    }
    if (value_duplicate_name(&map) != NULL) return fail(reader, "a member name appears twice");
    *out = map;
    return true;
}

static bool take_nested(struct json_reader *reader, struct value *out)
{
    if (++reader->depth > reader->bounds->depth_max) return fail(reader, "nested too deep");
    const bool is_map = *reader->cursor++ == '{';
    const bool is_taken = is_map ? take_map(reader, out) : take_list(reader, out);
    reader->depth--;
    return is_taken;
}

/* One value with the space around it. */
static bool take_value(struct json_reader *reader, struct value *out)
{
    if (++reader->count > reader->bounds->count_max) return fail(reader, "too many values");
    skip_space(reader);
    bool is_taken;
    struct value value = { .kind = VALUE_NULL };
    switch (*reader->cursor) {
    case '{':
    case '[':
        is_taken = take_nested(reader, &value);
        break;
    case '"':
        value.kind = VALUE_TEXT;
        is_taken = take_text(reader, &value.bytes);
        break;
    case 't':
        value = value_of_boolean(true);
        is_taken = take_word(reader, "true");
        break;
    case 'f':
        value = value_of_boolean(false);
        is_taken = take_word(reader, "false");
        break;
    case 'n':
        is_taken = take_word(reader, "null");
        break;
    default:
        is_taken = take_number(reader, &value);
        break;
    }
    if (!is_taken) return false;
    skip_space(reader);
    *out = value;
    return true;
}

enum status value_read_json_within(const struct value_bounds *bounds, struct span text,
                                   struct arena *arena, struct value *out, const char **out_error)
{
    char *copy = arena_copy(arena, text.data, text.length);
    struct json_reader reader = {
        .cursor = copy,
        .end = copy + text.length,
        .arena = arena,
        .bounds = bounds,
    };
    struct value value;
    bool is_taken = take_value(&reader, &value);
    if (is_taken && reader.cursor != reader.end) {
        is_taken = fail(&reader, "something follows the document");
    }
    if (!is_taken) {
        if (out_error != NULL) *out_error = reader.error;
        return STATUS_BAD_DATA;
    }
    *out = value;
    return STATUS_OK;
}

enum status value_read_json(struct span text, struct arena *arena, struct value *out,
                            const char **out_error)
{
    static const struct value_bounds MESSAGE = { VALUE_DEPTH_MAX, VALUE_COUNT_MAX };
    return value_read_json_within(&MESSAGE, text, arena, out, out_error);
}

static void print_escape(char c, struct buffer *out)
{
    static const char ESCAPED[] = "\"\\\b\f\n\r\t";
    static const char LETTERS[] = "\"\\bfnrt";
    const char *found = c == '\0' ? NULL : strchr(ESCAPED, c);
    if (found != NULL) {
        const char escape[] = { '\\', LETTERS[found - ESCAPED] };
        buffer_add(out, escape, sizeof escape);
    } else {
        char escape[8];
        (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)c);
        buffer_add_text(out, escape);
    }
}

void value_print_json_text(struct span text, struct buffer *out)
{
    buffer_add_byte(out, '"');
    size_t from = 0;
    for (size_t i = 0; i < text.length; i++) {
        const uint8_t c = text.data[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        buffer_add(out, text.data + from, i - from);
        print_escape((char)c, out);
        from = i + 1;
    }
    if (text.length > from) buffer_add(out, text.data + from, text.length - from);
    buffer_add_byte(out, '"');
}

void value_print_base64(struct span bytes, struct buffer *out)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.length; i += 3) {
        const size_t left = bytes.length - i;
        const uint32_t bits = (uint32_t)bytes.data[i] << 16 |
                              (left > 1 ? (uint32_t)bytes.data[i + 1] << 8 : 0) |
                              (left > 2 ? bytes.data[i + 2] : 0u);
        buffer_add_byte(out, ALPHABET[bits >> 18]);
        buffer_add_byte(out, ALPHABET[bits >> 12 & 63]);
        buffer_add_byte(out, left > 1 ? ALPHABET[bits >> 6 & 63] : '=');
        buffer_add_byte(out, left > 2 ? ALPHABET[bits & 63] : '=');
    }
}

static void print_value(const struct value *value, struct buffer *out);

static void print_list(const struct value *list, struct buffer *out)
{
    buffer_add_byte(out, '[');
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0) buffer_add_byte(out, ',');
        print_value(&list->items[i], out);
    }
    buffer_add_byte(out, ']');
}

static void print_map(const struct value *map, struct buffer *out)
{
    buffer_add_byte(out, '{');
    for (size_t i = 0; i < map->count; i++) {
        if (i > 0) buffer_add_byte(out, ',');
        value_print_json_text(span_of_text(map->members[i].name), out);
        buffer_add_byte(out, ':');
        print_value(&map->members[i].value, out);
    }
    buffer_add_byte(out, '}');
}

static void print_value(const struct value *value, struct buffer *out)
{
    switch (value->kind) {
    case VALUE_NULL:
        buffer_add_text(out, "null");
        return;
    case VALUE_BOOLEAN:
        buffer_add_text(out, value->boolean ? "true" : "false");
        return;
    case VALUE_INTEGER:
        buffer_add_integer(out, value->integer);
        return;
    case VALUE_DECIMAL:
        buffer_add(out, value->bytes.data, value->bytes.length);
        return;
    case VALUE_TEXT:
        value_print_json_text(value->bytes, out);
        return;
    case VALUE_BINARY:
        buffer_add_byte(out, '"');
        value_print_base64(value->bytes, out);
        buffer_add_byte(out, '"');
        return;
    case VALUE_LIST:
        print_list(value, out);
        return;
    case VALUE_MAP:
        print_map(value, out);
        return;
    }
    UNREACHABLE("value kind out of range");
}

struct span value_write_json(const struct value *value, struct arena *arena)
{
    struct buffer out = { .arena = arena };
    print_value(value, &out);
    return buffer_span(&out);
}
