/* ops/sim/table.c: see table.h. */
#include "ops/sim/table.h"

enum { TABLE_CAPACITY_MIN = 1024 };

/* FNV's low bits are weak for short texts, and the mask below keeps only low bits. */
static uint64_t spread(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdULL;
    return hash ^ (hash >> 33);
}

void *table_find(const struct table *table, uint64_t hash, table_matches matches,
                 const void *wanted)
{
    if (table->capacity == 0) return NULL;
    const size_t mask = table->capacity - 1;
    for (size_t at = (size_t)spread(hash) & mask; table->slots[at].item != NULL;
         at = (at + 1) & mask) {
        const struct table_slot *slot = &table->slots[at];
        if (slot->hash == hash && matches(slot->item, wanted)) return slot->item;
    }
    return NULL;
}

static void place(struct table *table, uint64_t hash, void *item)
{
    const size_t mask = table->capacity - 1;
    size_t at = (size_t)spread(hash) & mask;
    while (table->slots[at].item != NULL) at = (at + 1) & mask;
    table->slots[at] = (struct table_slot){ hash, item };
}

static void grow(struct table *table)
{
    const struct table old = *table;
    table->capacity = old.capacity == 0 ? TABLE_CAPACITY_MIN : old.capacity * 2;
    table->slots = memory_allocate(table->capacity * sizeof *table->slots);
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.slots[i].item != NULL) place(table, old.slots[i].hash, old.slots[i].item);
    }
    free(old.slots);
}

void table_add(struct table *table, uint64_t hash, void *item)
{
    if ((table->count + 1) * 3 > table->capacity * 2) grow(table);
    place(table, hash, item);
    table->count++;
}

void table_finish(struct table *table)
{
    free(table->slots);
    *table = (struct table){ 0 };
}

uint64_t table_hash(uint64_t hash, const char *text)
{
    if (hash == TABLE_HASH_START) hash = 0xcbf29ce484222325ULL;
    const unsigned char *c = (const unsigned char *)text;
    do {
        hash = (hash ^ *c) * 0x100000001b3ULL;
    } while (*c++ != '\0');
    return hash;
}
