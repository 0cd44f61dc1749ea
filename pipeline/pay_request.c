/*
 * pipeline/pay_request.c: the body of a pay request (request.h). Fields are checked in the order
 * of design §3, and the first that is wrong is named; what is valid but not built yet comes last.
 * Order numbers are not searched for card numbers: one of ten 16-digit numbers passes Luhn.
 */
#include "pipeline/canonical.h"
#include "pipeline/clock.h"
#include "pipeline/hash.h"
#include "pipeline/mask.h"
#include "pipeline/request.h"

#include <strings.h>

struct decoder {
    struct arena *arena;
    struct problem *problem;
};

static bool refuse(const struct decoder *decoder, enum problem_code code, const char *field,
                   const char *detail)
{
    *decoder->problem = (struct problem){ code, field, detail };
    return false;
}

/* An absent or null member is NULL, which is a refusal only if it is required. */
static bool read_member(const struct decoder *decoder, const struct value *map, const char *name,
                        const char *field, bool is_required, const struct value **out)
{
    const struct value *value = value_find(map, name);
    if (value != NULL && value->kind == VALUE_NULL) value = NULL;
    if (value == NULL && is_required) {
        return refuse(decoder, PROBLEM_FIELD_MISSING, field, NULL);
    }
    *out = value;
    return true;
}

static bool read_text(const struct decoder *decoder, const struct value *map, const char *name,
                      const char *field, bool is_required, const char **out)
{
    const struct value *value;
    if (!read_member(decoder, map, name, field, is_required, &value)) return false;
    if (value != NULL && value->kind != VALUE_TEXT) {
        return refuse(decoder, PROBLEM_FIELD_TYPE, field, "text");
    }
    *out = value_text(value);
    return true;
}

static bool read_map(const struct decoder *decoder, const struct value *map, const char *name,
                     bool is_required, const struct value **out)
{
    if (!read_member(decoder, map, name, name, is_required, out)) return false;
    if (*out != NULL && (*out)->kind != VALUE_MAP) {
        return refuse(decoder, PROBLEM_FIELD_TYPE, name, "a map");
    }
    return true;
}

/* Are these 1 to max characters, each from first to last in ASCII? */
static bool is_within(const char *text, size_t max, char first, char last)
{
    size_t length = 0;
    for (; text[length] != '\0'; length++) {
        if (text[length] < first || text[length] > last) return false;
    }
    return length >= 1 && length <= max;
}

