/*
 * adapters/redis/cache_internal.h: what the files of this folder share: a connection that never
 * makes anybody wait longer than one deadline, and records that prove who wrote them.
 */
#ifndef ONCEPAY_ADAPTERS_REDIS_CACHE_INTERNAL_H
#define ONCEPAY_ADAPTERS_REDIS_CACHE_INTERNAL_H

#include "adapters/redis/cache_redis.h"

#include <hiredis/hiredis.h>

enum {
    CACHE_PROBE_INTERVAL_MS = 1000,
    CACHE_RESOLVE_INTERVAL_MS = 30000,
    CACHE_KEY_SIZE = 256,
};

enum link_phase {
    LINK_DOWN,       /* the circuit is open */
    LINK_CONNECTING, /* half open: nobody waits for these two */
    LINK_GREETING,   /* AUTH, SELECT, PING are under way */
    LINK_UP,         /* the circuit is closed */
};

struct cache_link {
    char *host; /* NULL: unix socket */
    char *path; /* of the unix socket */
    char *user;
    char *password;
    int port;
    int database;
    char address[64]; /* host, resolved; "" not yet */
    redisContext *context;
    enum link_phase phase;
    size_t replies_due; /* of the greeting */
    int64_t next_try_ms;
    int64_t resolve_at_ms;
    uint64_t failures;
    uint64_t opened;
};

/* STATUS_STOP: no such URL. */
enum status cache_link_init(struct cache_link *link, const char *url) MUST_CHECK;
void cache_link_finish(struct cache_link *link);
/* Goes on with connecting as far as it can without waiting. True: commands may be sent. */
bool cache_link_advance(struct cache_link *link);
/* The same, waiting at most wait_ms. For the start. */
bool cache_link_connect(struct cache_link *link, int64_t wait_ms);
/* Opens the circuit. */
void cache_link_fail(struct cache_link *link);
/* Appends one command to what the next exchange sends. */
void cache_link_append(struct cache_link *link, size_t count, const struct span *words);
/*
 * Sends what was appended and reads that many replies, all by one deadline. False: the circuit is
 * open and there are no replies. Else the caller frees each with freeReplyObject.
 */
bool cache_link_exchange(struct cache_link *link, size_t count, int64_t timeout_ms,
                         redisReply **out_replies) MUST_CHECK;

enum record_kind { RECORD_PLACEHOLDER = 'P', RECORD_ANSWER = 'A', RECORD_LEASE = 'L' };

/* What a value in Redis claims; its MAC binds all of it, the key and the kind. */
struct record {
    enum record_kind kind;
    uint8_t fingerprint[CACHE_HASH_SIZE];
    struct span payload; /* owner or answer */
};

/* The bytes of the record under this Redis key; arena. */
struct span cache_record_encode(struct span hmac_key, const char *key, const struct record *record,
                                struct arena *arena);
/* False: not written by us for this key, or torn. The payload borrows from bytes. */
bool cache_record_decode(struct span hmac_key, const char *key, struct span bytes,
                         struct arena *arena, struct record *out_record) MUST_CHECK;

struct cache {
    struct cache_link link;
    uint8_t *hmac_key;
    size_t hmac_key_length;
    int64_t command_timeout_ms;
    int64_t placeholder_ms;
    int64_t lease_ms;
    struct arena scratch; /* of one call */
    struct cache_stats stats;
};

#endif
