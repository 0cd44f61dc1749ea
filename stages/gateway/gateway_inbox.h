/*
 * stages/gateway/gateway_inbox.h: one thread that keeps verified webhooks. All that wait are
 * committed together; each sender is answered after that commit, or told to come again when it
 * takes too long. After the commit recover is told, best effort: the relay does it otherwise.
 */
#ifndef ONCEPAY_STAGES_GATEWAY_GATEWAY_INBOX_H
#define ONCEPAY_STAGES_GATEWAY_GATEWAY_INBOX_H

#include "adapters/nats/bus_nats.h"
#include "stages/health.h"
#include "store/gateway_store.h"

struct gateway_inbox;

enum gateway_outcome {
    GATEWAY_STORED = 1,
    GATEWAY_DUPLICATE,   /* kept before, under this account and event id */
    GATEWAY_UNAVAILABLE, /* PostgreSQL is away or slow: come again */
    GATEWAY_REJECTED,    /* PostgreSQL can never take it */
};

/* One that waits. Made by the caller, freed by the inbox. */
struct gateway_entry {
    struct arena arena; /* owns all that row points to */
    struct gateway_row row;
    struct observation observation;
    /* Called exactly once, from any thread, without a lock held. */
    void (*done)(void *self, enum gateway_outcome outcome);
    void *self;
    /* The inbox's own: */
    struct gateway_entry *next;
    int64_t due_us;
    bool is_answered;
};

struct gateway_inbox_options {
    struct store
        *store;      /* used by the inbox's thread alone; the caller destroys it after closing */
    struct bus *bus; /* NULL: nobody is told at once */
    struct health *health; /* NULL: nobody is told what is waited for */
    size_t queue_max;      /* entries that may wait */
    int64_t wait_ms;       /* longest time to an answer */
};

struct gateway_inbox *gateway_inbox_open(const struct gateway_inbox_options *options);
/* Commits what waits; then every entry has had its answer. */
void gateway_inbox_close(struct gateway_inbox *inbox);

/*
 * Takes the entry over, unless false: the queue is full, nothing was called, the caller keeps it.
 */
bool gateway_inbox_put(struct gateway_inbox *inbox, struct gateway_entry *entry) MUST_CHECK;
/* For an entry that was not put. */
void gateway_entry_free(struct gateway_entry *entry);
/* Answers those that have waited too long. To be called a few times a second. */
void gateway_inbox_expire(struct gateway_inbox *inbox, int64_t monotonic_us);

#endif
