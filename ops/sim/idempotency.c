/* ops/sim/idempotency.c: see idempotency.h. */
#include "ops/sim/idempotency.h"

struct wanted_key {
    const char *account;
    const char *key;
};

static bool is_wanted(const void *item, const void *wanted)
{
    const struct idempotency_key *have = item;
    const struct wanted_key *want = wanted;
    return strcmp(have->key, want->key) == 0 && strcmp(have->account->name, want->account) == 0;
}

static uint64_t name_hash(const char *account, const char *key)
{
    return table_hash(table_hash(TABLE_HASH_START, account), key);
}

void idempotency_fingerprint(const char *path, struct span body, uint8_t out[HASH_SIZE])
{
    struct textbuf text = { 0 };
    textbuf_text(&text, path);
    textbuf_add(&text, "\n", 1);
    textbuf_add(&text, body.data, body.length);
    hash_sha256((struct span){ (const uint8_t *)text.data, text.length }, out);
    textbuf_finish(&text);
}

struct idempotency_key *idempotency_find(const struct table *table, const char *account,
                                         const char *key)
{
    const struct wanted_key wanted = { account, key };
    return table_find(table, name_hash(account, key), is_wanted, &wanted);
}

struct idempotency_key *idempotency_add(struct table *table, const struct account *account,
                                        const char *key)
{
    struct idempotency_key *entry = memory_allocate(sizeof *entry);
    entry->account = account;
    entry->state = IDEMPOTENCY_SEEN;
    if (key != NULL) {
        entry->key = memory_copy_text(key);
        table_add(table, name_hash(account->name, key), entry);
    }
    return entry;
}

enum idempotency_verdict idempotency_judge(struct idempotency_key *entry,
                                           const uint8_t fingerprint[HASH_SIZE], int64_t now_s)
{
    switch (entry->state) {
    case IDEMPOTENCY_SEEN:
        return IDEMPOTENCY_RUN;
    case IDEMPOTENCY_RUNNING:
        if (memcmp(entry->fingerprint, fingerprint, HASH_SIZE) != 0) return IDEMPOTENCY_MISMATCH;
        return IDEMPOTENCY_IN_PROGRESS;
    case IDEMPOTENCY_ANSWERED:
        if (now_s - entry->first_seen_s > IDEMPOTENCY_RETENTION_S) {
            entry->state = IDEMPOTENCY_SEEN;
            entry->answer = (struct idempotency_answer){ 0 };
            return IDEMPOTENCY_RUN;
        }
        if (memcmp(entry->fingerprint, fingerprint, HASH_SIZE) != 0) return IDEMPOTENCY_MISMATCH;
        return IDEMPOTENCY_REPLAY;
    }
    UNREACHABLE("idempotency state out of range");
}

void idempotency_destroy(struct idempotency_key *entry)
{
    if (entry == NULL) return;
    free(entry->key);
    free(entry->plan);
    free(entry);
}
