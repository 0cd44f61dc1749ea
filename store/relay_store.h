/*
 * store/relay_store.h: what the relay reads and writes to follow the outbox's events: its session
 * lock, pages of events by snapshot, marks, and where republishing begins. All calls block.
 */
#ifndef ONCEPAY_STORE_RELAY_STORE_H
#define ONCEPAY_STORE_RELAY_STORE_H

#include "store/store.h"

/* --- the session --------------------------------------------------------------------------- */

struct relay_claim {
    bool is_held;    /* the shard is ours, as long as this session lives */
    int32_t session; /* which one it is */
    int64_t system_identifier;
    int64_t now_us; /* the database's clock */
};
/* One relay per payment shard: a session advisory lock, so that it is gone with the session. */
enum status relay_store_claim(struct store *store, int32_t shard,
                              struct relay_claim *out) MUST_CHECK;

struct relay_position {
    const char *name;
    int64_t mark_us;  /* 0: none */
    int64_t mark_xid; /* 0: none */
    int64_t system_identifier;
    const char *stream_created; /* NULL: none */
    int64_t stream_last;
};
enum status relay_store_positions(struct store *store, struct arena *arena,
                                  const struct relay_position **out_positions,
                                  size_t *out_count) MUST_CHECK;

/* The lowest id that can have been drawn at a time. */
struct uuid relay_store_id_floor(int64_t real_us);

/* --- events -------------------------------------------------------------------------------- */

struct relay_row {
    int64_t xid;
    struct outbox_id id;
    struct payment_id payment; /* nil: none */
    int32_t version;
    int64_t created_us;
    const char *subject;
    const char *headers;
    struct span body;
};

struct relay_page_query {
    const char *base;   /* events that this snapshot shows are left out */
    const char *target; /* the snapshot to read; NULL: the present one */
    int64_t after_xid;  /* the page begins after this event; 0 and nil: with the first */
    struct uuid after_id;
    int32_t limit;
    int64_t floor_us; /* no event is older by its id */
    int32_t session;  /* that must still be ours */
};

struct relay_page {
    bool is_ours; /* false: another session answered; what was read says nothing */
    const char *snapshot;
    int64_t xmin; /* every transaction before it is over */
    int64_t now_us;
    const struct relay_row *rows; /* by (xid, id) */
    size_t count;
};
/* Everything lives in the arena. */
enum status relay_store_events(struct store *store, const struct relay_page_query *query,
                               struct arena *arena, struct relay_page *out_page) MUST_CHECK;

/* A payment's events below a version. */
struct relay_before {
    struct payment_id payment;
    int32_t version;
};
/* Those that come after this event by (xid, id) and are shown by the snapshot. */
enum status relay_store_events_before(struct store *store, const struct relay_before *before,
                                      size_t count, int64_t after_xid, struct uuid after_id,
                                      const char *snapshot, int64_t floor_us, struct arena *arena,
                                      const struct relay_row **out_rows,
                                      size_t *out_count) MUST_CHECK;
/* All of one payment, by version. */
enum status relay_store_events_payment(struct store *store, struct payment_id payment,
                                       struct arena *arena, const struct relay_row **out_rows,
                                       size_t *out_count) MUST_CHECK;

/* --- marks --------------------------------------------------------------------------------- */

/* Members with a NULL name are left as they stand. One transaction. */
struct relay_marks {
    const char *event_name; /* "event:0" */
    int64_t event_xid;
    int64_t event_at_us;
    int64_t system_identifier;
    const char *stream_name; /* "stream:PAY_EVENT" */
    const char *stream_created;
    int64_t stream_last;
    const char *republish_name; /* "republish:0" */
    int64_t republish_xid;      /* 0: nothing is republished */
};
/* *out_has_moved: the event mark; it stays where it is rather than fall. */
enum status relay_store_mark(struct store *store, const struct relay_marks *marks,
                             bool *out_has_moved) MUST_CHECK;

/*
 * Where to begin to republish what came after an event: events_before earlier. STATUS_NOT_FOUND: no
 * such event.
 */
enum status relay_store_republish_after(struct store *store, struct outbox_id last,
                                        int32_t events_before, int64_t *out_xid) MUST_CHECK;
/* … what was written since a time. STATUS_NOT_FOUND: nothing. */
enum status relay_store_republish_since(struct store *store, int64_t since_us,
                                        int64_t *out_xid) MUST_CHECK;

enum status relay_store_make_partitions(struct store *store, int32_t *out_made) MUST_CHECK;

#endif
