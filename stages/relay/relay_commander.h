/*
 * stages/relay/relay_commander.h: stages publish their own commands, best effort; this follows
 * what they wrote and emits again what got lost (protocol H1), and keeps the list of what does not
 * move all the same, with its cases (protocol I: re-emit, then alarm, then case).
 *
 * A command is looked at, by primary key, when it is old enough to have been visible for every
 * reader. If its work has not moved, the stream is asked whether a message as old as it is left on
 * its subject; only if not is a new outbox row written and published.
 */
#ifndef ONCEPAY_STAGES_RELAY_RELAY_COMMANDER_H
#define ONCEPAY_STAGES_RELAY_RELAY_COMMANDER_H

#include "adapters/nats/bus_nats.h"
#include "config/config.h"
#include "stages/relay/relay_sweep.h"
#include "store/relay_command_store.h"
#include "store/relay_store.h"

struct relay_subject {
    char subject[SUBJECT_SIZE];
    const char *stream;
    char durable[SUBJECT_SIZE]; /* who takes its messages from the stream */
    const char *stage;
    int64_t mark_us;       /* commands up to here have been looked at */
    int64_t saved_us;      /* the mark that the database has */
    int64_t held_until_us; /* monotonic: a message is left, no use to look before */
    struct relay_standstill still;
};

struct relay_commander {
    struct store *store;
    struct bus *bus; /* NULL in tests of the store's half: no message is ever left */
    struct relay_subject *subjects;
    size_t subject_count;
    int64_t age_ms;
    int64_t stuck_after_us;
    int64_t standstill_us; /* two ack waits */
    int32_t page_limit;    /* per subject */
    int64_t emit_per_s;
    int64_t tokens_us; /* bucket: microseconds' worth of commands */
    int64_t filled_us;
    int64_t saved_marks_us;
    bool is_stream_missing; /* somebody must look what is there */
    char cookie;            /* its address marks our publishes */
};

void relay_commander_init(struct relay_commander *commander, const struct config *config,
                          struct store *store, struct bus *bus);
void relay_commander_finish(struct relay_commander *commander);

/* Begins where the marks stand. */
enum status relay_commander_start(struct relay_commander *commander,
                                  int64_t monotonic_us) MUST_CHECK;

/* One page of every subject. *out_has_more: read again at once. */
enum status relay_commander_sweep(struct relay_commander *commander, int64_t monotonic_us,
                                  bool *out_has_more) MUST_CHECK;

/* The list of the stuck: what moved leaves it, what is due is emitted again; then the cases. */
enum status relay_commander_stuck(struct relay_commander *commander,
                                  int64_t monotonic_us) MUST_CHECK;

#endif
