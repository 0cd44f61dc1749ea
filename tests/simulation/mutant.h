/* tests/simulation/mutant.h: the planted bugs of mutant.def by name. */
#ifndef ONCEPAY_TESTS_SIMULATION_MUTANT_H
#define ONCEPAY_TESTS_SIMULATION_MUTANT_H

#include "pipeline/base.h"

enum mutant {
    MUTANT_NONE = 0,
#define MUTANT(name, word, invariants, what) MUTANT_##name,
#include "tests/simulation/mutant.def"
#undef MUTANT
    MUTANT_COUNT
};

/* "skip_fence"; "none" for MUTANT_NONE. */
const char *mutant_word(enum mutant mutant);
const char *mutant_what(enum mutant mutant);
/* Does this failure ("I9: …") show the mutant's own harm? */
bool mutant_harms(enum mutant mutant, const char *failure);
bool mutant_parse(const char *word, enum mutant *out);

#endif
