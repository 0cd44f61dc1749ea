/* ops/cli/explain_next.c: who reads which evidence next, and when: of everything that waits. */
#include "ops/cli/explain_internal.h"

#include "pipeline/subject.h"

/* Tasks ---------------------------------------------------------------------------------------- */

/* The task as recover will see it when it is due. */
static struct recovery_view view_of(const struct situation *situation,
                                    const struct query_task *task, int64_t at_us)
{
    const struct query_attempt *attempt = situation->attempt;
    return (struct recovery_view){
        .purpose = task->purpose,
        .task_state = task->status,
        .step = task->step,
        .claims = task->claims,
        .stored_error = task->stored_error,
        .is_escalated = task->escalated_us != 0,
        .first_unknown_us = task->first_unknown_us,
        .attempt_state = attempt->status,
        .has_provider_object = attempt->provider_object != NULL,
        .mismatch_open = explain_is_mismatch(attempt),
        .first_sent_us = attempt->first_sent_us,
        .sends = (int)explain_count_sends(situation).made,
        .payment_state = situation->payment->view.status,
        .expires_at_us = situation->payment->expires_at_us,
        .start_by_us = situation->payment->start_by_us,
        .now_us = at_us,
    };
}

/* What recover does, as the end of "oncepay-recover …". */
static const char *action_text(const struct situation *situation, enum recovery_action action)
{
    struct arena *arena = situation->arena;
    const struct query_attempt *attempt = situation->attempt;
    switch (action) {
    case RECOVERY_RESOLVE:
        return "closes the task: the attempt is final";
    case RECOVERY_PAUSE:
        return "pauses the task with a case, because too many claims brought no outcome";
    case RECOVERY_REPLAY:
        return arena_format(arena, "sends the stored bytes again under key %s and reads the answer",
                            attempt->provider_key);
    case RECOVERY_RETRIEVE_OBJECT:
        return arena_format(arena, "retrieves object %s and reads what became of it",
                            cli_or_dash(attempt->provider_object));
    case RECOVERY_WAIT:
        return "can ask nothing then; it waits for the PSP's webhook and plans the next look";
    case RECOVERY_STOP:
        return "asks nothing: a success that does not match is for people";
    case RECOVERY_RESEND:
        return "writes the create command again: the same attempt, key and bytes";
    case RECOVERY_END_LOCAL:
        return "ends the attempt FAILED, NO_SIDE_EFFECT: out of tries or time, and proven unsent";
    }
    UNREACHABLE("recovery action out of range");
}

static void say_due(struct situation *situation, const struct query_task *task,
                    const struct recovery_rule *rule)
{
    struct arena *arena = situation->arena;
    const int64_t now_us = situation->picture->now_us;
    const int64_t at_us = task->due_us > now_us ? task->due_us : now_us;
    const char *when =
        task->due_us > now_us ? cli_when(arena, task->due_us, now_us) : "now, it is due";
    if (rule == NULL || situation->capability == NULL) {
        explain_say(situation, task->due_us,
                    "oncepay-recover, %s: it claims task %s of %s; the account or policy is not in "
                    "this configuration, so what it will do is not known here.",
                    when, cli_id(arena, task->id.uuid), explain_attempt_name(situation));
        return;
    }
    const struct recovery_limits limits =
        recovery_limits_of(situation->input->timers, situation->capability);
    const struct recovery_view view = view_of(situation, task, at_us);
    const enum recovery_action action = recovery_choose(rule, &limits, &view);
    explain_say(situation, task->due_us,
                "oncepay-recover, %s: it claims task %s (%s, look %d, policy %s) and %s.", when,
                cli_id(arena, task->id.uuid), cli_or_dash(task_state_name((int)task->status)),
                task->step + 1, task->policy_version, action_text(situation, action));
}

