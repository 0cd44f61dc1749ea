/*
 * tests/unit/stripe_parse_test.c: every answer of research psp.md §1.2, and answers made of noise.
 */
#include "adapters/stripe/stripe.h"
#include "pipeline/hash.h"
#include "pipeline/mask.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct arena arena;

static int forget(void **state)
{
    (void)state;
    arena_finish(&arena);
    return 0;
}

static struct observation parse_with(enum request_kind kind, int status, const char *body,
                                     const struct http_header *headers, size_t header_count)
{
    const struct http_answer answer = {
        .phase = PHASE_ANSWERED,
        .status = status,
        .headers = headers,
        .header_count = header_count,
        .body = span_of_text(body),
    };
    struct observation out;
    stripe_ops.parse(OPERATION_CREATE, kind, &answer, &arena, &out);
    assert_non_null(out.excerpt);
    return out;
}

static struct observation parse(enum request_kind kind, int status, const char *body)
{
    return parse_with(kind, status, body, NULL, 0);
}

static const char *intent(const char *members)
{
    return arena_format(&arena,
                        "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"amount\":1099,"
                        "\"currency\":\"eur\",\"client_secret\":\"pi_1_secret_x\",%s}",
                        members);
}

static const char *error(const char *members)
{
    return arena_format(&arena, "{\"error\":{\"message\":\"Your card was declined.\",%s}}",
                        members);
}

/* --- the intent ------------------------------------------------------------------------------- */

static void each_status_has_its_kind(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        enum observation_kind kind;
        bool handed_out;
        bool object_payable;
    } CASES[] = {
        { "\"status\":\"succeeded\",\"amount_received\":1099", OBSERVED_SUCCEEDED, false, false },
        { "\"status\":\"processing\",\"amount_received\":0", OBSERVED_PENDING, false, false },
        { "\"status\":\"requires_action\",\"next_action\":{\"type\":\"redirect_to_url\"}",
          OBSERVED_PENDING, true, true },
        { "\"status\":\"requires_action\"", OBSERVED_PENDING, true, true },
        { "\"status\":\"requires_capture\"", OBSERVED_PENDING, false, false },
        { "\"status\":\"requires_confirmation\"", OBSERVED_OBJECT_CREATED, false, false },
        { "\"status\":\"requires_payment_method\",\"last_payment_error\":null",
          OBSERVED_OBJECT_CREATED, false, false },
        { "\"status\":\"requires_payment_method\",\"last_payment_error\":{\"code\":"
          "\"card_declined\"}",
          OBSERVED_DECLINED, false, false },
        { "\"status\":\"requires_payment_method\",\"last_payment_error\":{\"code\":"
          "\"payment_intent_authentication_failure\"}",
          OBSERVED_DECLINED, true, true },
        { "\"status\":\"canceled\"", OBSERVED_CANCELED, false, false },
        { "\"status\":\"a_word_of_tomorrow\"", OBSERVED_SERVER_ERROR, false, false },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct observation out = parse(REQUEST_RETRIEVE, 200, intent(CASES[i].members));
        print_message("%s\n", out.provider_status);
        assert_int_equal(out.kind, CASES[i].kind);
        assert_int_equal(out.handed_out, CASES[i].handed_out);
        assert_int_equal(out.object_payable, CASES[i].object_payable);
        assert_int_equal(out.source, SOURCE_RETRIEVE);
        assert_int_equal(out.phase, PHASE_PARSED);
        assert_string_equal(out.provider_object, "pi_1");
        assert_null(out.reference);
    }
}

