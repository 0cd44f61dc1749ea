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

const struct value *stripe_document(struct span body, struct arena *arena)
{
    /* Objects may be expanded inside each other, but an answer has some hundred values at most. */
    static const struct value_bounds BOUNDS = { .depth_max = 32, .count_max = 4096 };
    struct value *document = arena_allocate(arena, sizeof *document);
    return value_read_json_within(&BOUNDS, body, arena, document, NULL) == STATUS_OK ? document
                                                                                     : NULL;
}

const char *stripe_token(const struct value *object, const char *name, size_t length_max,
                         struct arena *arena)
{
    const char *text = value_text(value_find(object, name));
    if (text == NULL || !stripe_is_token(text, length_max)) return NULL;
    return arena_copy(arena, text, strlen(text));
}

static bool text_is(const char *text, const char *word)
{
    return text != NULL && strcmp(text, word) == 0;
}

/* Stripe writes currencies in lower case. */
static bool read_currency(const struct value *intent, struct currency *out)
{
    const char *text = value_text(value_find(intent, "currency"));
    if (text == NULL || strlen(text) != 3) return false;
    char code[4] = "";
    for (size_t i = 0; i < 3; i++) {
        if (text[i] < 'a' || text[i] > 'z') return false;
        code[i] = (char)(text[i] - 'a' + 'A');
    }
    return currency_parse(code, out);
}

/* A number with a point ("10.0") is no integer, and so no amount to us. */
static bool read_amount(const struct value *intent, const char *name, struct money *out)
{
    const struct value *units = value_find(intent, name);
    struct currency currency;
    if (units == NULL || units->kind != VALUE_INTEGER) return false;
    if (!read_currency(intent, &currency)) return false;
    return stripe_amount_from_units(units->integer, currency, out);
}

static void read_decline(const struct value *intent, struct arena *arena, struct observation *out)
{
    const struct value *error = value_find(intent, "last_payment_error");
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

bool stripe_intent_read(const struct value *intent, struct arena *arena, struct observation *out)
{
    if (!text_is(value_text(value_find(intent, "object")), "payment_intent")) return false;
    const char *id = stripe_token(intent, "id", STRIPE_ID_LENGTH_MAX, arena);
    const char *status = stripe_token(intent, "status", STRIPE_WORD_LENGTH_MAX, arena);
    if (id == NULL || status == NULL || !stripe_is_object_id(id)) return false;

    out->provider_object = id;
    out->provider_status = status;
    out->kind = kind_of_status(status);
    out->reference =
        stripe_token(value_find(intent, "metadata"), "reference", STRIPE_ID_LENGTH_MAX, arena);
    const bool succeeded = out->kind == OBSERVED_SUCCEEDED;
    out->has_amount = read_amount(intent, succeeded ? "amount_received" : "amount", &out->amount);
    if (text_is(status, "requires_action")) {
        out->handed_out = true;
        out->object_payable = true;
    }
    const struct value *error = value_find(intent, "last_payment_error");
    const bool was_refused = error != NULL && error->kind == VALUE_MAP;
    if (text_is(status, "requires_payment_method") && was_refused) read_decline(intent, arena, out);
    return true;
}

/* --- what may be kept ------------------------------------------------------------------------- */

enum { EXCERPT_TEXT_MAX = 128 };
#define EXCERPT_INTEGER_MAX INT64_C(999999999999) /* 12 digits: no card number has so few */

/* VALUE_NULL: this must not be kept. */
static struct value allowed_value(const struct value *value, struct arena *arena)
{
    struct value none = { .kind = VALUE_NULL };
    if (value == NULL) return none;
    if (value->kind == VALUE_INTEGER) {
        const bool fits =
            value->integer >= -EXCERPT_INTEGER_MAX && value->integer <= EXCERPT_INTEGER_MAX;
        return fits ? *value : none;
    }
    const char *text = value_text(value);
    if (text == NULL || !stripe_is_token(text, EXCERPT_TEXT_MAX)) return none;
    char *masked = arena_copy(arena, text, value->bytes.length);
    (void)mask_card_numbers(masked, value->bytes.length);
    return value_of_text(masked);
}

enum { EXCERPT_MEMBER_MAX = 12 };

/* names end with NULL. */
static struct value pick(const struct value *object, const char *const *names, struct arena *arena)
{
    if (object == NULL || object->kind != VALUE_MAP) return value_of_text(NULL);
    struct value picked = value_map_make(arena, EXCERPT_MEMBER_MAX);
    for (; *names != NULL; names++) {
        const struct value value = allowed_value(value_find(object, *names), arena);
        if (value.kind != VALUE_NULL) value_map_add(&picked, *names, value);
    }
    return picked;
}

struct value stripe_excerpt_error(const struct value *error, struct arena *arena)
{
    static const char *const NAMES[] = { "type", "code", "decline_code", NULL };
    return pick(error, NAMES, arena);
}

struct value stripe_excerpt_intent(const struct value *intent, struct arena *arena)
{
    static const char *const NAMES[] = { "id",       "object",  "status",        "amount",
                                         "currency", "created", "latest_charge", "amount_received",
                                         NULL };
    struct value picked = pick(intent, NAMES, arena);
    const struct value error =
        stripe_excerpt_error(value_find(intent, "last_payment_error"), arena);
    if (error.kind != VALUE_NULL) value_map_add(&picked, "last_payment_error", error);
    return picked;
}

struct value stripe_excerpt_event(const struct value *event, struct arena *arena)
{
    static const char *const NAMES[] = { "id", "object", "type", "created", NULL };
    return pick(event, NAMES, arena);
}

const char *stripe_excerpt_text(const struct value *excerpt, struct arena *arena)
{
    if (excerpt->kind == VALUE_NULL) return "{}";
    return (const char *)value_write_json(excerpt, arena).data;
}
