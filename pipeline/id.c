/* pipeline/id.c: see id.h. */
#include "pipeline/id.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>

/* 48 bits of milliseconds, 12 bits of sequence (rand_a), 62 random bits; guarded because the
 * gateway draws ids on several threads. */
static pthread_mutex_t uuid_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_stamp; /* milliseconds << 12 | sequence */
static uint8_t random_pool[512];
static size_t random_left;

static void random_bytes(uint8_t *out, size_t length)
{
    if (random_left < length) {
        size_t filled = 0;
        while (filled < sizeof random_pool) {
            const ssize_t got = getrandom(random_pool + filled, sizeof random_pool - filled, 0);
            INVARIANT(got > 0);
            filled += (size_t)got;
        }
        random_left = sizeof random_pool;
    }
    random_left -= length;
    memcpy(out, random_pool + random_left, length);
}

struct uuid uuid_new(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t milliseconds = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    struct uuid uuid;
    INVARIANT(pthread_mutex_lock(&uuid_lock) == 0);
    uint64_t stamp = milliseconds << 12;
    /* a full sequence runs into the next millisecond */
    if (stamp <= last_stamp) stamp = last_stamp + 1;
    last_stamp = stamp;
    random_bytes(uuid.bytes + 8, 8);
    INVARIANT(pthread_mutex_unlock(&uuid_lock) == 0);
    const uint64_t time_bits = stamp >> 12;
    for (int i = 0; i < 6; i++) uuid.bytes[i] = (uint8_t)(time_bits >> (40 - 8 * i));
    uuid.bytes[6] = (uint8_t)(0x70 | ((stamp >> 8) & 0x0f));
    uuid.bytes[7] = (uint8_t)(stamp & 0xff);
    uuid.bytes[8] = (uint8_t)(0x80 | (uuid.bytes[8] & 0x3f));
    return uuid;
}

char *uuid_format(struct uuid uuid, char text[UUID_TEXT_SIZE])
{
    static const char HEX[] = "0123456789abcdef";
    char *cursor = text;
    for (size_t i = 0; i < sizeof uuid.bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *cursor++ = '-';
        *cursor++ = HEX[uuid.bytes[i] >> 4];
        *cursor++ = HEX[uuid.bytes[i] & 0x0f];
    }
    *cursor = '\0';
    return text;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool uuid_parse(const char *text, struct uuid *out)
{
    struct uuid parsed;
    size_t at = 0;
    for (size_t i = 0; i < sizeof parsed.bytes; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && text[at++] != '-') return false;
        const int high = hex_value(text[at]);
        if (high < 0) return false;
        const int low = hex_value(text[at + 1]);
        if (low < 0) return false;
        parsed.bytes[i] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    if (text[at] != '\0') return false;
    *out = parsed;
    return true;
}

bool uuid_is_nil(struct uuid uuid)
{
    static const struct uuid nil;
    return uuid_equal(uuid, nil);
}

uint32_t uuid_fnv1a(struct uuid uuid)
{
    char text[UUID_TEXT_SIZE];
    uint32_t hash = 2166136261u;
    for (const char *c = uuid_format(uuid, text); *c != '\0'; c++) {
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    }
    return hash;
}
