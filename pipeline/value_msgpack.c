/*
 * pipeline/value_msgpack.c: MessagePack for value.h. libmsgpack packs; the reader is our own,
 * because the library allocates what a header claims before it has seen the bytes: five bytes
 * ask for gigabytes.
 */
#include "pipeline/buffer.h"
#include "pipeline/value.h"

#include <msgpack/pack.h>

struct msgpack_reader {
    const uint8_t *cursor;
    size_t left;
    struct arena *arena;
    int depth;
    size_t count;
    const char *error;
};

static bool fail(struct msgpack_reader *reader, const char *error)
{
    if (reader->error == NULL) reader->error = error;
    return false;
}

/* A big-endian unsigned of 1, 2, 4 or 8 bytes. */
static bool take_unsigned(struct msgpack_reader *reader, size_t size, uint64_t *out)
{
    if (reader->left < size) return fail(reader, "the document is cut off");
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) number = number << 8 | reader->cursor[i];
    reader->cursor += size;
    reader->left -= size;
    *out = number;
    return true;
}

/* Two's complement of 1, 2, 4 or 8 bytes. */
static bool take_signed(struct msgpack_reader *reader, size_t size, struct value *out)
{
    uint64_t bits = 0;
    if (!take_unsigned(reader, size, &bits)) return false;
    const uint64_t sign = UINT64_C(1) << (8 * size - 1);
    /* Flipping and taking off the sign bit extends it without a shift of a negative number. */
    const uint64_t extended = (bits ^ sign) - sign;
    int64_t integer;
    memcpy(&integer, &extended, sizeof integer);
    *out = value_of_integer(integer);
    return true;
}

static struct value decimal_of_text(struct msgpack_reader *reader, const char *text,
                                    bool is_integral)
{
    struct value value = { .kind = VALUE_DECIMAL, .is_integral = is_integral };
    INVARIANT(value_normalise_number(span_of_text(text), reader->arena, &value.bytes));
    return value;
}

static bool take_positive(struct msgpack_reader *reader, size_t size, struct value *out)
{
    uint64_t number = 0;
    if (!take_unsigned(reader, size, &number)) return false;
    if (number <= INT64_MAX) {
        *out = value_of_integer((int64_t)number);
    } else {
        char text[24];
        (void)snprintf(text, sizeof text, "%" PRIu64, number);
        *out = decimal_of_text(reader, text, true);
    }
    return true;
}

/*
 * A float means the shortest decimal that reads back as the same float, so that 0.1 in
 * MessagePack is 0.1 in JSON. Amounts never come this way: they are integers or refused.
 */
static bool take_float(struct msgpack_reader *reader, size_t size, struct value *out)
{
    uint64_t bits = 0;
    if (!take_unsigned(reader, size, &bits)) return false;
    char text[40];
    bool is_same = false;
    for (int precision = 0; precision < 17 && !is_same; precision++) {
        if (size == sizeof(float)) {
            const uint32_t narrow = (uint32_t)bits;
            float number;
            memcpy(&number, &narrow, sizeof number);
            (void)snprintf(text, sizeof text, "%.*e", precision, (double)number);
            const float again = strtof(text, NULL);
            is_same = memcmp(&again, &number, sizeof number) == 0;
        } else {
            double number;
            memcpy(&number, &bits, sizeof number);
            (void)snprintf(text, sizeof text, "%.*e", precision, number);
            const double again = strtod(text, NULL);
            is_same = memcmp(&again, &number, sizeof number) == 0;
        }
    }
    if (!is_same || strspn(text, "-+.e0123456789") != strlen(text)) {
        return fail(reader, "a number is not finite");
    }
    *out = decimal_of_text(reader, text, false);
    return true;
}

static bool take_bytes(struct msgpack_reader *reader, uint64_t length, struct span *out)
{
    if (length > reader->left) return fail(reader, "the document is cut off");
    const char *copy = arena_copy(reader->arena, reader->cursor, (size_t)length);
    *out = (struct span){ (const uint8_t *)copy, (size_t)length };
    reader->cursor += length;
    reader->left -= (size_t)length;
    return true;
}