static bool is_name(const char *text, size_t max)
{
    static const char ALLOWED[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    return is_within(text, max, '!', '~') && text[strspn(text, ALLOWED)] == '\0';
}

static bool read_version(const struct decoder *decoder, const struct value *body)
{
    const struct value *version;
    if (!read_member(decoder, body, "version", "version", false, &version)) return false;
    if (version == NULL) return true;
    if (version->kind != VALUE_INTEGER) {
        return refuse(decoder, PROBLEM_FIELD_TYPE, "version", "an integer");
    }
    if (version->integer != REQUEST_SCHEMA_VERSION) {
        return refuse(decoder, PROBLEM_UNKNOWN_VERSION, "version", "1, or absent");
    }
    return true;
}

static bool read_names(const struct decoder *decoder, const struct value *body,
                       struct pay_request *out)
{
    const char *merchant;
    const char *out_trade_no;
    if (!read_text(decoder, body, "merchant", "merchant", true, &merchant)) return false;
    if (strcmp(merchant, out->merchant) != 0) {
        return refuse(decoder, PROBLEM_MERCHANT_MISMATCH, "merchant",
                      "equals the merchant of the subject");
    }
    if (!read_text(decoder, body, "out_trade_no", "out_trade_no", true, &out_trade_no)) {
        return false;
    }
    if (!is_within(out_trade_no, REQUEST_OUT_TRADE_NO_LENGTH_MAX, ' ', '~')) {
        return refuse(decoder, PROBLEM_FIELD_PATTERN, "out_trade_no",
                      "1 to 64 printable ASCII characters");
    }
    out->out_trade_no = out_trade_no;
    return true;
}

static bool read_target(const struct decoder *decoder, const struct value *body,
                        struct pay_request *out)
{
    const struct value *target;
    if (!read_map(decoder, body, "target", true, &target)) return false;
    if (!read_text(decoder, target, "kind", "target.kind", true, &out->target_kind)) return false;
    if (!is_name(out->target_kind, REQUEST_TARGET_KIND_LENGTH_MAX)) {
        return refuse(decoder, PROBLEM_FIELD_PATTERN, "target.kind",
                      "1 to 32 letters, digits, '_' or '-'");
    }
    const bool is_none = strcmp(out->target_kind, "none") == 0;
    if (!read_text(decoder, target, "id", "target.id", !is_none, &out->target_id)) return false;
    if (is_none && out->target_id != NULL) {
        return refuse(decoder, PROBLEM_FIELD_RANGE, "target.id", "absent for the kind none");
    }
    if (!is_none && !is_within(out->target_id, REQUEST_TARGET_ID_LENGTH_MAX, '!', '~')) {
        return refuse(decoder, PROBLEM_FIELD_PATTERN, "target.id",
                      "1 to 64 printable ASCII characters without blanks");
    }
    return true;
}

static bool read_amount(const struct decoder *decoder, const struct value *body,
                        struct pay_request *out)
{
    const struct value *amount;
    const char *currency;
    if (!read_member(decoder, body, "amount", "amount", true, &amount)) return false;
    const bool is_too_large = amount->kind == VALUE_DECIMAL && amount->is_integral;
    if (amount->kind != VALUE_INTEGER && !is_too_large) {
        return refuse(decoder, PROBLEM_FIELD_TYPE, "amount",
                      "an integer in minor units: 100, never 100.00");
    }
    if (is_too_large || amount->integer <= 0) {
        return refuse(decoder, PROBLEM_FIELD_RANGE, "amount", "1 to 9223372036854775807");
    }
    if (!read_text(decoder, body, "currency", "currency", true, &currency)) return false;
    if (!currency_parse(currency, &out->amount.currency)) {
        return refuse(decoder, PROBLEM_FIELD_RANGE, "currency",
                      "an active ISO 4217 code in upper case");
    }
    out->amount.minor = amount->integer;
    return true;
}

/* Fields in which raw card data travels elsewhere. */
static bool is_card_field(const char *name)
{
    static const char *const NAMES[] = { "number", "card_number", "pan",   "cvc",
                                         "cvc2",   "cvv",         "cvv2",  "security_code",
                                         "track1", "track2",      "track", "pin" };
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        if (strcasecmp(name, NAMES[i]) == 0) return true;
    }
    return false;
}

static bool has_card_data(const struct value *value, struct arena *arena)
{
    if (value->kind == VALUE_MAP) {
        for (size_t i = 0; i < value->count; i++) {
            const struct value_member *member = &value->members[i];
            if (is_card_field(member->name) || has_card_data(&member->value, arena)) return true;
        }
        return false;
    }
    if (value->kind == VALUE_LIST) {
        for (size_t i = 0; i < value->count; i++) {
            if (has_card_data(&value->items[i], arena)) return true;
        }
        return false;
    }
    return mask_has_card_number(value_write_json(value, arena));
}

static bool method_type_is_known(const char *type)
{
    static const char *const TYPES[] = { "card", "wallet", "qr", "voucher", "bank_transfer" };
    for (size_t i = 0; i < COUNT_OF(TYPES); i++) {
        if (strcmp(type, TYPES[i]) == 0) return true;
    }
    return false;
}

static bool read_token(const struct decoder *decoder, const struct value *method,
                       struct pay_request *out)
{
    const bool is_required =
        strcmp(out->method_type, "card") == 0 || strcmp(out->method_type, "wallet") == 0;
    if (!read_text(decoder, method, "token", "method.token", is_required, &out->method_token)) {
        return false;
    }
    if (out->method_token != NULL &&
        !is_within(out->method_token, REQUEST_TOKEN_LENGTH_MAX, '!', '~')) {
        return refuse(decoder, PROBLEM_FIELD_PATTERN, "method.token",
                      "1 to 255 printable ASCII characters without blanks");
    }
    if (!read_text(decoder, method, "token_realm", "method.token_realm", false,
                   &out->method_token_realm)) {
        return false;
    }
    if (out->method_token_realm != NULL &&
        !is_name(out->method_token_realm, REQUEST_TOKEN_REALM_LENGTH_MAX)) {
        return refuse(decoder, PROBLEM_FIELD_PATTERN, "method.token_realm",
                      "a PSP's name, or network");
    }
    return true;
}

static bool read_method(const struct decoder *decoder, const struct value *body,
                        struct pay_request *out)
{
    const struct value *method;
    if (!read_map(decoder, body, "method", true, &method)) return false;
    if (!read_text(decoder, method, "type", "method.type", true, &out->method_type)) return false;
    if (!method_type_is_known(out->method_type)) {
        return refuse(decoder, PROBLEM_FIELD_RANGE, "method.type",
                      "card, wallet, qr, voucher or bank_transfer");
    }
    if (has_card_data(method, decoder->arena)) {
        return refuse(decoder, PROBLEM_RAW_CARD_NUMBER, "method",
                      "a token that stands for the card, and nothing of the card itself");
    }
    return read_token(decoder, method, out);
}

