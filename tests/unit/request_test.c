/* tests/unit/request_test.c: what a producer may send, and which field and rule a refusal names. */
#include "pipeline/request.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct arena arena;

static int teardown(void **state)
{
    (void)state;
    arena_finish(&arena);
    return 0;
}

#define VALID                                                                                      \
    "{\"merchant\":\"m-1\",\"out_trade_no\":\"t-1\",\"target\":{\"kind\":\"order\",\"id\":\"o/"    \
    "1\"},"                                                                                        \
    "\"amount\":1234,\"currency\":\"EUR\",\"method\":{\"type\":\"card\",\"token\":\"tok_visa\"}}"

static struct bus_message message_of(const char *subject, struct span body)
{
    return (struct bus_message){ .subject = subject, .body = body };
}

static bool decode_span(struct span body, struct pay_request *out, struct problem *out_problem)
{
    const struct bus_message message = message_of("pay.intake.m-1.pay", body);
    struct request_envelope envelope;
    if (!request_envelope_read(&message, &arena, &envelope, out_problem)) return false;
    return pay_request_decode(&envelope, &arena, out, out_problem);
}

static bool decode(const char *json, struct pay_request *out, struct problem *out_problem)
{
    return decode_span(span_of_text(json), out, out_problem);
}

/* VALID with the first occurrence of a piece exchanged. */
static const char *valid_with(const char *piece, const char *replacement)
{
    const char *at = strstr(VALID, piece);
    assert_non_null(at);
    return arena_format(&arena, "%.*s%s%s", (int)(at - VALID), VALID, replacement,
                        at + strlen(piece));
}

static const char *valid_and(const char *members)
{
    return arena_format(&arena, "%.*s,%s}", (int)strlen(VALID) - 1, VALID, members);
}

static void a_full_request_is_read(void **state)
{
    (void)state;
    struct pay_request request = { 0 };
    struct problem problem = { 0 };
    const char *json =
        valid_and("\"capture\":\"automatic\",\"return_url\":\"https://shop.example/\","
                  "\"expires_at\":\"2026-11-30T10:15:00Z\",\"version\":1,"
                  "\"metadata\":{\"b\":100.00,\"a\":\"x\"},\"unheard_of\":[1]");
    assert_true(decode(json, &request, &problem));
    assert_string_equal(request.merchant, "m-1");
    assert_string_equal(request.out_trade_no, "t-1");
    assert_string_equal(request.target_kind, "order");
    assert_string_equal(request.target_id, "o/1");
    assert_int_equal(request.amount.minor, 1234);
    assert_string_equal(request.amount.currency.code, "EUR");
    assert_string_equal(request.method_type, "card");
    assert_string_equal(request.method_token, "tok_visa");
    assert_null(request.method_token_realm);
    assert_int_equal(request.capture, REQUEST_CAPTURE_AUTOMATIC);
    assert_string_equal(request.return_url, "https://shop.example/");
    assert_int_equal(request.expires_at_us, INT64_C(1796033700000000));
    assert_string_equal(request.metadata, "{\"a\":\"x\",\"b\":100}");
    assert_string_equal(request.idempotency_key, "t-1");
}

struct refusal_row {
    const char *piece; /* of VALID; NULL: replacement is added as members */
    const char *replacement;
    enum problem_code code;
    const char *field;
};

