/*
 * tests/simulation/shrink.h: makes a failing plan smaller: leaves out kinds of faults, requests,
 * delays, then single faults by halves, as long as it fails by the same invariant.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_SHRINK_H
#define ONCEPAY_TESTS_SIMULATION_SHRINK_H

#include "tests/simulation/world.h"

/* plan fails in this world under the mutant; it is replaced by a smaller one that still does. */
void shrink(struct world *world, struct plan *plan, enum mutant mutant);

#endif
