/* pipeline/state.c: see state.h. Names come from the tables here, pairs from transition.def. */
#include "pipeline/state.h"

struct named_code {
    int code;
    const char *name;
};

static const struct named_code PAYMENT_NAMES[] = {
    { PAYMENT_CREATED, "CREATED" },     { PAYMENT_AUTHORIZING, "AUTHORIZING" },
    { PAYMENT_CANCELING, "CANCELING" }, { PAYMENT_AUTHORIZED, "AUTHORIZED" },
    { PAYMENT_VOIDING, "VOIDING" },     { PAYMENT_CAPTURING, "CAPTURING" },
    { PAYMENT_CAPTURED, "CAPTURED" },   { PAYMENT_REFUNDING, "REFUNDING" },
    { PAYMENT_REFUNDED, "REFUNDED" },   { PAYMENT_REVERSED, "REVERSED" },
    { PAYMENT_FAILED, "FAILED" },       { PAYMENT_CANCELED, "CANCELED" },
};
static const struct named_code ATTEMPT_NAMES[] = {
    { ATTEMPT_CREATED, "CREATED" },       { ATTEMPT_SENDING, "SENDING" },
    { ATTEMPT_PROCESSING, "PROCESSING" }, { ATTEMPT_UNKNOWN, "UNKNOWN" },
    { ATTEMPT_SUCCEEDED, "SUCCEEDED" },   { ATTEMPT_FAILED, "FAILED" },
};
static const struct named_code OPERATION_STATE_NAMES[] = {
    { OPERATION_REQUESTED, "REQUESTED" },
    { OPERATION_SUCCEEDED, "SUCCEEDED" },
    { OPERATION_FAILED, "FAILED" },
};
static const struct named_code TASK_NAMES[] = {
    { TASK_READY, "READY" },         { TASK_LEASED, "LEASED" },     { TASK_PAUSED, "PAUSED" },
    { TASK_ESCALATED, "ESCALATED" }, { TASK_RESOLVED, "RESOLVED" },
};
static const struct named_code OPERATION_NAMES[] = {
    { OPERATION_CREATE, "create" }, { OPERATION_CAPTURE, "capture" }, { OPERATION_VOID, "void" },
    { OPERATION_CANCEL, "cancel" }, { OPERATION_REFUND, "refund" },
};
static const struct named_code CERTAINTY_NAMES[] = {
    { CERTAINTY_UNKNOWN, "UNKNOWN" },
    { CERTAINTY_NO_SIDE_EFFECT, "NO_SIDE_EFFECT" },
    { CERTAINTY_DEFINITE_FAILURE, "DEFINITE_FAILURE" },
    { CERTAINTY_PENDING, "PENDING" },
    { CERTAINTY_CONFIRMED_SUCCESS, "CONFIRMED_SUCCESS" },
};
static const struct named_code ENTITY_NAMES[] = {
    { ENTITY_PAYMENT, "payment" },
    { ENTITY_ATTEMPT, "attempt" },
    { ENTITY_OPERATION, "operation" },
    { ENTITY_TASK, "task" },
};

enum { BIRTH = 0 };

static const struct transition TRANSITIONS[] = {
#define PAYMENT_BIRTH BIRTH
#define ATTEMPT_BIRTH BIRTH
#define OPERATION_BIRTH BIRTH
#define TASK_BIRTH BIRTH
#define PAYMENT(from, to, why) { ENTITY_PAYMENT, PAYMENT_##from, PAYMENT_##to, why },
#define ATTEMPT(from, to, why) { ENTITY_ATTEMPT, ATTEMPT_##from, ATTEMPT_##to, why },
#define OPERATION(from, to, why) { ENTITY_OPERATION, OPERATION_##from, OPERATION_##to, why },
#define TASK(from, to, why) { ENTITY_TASK, TASK_##from, TASK_##to, why },
#include "pipeline/transition.def"
};

static const char *name_of(const struct named_code *names, size_t count, int code)
{
    for (size_t i = 0; i < count; i++) {
        if (names[i].code == code) return names[i].name;
    }
    return NULL;
}

const char *payment_state_name(int code)
{
    return name_of(PAYMENT_NAMES, COUNT_OF(PAYMENT_NAMES), code);
}

const char *attempt_state_name(int code)
{
    return name_of(ATTEMPT_NAMES, COUNT_OF(ATTEMPT_NAMES), code);
}

const char *operation_state_name(int code)
{
    return name_of(OPERATION_STATE_NAMES, COUNT_OF(OPERATION_STATE_NAMES), code);
}

const char *task_state_name(int code)
{
    return name_of(TASK_NAMES, COUNT_OF(TASK_NAMES), code);
}

const char *operation_name(int code)
{
    return name_of(OPERATION_NAMES, COUNT_OF(OPERATION_NAMES), code);
}

const char *certainty_name(int code)
{
    return name_of(CERTAINTY_NAMES, COUNT_OF(CERTAINTY_NAMES), code);
}

const char *entity_name(int code)
{
    return name_of(ENTITY_NAMES, COUNT_OF(ENTITY_NAMES), code);
}

