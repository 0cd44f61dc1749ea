/*
 * ops/sim/stripe_params.c: see stripe_params.h. Unknown parameters are refused as Stripe refuses
 * them: an adapter's typing error shall not look like success.
 */
#include "ops/sim/stripe_params.h"

#include "pipeline/form.h"

#include <jansson.h>

enum { AMOUNT_MAX = 99999999, METADATA_FIELDS_MAX = 50, METADATA_NAME_MAX = 40 };
enum { METADATA_VALUE_MAX = 500 };

static const char INVALID[] = "invalid_request_error";

/* Read by nobody, but Stripe takes them. */
static const char *const ACCEPTED[] = {
    "automatic_payment_methods[enabled]",
    "automatic_payment_methods[allow_redirects]",
    "capture_method",
    "confirm",
    "description",
    "off_session",
    "payment_method_types[]",
    "payment_method_types[0]",
    "receipt_email",
    "statement_descriptor",
    "statement_descriptor_suffix",
    "amount",
    "currency",
    "payment_method",
    "return_url",
};

static bool refuse(struct stripe_error *out_error, const char *code, const char *param,
                   const char *message)
{
    *out_error =
        (struct stripe_error){ .type = INVALID, .code = code, .param = param, .message = message };
    return false;
}

/* "metadata[name]" → name, its length; 0 if the field is something else. */
static size_t metadata_name(const char *field, const char **out_name)
{
    static const char PREFIX[] = "metadata[";
    const size_t length = strlen(field);
    if (strncmp(field, PREFIX, sizeof PREFIX - 1) != 0) return 0;
    if (length <= sizeof PREFIX || field[length - 1] != ']') return 0;
    *out_name = field + sizeof PREFIX - 1;
    const size_t name_length = length - sizeof PREFIX;
    return memchr(*out_name, '[', name_length) == NULL ? name_length : 0;
}

static bool add_metadata(struct textbuf *out, const struct form_field *field, const char *name,
                         size_t name_length, size_t count, struct arena *arena,
                         struct stripe_error *out_error)
{
    const char *copy = arena_copy(arena, name, name_length);
    if (count >= METADATA_FIELDS_MAX) {
        return refuse(out_error, NULL, "metadata", "Metadata can have up to 50 keys");
    }
    if (name_length > METADATA_NAME_MAX || strlen(field->value) > METADATA_VALUE_MAX) {
        return refuse(out_error, NULL, field->name,
                      "Metadata keys have up to 40 characters, values up to 500");
    }
    textbuf_text(out, count == 0 ? "" : ",");
    textbuf_json(out, copy);
    textbuf_text(out, ":");
    textbuf_json(out, field->value);
    return true;
}

static bool is_accepted(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(ACCEPTED); i++) {
        if (strcmp(ACCEPTED[i], name) == 0) return true;
    }
    return false;
}

/* Every field known, none twice, all UTF-8; collects the metadata. */
static bool check_fields(const struct form_field *fields, size_t count, struct textbuf *metadata,
                         struct arena *arena, struct stripe_error *out_error)
{
    size_t metadata_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct form_field *field = &fields[i];
        if (!textbuf_is_utf8(field->name) || !textbuf_is_utf8(field->value)) {
            return refuse(out_error, NULL, NULL, "Invalid UTF-8 in the request");
        }
        if (form_find(fields, i, field->name) != NULL && strchr(field->name, '[') != field->name &&
            strcmp(field->name, "payment_method_types[]") != 0) {
            return refuse(out_error, NULL, field->name, "Parameter given twice");
        }
        const char *name = NULL;
        const size_t name_length = metadata_name(field->name, &name);
        if (name_length > 0) {
            if (!add_metadata(metadata, field, name, name_length, metadata_count++, arena,
                              out_error)) {
                return false;
            }
        } else if (!is_accepted(field->name)) {
            return refuse(out_error, "parameter_unknown", field->name,
                          arena_format(arena, "Received unknown parameter: %s", field->name));
        }
    }
    return true;
}

