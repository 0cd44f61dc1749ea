/* ops/cli/explain.c: see explain.h: the questions, and what their answers share. */
#include "ops/cli/explain_internal.h"

#include <stdarg.h>

#include "store/attempt_store.h"

struct question {
    const char *name;
    const char *text;
    void (*answer)(struct situation *situation);
};

static const struct question QUESTIONS[EXPLAIN_QUESTION_COUNT] = {
    [EXPLAIN_FAILED] = { "what_failed", "What failed, and when?", explain_failed },
    [EXPLAIN_KNOWN] = { "what_is_known", "What do we know, and what may the PSP know?",
                        explain_known },
    [EXPLAIN_BARRIER] = { "what_prevents_a_second_charge", "What prevents a second charge?",
                          explain_barrier },
    [EXPLAIN_NEXT] = { "what_comes_next", "Who reads which evidence next, and when?",
                       explain_next },
    [EXPLAIN_ONCE] = { "how_it_shows", "How will we know that recovery ran once?", explain_once },
};

const char *explain_question_name(enum explain_question question)
{
    return QUESTIONS[question].name;
}

const char *explain_question_text(enum explain_question question)
{
    return QUESTIONS[question].text;
}

/* Saying --------------------------------------------------------------------------------------- */

static const char *format_text(struct arena *arena, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static const char *format_text(struct arena *arena, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    INVARIANT(length >= 0);
    char *text = arena_allocate(arena, (size_t)length + 1);
    (void)vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

void explain_say(struct situation *situation, int64_t at_us, const char *format, ...)
{
    struct explain_answer *answer = situation->answer;
    if (answer->count == answer->size) {
        const size_t size = answer->size == 0 ? 16 : answer->size * 2;
        struct explain_line *grown = arena_allocate(situation->arena, size * sizeof *grown);
        if (answer->count > 0) memcpy(grown, answer->lines, answer->count * sizeof *grown);
        answer->lines = grown;
        answer->size = size;
    }
    va_list arguments;
    va_start(arguments, format);
    answer->lines[answer->count++] = (struct explain_line){
        at_us,
        format_text(situation->arena, format, arguments),
    };
    va_end(arguments);
}

void explain_sentences(struct situation *situation, const struct sentence *sentences, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (sentences[i].holds(situation)) sentences[i].say(situation);
    }
}

static void look_at(struct situation *situation, size_t attempt)
{
    situation->attempt = &situation->picture->attempts[attempt];
    situation->capability = situation->input->capabilities[attempt];
}

/* The last create is what the payment waits for, or waited for. */
static void look_at_last(struct situation *situation)
{
    situation->attempt = NULL;
    situation->capability = NULL;
    for (size_t i = 0; i < situation->picture->attempt_count; i++) {
        if (situation->picture->attempts[i].operation == OPERATION_CREATE) look_at(situation, i);
    }
}

void explain_each_attempt(struct situation *situation, const struct sentence *sentences,
                          size_t count)
{
    for (size_t i = 0; i < situation->picture->attempt_count; i++) {
        look_at(situation, i);
        explain_sentences(situation, sentences, count);
    }
    look_at_last(situation);
}

/* Facts ---------------------------------------------------------------------------------------- */

struct explain_sends explain_count_sends(const struct situation *situation)
{
    struct explain_sends sends = { 0 };
    const struct query_picture *picture = situation->picture;
    for (size_t i = 0; i < picture->request_count; i++) {
        const struct query_request *request = &picture->requests[i];
        if (!uuid_equal(request->attempt.uuid, situation->attempt->id.uuid)) continue;
        if (request->kind != REQUEST_CREATE && request->kind != REQUEST_REPLAY) continue;
        sends.made++;
        sends.open += request->closure == CLOSURE_OPEN;
        sends.unread += request->evidence_count == 0;
    }
    return sends;
}

const char *explain_sends_text(const struct situation *situation, size_t count)
{
    return arena_format(situation->arena, "%zu send%s", count, count == 1 ? "" : "s");
}

bool explain_is_mismatch(const struct query_attempt *attempt)
{
    const struct attempt_row row = { .state = attempt->status, .reason = attempt->error_code };
    return attempt_row_judge(&row).mismatch_open;
}

const struct query_task *explain_task(const struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->task_count; i++) {
        const struct query_task *task = &situation->picture->tasks[i];
        if (uuid_equal(task->attempt.uuid, situation->attempt->id.uuid)) return task;
    }
    return NULL;
}

bool explain_is_over(enum payment_state status)
{
    switch (status) {
    case PAYMENT_CREATED:
    case PAYMENT_AUTHORIZING:
    case PAYMENT_CANCELING:
        return false;
    case PAYMENT_AUTHORIZED:
    case PAYMENT_VOIDING:
    case PAYMENT_CAPTURING:
    case PAYMENT_CAPTURED:
    case PAYMENT_REFUNDING:
    case PAYMENT_REFUNDED:
    case PAYMENT_REVERSED:
    case PAYMENT_FAILED:
    case PAYMENT_CANCELED:
        return true;
    }
    UNREACHABLE("payment state out of range");
}

const struct query_history *explain_history_end(const struct query_picture *picture,
                                                enum entity entity, struct uuid id, int status)
{
    const struct query_history *end = NULL;
    for (size_t i = 0; i < picture->history_count; i++) {
        const struct query_history *row = &picture->history[i];
        const bool is_arrival = row->to == status && row->from != status;
        if (row->entity == entity && uuid_equal(row->id, id) && is_arrival) end = row;
    }
    return end;
}

const char *explain_attempt_name(const struct situation *situation)
{
    const struct query_attempt *attempt = situation->attempt;
    return arena_format(situation->arena, "attempt %d at %s", attempt->ordinal, attempt->account);
}

void explain(const struct explain_input *input, struct arena *arena,
             struct explain_answer out_answers[EXPLAIN_QUESTION_COUNT])
{
    for (size_t i = 0; i < EXPLAIN_QUESTION_COUNT; i++) {
        out_answers[i] = (struct explain_answer){ 0 };
        struct situation situation = {
            .input = input,
            .picture = input->picture,
            .payment = &input->picture->payment,
            .arena = arena,
            .answer = &out_answers[i],
        };
        look_at_last(&situation);
        QUESTIONS[i].answer(&situation);
        INVARIANT(out_answers[i].count > 0);
    }
}
