/* ops/sim/ident.c: see ident.h. */
#include "ops/sim/ident.h"

#include <sys/random.h>
#include <time.h>

enum { IDENT_RANDOM_CHARS = 24 };

static void random_fill(uint8_t *out, size_t length)
{
    static uint8_t pool[240];
    static size_t left;
    INVARIANT(length <= sizeof pool);
    if (left < length) {
        INVARIANT(getrandom(pool, sizeof pool, 0) == (ssize_t)sizeof pool);
        left = sizeof pool;
    }
    left -= length;
    memcpy(out, pool + left, length);
}

char *ident_make(const char *prefix, char out[IDENT_SIZE])
{
    static const char DIGITS[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const size_t at = strlen(prefix);
    INVARIANT(at + IDENT_RANDOM_CHARS < IDENT_SIZE);
    uint8_t random[IDENT_RANDOM_CHARS];
    random_fill(random, sizeof random);
    memcpy(out, prefix, at);
    for (size_t i = 0; i < sizeof random; i++) out[at + i] = DIGITS[random[i] % 62];
    out[at + sizeof random] = '\0';
    return out;
}

bool ident_is_token(const char *text, size_t length)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    if (length == 0 || length > 64) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\0' || strchr(ALPHABET, text[i]) == NULL) return false;
    }
    return true;
}

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    INVARIANT(clock_gettime(clock, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t ident_real_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

int64_t ident_monotonic_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}
