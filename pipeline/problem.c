/* pipeline/problem.c: see problem.h. */
#include "pipeline/problem.h"

struct problem_row {
    const char *word;
    const char *type;
    int http_status;
    bool is_stored;
    const char *title;
};

static const struct problem_row PROBLEMS[] = {
#define PROBLEM(code, word, http_status, is_stored, title)                                         \
    [PROBLEM_##code] = { word, "urn:oncepay:problem:" word, http_status, is_stored, title },
#include "pipeline/problem.def"
#undef PROBLEM
};

static const struct problem_row *problem_row(enum problem_code code)
{
    INVARIANT((size_t)code > PROBLEM_NONE && (size_t)code < COUNT_OF(PROBLEMS));
    return &PROBLEMS[code];
}

const char *problem_word(enum problem_code code)
{
    return problem_row(code)->word;
}

int problem_status(enum problem_code code)
{
    return problem_row(code)->http_status;
}

const char *problem_title(enum problem_code code)
{
    return problem_row(code)->title;
}

bool problem_is_stored(enum problem_code code)
{
    return problem_row(code)->is_stored;
}

struct value problem_value(const struct problem *problem, size_t extra_capacity,
                           struct arena *arena)
{
    const struct problem_row *row = problem_row(problem->code);
    struct value map = value_map_make(arena, 6 + extra_capacity);
    value_map_add(&map, "type", value_of_text(row->type));
    value_map_add(&map, "title", value_of_text(row->title));
    value_map_add(&map, "status", value_of_integer(row->http_status));
    if (problem->detail != NULL) value_map_add(&map, "detail", value_of_text(problem->detail));
    if (problem->field != NULL) value_map_add(&map, "field", value_of_text(problem->field));
    value_map_add(&map, "code", value_of_text(row->word));
    return map;
}
