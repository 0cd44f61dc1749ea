/* ops/cli/explain_failed.c: what failed, and when: what was observed, ended or alarmed badly. */
#include "ops/cli/explain_internal.h"

#include "ops/cli/cli_picture.h"

/* What an observation says that was no success; NULL: nothing went wrong by it. */
static const char *const WRONG[] = {
    [OBSERVED_NOTHING] = "brought something that cannot be read",
    [OBSERVED_UNSENT] = "was not sent: no byte left",
    [OBSERVED_TRANSPORT_LOST] = "got no complete answer, and may have arrived",
    [OBSERVED_SERVER_ERROR] = "was answered with an error that decides nothing",
    [OBSERVED_IN_PROGRESS] = "met an earlier request under its key that still runs",
    [OBSERVED_RATE_LIMITED] = "was refused for its rate",
    [OBSERVED_AUTH_REJECTED] = "was refused: our credentials or rights",
    [OBSERVED_REQUEST_REJECTED] = "was refused as invalid before execution",
    [OBSERVED_KEY_MISMATCH] = "was refused: its key is taken by other parameters",
    [OBSERVED_NOT_FOUND] = "found no such object",
    [OBSERVED_OBJECT_CREATED] = NULL,
    [OBSERVED_PENDING] = NULL,
    [OBSERVED_SUCCEEDED] = NULL,
    [OBSERVED_DECLINED] = "brought a decline",
    [OBSERVED_CANCELED] = "brought a cancellation",
};

/* Codes that say more than the kind of observation. */
static const struct {
    const char *code;
    const char *wrong;
} CODES[] = {
    { "worker_lost",
      "brought no result: its worker was lost after the fence, and it may have arrived" },
    { "expired_before_start", "was not made: the time to start had passed" },
    { "target_held", "was not made: the target is held" },
    { "could_not_be_sent", "was not made: it could not be sent in time" },
};

static const char *wrong_of(const struct query_evidence *evidence)
{
    for (size_t i = 0; evidence->error_code != NULL && i < COUNT_OF(CODES); i++) {
        if (strcmp(CODES[i].code, evidence->error_code) == 0) return CODES[i].wrong;
    }
    return (size_t)evidence->kind < COUNT_OF(WRONG) ? WRONG[evidence->kind] : WRONG[0];
}

/* "the replay of attempt 1 at stripe-main", "webhook evt_1 of …". */
static const char *subject_of(const struct situation *situation,
                              const struct query_evidence *evidence)
{
    const struct query_request *request = query_request_find(situation->picture, evidence->request);
    const char *name = explain_attempt_name(situation);
    if (request != NULL) {
        return arena_format(situation->arena, "the %s of %s",
                            cli_or_dash(request_kind_name((int)request->kind)), name);
    }
    if (evidence->source == SOURCE_WEBHOOK) {
        return arena_format(situation->arena, "webhook %s about %s",
                            cli_or_dash(evidence->provider_event), name);
    }
    if (evidence->source == SOURCE_LOCAL) {
        return arena_format(situation->arena, "the create of %s", name);
    }
    return arena_format(situation->arena, "%s evidence about %s",
                        cli_or_dash(evidence_source_name((int)evidence->source)), name);
}

/* " (HTTP 500, api_error)"; empty when nothing is known. */
static const char *details_of(const struct situation *situation,
                              const struct query_evidence *evidence)
{
    struct arena *arena = situation->arena;
    const char *http =
        evidence->http_status == 0 ? "" : arena_format(arena, "HTTP %d", evidence->http_status);
    const char *words[] = { http, evidence->error_code, evidence->provider_status };
    const char *text = "";
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (words[i] == NULL || words[i][0] == '\0') continue;
        text = arena_format(arena, "%s%s%s", text, text[0] == '\0' ? "" : ", ", words[i]);
    }
    return text[0] == '\0' ? "" : arena_format(arena, " (%s)", text);
}

/* A success that was not taken for one, because it is another than what was asked for (B5). */
static void say_difference(struct situation *situation, const struct query_evidence *evidence)
{
    const struct query_attempt *attempt = situation->attempt;
    const bool differs_in_amount =
        evidence->has_amount && !money_equal(evidence->amount, attempt->amount);
    const bool differs_in_reference =
        evidence->reference != NULL && strcmp(evidence->reference, attempt->provider_key) != 0;
    if (!differs_in_amount && !differs_in_reference) return;
    explain_say(situation, evidence->created_us,
                "%s reports a success of %s under reference %s; asked was %s under %s: that is "
                "not our success",
                subject_of(situation, evidence),
                evidence->has_amount ? cli_money(situation->arena, evidence->amount) : "no amount",
                cli_or_dash(evidence->reference), cli_money(situation->arena, attempt->amount),
                attempt->provider_key);
}

static void say_evidence(struct situation *situation)
{
    const struct query_picture *picture = situation->picture;
    for (size_t i = 0; i < picture->evidence_count; i++) {
        const struct query_evidence *evidence = &picture->evidence[i];
        if (!uuid_equal(evidence->attempt.uuid, situation->attempt->id.uuid)) continue;
        const char *wrong = wrong_of(evidence);
        if (wrong != NULL) {
            explain_say(situation, evidence->created_us, "%s %s%s", subject_of(situation, evidence),
                        wrong, details_of(situation, evidence));
        } else if (evidence->kind == OBSERVED_SUCCEEDED && evidence->proves == 0) {
            say_difference(situation, evidence);
        }
    }
}

