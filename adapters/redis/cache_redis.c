/* adapters/redis/cache_redis.c: see cache_redis.h. Build commands, one exchange, read replies. */
#include "adapters/redis/cache_redis.h"

#include "adapters/redis/cache_internal.h"
#include "pipeline/hash.h"

#include <signal.h>

enum { HMAC_KEY_LENGTH_MIN = 16 };

/* Deletes a key only while it holds exactly what its owner put there. */
static const char RELEASE_SCRIPT[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/* One key of a batch, whatever is claimed under it. */
struct place {
    const char *key;
    struct record mine;
    enum cache_verdict verdict;
    struct span answer; /* borrowed from the scratch */
};

static struct span hmac_key_of(const struct cache *cache)
{
    return (struct span){ cache->hmac_key, cache->hmac_key_length };
}

static const char *options_error(const struct cache_options *options)
{
    if (options->hmac_key.length < HMAC_KEY_LENGTH_MIN) return "the cache's HMAC key is too short";
    if (options->command_timeout_ms <= 0 || options->lease_ms <= 0) {
        return "the cache's times must be above 0";
    }
    if (options->placeholder_ms <= 0 || options->placeholder_ms > CACHE_PLACEHOLDER_MS_MAX) {
        return "a placeholder may live 10 seconds at most";
    }
    return NULL;
}

/* hiredis writes with write(): a Redis that went away would otherwise end the process. */
static void ignore_broken_pipes(void)
{
    struct sigaction action;
    if (sigaction(SIGPIPE, NULL, &action) != 0 || action.sa_handler != SIG_DFL) return;
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
}

enum status cache_open(const struct cache_options *options, struct cache **out_cache,
                       const char **out_error)
{
    const char *error = options_error(options);
    struct cache *cache = memory_allocate(sizeof *cache);
    if (error == NULL && cache_link_init(&cache->link, options->url) != STATUS_OK) {
        error = "the Redis address is not redis://[[user]:password@]host[:port][/database] or "
                "unix:///path";
    }
    if (error != NULL) {
        cache_close(cache);
        if (out_error != NULL) *out_error = error;
        return STATUS_STOP;
    }
    ignore_broken_pipes();
    cache->hmac_key_length = options->hmac_key.length;
    cache->hmac_key = memory_allocate(cache->hmac_key_length);
    memcpy(cache->hmac_key, options->hmac_key.data, cache->hmac_key_length);
    cache->command_timeout_ms = options->command_timeout_ms;
    cache->placeholder_ms = options->placeholder_ms;
    cache->lease_ms = options->lease_ms;
    (void)cache_link_connect(&cache->link, options->connect_timeout_ms);
    *out_cache = cache;
    return STATUS_OK;
}

void cache_close(struct cache *cache)
{
    if (cache == NULL) return;
    cache_link_finish(&cache->link);
    if (cache->hmac_key != NULL) explicit_bzero(cache->hmac_key, cache->hmac_key_length);
    free(cache->hmac_key);
    arena_finish(&cache->scratch);
    free(cache);
}

static const char *number_text(struct arena *arena, int64_t number)
{
    return arena_format(arena, "%" PRId64, number);
}

/* An error other than "that key holds something else" says that this Redis is of no use now. */
static bool is_trouble(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE", 9) != 0;
}

static struct span string_of(const redisReply *reply, struct arena *arena)
{
    if (reply->type != REDIS_REPLY_STRING) return (struct span){ 0 };
    return arena_copy_span(arena, (struct span){ (const uint8_t *)reply->str, (size_t)reply->len });
}

/* The verdict on what stands at a key where ours could not be placed. */
static void judge(struct cache *cache, struct place *place, struct span value, int64_t ttl_ms,
                  int64_t ttl_ms_max)
{
    struct record found;
    if (value.length == 0) return; /* gone meanwhile: PostgreSQL decides */
    if (!cache_record_decode(hmac_key_of(cache), place->key, value, &cache->scratch, &found)) {
        cache->stats.unverified++;
        return;
    }
    if (memcmp(found.fingerprint, place->mine.fingerprint, CACHE_HASH_SIZE) != 0) return;
    if (found.kind == RECORD_ANSWER && place->mine.kind == RECORD_PLACEHOLDER) {
        place->verdict = CACHE_ANSWERED;
        place->answer = found.payload;
    } else if (found.kind != place->mine.kind) {
        cache->stats.unverified++;
    } else if (span_equal(found.payload, place->mine.payload)) {
        place->verdict = CACHE_PLACED;
    } else if (ttl_ms > 0 && ttl_ms <= ttl_ms_max) {
        place->verdict = CACHE_HELD;
    } /* else it would never go away: nobody may be held back by it */
}

/* SET NX PX for all; how many stand already is returned in *out_standing. */
static bool place_all(struct cache *cache, struct place *places, size_t count, int64_t ttl_ms,
                      redisReply **replies)
{
    const struct span ttl = span_of_text(number_text(&cache->scratch, ttl_ms));
    for (size_t i = 0; i < count; i++) {
        const struct span value = cache_record_encode(hmac_key_of(cache), places[i].key,
                                                      &places[i].mine, &cache->scratch);
        const struct span words[] = { span_of_text("SET"), span_of_text(places[i].key), value,
                                      span_of_text("NX"),  span_of_text("PX"),          ttl };
        cache_link_append(&cache->link, COUNT_OF(words), words);
    }
    return cache_link_exchange(&cache->link, count, cache->command_timeout_ms, replies);
}

/* GETRANGE bounds what a lying server can make us read. */
static bool read_all(struct cache *cache, struct place **standing, size_t count,
                     redisReply **replies)
{
    const struct span last =
        span_of_text(number_text(&cache->scratch, CACHE_ANSWER_BYTES_MAX + 4096));
    for (size_t i = 0; i < count; i++) {
        const struct span key = span_of_text(standing[i]->key);
        const struct span get[] = { span_of_text("GETRANGE"), key, span_of_text("0"), last };
        const struct span ttl[] = { span_of_text("PTTL"), key };
        cache_link_append(&cache->link, COUNT_OF(get), get);
        cache_link_append(&cache->link, COUNT_OF(ttl), ttl);
    }
    return cache_link_exchange(&cache->link, 2 * count, cache->command_timeout_ms, replies);
}

static void judge_standing(struct cache *cache, struct place **standing, size_t count,
                           int64_t ttl_ms_max)
{
    redisReply **replies = arena_allocate(&cache->scratch, 2 * count * sizeof(void *));
    bool has_trouble = false;
    if (count == 0 || !read_all(cache, standing, count, replies)) return;
    for (size_t i = 0; i < count; i++) {
        const redisReply *ttl = replies[2 * i + 1];
        judge(cache, standing[i], string_of(replies[2 * i], &cache->scratch),
              ttl->type == REDIS_REPLY_INTEGER ? ttl->integer : -1, ttl_ms_max);
        has_trouble |= is_trouble(replies[2 * i]) || is_trouble(ttl);
        freeReplyObject(replies[2 * i]);
        freeReplyObject(replies[2 * i + 1]);
    }
    if (has_trouble) cache_link_fail(&cache->link);
}

static void count_verdicts(struct cache *cache, const struct place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (places[i].verdict) {
        case CACHE_UNKNOWN:
            cache->stats.unknown++;
            break;
        case CACHE_PLACED:
            cache->stats.placed++;
            break;
        case CACHE_HELD:
            cache->stats.held++;
            break;
        case CACHE_ANSWERED:
            cache->stats.answered++;
            break;
        }
    }
}

