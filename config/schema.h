/*
 * config/schema.h: a table of rows (key, type, default, range, variable, help) turns a mapping of
 * the tree into a struct. Unknown keys, missing ones, wrong types and values out of range are
 * refused where they stand. The same rows print the reference of all keys.
 */
#ifndef ONCEPAY_CONFIG_SCHEMA_H
#define ONCEPAY_CONFIG_SCHEMA_H

#include "config/tree.h"

enum schema_type {
    SCHEMA_TEXT,     /* const char *; length in min..max */
    SCHEMA_TOKEN,    /* const char *: [A-Za-z0-9_-]{1,64} */
    SCHEMA_PATH,     /* const char *, made relative to the file's folder; "" stays "" */
    SCHEMA_INTEGER,  /* int64_t in min..max */
    SCHEMA_SIZE,     /* int64_t bytes: 65536, 64KiB, 256MiB, 2GiB */
    SCHEMA_DURATION, /* int64_t milliseconds: 500ms, 15s, 5m, 24h, 7d */
    SCHEMA_BOOLEAN,  /* bool */
    SCHEMA_TOKENS,   /* struct config_texts, min..max of them, none twice */
    SCHEMA_MAP,      /* a struct by its own table */
    SCHEMA_LIST,     /* pointer and count: structs by their own table, min..max of them */
    SCHEMA_NODE,     /* const struct tree_node *: the reader does it by itself; NULL if absent */
};

struct schema_table;

struct schema_field {
    const char *key;
    enum schema_type type;
    size_t offset;
    size_t count_offset; /* SCHEMA_LIST */
    const char
        *fallback; /* as it would stand in the file; NULL: required (maps and lists never are) */
    int64_t min;
    int64_t max;
    const char *environment; /* a variable that overrides the file; NULL for none */
    const struct schema_table *table;
    const char *help;
};

struct schema_table {
    const struct schema_field *fields;
    size_t field_count;
    size_t size;         /* of the struct */
    size_t place_offset; /* int line, int column; SCHEMA_NO_PLACE */
};

#define SCHEMA_NO_PLACE SIZE_MAX

/* A variable that may stand in a file as ${NAME}. */
struct schema_variable {
    const char *name;
    const char *help;
};

struct schema_reading {
    const char *name; /* of the file, for errors and as the base of paths */
    struct arena *arena;
    struct config_error *error;
    const struct schema_variable *variables;
    size_t variable_count;
};

/* Fills the struct at target, which is zeroed. path: "" for the root, else like "accounts[0]". */
enum status schema_read(const struct schema_reading *reading, const struct schema_table *table,
                        const struct tree_node *mapping, const char *path, void *target) MUST_CHECK;

/* One duration ("1s"); refused at the node. */
enum status schema_read_duration(const struct schema_reading *reading, const struct tree_node *node,
                                 const char *path, int64_t min_ms, int64_t max_ms,
                                 int64_t *out_ms) MUST_CHECK;

void schema_describe(const struct schema_table *table, const char *path, FILE *out);

#endif
