/* tests/unit/answer_test.c: the one shape of replies and events, problems, and event headers. */
#include "pipeline/answer.h"

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

#define ID "01234567-89ab-7cde-8f01-23456789abcd"

static struct payment_view view_of(enum payment_state status)
{
    struct payment_view view = {
        .out_trade_no = "t-1",
        .status = status,
        .amount = { 1234, { "EUR" } },
        .version = 3,
    };
    assert_true(uuid_parse(ID, &view.payment.uuid));
    return view;
}

static const char *text_of(struct span span)
{
    assert_int_equal(strlen((const char *)span.data), span.length);
    return (const char *)span.data;
}

static void an_accepted_payment_has_every_member(void **state)
{
    (void)state;
    const struct payment_view view = view_of(PAYMENT_CREATED);
    const struct answer answer = answer_payment(ANSWER_ACCEPTED, &view, CONTENT_JSON, &arena);
    assert_int_equal(answer.status, 202);
    assert_string_equal(
        text_of(answer.body),
        "{\"payment\":\"" ID "\",\"out_trade_no\":\"t-1\",\"status\":\"pending\","
        "\"certainty\":null,\"amount\":1234,\"currency\":\"EUR\",\"captured\":0,\"refunded\":0,"
        "\"next_action\":null,\"reason\":null,\"safe_to_pay_again\":false,\"hold\":null,"
        "\"next_check_at\":null,\"version\":3}");
}

/* An acceptance is not stored, but said again: what it says stays as it is while keys live. */
static void an_accepted_payment_in_messagepack_is_these_bytes(void **state)
{
    (void)state;
    const struct payment_view view = view_of(PAYMENT_CREATED);
    const struct answer answer = answer_payment(ANSWER_ACCEPTED, &view, CONTENT_MSGPACK, &arena);
    /* clang-format off */
    static const char BYTES[] =
        "\x8e"
        "\xa7payment" "\xd9$01234567-89ab-7cde-8f01-23456789abcd"
        "\xacout_trade_no" "\xa3t-1"
        "\xa6status" "\xa7pending"
        "\xa9" "certainty" "\xc0"
        "\xa6" "amount" "\xcd\x04\xd2"
        "\xa8" "currency" "\xa3" "EUR"
        "\xa8" "captured" "\x00"
        "\xa8refunded" "\x00"
        "\xabnext_action" "\xc0"
        "\xa6reason" "\xc0"
        "\xb1safe_to_pay_again" "\xc2"
        "\xa4hold" "\xc0"
        "\xadnext_check_at" "\xc0"
        "\xa7version" "\x03";
    /* clang-format on */
    assert_int_equal(answer.body.length, sizeof BYTES - 1);
    assert_memory_equal(answer.body.data, BYTES, sizeof BYTES - 1);
}

static void a_failed_payment_says_how_to_go_on(void **state)
{
    (void)state;
    struct payment_view view = view_of(PAYMENT_FAILED);
    view.certainty = CERTAINTY_DEFINITE_FAILURE;
    view.reason = "card_declined";
    view.safe_to_pay_again = true;
    view.next_check_at_us = INT64_C(1796033700000000);
    view.next_action = "{\"type\":\"redirect\",\"url\":\"https://a.example/?x=1\"}";
    const char *text = text_of(answer_event_body(&view, CONTENT_JSON, &arena));
    static const char *const PIECES[] = {
        "\"status\":\"failed\"",
        "\"certainty\":\"DEFINITE_FAILURE\"",
        "\"next_action\":{\"type\":\"redirect\",\"url\":\"https://a.example/?x=1\"}",
        "\"reason\":\"card_declined\"",
        "\"safe_to_pay_again\":true,\"retry_with\":\"new out_trade_no\"",
        "\"next_check_at\":\"2026-11-30T10:15:00.000000Z\"",
    };
    for (size_t i = 0; i < COUNT_OF(PIECES); i++) assert_non_null(strstr(text, PIECES[i]));
}

static void both_forms_say_the_same(void **state)
{
    (void)state;
    struct payment_view view = view_of(PAYMENT_CAPTURED);
    view.captured_minor = 1234;
    struct value value;
    const struct answer packed = answer_payment(200, &view, CONTENT_MSGPACK, &arena);
    assert_int_equal(value_read_msgpack(packed.body, &arena, &value, NULL), STATUS_OK);
    assert_string_equal(text_of(value_write_json(&value, &arena)),
                        text_of(answer_payment(200, &view, CONTENT_JSON, &arena).body));
}

