/*
 * ops/sim/arrivals.h: who called, how often, and for each idempotency key when. Kept in memory
 * only: it tells tests what this process saw (one POST, none later than allowed), not what was
 * charged; that is the ledger's business.
 */
#ifndef ONCEPAY_SIM_ARRIVALS_H
#define ONCEPAY_SIM_ARRIVALS_H

#include "ops/sim/table.h"
#include "ops/sim/textbuf.h"

struct arrival_key;
struct arrival_total;

struct arrivals {
    struct table keys_by_name;
    struct arrival_key **keys; /* in order of first arrival */
    size_t key_count;
    size_t key_capacity;
    struct arrival_total *totals;
};

struct arrival {
    const char *account;
    const char *method; /* "POST"; a constant */
    const char *kind;   /* "create", "retrieve", "other"; a constant */
    const char *key;    /* NULL: none was sent */
    int64_t real_ms;
    int64_t monotonic_ms;
};

/* The first ARRIVAL_TIMES_MAX times of a key are kept; its count goes on. */
enum { ARRIVAL_TIMES_MAX = 64 };

void arrivals_note(struct arrivals *arrivals, const struct arrival *arrival);
/* JSON; account and key narrow it down and may be NULL. */
void arrivals_render(const struct arrivals *arrivals, const char *account, const char *key,
                     struct textbuf *out);
/* How many POSTs carried this key. */
size_t arrivals_posts(const struct arrivals *arrivals, const char *account, const char *key);
void arrivals_clear(struct arrivals *arrivals);

#endif