static const struct refusal_row REFUSALS[] = {
    { "\"merchant\":\"m-1\",", "", PROBLEM_FIELD_MISSING, "merchant" },
    { "\"m-1\"", "\"m-2\"", PROBLEM_MERCHANT_MISMATCH, "merchant" },
    { "\"m-1\"", "7", PROBLEM_FIELD_TYPE, "merchant" },
    { "\"t-1\"", "\"\"", PROBLEM_FIELD_PATTERN, "out_trade_no" },
    { "\"t-1\"", "null", PROBLEM_FIELD_MISSING, "out_trade_no" },
    { "\"t-1\"", "\"\xc3\xa9\"", PROBLEM_FIELD_PATTERN, "out_trade_no" },
    { "\"t-1\"", "\"a\\nb\"", PROBLEM_FIELD_PATTERN, "out_trade_no" },
    { "\"t-1\"", "12345", PROBLEM_FIELD_TYPE, "out_trade_no" },
    { "\"t-1\"", "\"00000000001111111111222222222233333333334444444444555555555566666\"",
      PROBLEM_FIELD_PATTERN, "out_trade_no" },
    { "\"target\":{\"kind\":\"order\",\"id\":\"o/1\"},", "", PROBLEM_FIELD_MISSING, "target" },
    { "{\"kind\":\"order\",\"id\":\"o/1\"}", "\"order\"", PROBLEM_FIELD_TYPE, "target" },
    { "\"kind\":\"order\",", "", PROBLEM_FIELD_MISSING, "target.kind" },
    { "\"order\"", "\"or.der\"", PROBLEM_FIELD_PATTERN, "target.kind" },
    { "\"order\"", "\"none\"", PROBLEM_FIELD_RANGE, "target.id" },
    { ",\"id\":\"o/1\"", "", PROBLEM_FIELD_MISSING, "target.id" },
    { "\"o/1\"", "\"o 1\"", PROBLEM_FIELD_PATTERN, "target.id" },
    { "1234", "100.00", PROBLEM_FIELD_TYPE, "amount" },
    { "1234", "1e2", PROBLEM_FIELD_TYPE, "amount" },
    { "1234", "\"1234\"", PROBLEM_FIELD_TYPE, "amount" },
    { "1234", "true", PROBLEM_FIELD_TYPE, "amount" },
    { "1234", "0", PROBLEM_FIELD_RANGE, "amount" },
    { "1234", "-1", PROBLEM_FIELD_RANGE, "amount" },
    { "1234", "9223372036854775808", PROBLEM_FIELD_RANGE, "amount" },
    { "1234", "99999999999999999999999999999999999999999999999999", PROBLEM_FIELD_RANGE, "amount" },
    { "\"amount\":1234,", "", PROBLEM_FIELD_MISSING, "amount" },
    { "\"EUR\"", "\"eur\"", PROBLEM_FIELD_RANGE, "currency" },
    { "\"EUR\"", "\"XXX\"", PROBLEM_FIELD_RANGE, "currency" },
    { "\"EUR\"", "978", PROBLEM_FIELD_TYPE, "currency" },
    { "\"type\":\"card\",", "", PROBLEM_FIELD_MISSING, "method.type" },
    { "\"card\"", "\"cash\"", PROBLEM_FIELD_RANGE, "method.type" },
    { "\"card\"", "\"qr\"", PROBLEM_NOT_SUPPORTED, "method.type" },
    { "\"tok_visa\"", "\"tok visa\"", PROBLEM_FIELD_PATTERN, "method.token" },
    { ",\"token\":\"tok_visa\"", "", PROBLEM_FIELD_MISSING, "method.token" },
    { "\"tok_visa\"", "\"4242424242424242\"", PROBLEM_RAW_CARD_NUMBER, "method" },
    { "\"tok_visa\"", "\"4242-4242-4242-4242\"", PROBLEM_RAW_CARD_NUMBER, "method" },
    { "\"tok_visa\"", "4242424242424242", PROBLEM_RAW_CARD_NUMBER, "method" },
    { "\"token\"", "\"number\":\"x\",\"token\"", PROBLEM_RAW_CARD_NUMBER, "method" },
    { "\"token\"", "\"card\":{\"CVC\":123},\"token\"", PROBLEM_RAW_CARD_NUMBER, "method" },
    { "\"tok_visa\"", "\"t\",\"token_realm\":\"a b\"", PROBLEM_FIELD_PATTERN,
      "method.token_realm" },
    { NULL, "\"capture\":\"manual\"", PROBLEM_NOT_SUPPORTED, "capture" },
    { NULL, "\"capture\":\"later\"", PROBLEM_FIELD_RANGE, "capture" },
    { NULL, "\"capture\":1", PROBLEM_FIELD_TYPE, "capture" },
    { NULL, "\"return_url\":\"javascript:alert(1)\"", PROBLEM_FIELD_PATTERN, "return_url" },
    { NULL, "\"return_url\":\"https://\"", PROBLEM_FIELD_PATTERN, "return_url" },
    { NULL, "\"return_url\":\"https:///path\"", PROBLEM_FIELD_PATTERN, "return_url" },
    { NULL, "\"return_url\":\"http://a b\"", PROBLEM_FIELD_PATTERN, "return_url" },
    { NULL, "\"expires_at\":\"tomorrow\"", PROBLEM_FIELD_PATTERN, "expires_at" },
    { NULL, "\"expires_at\":1796033700", PROBLEM_FIELD_TYPE, "expires_at" },
    { NULL, "\"metadata\":[]", PROBLEM_FIELD_TYPE, "metadata" },
    { NULL, "\"metadata\":{\"a\":{\"b\":1}}", PROBLEM_FIELD_TYPE, "metadata" },
    { NULL, "\"metadata\":{\"a\":null}", PROBLEM_FIELD_TYPE, "metadata" },
    { NULL, "\"metadata\":{\"\":1}", PROBLEM_FIELD_RANGE, "metadata" },
    { NULL, "\"metadata\":{\"a2345678901234567890123456789012345678901\":1}", PROBLEM_FIELD_RANGE,
      "metadata" },
    { NULL, "\"version\":2", PROBLEM_UNKNOWN_VERSION, "version" },
    { NULL, "\"version\":0", PROBLEM_UNKNOWN_VERSION, "version" },
    { NULL, "\"version\":\"1\"", PROBLEM_FIELD_TYPE, "version" },
    { NULL, "\"amount\":1", PROBLEM_NOT_JSON, NULL }, /* a name twice */
};

