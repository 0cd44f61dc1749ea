/* tests/unit/stripe_webhook_test.c: signatures against the vectors, and what events say. */
#include "adapters/stripe/stripe.h"
#include "pipeline/hash.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NOW_S INT64_C(1760000000)
static const char SECRET[] = "whsec_FAKE_test_secret_not_real_0001";
static const char OTHER_SECRET[] = "whsec_FAKE_test_secret_not_real_0002";

/* --- the vectors ------------------------------------------------------------------------------ */

enum { HEADER_MAX = 8 };

static struct span body_of(const json_t *vector, struct arena *arena)
{
    const json_t *text = json_object_get(vector, "body");
    const json_t *base64 = json_object_get(vector, "body_b64");
    if (base64 == NULL) {
        return (struct span){ (const uint8_t *)json_string_value(text), json_string_length(text) };
    }
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *encoded = json_string_value(base64);
    uint8_t *bytes = arena_allocate(arena, strlen(encoded));
    size_t length = 0;
    uint32_t bits = 0;
    int held = 0;
    for (; *encoded != '\0' && *encoded != '='; encoded++) {
        bits = bits << 6 | (uint32_t)(strchr(ALPHABET, *encoded) - ALPHABET);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        bytes[length++] = (uint8_t)(bits >> held);
    }
    return (struct span){ bytes, length };
}

static size_t headers_of(const json_t *vector, struct http_header out[HEADER_MAX])
{
    size_t index;
    json_t *header;
    json_array_foreach(json_object_get(vector, "headers"), index, header)
    {
        assert_true(index < HEADER_MAX);
        out[index] = (struct http_header){
            json_string_value(json_array_get(header, 0)),
            json_string_value(json_array_get(header, 1)),
        };
    }
    return json_array_size(json_object_get(vector, "headers"));
}

static void check_vector(const json_t *vector)
{
    struct arena arena = { 0 };
    struct http_header headers[HEADER_MAX];
    const size_t header_count = headers_of(vector, headers);
    const struct psp_account account = {
        .webhook_secrets = { json_string_value(json_object_get(vector, "secret")) },
        .webhook_tolerance_s = (int)json_integer_value(json_object_get(vector, "tolerance_s")),
    };
    struct observation observation = { .kind = OBSERVED_CANCELED };
    const char *error = NULL;
    const enum status status = stripe_ops.verify_webhook(
        &account, headers, header_count, body_of(vector, &arena),
        json_integer_value(json_object_get(vector, "now")), &arena, &observation, &error);
    const char *name = json_string_value(json_object_get(vector, "name"));
    const bool valid = json_is_true(json_object_get(vector, "valid"));
    if ((status == STATUS_OK) != valid) fail_msg("%s: %s", name, error == NULL ? "taken" : error);
    if (valid) {
        assert_null(error);
        assert_string_equal(observation.provider_event, "evt_test_0001");
        assert_int_equal(observation.kind, OBSERVED_SUCCEEDED);
        assert_int_equal(observation.amount.minor, 1099);
        assert_string_equal(observation.amount.currency.code, "USD");
    } else {
        assert_non_null(error);
        assert_int_equal(observation.kind, OBSERVED_CANCELED); /* untouched */
    }
    arena_finish(&arena);
}

