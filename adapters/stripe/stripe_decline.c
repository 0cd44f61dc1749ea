/* adapters/stripe/stripe_decline.c: see stripe_decline.h. */
#include "adapters/stripe/stripe_decline.h"

struct decline_row {
    const char *code;
    enum decline_class class;
};

static const struct decline_row DECLINES[] = {
    { "fraudulent", DECLINE_HARD_FRAUD },
    { "lost_card", DECLINE_HARD_FRAUD },
    { "stolen_card", DECLINE_HARD_FRAUD },
    { "pickup_card", DECLINE_HARD_FRAUD },
    { "merchant_blacklist", DECLINE_HARD_FRAUD },
    { "restricted_card", DECLINE_HARD_FRAUD },
    { "security_violation", DECLINE_HARD_FRAUD },
    { "revocation_of_authorization", DECLINE_HARD_FRAUD },
    { "revocation_of_all_authorizations", DECLINE_HARD_FRAUD },
    { "stop_payment_order", DECLINE_HARD_FRAUD },
    { "highest_risk_level", DECLINE_HARD_FRAUD },
    { "do_not_try_again", DECLINE_HARD_FRAUD },
    { "incorrect_number", DECLINE_HARD_DATA },
    { "invalid_number", DECLINE_HARD_DATA },
    { "invalid_account", DECLINE_HARD_DATA },
    { "expired_card", DECLINE_HARD_DATA },
    { "incorrect_cvc", DECLINE_HARD_DATA },
    { "invalid_cvc", DECLINE_HARD_DATA },
    { "invalid_expiry_month", DECLINE_HARD_DATA },
    { "invalid_expiry_year", DECLINE_HARD_DATA },
    { "incorrect_zip", DECLINE_HARD_DATA },
    { "incorrect_pin", DECLINE_HARD_DATA },
    { "authentication_required", DECLINE_AUTH_REQUIRED },
    { "offline_pin_required", DECLINE_AUTH_REQUIRED },
    { "online_or_offline_pin_required", DECLINE_AUTH_REQUIRED },
    { "payment_intent_authentication_failure", DECLINE_AUTH_REQUIRED },
    { "insufficient_funds", DECLINE_FUNDS_LIMIT },
    { "card_velocity_exceeded", DECLINE_FUNDS_LIMIT },
    { "withdrawal_count_limit_exceeded", DECLINE_FUNDS_LIMIT },
    { "issuer_not_available", DECLINE_TECHNICAL },
    { "processing_error", DECLINE_TECHNICAL },
    { "reenter_transaction", DECLINE_TECHNICAL },
    { "try_again_later", DECLINE_TECHNICAL },
    { "approve_with_id", DECLINE_TECHNICAL },
    { "card_not_supported", DECLINE_TECHNICAL },
    { "currency_not_supported", DECLINE_TECHNICAL },
    { "generic_decline", DECLINE_GENERIC },
    { "do_not_honor", DECLINE_GENERIC },
    { "call_issuer", DECLINE_GENERIC },
    { "no_action_taken", DECLINE_GENERIC },
    { "not_permitted", DECLINE_GENERIC },
    { "service_not_allowed", DECLINE_GENERIC },
    { "transaction_not_allowed", DECLINE_GENERIC },
};

static const struct decline_row *find_row(const char *code)
{
    if (code == NULL) return NULL;
    for (size_t i = 0; i < COUNT_OF(DECLINES); i++) {
        if (strcmp(DECLINES[i].code, code) == 0) return &DECLINES[i];
    }
    return NULL;
}

enum decline_class stripe_decline_class(const char *decline_code, const char *code)
{
    const struct decline_row *row = find_row(decline_code);
    /* An issuer's word that we do not know is not softened by the error's more general one. */
    if (row == NULL && decline_code == NULL) row = find_row(code);
    return row == NULL ? DECLINE_GENERIC : row->class;
}
