/*
 * pipeline/value.h: one small document model for JSON and MessagePack, so that a message means
 * the same in either form. Numbers that are not int64 are kept as normalised decimal text: no
 * message passes through floating point on its way to an amount or a fingerprint.
 */
#ifndef ONCEPAY_PIPELINE_VALUE_H
#define ONCEPAY_PIPELINE_VALUE_H

#include "pipeline/arena.h"

enum value_kind {
    VALUE_NULL = 0,
    VALUE_BOOLEAN,
    VALUE_INTEGER, /* written as an integer, and fits int64 */
    VALUE_DECIMAL, /* any other number: 100.00, 1e2, or an integer beyond int64 */
    VALUE_TEXT,    /* UTF-8 without NUL */
    VALUE_BINARY,  /* MessagePack bin; JSON writes it as base64 */
    VALUE_LIST,
    VALUE_MAP,
};

struct value_member;

struct value {
    enum value_kind kind;
    bool boolean;
    bool is_integral; /* VALUE_DECIMAL: written as an integer, too large for int64 */
    int64_t integer;
    struct span bytes;   /* TEXT, BINARY, and DECIMAL in its normal form; NUL behind its length */
    struct value *items; /* VALUE_LIST */
    struct value_member *members; /* VALUE_MAP, in the order of the message */
    size_t count;
};

struct value_member {
    const char *name; /* UTF-8 without NUL */
    struct value value;
};

/* How a message looks on the wire. */
enum content_type {
    CONTENT_JSON = 1,
    CONTENT_MSGPACK = 2,
};
/* "application/json", "application/msgpack". */
const char *content_type_name(enum content_type type);
/* A Content-Type header, parameters ignored, any case. False if it is neither. */
bool content_type_parse(const char *header, enum content_type *out);

enum {
    VALUE_DEPTH_MAX = 8,          /* lists and maps inside each other */
    VALUE_COUNT_MAX = 1024,       /* values in one message */
    VALUE_NUMBER_LENGTH_MAX = 64, /* of which at most 50 digits, and powers of ten up to 999 */
};

/*
 * Strict: one document and nothing behind it, valid UTF-8, no NUL in text, no duplicate member
 * names, no lone surrogates, bounds as above; MessagePack: text names only, no extension types, no
 * NaN or infinity. STATUS_BAD_DATA: out_error is a short sentence without values; out untouched.
 */
enum status value_read(enum content_type type, struct span bytes, struct arena *arena,
                       struct value *out, const char **out_error) MUST_CHECK;
enum status value_read_json(struct span text, struct arena *arena, struct value *out,
                            const char **out_error) MUST_CHECK;
enum status value_read_msgpack(struct span bytes, struct arena *arena, struct value *out,
                               const char **out_error) MUST_CHECK;

/* The same for documents that are not messages of ours, within bounds of their own. */
struct value_bounds {
    int depth_max; /* each level is a level of recursion */
    size_t count_max;
};
enum status value_read_json_within(const struct value_bounds *bounds, struct span text,
                                   struct arena *arena, struct value *out,
                                   const char **out_error) MUST_CHECK;

/*
 * Compact, in member order, NUL behind the length. MessagePack has no decimals: it gets the
 * nearest float64, which reads back as the same decimal up to 15 digits.
 */
struct span value_write(enum content_type type, const struct value *value, struct arena *arena);
struct span value_write_json(const struct value *value, struct arena *arena);
struct span value_write_msgpack(const struct value *value, struct arena *arena);

/* NULL if map is no map or has no such member. */
const struct value *value_find(const struct value *map, const char *name);
/* The text of a VALUE_TEXT; NULL for NULL or anything else. */
const char *value_text(const struct value *value);

/* Building. Text is borrowed and must be valid. A map takes at most its capacity of members. */
struct value value_of_text(const char *text); /* NULL gives VALUE_NULL */
struct value value_of_integer(int64_t integer);
struct value value_of_boolean(bool boolean);
struct value value_map_make(struct arena *arena, size_t capacity);
void value_map_add(struct value *map, const char *name, struct value value);

/* The parts that both readers share. */

/* Valid UTF-8 (no overlong forms, no surrogates) without NUL. */
bool value_text_is_valid(struct span text);
/*
 * The shortest form of a JSON number: 100.00 -> 100, -0 -> 0, 1.50e3 -> 1500, 1e-50 -> 1e-50.
 * Two texts of one number have one form. False if it is no JSON number or beyond the bounds.
 */
bool value_normalise_number(struct span text, struct arena *arena, struct span *out);
/* The first name that a map has twice; NULL if there is none. */
const char *value_duplicate_name(const struct value *map);

/* JSON text of one string with its quotes; base64 of bytes without them. */
struct buffer;
void value_print_json_text(struct span text, struct buffer *out);
void value_print_base64(struct span bytes, struct buffer *out);

#endif
