/* pipeline/value.c: see value.h. What both forms share: names, numbers, text, building. */
#include "pipeline/value.h"

#include <strings.h>

#include "pipeline/buffer.h"

const char *content_type_name(enum content_type type)
{
    switch (type) {
    case CONTENT_JSON:
        return "application/json";
    case CONTENT_MSGPACK:
        return "application/msgpack";
    }
    UNREACHABLE("content type out of range");
}

bool content_type_parse(const char *header, enum content_type *out)
{
    static const enum content_type TYPES[] = { CONTENT_JSON, CONTENT_MSGPACK };
    const char *start = header + strspn(header, " \t");
    const size_t length = strcspn(start, "; \t");
    for (size_t i = 0; i < COUNT_OF(TYPES); i++) {
        const char *name = content_type_name(TYPES[i]);
        if (strlen(name) == length && strncasecmp(start, name, length) == 0) {
            *out = TYPES[i];
            return true;
        }
    }
    return false;
}

enum status value_read(enum content_type type, struct span bytes, struct arena *arena,
                       struct value *out, const char **out_error)
{
    switch (type) {
    case CONTENT_JSON:
        return value_read_json(bytes, arena, out, out_error);
    case CONTENT_MSGPACK:
        return value_read_msgpack(bytes, arena, out, out_error);
    }
    UNREACHABLE("content type out of range");
}

struct span value_write(enum content_type type, const struct value *value, struct arena *arena)
{
    switch (type) {
    case CONTENT_JSON:
        return value_write_json(value, arena);
    case CONTENT_MSGPACK:
        return value_write_msgpack(value, arena);
    }
    UNREACHABLE("content type out of range");
}

/* Most names differ in their first byte already. */
static bool same_text(const char *a, const char *b)
{
    return a[0] == b[0] && strcmp(a, b) == 0;
}

const struct value *value_find(const struct value *map, const char *name)
{
    if (map == NULL || map->kind != VALUE_MAP) return NULL;
    for (size_t i = 0; i < map->count; i++) {
        if (same_text(map->members[i].name, name)) return &map->members[i].value;
    }
    return NULL;
}

const char *value_text(const struct value *value)
{
    return value != NULL && value->kind == VALUE_TEXT ? (const char *)value->bytes.data : NULL;
}

struct value value_of_text(const char *text)
{
    if (text == NULL) return (struct value){ .kind = VALUE_NULL };
    return (struct value){ .kind = VALUE_TEXT, .bytes = span_of_text(text) };
}

struct value value_of_integer(int64_t integer)
{
    return (struct value){ .kind = VALUE_INTEGER, .integer = integer };
}

struct value value_of_boolean(bool boolean)
{
    return (struct value){ .kind = VALUE_BOOLEAN, .boolean = boolean };
}

/* count is the number of members in use; the capacity stands in the otherwise unused integer. */
struct value value_map_make(struct arena *arena, size_t capacity)
{
    return (struct value){
        .kind = VALUE_MAP,
        .integer = (int64_t)capacity,
        .members = arena_allocate(arena, capacity * sizeof(struct value_member)),
    };
}

void value_map_add(struct value *map, const char *name, struct value value)
{
    INVARIANT(map->kind == VALUE_MAP && (int64_t)map->count < map->integer);
    map->members[map->count++] = (struct value_member){ name, value };
}

/* The length of the UTF-8 sequence that begins here, 0 if it is not valid. */
static size_t utf8_length(const uint8_t *bytes, size_t left)
{
    const uint8_t first = bytes[0];
    if (first < 0x80) return first == 0 ? 0 : 1;
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || left < length) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    }
    /* The second byte decides on overlong forms, surrogates and code points beyond 10FFFF. */
    const uint8_t second = bytes[1];
    if (first == 0xe0 && second < 0xa0) return 0;
    if (first == 0xed && second > 0x9f) return 0;
    if (first == 0xf0 && second < 0x90) return 0;
    if (first == 0xf4 && second > 0x8f) return 0;
    return length;
}

