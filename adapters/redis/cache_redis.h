/*
 * adapters/redis/cache_redis.h: the cache of pipeline/cache.h on hiredis. Every call is one or two
 * pipelined round trips for the whole batch with one deadline; nothing is ever retried, and after
 * any doubt the connection is dropped. A circuit opens after failures; while it is open every call
 * returns at once with "unknown", and a connection is tried in the background of later calls, never
 * waiting, once a second. What was not written by us under our key verifies as nothing.
 *
 * Threads: a cache belongs to one thread.
 */
#ifndef ONCEPAY_ADAPTERS_REDIS_CACHE_REDIS_H
#define ONCEPAY_ADAPTERS_REDIS_CACHE_REDIS_H

#include "pipeline/cache.h"

enum { CACHE_PLACEHOLDER_MS_MAX = 10000, CACHE_ANSWER_BYTES_MAX = 65536 };

struct cache_options {
    const char *url;      /* redis://[[user]:password@]host[:port][/database] or unix:///path */
    struct span hmac_key; /* at least 16 bytes; copied */
    int64_t connect_timeout_ms; /* only waited for at open */
    int64_t command_timeout_ms; /* for one call, whatever the batch's size */
    int64_t placeholder_ms;     /* at most CACHE_PLACEHOLDER_MS_MAX */
    int64_t lease_ms;
};

/*
 * STATUS_OK also when Redis is away: it may come later. STATUS_STOP: options are wrong; out_error
 * (static text, may be NULL) says how.
 */
enum status cache_open(const struct cache_options *options, struct cache **out_cache,
                       const char **out_error) MUST_CHECK;
void cache_close(struct cache *cache);

/* Places a placeholder per claim, and reads what stood there already. Answers go to the arena. */
void cache_claim_keys(struct cache *cache, struct cache_claim *claims, size_t count,
                      struct arena *arena);
/* Takes away the placeholders of these claims' owners: no answer, nobody else's. */
void cache_release_keys(struct cache *cache, const struct cache_claim *claims, size_t count);
/* After the commit: answers in place of placeholders; not those over CACHE_ANSWER_BYTES_MAX. */
void cache_store_answers(struct cache *cache, const struct cache_answer *answers, size_t count);

void cache_claim_leases(struct cache *cache, struct cache_lease *leases, size_t count);
void cache_release_leases(struct cache *cache, const struct cache_lease *leases, size_t count);

struct cache_stats {
    uint64_t placed;
    uint64_t held;
    uint64_t answered;
    uint64_t unknown;
    uint64_t unverified; /* values that were not ours, not ours for this key, or torn */
    uint64_t failures;   /* calls that did not get their answers in time */
    uint64_t opened;     /* how often the circuit opened */
};
void cache_stats(const struct cache *cache, struct cache_stats *out_stats);
/* The circuit is closed. Redis is never needed, so this is for metrics, not for /readyz. */
bool cache_is_available(const struct cache *cache);

#endif
