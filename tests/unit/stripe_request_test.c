/* tests/unit/stripe_request_test.c: amounts at Stripe, and the bytes of what is asked. */
#include "adapters/stripe/stripe.h"
#include "adapters/stripe/stripe_amount.h"
#include "pipeline/form.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct money money_of(int64_t minor, const char *code)
{
    struct money money = { .minor = minor };
    assert_true(currency_parse(code, &money.currency));
    return money;
}

/* --- amounts ---------------------------------------------------------------------------------- */

static void amounts_follow_stripes_exponents(void **state)
{
    (void)state;
    static const struct {
        const char *currency;
        int64_t minor; /* ISO */
        int64_t units; /* Stripe's; 0: not expressible */
    } CASES[] = {
        { "EUR", 1099, 1099 },   { "EUR", 1, 1 },         { "EUR", 99999999, 99999999 },
        { "EUR", 100000000, 0 }, { "EUR", 0, 0 },         { "EUR", -1, 0 },
        { "JPY", 80, 80 },       { "KRW", 500, 500 },     { "CLP", 990, 990 },
        { "XOF", 1000, 1000 },   { "ISK", 5, 500 },       { "ISK", 999999, 99999900 },
        { "ISK", 1000000, 0 },   { "UGX", 5, 500 },       { "MGA", 500, 5 },
        { "MGA", 501, 0 },       { "KWD", 7500, 7500 },   { "KWD", 7505, 0 },
        { "BHD", 10, 10 },       { "TND", 1, 0 },         { "OMR", 1230, 1230 },
        { "HUF", 12300, 12300 }, { "TWD", 100, 100 },     { "IQD", 1000, 0 },
        { "CLF", 10000, 0 },     { "EUR", INT64_MAX, 0 }, { "ISK", INT64_MAX, 0 },
        { "EUR", INT64_MIN, 0 }, { "MGA", INT64_MAX, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct money amount = money_of(CASES[i].minor, CASES[i].currency);
        int64_t units = 0;
        const char *rule = stripe_amount_to_units(amount, &units);
        assert_int_equal(units, CASES[i].units);
        assert_int_equal(rule == NULL, units != 0);
        if (rule != NULL) continue;
        struct money back;
        assert_true(stripe_amount_from_units(units, amount.currency, &back));
        assert_true(money_equal(back, amount));
    }
}

static void units_that_are_no_amount_are_not_rounded(void **state)
{
    (void)state;
    struct money out = money_of(7, "EUR");
    assert_false(stripe_amount_from_units(501, money_of(1, "ISK").currency, &out));
    assert_false(stripe_amount_from_units(-1, money_of(1, "EUR").currency, &out));
    assert_false(stripe_amount_from_units(INT64_MAX, money_of(1, "MGA").currency, &out));
    assert_false(stripe_amount_from_units(1000, money_of(1, "IQD").currency, &out));
    assert_true(money_equal(out, money_of(7, "EUR")));
    assert_true(stripe_amount_from_units(7505, money_of(1, "KWD").currency, &out));
    assert_int_equal(out.minor, 7505); /* an answer may say what a request may not */
    assert_true(stripe_amount_from_units(0, money_of(1, "ISK").currency, &out));
    assert_int_equal(out.minor, 0);
}

/* --- requests --------------------------------------------------------------------------------- */

static struct psp_create create_of(struct money amount)
{
    return (struct psp_create){
        .provider_key = "op_abcdefgh",
        .amount = amount,
        .method_type = "card",
        .method_token = "pm_card_visa",
        .capture_automatic = true,
    };
}

static void assert_body(const struct psp_create *create, const char *expected)
{
    struct arena arena = { 0 };
    struct psp_request request;
    const char *error = NULL;
    assert_int_equal(stripe_ops.build_create(create, &arena, &request, &error), STATUS_OK);
    assert_null(error);
    char body[4096];
    (void)snprintf(body, sizeof body, "%.*s", (int)request.body.length,
                   (const char *)request.body.data);
    assert_string_equal(body, expected);
    assert_string_equal(request.method, "POST");
    assert_string_equal(request.path, "/v1/payment_intents");
    assert_string_equal(request.content_type, "application/x-www-form-urlencoded");
    assert_string_equal(request.version, "2026-10-28.endive");
    arena_finish(&arena);
}

static void a_create_is_the_same_bytes_each_time(void **state)
{
    (void)state;
    struct psp_create create = create_of(money_of(5, "ISK"));
    const char *expected = "amount=500&currency=isk&payment_method=pm_card_visa&confirm=true&"
                           "capture_method=automatic&metadata[reference]=op_abcdefgh&"
                           "automatic_payment_methods[enabled]=true&"
                           "automatic_payment_methods[allow_redirects]=never";
    assert_body(&create, expected);
    assert_body(&create, expected);
    create.return_url = "https://shop.example/back?a=1&b=2";
    assert_body(&create, "amount=500&currency=isk&payment_method=pm_card_visa&confirm=true&"
                         "capture_method=automatic&metadata[reference]=op_abcdefgh&"
                         "automatic_payment_methods[enabled]=true&"
                         "return_url=https%3A%2F%2Fshop.example%2Fback%3Fa%3D1%26b%3D2");
}

static void assert_refused(const struct psp_create *create, const char *field)
{
    struct arena arena = { 0 };
    struct psp_request request = { .method = "untouched" };
    const char *error = NULL;
    assert_int_equal(stripe_ops.build_create(create, &arena, &request, &error), STATUS_BAD_DATA);
    assert_non_null(error);
    if (strncmp(error, field, strlen(field)) != 0) fail_msg("%s is not about %s", error, field);
    assert_string_equal(request.method, "untouched");
    assert_int_equal(stripe_ops.build_create(create, &arena, &request, NULL), STATUS_BAD_DATA);
    arena_finish(&arena);
}

static void what_stripe_cannot_take_is_refused_by_field(void **state)
{
    (void)state;
    const struct psp_create good = create_of(money_of(1099, "EUR"));
    char long_text[300];
    memset(long_text, 'k', sizeof long_text);
    long_text[256] = '\0';

    struct psp_create bad = good;
    bad.provider_key = long_text;
    assert_refused(&bad, "provider_key: ");
    bad.provider_key = "key\r\nX-Injected: 1";
    assert_refused(&bad, "provider_key: ");
    bad = good;
    bad.method_type = "qr";
    assert_refused(&bad, "method.type: ");
    bad = good;
    bad.method_token = "";
    assert_refused(&bad, "method.token: ");
    bad.method_token = long_text;
    assert_refused(&bad, "method.token: ");
    bad.method_token = "pm_\xC3\xBC";
    assert_refused(&bad, "method.token: ");
    bad = good;
    bad.capture_automatic = false;
    assert_refused(&bad, "capture: ");
    bad = good;
    bad.return_url = "https://shop.example/a b";
    assert_refused(&bad, "return_url: ");
    bad = good;
    bad.amount.minor = 100000000;
    assert_refused(&bad, "amount: ");
    bad.amount = money_of(1000, "LYD");
    assert_refused(&bad, "currency: ");
}

static void a_retrieve_names_one_object(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct psp_request request;
    assert_int_equal(stripe_ops.build_retrieve("pi_test_0001", &arena, &request), STATUS_OK);
    assert_string_equal(request.method, "GET");
    assert_string_equal(request.path, "/v1/payment_intents/pi_test_0001");
    assert_int_equal(request.body.length, 0);
    assert_null(request.content_type);
    static const char *const BAD[] = { "", "../charges/ch_1", "pi_1?x=1", "pi 1", "pi_1\n" };
    for (size_t i = 0; i < COUNT_OF(BAD); i++) {
        assert_int_equal(stripe_ops.build_retrieve(BAD[i], &arena, &request), STATUS_BAD_DATA);
    }
    arena_finish(&arena);
}

static bool has_line(const struct http_request *request, const char *line)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (strcmp(request->headers[i], line) == 0) return true;
    }
    return false;
}

