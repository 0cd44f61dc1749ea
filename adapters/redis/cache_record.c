/*
 * adapters/redis/cache_record.c: kind, MAC, fingerprint, payload. Redis may be flushed, restored
 * from an old dump or written by anybody who reaches it; what does not verify counts as nothing.
 * The MAC covers the Redis key, so a true record copied to another key is nothing there.
 */
#include "adapters/redis/cache_internal.h"

#include "pipeline/hash.h"

enum { MAC_AT = 1, FINGERPRINT_AT = MAC_AT + HASH_SIZE, PAYLOAD_AT = FINGERPRINT_AT + HASH_SIZE };

static const char DOMAIN[] = "oncepay-cache-1";

static uint8_t *put(uint8_t *to, const void *data, size_t length)
{
    if (length > 0) memcpy(to, data, length);
    return to + length;
}

static uint8_t *put_length(uint8_t *to, size_t length)
{
    for (int shift = 24; shift >= 0; shift -= 8) *to++ = (uint8_t)(length >> shift);
    return to;
}

/* Unambiguous: every part of variable length is preceded by its length. */
static void record_mac(struct span hmac_key, const char *key, const struct record *record,
                       struct arena *arena, uint8_t out[HASH_SIZE])
{
    const size_t key_length = strlen(key);
    const size_t length =
        sizeof DOMAIN + 1 + 4 + key_length + CACHE_HASH_SIZE + 4 + record->payload.length;
    uint8_t *bytes = arena_allocate(arena, length);
    const uint8_t kind = (uint8_t)record->kind;
    uint8_t *at = put(bytes, DOMAIN, sizeof DOMAIN);
    at = put(at, &kind, 1);
    at = put_length(at, key_length);
    at = put(at, key, key_length);
    at = put(at, record->fingerprint, CACHE_HASH_SIZE);
    at = put_length(at, record->payload.length);
    at = put(at, record->payload.data, record->payload.length);
    INVARIANT(at == bytes + length);
    hash_hmac_sha256(hmac_key, (struct span){ bytes, length }, out);
}

struct span cache_record_encode(struct span hmac_key, const char *key, const struct record *record,
                                struct arena *arena)
{
    const size_t length = PAYLOAD_AT + record->payload.length;
    uint8_t *bytes = arena_allocate(arena, length);
    bytes[0] = (uint8_t)record->kind;
    record_mac(hmac_key, key, record, arena, bytes + MAC_AT);
    (void)put(bytes + FINGERPRINT_AT, record->fingerprint, CACHE_HASH_SIZE);
    (void)put(bytes + PAYLOAD_AT, record->payload.data, record->payload.length);
    return (struct span){ bytes, length };
}

bool cache_record_decode(struct span hmac_key, const char *key, struct span bytes,
                         struct arena *arena, struct record *out_record)
{
    if (bytes.length < PAYLOAD_AT) return false;
    struct record record = { 0 };
    switch (bytes.data[0]) {
    case RECORD_PLACEHOLDER:
        record.kind = RECORD_PLACEHOLDER;
        break;
    case RECORD_ANSWER:
        record.kind = RECORD_ANSWER;
        break;
    case RECORD_LEASE:
        record.kind = RECORD_LEASE;
        break;
    default:
        return false;
    }
    uint8_t mac[HASH_SIZE];
    memcpy(record.fingerprint, bytes.data + FINGERPRINT_AT, CACHE_HASH_SIZE);
    record.payload = (struct span){ bytes.data + PAYLOAD_AT, bytes.length - PAYLOAD_AT };
    record_mac(hmac_key, key, &record, arena, mac);
    if (!hash_equal((struct span){ mac, HASH_SIZE },
                    (struct span){ bytes.data + MAC_AT, HASH_SIZE })) {
        return false;
    }
    *out_record = record;
    return true;
}