static void all_vectors_are_answered_as_they_should(void **state)
{
    (void)state;
    json_t *file = json_load_file(SOURCE_DIR "/tests/vectors/stripe.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(file);
    const json_t *vectors = json_object_get(file, "webhook_vectors");
    assert_true(json_array_size(vectors) >= 18);
    size_t index;
    json_t *vector;
    json_array_foreach(vectors, index, vector)
    {
        check_vector(vector);
    }
    json_decref(file);
}

/* --- signatures of our own -------------------------------------------------------------------- */

static const char EVENT[] =
    "{\"id\":\"evt_1\",\"object\":\"event\",\"created\":1759999990,"
    "\"type\":\"payment_intent.succeeded\",\"data\":{\"object\":{\"id\":\"pi_1\","
    "\"object\":\"payment_intent\",\"amount\":1099,\"amount_received\":1099,\"currency\":\"eur\","
    "\"status\":\"succeeded\",\"metadata\":{\"reference\":\"op_key\"}}}}";

static const char *sign(const char *secret, int64_t timestamp_s, const char *body,
                        struct arena *arena)
{
    uint8_t digest[HASH_SIZE];
    char hex[HASH_HEX_SIZE];
    const char *text = arena_format(arena, "%" PRId64 ".%s", timestamp_s, body);
    hash_hmac_sha256(span_of_text(secret), span_of_text(text), digest);
    return arena_copy(arena, hash_hex((struct span){ digest, sizeof digest }, hex),
                      HASH_HEX_SIZE - 1);
}

static const char *header_of(const char *secret, int64_t timestamp_s, const char *body,
                             struct arena *arena)
{
    return arena_format(arena, "t=%" PRId64 ",v1=%s", timestamp_s,
                        sign(secret, timestamp_s, body, arena));
}

static const char *verify(const struct psp_account *account, const char *header, const char *body,
                          struct arena *arena, struct observation *out)
{
    const struct http_header headers[] = { { "Host", "x" }, { "stripe-SIGNATURE", header } };
    const char *error = NULL;
    const enum status status = stripe_ops.verify_webhook(
        account, headers, COUNT_OF(headers), span_of_text(body), NOW_S, arena, out, &error);
    assert_int_equal(status == STATUS_OK, error == NULL);
    return error == NULL ? "ok" : error;
}

static const struct psp_account ACCOUNT = { .webhook_secrets = { SECRET },
                                            .webhook_tolerance_s = 300 };

static void the_clock_may_differ_in_both_directions(void **state)
{
    (void)state;
    static const struct {
        int64_t offset_s;
        const char *result;
    } CASES[] = {
        { -301, "timestamp_out_of_tolerance" }, { -300, "ok" }, { 0, "ok" }, { 300, "ok" },
        { 301, "timestamp_out_of_tolerance" },
    };
    struct arena arena = { 0 };
    struct observation out;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const char *header = header_of(SECRET, NOW_S + CASES[i].offset_s, EVENT, &arena);
        assert_string_equal(verify(&ACCOUNT, header, EVENT, &arena, &out), CASES[i].result);
    }
    /* No tolerance in the configuration is the usual one, not an endless one. */
    const struct psp_account unset = { .webhook_secrets = { SECRET } };
    assert_string_equal(
        verify(&unset, header_of(SECRET, NOW_S - 300, EVENT, &arena), EVENT, &arena, &out), "ok");
    assert_string_equal(
        verify(&unset, header_of(SECRET, NOW_S - 301, EVENT, &arena), EVENT, &arena, &out),
        "timestamp_out_of_tolerance");
    arena_finish(&arena);
}

static void both_secrets_of_a_rotation_are_good(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct observation out;
    const struct psp_account rotating = { .webhook_secrets = { SECRET, OTHER_SECRET },
                                          .webhook_tolerance_s = 300 };
    const struct psp_account rotated = { .webhook_secrets = { NULL, OTHER_SECRET },
                                         .webhook_tolerance_s = 300 };
    const struct psp_account none = { .webhook_secrets = { "", NULL }, .webhook_tolerance_s = 300 };
    const char *old = header_of(SECRET, NOW_S, EVENT, &arena);
    const char *new = header_of(OTHER_SECRET, NOW_S, EVENT, &arena);
    assert_string_equal(verify(&rotating, old, EVENT, &arena, &out), "ok");
    assert_string_equal(verify(&rotating, new, EVENT, &arena, &out), "ok");
    assert_string_equal(verify(&rotated, new, EVENT, &arena, &out), "ok");
    assert_string_equal(verify(&rotated, old, EVENT, &arena, &out), "signature_mismatch");
    assert_string_equal(verify(&none, old, EVENT, &arena, &out), "signature_mismatch");
    const char *two = arena_format(&arena, "%s,v1=%s", old, strchr(new, ',') + 4);
    assert_string_equal(verify(&rotated, two, EVENT, &arena, &out), "ok");
    arena_finish(&arena);
}

