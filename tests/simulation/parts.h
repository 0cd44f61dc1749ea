/*
 * tests/simulation/parts.h: the workers of the stages, await by await, in the order of the real
 * ones (stages/…): they read, let the real decider decide (decide.h), write, publish, ack. They may
 * die or stand still at each await.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_PARTS_H
#define ONCEPAY_TESTS_SIMULATION_PARTS_H

#include "stages/findings.h"
#include "stages/intake/intake_answer.h"
#include "tests/simulation/bank.h"
#include "tests/simulation/database.h"
#include "tests/simulation/streams.h"

#define SEND_BY_US (2 * CLOCK_SECOND_US)
#define CALL_LIMIT_US (30 * CLOCK_SECOND_US)
#define FENCE_GRACE_US (5 * CLOCK_SECOND_US)
#define LEASE_US (45 * CLOCK_SECOND_US)
#define KEY_LIFETIME_US (INT64_C(24) * 3600 * CLOCK_SECOND_US)
enum { START_BY_S = 900 };

/* What the stages of one installation share: accounts, policy, limits. */
struct parts {
    struct config_account accounts[ACCOUNTS];
    struct psp_ops psp;
    struct recovery_policy policy;
    struct recovery_rule rule;
    struct recovery_limits limits;
    struct findings findings[ACCOUNTS];
    struct finding *first_finding; /* all that live, for the end of the run */
    struct relay_part *relay;
    struct intake_clock clocks[WORKERS_MAX]; /* what each worker's memory knows */
    int64_t late_until_us[WORKERS_MAX];      /* its results are written late */
};

struct parts *parts_create(void);
void parts_destroy(struct parts *parts);
void parts_begin(struct world *world);
void parts_end(struct world *world);
/* A worker has nothing in hand and looks for work. */
void parts_look(struct world *world, struct worker *worker);
/* It died: what the world knew of its memory goes. */
void parts_forget(struct world *world, struct worker *worker);

/* After a commit: recover looks again when what is due next is due. */
void parts_note_due(struct world *world);

/* One stage each. */
void part_intake_look(struct world *world, struct worker *worker);
void part_route_look(struct world *world, struct worker *worker);
void part_create_look(struct world *world, struct worker *worker);
void part_recover_look(struct world *world, struct worker *worker);
void part_inbox_look(struct world *world, struct worker *worker, size_t account, bool is_sweep_due);
void part_settle_look(struct world *world, struct worker *worker);

void part_relay_begin(struct world *world);
void part_relay_end(struct world *world);
void part_relay_look(struct world *world, struct worker *worker);
void part_relay_forget(struct world *world, const struct worker *worker);
/* Every event that history wrote is on the event stream. */
bool part_relay_is_done(const struct world *world);
/* The events as they came to the stream, oldest first: rows of the outbox. */
const size_t *part_relay_stream(const struct world *world, size_t *out_count);

/* A verified webhook; answered: the PSP got its 2xx. */
void part_gateway_receive(struct world *world, size_t account,
                          const struct observation *observation,
                          void (*answered)(struct world *world, void *owner), void *owner);

/* A message in hand: acked, or handed back whole, when each of its commands is done. */
struct part_hand {
    struct stored_message *message;
    size_t open;
    int64_t nak_us;
};
struct part_hand *part_hand_take(struct world *world, struct worker *worker, size_t stream);
/* nak_us 0: done. */
void part_hand_done(struct world *world, struct part_hand *hand, int64_t nak_us);
/* A worker of one batch at a time is free again. */
void part_free(struct world *world, struct worker *worker);
/* Looks again when the next message of the stream may be taken. */
void part_look_later(struct world *world, struct worker *worker, size_t stream);

/* --- findings --------------------------------------------------------------------------------- */

/* A finding on its way through a worker's writer. */
struct part_finding {
    struct job job;
    struct finding real;
    size_t account;
    unsigned tag;
    struct part_fence *fence; /* NULL: none */
    struct part_hand *hand;   /* its command is done when this ends; NULL: none */
    struct attempt_outcome outcome;
    struct recovery_next next;
    struct stray_fact_input stray;
    struct stray_fact_rows stray_rows;
    struct stray_fact_plan stray_plan;
    struct command commands[STRAY_FACT_ATTEMPTS_MAX];
    size_t command_count;
    int stray_rounds;
    int32_t moved; /* its attempt's new version; 0: the CAS was lost */
};

/* What the findings of one fence share in their worker's memory. */
struct part_fence {
    struct uuid id;
    size_t open;
};

struct part_finding *part_finding_create(struct world *world, struct worker *worker,
                                         size_t account);
/* Judges, stores, announces; judges again what lost its race. */
void part_finding_start(struct world *world, struct part_finding *finding);
void part_finding_answered(struct world *world, struct call *call,
                           const struct observation *observation);
/* Looks at the clock, as the transport does, and hands the bytes over; or does not send. */
void part_call(struct world *world, struct call *call, int64_t send_by_us);
void part_finding_load(struct world *world, struct part_finding *finding);

#endif
