/*
 * ops/sim/stripe_json.c: see stripe_json.h. Fields are in Stripe's (alphabetical) order, those that
 * a card payment has; amounts are integers in minor units throughout.
 */
#include "ops/sim/stripe_json.h"

#include "ops/sim/stripe_method.h"

static const char API_VERSION[] = "2025-09-30.clover";

static const struct {
    enum charge_state state;
    const char *status;
    const char *event_type;
} STATES[] = {
    { CHARGE_SUCCEEDED, "succeeded", "payment_intent.succeeded" },
    { CHARGE_DECLINED, "requires_payment_method", "payment_intent.payment_failed" },
    { CHARGE_PROCESSING, "processing", "payment_intent.processing" },
    { CHARGE_ACTION_REQUIRED, "requires_action", "payment_intent.requires_action" },
    { CHARGE_CANCELED, "canceled", "payment_intent.canceled" },
};

static const char *status_of(enum charge_state state)
{
    for (size_t i = 0; i < COUNT_OF(STATES); i++) {
        if (STATES[i].state == state) return STATES[i].status;
    }
    UNREACHABLE("charge state out of range");
}

const char *stripe_json_event_type(enum charge_state state)
{
    for (size_t i = 0; i < COUNT_OF(STATES); i++) {
        if (STATES[i].state == state) return STATES[i].event_type;
    }
    return NULL;
}

bool stripe_json_event_state(const char *type, enum charge_state *out)
{
    for (size_t i = 0; i < COUNT_OF(STATES); i++) {
        if (strcmp(STATES[i].event_type, type) != 0) continue;
        *out = STATES[i].state;
        return true;
    }
    return false;
}

static void add_lower(struct textbuf *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        const char lower = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        textbuf_add(out, &lower, 1);
    }
}

/* The members that a card error and last_payment_error share, without braces. */
static void add_decline(const struct charge *charge, struct textbuf *out)
{
    const char *code = stripe_method_error_code(charge->decline_code);
    textbuf_format(out,
                   "\"charge\":\"%s\",\"code\":\"%s\",\"decline_code\":\"%s\","
                   "\"doc_url\":\"https://stripe.com/docs/error-codes/%s\",\"message\":",
                   charge->charge_id, code, charge->decline_code, code);
    textbuf_json(out, stripe_method_message(charge->decline_code));
}

static void add_next_action(const struct charge *charge, struct textbuf *out)
{
    if (charge->state != CHARGE_ACTION_REQUIRED) {
        textbuf_text(out, "null");
    } else if (charge->return_url == NULL) {
        textbuf_format(out,
                       "{\"type\":\"use_stripe_sdk\",\"use_stripe_sdk\":{\"type\":"
                       "\"three_d_secure_redirect\",\"source\":\"src_%s\"}}",
                       charge->object + 3);
    } else {
        textbuf_text(out, "{\"redirect_to_url\":{\"return_url\":");
        textbuf_json(out, charge->return_url);
        textbuf_format(out,
                       ",\"url\":\"https://hooks.stripe.com/redirect/authenticate/src_%s\"},"
                       "\"type\":\"redirect_to_url\"}",
                       charge->object + 3);
    }
}

static void add_head(const struct charge *charge, struct textbuf *out)
{
    const bool is_succeeded = charge->state == CHARGE_SUCCEEDED;
    textbuf_format(out,
                   "{\"id\":\"%s\",\"object\":\"payment_intent\",\"amount\":%" PRId64
                   ",\"amount_capturable\":0,\"amount_details\":{\"tip\":{}},"
                   "\"amount_received\":%" PRId64 ",\"application\":null,",
                   charge->object, charge->amount_minor, is_succeeded ? charge->amount_minor : 0);
    textbuf_text(out, "\"automatic_payment_methods\":{\"allow_redirects\":\"never\","
                      "\"enabled\":true},\"canceled_at\":");
    if (charge->state == CHARGE_CANCELED) {
        textbuf_format(out, "%" PRId64 ",\"cancellation_reason\":\"abandoned\"", charge->changed_s);
    } else {
        textbuf_text(out, "null,\"cancellation_reason\":null");
    }
    textbuf_format(out,
                   ",\"capture_method\":\"automatic\",\"client_secret\":\"%s_secret_%.16s\","
                   "\"confirmation_method\":\"automatic\",\"created\":%" PRId64 ",\"currency\":\"",
                   charge->object, charge->charge_id + 3, charge->created_s);
    add_lower(out, charge->currency);
    textbuf_text(out, "\",\"customer\":null,\"description\":null");
}