static void a_problem_names_field_and_code(void **state)
{
    (void)state;
    const struct problem problem = { PROBLEM_FIELD_TYPE, "amount", "an integer" };
    const struct answer answer = answer_problem(&problem, NULL, CONTENT_JSON, &arena);
    assert_int_equal(answer.status, 400);
    assert_string_equal(text_of(answer.body),
                        "{\"type\":\"urn:oncepay:problem:field_type\","
                        "\"title\":\"A field has the wrong type\",\"status\":400,"
                        "\"detail\":\"an integer\",\"field\":\"amount\",\"code\":\"field_type\"}");
}

static void a_busy_target_shows_the_running_payment(void **state)
{
    (void)state;
    const struct problem problem = { .code = PROBLEM_TARGET_BUSY };
    const struct payment_view view = view_of(PAYMENT_AUTHORIZING);
    const struct answer answer = answer_problem(&problem, &view, CONTENT_JSON, &arena);
    assert_int_equal(answer.status, 409);
    const char *text = text_of(answer.body);
    assert_non_null(strstr(text, "\"code\":\"target_busy\",\"payment\":\"" ID "\","
                                 "\"existing\":{\"payment\":\"" ID "\""));
    assert_non_null(strstr(text, "\"status\":\"processing\""));
}

static void a_rejection_says_what_was_rejected(void **state)
{
    (void)state;
    const struct problem problem = { .code = PROBLEM_NOT_SUPPORTED, .field = "capture" };
    assert_string_equal(
        text_of(answer_rejected_body(&problem, "t-1", "pay", CONTENT_JSON, &arena)),
        "{\"type\":\"urn:oncepay:problem:not_supported\",\"title\":\"This is not supported\","
        "\"status\":501,\"field\":\"capture\",\"code\":\"not_supported\","
        "\"out_trade_no\":\"t-1\",\"operation\":\"pay\"}");
    assert_non_null(
        strstr(text_of(answer_rejected_body(&problem, NULL, NULL, CONTENT_JSON, &arena)),
               "\"out_trade_no\":null,\"operation\":null}"));
}

static void problems_are_complete_and_their_words_unique(void **state)
{
    (void)state;
    for (int code = PROBLEM_NONE + 1; code <= PROBLEM_INTERNAL; code++) {
        const enum problem_code problem = (enum problem_code)code;
        assert_in_range(problem_status(problem), 400, 599);
        assert_true(strlen(problem_title(problem)) > 10);
        for (int other = PROBLEM_NONE + 1; other < code; other++) {
            assert_string_not_equal(problem_word(problem), problem_word((enum problem_code)other));
        }
        /* Validation errors, 429 and 5xx are never stored (protocol E). */
        if (problem_is_stored(problem)) {
            assert_true(problem_status(problem) != 429 && problem_status(problem) < 500);
        }
    }
    assert_true(problem_is_stored(PROBLEM_TARGET_BUSY));
    assert_false(problem_is_stored(PROBLEM_NOT_SUPPORTED));
    assert_false(problem_is_stored(PROBLEM_IDEMPOTENCY_CONFLICT));
}

#define TRACEPARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static struct event event_of(const char *subject)
{
    struct event event = {
        .subject = subject,
        .version = 4,
        .created_us = INT64_C(1796033700000000),
    };
    assert_true(uuid_parse("01234567-89ab-7cde-8f01-000000000001", &event.id.uuid));
    assert_true(uuid_parse(ID, &event.payment.uuid));
    return event;
}

/* The headers as they are published, one to a line. */
static const char *published(const struct event *event, const char *stored)
{
    struct event_headers own;
    struct event_headers headers;
    const char *text = "";
    assert_int_equal(event_headers_decode(stored, &arena, &own), STATUS_OK);
    event_headers_make(event, &own, &arena, &headers);
    for (size_t i = 0; i < headers.count; i++) {
        text =
            arena_format(&arena, "%s%s: %s\n", text, headers.items[i].name, headers.items[i].value);
    }
    return text;
}

static void events_carry_cloudevents_headers(void **state)
{
    (void)state;
    const struct event event = event_of("pay.event.m-1.payment.succeeded");
    const char *stored = event_headers_encode(CONTENT_MSGPACK, TRACEPARENT, &arena);
    assert_string_equal(stored, "traceparent: " TRACEPARENT "\n");
    assert_string_equal(published(&event, stored), "content-type: application/msgpack\n"
                                                   "ce-specversion: 1.0\n"
                                                   "ce-id: 01234567-89ab-7cde-8f01-000000000001\n"
                                                   "ce-source: /oncepay/m-1\n"
                                                   "ce-type: payment.succeeded\n"
                                                   "ce-time: 2026-11-30T10:15:00.000000Z\n"
                                                   "ce-subject: " ID "\n"
                                                   "ce-sequence: 4\n"
                                                   "traceparent: " TRACEPARENT "\n");
}

