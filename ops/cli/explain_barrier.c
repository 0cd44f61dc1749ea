/* ops/cli/explain_barrier.c: which constraints stand between this payment and a second charge. */
#include "ops/cli/explain_internal.h"

static bool always(const struct situation *situation)
{
    (void)situation;
    return true;
}

static void say_number(struct situation *situation)
{
    explain_say(situation, 0,
                "payment_out_trade_no_key: out_trade_no %s of %s is this payment for ever; a "
                "repeated request gets its first answer, another request under it is refused.",
                situation->payment->view.out_trade_no, situation->payment->merchant);
}

/* The target ----------------------------------------------------------------------------------- */

static bool has_pointer(const struct situation *situation)
{
    return uuid_equal(situation->payment->pointer_payment.uuid,
                      situation->payment->view.payment.uuid);
}

static bool is_final(const struct situation *situation)
{
    return payment_state_is_terminal(situation->payment->view.status);
}

static bool has_held_target(const struct situation *situation)
{
    return situation->payment->view.hold != NULL;
}

static bool has_busy_target(const struct situation *situation)
{
    return has_pointer(situation) && !is_final(situation);
}

static void say_busy_target(struct situation *situation)
{
    explain_say(situation, 0,
                "active_payment_pk and pointer_guard: the pointer of %s/%s names this payment and "
                "lets it go only when it is over; until then another payment of this target gets "
                "409 target_busy.",
                situation->payment->target_kind, situation->payment->target_id);
}

static void say_held_target(struct situation *situation)
{
    const struct query_payment *payment = situation->payment;
    const char *until = payment->hold_lifts_us == 0
                            ? "until people close the case behind it"
                            : arena_format(situation->arena, "at least until %s",
                                           cli_when(situation->arena, payment->hold_lifts_us,
                                                    situation->picture->now_us));
    explain_say(situation, payment->hold_lifts_us,
                "the hold on %s/%s (%s): %s another payment of this target gets 409 target_held, "
                "and no create of it passes the fence.",
                payment->target_kind, payment->target_id, payment->view.hold, until);
}

static bool has_no_object(const struct situation *situation)
{
    const struct query_payment *payment = situation->payment;
    return payment->target_kind != NULL && payment->target_id == NULL;
}

static void say_no_object(struct situation *situation)
{
    explain_say(situation, 0,
                "its target is none: nothing ties it to payments under other numbers, and nothing "
                "here holds those back.");
}

static bool has_moved_on(const struct situation *situation)
{
    return !uuid_is_nil(situation->payment->pointer_payment.uuid) && !has_pointer(situation);
}

static void say_moved_on(struct situation *situation)
{
    explain_say(situation, 0,
                "the target's pointer has moved on to payment %s, which it may only do from a "
                "payment that is over and not held.",
                cli_id(situation->arena, situation->payment->pointer_payment.uuid));
}

/* The attempts --------------------------------------------------------------------------------- */

static bool has_no_attempt(const struct situation *situation)
{
    return situation->attempt == NULL;
}

static void say_no_attempt(struct situation *situation)
{
    if (explain_is_over(situation->payment->view.status)) {
        explain_say(
            situation, 0,
            "payment_guard_update: route stores an attempt only together with the payment's "
            "move to AUTHORIZING, and no such move is listed from here.");
        return;
    }
    explain_say(situation, 0,
                "payment_attempt_ordinal_key: the first attempt is stored once, in the transaction "
                "that moves the payment from version %" PRId64 "; a repeated command finds it.",
                situation->payment->view.version);
}

static bool is_open(const struct situation *situation)
{
    return situation->attempt != NULL && !attempt_state_is_terminal(situation->attempt->status);
}

static void say_one_attempt(struct situation *situation)
{
    explain_say(situation, 0,
                "attempt_guard_insert and payment_attempt_ordinal_key: no further attempt can be "
                "stored before %s is FAILED with proof.",
                explain_attempt_name(situation));
}

static bool has_sent(const struct situation *situation)
{
    return is_open(situation) && (situation->attempt->status != ATTEMPT_CREATED ||
                                  explain_count_sends(situation).made > 0);
}

static void say_key(struct situation *situation)
{
    const struct psp_capability *capability = situation->capability;
    const char *key = situation->attempt->provider_key;
    if (capability == NULL || !capability->has_idempotency_key) {
        explain_say(situation, 0,
                    "payment_attempt_provider_key: key %s is this attempt's alone. The PSP is not "
                    "known to honour it, so nothing is sent twice.",
                    key);
        return;
    }
    explain_say(situation, 0,
                "payment_attempt_provider_key and the PSP's own store of keys: every send of %s "
                "carries key %s and the same bytes, and the PSP executes a key once.",
                explain_attempt_name(situation), key);
}