static void each_refusal_names_its_field_and_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(REFUSALS); i++) {
        const struct refusal_row *row = &REFUSALS[i];
        const char *json = row->piece == NULL ? valid_and(row->replacement)
                                              : valid_with(row->piece, row->replacement);
        struct pay_request request = { 0 };
        struct problem problem = { .code = PROBLEM_NONE };
        if (decode(json, &request, &problem)) fail_msg("accepted: %s", json);
        if (problem.code != row->code || (row->field == NULL) != (problem.field == NULL) ||
            (row->field != NULL && strcmp(problem.field, row->field) != 0)) {
            fail_msg("%s: got %s for %s", json, problem_word(problem.code), problem.field);
        }
    }
}

static void a_refusal_still_knows_the_order_number(void **state)
{
    (void)state;
    struct pay_request request = { 0 };
    struct problem problem = { 0 };
    assert_false(decode(valid_with("1234", "0"), &request, &problem));
    assert_string_equal(request.out_trade_no, "t-1");
    assert_false(decode(valid_with("\"t-1\"", "\"\\u0007\""), &request, &problem));
    assert_null(request.out_trade_no);
}

static void bodies_that_are_no_document_are_refused(void **state)
{
    (void)state;
    struct pay_request request = { 0 };
    struct problem problem = { 0 };
    assert_false(decode("{", &request, &problem));
    assert_int_equal(problem.code, PROBLEM_NOT_JSON);
    assert_false(decode("", &request, &problem)); /* no content type, no '{' */
    assert_int_equal(problem.code, PROBLEM_NOT_MSGPACK);
    assert_false(decode("\x01", &request, &problem));
    assert_int_equal(problem.code, PROBLEM_NOT_MSGPACK);
}

static void no_target_is_said_by_the_kind_none(void **state)
{
    (void)state;
    struct pay_request request = { 0 };
    struct problem problem = { 0 };
    assert_true(decode(valid_with("\"kind\":\"order\",\"id\":\"o/1\"", "\"kind\":\"none\""),
                       &request, &problem));
    assert_null(request.target_id);
    assert_false(pay_request_has_target(&request));
}

