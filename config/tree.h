/*
 * config/tree.h: one YAML document as a tree that remembers where everything stood. Only what a
 * configuration needs: mappings, sequences, scalars. Anchors, aliases, tags, duplicate keys and
 * documents that are too big or too deep are refused, so nothing in a file means more than it says.
 */
#ifndef ONCEPAY_CONFIG_TREE_H
#define ONCEPAY_CONFIG_TREE_H

#include "config/config.h"

enum {
    TREE_BYTES_MAX = 1024 * 1024,
    TREE_DEPTH_MAX = 8,
    TREE_PAIRS_MAX = 256,    /* of one mapping */
    TREE_ITEMS_MAX = 100000, /* of one sequence */
};

enum tree_kind { TREE_SCALAR, TREE_MAPPING, TREE_SEQUENCE };

struct tree_node {
    enum tree_kind kind;
    int line; /* from 1 */
    int column;
    const char *text;          /* scalar; no NUL inside */
    bool quoted;               /* scalar: a text even if it looks like a number */
    size_t count;              /* pairs or items */
    struct tree_node **keys;   /* mapping: scalars */
    struct tree_node **values; /* mapping and sequence */
};

/* NULL if the mapping has no such key. */
const struct tree_node *tree_find(const struct tree_node *mapping, const char *key);

/* name stands in errors. The root is a mapping. Everything lives in the arena. */
enum status tree_parse(const char *name, struct span text, struct arena *arena,
                       struct tree_node **out_root, struct config_error *out_error) MUST_CHECK;

/* "name:line:column: …" into out_error. Returns STATUS_STOP, for return statements. */
enum status tree_refuse(struct config_error *out_error, const char *name, int line, int column,
                        const char *format, ...) PRINTF_LIKE(5, 6);

/* A whole file, at most size_max bytes, no NUL inside. The error has no line. */
enum status tree_read_file(const char *path, size_t size_max, struct arena *arena,
                           struct span *out_text, struct config_error *out_error) MUST_CHECK;

#endif