/* Would recover replay it: nothing better is known of it, and nobody stopped the replays? */
static bool may_be_replayed(const struct situation *situation)
{
    if (!has_sent(situation) || situation->attempt->status == ATTEMPT_CREATED ||
        situation->attempt->provider_object != NULL ||
        situation->payment->view.status != PAYMENT_AUTHORIZING) {
        return false;
    }
    const struct query_task *task = explain_task(situation);
    if (task != NULL && (task->escalated_us != 0 || task->stored_error)) return false;
    return !explain_is_mismatch(situation->attempt);
}

/* A replay is allowed only inside this window (protocol C5). */
static void say_window(struct situation *situation)
{
    const struct psp_capability *capability = situation->capability;
    if (capability == NULL || !capability->has_idempotency_key) return;
    const struct recovery_limits limits = recovery_limits_of(situation->input->timers, capability);
    const int64_t window_us = limits.replay_until_us < limits.key_usable_us ? limits.replay_until_us
                                                                            : limits.key_usable_us;
    const int64_t end_us = situation->attempt->first_sent_us + window_us;
    const int64_t now_us = situation->picture->now_us;
    explain_say(situation, end_us,
                now_us < end_us ? "replay_until: the last replay is before %s, long before the PSP "
                                  "forgets the key; from then on only look-ups."
                                : "replay_until: no replay after %s, long before the PSP forgets "
                                  "the key; only look-ups now.",
                cli_when(situation->arena, end_us, now_us));
}

static bool is_sending(const struct situation *situation)
{
    return situation->attempt != NULL && situation->attempt->status == ATTEMPT_SENDING;
}

static void say_fence(struct situation *situation)
{
    explain_say(situation, 0,
                "the fence: CREATED -> SENDING is won once, at version %d; a worker that finds "
                "SENDING does not send.",
                situation->attempt->version);
}

static bool may_start(const struct situation *situation)
{
    if (explain_is_over(situation->payment->view.status)) return false;
    return situation->attempt == NULL || situation->attempt->status == ATTEMPT_CREATED;
}

static void say_start_by(struct situation *situation)
{
    const int64_t start_by_us = situation->payment->start_by_us;
    explain_say(situation, start_by_us, "start_by: no first send passes the fence after %s.",
                cli_when(situation->arena, start_by_us, situation->picture->now_us));
}

/* The end -------------------------------------------------------------------------------------- */

static bool holds_money(const struct situation *situation)
{
    return situation->attempt != NULL && situation->attempt->status == ATTEMPT_SUCCEEDED;
}

static void say_money(struct situation *situation)
{
    explain_say(situation, 0,
                "attempt_guard_update: %s is SUCCEEDED for ever, so attempt_guard_insert lets no "
                "further create of this payment be stored.",
                explain_attempt_name(situation));
}

static bool is_free(const struct situation *situation)
{
    return situation->payment->view.safe_to_pay_again;
}

static void say_free(struct situation *situation)
{
    explain_say(situation, 0,
                "nothing needs to any more: it is proven that this payment took no money and can "
                "take none. Its target may be paid again, under a new out_trade_no.");
}

static bool has_open_stray(const struct situation *situation)
{
    for (size_t i = 0; i < situation->picture->stray_count; i++) {
        if (situation->picture->strays[i].is_open) return true;
    }
    return false;
}

static void say_open_stray(struct situation *situation)
{
    explain_say(situation, 0,
                "stray_fact_object_key: the money that moved besides is counted once per object "
                "and kind; it does not end by itself and is not paid for again.");
}

static bool is_undecided_end(const struct situation *situation)
{
    return is_final(situation) && !is_free(situation) && !has_held_target(situation) &&
           !holds_money(situation);
}

static void say_undecided_end(struct situation *situation)
{
    explain_say(
        situation, 0,
        "safe_to_pay_again is false: something of it is open still, see the next question.");
}

static const struct sentence SENTENCES[] = {
    { is_free, say_free },
    { has_no_attempt, say_no_attempt },
    { is_sending, say_fence },
    { has_sent, say_key },
    { may_be_replayed, say_window },
    { is_open, say_one_attempt },
    { holds_money, say_money },
    { may_start, say_start_by },
    { has_busy_target, say_busy_target },
    { has_held_target, say_held_target },
    { has_moved_on, say_moved_on },
    { has_no_object, say_no_object },
    { has_open_stray, say_open_stray },
    { is_undecided_end, say_undecided_end },
    { always, say_number },
};

void explain_barrier(struct situation *situation)
{
    explain_sentences(situation, SENTENCES, COUNT_OF(SENTENCES));
}