static void the_envelope_is_added_per_send(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    const struct psp_account account = { .base_url = "http://127.0.0.1:4700/stripe-main",
                                         .api_key = "sk_sim_stripe-main" };
    const struct psp_create create = create_of(money_of(1099, "EUR"));
    struct psp_request request;
    assert_int_equal(stripe_ops.build_create(&create, &arena, &request, NULL), STATUS_OK);
    struct psp_request stored;
    const struct span bytes = psp_request_encode(&request, &arena);
    assert_int_equal(psp_request_decode(bytes, &arena, &stored), STATUS_OK);

    struct http_request http;
    stripe_ops.authenticate(&account, &stored, "op_abcdefgh", &arena, &http);
    assert_string_equal(http.method, "POST");
    assert_string_equal(http.url, "http://127.0.0.1:4700/stripe-main/v1/payment_intents");
    assert_int_equal(http.header_count, 4);
    assert_true(has_line(&http, "Authorization: Bearer sk_sim_stripe-main"));
    assert_true(has_line(&http, "Content-Type: application/x-www-form-urlencoded"));
    assert_true(has_line(&http, "Stripe-Version: 2026-10-28.endive"));
    assert_true(has_line(&http, "Idempotency-Key: op_abcdefgh"));
    assert_true(span_equal(http.body, request.body));

    assert_int_equal(stripe_ops.build_retrieve("pi_1", &arena, &request), STATUS_OK);
    stripe_ops.authenticate(&account, &request, "op_abcdefgh", &arena, &http);
    assert_int_equal(http.header_count, 2); /* a key is for POST only */
    arena_finish(&arena);
}