static void metadata_is_bounded_in_members_and_length(void **state)
{
    (void)state;
    char members[2048] = "";
    size_t length = 0;
    for (int i = 0; i < 51; i++) {
        length += (size_t)snprintf(members + length, sizeof members - length, "%s\"k%d\":%d",
                                   i == 0 ? "" : ",", i, i);
    }
    struct pay_request request = { 0 };
    struct problem problem = { 0 };
    assert_false(
        decode(valid_and(arena_format(&arena, "\"metadata\":{%s}", members)), &request, &problem));
    assert_string_equal(problem.field, "metadata");
    const char *last = strrchr(members, ',');
    assert_true(decode(
        valid_and(arena_format(&arena, "\"metadata\":{%.*s}", (int)(last - members), members)),
        &request, &problem));
    assert_true(decode(valid_and(arena_format(&arena, "\"metadata\":{\"a\":\"%0500d\"}", 0)),
                       &request, &problem));
    assert_false(decode(valid_and(arena_format(&arena, "\"metadata\":{\"a\":\"%0501d\"}", 0)),
                        &request, &problem));
    assert_true(decode(valid_and("\"metadata\":{}"), &request, &problem));
    assert_null(request.metadata);
}

/* Fingerprints */

static const char *fingerprint_of(const char *json)
{
    struct pay_request request = { 0 };
    struct problem problem = { 0 };
    if (!decode(json, &request, &problem)) fail_msg("%s: %s", json, problem_word(problem.code));
    return arena_copy(&arena, request.fingerprint, sizeof request.fingerprint);
}

static void fingerprints_ignore_form_and_environment(void **state)
{
    (void)state;
    const char *plain = fingerprint_of(VALID);
    static const char *const SAME[] = {
        "\"capture\":\"automatic\"",
        "\"return_url\":\"https://a.example\"",
        "\"expires_at\":\"2027-01-01T00:00:00Z\"",
        "\"client_ip\":\"10.0.0.1\"",
        "\"metadata\":{}",
        "\"metadata\":null",
        "\"version\":1",
    };
    for (size_t i = 0; i < COUNT_OF(SAME); i++) {
        assert_memory_equal(fingerprint_of(valid_and(SAME[i])), plain, 32);
    }
    assert_memory_equal(
        fingerprint_of(valid_with("tok_visa\"", "tok_visa\",\"token_realm\":\"x\"")), plain, 32);
}

static void fingerprints_change_with_every_whitelisted_field(void **state)
{
    (void)state;
    static const struct {
        const char *piece;
        const char *replacement;
    } OTHER[] = {
        { "t-1", "t-2" },   { "order", "invoice" }, { "o/1", "o/2" },
        { "1234", "1235" }, { "EUR", "USD" },       { "tok_visa", "tok_other" },
    };
    const char *plain = fingerprint_of(VALID);
    for (size_t i = 0; i < COUNT_OF(OTHER); i++) {
        const char *other = fingerprint_of(valid_with(OTHER[i].piece, OTHER[i].replacement));
        assert_memory_not_equal(other, plain, 32);
    }
    assert_memory_not_equal(fingerprint_of(valid_and("\"metadata\":{\"a\":1}")), plain, 32);
}

static void numbers_in_metadata_agree_however_written(void **state)
{
    (void)state;
    assert_memory_equal(fingerprint_of(valid_and("\"metadata\":{\"a\":100,\"b\":\"x\"}")),
                        fingerprint_of(valid_and("\"metadata\":{\"b\":\"x\",\"a\":100.00}")), 32);
    assert_memory_not_equal(fingerprint_of(valid_and("\"metadata\":{\"a\":100}")),
                            fingerprint_of(valid_and("\"metadata\":{\"a\":\"100\"}")), 32);
}

static void the_fingerprint_is_pinned(void **state)
{
    (void)state;
    struct pay_request request = { 0 };
    struct problem problem = { 0 };
    assert_true(decode(valid_and("\"metadata\":{\"a\":1.50}"), &request, &problem));
    assert_string_equal((const char *)pay_request_canonical(&request, &arena).data,
                        "{\"amount\":1234,\"capture\":\"automatic\",\"currency\":\"EUR\","
                        "\"merchant\":\"m-1\",\"metadata\":{\"a\":1.5},"
                        "\"method\":{\"token\":\"tok_visa\",\"type\":\"card\"},"
                        "\"out_trade_no\":\"t-1\",\"target\":{\"id\":\"o/1\",\"kind\":\"order\"}}");
}

