/*
 * ops/sim/table.h: an open-addressing hash index over items that somebody else owns. Items are
 * never removed singly; a reset clears the whole index.
 */
#ifndef ONCEPAY_SIM_TABLE_H
#define ONCEPAY_SIM_TABLE_H

#include "pipeline/base.h"

struct table_slot {
    uint64_t hash;
    void *item; /* NULL: free */
};

/* Zeroed is empty. */
struct table {
    struct table_slot *slots;
    size_t capacity; /* a power of two */
    size_t count;
};

typedef bool (*table_matches)(const void *item, const void *wanted);

/* NULL if there is none. */
void *table_find(const struct table *table, uint64_t hash, table_matches matches,
                 const void *wanted);
/* The item must not be in the table yet. */
void table_add(struct table *table, uint64_t hash, void *item);
void table_finish(struct table *table);

/* FNV-1a over the text, the terminating NUL included so that chained parts cannot run together. */
uint64_t table_hash(uint64_t hash, const char *text);
enum { TABLE_HASH_START = 0 };

#endif