static const struct named_code *names_of(enum entity entity, size_t *out_count)
{
    switch (entity) {
    case ENTITY_PAYMENT:
        *out_count = COUNT_OF(PAYMENT_NAMES);
        return PAYMENT_NAMES;
    case ENTITY_ATTEMPT:
        *out_count = COUNT_OF(ATTEMPT_NAMES);
        return ATTEMPT_NAMES;
    case ENTITY_OPERATION:
        *out_count = COUNT_OF(OPERATION_STATE_NAMES);
        return OPERATION_STATE_NAMES;
    case ENTITY_TASK:
        *out_count = COUNT_OF(TASK_NAMES);
        return TASK_NAMES;
    }
    UNREACHABLE("entity out of range");
}

const char *state_name(enum entity entity, int code)
{
    size_t count;
    const struct named_code *names = names_of(entity, &count);
    return name_of(names, count, code);
}

int state_code_at(enum entity entity, size_t index)
{
    size_t count;
    const struct named_code *names = names_of(entity, &count);
    return index < count ? names[index].code : 0;
}

const char *payment_status_word(enum payment_state state)
{
    switch (state) {
    case PAYMENT_CREATED:
        return "pending";
    case PAYMENT_AUTHORIZING:
        return "processing";
    case PAYMENT_CANCELING:
        return "canceling";
    case PAYMENT_AUTHORIZED:
        return "authorized";
    case PAYMENT_VOIDING:
        return "voiding";
    case PAYMENT_CAPTURING:
        return "capturing";
    case PAYMENT_CAPTURED:
        return "succeeded";
    case PAYMENT_REFUNDING:
        return "refunding";
    case PAYMENT_REFUNDED:
        return "refunded";
    case PAYMENT_REVERSED:
        return "reversed";
    case PAYMENT_FAILED:
        return "failed";
    case PAYMENT_CANCELED:
        return "canceled";
    }
    UNREACHABLE("payment state out of range");
}

bool payment_state_is_terminal(enum payment_state state)
{
    switch (state) {
    case PAYMENT_REFUNDED:
    case PAYMENT_REVERSED:
    case PAYMENT_FAILED:
    case PAYMENT_CANCELED:
        return true;
    case PAYMENT_CREATED:
    case PAYMENT_AUTHORIZING:
    case PAYMENT_CANCELING:
    case PAYMENT_AUTHORIZED:
    case PAYMENT_VOIDING:
    case PAYMENT_CAPTURING:
    case PAYMENT_CAPTURED:
    case PAYMENT_REFUNDING:
        return false;
    }
    UNREACHABLE("payment state out of range");
}

bool attempt_state_is_terminal(enum attempt_state state)
{
    return state == ATTEMPT_SUCCEEDED || state == ATTEMPT_FAILED;
}

bool operation_state_is_terminal(enum operation_state state)
{
    return state == OPERATION_SUCCEEDED || state == OPERATION_FAILED;
}

bool task_state_is_terminal(enum task_state state)
{
    return state == TASK_RESOLVED;
}

bool state_is_terminal(enum entity entity, int code)
{
    INVARIANT(state_name(entity, code) != NULL);
    switch (entity) {
    case ENTITY_PAYMENT:
        return payment_state_is_terminal((enum payment_state)code);
    case ENTITY_ATTEMPT:
        return attempt_state_is_terminal((enum attempt_state)code);
    case ENTITY_OPERATION:
        return operation_state_is_terminal((enum operation_state)code);
    case ENTITY_TASK:
        return task_state_is_terminal((enum task_state)code);
    }
    UNREACHABLE("entity out of range");
}

const struct transition *transition_table(size_t *out_count)
{
    *out_count = COUNT_OF(TRANSITIONS);
    return TRANSITIONS;
}

const struct transition *transition_find(enum entity entity, int from, int to)
{
    for (size_t i = 0; i < COUNT_OF(TRANSITIONS); i++) {
        const struct transition *row = &TRANSITIONS[i];
        if (row->entity == entity && row->from == from && row->to == to) return row;
    }
    return NULL;
}

/* Mermaid ends a label at a colon or semicolon, so such sentences are cut there. */
static int label_length(const char *why)
{
    return (int)strcspn(why, ":;");
}

void state_diagram_mermaid(enum entity entity, FILE *out)
{
    fprintf(out, "stateDiagram-v2\n");
    for (size_t i = 0; i < COUNT_OF(TRANSITIONS); i++) {
        const struct transition *row = &TRANSITIONS[i];
        if (row->entity != entity) continue;
        const char *from = row->from == BIRTH ? "[*]" : state_name(entity, row->from);
        fprintf(out, "    %s --> %s : %.*s\n", from, state_name(entity, row->to),
                label_length(row->why), row->why);
    }
    for (size_t i = 0; state_code_at(entity, i) != 0; i++) {
        const int code = state_code_at(entity, i);
        if (state_is_terminal(entity, code)) {
            fprintf(out, "    %s --> [*]\n", state_name(entity, code));
        }
    }
}
