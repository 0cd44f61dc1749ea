/*
 * tests/simulation/check.h: what must hold. After each step the cheap checks, of what has changed;
 * when all is quiet everything, with the PSP's own ledger and the event stream as outside books.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_CHECK_H
#define ONCEPAY_TESTS_SIMULATION_CHECK_H

#include "stages/findings.h"
#include "tests/simulation/bank.h"
#include "tests/simulation/database.h"

void check_step(struct world *world);
/* I20: at the moment when the bytes are handed over. */
void check_send(struct world *world, const struct call *call);
/* I20: when a request row is written. */
void check_request_row(struct world *world, size_t attempt, enum request_kind kind);
/* D: a finding is done with; its observation is a row, whoever won. */
void check_observation(struct world *world, struct evidence_id evidence);
/* D: who had to judge a webhook again dies. */
void check_unjudged(struct world *world, const struct finding *finding);
/* A command's message is acked: is what it named done? */
void check_ack(struct world *world, size_t stream, const struct command *command);
void check_intake_ack(struct world *world, const struct pay_request *request);
/* I22: before anybody outside hears an answer. Returns when its key's life ends; 0: no key. */
int64_t check_answer(struct world *world, const struct pay_request *request,
                     const struct intake_answer *answer);
/* E: when Redis answers before PostgreSQL is asked. */
void check_early(struct world *world, const struct pay_request *request);
/* E: at the moment when somebody is told that a target may be paid again. */
void check_safe(struct world *world, size_t payment);
/* Money moved at the PSP for a payment that was said to be safe to pay again. */
void check_charge(struct world *world, const struct charge *charge);
/* audit.c: when all is quiet. */
void audit_rest(struct world *world);

/* Rare states that the seeds of a run must reach between them. */
enum reached {
#define REACHED(name, word) REACHED_##name,
#include "tests/simulation/reached.def"
#undef REACHED
    REACHED_COUNT
};
const char *reached_word(unsigned what);

#endif