/* Requests that nobody brought a result for although their time is over. */
static void say_silence(struct situation *situation)
{
    const struct query_picture *picture = situation->picture;
    const int64_t limit_us = situation->input->timers->call_limit_ms * 1000;
    for (size_t i = 0; i < picture->request_count; i++) {
        const struct query_request *request = &picture->requests[i];
        if (!uuid_equal(request->attempt.uuid, situation->attempt->id.uuid)) continue;
        const int64_t end_us = request->send_by_us + limit_us;
        if (request->evidence_count > 0 || picture->now_us < end_us) continue;
        explain_say(situation, end_us,
                    "no result of the %s of %s, made by %s, was stored in its time; it may have "
                    "arrived",
                    cli_or_dash(request_kind_name((int)request->kind)),
                    explain_attempt_name(situation), request->worker);
    }
}

static void say_attempt_end(struct situation *situation)
{
    const struct query_attempt *attempt = situation->attempt;
    const struct query_history *end =
        explain_history_end(situation->picture, ENTITY_ATTEMPT, attempt->id.uuid, ATTEMPT_FAILED);
    if (end == NULL) return;
    explain_say(situation, end->at_us, "%s ended FAILED, %s: %s", explain_attempt_name(situation),
                cli_or_dash(certainty_name((int)attempt->certainty)),
                attempt->error_code != NULL ? attempt->error_code : end->why);
}

static bool always(const struct situation *situation)
{
    (void)situation;
    return true;
}

static const struct sentence OF_ATTEMPT[] = {
    { always, say_evidence },
    { always, say_silence },
    { always, say_attempt_end },
};

static void say_payment_end(struct situation *situation)
{
    static const enum payment_state ENDS[] = { PAYMENT_FAILED, PAYMENT_CANCELED };
    for (size_t i = 0; i < COUNT_OF(ENDS); i++) {
        const struct query_history *end =
            explain_history_end(situation->picture, ENTITY_PAYMENT,
                                situation->payment->view.payment.uuid, (int)ENDS[i]);
        if (end == NULL) continue;
        explain_say(situation, end->at_us, "the payment ended %s: %s",
                    payment_state_name((int)ENDS[i]), end->why);
    }
}

static void say_no_route(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->decision_count; i++) {
        const struct query_decision *decision = &situation->picture->decisions[i];
        if (decision->account != NULL) continue;
        const char *candidates = cli_decision_candidates(decision, situation->arena);
        explain_say(situation, decision->created_us, "no account could take it: %s",
                    *candidates == '\0' ? "there is none" : candidates);
    }
}

static void say_strays(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->stray_count; i++) {
        const struct query_stray *stray = &situation->picture->strays[i];
        explain_say(situation, stray->created_us,
                    "a stray fact (%s): object %s at %s moved %s beside what was final",
                    cli_or_dash(stray_kind_name((int)stray->kind)), stray->provider_object,
                    stray->account,
                    stray->has_amount ? cli_money(situation->arena, stray->amount) : "money");
    }
}

static void say_cases(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->case_count; i++) {
        const struct query_case *row = &situation->picture->cases[i];
        explain_say(situation, row->opened_us, "a case was opened (%s): %s%s",
                    cli_or_dash(case_kind_name((int)row->kind)), row->reason,
                    row->is_open ? "" : "; it is closed");
    }
}

static void say_letters(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->letter_count; i++) {
        const struct query_letter_of *letter = &situation->picture->letters[i];
        explain_say(situation, letter->created_us,
                    "a command to %s could not be handled (%s): dead letter %s%s", letter->consumer,
                    letter->code, cli_id(situation->arena, letter->id),
                    letter->replays > 0 ? ", replayed since" : "");
    }
}

static void say_stuck(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->stuck_count; i++) {
        const struct query_stuck *stuck = &situation->picture->stuck[i];
        explain_say(situation, stuck->since_us,
                    "%s has not moved its work since; its command was written again %d times",
                    stuck->stage, stuck->emissions);
    }
}

static const struct sentence OF_PAYMENT[] = {
    { always, say_payment_end }, { always, say_no_route }, { always, say_strays },
    { always, say_cases },       { always, say_letters },  { always, say_stuck },
};

/* In the order of their times; what happened in one transaction stays as it was said. */
static void sort(struct explain_answer *answer)
{
    for (size_t i = 1; i < answer->count; i++) {
        const struct explain_line line = answer->lines[i];
        size_t at = i;
        for (; at > 0 && answer->lines[at - 1].at_us > line.at_us; at--) {
            answer->lines[at] = answer->lines[at - 1];
        }
        answer->lines[at] = line;
    }
}

void explain_failed(struct situation *situation)
{
    explain_each_attempt(situation, OF_ATTEMPT, COUNT_OF(OF_ATTEMPT));
    explain_sentences(situation, OF_PAYMENT, COUNT_OF(OF_PAYMENT));
    sort(situation->answer);
    if (situation->answer->count == 0) explain_say(situation, 0, "Nothing has failed.");
}
