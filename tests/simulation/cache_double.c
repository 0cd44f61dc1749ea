/* tests/simulation/cache_double.c: see cache_double.h. */
#include "tests/simulation/cache_double.h"

#define PLACEHOLDER_US (10 * CLOCK_SECOND_US)
#define LEASE_HINT_US (45 * CLOCK_SECOND_US)

enum { ENTRIES_MAX = 64 };

struct cache_entry {
    uint8_t name[CACHE_HASH_SIZE]; /* key hash, or attempt id */
    const char *merchant;          /* NULL: a lease */
    uint8_t fingerprint[CACHE_HASH_SIZE];
    uint64_t owner;
    bool has_answer;
    struct span answer;
    int64_t expires_us;
};

struct cache_double {
    struct cache_entry entries[ENTRIES_MAX];
    size_t count;
};

struct cache_double *cache_double_create(void)
{
    return memory_allocate(sizeof(struct cache_double));
}

void cache_double_destroy(struct cache_double *cache)
{
    free(cache);
}

void cache_double_begin(struct world *world)
{
    world->cache->count = 0;
}

static struct cache_entry *find(struct world *world, const void *name, size_t length,
                                const char *merchant)
{
    struct cache_double *cache = world->cache;
    for (size_t i = 0; i < cache->count;) {
        struct cache_entry *entry = &cache->entries[i];
        if (entry->expires_us <= world->now_us) {
            *entry = cache->entries[--cache->count];
            continue;
        }
        const bool is_same_kind = (merchant == NULL) == (entry->merchant == NULL);
        if (is_same_kind && memcmp(entry->name, name, length) == 0 &&
            (merchant == NULL || strcmp(entry->merchant, merchant) == 0)) {
            return entry;
        }
        i++;
    }
    return NULL;
}

static struct cache_entry *add(struct world *world, const void *name, size_t length)
{
    struct cache_double *cache = world->cache;
    if (cache->count == ENTRIES_MAX) cache->count = 0; /* evicts, as Redis may */
    struct cache_entry *entry = &cache->entries[cache->count++];
    *entry = (struct cache_entry){ .owner = 0 };
    memcpy(entry->name, name, length);
    return entry;
}

/* Away, or flushed just now. */
static bool is_away(struct world *world, const struct worker *worker)
{
    if (choice_strikes(&world->choices, CHOICE_CACHE_FLUSHED, worker->number)) {
        world->cache->count = 0;
        world_say(world, "Redis is flushed");
    }
    return choice_strikes(&world->choices, CHOICE_CACHE_AWAY, worker->number);
}

static bool lies(struct world *world, const struct worker *worker, enum cache_verdict *out)
{
    if (choice_strikes(&world->choices, CHOICE_CACHE_SAYS_HELD, worker->number)) {
        *out = CACHE_HELD;
        return true;
    }
    if (choice_strikes(&world->choices, CHOICE_CACHE_SAYS_PLACED, worker->number)) {
        *out = CACHE_PLACED;
        return true;
    }
    return false;
}

enum cache_verdict cache_double_claim(struct world *world, const struct worker *worker,
                                      const struct pay_request *request, uint64_t owner,
                                      struct span *out_answer)
{
    enum cache_verdict verdict = CACHE_UNKNOWN;
    if (is_away(world, worker)) return CACHE_UNKNOWN;
    if (lies(world, worker, &verdict)) return verdict;
    struct cache_entry *entry =
        find(world, request->key_hash, sizeof request->key_hash, request->merchant);
    if (entry == NULL) {
        entry = add(world, request->key_hash, sizeof request->key_hash);
        entry->merchant = request->merchant;
        entry->owner = owner;
        entry->expires_us = world->now_us + PLACEHOLDER_US;
        memcpy(entry->fingerprint, request->fingerprint, sizeof entry->fingerprint);
        return CACHE_PLACED;
    }
    if (memcmp(entry->fingerprint, request->fingerprint, sizeof entry->fingerprint) != 0)
        return CACHE_UNKNOWN;
    if (entry->has_answer) {
        *out_answer = entry->answer;
        return CACHE_ANSWERED;
    }
    return entry->owner == owner ? CACHE_PLACED : CACHE_HELD;
}

void cache_double_answer(struct world *world, const struct pay_request *request, struct span answer,
                         int64_t lifetime_us)
{
    struct cache_entry *entry =
        find(world, request->key_hash, sizeof request->key_hash, request->merchant);
    if (entry == NULL) entry = add(world, request->key_hash, sizeof request->key_hash);
    entry->merchant = request->merchant;
    entry->has_answer = true;
    entry->answer = answer;
    entry->expires_us = world->now_us + lifetime_us;
    memcpy(entry->fingerprint, request->fingerprint, sizeof entry->fingerprint);
}

void cache_double_release(struct world *world, const struct pay_request *request, uint64_t owner)
{
    struct cache_entry *entry =
        find(world, request->key_hash, sizeof request->key_hash, request->merchant);
    if (entry != NULL && !entry->has_answer && entry->owner == owner) entry->expires_us = 0;
}

enum cache_verdict cache_double_lease(struct world *world, const struct worker *worker,
                                      struct attempt_id attempt)
{
    enum cache_verdict verdict = CACHE_UNKNOWN;
    if (is_away(world, worker)) return CACHE_UNKNOWN;
    if (lies(world, worker, &verdict)) return verdict;
    struct cache_entry *entry = find(world, attempt.uuid.bytes, sizeof attempt.uuid.bytes, NULL);
    if (entry != NULL) return entry->owner == worker->number ? CACHE_PLACED : CACHE_HELD;
    entry = add(world, attempt.uuid.bytes, sizeof attempt.uuid.bytes);
    entry->owner = worker->number;
    entry->expires_us = world->now_us + LEASE_HINT_US;
    return CACHE_PLACED;
}

void cache_double_unlease(struct world *world, const struct worker *worker,
                          struct attempt_id attempt)
{
    struct cache_entry *entry = find(world, attempt.uuid.bytes, sizeof attempt.uuid.bytes, NULL);
    if (entry != NULL && entry->owner == worker->number) entry->expires_us = 0;
}