static void a_success_tells_what_was_received(void **state)
{
    (void)state;
    struct observation out = parse(REQUEST_CREATE, 200,
                                   intent("\"status\":\"succeeded\",\"amount_received\":1000,"
                                          "\"metadata\":{\"reference\":\"op_key\",\"a\":\"b\"}"));
    assert_int_equal(out.source, SOURCE_ANSWER);
    assert_true(out.has_amount);
    assert_int_equal(out.amount.minor, 1000);
    assert_string_equal(out.amount.currency.code, "EUR");
    assert_string_equal(out.reference, "op_key");
    assert_null(out.error_code);

    out = parse(REQUEST_CREATE, 200,
                "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"amount\":500,"
                "\"amount_received\":500,\"currency\":\"isk\",\"status\":\"succeeded\"}");
    assert_int_equal(out.amount.minor, 5); /* ISO units again */
}

/* What cannot be read exactly is not an amount; the judge then has nothing to compare. */
static void amounts_are_exact_integers(void **state)
{
    (void)state;
    static const char *const MEMBERS[] = {
        "\"status\":\"succeeded\"",
        "\"status\":\"succeeded\",\"amount_received\":1099.0",
        "\"status\":\"succeeded\",\"amount_received\":\"1099\"",
        "\"status\":\"succeeded\",\"amount_received\":-1099",
        "\"status\":\"succeeded\",\"amount_received\":null",
        "\"status\":\"succeeded\",\"amount_received\":10990000000000000000000",
    };
    for (size_t i = 0; i < COUNT_OF(MEMBERS); i++) {
        const struct observation out = parse(REQUEST_RETRIEVE, 200, intent(MEMBERS[i]));
        assert_int_equal(out.kind, OBSERVED_SUCCEEDED);
        assert_false(out.has_amount);
    }
    static const char *const CURRENCIES[] = { "EUR", "xxx", "eu", "euro", "e1r" };
    for (size_t i = 0; i < COUNT_OF(CURRENCIES); i++) {
        const char *body = arena_format(&arena,
                                        "{\"id\":\"pi_1\",\"object\":\"payment_intent\","
                                        "\"amount_received\":1,\"currency\":\"%s\","
                                        "\"status\":\"succeeded\"}",
                                        CURRENCIES[i]);
        assert_false(parse(REQUEST_RETRIEVE, 200, body).has_amount);
    }
    const struct observation isk =
        parse(REQUEST_RETRIEVE, 200,
              "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"amount_received\":501,"
              "\"currency\":\"isk\",\"status\":\"succeeded\"}");
    assert_false(isk.has_amount);
}

/* Expanded objects stand inside each other; what goes deeper than any of Stripe's is no answer. */
static void depth_is_bounded_beyond_what_is_answered(void **state)
{
    (void)state;
    static const struct {
        int depth;
        enum observation_kind kind;
    } CASES[] = { { 12, OBSERVED_SUCCEEDED }, { 1000, OBSERVED_SERVER_ERROR } };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char lists[1001];
        memset(lists, '[', sizeof lists);
        lists[CASES[i].depth] = '\0';
        char *closing = arena_copy(&arena, lists, (size_t)CASES[i].depth);
        memset(closing, ']', (size_t)CASES[i].depth);
        const char *members = arena_format(
            &arena, "\"status\":\"succeeded\",\"payment_method\":%s%s", lists, closing);
        assert_int_equal(parse(REQUEST_CREATE, 200, intent(members)).kind, CASES[i].kind);
    }
}

static void an_unreadable_success_decides_nothing(void **state)
{
    (void)state;
    static const char *const BODIES[] = {
        "",
        "<html>ok</html>",
        "null",
        "[]",
        "{}",
        "{\"id\":\"ch_1\",\"object\":\"charge\",\"status\":\"succeeded\"}",
        "{\"object\":\"payment_intent\",\"status\":\"succeeded\"}",
        "{\"id\":\"pi_1\",\"object\":\"payment_intent\"}",
        "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"status\":7}",
        "{\"id\":\"pi 1\",\"object\":\"payment_intent\",\"status\":\"succeeded\"}",
        "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"status\":\"succeeded\"",
        "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"status\":\"succeeded\"}}",
        "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"status\":\"canceled\","
        "\"status\":\"succeeded\"}",
        "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"status\":\"succeeded\","
        "\"x\":\"\\u0000\"}",
        "{\"error\":{\"type\":\"card_error\"}}",
    };
    for (size_t i = 0; i < COUNT_OF(BODIES); i++) {
        const struct observation out = parse(REQUEST_CREATE, 200, BODIES[i]);
        assert_int_equal(out.kind, OBSERVED_SERVER_ERROR);
        assert_int_equal(out.phase, PHASE_ANSWERED);
        assert_string_equal(out.error_code, "http_200");
        uint8_t digest[HASH_SIZE];
        hash_sha256(span_of_text(BODIES[i]), digest);
        assert_memory_equal(out.digest, digest, sizeof digest);
    }
}