static void claim(struct cache *cache, struct place *places, size_t count, int64_t ttl_ms)
{
    redisReply **replies = arena_allocate(&cache->scratch, count * sizeof(void *));
    struct place **standing = arena_allocate(&cache->scratch, count * sizeof(void *));
    size_t standing_count = 0;
    bool has_trouble = false;
    if (count == 0) return;
    if (cache_link_advance(&cache->link) && place_all(cache, places, count, ttl_ms, replies)) {
        for (size_t i = 0; i < count; i++) {
            if (replies[i]->type == REDIS_REPLY_STATUS) places[i].verdict = CACHE_PLACED;
            if (replies[i]->type == REDIS_REPLY_NIL) standing[standing_count++] = &places[i];
            has_trouble |= is_trouble(replies[i]);
            freeReplyObject(replies[i]);
        }
        if (has_trouble) {
            cache_link_fail(&cache->link);
        } else {
            judge_standing(cache, standing, standing_count, ttl_ms);
        }
    }
    count_verdicts(cache, places, count);
}

/* Sends commands whose answers change nothing for us. */
static void send_and_forget(struct cache *cache, size_t count)
{
    redisReply **replies = arena_allocate(&cache->scratch, count * sizeof(void *));
    bool has_trouble = false;
    if (count == 0 ||
        !cache_link_exchange(&cache->link, count, cache->command_timeout_ms, replies)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        has_trouble |= is_trouble(replies[i]);
        freeReplyObject(replies[i]);
    }
    if (has_trouble) cache_link_fail(&cache->link);
}

static void release(struct cache *cache, const struct place *places, size_t count)
{
    if (count == 0 || !cache_link_advance(&cache->link)) return;
    for (size_t i = 0; i < count; i++) {
        const struct span value = cache_record_encode(hmac_key_of(cache), places[i].key,
                                                      &places[i].mine, &cache->scratch);
        const struct span words[] = { span_of_text("EVAL"), span_of_text(RELEASE_SCRIPT),
                                      span_of_text("1"), span_of_text(places[i].key), value };
        cache_link_append(&cache->link, COUNT_OF(words), words);
    }
    send_and_forget(cache, count);
}

