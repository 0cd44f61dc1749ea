/* pipeline/cache.c: see cache.h. */
#include "pipeline/cache.h"

const char *cache_verdict_name(int code)
{
    static const char *const NAMES[] = {
        [CACHE_UNKNOWN] = "unknown",
        [CACHE_PLACED] = "placed",
        [CACHE_HELD] = "held",
        [CACHE_ANSWERED] = "answered",
    };
    return code >= 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}
