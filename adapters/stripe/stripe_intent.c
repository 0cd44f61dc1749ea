/* adapters/stripe/stripe_intent.c: see stripe_intent.h. */
#include "adapters/stripe/stripe_intent.h"

#include "adapters/stripe/stripe_amount.h"
#include "adapters/stripe/stripe_decline.h"
#include "pipeline/mask.h"

bool stripe_is_token(const char *text, size_t length_max)
{
    size_t length = 0;
    for (; text[length] != '\0'; length++) {
        if (length == length_max || text[length] <= ' ' || text[length] > '~') return false;
    }
    return length > 0;
}

const char *stripe_token(const json_t *object, const char *name, size_t length_max,
                         struct arena *arena)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (text == NULL || !stripe_is_token(text, length_max)) return NULL;
    return arena_copy(arena, text, strlen(text));
}

static bool text_is(const char *text, const char *word)
{
    return text != NULL && strcmp(text, word) == 0;
}

/* Stripe writes currencies in lower case. */
static bool read_currency(const json_t *intent, struct currency *out)
{
    const char *text = json_string_value(json_object_get(intent, "currency"));
    if (text == NULL || strlen(text) != 3) return false;
    char code[4] = "";
    for (size_t i = 0; i < 3; i++) {
        if (text[i] < 'a' || text[i] > 'z') return false;
        code[i] = (char)(text[i] - 'a' + 'A');
    }
    return currency_parse(code, out);
}

/* A real number ("10.0") is no integer to jansson, and so no amount to us. */
static bool read_amount(const json_t *intent, const char *name, struct money *out)
{
    const json_t *units = json_object_get(intent, name);
    struct currency currency;
    if (!json_is_integer(units) || !read_currency(intent, &currency)) return false;
    return stripe_amount_from_units(json_integer_value(units), currency, out);
}

static void read_decline(const json_t *intent, struct arena *arena, struct observation *out)
{
    const json_t *error = json_object_get(intent, "last_payment_error");
    const char *code = stripe_token(error, "code", STRIPE_WORD_LENGTH_MAX, arena);
    const char *decline_code = stripe_token(error, "decline_code", STRIPE_WORD_LENGTH_MAX, arena);
    out->kind = OBSERVED_DECLINED;
    out->decline = stripe_decline_class(decline_code, code);
    out->error_code = decline_code != NULL ? decline_code : code;
    if (text_is(code, "payment_intent_authentication_failure")) {
        /* The customer was shown an authentication, so a way to pay this object is out there. */
        out->handed_out = true;
        out->object_payable = true;
    }
}

static enum observation_kind kind_of_status(const char *status)
{
    static const struct {
        const char *status;
        enum observation_kind kind;
    } KINDS[] = {
        { "succeeded", OBSERVED_SUCCEEDED },
        { "processing", OBSERVED_PENDING },
        { "requires_action", OBSERVED_PENDING },
        { "requires_capture", OBSERVED_PENDING }, /* automatic capture is on its way */
        { "requires_confirmation", OBSERVED_OBJECT_CREATED },
        { "requires_payment_method", OBSERVED_OBJECT_CREATED }, /* or declined: see below */
        { "canceled", OBSERVED_CANCELED },
    };
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        if (strcmp(KINDS[i].status, status) == 0) return KINDS[i].kind;
    }
    return OBSERVED_SERVER_ERROR;
}

bool stripe_is_object_id(const char *text)
{
    const char *const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    const size_t length = strlen(text);
    return length > 0 && length <= STRIPE_ID_LENGTH_MAX && strspn(text, alphabet) == length;
}

bool stripe_intent_read(const json_t *intent, struct arena *arena, struct observation *out)
{
    if (!text_is(json_string_value(json_object_get(intent, "object")), "payment_intent")) {
        return false;
    }
    const char *id = stripe_token(intent, "id", STRIPE_ID_LENGTH_MAX, arena);
    const char *status = stripe_token(intent, "status", STRIPE_WORD_LENGTH_MAX, arena);
    if (id == NULL || status == NULL || !stripe_is_object_id(id)) return false;

    out->provider_object = id;
    out->provider_status = status;
    out->kind = kind_of_status(status);
    out->reference =
        stripe_token(json_object_get(intent, "metadata"), "reference", STRIPE_ID_LENGTH_MAX, arena);
    const bool succeeded = out->kind == OBSERVED_SUCCEEDED;
    out->has_amount = read_amount(intent, succeeded ? "amount_received" : "amount", &out->amount);
    if (text_is(status, "requires_action")) {
        out->handed_out = true;
        out->object_payable = true;
    }
    const bool was_refused = json_is_object(json_object_get(intent, "last_payment_error"));
    if (text_is(status, "requires_payment_method") && was_refused) read_decline(intent, arena, out);
    return true;
}

/* --- what may be kept ------------------------------------------------------------------------- */

enum { EXCERPT_TEXT_MAX = 128 };
#define EXCERPT_INTEGER_MAX INT64_C(999999999999) /* 12 digits: no card number has so few */

static json_t *allowed_value(const json_t *value)
{
    if (json_is_integer(value)) {
        const json_int_t number = json_integer_value(value);
        const bool fits = number >= -EXCERPT_INTEGER_MAX && number <= EXCERPT_INTEGER_MAX;
        return fits ? json_integer(number) : NULL;
    }
    const char *text = json_string_value(value);
    if (text == NULL || !stripe_is_token(text, EXCERPT_TEXT_MAX)) return NULL;
    char masked[EXCERPT_TEXT_MAX + 1];
    (void)snprintf(masked, sizeof masked, "%s", text);
    (void)mask_card_numbers(masked, strlen(masked));
    return json_string(masked);
}

/* names end with NULL. */
static json_t *pick(const json_t *object, const char *const *names)
{
    if (!json_is_object(object)) return NULL;
    json_t *picked = json_object();
    for (; *names != NULL; names++) {
        json_t *value = allowed_value(json_object_get(object, *names));
        if (value != NULL) INVARIANT(json_object_set_new(picked, *names, value) == 0);
    }
    return picked;
}

static void add_member(json_t *object, const char *name, json_t *value)
{
    if (object != NULL && value != NULL) {
        INVARIANT(json_object_set_new(object, name, value) == 0);
    } else {
        json_decref(value);
    }
}

json_t *stripe_excerpt_error(const json_t *error)
{
    static const char *const NAMES[] = { "type", "code", "decline_code", NULL };
    return pick(error, NAMES);
}

json_t *stripe_excerpt_intent(const json_t *intent)
{
    static const char *const NAMES[] = { "id",       "object",  "status",        "amount",
                                         "currency", "created", "latest_charge", "amount_received",
                                         NULL };
    json_t *picked = pick(intent, NAMES);
    add_member(picked, "last_payment_error",
               stripe_excerpt_error(json_object_get(intent, "last_payment_error")));
    return picked;
}

json_t *stripe_excerpt_event(const json_t *event)
{
    static const char *const NAMES[] = { "id", "object", "type", "created", NULL };
    return pick(event, NAMES);
}

const char *stripe_excerpt_text(json_t *excerpt, struct arena *arena)
{
    if (excerpt == NULL) return "{}";
    char *text = json_dumps(excerpt, JSON_COMPACT);
    INVARIANT(text != NULL);
    const char *copy = arena_copy(arena, text, strlen(text));
    free(text);
    json_decref(excerpt);
    return copy;
}