/* Case C30: the same JSON in other bytes is another message. */
static void reordered_json_does_not_verify(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct observation out;
    const char *header = header_of(SECRET, NOW_S, EVENT, &arena);
    json_t *event = json_loads(EVENT, 0, NULL);
    char *reordered = json_dumps(event, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_not_equal(reordered, EVENT);
    assert_string_equal(verify(&ACCOUNT, header, reordered, &arena, &out), "signature_mismatch");
    assert_string_equal(verify(&ACCOUNT, header, EVENT, &arena, &out), "ok");
    free(reordered);
    json_decref(event);
    arena_finish(&arena);
}

static void malformed_headers_are_told_from_wrong_ones(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct observation out;
    const char *v1 = sign(SECRET, NOW_S, EVENT, &arena);
    char many[2048] = "t=1760000000";
    for (int i = 0; i < 17; i++) {
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), ",v1=%d", i);
    }
    const struct {
        const char *header;
        const char *result;
    } cases[] = {
        { "", "signature_malformed" },
        { "t=1760000000", "signature_malformed" },
        { arena_format(&arena, "v1=%s", v1), "signature_malformed" },
        { arena_format(&arena, "t=1760000000,t=1760000000,v1=%s", v1), "signature_malformed" },
        { arena_format(&arena, "t=,v1=%s", v1), "signature_malformed" },
        { arena_format(&arena, "t=-1760000000,v1=%s", v1), "signature_malformed" },
        { arena_format(&arena, "t=1760000000.0,v1=%s", v1), "signature_malformed" },
        { arena_format(&arena, "t=99999999999999999999,v1=%s", v1), "signature_malformed" },
        { arena_format(&arena, "t=1760000000,v1=%s,", v1), "signature_malformed" },
        { many, "signature_malformed" },
        { arena_format(&arena, "t=01760000000,v1=%s", v1), "signature_mismatch" },
        { arena_format(&arena, "t=1760000001,v1=%s", v1), "signature_mismatch" },
        { arena_format(&arena, "t=1760000000,v0=%s,v1=", v1), "signature_mismatch" },
        { arena_format(&arena, "t=1760000000,v0=x,v1=%s,v2=y", v1), "ok" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        print_message("%.60s\n", cases[i].header);
        assert_string_equal(verify(&ACCOUNT, cases[i].header, EVENT, &arena, &out),
                            cases[i].result);
    }
    const char *good = header_of(SECRET, NOW_S, EVENT, &arena);
    const struct http_header twice[] = { { "Stripe-Signature", good },
                                         { "stripe-signature", good } };
    const char *error = NULL;
    assert_int_equal(stripe_ops.verify_webhook(&ACCOUNT, twice, 2, span_of_text(EVENT), NOW_S,
                                               &arena, &out, &error),
                     STATUS_BAD_DATA);
    assert_string_equal(error, "signature_malformed");
    assert_int_equal(stripe_ops.verify_webhook(&ACCOUNT, twice, 0, span_of_text(EVENT), NOW_S,
                                               &arena, &out, &error),
                     STATUS_BAD_DATA);
    assert_string_equal(error, "signature_missing");
    arena_finish(&arena);
}

/* --- events ----------------------------------------------------------------------------------- */

static const char *verify_signed(const char *body, struct arena *arena, struct observation *out)
{
    return verify(&ACCOUNT, header_of(SECRET, NOW_S, body, arena), body, arena, out);
}

static void an_event_is_an_observation_of_its_own_moment(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct observation out;
    assert_string_equal(verify_signed(EVENT, &arena, &out), "ok");
    assert_int_equal(out.source, SOURCE_WEBHOOK);
    assert_int_equal(out.phase, PHASE_PARSED);
    assert_int_equal(out.kind, OBSERVED_SUCCEEDED);
    assert_string_equal(out.provider_event, "evt_1");
    assert_string_equal(out.provider_object, "pi_1");
    assert_string_equal(out.provider_status, "succeeded");
    assert_string_equal(out.reference, "op_key");
    assert_true(out.has_amount);
    assert_int_equal(out.amount.minor, 1099);
    assert_string_equal(out.amount.currency.code, "EUR");
    assert_int_equal(out.observed_at_us, INT64_C(1759999990000000));
    assert_null(out.error_code);
    assert_string_equal(out.excerpt,
                        "{\"event\":{\"id\":\"evt_1\",\"object\":\"event\","
                        "\"type\":\"payment_intent.succeeded\",\"created\":1759999990},"
                        "\"payment_intent\":{\"id\":\"pi_1\",\"object\":\"payment_intent\","
                        "\"status\":\"succeeded\",\"amount\":1099,\"currency\":\"eur\","
                        "\"amount_received\":1099}}");
    uint8_t digest[HASH_SIZE];
    hash_sha256(span_of_text(EVENT), digest);
    assert_memory_equal(out.digest, digest, sizeof digest);
    arena_finish(&arena);
}

