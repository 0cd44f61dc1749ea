/*
 * tests/simulation/decide.h: the real deciders as the parts call them. Without a mutant each
 * function is the decider and nothing else; a mutant that would live in a decider alters here what
 * goes in or comes out.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_DECIDE_H
#define ONCEPAY_TESTS_SIMULATION_DECIDE_H

#include "stages/findings.h"
#include "stages/intake/intake_decide.h"
#include "stages/route/route_decide.h"
#include "stages/settle/settle_decide.h"
#include "tests/simulation/bank.h"

struct intake_decision decide_intake(struct world *world, const struct pay_request *request,
                                     int64_t start_by_us, const struct intake_found *found);
struct route_decision decide_route(struct world *world, const struct route_payment *payment,
                                   struct route_candidate *candidates, size_t count);
/* The provider key of a payment's create: provider_key_make. */
const char *decide_key(struct world *world, const struct route_payment *payment, const char *target,
                       int ordinal);
struct verdict decide_verdict(struct world *world, const struct observation *observation,
                              const struct psp_capability *capability,
                              const struct judge_attempt *attempt);
enum recovery_action decide_recovery(struct world *world, const struct recovery_rule *rule,
                                     const struct recovery_limits *limits,
                                     const struct recovery_view *view);
struct settle_decision decide_settle(struct world *world, enum command_kind kind,
                                     const struct settle_facts *facts,
                                     const struct settle_rules *rules);

#endif
