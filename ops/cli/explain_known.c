/* ops/cli/explain_known.c: what we know, by which proof, and what the PSP may know. */
#include "ops/cli/explain_internal.h"

/* What a payment's status says, without its attempts. */
static const struct {
    enum payment_state status;
    const char *text;
} OF_STATUS[] = {
    { PAYMENT_CREATED, "it was accepted, and no PSP has been asked for anything" },
    { PAYMENT_AUTHORIZING, "an attempt is under way, or its end has not reached the payment yet" },
    { PAYMENT_CANCELING, "a cancel was asked for, and it is not known which came first" },
    { PAYMENT_AUTHORIZED, "the PSP holds the amount, nothing is captured" },
    { PAYMENT_VOIDING, "the PSP holds the amount and is asked to release it" },
    { PAYMENT_CAPTURING, "the PSP holds the amount and is asked to take it" },
    { PAYMENT_CAPTURED, "the PSP took the amount" },
    { PAYMENT_REFUNDING, "the PSP took the amount, and a refund is under way" },
    { PAYMENT_REFUNDED, "the amount was taken and given back" },
    { PAYMENT_REVERSED, "the held amount was released" },
    { PAYMENT_FAILED, "it ended without money, as far as its own attempts go" },
    { PAYMENT_CANCELED, "it ended without money, by a cancel" },
};

static const char *text_of_status(enum payment_state status)
{
    for (size_t i = 0; i < COUNT_OF(OF_STATUS); i++) {
        if (OF_STATUS[i].status == status) return OF_STATUS[i].text;
    }
    UNREACHABLE("payment state out of range");
}

static void say_payment(struct situation *situation)
{
    const struct payment_view *view = &situation->payment->view;
    const char *certainty = certainty_name(view->certainty);
    explain_say(situation, 0, "We: the payment is %s%s%s%s%s: %s.",
                payment_state_name((int)view->status), certainty == NULL ? "" : ", ",
                certainty == NULL ? "" : certainty, view->reason == NULL ? "" : ", ",
                view->reason == NULL ? "" : view->reason, text_of_status(view->status));
}

/* Evidence in one phrase: "webhook evt_1 of object pi_1". */
static const char *proof_of(const struct situation *situation)
{
    struct arena *arena = situation->arena;
    const struct query_evidence *proof =
        query_evidence_find(situation->picture, situation->attempt->evidence);
    if (proof == NULL) return "evidence that is not here";
    const char *source = cli_or_dash(evidence_source_name((int)proof->source));
    return arena_format(
        arena, "%s%s%s%s%s%s%s, stored %s", source, proof->provider_event == NULL ? "" : " ",
        proof->provider_event == NULL ? "" : proof->provider_event,
        proof->provider_object == NULL ? "" : " about object ",
        proof->provider_object == NULL ? "" : proof->provider_object, proof->has_amount ? ", " : "",
        proof->has_amount ? cli_money(arena, proof->amount) : "",
        cli_time(arena, proof->created_us));
}

/* " (object pi_1)", or nothing. */
static const char *object_of(const struct situation *situation)
{
    const char *object = situation->attempt->provider_object;
    return object == NULL ? "" : arena_format(situation->arena, " (object %s)", object);
}

/* The PSP's own word in the last evidence that had one. */
static const char *last_word(const struct situation *situation)
{
    const char *word = "no word of its own";
    for (size_t i = 0; i < situation->picture->evidence_count; i++) {
        const struct query_evidence *evidence = &situation->picture->evidence[i];
        if (!uuid_equal(evidence->attempt.uuid, situation->attempt->id.uuid)) continue;
        if (evidence->provider_status != NULL) word = evidence->provider_status;
    }
    return word;
}

/* Per state of an attempt: what we know, then what the PSP may know. */

static void say_created(struct situation *situation)
{
    const struct explain_sends sends = explain_count_sends(situation);
    const char *name = explain_attempt_name(situation);
    if (sends.made == 0) {
        explain_say(situation, 0, "We: %s is stored with its key and bytes, and was not sent.",
                    name);
    } else {
        explain_say(situation, 0,
                    "We: %s has had %s, each proven to have had no effect; the same bytes go "
                    "again.",
                    name, explain_sends_text(situation, sends.made));
    }
    explain_say(situation, 0, "The PSP: nothing of %s.", name);
}

static void say_sending(struct situation *situation)
{
    const char *name = explain_attempt_name(situation);
    explain_say(
        situation, 0,
        "We: %s was fenced %s; its request leaves, is on its way or has arrived, and no "
        "result is stored.",
        name,
        cli_when(situation->arena, situation->attempt->first_sent_us, situation->picture->now_us));
    explain_say(situation, 0, "The PSP: nothing yet, or one charge of %s under key %s.",
                cli_money(situation->arena, situation->attempt->amount),
                situation->attempt->provider_key);
}

static void say_processing(struct situation *situation)
{
    explain_say(situation, 0, "We: the PSP has %s%s and is not done (%s)%s.",
                explain_attempt_name(situation), object_of(situation), last_word(situation),
                situation->attempt->handed_out ? "; a next action is with the customer" : "");
    explain_say(situation, 0, "The PSP: an object that can still end either way, for %s at most.",
                cli_money(situation->arena, situation->attempt->amount));
}