/* --- errors ----------------------------------------------------------------------------------- */

#define CARD_ERROR(code, decline_code)                                                             \
    "\"type\":\"card_error\",\"code\":\"" code "\",\"decline_code\":\"" decline_code "\""
#define WITH_INTENT(members)                                                                       \
    ",\"payment_intent\":{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"amount\":1099,"          \
    "\"currency\":\"eur\"," members "}"

static void errors_are_told_by_status_type_and_code(void **state)
{
    (void)state;
    static const struct {
        enum request_kind kind;
        int status;
        const char *members;
        enum observation_kind observed;
        const char *error_code;
    } CASES[] = {
        { REQUEST_CREATE, 400, "\"type\":\"invalid_request_error\",\"code\":\"parameter_missing\"",
          OBSERVED_REQUEST_REJECTED, "parameter_missing" },
        { REQUEST_CREATE, 400, "\"type\":\"invalid_request_error\"", OBSERVED_REQUEST_REJECTED,
          "invalid_request_error" },
        { REQUEST_CREATE, 400, "\"type\":\"idempotency_error\"", OBSERVED_KEY_MISMATCH,
          "idempotency_error" },
        { REQUEST_CREATE, 400, "\"type\":\"api_error\"", OBSERVED_SERVER_ERROR, "api_error" },
        { REQUEST_CREATE, 400,
          "\"type\":\"invalid_request_error\",\"code\":\"payment_intent_unexpected_state\"",
          OBSERVED_SERVER_ERROR, "payment_intent_unexpected_state" },
        { REQUEST_CREATE, 401, "\"type\":\"invalid_request_error\"", OBSERVED_AUTH_REJECTED,
          "invalid_request_error" },
        { REQUEST_RETRIEVE, 403, "\"type\":\"invalid_request_error\"", OBSERVED_AUTH_REJECTED,
          "invalid_request_error" },
        { REQUEST_CREATE, 402, CARD_ERROR("card_declined", "insufficient_funds"), OBSERVED_DECLINED,
          "insufficient_funds" },
        { REQUEST_CREATE, 402, "\"type\":\"api_error\"", OBSERVED_SERVER_ERROR, "api_error" },
        { REQUEST_RETRIEVE, 402, CARD_ERROR("card_declined", "stolen_card"), OBSERVED_SERVER_ERROR,
          "stolen_card" },
        { REQUEST_RETRIEVE, 404, "\"type\":\"invalid_request_error\",\"code\":\"resource_missing\"",
          OBSERVED_NOT_FOUND, "resource_missing" },
        { REQUEST_RETRIEVE, 404, "\"type\":\"invalid_request_error\"", OBSERVED_REQUEST_REJECTED,
          "invalid_request_error" },
        { REQUEST_CREATE, 404, "\"type\":\"invalid_request_error\",\"code\":\"resource_missing\"",
          OBSERVED_REQUEST_REJECTED, "resource_missing" },
        { REQUEST_REPLAY, 409,
          "\"type\":\"invalid_request_error\",\"code\":\"idempotency_key_in_use\"",
          OBSERVED_IN_PROGRESS, "idempotency_key_in_use" },
        { REQUEST_CREATE, 424, "\"type\":\"api_error\"", OBSERVED_SERVER_ERROR, "api_error" },
        { REQUEST_CREATE, 429, "\"type\":\"invalid_request_error\",\"code\":\"rate_limit\"",
          OBSERVED_RATE_LIMITED, "rate_limit" },
        { REQUEST_CREATE, 429, "\"type\":\"invalid_request_error\",\"code\":\"lock_timeout\"",
          OBSERVED_IN_PROGRESS, "lock_timeout" },
        { REQUEST_CREATE, 500, "\"type\":\"api_error\"", OBSERVED_SERVER_ERROR, "api_error" },
        { REQUEST_CREATE, 302, "\"type\":\"api_error\"", OBSERVED_SERVER_ERROR, "api_error" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct observation out =
            parse(CASES[i].kind, CASES[i].status, error(CASES[i].members));
        print_message("%d %s\n", CASES[i].status, CASES[i].error_code);
        assert_int_equal(out.kind, CASES[i].observed);
        assert_string_equal(out.error_code, CASES[i].error_code);
        assert_int_equal(out.http_status, CASES[i].status);
        assert_int_equal(out.phase, PHASE_PARSED);
    }
}

/* A page of a proxy proves nothing, not even with a status that Stripe would mean (B2). */
static void an_error_that_is_not_stripes_decides_nothing(void **state)
{
    (void)state;
    static const int STATUSES[] = { 301, 400, 401, 402, 403, 404, 409, 429, 500, 502, 503 };
    static const char *const BODIES[] = { "", "<html>", "{}", "{\"error\":\"x\"}",
                                          "{\"error\":[]}" };
    for (size_t i = 0; i < COUNT_OF(STATUSES); i++) {
        for (size_t j = 0; j < COUNT_OF(BODIES); j++) {
            const struct observation out = parse(REQUEST_CREATE, STATUSES[i], BODIES[j]);
            assert_int_equal(out.kind, OBSERVED_SERVER_ERROR);
            assert_int_equal(out.phase, PHASE_ANSWERED);
            assert_string_equal(out.error_code, arena_format(&arena, "http_%d", STATUSES[i]));
        }
    }
}

static void a_decline_brings_its_object(void **state)
{
    (void)state;
    static const char MEMBERS[] = CARD_ERROR("card_declined", "lost_card")
        WITH_INTENT("\"status\":\"requires_payment_method\",\"amount_received\":0,"
                    "\"metadata\":{\"reference\":\"op_key\"},\"last_payment_error\":{"
                    "\"type\":\"card_error\",\"code\":\"card_declined\","
                    "\"decline_code\":\"lost_card\",\"message\":\"no\"}");
    const struct observation out = parse(REQUEST_CREATE, 402, error(MEMBERS));
    assert_int_equal(out.kind, OBSERVED_DECLINED);
    assert_int_equal(out.decline, DECLINE_HARD_FRAUD);
    assert_string_equal(out.error_code, "lost_card");
    assert_string_equal(out.provider_object, "pi_1");
    assert_string_equal(out.provider_status, "requires_payment_method");
    assert_string_equal(out.reference, "op_key");
    assert_true(out.has_amount);
    assert_int_equal(out.amount.minor, 1099);
    assert_string_equal(out.excerpt,
                        "{\"error\":{\"type\":\"card_error\",\"code\":\"card_declined\","
                        "\"decline_code\":\"lost_card\",\"payment_intent\":{\"id\":\"pi_1\","
                        "\"object\":\"payment_intent\",\"status\":\"requires_payment_method\","
                        "\"amount\":1099,\"currency\":\"eur\",\"amount_received\":0,"
                        "\"last_payment_error\":{\"type\":\"card_error\","
                        "\"code\":\"card_declined\",\"decline_code\":\"lost_card\"}}}}");
}

static void the_object_of_an_error_is_believed_before_the_status(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *members;
        enum observation_kind kind;
    } CASES[] = {
        { 402,
          CARD_ERROR("card_declined", "x") WITH_INTENT("\"status\":\"requires_payment_method\""),
          OBSERVED_DECLINED },
        { 402, CARD_ERROR("card_declined", "x") WITH_INTENT("\"status\":\"succeeded\""),
          OBSERVED_SUCCEEDED },
        { 402, CARD_ERROR("card_declined", "x") WITH_INTENT("\"status\":\"processing\""),
          OBSERVED_PENDING },
        { 400, "\"type\":\"invalid_request_error\"" WITH_INTENT("\"status\":\"requires_action\""),
          OBSERVED_PENDING },
        { 400,
          "\"type\":\"invalid_request_error\"" WITH_INTENT(
              "\"status\":\"requires_payment_method\""),
          OBSERVED_OBJECT_CREATED },
        { 409, "\"type\":\"invalid_request_error\"" WITH_INTENT("\"status\":\"processing\""),
          OBSERVED_IN_PROGRESS },
        { 429, "\"type\":\"invalid_request_error\"" WITH_INTENT("\"status\":\"processing\""),
          OBSERVED_SERVER_ERROR },
        /* A 500 may still be rolled forward or back: its snapshot proves nothing. */
        { 500, "\"type\":\"api_error\"" WITH_INTENT("\"status\":\"succeeded\""),
          OBSERVED_SERVER_ERROR },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct observation out =
            parse(REQUEST_CREATE, CASES[i].status, error(CASES[i].members));
        assert_int_equal(out.kind, CASES[i].kind);
        assert_string_equal(out.provider_object, "pi_1"); /* the id is a fact in any case */
    }
}