static void both_forms_are_one_request(void **state)
{
    (void)state;
    struct pay_request first = { 0 };
    struct problem problem = { 0 };
    const char *json = valid_and("\"metadata\":{\"a\":1.5,\"b\":true,\"c\":\"\xc3\xa9\",\"d\":-7},"
                                 "\"return_url\":\"https://a.example\","
                                 "\"expires_at\":\"2026-11-30T10:15:00.5Z\"");
    assert_true(decode(json, &first, &problem));
    for (int type = CONTENT_JSON; type <= CONTENT_MSGPACK; type++) {
        struct pay_request again = { 0 };
        const struct span body = pay_request_encode(&first, (enum content_type)type, &arena);
        assert_true(decode_span(body, &again, &problem));
        assert_memory_equal(again.fingerprint, first.fingerprint, 32);
        assert_string_equal(again.metadata, first.metadata);
        assert_string_equal(again.return_url, first.return_url);
        assert_int_equal(again.expires_at_us, first.expires_at_us);
    }
}

/* The envelope */

static bool envelope_of(const char *subject, const char *name, const char *value,
                        struct request_envelope *out, struct problem *out_problem)
{
    const struct bus_header header = { name, value };
    struct bus_message message = message_of(subject, span_of_text(VALID));
    if (name != NULL) {
        message.headers = &header;
        message.header_count = 1;
    }
    return request_envelope_read(&message, &arena, out, out_problem);
}

static void keys_come_from_the_header_or_the_order_number(void **state)
{
    (void)state;
    struct request_envelope envelope;
    struct problem problem = { 0 };
    struct pay_request request = { 0 };
    assert_true(envelope_of("pay.intake.m-1.pay", "Idempotency-Key", "key 1", &envelope, &problem));
    assert_true(pay_request_decode(&envelope, &arena, &request, &problem));
    assert_string_equal(request.idempotency_key, "key 1");
    assert_false(envelope_of("pay.intake.m-1.pay", "idempotency-key", "", &envelope, &problem));
    assert_string_equal(problem.field, "Idempotency-Key");
    assert_false(envelope_of("pay.intake.m-1.pay", "idempotency-key", "a\tb", &envelope, &problem));
    const char *long_key = arena_format(&arena, "%0256d", 0);
    assert_false(
        envelope_of("pay.intake.m-1.pay", "idempotency-key", long_key, &envelope, &problem));
    assert_true(
        envelope_of("pay.intake.m-1.pay", "idempotency-key", long_key + 1, &envelope, &problem));
}

static void subjects_give_merchant_and_operation(void **state)
{
    (void)state;
    struct request_envelope envelope;
    struct problem problem = { 0 };
    assert_true(envelope_of("pay.intake.m_1-X.refund", NULL, NULL, &envelope, &problem));
    assert_string_equal(envelope.merchant, "m_1-X");
    assert_int_equal(envelope.operation, REQUEST_OPERATION_REFUND);
    static const char *const SUBJECTS[] = {
        "pay.intake.m-1.steal", "pay.intake.m-1", "pay.intake..pay",   "pay.intake.m.1.pay",
        "pay.intake.m-1.pay.",  "other.m-1.pay",  "pay.intake.m*.pay",
    };
    for (size_t i = 0; i < COUNT_OF(SUBJECTS); i++) {
        assert_false(envelope_of(SUBJECTS[i], NULL, NULL, &envelope, &problem));
        assert_int_equal(problem.code, PROBLEM_UNKNOWN_OPERATION);
    }
}

static void replies_go_only_to_inboxes_and_own_subjects(void **state)
{
    (void)state;
    static const struct {
        const char *reply_to;
        bool is_valid;
    } CASES[] = {
        { "_INBOX.abc.1", true },  { "reply.m-1.x", true },
        { "reply.m-2.x", false },  { "reply.m-1.", false },
        { "reply.m-1", false },    { "_INBOX.", false },
        { "_INBOXabc", false },    { "pay.route.1", false },
        { "reply.m-1.>", false },  { "_INBOX.a b", false },
        { "_INBOX.*", false },     { "$JS.API.STREAM.DELETE.PAY_INTAKE", false },
        { "xreply.m-1.x", false }, { "", false },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct request_envelope envelope;
        struct problem problem = { 0 };
        const bool is_valid = envelope_of("pay.intake.m-1.pay", "Pay-Reply-To", CASES[i].reply_to,
                                          &envelope, &problem);
        assert_int_equal(is_valid, CASES[i].is_valid);
        if (is_valid) {
            assert_string_equal(envelope.reply_to, CASES[i].reply_to);
        } else {
            assert_string_equal(problem.field, "Pay-Reply-To");
            assert_null(envelope.reply_to);
        }
    }
}

