/* adapters/stripe/stripe.c: see stripe.h. What is asked; stripe_answer.c reads what is answered. */
#include "adapters/stripe/stripe.h"

#include "adapters/stripe/stripe_amount.h"
#include "adapters/stripe/stripe_answer.h"
#include "adapters/stripe/stripe_intent.h"
#include "adapters/stripe/stripe_webhook.h"
#include "pipeline/form.h"

enum { KEY_LENGTH_MAX = 255, TOKEN_LENGTH_MAX = 255, URL_LENGTH_MAX = 2048 };

static const char FORM[] = "application/x-www-form-urlencoded";

/* Names field and rule of the first thing that Stripe could not take; NULL if there is none. */
static const char *check_create(const struct psp_create *in, int64_t *out_units)
{
    if (in->provider_key == NULL || !stripe_is_token(in->provider_key, KEY_LENGTH_MAX)) {
        return "provider_key: 1 to 255 printable ASCII characters";
    }
    if (in->method_type == NULL || strcmp(in->method_type, "card") != 0) {
        return "method.type: only card is supported";
    }
    if (in->method_token == NULL || !stripe_is_token(in->method_token, TOKEN_LENGTH_MAX)) {
        return "method.token: 1 to 255 printable ASCII characters";
    }
    if (!in->capture_automatic) return "capture: only automatic is supported";
    if (in->return_url != NULL && !stripe_is_token(in->return_url, URL_LENGTH_MAX)) {
        return "return_url: 1 to 2048 printable ASCII characters";
    }
    return stripe_amount_to_units(in->amount, out_units);
}

static void write_currency(struct form *form, struct currency currency)
{
    char lower[sizeof currency.code] = "";
    for (size_t i = 0; i < 3; i++) lower[i] = (char)(currency.code[i] - 'A' + 'a');
    form_add(form, "currency", lower);
}

/*
 * Nothing here may vary between two builds of the same attempt (protocol C4): no id of ours but the
 * key, no time, one order of fields. Redirects need a place to return to; without one, Stripe is
 * told to offer only what needs none.
 */
static enum status build_create(const struct psp_create *in, struct arena *arena,
                                struct psp_request *out, const char **out_error)
{
    int64_t units = 0;
    const char *error = check_create(in, &units);
    if (error != NULL) {
        if (out_error != NULL) *out_error = error;
        return STATUS_BAD_DATA;
    }
    struct form form = { .arena = arena };
    form_add_integer(&form, "amount", units);
    write_currency(&form, in->amount.currency);
    form_add(&form, "payment_method", in->method_token);
    form_add(&form, "confirm", "true");
    form_add(&form, "capture_method", "automatic");
    form_add(&form, "metadata[reference]", in->provider_key);
    form_add(&form, "automatic_payment_methods[enabled]", "true");
    if (in->return_url == NULL) {
        form_add(&form, "automatic_payment_methods[allow_redirects]", "never");
    } else {
        form_add(&form, "return_url", in->return_url);
    }
    *out = (struct psp_request){
        .method = "POST",
        .path = "/v1/payment_intents",
        .content_type = FORM,
        .version = STRIPE_API_VERSION,
        .body = form_body(&form),
    };
    return STATUS_OK;
}

static enum status build_retrieve(const char *provider_object, struct arena *arena,
                                  struct psp_request *out)
{
    if (!stripe_is_object_id(provider_object)) return STATUS_BAD_DATA;
    *out = (struct psp_request){
        .method = "GET",
        .path = arena_format(arena, "/v1/payment_intents/%s", provider_object),
        .version = STRIPE_API_VERSION,
    };
    return STATUS_OK;
}

static void add_header(struct http_request *request, const char *line)
{
    INVARIANT(request->header_count < PSP_HEADER_MAX);
    request->headers[request->header_count++] = line;
}

/* The content type and version are those of the stored request, which a replay repeats. */
static void authenticate(const struct psp_account *account, const struct psp_request *request,
                         const char *key, struct arena *arena, struct http_request *out)
{
    *out = (struct http_request){
        .method = request->method,
        .url = arena_format(arena, "%s%s", account->base_url, request->path),
        .body = request->body,
    };
    add_header(out, arena_format(arena, "Authorization: Bearer %s", account->api_key));
    if (request->content_type != NULL) {
        add_header(out, arena_format(arena, "Content-Type: %s", request->content_type));
    }
    if (request->version != NULL) {
        add_header(out, arena_format(arena, "Stripe-Version: %s", request->version));
    }
    if (key != NULL && strcmp(request->method, "POST") == 0) {
        add_header(out, arena_format(arena, "Idempotency-Key: %s", key));
    }
}

const struct psp_ops stripe_ops = {
    .name = "stripe",
    .capability = {
        .version = 1,
        .has_idempotency_key = true,
        .keeps_failures_under_key = true, /* 402 and 500 are replayed like successes */
        .has_retrieve = true,
        .has_search = false, /* Stripe's own is never for read-after-write; none is built */
        .has_cancel_by_reference = false,
        .key_retention_s = 24 * 3600, /* at least; pruned after that, and then a new request */
        .key_margin_s = 3600,
        /* Kernels and proxies give up on undelivered bytes after a quarter of an hour. */
        .late_arrival_window_s = 3600,
        .lookup_lag_s = 600,
        .lookup_by_reference_is_complete = false,
        .key_length_max = KEY_LENGTH_MAX,
        .rate_limit_is_before_execution = true,
        .rejection_is_before_execution = true,
        .auth_rejection_is_before_execution = true,
    },
    .build_create = build_create,
    .build_retrieve = build_retrieve,
    .authenticate = authenticate,
    .parse = stripe_parse,
    .verify_webhook = stripe_verify_webhook,
};
