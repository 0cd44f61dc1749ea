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
    VALUE_INTEGER, /* an integer token that fits int64 */
    VALUE_DECIMAL, /* any other number: "100.00" (with its text as written) or beyond int64 */
    VALUE_TEXT,    /* UTF-8 without NUL */
    VALUE_BINARY,  /* MessagePack bin; JSON writes it as base64 */
    VALUE_LIST,
    VALUE_MAP,
};

struct value_member;

struct value {
    enum value_kind kind;
    bool boolean;
    bool is_integer_token; /* VALUE_DECIMAL: written as an integer, beyond int64 */
    int64_t integer;
    /* VALUE_TEXT, VALUE_BINARY, and VALUE_DECIMAL (normalised). NUL-terminated behind its length. */
    struct span bytes;
    struct value *items;          /* VALUE_LIST */
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
    VALUE_DEPTH_MAX = 8,      /* lists and maps inside each other */
    VALUE_COUNT_MAX = 2048,   /* values in one message */
    VALUE_NUMBER_LENGTH_MAX = 64,
};

/*
 * Strict: one document and nothing behind it, valid UTF-8, no NUL in text, no duplicate member
 * names, no lone surrogates, bounds as above; MessagePack: text keys only, no extensions, no
 * NaN or infinity. On failure out_error, if given, is a short sentence without values; out untouched.
 */
enum status value_read_json(struct span text, struct arena *arena, struct value *out, const char **out_error) MUST_CHECK;
enum status value_read_msgpack(struct span bytes, struct arena *arena, struct value *out,
                               const char **out_error) MUST_CHECK;
enum status value_read(enum content_type type, struct span bytes, struct arena *arena, struct value *out,
                       const char **out_error) MUST_CHECK;

/* Compact, in member order. NUL-terminated behind the length. */
struct span value_write_json(const struct value *value, struct arena *arena);
struct span value_write_msgpack(const struct value *value, struct arena *arena);
struct span value_write(enum content_type type, const struct value *value, struct arena *arena);

/* NULL if map is no map or has no such member. */
const struct value *value_member_find(const struct value *map, const char *name);
/* Text of a VALUE_TEXT; NULL for anything else or NULL. */
const char *value_text(const struct value *value);

/* Building. Text is borrowed. A map takes at most the capacity it was made for. */
struct value value_of_text(const char *text); /* NULL: VALUE_NULL */
struct value value_of_integer(int64_t integer);
struct value value_of_boolean(bool boolean);
struct value value_map_make(struct arena *arena, size_t capacity);
void value_map_add(struct value *map, const char *name, struct value value);

/* The shortest form of a decimal: "100.00" -> "100", "-0" -> "0", "1.50e3" -> "1500". False if it is no JSON number. */
bool value_normalise_number(const char *text, size_t length, struct arena *arena, struct span *out);

#endif