static void say_task(struct situation *situation, const struct query_task *task,
                     const struct recovery_rule *rule)
{
    struct arena *arena = situation->arena;
    const char *id = cli_id(arena, task->id.uuid);
    switch (task->status) {
    case TASK_READY:
    case TASK_ESCALATED:
        if (task->due_us != 0) {
            say_due(situation, task, rule);
        } else {
            explain_say(situation, 0,
                        "oncepay-recover: never by itself; task %s is stopped for people.", id);
        }
        return;
    case TASK_LEASED:
        explain_say(situation, task->due_us,
                    "%s, now: it holds task %s and reads the answer of its call; its lease runs "
                    "out %s, then another takes over and this one's writes are refused.",
                    cli_or_dash(task->lease_owner), id,
                    cli_when(arena, task->due_us, situation->picture->now_us));
        return;
    case TASK_PAUSED:
        explain_say(situation, 0, "A person: task %s is paused after %d claims without outcome.",
                    id, task->claims);
        return;
    case TASK_RESOLVED:
        return;
    }
    UNREACHABLE("task state out of range");
}

static bool always(const struct situation *situation)
{
    (void)situation;
    return true;
}

static void say_tasks(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->task_count; i++) {
        const struct query_task *task = &situation->picture->tasks[i];
        if (!uuid_equal(task->attempt.uuid, situation->attempt->id.uuid)) continue;
        say_task(situation, task, situation->input->rules[i]);
    }
}

/* Attempts without a task ---------------------------------------------------------------------- */

static bool waits_for_create(const struct situation *situation)
{
    return situation->attempt->status == ATTEMPT_CREATED && explain_task(situation) == NULL &&
           !explain_is_over(situation->payment->view.status);
}

static void say_create(struct situation *situation)
{
    char subject[SUBJECT_SIZE];
    explain_say(
        situation, 0,
        "oncepay-create, as soon as it has budget: the command on %s. If none is left there "
        "after %" PRId64 " s, oncepay-relay writes it again.",
        subject_create(situation->attempt->account, subject),
        situation->input->command_lag_ms / 1000);
}

static bool is_fenced(const struct situation *situation)
{
    return situation->attempt->status == ATTEMPT_SENDING;
}

static void say_fence(struct situation *situation)
{
    const int64_t due_us = situation->attempt->fence_due_us;
    explain_say(situation, due_us,
                "oncepay-create, any moment: the PSP's answer to its call. If it stores no result, "
                "oncepay-recover takes %s over %s and makes it UNKNOWN with a task.",
                explain_attempt_name(situation),
                due_us == 0 ? "by its fence"
                            : cli_when(situation->arena, due_us, situation->picture->now_us));
}

static bool may_be_told(const struct situation *situation)
{
    const enum attempt_state status = situation->attempt->status;
    return status == ATTEMPT_SENDING || status == ATTEMPT_PROCESSING || status == ATTEMPT_UNKNOWN;
}

static void say_webhook_to_come(struct situation *situation)
{
    const char *object = situation->attempt->provider_object;
    explain_say(situation, 0,
                "oncepay-gateway and oncepay-recover, whenever it comes: a signed webhook of %s "
                "that names %s%s%s%s.",
                situation->attempt->account, situation->attempt->provider_key,
                object == NULL ? "" : " or ", object == NULL ? "" : object,
                explain_is_mismatch(situation->attempt) ? "; it is stored and decides nothing"
                                                        : "");
}

/* The payment has not heard yet how its attempt ended. */
static bool waits_for_settle(const struct situation *situation)
{
    const struct query_attempt *attempt = situation->attempt;
    return attempt->operation == OPERATION_CREATE && attempt_state_is_terminal(attempt->status) &&
           !explain_is_over(situation->payment->view.status);
}

static void say_settle(struct situation *situation)
{
    char subject[SUBJECT_SIZE];
    explain_say(situation, 0,
                "oncepay-settle, next: the end of %s (version %d), from %s; then the payment ends "
                "too. If no command is left there after %" PRId64
                " s, oncepay-relay writes it again.",
                explain_attempt_name(situation), situation->attempt->version,
                subject_settle(situation->payment->view.payment, subject),
                situation->input->command_lag_ms / 1000);
}

