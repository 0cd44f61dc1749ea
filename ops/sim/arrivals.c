/* ops/sim/arrivals.c: see arrivals.h. */
#include "ops/sim/arrivals.h"

struct arrival_time {
    int64_t real_ms;
    int64_t monotonic_ms;
};

struct arrival_key {
    char *account;
    char *key;
    size_t posts;
    struct arrival_time *times;
    size_t time_capacity;
};

/* One line of the totals. Few: accounts times methods times kinds. */
struct arrival_total {
    struct arrival_total *next;
    char *account;
    const char *method;
    const char *kind;
    size_t count;
};

struct wanted_key {
    const char *account;
    const char *key;
};

static bool is_wanted(const void *item, const void *wanted)
{
    const struct arrival_key *have = item;
    const struct wanted_key *want = wanted;
    return strcmp(have->key, want->key) == 0 && strcmp(have->account, want->account) == 0;
}

static uint64_t name_hash(const char *account, const char *key)
{
    return table_hash(table_hash(TABLE_HASH_START, account), key);
}

static struct arrival_key *find_key(const struct arrivals *arrivals, const char *account,
                                    const char *key)
{
    const struct wanted_key wanted = { account, key };
    return table_find(&arrivals->keys_by_name, name_hash(account, key), is_wanted, &wanted);
}

static struct arrival_key *add_key(struct arrivals *arrivals, const char *account, const char *key)
{
    struct arrival_key *entry = memory_allocate(sizeof *entry);
    entry->account = memory_copy_text(account);
    entry->key = memory_copy_text(key);
    if (arrivals->key_count == arrivals->key_capacity) {
        arrivals->key_capacity = arrivals->key_capacity == 0 ? 1024 : arrivals->key_capacity * 2;
        arrivals->keys =
            memory_resize(arrivals->keys, arrivals->key_capacity * sizeof(struct arrival_key *));
    }
    arrivals->keys[arrivals->key_count++] = entry;
    table_add(&arrivals->keys_by_name, name_hash(account, key), entry);
    return entry;
}

static void note_total(struct arrivals *arrivals, const struct arrival *arrival)
{
    struct arrival_total *total = arrivals->totals;
    while (total != NULL && (strcmp(total->account, arrival->account) != 0 ||
                             strcmp(total->method, arrival->method) != 0 ||
                             strcmp(total->kind, arrival->kind) != 0)) {
        total = total->next;
    }
    if (total == NULL) {
        total = memory_allocate(sizeof *total);
        *total = (struct arrival_total){ .next = arrivals->totals,
                                         .account = memory_copy_text(arrival->account),
                                         .method = arrival->method,
                                         .kind = arrival->kind };
        arrivals->totals = total;
    }
    total->count++;
}

static void note_time(struct arrival_key *entry, const struct arrival *arrival)
{
    const size_t at = entry->posts++;
    if (at >= ARRIVAL_TIMES_MAX) return;
    if (at == entry->time_capacity) {
        entry->time_capacity = at == 0 ? 1 : at * 4;
        entry->times = memory_resize(entry->times, entry->time_capacity * sizeof *entry->times);
    }
    entry->times[at] = (struct arrival_time){ arrival->real_ms, arrival->monotonic_ms };
}

void arrivals_note(struct arrivals *arrivals, const struct arrival *arrival)
{
    note_total(arrivals, arrival);
    if (arrival->key == NULL || strcmp(arrival->method, "POST") != 0) return;
    struct arrival_key *entry = find_key(arrivals, arrival->account, arrival->key);
    if (entry == NULL) entry = add_key(arrivals, arrival->account, arrival->key);
    note_time(entry, arrival);
}

static void render_key(const struct arrival_key *entry, struct textbuf *out)
{
    textbuf_text(out, "{\"account\":");
    textbuf_json(out, entry->account);
    textbuf_text(out, ",\"key\":");
    textbuf_json(out, entry->key);
    textbuf_format(out, ",\"posts\":%zu,\"arrivals\":[", entry->posts);
    const size_t kept = entry->posts < ARRIVAL_TIMES_MAX ? entry->posts : ARRIVAL_TIMES_MAX;
    for (size_t i = 0; i < kept; i++) {
        textbuf_format(out, "%s{\"real_ms\":%" PRId64 ",\"monotonic_ms\":%" PRId64 "}",
                       i == 0 ? "" : ",", entry->times[i].real_ms, entry->times[i].monotonic_ms);
    }
    textbuf_text(out, "]}");
}

void arrivals_render(const struct arrivals *arrivals, const char *account, const char *key,
                     struct textbuf *out)
{
    textbuf_text(out, "{\"totals\":[");
    const char *separator = "";
    for (const struct arrival_total *total = arrivals->totals; total != NULL; total = total->next) {
        if (account != NULL && strcmp(account, total->account) != 0) continue;
        textbuf_format(out,
                       "%s{\"account\":\"%s\",\"method\":\"%s\",\"kind\":\"%s\",\"count\":%zu}",
                       separator, total->account, total->method, total->kind, total->count);
        separator = ",";
    }
    textbuf_text(out, "],\"keys\":[");
    separator = "";
    for (size_t i = 0; i < arrivals->key_count; i++) {
        const struct arrival_key *entry = arrivals->keys[i];
        if (account != NULL && strcmp(account, entry->account) != 0) continue;
        if (key != NULL && strcmp(key, entry->key) != 0) continue;
        textbuf_text(out, separator);
        render_key(entry, out);
        separator = ",\n";
    }
    textbuf_text(out, "]}\n");
}

size_t arrivals_posts(const struct arrivals *arrivals, const char *account, const char *key)
{
    const struct arrival_key *entry = find_key(arrivals, account, key);
    return entry == NULL ? 0 : entry->posts;
}

void arrivals_clear(struct arrivals *arrivals)
{
    for (size_t i = 0; i < arrivals->key_count; i++) {
        struct arrival_key *entry = arrivals->keys[i];
        free(entry->account);
        free(entry->key);
        free(entry->times);
        free(entry);
    }
    free(arrivals->keys);
    table_finish(&arrivals->keys_by_name);
    struct arrival_total *next = NULL;
    for (struct arrival_total *total = arrivals->totals; total != NULL; total = next) {
        next = total->next;
        free(total->account);
        free(total);
    }
    *arrivals = (struct arrivals){ 0 };
}