static void declines_have_the_class_of_their_code(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        enum decline_class decline;
    } CASES[] = {
        { CARD_ERROR("card_declined", "fraudulent"), DECLINE_HARD_FRAUD },
        { CARD_ERROR("card_declined", "do_not_try_again"), DECLINE_HARD_FRAUD },
        { CARD_ERROR("expired_card", "expired_card"), DECLINE_HARD_DATA },
        { "\"type\":\"card_error\",\"code\":\"incorrect_cvc\"", DECLINE_HARD_DATA },
        { CARD_ERROR("authentication_required", "authentication_required"), DECLINE_AUTH_REQUIRED },
        { CARD_ERROR("card_declined", "insufficient_funds"), DECLINE_FUNDS_LIMIT },
        { "\"type\":\"card_error\",\"code\":\"processing_error\"", DECLINE_TECHNICAL },
        { CARD_ERROR("card_declined", "issuer_not_available"), DECLINE_TECHNICAL },
        { CARD_ERROR("card_declined", "do_not_honor"), DECLINE_GENERIC },
        { CARD_ERROR("card_declined", "a_word_of_tomorrow"), DECLINE_GENERIC },
        { CARD_ERROR("processing_error", "a_word_of_tomorrow"), DECLINE_GENERIC },
        { "\"type\":\"card_error\"", DECLINE_GENERIC },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct observation out = parse(REQUEST_CREATE, 402, error(CASES[i].members));
        assert_int_equal(out.kind, OBSERVED_DECLINED);
        assert_int_equal(out.decline, CASES[i].decline);
    }
}