static const struct sentence OF_ATTEMPT[] = {
    { waits_for_create, say_create },     { is_fenced, say_fence },         { always, say_tasks },
    { may_be_told, say_webhook_to_come }, { waits_for_settle, say_settle },
};

/* The payment ---------------------------------------------------------------------------------- */

static bool waits_for_route(const struct situation *situation)
{
    return situation->payment->view.status == PAYMENT_CREATED;
}

static void say_route(struct situation *situation)
{
    char subject[SUBJECT_SIZE];
    const struct payment_id payment = situation->payment->view.payment;
    if (situation->picture->decision_count > 0) {
        explain_say(situation, 0,
                    "oncepay-settle, next: the decision that there is no route, from %s; then the "
                    "payment ends FAILED.",
                    subject_settle(payment, subject));
        return;
    }
    explain_say(situation, 0,
                "oncepay-route, next: the command on %s. If none is left there after %" PRId64
                " s, oncepay-relay writes it again.",
                subject_route(payment, subject), situation->input->command_lag_ms / 1000);
}

static void say_webhooks(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->webhook_count; i++) {
        const struct query_webhook *webhook = &situation->picture->webhooks[i];
        if (webhook->processed_us != 0) continue;
        explain_say(situation, webhook->look_us,
                    "oncepay-recover: webhook %s of %s, stored %s, is judged when its command "
                    "arrives, and looked at %s in any case.",
                    webhook->event, webhook->account,
                    cli_time(situation->arena, webhook->received_us),
                    cli_when(situation->arena, webhook->look_us, situation->picture->now_us));
    }
}

static void say_stuck(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->stuck_count; i++) {
        const struct query_stuck *stuck = &situation->picture->stuck[i];
        explain_say(situation, stuck->next_us,
                    "oncepay-relay, %s: whether %s has moved its work; if not, its command is "
                    "written again.",
                    cli_when(situation->arena, stuck->next_us, situation->picture->now_us),
                    stuck->stage);
    }
}

static bool has_timer(const struct situation *situation)
{
    return situation->payment->hold_lifts_us != 0;
}

static void say_timer(struct situation *situation)
{
    explain_say(
        situation, situation->payment->hold_lifts_us,
        "oncepay-recover, %s: a timer; the PSP's window for late arrivals has passed then, "
        "and a hold for it is lifted.",
        cli_when(situation->arena, situation->payment->hold_lifts_us, situation->picture->now_us));
}

static void say_cases(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->case_count; i++) {
        const struct query_case *row = &situation->picture->cases[i];
        if (!row->is_open) continue;
        explain_say(situation, 0, "People: case %s (%s, priority %d), open since %s.",
                    cli_id(situation->arena, row->id.uuid),
                    cli_or_dash(case_kind_name((int)row->kind)), row->priority,
                    cli_time(situation->arena, row->opened_us));
    }
}

static void say_letters(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->letter_count; i++) {
        const struct query_letter_of *letter = &situation->picture->letters[i];
        if (letter->replayed_us != 0) continue;
        explain_say(situation, 0,
                    "A person: dead letter %s waits; once its cause is gone: oncepay dead-letter "
                    "replay %s.",
                    cli_id(situation->arena, letter->id), cli_id(situation->arena, letter->id));
    }
}

static const struct sentence OF_PAYMENT[] = {
    { waits_for_route, say_route }, { always, say_webhooks }, { always, say_stuck },
    { has_timer, say_timer },       { always, say_cases },    { always, say_letters },
};

void explain_next(struct situation *situation)
{
    explain_each_attempt(situation, OF_ATTEMPT, COUNT_OF(OF_ATTEMPT));
    explain_sentences(situation, OF_PAYMENT, COUNT_OF(OF_PAYMENT));
    if (situation->answer->count == 0) {
        explain_say(
            situation, 0,
            "Nobody: nothing of it is open. A webhook that comes all the same is stored and "
            "judged like any other.");
    }
}