static bool read_capture(const struct decoder *decoder, const struct value *body,
                         struct pay_request *out)
{
    const char *capture;
    if (!read_text(decoder, body, "capture", "capture", false, &capture)) return false;
    if (capture == NULL || strcmp(capture, "automatic") == 0) {
        out->capture = REQUEST_CAPTURE_AUTOMATIC;
    } else if (strcmp(capture, "manual") == 0) {
        out->capture = REQUEST_CAPTURE_MANUAL;
    } else {
        return refuse(decoder, PROBLEM_FIELD_RANGE, "capture", "automatic or manual");
    }
    return true;
}

static bool url_is_valid(const char *url)
{
    size_t scheme_length = 0;
    if (strncasecmp(url, "https://", 8) == 0) scheme_length = 8;
    if (strncasecmp(url, "http://", 7) == 0) scheme_length = 7;
    return scheme_length > 0 && is_within(url, REQUEST_RETURN_URL_LENGTH_MAX, '!', '~') &&
           url[scheme_length] != '\0' && strchr("/?#:@", url[scheme_length]) == NULL;
}

static bool read_optional(const struct decoder *decoder, const struct value *body,
                          struct pay_request *out)
{
    const char *expires_at;
    if (!read_text(decoder, body, "return_url", "return_url", false, &out->return_url)) {
        return false;
    }
    if (out->return_url != NULL && !url_is_valid(out->return_url)) {
        return refuse(decoder, PROBLEM_FIELD_PATTERN, "return_url",
                      "an absolute http or https URL of at most 2048 ASCII characters");
    }
    if (!read_text(decoder, body, "expires_at", "expires_at", false, &expires_at)) return false;
    if (expires_at != NULL && !clock_parse(expires_at, &out->expires_at_us)) {
        return refuse(decoder, PROBLEM_FIELD_PATTERN, "expires_at",
                      "an RFC 3339 time: 2026-11-30T10:15:00Z");
    }
    return true;
}

static bool metadata_value_is_valid(const struct value *value)
{
    switch (value->kind) {
    case VALUE_TEXT:
    case VALUE_BINARY:
        return value->bytes.length <= REQUEST_METADATA_TEXT_LENGTH_MAX;
    case VALUE_BOOLEAN:
    case VALUE_INTEGER:
    case VALUE_DECIMAL:
        return true;
    case VALUE_NULL:
    case VALUE_LIST:
    case VALUE_MAP:
        return false;
    }
    UNREACHABLE("value kind out of range");
}

static bool read_metadata(const struct decoder *decoder, const struct value *body,
                          struct pay_request *out)
{
    const struct value *metadata;
    if (!read_map(decoder, body, "metadata", false, &metadata)) return false;
    if (metadata == NULL || metadata->count == 0) return true;
    if (metadata->count > REQUEST_METADATA_COUNT_MAX) {
        return refuse(decoder, PROBLEM_FIELD_RANGE, "metadata", "at most 50 members");
    }
    for (size_t i = 0; i < metadata->count; i++) {
        const size_t length = strlen(metadata->members[i].name);
        if (length < 1 || length > REQUEST_METADATA_NAME_LENGTH_MAX) {
            return refuse(decoder, PROBLEM_FIELD_RANGE, "metadata", "names of 1 to 40 bytes");
        }
        if (!metadata_value_is_valid(&metadata->members[i].value)) {
            return refuse(decoder, PROBLEM_FIELD_TYPE, "metadata",
                          "text of at most 500 bytes, numbers and booleans, nothing nested");
        }
    }
    out->metadata = (const char *)canonical_json(metadata, decoder->arena).data;
    return true;
}

static bool check_supported(const struct decoder *decoder, const struct pay_request *request)
{
    if (strcmp(request->method_type, "card") != 0) {
        return refuse(decoder, PROBLEM_NOT_SUPPORTED, "method.type", "card is supported");
    }
    if (request->capture != REQUEST_CAPTURE_AUTOMATIC) {
        return refuse(decoder, PROBLEM_NOT_SUPPORTED, "capture", "automatic is supported");
    }
    return true;
}