static void events_without_a_payment_have_no_subject_and_number(void **state)
{
    (void)state;
    struct event event = event_of("pay.event.m-1.request.rejected");
    event.payment.uuid = (struct uuid){ { 0 } };
    event.version = 0;
    assert_string_equal(published(&event, event_headers_encode(CONTENT_MSGPACK, NULL, &arena)),
                        "content-type: application/msgpack\n"
                        "ce-specversion: 1.0\n"
                        "ce-id: 01234567-89ab-7cde-8f01-000000000001\n"
                        "ce-source: /oncepay/m-1\n"
                        "ce-type: request.rejected\n"
                        "ce-time: 2026-11-30T10:15:00.000000Z\n");
}

/* A row that holds all its headers is published with them, in their order. */
static void stored_headers_win(void **state)
{
    (void)state;
    static const char ALL[] = "content-type: application/json\n"
                              "ce-specversion: 1.1\n"
                              "ce-id: 1\n"
                              "ce-source: /elsewhere\n"
                              "ce-type: payment.other\n"
                              "ce-time: 2025-01-01T00:00:00.000000Z\n"
                              "ce-subject: 2\n"
                              "ce-sequence: 3\n"
                              "traceparent: " TRACEPARENT "\n";
    const struct event event = event_of("pay.event.m-1.payment.succeeded");
    assert_string_equal(published(&event, ALL), ALL);
    const struct event odd = event_of("no.such.subject");
    assert_null(strstr(published(&odd, ""), "ce-type"));
}

static void only_what_nothing_tells_is_stored(void **state)
{
    (void)state;
    struct event_headers headers;
    assert_string_equal(event_headers_encode(CONTENT_MSGPACK, NULL, &arena), "");
    assert_string_equal(event_headers_encode(CONTENT_JSON, TRACEPARENT, &arena),
                        "content-type: application/json\ntraceparent: " TRACEPARENT "\n");
    assert_int_equal(event_headers_decode("", &arena, &headers), STATUS_OK);
    assert_int_equal(headers.count, 1);
    assert_string_equal(headers.items[0].name, "content-type");
    assert_string_equal(headers.items[0].value, "application/msgpack");
    assert_int_equal(
        event_headers_decode("a: b\ncontent-type: application/json\n", &arena, &headers),
        STATUS_OK);
    assert_int_equal(headers.count, 2);
    assert_string_equal(headers.items[0].value, "application/json");
    assert_string_equal(headers.items[1].name, "a");
#define TOO_MANY_LINES "a: 1\na: 1\na: 1\na: 1\na: 1\na: 1\na: 1\na: 1\na: 1\na: 1\n"
    static const char *const BROKEN[] = { "a", "a: b", "a\nb: c\n", ": x\n", TOO_MANY_LINES };
    for (size_t i = 0; i < COUNT_OF(BROKEN); i++) {
        assert_int_equal(event_headers_decode(BROKEN[i], &arena, &headers), STATUS_BAD_DATA);
    }
}

static void event_names_have_two_tokens(void **state)
{
    (void)state;
    for (int type = EVENT_PAYMENT_ACCEPTED; type <= EVENT_REQUEST_REJECTED; type++) {
        const char *name = event_type_name(type);
        assert_non_null(name);
        const char *dot = strchr(name, '.');
        assert_non_null(dot);
        assert_null(strchr(dot + 1, '.'));
    }
    assert_null(event_type_name(0));
    assert_null(event_type_name(EVENT_REQUEST_REJECTED + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_accepted_payment_has_every_member),
        cmocka_unit_test(an_accepted_payment_in_messagepack_is_these_bytes),
        cmocka_unit_test(a_failed_payment_says_how_to_go_on),
        cmocka_unit_test(both_forms_say_the_same),
        cmocka_unit_test(a_problem_names_field_and_code),
        cmocka_unit_test(a_busy_target_shows_the_running_payment),
        cmocka_unit_test(a_rejection_says_what_was_rejected),
        cmocka_unit_test(problems_are_complete_and_their_words_unique),
        cmocka_unit_test(events_carry_cloudevents_headers),
        cmocka_unit_test(events_without_a_payment_have_no_subject_and_number),
        cmocka_unit_test(stored_headers_win),
        cmocka_unit_test(only_what_nothing_tells_is_stored),
        cmocka_unit_test(event_names_have_two_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
