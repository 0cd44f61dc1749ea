/* tests/simulation/mutant.c: see mutant.h. */
#include "tests/simulation/mutant.h"

static const struct {
    const char *word;
    const char *invariants;
    const char *what;
} MUTANTS[] = {
    [MUTANT_NONE] = { "none", "", "nothing" },
#define MUTANT(name, word, invariants, what) [MUTANT_##name] = { #word, invariants, what },
#include "tests/simulation/mutant.def"
#undef MUTANT
};

const char *mutant_word(enum mutant mutant)
{
    return MUTANTS[mutant].word;
}

const char *mutant_what(enum mutant mutant)
{
    return MUTANTS[mutant].what;
}

bool mutant_harms(enum mutant mutant, const char *failure)
{
    const size_t length = strcspn(failure, ":");
    const char *at = MUTANTS[mutant].invariants;
    while (*at != '\0') {
        const size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, failure, length) == 0) return true;
        at += word + (at[word] == ' ');
    }
    return false;
}

bool mutant_parse(const char *word, enum mutant *out)
{
    for (size_t i = 0; i < COUNT_OF(MUTANTS); i++) {
        if (strcmp(MUTANTS[i].word, word) != 0) continue;
        *out = (enum mutant)i;
        return true;
    }
    return false;
}