static bool take_text(struct msgpack_reader *reader, uint64_t length, struct value *out)
{
    struct value value = { .kind = VALUE_TEXT };
    if (!take_bytes(reader, length, &value.bytes)) return false;
    if (!value_text_is_valid(value.bytes)) {
        return fail(reader, "text must be UTF-8 without NUL");
    }
    *out = value;
    return true;
}

static bool take_value(struct msgpack_reader *reader, struct value *out);

/* Each element takes at least one byte, so no header makes us allocate more than the body backs. */
static bool enter(struct msgpack_reader *reader, uint64_t count, uint64_t bytes_each)
{
    if (++reader->depth > VALUE_DEPTH_MAX) return fail(reader, "nested too deep");
    if (count > VALUE_COUNT_MAX) return fail(reader, "too many values");
    if (count * bytes_each > reader->left) return fail(reader, "the document is cut off");
    return true;
}

static bool take_list(struct msgpack_reader *reader, uint64_t count, struct value *out)
{
    if (!enter(reader, count, 1)) return false;
    struct value list = { .kind = VALUE_LIST, .count = (size_t)count };
    list.items = arena_allocate(reader->arena, list.count * sizeof *list.items);
    for (size_t i = 0; i < list.count; i++) {
        if (!take_value(reader, &list.items[i])) return false;
    }
    reader->depth--;
    *out = list;
    return true;
}

static bool take_map(struct msgpack_reader *reader, uint64_t count, struct value *out)
{
    if (!enter(reader, count, 2)) return false;
    struct value map = { .kind = VALUE_MAP, .count = (size_t)count };
    map.members = arena_allocate(reader->arena, map.count * sizeof *map.members);
    for (size_t i = 0; i < map.count; i++) {
        struct value name = { .kind = VALUE_NULL };
        if (!take_value(reader, &name)) return false;
        reader->count--; /* a name is no value: a document counts alike in either form */
        if (name.kind != VALUE_TEXT) return fail(reader, "a member name must be text");
        map.members[i].name = value_text(&name);
        if (!take_value(reader, &map.members[i].value)) return false;
    }
    if (value_duplicate_name(&map) != NULL) return fail(reader, "a member name appears twice");
    reader->depth--;
    *out = map;
    return true;
}

static bool take_sized_text(struct msgpack_reader *reader, size_t size, struct value *out)
{
    uint64_t length = 0;
    return take_unsigned(reader, size, &length) && take_text(reader, length, out);
}

static bool take_sized_binary(struct msgpack_reader *reader, size_t size, struct value *out)
{
    uint64_t length = 0;
    struct value value = { .kind = VALUE_BINARY };
    if (!take_unsigned(reader, size, &length)) return false;
    if (!take_bytes(reader, length, &value.bytes)) return false;
    *out = value;
    return true;
}

static bool take_sized_list(struct msgpack_reader *reader, size_t size, struct value *out)
{
    uint64_t count = 0;
    return take_unsigned(reader, size, &count) && take_list(reader, count, out);
}

static bool take_sized_map(struct msgpack_reader *reader, size_t size, struct value *out)
{
    uint64_t count = 0;
    return take_unsigned(reader, size, &count) && take_map(reader, count, out);
}

/* The formats 0xc0 to 0xdf, by the MessagePack specification. */
static bool take_format(struct msgpack_reader *reader, unsigned format, struct value *out)
{
    switch (format) {
    case 0xc0:
        *out = value_of_text(NULL);
        return true;
    case 0xc2:
    case 0xc3:
        *out = value_of_boolean(format == 0xc3);
        return true;
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return take_sized_binary(reader, (size_t)1 << (format - 0xc4), out);
    case 0xca:
    case 0xcb:
        return take_float(reader, (size_t)4 << (format - 0xca), out);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return take_positive(reader, (size_t)1 << (format - 0xcc), out);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return take_signed(reader, (size_t)1 << (format - 0xd0), out);
    case 0xd9:
    case 0xda:
    case 0xdb:
        return take_sized_text(reader, (size_t)1 << (format - 0xd9), out);
    case 0xdc:
    case 0xdd:
        return take_sized_list(reader, (size_t)2 << (format - 0xdc), out);
    case 0xde:
    case 0xdf:
        return take_sized_map(reader, (size_t)2 << (format - 0xde), out);
    default:
        return fail(reader, "extension types are not accepted");
    }
}

