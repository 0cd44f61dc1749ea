/*
 * pipeline/problem.h: every refusal that the outside can meet, by one code each (problem.def), and
 * its form as problem details (RFC 9457): type, title, status, detail, field, code.
 */
#ifndef ONCEPAY_PIPELINE_PROBLEM_H
#define ONCEPAY_PIPELINE_PROBLEM_H

#include "pipeline/value.h"

enum problem_code {
    PROBLEM_NONE = 0,
#define PROBLEM(code, word, http_status, is_stored, title) PROBLEM_##code,
#include "pipeline/problem.def"
#undef PROBLEM
};

struct problem {
    enum problem_code code;
    const char *field;  /* "target.id", a header's name, or NULL */
    const char *detail; /* the rule, without the offending value; NULL: the title says it all */
};

const char *problem_word(enum problem_code code); /* "field_missing" */
int problem_status(enum problem_code code);       /* HTTP status */
const char *problem_title(enum problem_code code);
/* Stored under the idempotency key are refusals that depend on state (protocol E). */
bool problem_is_stored(enum problem_code code);

/* The map of a problem body, with room for extra_capacity more members. */
struct value problem_value(const struct problem *problem, size_t extra_capacity,
                           struct arena *arena);

#endif
