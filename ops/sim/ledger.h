/*
 * ops/sim/ledger.h: the simulated PSP's own books: accounts, charges, idempotency keys, events not
 * yet acknowledged and the virtual clock, in memory and in one log. Changes are noted first and
 * become durable together by ledger_commit; nobody is answered before that.
 */
#ifndef ONCEPAY_SIM_LEDGER_H
#define ONCEPAY_SIM_LEDGER_H

#include "ops/sim/event.h"
#include "ops/sim/idempotency.h"
#include "ops/sim/logfile.h"

struct ledger {
    struct logfile log;
    struct account *accounts;
    struct charge **charges; /* in order of execution: the rows of GET /_sim/ledger */
    size_t charge_count;
    size_t charge_capacity;
    struct table charges_by_object;
    struct table keys;
    int64_t clock_offset_s;

    /* Filled by ledger_open: events of earlier runs that nobody acknowledged. */
    struct event **unacknowledged;
    size_t unacknowledged_count;
};

/* False: error says path, line and cause. */
bool ledger_open(struct ledger *ledger, const char *directory, char error[LOGFILE_ERROR_SIZE]);
void ledger_close(struct ledger *ledger);
/* Forgets everything but the accounts, on disk too. Events must have been dropped before. */
void ledger_clear(struct ledger *ledger);
void ledger_commit(struct ledger *ledger);

/* The account of that name, made on first use; NULL if it belongs to another protocol. */
const struct account *ledger_account(struct ledger *ledger, const char *name, const char *protocol);
const struct account *ledger_find_account(const struct ledger *ledger, const char *name);

/* Takes over the charge. */
void ledger_add_charge(struct ledger *ledger, struct charge *charge);
/* decline_code: NULL or "" unless declined. What was due by itself is no longer. */
void ledger_change_charge(struct ledger *ledger, struct charge *charge, enum charge_state state,
                          const char *decline_code, int64_t now_s);
/* NULL if there is none. */
struct charge *ledger_find_charge(const struct ledger *ledger, const char *object);
/*
 * The account's charge of that object name, or, if object is NULL, the newest made under key.
 * NULL if there is none.
 */
struct charge *ledger_find_named(const struct ledger *ledger, const char *account,
                                 const char *object, const char *key);

/* Notes what the key remembers now: its answer, or that it was seen. */
void ledger_note_key(struct ledger *ledger, const struct idempotency_key *entry);
void ledger_note_event(struct ledger *ledger, const struct event *event);
void ledger_note_acknowledged(struct ledger *ledger, const struct event *event);

/* Virtual time: real time plus what tests added. */
int64_t ledger_virtual_s(const struct ledger *ledger);
void ledger_advance_clock(struct ledger *ledger, int64_t seconds);

/* For ledger_load.c: as ledger_add_charge and ledger_account without a line in the log. */
void ledger_index_charge(struct ledger *ledger, struct charge *charge);
const struct account *ledger_index_account(struct ledger *ledger, const char *name,
                                           const char *protocol);

#endif