static void events_of_each_kind_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        const char *object; /* members behind "id" and "object" */
        enum observation_kind kind;
        enum decline_class decline;
    } CASES[] = {
        { "payment_intent.created", "\"status\":\"requires_confirmation\"", OBSERVED_OBJECT_CREATED,
          DECLINE_NONE },
        { "payment_intent.processing", "\"status\":\"processing\"", OBSERVED_PENDING,
          DECLINE_NONE },
        { "payment_intent.requires_action", "\"status\":\"requires_action\"", OBSERVED_PENDING,
          DECLINE_NONE },
        { "payment_intent.payment_failed",
          "\"status\":\"requires_payment_method\",\"last_payment_error\":{\"type\":\"card_error\","
          "\"code\":\"card_declined\",\"decline_code\":\"stolen_card\"}",
          OBSERVED_DECLINED, DECLINE_HARD_FRAUD },
        { "payment_intent.payment_failed", "\"status\":\"requires_payment_method\"",
          OBSERVED_DECLINED, DECLINE_GENERIC },
        { "payment_intent.canceled", "\"status\":\"canceled\"", OBSERVED_CANCELED, DECLINE_NONE },
        { "payment_intent.new_word", "\"status\":\"unheard_of\"", OBSERVED_NOTHING, DECLINE_NONE },
        { "payment_intent.succeeded", "\"state\":\"succeeded\"", OBSERVED_NOTHING, DECLINE_NONE },
        { "charge.succeeded", "\"status\":\"succeeded\"", OBSERVED_NOTHING, DECLINE_NONE },
        { "payment_intentional", "\"status\":\"succeeded\"", OBSERVED_NOTHING, DECLINE_NONE },
    };
    struct arena arena = { 0 };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const char *body = arena_format(
            &arena,
            "{\"id\":\"evt_9\",\"object\":\"event\",\"created\":1760000000,\"type\":\"%s\","
            "\"data\":{\"object\":{\"id\":\"pi_9\",\"object\":\"payment_intent\",%s}}}",
            CASES[i].type, CASES[i].object);
        struct observation out;
        assert_string_equal(verify_signed(body, &arena, &out), "ok");
        assert_string_equal(out.provider_event, "evt_9");
        assert_int_equal(out.kind, CASES[i].kind);
        assert_int_equal(out.decline, CASES[i].decline);
    }
    arena_finish(&arena);
}

static void authentic_nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const BODIES[] = {
        "x",
        "[]",
        "{}",
        "{\"object\":\"event\",\"type\":\"t\",\"data\":{\"object\":{}}}",
        "{\"id\":\"evt_1\",\"object\":\"list\",\"type\":\"t\",\"data\":{\"object\":{}}}",
        "{\"id\":\"evt_1\",\"object\":\"event\",\"type\":\"t\",\"data\":{}}",
        ("{\"id\":\"evt_1\",\"id\":\"evt_2\",\"object\":\"event\",\"type\":\"t\","
         "\"data\":{\"object\":{}}}"),
        "{\"id\":\"evt 1\",\"object\":\"event\",\"type\":\"t\",\"data\":{\"object\":{}}}",
    };
    struct arena arena = { 0 };
    for (size_t i = 0; i < COUNT_OF(BODIES); i++) {
        struct observation out;
        assert_string_equal(verify_signed(BODIES[i], &arena, &out), "body_malformed");
    }
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_vectors_are_answered_as_they_should),
        cmocka_unit_test(the_clock_may_differ_in_both_directions),
        cmocka_unit_test(both_secrets_of_a_rotation_are_good),
        cmocka_unit_test(reordered_json_does_not_verify),
        cmocka_unit_test(malformed_headers_are_told_from_wrong_ones),
        cmocka_unit_test(an_event_is_an_observation_of_its_own_moment),
        cmocka_unit_test(events_of_each_kind_are_told_apart),
        cmocka_unit_test(authentic_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
