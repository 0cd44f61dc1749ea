/*
 * ops/cli/explain_internal.h: what the files of explain share: the situation that a sentence is
 * about, and tables of sentences: each row says when it holds and what it says then.
 */
#ifndef ONCEPAY_OPS_CLI_EXPLAIN_INTERNAL_H
#define ONCEPAY_OPS_CLI_EXPLAIN_INTERNAL_H

#include "ops/cli/cli_text.h"
#include "ops/cli/explain.h"

struct situation {
    const struct explain_input *input;
    const struct query_picture *picture;
    const struct query_payment *payment;
    struct arena *arena;
    struct explain_answer *answer;       /* that is being written */
    const struct query_attempt *attempt; /* the last create; NULL: none. Or the one of the loop */
    const struct psp_capability *capability; /* of attempt's account; NULL: not known */
};

/* A sentence that is said when it holds. */
struct sentence {
    bool (*holds)(const struct situation *situation);
    void (*say)(struct situation *situation);
};

void explain_say(struct situation *situation, int64_t at_us, const char *format, ...)
    PRINTF_LIKE(3, 4);
void explain_sentences(struct situation *situation, const struct sentence *sentences, size_t count);
/* The same for each attempt in turn. */
void explain_each_attempt(struct situation *situation, const struct sentence *sentences,
                          size_t count);

/* The answers, one file each or two. */
void explain_failed(struct situation *situation);
void explain_known(struct situation *situation);
void explain_barrier(struct situation *situation);
void explain_next(struct situation *situation);
void explain_once(struct situation *situation);

/* Facts that several answers need. */
struct explain_sends {
    size_t made;   /* requests that may move money */
    size_t open;   /* … and of which no evidence says that they had no effect, or what they did */
    size_t unread; /* … and of which no result is stored at all */
};
struct explain_sends explain_count_sends(const struct situation *situation);
/* "1 send", "2 sends". */
const char *explain_sends_text(const struct situation *situation, size_t count);
/* A success that differs from what was asked stopped all automation (protocol B5). */
bool explain_is_mismatch(const struct query_attempt *attempt);
/* The open task of attempt; NULL: none. */
const struct query_task *explain_task(const struct situation *situation);
bool explain_is_over(enum payment_state status); /* waits for no attempt any more */
/* The last history row that brought the entity into the state it is in; NULL: none. */
const struct query_history *explain_history_end(const struct query_picture *picture,
                                                enum entity entity, struct uuid id, int status);
/* "attempt 1 at stripe-main". */
const char *explain_attempt_name(const struct situation *situation);

#endif