/* --- headers, transport, excerpt -------------------------------------------------------------- */

static void headers_tell_of_replays_and_waits(void **state)
{
    (void)state;
    const struct http_header headers[] = { { "idempotent-replayed", "true" },
                                           { "RETRY-AFTER", "17" } };
    const char *body = intent("\"status\":\"processing\"");
    struct observation out = parse_with(REQUEST_REPLAY, 200, body, headers, 2);
    assert_int_equal(out.source, SOURCE_REPLAY);
    assert_true(out.replayed);
    assert_int_equal(out.retry_after_s, 17);
    static const char *const NO_SECONDS[] = { "", "-1", "1.5", "999999",
                                              "Wed, 21 Oct 2026 07:28:00 GMT" };
    for (size_t i = 0; i < COUNT_OF(NO_SECONDS); i++) {
        const struct http_header other[] = { { "Idempotent-Replayed", "false" },
                                             { "Retry-After", NO_SECONDS[i] } };
        out = parse_with(REQUEST_REPLAY, 200, body, other, 2);
        assert_false(out.replayed);
        assert_int_equal(out.retry_after_s, 0);
    }
}

static void no_answer_tells_how_far_the_request_got(void **state)
{
    (void)state;
    static const struct {
        enum request_phase phase;
        enum observation_kind kind;
        enum evidence_source source;
    } CASES[] = {
        { PHASE_LOCAL, OBSERVED_UNSENT, SOURCE_LOCAL },
        { PHASE_CONNECT, OBSERVED_UNSENT, SOURCE_TRANSPORT },
        { PHASE_SENT, OBSERVED_TRANSPORT_LOST, SOURCE_TRANSPORT },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct http_answer answer = { .phase = CASES[i].phase, .error_code = "reset" };
        struct observation out;
        stripe_ops.parse(OPERATION_CREATE, REQUEST_CREATE, &answer, &arena, &out);
        assert_int_equal(out.kind, CASES[i].kind);
        assert_int_equal(out.source, CASES[i].source);
        assert_int_equal(out.phase, CASES[i].phase);
        assert_string_equal(out.error_code, "reset");
        assert_string_equal(out.excerpt, "{}");
    }
}