static void say_unknown(struct situation *situation)
{
    const struct explain_sends sends = explain_count_sends(situation);
    const char *money = cli_money(situation->arena, situation->attempt->amount);
    explain_say(situation, 0,
                "We: %s is UNKNOWN%s: of %s %zu may have had an effect, and no evidence proves "
                "that it happened or that it did not.",
                explain_attempt_name(situation), object_of(situation),
                explain_sends_text(situation, sends.made), sends.open);
    explain_say(situation, 0, "The PSP: nothing at all, or a charge of %s under key %s%s.", money,
                situation->attempt->provider_key,
                situation->capability != NULL && situation->capability->has_idempotency_key
                    ? ", once, however often that key was sent"
                    : "");
}

/* The last success that was reported, though it is not ours. */
static const struct query_evidence *last_success(const struct situation *situation)
{
    const struct query_evidence *success = NULL;
    for (size_t i = 0; i < situation->picture->evidence_count; i++) {
        const struct query_evidence *evidence = &situation->picture->evidence[i];
        if (!uuid_equal(evidence->attempt.uuid, situation->attempt->id.uuid)) continue;
        if (evidence->kind == OBSERVED_SUCCEEDED) success = evidence;
    }
    return success;
}

static void say_mismatch(struct situation *situation)
{
    const struct query_attempt *attempt = situation->attempt;
    const struct query_evidence *success = last_success(situation);
    explain_say(
        situation, 0,
        "We: %s is UNKNOWN%s: what the PSP calls its success is not what was asked (%s), so "
        "nothing by machine decides it.",
        explain_attempt_name(situation), object_of(situation), attempt->error_code);
    if (success == NULL) return;
    explain_say(situation, 0,
                "The PSP: as it reports, a charge of %s, where %s was asked under key %s.",
                success->has_amount ? cli_money(situation->arena, success->amount) : "no amount",
                cli_money(situation->arena, attempt->amount), attempt->provider_key);
}

static void say_succeeded(struct situation *situation)
{
    explain_say(situation, 0, "We: %s SUCCEEDED, proven by %s.", explain_attempt_name(situation),
                proof_of(situation));
    explain_say(situation, 0, "The PSP: one charge of %s under key %s%s.",
                cli_money(situation->arena, situation->attempt->amount),
                situation->attempt->provider_key, object_of(situation));
}

static void say_failed(struct situation *situation)
{
    const struct query_attempt *attempt = situation->attempt;
    explain_say(situation, 0, "We: %s FAILED, %s, proven by %s.", explain_attempt_name(situation),
                cli_or_dash(certainty_name((int)attempt->certainty)), proof_of(situation));
    if (attempt->certainty == CERTAINTY_NO_SIDE_EFFECT) {
        explain_say(situation, 0, "The PSP: nothing of it that has an effect.");
        return;
    }
    const struct explain_sends sends = explain_count_sends(situation);
    explain_say(situation, 0,
                "The PSP: a refusal%s%s%s, and no charge; of %s %zu had no answer of their own.",
                object_of(situation), attempt->error_code == NULL ? "" : ", ",
                attempt->error_code == NULL ? "" : attempt->error_code,
                explain_sends_text(situation, sends.made), sends.open);
}

static bool is_created(const struct situation *situation)
{
    return situation->attempt->status == ATTEMPT_CREATED;
}
static bool is_sending(const struct situation *situation)
{
    return situation->attempt->status == ATTEMPT_SENDING;
}
static bool is_processing(const struct situation *situation)
{
    return situation->attempt->status == ATTEMPT_PROCESSING;
}
static bool is_mismatch(const struct situation *situation)
{
    return explain_is_mismatch(situation->attempt);
}
static bool is_unknown(const struct situation *situation)
{
    return situation->attempt->status == ATTEMPT_UNKNOWN && !is_mismatch(situation);
}
static bool is_succeeded(const struct situation *situation)
{
    return situation->attempt->status == ATTEMPT_SUCCEEDED;
}
static bool is_failed(const struct situation *situation)
{
    return situation->attempt->status == ATTEMPT_FAILED;
}

static const struct sentence OF_ATTEMPT[] = {
    { is_created, say_created },   { is_sending, say_sending }, { is_processing, say_processing },
    { is_mismatch, say_mismatch }, { is_unknown, say_unknown }, { is_succeeded, say_succeeded },
    { is_failed, say_failed },
};

static bool has_no_attempt(const struct situation *situation)
{
    return situation->picture->attempt_count == 0;
}

static void say_no_attempt(struct situation *situation)
{
    explain_say(situation, 0, "The PSP: nothing, for no attempt exists.");
}

static bool has_strays(const struct situation *situation)
{
    return situation->picture->stray_count > 0;
}

static void say_strays(struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->stray_count; i++) {
        const struct query_stray *stray = &situation->picture->strays[i];
        explain_say(situation, stray->created_us,
                    "The PSP, besides: %s of object %s at %s (%s), proven by evidence %s; %s.",
                    stray->has_amount ? cli_money(situation->arena, stray->amount) : "a move",
                    stray->provider_object, stray->account,
                    cli_or_dash(stray_kind_name((int)stray->kind)),
                    cli_or_dash(cli_id(situation->arena, stray->evidence.uuid)),
                    stray->is_open ? "nobody has dealt with it" : "its case is closed");
    }
}

static const struct sentence OF_PAYMENT[] = {
    { has_no_attempt, say_no_attempt },
    { has_strays, say_strays },
};

void explain_known(struct situation *situation)
{
    say_payment(situation);
    explain_each_attempt(situation, OF_ATTEMPT, COUNT_OF(OF_ATTEMPT));
    explain_sentences(situation, OF_PAYMENT, COUNT_OF(OF_PAYMENT));
}
