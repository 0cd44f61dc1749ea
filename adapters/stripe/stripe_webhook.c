/*
 * adapters/stripe/stripe_webhook.c: see stripe_webhook.h. The signature is over the bytes as they
 * came ("<t>.<body>"), so it is checked before anything is parsed.
 */
#include "adapters/stripe/stripe_webhook.h"

#include "adapters/stripe/stripe_decline.h"
#include "adapters/stripe/stripe_intent.h"
#include "pipeline/hash.h"

#include <strings.h>

enum { TIMESTAMP_DIGITS_MAX = 12, SIGNATURE_MAX = 16, TOLERANCE_DEFAULT_S = 300 };

/* "t=1760000000,v1=<hex>[,v1=<hex>…][,v0=…]": one t, at least one v1, other schemes ignored. */
struct signature_header {
    struct span timestamp; /* as it stands in the header, and so in the signed text */
    int64_t timestamp_s;
    struct span signatures[SIGNATURE_MAX];
    size_t signature_count;
};

static const char *find_signature_header(const struct http_header *headers, size_t header_count,
                                         const char **out_error)
{
    const char *found = NULL;
    *out_error = "signature_missing";
    for (size_t i = 0; i < header_count; i++) {
        if (strcasecmp(headers[i].name, "Stripe-Signature") != 0) continue;
        if (found != NULL) { /* which one would a proxy, a framework and we each have looked at? */
            *out_error = "signature_malformed";
            return NULL;
        }
        found = headers[i].value;
    }
    return found;
}

static bool read_timestamp(struct span text, struct signature_header *out)
{
    if (text.length == 0 || text.length > TIMESTAMP_DIGITS_MAX) return false;
    int64_t seconds = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        seconds = seconds * 10 + (text.data[i] - '0');
    }
    out->timestamp = text;
    out->timestamp_s = seconds;
    return true;
}

static bool read_element(struct span element, struct signature_header *out)
{
    const uint8_t *equals = memchr(element.data, '=', element.length);
    if (equals == NULL) return false;
    const struct span scheme = { element.data, (size_t)(equals - element.data) };
    const struct span value = { equals + 1, element.length - scheme.length - 1 };
    if (span_equal(scheme, span_of_text("t"))) {
        return out->timestamp.data == NULL && read_timestamp(value, out);
    }
    if (!span_equal(scheme, span_of_text("v1"))) return true;
    if (out->signature_count == SIGNATURE_MAX) return false;
    out->signatures[out->signature_count++] = value;
    return true;
}

static bool read_signature_header(const char *text, struct signature_header *out)
{
    struct signature_header header = { .signature_count = 0 };
    for (;;) {
        const size_t length = strcspn(text, ",");
        if (!read_element((struct span){ (const uint8_t *)text, length }, &header)) return false;
        if (text[length] == '\0') break;
        text += length + 1;
    }
    if (header.timestamp.data == NULL || header.signature_count == 0) return false;
    *out = header;
    return true;
}

/* Every pair is compared, so that time does not tell which of them matched. */
static bool is_signed(const struct psp_account *account, const struct signature_header *header,
                      struct span body, struct arena *arena)
{
    const size_t length = header->timestamp.length + 1 + body.length;
    uint8_t *text = arena_allocate(arena, length);
    memcpy(text, header->timestamp.data, header->timestamp.length);
    text[header->timestamp.length] = '.';
    memcpy(text + header->timestamp.length + 1, body.data, body.length);

    bool found = false;
    for (size_t i = 0; i < COUNT_OF(account->webhook_secrets); i++) {
        const struct span secret = span_of_text(account->webhook_secrets[i]);
        if (secret.length == 0) continue;
        uint8_t digest[HASH_SIZE];
        char hex[HASH_HEX_SIZE];
        hash_hmac_sha256(secret, (struct span){ text, length }, digest);
        const struct span expected =
            span_of_text(hash_hex((struct span){ digest, sizeof digest }, hex));
        for (size_t j = 0; j < header->signature_count; j++) {
            if (hash_equal(expected, header->signatures[j])) found = true;
        }
    }
    return found;
}

static bool is_in_time(const struct psp_account *account, int64_t timestamp_s, int64_t now_s)
{
    const int64_t tolerance_s =
        account->webhook_tolerance_s > 0 ? account->webhook_tolerance_s : TOLERANCE_DEFAULT_S;
    const int64_t age_s = now_s - timestamp_s;
    return age_s <= tolerance_s && age_s >= -tolerance_s;
}

