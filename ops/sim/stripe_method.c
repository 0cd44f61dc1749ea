/* ops/sim/stripe_method.c: see stripe_method.h. */
#include "ops/sim/stripe_method.h"

#include <errno.h>

struct decline_row {
    const char *token; /* NULL: only by rule */
    const char *decline_code;
    const char *error_code;
    const char *message;
};

static const struct decline_row DECLINES[] = {
    { "pm_card_chargeDeclined", "generic_decline", "card_declined", "Your card was declined." },
    { "pm_card_chargeDeclinedInsufficientFunds", "insufficient_funds", "card_declined",
      "Your card has insufficient funds." },
    { "pm_card_chargeDeclinedLostCard", "lost_card", "card_declined", "Your card was declined." },
    { "pm_card_chargeDeclinedStolenCard", "stolen_card", "card_declined",
      "Your card was declined." },
    { "pm_card_chargeDeclinedExpiredCard", "expired_card", "expired_card",
      "Your card has expired." },
    { "pm_card_chargeDeclinedIncorrectCvc", "incorrect_cvc", "incorrect_cvc",
      "Your card's security code is incorrect." },
    { "pm_card_chargeDeclinedProcessingError", "processing_error", "processing_error",
      "An error occurred while processing your card. Try again in a little bit." },
    { "pm_card_chargeDeclinedFraudulent", "fraudulent", "card_declined",
      "Your card was declined." },
    { "pm_card_chargeDeclinedVelocityLimitExceeded", "card_velocity_exceeded", "card_declined",
      "Your card was declined for making repeated attempts too frequently." },
    { NULL, "authentication_required", "authentication_required",
      "Your card was declined. This transaction requires authentication." },
};

static const char *const ACTION_TOKENS[] = {
    "pm_card_authenticationRequired",
    "pm_card_authenticationRequiredOnSetup",
    "pm_card_threeDSecure2Required",
    "pm_card_threeDSecureRequired",
};

/* Our own: "pm_sim_pending", or with an end "pm_sim_pending_<result>_<ms>". */
static bool parse_pending(const char *token, struct stripe_outcome *out)
{
    static const char PREFIX[] = "pm_sim_pending";
    if (strncmp(token, PREFIX, sizeof PREFIX - 1) != 0) return false;
    *out = (struct stripe_outcome){ CHARGE_PROCESSING, "", -1, CHARGE_SUCCEEDED };
    const char *rest = token + sizeof PREFIX - 1;
    if (*rest == '\0') return true;
    const char *number = strrchr(token, '_') + 1;
    char word[16] = "";
    const ptrdiff_t length = number - 1 - (rest + 1);
    if (*rest != '_' || length <= 0 || length >= (ptrdiff_t)sizeof word) return false;
    memcpy(word, rest + 1, (size_t)length);
    word[length] = '\0';
    char *end = NULL;
    errno = 0;
    const long ms = strtol(number, &end, 10);
    if (errno != 0 || end == number || *end != '\0' || ms < 0) return false;
    out->due_after_ms = ms;
    return charge_result_parse(word, &out->due_state);
}

struct stripe_outcome stripe_method_outcome(const char *token)
{
    for (size_t i = 0; i < COUNT_OF(DECLINES); i++) {
        if (DECLINES[i].token != NULL && strcmp(DECLINES[i].token, token) == 0) {
            return (struct stripe_outcome){ CHARGE_DECLINED, DECLINES[i].decline_code, -1,
                                            CHARGE_DECLINED };
        }
    }
    for (size_t i = 0; i < COUNT_OF(ACTION_TOKENS); i++) {
        if (strcmp(ACTION_TOKENS[i], token) == 0) {
            return (struct stripe_outcome){ CHARGE_ACTION_REQUIRED, "", -1, CHARGE_SUCCEEDED };
        }
    }
    struct stripe_outcome pending;
    if (parse_pending(token, &pending)) return pending;
    return (struct stripe_outcome){ CHARGE_SUCCEEDED, "", -1, CHARGE_SUCCEEDED };
}

static const struct decline_row *row_of(const char *decline_code)
{
    for (size_t i = 0; i < COUNT_OF(DECLINES); i++) {
        if (strcmp(DECLINES[i].decline_code, decline_code) == 0) return &DECLINES[i];
    }
    return &DECLINES[0];
}

const char *stripe_method_error_code(const char *decline_code)
{
    return row_of(decline_code)->error_code;
}

const char *stripe_method_message(const char *decline_code)
{
    return row_of(decline_code)->message;
}