static bool read_amount(const char *text, struct stripe_params *out, struct stripe_error *out_error)
{
    if (text == NULL) {
        return refuse(out_error, "parameter_missing", "amount", "Missing required param: amount.");
    }
    const size_t length = strlen(text);
    if (length == 0 || strspn(text, "0123456789") != length) {
        return refuse(out_error, "parameter_invalid_integer", "amount", "Invalid integer");
    }
    const long long amount = length > 9 ? AMOUNT_MAX + 1LL : strtoll(text, NULL, 10);
    if (amount < 1) {
        return refuse(out_error, "parameter_invalid_integer", "amount",
                      "This value must be greater than or equal to 1.");
    }
    if (amount > AMOUNT_MAX) {
        return refuse(out_error, "amount_too_large", "amount",
                      "Amount must be no more than 99999999");
    }
    out->amount_minor = amount;
    return true;
}

static bool read_currency(const char *text, struct stripe_params *out,
                          struct stripe_error *out_error)
{
    if (text == NULL) {
        return refuse(out_error, "parameter_missing", "currency",
                      "Missing required param: currency.");
    }
    if (strlen(text) != 3 || strspn(text, "abcdefghijklmnopqrstuvwxyz") != 3) {
        return refuse(out_error, NULL, "currency",
                      "Invalid currency: must be a code of three lower-case letters");
    }
    for (size_t i = 0; i < 3; i++) out->currency[i] = (char)(text[i] - 'a' + 'A');
    out->currency[3] = '\0';
    return true;
}

static bool read_method(const char *text, struct stripe_params *out, struct stripe_error *out_error)
{
    if (text == NULL) {
        return refuse(out_error, "parameter_missing", "payment_method",
                      "Missing required param: payment_method.");
    }
    if (!ident_is_token(text, strlen(text))) {
        return refuse(out_error, "resource_missing", "payment_method", "No such PaymentMethod");
    }
    out->method = text;
    return true;
}

/* What the simulator does not play is refused, not silently played otherwise. */
static bool check_mode(const struct form_field *fields, size_t count,
                       struct stripe_error *out_error)
{
    const char *confirm = form_find(fields, count, "confirm");
    if (confirm == NULL || strcmp(confirm, "true") != 0) {
        return refuse(out_error, NULL, "confirm",
                      "This simulator creates and confirms in one call: confirm must be true");
    }
    const char *capture = form_find(fields, count, "capture_method");
    if (capture != NULL && strcmp(capture, "automatic") != 0) {
        return refuse(out_error, NULL, "capture_method",
                      "This simulator captures automatically: capture_method must be automatic");
    }
    return true;
}

bool stripe_params_parse(struct span body, struct arena *arena, struct stripe_params *out,
                         struct stripe_error *out_error)
{
    const struct form_field *fields = NULL;
    size_t count = 0;
    if (form_parse(body, arena, &fields, &count) != STATUS_OK) {
        return refuse(out_error, NULL, NULL, "The request body is not a valid form");
    }
    *out = (struct stripe_params){ .return_url = form_find(fields, count, "return_url") };
    struct textbuf metadata = { 0 };
    textbuf_text(&metadata, "{");
    const bool is_good = check_fields(fields, count, &metadata, arena, out_error) &&
                         read_amount(form_find(fields, count, "amount"), out, out_error) &&
                         read_currency(form_find(fields, count, "currency"), out, out_error) &&
                         read_method(form_find(fields, count, "payment_method"), out, out_error) &&
                         check_mode(fields, count, out_error);
    textbuf_text(&metadata, "}");
    out->metadata = arena_copy(arena, metadata.data, metadata.length);
    textbuf_finish(&metadata);
    return is_good;
}

char *stripe_params_with_reference(const char *metadata, const char *reference, struct arena *arena)
{
    json_t *object = json_loads(metadata, 0, NULL);
    INVARIANT(json_object_set_new(object, "reference", json_string(reference)) == 0);
    const size_t length = json_dumpb(object, NULL, 0, JSON_COMPACT);
    char *text = arena_allocate(arena, length + 1);
    INVARIANT(json_dumpb(object, text, length, JSON_COMPACT) == length);
    json_decref(object);
    return text;
}
