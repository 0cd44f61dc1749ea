/*
 * store/gauges.h: what every process tells about the whole installation: attempts in UNKNOWN, open
 * recovery tasks, stuck work. Read from small tables only (protocol H8); rows of payments and
 * attempts are never scanned.
 */
#ifndef ONCEPAY_STORE_GAUGES_H
#define ONCEPAY_STORE_GAUGES_H

#include "store/store.h"

/* One (account, method, currency) with open recovery tasks. */
struct gauge_recovery {
    const char *account;
    const char *method;
    const char *currency;
    int64_t unknown;
    int64_t unknown_amount_minor;
    int64_t unknown_oldest_us; /* age; 0 when none is UNKNOWN */
    int64_t oldest_us;         /* age of the oldest open task */
};

struct gauge_stuck {
    const char *state; /* "CREATED", "AUTHORIZING", "SENDING" …: never NULL */
    int64_t count;
};

struct gauges {
    const struct gauge_recovery *recovery;
    size_t recovery_count;
    const struct gauge_stuck *stuck;
    size_t stuck_count;
};

/* Blocks; everything lives in the arena. out untouched unless STATUS_OK. */
enum status gauges_read(struct store *store, int64_t stuck_after_s, struct arena *arena,
                        struct gauges *out) MUST_CHECK;

#endif
