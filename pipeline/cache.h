/*
 * pipeline/cache.h: the fast, forgetful helper in front of PostgreSQL (protocol E "Redis in
 * front"). It answers in three values and "unknown" is always safe: it means, ask PostgreSQL.
 * It never refuses, never acks and never decides. adapters/redis/cache_redis.h has the functions.
 */
#ifndef ONCEPAY_PIPELINE_CACHE_H
#define ONCEPAY_PIPELINE_CACHE_H

#include "pipeline/arena.h"
#include "pipeline/id.h"

struct cache;

enum cache_verdict {
    CACHE_UNKNOWN = 0, /* away, slow, wrong, another fingerprint: PostgreSQL decides */
    CACHE_PLACED,      /* our owner holds it now (or did already): go on */
    CACHE_HELD, /* another owner is at work on this key and fingerprint: hand back for a moment */
    CACHE_ANSWERED, /* a committed answer: reply early, but ack only after PostgreSQL's read */
};
const char *cache_verdict_name(int code);

enum { CACHE_HASH_SIZE = 32, CACHE_OWNER_LENGTH_MAX = 128 };

/* The scope of an idempotency key. merchant and operation are tokens. */
struct cache_key {
    const char *merchant;
    const char *operation;
    uint8_t key_hash[CACHE_HASH_SIZE];
};

/*
 * One key of a batch. owner names the message, not the worker ("PAY_INTAKE.4711"), so that a
 * redelivery of the same message is never held back by its own placeholder.
 */
struct cache_claim {
    struct cache_key key;
    uint8_t fingerprint[CACHE_HASH_SIZE];
    const char *owner;
    enum cache_verdict verdict; /* out */
    struct span answer;         /* out: CACHE_ANSWERED; arena */
};

/* An answer that is committed. */
struct cache_answer {
    struct cache_key key;
    uint8_t fingerprint[CACHE_HASH_SIZE];
    struct span answer;
    int64_t lifetime_ms; /* the rest of the key's life */
};

/* The hint that one worker is on an attempt; the row's lease and version are what counts. */
struct cache_lease {
    struct attempt_id attempt;
    const char *owner;          /* this worker and this claim */
    enum cache_verdict verdict; /* out: placed, held or unknown */
};

#endif