bool value_text_is_valid(struct span text)
{
    size_t at = 0;
    while (at < text.length) {
        const size_t length = utf8_length(text.data + at, text.length - at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

const char *value_duplicate_name(const struct value *map)
{
    for (size_t i = 0; i < map->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (same_text(map->members[i].name, map->members[j].name)) return map->members[i].name;
        }
    }
    return NULL;
}

/*
 * A number taken apart: its digits without point, and the power of ten behind them. The bounds see
 * to it that a normal form is always a number within the bounds, so that it can be read again.
 */
enum { NUMBER_DIGITS_MAX = 50, NUMBER_POWER_MAX = 999, NUMBER_PLAIN_LENGTH_MAX = 40 };

struct number {
    bool negative;
    char digits[VALUE_NUMBER_LENGTH_MAX];
    int count;
    int power;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool number_parse(const char *cursor, struct number *out)
{
    struct number number = { .negative = *cursor == '-' };
    if (number.negative) cursor++;
    if (!is_digit(*cursor) || (*cursor == '0' && is_digit(cursor[1]))) return false;
    while (is_digit(*cursor)) number.digits[number.count++] = *cursor++;
    if (*cursor == '.') {
        if (!is_digit(*++cursor)) return false;
        while (is_digit(*cursor)) {
            number.digits[number.count++] = *cursor++;
            number.power--;
        }
    }
    if (*cursor == 'e' || *cursor == 'E') {
        cursor++;
        const bool is_down = *cursor == '-';
        if (is_down || *cursor == '+') cursor++;
        if (!is_digit(*cursor)) return false;
        int exponent = 0;
        while (is_digit(*cursor)) {
            exponent = exponent * 10 + (*cursor++ - '0');
            if (exponent > NUMBER_POWER_MAX) return false;
        }
        number.power += is_down ? -exponent : exponent;
    }
    if (*cursor != '\0' || number.count > NUMBER_DIGITS_MAX) return false;
    *out = number;
    return true;
}

static void number_strip_zeros(struct number *number)
{
    int leading = 0;
    while (leading < number->count && number->digits[leading] == '0') leading++;
    number->count -= leading;
    memmove(number->digits, number->digits + leading, (size_t)number->count);
    while (number->count > 0 && number->digits[number->count - 1] == '0') {
        number->count--;
        number->power++;
    }
    if (number->count == 0) *number = (struct number){ .digits = "0", .count = 1 };
}

static void buffer_add_zeros(struct buffer *buffer, int count)
{
    for (int i = 0; i < count; i++) buffer_add_byte(buffer, '0');
}

static void number_print(const struct number *number, struct buffer *out)
{
    const int whole = number->count + number->power; /* digits before the point */
    if (number->negative) buffer_add_byte(out, '-');
    if (number->power >= 0 && whole <= NUMBER_PLAIN_LENGTH_MAX) {
        buffer_add(out, number->digits, (size_t)number->count);
        buffer_add_zeros(out, number->power);
    } else if (number->power < 0 && whole > 0) {
        buffer_add(out, number->digits, (size_t)whole);
        buffer_add_byte(out, '.');
        buffer_add(out, number->digits + whole, (size_t)(number->count - whole));
    } else if (number->power < 0 && -number->power <= NUMBER_PLAIN_LENGTH_MAX) {
        buffer_add_text(out, "0.");
        buffer_add_zeros(out, -whole);
        buffer_add(out, number->digits, (size_t)number->count);
    } else {
        buffer_add(out, number->digits, (size_t)number->count);
        buffer_add_byte(out, 'e');
        buffer_add_integer(out, number->power);
    }
}

bool value_normalise_number(struct span text, struct arena *arena, struct span *out)
{
    char copy[VALUE_NUMBER_LENGTH_MAX + 1];
    struct number number;
    if (text.length == 0 || text.length > VALUE_NUMBER_LENGTH_MAX) return false;
    memcpy(copy, text.data, text.length);
    copy[text.length] = '\0';
    if (!number_parse(copy, &number)) return false;
    number_strip_zeros(&number);
    if (number.power > NUMBER_POWER_MAX || number.power < -NUMBER_POWER_MAX) return false;
    struct buffer printed = { .arena = arena };
    number_print(&number, &printed);
    *out = buffer_span(&printed);
    return true;
}