static bool take_value(struct msgpack_reader *reader, struct value *out)
{
    uint64_t format = 0;
    if (++reader->count > VALUE_COUNT_MAX) return fail(reader, "too many values");
    if (!take_unsigned(reader, 1, &format)) return false;
    if (format <= 0x7f) {
        *out = value_of_integer((int64_t)format);
        return true;
    }
    if (format >= 0xe0) {
        *out = value_of_integer((int64_t)format - 0x100);
        return true;
    }
    if (format <= 0x8f) return take_map(reader, format & 0x0f, out);
    if (format <= 0x9f) return take_list(reader, format & 0x0f, out);
    if (format <= 0xbf) return take_text(reader, format & 0x1f, out);
    return take_format(reader, (unsigned)format, out);
}

enum status value_read_msgpack(struct span bytes, struct arena *arena, struct value *out,
                               const char **out_error)
{
    struct msgpack_reader reader = { .cursor = bytes.data, .left = bytes.length, .arena = arena };
    struct value value;
    bool is_taken = take_value(&reader, &value);
    if (is_taken && reader.left != 0) is_taken = fail(&reader, "something follows the document");
    if (!is_taken) {
        if (out_error != NULL) *out_error = reader.error;
        return STATUS_BAD_DATA;
    }
    *out = value;
    return STATUS_OK;
}

static int buffer_write(void *buffer, const char *data, size_t length)
{
    buffer_add(buffer, data, length);
    return 0;
}

static void pack_text(msgpack_packer *packer, struct span text)
{
    (void)msgpack_pack_str(packer, text.length);
    (void)msgpack_pack_str_body(packer, text.data, text.length);
}

static void pack_value(msgpack_packer *packer, const struct value *value);

static void pack_list(msgpack_packer *packer, const struct value *list)
{
    (void)msgpack_pack_array(packer, list->count);
    for (size_t i = 0; i < list->count; i++) pack_value(packer, &list->items[i]);
}

static void pack_map(msgpack_packer *packer, const struct value *map)
{
    (void)msgpack_pack_map(packer, map->count);
    for (size_t i = 0; i < map->count; i++) {
        pack_text(packer, span_of_text(map->members[i].name));
        pack_value(packer, &map->members[i].value);
    }
}

static void pack_boolean(msgpack_packer *packer, bool boolean)
{
    if (boolean) {
        (void)msgpack_pack_true(packer);
    } else {
        (void)msgpack_pack_false(packer);
    }
}

static void pack_binary(msgpack_packer *packer, struct span bytes)
{
    (void)msgpack_pack_bin(packer, bytes.length);
    (void)msgpack_pack_bin_body(packer, bytes.data, bytes.length);
}

static void pack_value(msgpack_packer *packer, const struct value *value)
{
    switch (value->kind) {
    case VALUE_NULL:
        (void)msgpack_pack_nil(packer);
        return;
    case VALUE_BOOLEAN:
        pack_boolean(packer, value->boolean);
        return;
    case VALUE_INTEGER:
        (void)msgpack_pack_int64(packer, value->integer);
        return;
    case VALUE_DECIMAL:
        (void)msgpack_pack_double(packer, strtod((const char *)value->bytes.data, NULL));
        return;
    case VALUE_TEXT:
        pack_text(packer, value->bytes);
        return;
    case VALUE_BINARY:
        pack_binary(packer, value->bytes);
        return;
    case VALUE_LIST:
        pack_list(packer, value);
        return;
    case VALUE_MAP:
        pack_map(packer, value);
        return;
    }
    UNREACHABLE("value kind out of range");
}

struct span value_write_msgpack(const struct value *value, struct arena *arena)
{
    struct buffer out = { .arena = arena };
    msgpack_packer packer;
    msgpack_packer_init(&packer, &out, buffer_write);
    pack_value(&packer, value);
    return buffer_span(&out);
}
