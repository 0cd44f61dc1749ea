/*
 * store/query_totals.h: how the whole installation stands, for `oncepay watch`: from small tables
 * and by bounded looks, so that it can be asked every second beside a busy pipeline.
 */
#ifndef ONCEPAY_STORE_QUERY_TOTALS_H
#define ONCEPAY_STORE_QUERY_TOTALS_H

#include "pipeline/case.h"
#include "pipeline/state.h"
#include "store/store.h"

struct query_total_state {
    enum payment_state status;
    int64_t count;
};

struct query_total_case {
    enum case_kind kind;
    int64_t count;
    int64_t oldest_us; /* age */
};

struct query_totals {
    int64_t now_us;                   /* the database's clock */
    struct query_total_state *recent; /* of the newest payments */
    size_t recent_count;
    struct query_total_case *cases; /* open ones */
    size_t case_count;
    int64_t tasks_due;
    int64_t tasks_open;
    int64_t webhooks_waiting;
    int64_t stuck_commands;
    int64_t dead_letters;     /* of the last day, not replayed */
    int64_t events_behind;    /* the relay's saved mark, up to a bound */
    int64_t events_oldest_us; /* age of the oldest of them; 0: none */
};

/* At most recent_max payments of the last recent_ms are looked at. Blocks; lives in the arena. */
enum status query_totals_read(struct store *store, int64_t recent_ms, int32_t recent_max,
                              struct arena *arena, struct query_totals *out_totals) MUST_CHECK;

#endif