/* --- idempotency keys ------------------------------------------------------------------------ */

static const char *key_name(struct cache *cache, const struct cache_key *key)
{
    char hex[HASH_HEX_SIZE];
    (void)hash_hex((struct span){ key->key_hash, CACHE_HASH_SIZE }, hex);
    return arena_format(&cache->scratch, "idem:%s:%s:%s", key->merchant, key->operation, hex);
}

static struct place place_of_claim(struct cache *cache, const struct cache_claim *one)
{
    INVARIANT(strlen(one->owner) <= CACHE_OWNER_LENGTH_MAX);
    struct place place = { .key = key_name(cache, &one->key),
                           .mine = { .kind = RECORD_PLACEHOLDER,
                                     .payload = span_of_text(one->owner) } };
    memcpy(place.mine.fingerprint, one->fingerprint, CACHE_HASH_SIZE);
    return place;
}

void cache_claim_keys(struct cache *cache, struct cache_claim *claims, size_t count,
                      struct arena *arena)
{
    struct place *places = arena_allocate(&cache->scratch, count * sizeof *places);
    for (size_t i = 0; i < count; i++) places[i] = place_of_claim(cache, &claims[i]);
    claim(cache, places, count, cache->placeholder_ms);
    for (size_t i = 0; i < count; i++) {
        claims[i].verdict = places[i].verdict;
        claims[i].answer = (struct span){ 0 };
        if (places[i].verdict == CACHE_ANSWERED) {
            claims[i].answer = arena_copy_span(arena, places[i].answer);
        }
    }
    arena_reset(&cache->scratch);
}

void cache_release_keys(struct cache *cache, const struct cache_claim *claims, size_t count)
{
    struct place *places = arena_allocate(&cache->scratch, count * sizeof *places);
    for (size_t i = 0; i < count; i++) places[i] = place_of_claim(cache, &claims[i]);
    release(cache, places, count);
    arena_reset(&cache->scratch);
}

void cache_store_answers(struct cache *cache, const struct cache_answer *answers, size_t count)
{
    size_t sent = 0;
    const bool is_up = cache_link_advance(&cache->link);
    for (size_t i = 0; is_up && i < count; i++) {
        const struct cache_answer *answer = &answers[i];
        if (answer->answer.length > CACHE_ANSWER_BYTES_MAX || answer->lifetime_ms <= 0) continue;
        struct record record = { .kind = RECORD_ANSWER, .payload = answer->answer };
        memcpy(record.fingerprint, answer->fingerprint, CACHE_HASH_SIZE);
        const char *key = key_name(cache, &answer->key);
        const struct span words[] = {
            span_of_text("SET"), span_of_text(key),
            cache_record_encode(hmac_key_of(cache), key, &record, &cache->scratch),
            span_of_text("PX"), span_of_text(number_text(&cache->scratch, answer->lifetime_ms))
        };
        cache_link_append(&cache->link, COUNT_OF(words), words);
        sent++;
    }
    send_and_forget(cache, sent);
    arena_reset(&cache->scratch);
}

/* --- leases ---------------------------------------------------------------------------------- */

static struct place place_of_lease(struct cache *cache, const struct cache_lease *lease)
{
    char id[UUID_TEXT_SIZE];
    INVARIANT(strlen(lease->owner) <= CACHE_OWNER_LENGTH_MAX);
    return (
        struct place){ .key = arena_format(&cache->scratch, "lease:attempt:%s",
                                           uuid_format(lease->attempt.uuid, id)),
                       .mine = { .kind = RECORD_LEASE, .payload = span_of_text(lease->owner) } };
}

void cache_claim_leases(struct cache *cache, struct cache_lease *leases, size_t count)
{
    struct place *places = arena_allocate(&cache->scratch, count * sizeof *places);
    for (size_t i = 0; i < count; i++) places[i] = place_of_lease(cache, &leases[i]);
    claim(cache, places, count, cache->lease_ms);
    for (size_t i = 0; i < count; i++) leases[i].verdict = places[i].verdict;
    arena_reset(&cache->scratch);
}

void cache_release_leases(struct cache *cache, const struct cache_lease *leases, size_t count)
{
    struct place *places = arena_allocate(&cache->scratch, count * sizeof *places);
    for (size_t i = 0; i < count; i++) places[i] = place_of_lease(cache, &leases[i]);
    release(cache, places, count);
    arena_reset(&cache->scratch);
}

void cache_stats(const struct cache *cache, struct cache_stats *out_stats)
{
    *out_stats = cache->stats;
    out_stats->failures = cache->link.failures;
    out_stats->opened = cache->link.opened;
}

bool cache_is_available(const struct cache *cache)
{
    return cache->link.phase == LINK_UP;
}
