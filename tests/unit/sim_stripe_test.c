/* tests/unit/sim_stripe_test.c: the simulator's Stripe: form, documents, tokens, signature. */
#include "ops/sim/stripe_json.h"
#include "ops/sim/stripe_method.h"
#include "ops/sim/stripe_params.h"
#include "ops/sim/stripe_sign.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define GOOD "amount=1099&currency=usd&payment_method=pm_card_visa&confirm=true"

static void reads_the_form_of_an_official_client(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct stripe_params params;
    struct stripe_error error;
    const char *body =
        GOOD "&capture_method=automatic&metadata[order_id]=ord_0001"
             "&metadata%5Bnote%5D=a%26b%3Dc%20%C3%BC%22&automatic_payment_methods[enabled]=true"
             "&automatic_payment_methods[allow_redirects]=never&return_url=https%3A%2F%2Fx.test%2F";
    assert_true(stripe_params_parse(span_of_text(body), &arena, &params, &error));
    assert_int_equal(params.amount_minor, 1099);
    assert_string_equal(params.currency, "USD");
    assert_string_equal(params.method, "pm_card_visa");
    assert_string_equal(params.return_url, "https://x.test/");
    assert_string_equal(params.metadata,
                        "{\"order_id\":\"ord_0001\",\"note\":\"a&b=c \xC3\xBC\\\"\"}");
    assert_string_equal(
        stripe_params_with_reference("{\"reference\":\"a\",\"b\":\"c\"}", "z", &arena),
        "{\"reference\":\"z\",\"b\":\"c\"}");
    arena_finish(&arena);
}

static void refuses_what_stripe_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *param;
    } CASES[] = {
        { "currency=usd&payment_method=pm_card_visa&confirm=true", "amount" },
        { "amount=0&currency=usd&payment_method=pm_card_visa&confirm=true", "amount" },
        { "amount=10.0&currency=usd&payment_method=pm_card_visa&confirm=true", "amount" },
        { "amount=-1&currency=usd&payment_method=pm_card_visa&confirm=true", "amount" },
        { "amount=100000000&currency=usd&payment_method=pm_card_visa&confirm=true", "amount" },
        { "amount=99999999999999999999&currency=usd&payment_method=pm_x&confirm=true", "amount" },
        { "amount=1&currency=USD&payment_method=pm_card_visa&confirm=true", "currency" },
        { "amount=1&payment_method=pm_card_visa&confirm=true", "currency" },
        { "amount=1&currency=usd&confirm=true", "payment_method" },
        { "amount=1&currency=usd&confirm=true&payment_method=a%22b", "payment_method" },
        { "amount=1&currency=usd&payment_method=pm_card_visa", "confirm" },
        { GOOD "&capture_method=manual", "capture_method" },
        { GOOD "&amuont=1", "amuont" },
        { GOOD "&amount=1", "amount" },
        { GOOD "&metadata[a]=1&metadata[a]=2", "metadata[a]" },
        { GOOD "&metadata[]=1", "metadata[]" },
        { GOOD "&metadata[a][b]=1", "metadata[a][b]" },
        { GOOD "&metadata[a]=%ff", NULL },
        { GOOD "&metadata[a]=%", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct arena arena = { 0 };
        struct stripe_params params;
        struct stripe_error error = { 0 };
        if (stripe_params_parse(span_of_text(CASES[i].body), &arena, &params, &error)) {
            fail_msg("accepted: %s", CASES[i].body);
        }
        assert_string_equal(error.type, "invalid_request_error");
        if (CASES[i].param == NULL) {
            assert_null(error.param);
        } else {
            assert_string_equal(error.param, CASES[i].param);
        }
        arena_finish(&arena);
    }
}

