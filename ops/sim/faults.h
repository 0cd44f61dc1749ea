/*
 * ops/sim/faults.h: what goes wrong, by rule. A rule says whom it matches and what happens; rules
 * of one slot share one draw, made from the seed and the subject alone, so that neither the order
 * of requests nor a restart changes it. ops/sim/README.md documents the JSON.
 */
#ifndef ONCEPAY_SIM_FAULTS_H
#define ONCEPAY_SIM_FAULTS_H

#include "ops/sim/textbuf.h"

#include <jansson.h>

/* Faults of one slot exclude each other; different slots combine. */
enum fault_slot {
    FAULT_SLOT_ANSWER = 1, /* what happens to the request and its answer */
    FAULT_SLOT_DELAY,
    FAULT_SLOT_ANSWER_DELAY,
    FAULT_SLOT_OUTCOME,
    FAULT_SLOT_ECHO,
    FAULT_SLOT_CONTRADICTION,
    FAULT_SLOT_GET,
    FAULT_SLOT_GET_DELAY,
    FAULT_SLOT_WEBHOOK_DUPLICATE,
    FAULT_SLOT_WEBHOOK_REORDER,
    FAULT_SLOT_WEBHOOK_FORGE,
    FAULT_SLOT_WEBHOOK_DELAY,
    FAULT_SLOT_WEBHOOK_NONE,
    FAULT_SLOT_KEEPING,
    FAULT_SLOT_PAYABLE,
};

enum fault_kind {
    FAULT_NONE = 0,
    FAULT_LOST_AFTER_COMMIT,
    FAULT_DROP_BEFORE,
    FAULT_ERROR_5XX_BEFORE,
    FAULT_ERROR_5XX_AFTER,
    FAULT_HALF_BODY,
    FAULT_RESET,
    FAULT_RATE_LIMIT_429,
    FAULT_IN_PROGRESS_409,
    FAULT_DELAY_MS,
    FAULT_ANSWER_DELAY_MS,
    FAULT_DECLINE,
    FAULT_PENDING_THEN,
    FAULT_WRONG_ECHO,
    FAULT_ANSWER_DECLINED,
    FAULT_GET_404,
    FAULT_GET_403,
    FAULT_GET_429,
    FAULT_GET_5XX,
    FAULT_GET_DROP,
    FAULT_GET_DECLINED,
    FAULT_GET_PROCESSING,
    FAULT_GET_DELAY_MS,
    FAULT_DUPLICATE_WEBHOOKS,
    FAULT_REORDER_WEBHOOKS,
    FAULT_FORGE_WEBHOOKS,
    FAULT_WEBHOOK_DELAY_MS,
    FAULT_NO_WEBHOOKS,
    FAULT_KEEP_SUCCESSES_ONLY,
    FAULT_DECLINED_STAYS_PAYABLE,
};

/* The action of a rule; small enough to be copied to where it takes effect. */
struct fault {
    enum fault_kind kind;
    int64_t ms;
    int64_t times; /* 0: no bound */
    int status;
    bool stored;          /* a 5xx: is it what the key answers from now on? */
    char code[40];        /* decline, …_declined: decline code; pending_then: result */
    int64_t amount_minor; /* wrong_echo; 0: as asked */
    char currency[4];     /* wrong_echo; empty: as asked */
    char reference[65];   /* wrong_echo; empty: as asked */
};

struct fault_rule {
    char account[65]; /* "": any */
    char method[65];
    char key_prefix[256];
    int64_t amount_minor; /* 0: any */
    uint32_t probability_millionths;
    int64_t limit;   /* 0: no bound */
    int64_t applied; /* how often so far */
    struct fault fault;
};

struct fault_set {
    uint64_t seed;
    uint64_t generation; /* raised by each replacement */
    struct fault_rule *rules;
    size_t count;
};

/* Whose turn it is. draw names the one decision; equal draws give equal results. */
struct fault_subject {
    const char *account;
    const char *method; /* NULL: unknown */
    const char *key;    /* NULL: none */
    int64_t amount_minor;
    const char *draw;
};

enum { FAULTS_ERROR_SIZE = 200, FAULT_RULES_MAX = 1000 };

/*
 * Replaces all rules by those of a JSON array. False: the old rules stay, and error names the
 * rule, the field and what is wrong with it.
 */
bool faults_replace(struct fault_set *set, const json_t *array, char error[FAULTS_ERROR_SIZE]);
/* As faults_replace, for one more rule at the end. */
bool faults_append(struct fault_set *set, const json_t *rule, char error[FAULTS_ERROR_SIZE]);
/* The JSON text of a preset ("none", "lost"); NULL for another name. */
const char *faults_preset(const char *name);

/* True and the fault of the first rule that the draw falls on; counts it. */
bool faults_draw(struct fault_set *set, enum fault_slot slot, const struct fault_subject *subject,
                 struct fault *out);

/* The rules as JSON with their counts; faults_replace reads the same. */
void faults_render(const struct fault_set *set, struct textbuf *out);
void faults_restart_counts(struct fault_set *set);
void faults_finish(struct fault_set *set);

#endif