static bool read_body(const struct decoder *decoder, const struct request_envelope *envelope,
                      struct value *out)
{
    const bool is_json = envelope->content == CONTENT_JSON;
    const enum problem_code code = is_json ? PROBLEM_NOT_JSON : PROBLEM_NOT_MSGPACK;
    const char *error = NULL;
    if (value_read(envelope->content, envelope->body, decoder->arena, out, &error) != STATUS_OK) {
        return refuse(decoder, code, NULL, error);
    }
    if (out->kind != VALUE_MAP) return refuse(decoder, code, NULL, "the document is a map");
    return true;
}

bool pay_request_decode(const struct request_envelope *envelope, struct arena *arena,
                        struct pay_request *out, struct problem *out_problem)
{
    INVARIANT(envelope->operation == REQUEST_OPERATION_PAY);
    const struct decoder decoder = { arena, out_problem };
    struct value body;
    *out = (struct pay_request){ .merchant = envelope->merchant };
    if (!read_body(&decoder, envelope, &body)) return false;
    if (!read_version(&decoder, &body) || !read_names(&decoder, &body, out)) return false;
    if (!read_target(&decoder, &body, out) || !read_amount(&decoder, &body, out)) return false;
    if (!read_method(&decoder, &body, out) || !read_capture(&decoder, &body, out)) return false;
    if (!read_optional(&decoder, &body, out) || !read_metadata(&decoder, &body, out)) return false;
    if (!check_supported(&decoder, out)) return false;

    const char *key = envelope->idempotency_key;
    out->idempotency_key = key == NULL ? out->out_trade_no : key;
    hash_sha256(span_of_text(out->idempotency_key), out->key_hash);
    pay_request_fingerprint(out, arena, out->fingerprint);
    return true;
}

static struct value target_value(const struct pay_request *request, struct arena *arena)
{
    struct value target = value_map_make(arena, 2);
    value_map_add(&target, "kind", value_of_text(request->target_kind));
    if (request->target_id != NULL) {
        value_map_add(&target, "id", value_of_text(request->target_id));
    }
    return target;
}

static struct value method_value(const struct pay_request *request, struct arena *arena)
{
    struct value method = value_map_make(arena, 3);
    value_map_add(&method, "type", value_of_text(request->method_type));
    if (request->method_token != NULL) {
        value_map_add(&method, "token", value_of_text(request->method_token));
    }
    return method;
}

/* The whitelisted fields (design §3), with room for three more. */
static struct value whitelist_value(const struct pay_request *request, struct value method,
                                    struct arena *arena)
{
    struct value map = value_map_make(arena, 11);
    value_map_add(&map, "merchant", value_of_text(request->merchant));
    value_map_add(&map, "out_trade_no", value_of_text(request->out_trade_no));
    value_map_add(&map, "target", target_value(request, arena));
    value_map_add(&map, "amount", value_of_integer(request->amount.minor));
    value_map_add(&map, "currency", value_of_text(request->amount.currency.code));
    value_map_add(&map, "method", method);
    value_map_add(&map, "capture", value_of_text(request_capture_name((int)request->capture)));
    if (request->metadata != NULL) {
        struct value metadata;
        const struct span text = span_of_text(request->metadata);
        INVARIANT(value_read_json(text, arena, &metadata, NULL) == STATUS_OK);
        value_map_add(&map, "metadata", metadata);
    }
    return map;
}

struct span pay_request_canonical(const struct pay_request *request, struct arena *arena)
{
    const struct value map = whitelist_value(request, method_value(request, arena), arena);
    return canonical_json(&map, arena);
}

void pay_request_fingerprint(const struct pay_request *request, struct arena *arena,
                             uint8_t out[32])
{
    hash_sha256(pay_request_canonical(request, arena), out);
}

struct span pay_request_encode(const struct pay_request *request, enum content_type type,
                               struct arena *arena)
{
    struct value method = method_value(request, arena);
    if (request->method_token_realm != NULL) {
        value_map_add(&method, "token_realm", value_of_text(request->method_token_realm));
    }
    struct value map = whitelist_value(request, method, arena);
    value_map_add(&map, "version", value_of_integer(REQUEST_SCHEMA_VERSION));
    if (request->return_url != NULL) {
        value_map_add(&map, "return_url", value_of_text(request->return_url));
    }
    if (request->expires_at_us != 0) {
        char text[CLOCK_TEXT_SIZE];
        (void)clock_format(request->expires_at_us, text);
        const char *copy = arena_copy(arena, text, strlen(text));
        value_map_add(&map, "expires_at", value_of_text(copy));
    }
    return value_write(type, &map, arena);
}