static void tokens_come_to_their_ends(void **state)
{
    (void)state;
    static const struct {
        const char *token;
        enum charge_state state;
        const char *decline_code;
        const char *error_code;
    } DECLINES[] = {
        { "pm_card_chargeDeclined", CHARGE_DECLINED, "generic_decline", "card_declined" },
        { "pm_card_chargeDeclinedInsufficientFunds", CHARGE_DECLINED, "insufficient_funds",
          "card_declined" },
        { "pm_card_chargeDeclinedLostCard", CHARGE_DECLINED, "lost_card", "card_declined" },
        { "pm_card_chargeDeclinedStolenCard", CHARGE_DECLINED, "stolen_card", "card_declined" },
        { "pm_card_chargeDeclinedExpiredCard", CHARGE_DECLINED, "expired_card", "expired_card" },
        { "pm_card_chargeDeclinedIncorrectCvc", CHARGE_DECLINED, "incorrect_cvc", "incorrect_cvc" },
        { "pm_card_chargeDeclinedProcessingError", CHARGE_DECLINED, "processing_error",
          "processing_error" },
        { "pm_card_authenticationRequired", CHARGE_ACTION_REQUIRED, "", NULL },
        { "pm_card_visa", CHARGE_SUCCEEDED, "", NULL },
        { "tok_of_somebody", CHARGE_SUCCEEDED, "", NULL },
        { "pm_sim_pending", CHARGE_PROCESSING, "", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(DECLINES); i++) {
        const struct stripe_outcome outcome = stripe_method_outcome(DECLINES[i].token);
        assert_int_equal(outcome.state, DECLINES[i].state);
        assert_string_equal(outcome.decline_code, DECLINES[i].decline_code);
        assert_int_equal(outcome.due_after_ms, -1);
        if (DECLINES[i].error_code == NULL) continue;
        assert_string_equal(stripe_method_error_code(outcome.decline_code), DECLINES[i].error_code);
    }
    const struct stripe_outcome late = stripe_method_outcome("pm_sim_pending_failed_1500");
    assert_int_equal(late.state, CHARGE_PROCESSING);
    assert_int_equal(late.due_after_ms, 1500);
    assert_int_equal(late.due_state, CHARGE_DECLINED);
    /* Not quite the pattern: any other token. */
    assert_int_equal(stripe_method_outcome("pm_sim_pending_maybe_15").state, CHARGE_SUCCEEDED);
    assert_int_equal(stripe_method_outcome("pm_sim_pending_").state, CHARGE_SUCCEEDED);
    assert_int_equal(stripe_method_outcome("pm_sim_pending_failed_").state, CHARGE_SUCCEEDED);
}

static json_t *parse_intent(struct charge *charge, enum charge_state charge_state,
                            struct textbuf *text)
{
    charge->state = charge_state;
    textbuf_clear(text);
    stripe_json_created(charge, text);
    json_t *json = json_loads(text->data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    return json;
}

static const char *text_at(const json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

static void documents_say_what_the_charge_is(void **state)
{
    (void)state;
    struct account account = { .name = "a", .protocol = "stripe" };
    char method[] = "pm_card_visa";
    char metadata[] = "{\"reference\":\"r\"}";
    struct charge charge = { .account = &account,
                             .method = method,
                             .metadata = metadata,
                             .object = "pi_1",
                             .charge_id = "ch_3A",
                             .amount_minor = 1099,
                             .currency = "EUR",
                             .created_s = 1760000000,
                             .changed_s = 1760000005,
                             .decline_code = "lost_card" };
    struct textbuf text = { 0 };
    json_t *json = parse_intent(&charge, CHARGE_SUCCEEDED, &text);
    assert_string_equal(text_at(json, "id"), "pi_1");
    assert_string_equal(text_at(json, "status"), "succeeded");
    assert_string_equal(text_at(json, "currency"), "eur");
    assert_string_equal(text_at(json, "latest_charge"), "ch_3A");
    assert_int_equal(json_integer_value(json_object_get(json, "amount_received")), 1099);
    assert_string_equal(text_at(json_object_get(json, "metadata"), "reference"), "r");
    json_decref(json);

    json = parse_intent(&charge, CHARGE_DECLINED, &text);
    const json_t *error = json_object_get(json, "error");
    assert_string_equal(text_at(error, "type"), "card_error");
    assert_string_equal(text_at(error, "code"), "card_declined");
    assert_string_equal(text_at(error, "decline_code"), "lost_card");
    const json_t *intent = json_object_get(error, "payment_intent");
    assert_string_equal(text_at(intent, "status"), "requires_payment_method");
    assert_string_equal(text_at(json_object_get(intent, "last_payment_error"), "decline_code"),
                        "lost_card");
    assert_int_equal(json_integer_value(json_object_get(intent, "amount_received")), 0);
    json_decref(json);

    json = parse_intent(&charge, CHARGE_ACTION_REQUIRED, &text);
    assert_string_equal(text_at(json, "status"), "requires_action");
    assert_string_equal(text_at(json_object_get(json, "next_action"), "type"), "use_stripe_sdk");
    json_decref(json);
    char url[] = "https://x.test/\"";
    charge.return_url = url;
    json = parse_intent(&charge, CHARGE_ACTION_REQUIRED, &text);
    assert_string_equal(text_at(json_object_get(json, "next_action"), "type"), "redirect_to_url");
    json_decref(json);

    json = parse_intent(&charge, CHARGE_CANCELED, &text);
    assert_int_equal(json_integer_value(json_object_get(json, "canceled_at")), 1760000005);
    json_decref(json);
    textbuf_finish(&text);
}

/* The vector that stripe-node's own generateTestHeaderString made (research, psp.md §1.4). */
static void signs_as_the_official_library_does(void **state)
{
    (void)state;
    static const char BODY[] =
        "{\"id\":\"evt_test_0001\",\"object\":\"event\",\"api_version\":\"2025-09-30.clover\","
        "\"created\":1760000000,\"type\":\"payment_intent.succeeded\",\"livemode\":false,"
        "\"data\":{\"object\":{\"id\":\"pi_test_0001\",\"object\":\"payment_intent\","
        "\"amount\":1099,\"amount_received\":1099,\"currency\":\"usd\",\"status\":\"succeeded\","
        "\"latest_charge\":\"ch_test_0001\",\"metadata\":{\"order_id\":\"ord_0001\","
        "\"attempt_id\":\"att_0001\"}}}}";
    struct textbuf line = { 0 };
    stripe_sign_header("whsec_FAKE_test_secret_not_real_0001", 1760000000, span_of_text(BODY),
                       &line);
    assert_string_equal(line.data,
                        "Stripe-Signature: t=1760000000,v1="
                        "d4be1603e0007b6a77e00f2c67488132cd9a36bfcff190e071851e69712dcc4f");
    textbuf_finish(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_form_of_an_official_client),
        cmocka_unit_test(refuses_what_stripe_refuses),
        cmocka_unit_test(tokens_come_to_their_ends),
        cmocka_unit_test(documents_say_what_the_charge_is),
        cmocka_unit_test(signs_as_the_official_library_does),
    };
    return cmocka_run_group_tests_name("sim_stripe", tests, NULL, NULL);
}