/* --- what the official client sent ------------------------------------------------------------ */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    assert_non_null(text);
    return text;
}

static json_t *load_request_vector(json_t *file, const char *name)
{
    json_t *vectors = json_object_get(file, "request_vectors");
    size_t index;
    json_t *vector;
    json_array_foreach(vectors, index, vector)
    {
        if (strcmp(text_of(vector, "name"), name) == 0) return vector;
    }
    fail_msg("no request vector %s", name);
    return NULL;
}

static void requests_agree_with_the_captured_ones(void **state)
{
    (void)state;
    json_t *file = json_load_file(SOURCE_DIR "/tests/vectors/stripe.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(file);
    struct arena arena = { 0 };

    /* The same fields through our form writer give the official client's bytes. */
    const json_t *create = load_request_vector(file, "create_payment_intent");
    const struct form_field *fields;
    size_t count;
    const struct span body = span_of_text(text_of(create, "body"));
    assert_int_equal(form_parse(body, &arena, &fields, &count), STATUS_OK);
    struct form form = { .arena = &arena };
    for (size_t i = 0; i < count; i++) form_add(&form, fields[i].name, fields[i].value);
    assert_true(span_equal(form_body(&form), body));

    /* Method, path, body and every header of a retrieve but the content type of no content. */
    const json_t *retrieve = load_request_vector(file, "retrieve");
    const struct psp_account account = { .base_url = "", .api_key = text_of(retrieve, "secret") };
    struct psp_request request;
    struct http_request http;
    assert_int_equal(stripe_ops.build_retrieve("pi_test_0001", &arena, &request), STATUS_OK);
    stripe_ops.authenticate(&account, &request, NULL, &arena, &http);
    assert_string_equal(http.method, text_of(retrieve, "method"));
    assert_string_equal(http.url, text_of(retrieve, "path"));
    size_t index;
    json_t *header;
    json_array_foreach(json_object_get(retrieve, "headers"), index, header)
    {
        const char *name = json_string_value(json_array_get(header, 0));
        const char *value = json_string_value(json_array_get(header, 1));
        if (strcmp(name, "Content-Type") == 0) continue;
        assert_true(has_line(&http, arena_format(&arena, "%s: %s", name, value)));
    }
    arena_finish(&arena);
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_follow_stripes_exponents),
        cmocka_unit_test(units_that_are_no_amount_are_not_rounded),
        cmocka_unit_test(a_create_is_the_same_bytes_each_time),
        cmocka_unit_test(what_stripe_cannot_take_is_refused_by_field),
        cmocka_unit_test(a_retrieve_names_one_object),
        cmocka_unit_test(the_envelope_is_added_per_send),
        cmocka_unit_test(requests_agree_with_the_captured_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