static void the_excerpt_has_allowed_fields_only(void **state)
{
    (void)state;
    const char *body =
        intent("\"status\":\"succeeded\",\"amount_received\":1099,\"latest_charge\":\"ch_1\","
               "\"description\":\"secret words\",\"payment_method\":{\"card\":{\"number\":"
               "\"4242424242424242\"}},\"metadata\":{\"reference\":\"op_key\",\"pan\":"
               "\"4242424242424242\"},\"created\":1760000000");
    struct observation out = parse(REQUEST_RETRIEVE, 200, body);
    assert_string_equal(out.excerpt,
                        "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"status\":\"succeeded\","
                        "\"amount\":1099,\"currency\":\"eur\",\"created\":1760000000,"
                        "\"latest_charge\":\"ch_1\",\"amount_received\":1099}");
    /* Even an allowed field may hold what it should not. */
    out = parse(REQUEST_RETRIEVE, 200,
                "{\"id\":\"pi_4242424242424242\",\"object\":\"payment_intent\","
                "\"status\":\"succeeded\",\"amount\":4242424242424242,\"latest_charge\":"
                "{\"id\":\"ch_1\"},\"currency\":\"\\u00fc\\\"\"}");
    assert_string_equal(out.excerpt, "{\"id\":\"pi_****************\","
                                     "\"object\":\"payment_intent\",\"status\":\"succeeded\"}");
}

/* --- noise ------------------------------------------------------------------------------------ */

static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % bound;
}

/* A copy of exactly its size, so that the address sanitizer guards both ends. */
static struct span mutate(const char *seed, uint8_t **out_block)
{
    static const char *const TOKENS[] = { "null",     "{}",   "[]",      "-1",
                                          "1e9",      "\"\"", "\\u0000", "9223372036854775808",
                                          "\xC3\x28", "true", "{\"a\":" };
    uint8_t bytes[4096];
    size_t length = strlen(seed);
    assert_true(length < sizeof bytes / 2);
    memcpy(bytes, seed, length);
    const uint32_t changes = 1 + random_below(6);
    for (uint32_t i = 0; i < changes && length > 0; i++) {
        const size_t at = random_below((uint32_t)length);
        const char *token = TOKENS[random_below(COUNT_OF(TOKENS))];
        switch (random_below(4)) {
        case 0:
            length = at; /* cut off */
            break;
        case 1:
            bytes[at] = (uint8_t)random_below(256);
            break;
        case 2:
            memmove(bytes + at, bytes + at + 1, length - at - 1);
            length--;
            break;
        case 3:
            if (length + strlen(token) > sizeof bytes) break;
            memmove(bytes + at + strlen(token), bytes + at, length - at);
            memcpy(bytes + at, token, strlen(token));
            length += strlen(token);
            break;
        }
    }
    *out_block = malloc(length == 0 ? 1 : length);
    assert_non_null(*out_block);
    memcpy(*out_block, bytes, length);
    return (struct span){ *out_block, length };
}

