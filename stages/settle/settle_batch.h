/*
 * stages/settle/settle_batch.h: one batch of commands to settle: read afresh, decide each, write
 * the payments that move in one transaction; who lost its compare-and-set is read and decided
 * again. Stray facts follow, each in a transaction of its own. Knows no bus: what is to be
 * announced is handed out.
 */
#ifndef ONCEPAY_STAGES_SETTLE_SETTLE_BATCH_H
#define ONCEPAY_STAGES_SETTLE_SETTLE_BATCH_H

#include "stages/settle/settle_decide.h"
#include "stages/stage.h"

struct settle_account {
    const char *id;
    const struct psp_capability *capability;
};

struct settle {
    struct store *store;
    const char *actor;
    const struct settle_account *accounts;
    size_t account_count;
    int64_t call_limit_us;
    int64_t late_arrival_extra_s;
    int64_t give_up_after_us; /* a command whose rows are not there is handed back that long */
};

/* What was committed and wants to be told. */
struct settle_news {
    bool has_events;
    /* Of attempts that a stray fact ended, in the arena; for their payments' subject_settle. */
    struct command *commands;
    size_t command_count;
};

/*
 * Sets every item's disposal. Anything but STATUS_OK: decide them all again; what was committed
 * stays committed.
 */
enum status settle_batch_run(const struct settle *settle, struct stage_item *const *items,
                             size_t count, struct arena *arena,
                             struct settle_news *out_news) MUST_CHECK;

#endif
