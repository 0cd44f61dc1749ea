/*
 * pipeline/state.h: the states of protocol A with their numeric codes (never renumbered), the
 * five certainties, and the one table of allowed transitions. Codes are what PostgreSQL stores;
 * names are what logs, JSON and people see.
 */
#ifndef ONCEPAY_PIPELINE_STATE_H
#define ONCEPAY_PIPELINE_STATE_H

#include "pipeline/base.h"

enum payment_state {
    PAYMENT_CREATED = 10,
    PAYMENT_AUTHORIZING = 20,
    PAYMENT_CANCELING = 25,
    PAYMENT_AUTHORIZED = 30,
    PAYMENT_VOIDING = 35,
    PAYMENT_CAPTURING = 40,
    PAYMENT_CAPTURED = 50,
    PAYMENT_REFUNDING = 60,
    PAYMENT_REFUNDED = 70,
    PAYMENT_REVERSED = 80,
    PAYMENT_FAILED = 90,
    PAYMENT_CANCELED = 95,
};

enum attempt_state {
    ATTEMPT_CREATED = 10,
    ATTEMPT_SENDING = 20,
    ATTEMPT_PROCESSING = 30,
    ATTEMPT_UNKNOWN = 40,
    ATTEMPT_SUCCEEDED = 50,
    ATTEMPT_FAILED = 60,
};

enum operation_state {
    OPERATION_REQUESTED = 10,
    OPERATION_SUCCEEDED = 50,
    OPERATION_FAILED = 60,
};

enum task_state {
    TASK_READY = 10,
    TASK_LEASED = 20,
    TASK_PAUSED = 30,
    TASK_ESCALATED = 40,
    TASK_RESOLVED = 50,
};

/* What an attempt asks the PSP for; the payment row itself stands for its pay (create). */
enum operation {
    OPERATION_CREATE = 1,
    OPERATION_CAPTURE = 2,
    OPERATION_VOID = 3,
    OPERATION_CANCEL = 4,
    OPERATION_REFUND = 5,
};

/* What is proven about one attempt's side effect at the PSP (protocol B). */
enum certainty {
    CERTAINTY_UNKNOWN = 1,
    CERTAINTY_NO_SIDE_EFFECT = 2,
    CERTAINTY_DEFINITE_FAILURE = 3,
    CERTAINTY_PENDING = 4,
    CERTAINTY_CONFIRMED_SUCCESS = 5,
};

/* Whose life a transition or history row tells. */
enum entity {
    ENTITY_PAYMENT = 1,
    ENTITY_ATTEMPT = 2,
    ENTITY_OPERATION = 3,
    ENTITY_TASK = 4,
};

/* Names as in protocol A ("AUTHORIZING"); NULL for a code that is not in the table. */
const char *payment_state_name(int code);
const char *attempt_state_name(int code);
const char *operation_state_name(int code);
const char *task_state_name(int code);
const char *operation_name(int code); /* "create" … */
const char *certainty_name(int code); /* "UNKNOWN" … */
const char *entity_name(int code);    /* "payment" … */
const char *state_name(enum entity entity, int code);

/* The outward word of design §3 ("pending", "processing", "succeeded" …). */
const char *payment_status_word(enum payment_state state);

bool payment_state_is_terminal(enum payment_state state);
bool attempt_state_is_terminal(enum attempt_state state);
bool operation_state_is_terminal(enum operation_state state);
bool task_state_is_terminal(enum task_state state);
/* Any entity; a code that is not in the table is an invariant failure. */
bool state_is_terminal(enum entity entity, int code);

struct transition {
    enum entity entity;
    int from; /* 0: the row's birth */
    int to;
    const char *why;
};

/* All rows of transition.def, in file order. migrate writes the same rows to state_transition. */
const struct transition *transition_table(size_t *out_count);
/* NULL if the pair is not listed: then it must not happen. */
const struct transition *transition_find(enum entity entity, int from, int to);

/* The codes of one entity in ascending order, by index; 0 past the last. */
int state_code_at(enum entity entity, size_t index);
/* The table of one entity as a Mermaid stateDiagram-v2: what README and `oncepay fsm` show. */
void state_diagram_mermaid(enum entity entity, FILE *out);

#endif