static const char *check_signature(const struct psp_account *account,
                                   const struct http_header *headers, size_t header_count,
                                   struct span body, int64_t now_s, struct arena *arena)
{
    const char *error;
    const char *text = find_signature_header(headers, header_count, &error);
    if (text == NULL) return error;
    struct signature_header header;
    if (!read_signature_header(text, &header)) return "signature_malformed";
    if (body.length == 0) return "body_malformed";
    if (!is_signed(account, &header, body, arena)) return "signature_mismatch";
    if (!is_in_time(account, header.timestamp_s, now_s)) return "timestamp_out_of_tolerance";
    return NULL;
}

/* --- the event -------------------------------------------------------------------------------- */

static int64_t read_created_us(const struct value *event)
{
    const struct value *created = value_find(event, "created");
    const bool is_integer = created != NULL && created->kind == VALUE_INTEGER;
    const int64_t seconds = is_integer ? created->integer : 0;
    const bool is_sane = seconds > 0 && seconds < INT64_C(253402300800); /* the year 10000 */
    return is_sane ? seconds * 1000000 : 0;
}

/* The object is a snapshot of the event's own moment: as good as an answer of that moment. */
static void observe_intent_event(const char *type, const struct value *intent, struct arena *arena,
                                 struct observation *out)
{
    if (!stripe_intent_read(intent, arena, out)) return;
    if (out->kind == OBSERVED_SERVER_ERROR) out->kind = OBSERVED_NOTHING; /* an unknown status */
    const bool says_failed = strcmp(type, "payment_intent.payment_failed") == 0;
    if (says_failed && out->kind == OBSERVED_OBJECT_CREATED) {
        out->kind = OBSERVED_DECLINED;
        out->decline = stripe_decline_class(NULL, NULL);
    }
}

static struct value excerpt_of(const struct value *event, const struct value *intent,
                               struct arena *arena)
{
    struct value excerpt = value_map_make(arena, 2);
    value_map_add(&excerpt, "event", stripe_excerpt_event(event, arena));
    const struct value picked = stripe_excerpt_intent(intent, arena);
    if (picked.kind != VALUE_NULL) value_map_add(&excerpt, "payment_intent", picked);
    return excerpt;
}

/* What was read of the event is in scratch; what is kept of it goes to the arena. */
static bool observe_event(const struct value *event, struct arena *scratch, struct arena *arena,
                          struct observation *out)
{
    const char *object = value_text(value_find(event, "object"));
    const char *id = stripe_token(event, "id", STRIPE_ID_LENGTH_MAX, arena);
    const char *type = stripe_token(event, "type", STRIPE_ID_LENGTH_MAX, arena);
    const struct value *subject = value_find(value_find(event, "data"), "object");
    if (object == NULL || strcmp(object, "event") != 0) return false;
    if (id == NULL || type == NULL || subject == NULL || subject->kind != VALUE_MAP) return false;

    out->provider_event = id;
    out->observed_at_us = read_created_us(event);
    const bool is_about_intent = strncmp(type, "payment_intent.", 15) == 0;
    if (is_about_intent) observe_intent_event(type, subject, arena, out);
    const struct value excerpt = excerpt_of(event, is_about_intent ? subject : NULL, scratch);
    out->excerpt = stripe_excerpt_text(&excerpt, arena);
    return true;
}

enum status stripe_verify_webhook(const struct psp_account *account,
                                  const struct http_header *headers, size_t header_count,
                                  struct span body, int64_t now_s, struct arena *arena,
                                  struct observation *out, const char **out_error)
{
    *out_error = check_signature(account, headers, header_count, body, now_s, arena);
    if (*out_error != NULL) return STATUS_BAD_DATA;

    struct observation observation = {
        .source = SOURCE_WEBHOOK,
        .phase = PHASE_PARSED,
        .excerpt = "{}",
    };
    hash_sha256(body, observation.digest);
    struct arena scratch = { NULL };
    const bool is_event =
        observe_event(stripe_document(body, &scratch), &scratch, arena, &observation);
    arena_finish(&scratch);
    if (!is_event) {
        *out_error = "body_malformed";
        return STATUS_BAD_DATA;
    }
    *out = observation;
    return STATUS_OK;
}
