/* ops/cli/explain_once.c: by which rows it shows that recovery ran once, or will show. */
#include "ops/cli/explain_internal.h"

#include "pipeline/event.h"

static bool always(const struct situation *situation)
{
    (void)situation;
    return true;
}

static size_t count_requests(const struct situation *situation, enum request_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < situation->picture->request_count; i++) {
        const struct query_request *request = &situation->picture->requests[i];
        count +=
            uuid_equal(request->attempt.uuid, situation->attempt->id.uuid) && request->kind == kind;
    }
    return count;
}

/* Has anybody had to find out what became of it? */
static bool was_in_doubt(const struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->history_count; i++) {
        const struct query_history *row = &situation->picture->history[i];
        if (row->entity != ENTITY_ATTEMPT || !uuid_equal(row->id, situation->attempt->id.uuid))
            continue;
        if (row->to == ATTEMPT_UNKNOWN || row->to == ATTEMPT_PROCESSING) return true;
    }
    return false;
}

static bool has_requests(const struct situation *situation)
{
    return explain_count_sends(situation).made > 0;
}

static void say_requests(struct situation *situation)
{
    explain_say(situation, 0,
                "attempt_request: %s has %zu create, %zu replay and %zu retrieve rows, each "
                "committed before its bytes; one row is one request, all sends under key %s.",
                explain_attempt_name(situation), count_requests(situation, REQUEST_CREATE),
                count_requests(situation, REQUEST_REPLAY),
                count_requests(situation, REQUEST_RETRIEVE), situation->attempt->provider_key);
}

static bool is_open(const struct situation *situation)
{
    return !attempt_state_is_terminal(situation->attempt->status);
}

static void say_end_to_come(struct situation *situation)
{
    explain_say(situation, 0,
                "state_history: the end of %s will be one row, of a version above %d; who loses "
                "that version stores its evidence and moves nothing.",
                explain_attempt_name(situation), situation->attempt->version);
}

static bool has_task(const struct situation *situation)
{
    return explain_task(situation) != NULL;
}

static void say_task_to_come(struct situation *situation)
{
    const struct query_task *task = explain_task(situation);
    explain_say(situation, 0,
                "recovery_task_open: task %s is the attempt's only open one; its version (now %d) "
                "fences late workers, and the transaction of the end resolves it.",
                cli_id(situation->arena, task->id.uuid), task->version);
}

static bool is_ended(const struct situation *situation)
{
    return !is_open(situation);
}

static void say_end(struct situation *situation)
{
    const struct query_attempt *attempt = situation->attempt;
    const struct query_history *end = explain_history_end(situation->picture, ENTITY_ATTEMPT,
                                                          attempt->id.uuid, (int)attempt->status);
    if (end == NULL) return;
    explain_say(situation, end->at_us,
                "state_history: %s went %s -> %s once, at version %d, by %s (%s), citing evidence "
                "%s; its status never changes again.",
                explain_attempt_name(situation), cli_or_dash(attempt_state_name(end->from)),
                attempt_state_name(end->to), end->version, end->actor, end->event,
                cli_or_dash(cli_id(situation->arena, end->evidence.uuid)));
    if (!was_in_doubt(situation)) {
        explain_say(situation, 0,
                    "It was never in doubt: recovery had nothing to find out about %s.",
                    explain_attempt_name(situation));
    }
}

static const struct sentence OF_ATTEMPT[] = {
    { has_requests, say_requests },
    { is_open, say_end_to_come },
    { has_task, say_task_to_come },
    { is_ended, say_end },
};

/* The payment ---------------------------------------------------------------------------------- */

static bool has_end(const struct situation *situation)
{
    return explain_is_over(situation->payment->view.status);
}

static void say_payment_end(struct situation *situation)
{
    const struct payment_view *view = &situation->payment->view;
    const struct query_history *end = explain_history_end(situation->picture, ENTITY_PAYMENT,
                                                          view->payment.uuid, (int)view->status);
    if (end == NULL) return;
    explain_say(situation, end->at_us,
                "payment: it went %s -> %s once, at version %d, by %s (%s)%s.",
                end->from == 0 ? "-" : cli_or_dash(payment_state_name(end->from)),
                payment_state_name(end->to), end->version, end->actor, end->event,
                uuid_is_nil(situation->payment->applied_attempt.uuid)
                    ? ""
                    : arena_format(situation->arena,
                                   "; applied_attempt and applied_version %d say what it took",
                                   situation->payment->applied_version));
}

static void say_payment_to_come(struct situation *situation)
{
    explain_say(situation, 0,
                "payment: its end will be one version above %" PRId64
                ", with one event payment.succeeded, .failed or .canceled of that version.",
                situation->payment->view.version);
}

static bool has_no_end(const struct situation *situation)
{
    return !has_end(situation);
}

/* The events that end a payment, by the last two tokens of their subject. */
static void say_events(struct situation *situation)
{
    static const enum event_type ENDS[] = { EVENT_PAYMENT_SUCCEEDED, EVENT_PAYMENT_AUTHORIZED,
                                            EVENT_PAYMENT_FAILED, EVENT_PAYMENT_CANCELED };
    for (size_t i = 0; i < situation->picture->event_count; i++) {
        const struct relay_row *event = &situation->picture->events[i];
        for (size_t k = 0; k < COUNT_OF(ENDS); k++) {
            const char *name = event_type_name((int)ENDS[k]);
            const size_t length = strlen(event->subject);
            if (length <= strlen(name)) continue;
            if (strcmp(event->subject + length - strlen(name), name) != 0) continue;
            explain_say(situation, event->created_us,
                        "event: %s, version %d, once in the outbox as %s; a copy that is published "
                        "again has the same ce-id.",
                        name, event->version, cli_id(situation->arena, event->id.uuid));
        }
    }
}

static void say_verify(struct situation *situation)
{
    explain_say(situation, 0,
                "oncepay verify: I5 and I8 (each version one listed step), I6 (ends cite proof), "
                "I17 (each end applied once), for this payment as for all.");
}

static const struct sentence OF_PAYMENT[] = {
    { has_end, say_payment_end },
    { has_no_end, say_payment_to_come },
    { always, say_events },
    { always, say_verify },
};

void explain_once(struct situation *situation)
{
    explain_each_attempt(situation, OF_ATTEMPT, COUNT_OF(OF_ATTEMPT));
    explain_sentences(situation, OF_PAYMENT, COUNT_OF(OF_PAYMENT));
}
