/*
 * stages/route/route_batch.h: route's view of the channel accounts, and one batch of commands on
 * its way through it: read afresh, decided, written in one transaction. No bus in it.
 */
#ifndef ONCEPAY_STAGES_ROUTE_ROUTE_BATCH_H
#define ONCEPAY_STAGES_ROUTE_ROUTE_BATCH_H

#include "stages/route/route_decide.h"
#include "stages/stage.h"

/* One process's accounts, in the order of the configuration. */
struct route_desk {
    struct arena arena; /* owns what follows */
    const struct config *config;
    struct route_account
        *accounts; /* open attempts: as counted last, and what this process added since */
    const struct psp_ops **adapters;
    const char *version; /* names these rules in decisions and history */
    int64_t counted_us;  /* monotonic; 0: never */
};

/* STATUS_STOP: an account names a PSP that this build does not have; *out_account is its id. */
enum status route_desk_open(struct route_desk *desk, const struct config *config,
                            const char **out_account) MUST_CHECK;
void route_desk_close(struct route_desk *desk);

struct route_item {
    struct stage_item *stage_item;
    struct route_decision decision;
    const struct route_payment *payment;
    struct command next; /* ROUTE_TAKE: to create; ROUTE_DENY: to settle */
    const char *next_subject;
};

/* Items live in the arena. STATUS_OK: all is committed, and next is there to be announced. */
enum status route_batch_commit(struct route_desk *desk, struct store *store, const char *actor,
                               struct stage_item *const *items, size_t count, struct arena *arena,
                               struct route_item **out_items) MUST_CHECK;

#endif