static void assert_sane(const struct observation *out)
{
    assert_non_null(observation_kind_name((int)out->kind));
    assert_non_null(decline_class_name((int)out->decline));
    json_t *excerpt = json_loads(out->excerpt, 0, NULL);
    assert_true(json_is_object(excerpt));
    json_decref(excerpt);
    assert_null(strstr(out->excerpt, "secret"));
    assert_false(mask_has_card_number(span_of_text(out->excerpt)));
    assert_true(out->kind != OBSERVED_SUCCEEDED || out->provider_object != NULL);
}

static void noise_never_crashes_and_never_leaks(void **state)
{
    (void)state;
    static const int STATUSES[] = { 200, 200, 400, 402, 404, 409, 429, 500 };
    const char *const seeds[] = {
        "{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"amount\":1099,\"amount_received\":1099,"
        "\"client_secret\":\"pi_1_secret_x\",\"currency\":\"eur\",\"status\":\"succeeded\","
        "\"metadata\":{\"reference\":\"op_key\"},\"latest_charge\":\"ch_4242424242424242\"}",
        "{\"error\":{\"type\":\"card_error\",\"code\":\"card_declined\",\"decline_code\":"
        "\"lost_card\",\"message\":\"secret\",\"payment_intent\":{\"id\":\"pi_1\",\"object\":"
        "\"payment_intent\",\"status\":\"requires_payment_method\",\"amount\":1099,\"currency\":"
        "\"isk\",\"last_payment_error\":{\"code\":\"card_declined\"}}}}",
    };
    random_state = 20261130;
    for (int i = 0; i < 20000; i++) {
        uint8_t *block;
        const struct http_answer answer = {
            .phase = PHASE_ANSWERED,
            .status = STATUSES[random_below(COUNT_OF(STATUSES))],
            .body = mutate(seeds[i % 2], &block),
        };
        struct observation out;
        stripe_ops.parse(OPERATION_CREATE, (enum request_kind)(1 + random_below(5)), &answer,
                         &arena, &out);
        free(block); /* nothing may point into the answer */
        assert_sane(&out);
        arena_reset(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(each_status_has_its_kind, forget),
        cmocka_unit_test_teardown(a_success_tells_what_was_received, forget),
        cmocka_unit_test_teardown(amounts_are_exact_integers, forget),
        cmocka_unit_test_teardown(depth_is_bounded_beyond_what_is_answered, forget),
        cmocka_unit_test_teardown(an_unreadable_success_decides_nothing, forget),
        cmocka_unit_test_teardown(errors_are_told_by_status_type_and_code, forget),
        cmocka_unit_test_teardown(an_error_that_is_not_stripes_decides_nothing, forget),
        cmocka_unit_test_teardown(a_decline_brings_its_object, forget),
        cmocka_unit_test_teardown(the_object_of_an_error_is_believed_before_the_status, forget),
        cmocka_unit_test_teardown(declines_have_the_class_of_their_code, forget),
        cmocka_unit_test_teardown(headers_tell_of_replays_and_waits, forget),
        cmocka_unit_test_teardown(no_answer_tells_how_far_the_request_got, forget),
        cmocka_unit_test_teardown(the_excerpt_has_allowed_fields_only, forget),
        cmocka_unit_test_teardown(noise_never_crashes_and_never_leaks, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