void stripe_json_intent(const struct charge *charge, struct textbuf *out)
{
    const bool is_declined = charge->state == CHARGE_DECLINED;
    const bool has_charge =
        charge->state != CHARGE_ACTION_REQUIRED && charge->state != CHARGE_CANCELED;
    add_head(charge, out);
    textbuf_text(out, ",\"last_payment_error\":");
    if (is_declined) {
        textbuf_text(out, "{");
        add_decline(charge, out);
        textbuf_text(out, ",\"payment_method\":{\"id\":");
        textbuf_json(out, charge->method);
        textbuf_text(out, ",\"object\":\"payment_method\",\"type\":\"card\"},"
                          "\"type\":\"card_error\"}");
    } else {
        textbuf_text(out, "null");
    }
    textbuf_text(out, ",\"latest_charge\":");
    textbuf_json(out, has_charge ? charge->charge_id : NULL);
    textbuf_format(out, ",\"livemode\":false,\"metadata\":%s,\"next_action\":", charge->metadata);
    add_next_action(charge, out);
    textbuf_text(out, ",\"on_behalf_of\":null,\"payment_method\":");
    textbuf_json(out, is_declined ? NULL : charge->method);
    textbuf_format(out,
                   ",\"payment_method_types\":[\"card\"],\"processing\":%s,"
                   "\"receipt_email\":null,\"setup_future_usage\":null,\"shipping\":null,"
                   "\"statement_descriptor\":null,\"status\":\"%s\",\"transfer_data\":null,"
                   "\"transfer_group\":null}",
                   charge->state == CHARGE_PROCESSING ? "{\"type\":\"card\"}" : "null",
                   status_of(charge->state));
}

int stripe_json_created_status(enum charge_state state)
{
    return state == CHARGE_DECLINED ? 402 : 200;
}

void stripe_json_created(const struct charge *charge, struct textbuf *out)
{
    if (charge->state != CHARGE_DECLINED) {
        stripe_json_intent(charge, out);
        return;
    }
    textbuf_text(out, "{\"error\":{");
    add_decline(charge, out);
    textbuf_text(out, ",\"payment_intent\":");
    stripe_json_intent(charge, out);
    textbuf_text(out, ",\"type\":\"card_error\"}}");
}

void stripe_json_error(const struct stripe_error *error, struct textbuf *out)
{
    textbuf_text(out, "{\"error\":{");
    if (error->code != NULL) {
        textbuf_format(out,
                       "\"code\":\"%s\",\"doc_url\":\"https://stripe.com/docs/error-codes/%s\",",
                       error->code, error->code);
    }
    textbuf_text(out, "\"message\":");
    textbuf_json(out, error->message);
    if (error->param != NULL) {
        textbuf_text(out, ",\"param\":");
        textbuf_json(out, error->param);
    }
    textbuf_format(out, ",\"type\":\"%s\"}}", error->type);
}

void stripe_json_event(const struct event *event, const struct charge *charge, struct textbuf *out)
{
    textbuf_format(out,
                   "{\"id\":\"%s\",\"object\":\"event\",\"api_version\":\"%s\","
                   "\"created\":%" PRId64 ",\"type\":\"%s\",\"livemode\":false,"
                   "\"pending_webhooks\":1,\"request\":{\"id\":null,\"idempotency_key\":",
                   event->id, API_VERSION, event->created_s, event->type);
    textbuf_json(out, charge->key);
    textbuf_text(out, "},\"data\":{\"object\":");
    stripe_json_intent(charge, out);
    textbuf_text(out, "}}");
}