static void a_traceparent_that_is_not_valid_is_ignored(void **state)
{
    (void)state;
#define TRACE "0af7651916cd43dd8448eb211c80319c"
    static const struct {
        const char *text;
        bool is_kept;
    } CASES[] = {
        { "00-" TRACE "-b7ad6b7169203331-01", true },
        { "cc-" TRACE "-b7ad6b7169203331-01-what-comes", true },
        { "00-" TRACE "-b7ad6b7169203331-01-more", false },
        { "00-" TRACE "-0000000000000000-01", false },
        { "00-00000000000000000000000000000000-b7ad6b7169203331-01", false },
        { "ff-" TRACE "-b7ad6b7169203331-01", false },
        { "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false },
        { "00-" TRACE "-b7ad6b7169203331", false },
        { "", false },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct request_envelope envelope;
        struct problem problem = { 0 };
        assert_true(
            envelope_of("pay.intake.m-1.pay", "traceparent", CASES[i].text, &envelope, &problem));
        assert_int_equal(envelope.traceparent != NULL, CASES[i].is_kept);
    }
}

static void the_content_type_decides_and_is_guessed_only_if_absent(void **state)
{
    (void)state;
    struct request_envelope envelope;
    struct problem problem = { 0 };
    assert_true(envelope_of("pay.intake.m-1.pay", NULL, NULL, &envelope, &problem));
    assert_int_equal(envelope.content, CONTENT_JSON);
    assert_true(envelope_of("pay.intake.m-1.pay", "content-type", "application/msgpack", &envelope,
                            &problem));
    assert_int_equal(envelope.content, CONTENT_MSGPACK);
    assert_false(
        envelope_of("pay.intake.m-1.pay", "content-type", "text/xml", &envelope, &problem));
    assert_int_equal(problem.code, PROBLEM_UNSUPPORTED_CONTENT_TYPE);
}

static void what_is_too_large_or_unreadable_is_refused_before_it_is_read(void **state)
{
    (void)state;
    struct request_envelope envelope;
    struct problem problem = { 0 };
    struct bus_message message = message_of("pay.intake.m-1.pay", span_of_text(VALID));
    message.body.length = REQUEST_BODY_BYTES_MAX + 1;
    message.body.data = (const uint8_t *)arena_allocate(&arena, message.body.length);
    assert_false(request_envelope_read(&message, &arena, &envelope, &problem));
    assert_int_equal(problem.code, PROBLEM_TOO_LARGE);
    message = message_of("pay.intake.m-1.pay", span_of_text(VALID));
    message.headers_malformed = true;
    assert_false(request_envelope_read(&message, &arena, &envelope, &problem));
    assert_string_equal(problem.field, "headers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_request_is_read),
        cmocka_unit_test(each_refusal_names_its_field_and_rule),
        cmocka_unit_test(a_refusal_still_knows_the_order_number),
        cmocka_unit_test(bodies_that_are_no_document_are_refused),
        cmocka_unit_test(no_target_is_said_by_the_kind_none),
        cmocka_unit_test(metadata_is_bounded_in_members_and_length),
        cmocka_unit_test(fingerprints_ignore_form_and_environment),
        cmocka_unit_test(fingerprints_change_with_every_whitelisted_field),
        cmocka_unit_test(numbers_in_metadata_agree_however_written),
        cmocka_unit_test(the_fingerprint_is_pinned),
        cmocka_unit_test(both_forms_are_one_request),
        cmocka_unit_test(keys_come_from_the_header_or_the_order_number),
        cmocka_unit_test(subjects_give_merchant_and_operation),
        cmocka_unit_test(replies_go_only_to_inboxes_and_own_subjects),
        cmocka_unit_test(a_traceparent_that_is_not_valid_is_ignored),
        cmocka_unit_test(the_content_type_decides_and_is_guessed_only_if_absent),
        cmocka_unit_test(what_is_too_large_or_unreadable_is_refused_before_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
