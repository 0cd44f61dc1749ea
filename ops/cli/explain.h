/*
 * ops/cli/explain.h: the five questions about one payment (design §8), answered in plain words from
 * its rows: what failed and when; what we know and what the PSP may know; what prevents a second
 * charge; who reads which evidence next, and when; how we will know that recovery ran once. Pure:
 * rows in, sentences out. What recover will do next is asked of the function that recover asks.
 */
#ifndef ONCEPAY_OPS_CLI_EXPLAIN_H
#define ONCEPAY_OPS_CLI_EXPLAIN_H

#include "stages/recovery_plan.h"
#include "store/query_store.h"

enum explain_question {
    EXPLAIN_FAILED = 0,
    EXPLAIN_KNOWN,
    EXPLAIN_BARRIER,
    EXPLAIN_NEXT,
    EXPLAIN_ONCE,
};
enum { EXPLAIN_QUESTION_COUNT = 5 };

const char *explain_question_name(enum explain_question question); /* "what_failed" … */
const char *explain_question_text(enum explain_question question); /* "What failed, and when?" … */

struct explain_line {
    int64_t at_us; /* when it happened or will; 0: no one moment */
    const char *text;
};

struct explain_answer {
    struct explain_line *lines; /* never empty */
    size_t count;
    size_t size;
};

/* What the rows do not say. */
struct explain_input {
    const struct query_picture *picture;
    const struct psp_capability *const
        *capabilities;                        /* per attempt; NULL: the account is not configured */
    const struct recovery_rule *const *rules; /* per task; NULL: not known */
    const struct config_timers *timers;
    int64_t command_lag_ms; /* when the relay looks at a command that nobody moved */
};

/* One answer per question, in the arena. */
void explain(const struct explain_input *input, struct arena *arena,
             struct explain_answer out_answers[EXPLAIN_QUESTION_COUNT]);

#endif
