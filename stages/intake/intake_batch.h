/*
 * stages/intake/intake_batch.h: one batch of producers' messages on its way through intake: read
 * (pure), decided from one look at the database, written in one transaction. What Redis and NATS
 * add around it stands in intake_handle.c, so that all of this can be tried without them.
 */
#ifndef ONCEPAY_STAGES_INTAKE_INTAKE_BATCH_H
#define ONCEPAY_STAGES_INTAKE_INTAKE_BATCH_H

#include "stages/intake/intake_decide.h"
#include "stages/stage.h"

struct intake_item {
    struct stage_item *stage_item; /* its message, and where the disposal goes */
    struct request_envelope envelope;
    const struct config_merchant *merchant; /* NULL: not known */
    struct pay_request request;             /* whole if is_valid, else at most out_trade_no */
    bool is_valid;
    struct problem problem; /* of an invalid one, and of a refusal */

    bool is_held_back; /* another worker is at it: not decided in this round */
    bool is_twin;      /* it waits for another item of this batch */
    const struct intake_found *found;
    int64_t start_by_us;
    struct intake_decision decision; /* valid, not held back, not a twin */

    struct payment_id payment; /* accepted, or the one that is asked about again */
    struct outbox_id command;  /* accepted: its route command */
    struct intake_answer answer;
};

struct intake_batch {
    const struct config *config;
    const char *actor;
    struct arena *arena;
    struct intake_item *items;
    size_t count;
    /*
     * Not 0: as far as Redis knows, all of it is new, and this is the database's clock or a little
     * less. It is written without a look, and looked at only if the database refuses.
     */
    int64_t unseen_now_us;
    bool was_seen; /* the database was read */
};

/* Reads and checks the messages. Pure; items live in the arena. */
void intake_batch_read(struct intake_batch *batch, struct stage_item *const *items, size_t count);

/*
 * Decides and writes all that is not held back, and gives each its answer; STATUS_OK: it is
 * committed. Anything else: nothing is, and the batch is to be read again.
 */
enum status intake_batch_commit(struct intake_batch *batch, struct store *store) MUST_CHECK;

/* An item that has an answer for its producer: invalid, or decided. */
static inline bool intake_item_is_answered(const struct intake_item *item)
{
    return !item->is_valid || (!item->is_held_back && !item->is_twin);
}

#endif
