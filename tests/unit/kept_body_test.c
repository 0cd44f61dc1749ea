/* tests/unit/kept_body_test.c: what a kept request gives away, and how it comes back. */
#include "pipeline/kept_body.h"
#include "pipeline/mask.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct arena arena;

static void json_is_kept_byte_for_byte_but_for_secrets(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *kept;
        const char *token;
    } CASES[] = {
        { "{\"amount\":100.00,\"method\":{\"type\":\"card\",\"token\":\"pm_card_visa\"}}",
          "{\"amount\":100.00,\"method\":{\"type\":\"card\",\"token\":\"************\"}}",
          "pm_card_visa\n" },
        { "{ \"token\" :\t\"a\\\"b\" }", "{ \"token\" :\t\"****\" }", "a\\\"b\n" },
        { "{\"token\":\"one\",\"metadata\":{\"token\":\"two\"}}",
          "{\"token\":\"***\",\"metadata\":{\"token\":\"***\"}}", "one\ntwo\n" },
        { "{\"token\":12}", "{\"token\":00}", "12\n" },
        { "{\"token\":\"cut o", "{\"token\":\"*****", "cut o\n" },
        { "{\"method\":{\"number\":\"4242424242424242\",\"cvc\":\"123\"}}",
          "{\"method\":{\"number\":\"****************\",\"cvc\":\"***\"}}", NULL },
        { "{\"cvv\": 1234, \"number\": 4242424242424242}",
          "{\"cvv\": 0000, \"number\": ****************}", NULL },
        { "{\"number\":\"\\u0034242424242424242\",\"x\":\"\\u00e9\"}",
          "{\"number\":\"\\u002a***************\",\"x\":\"\\u00e9\"}", NULL },
        { "\"4242\\u00204242\\u002D4242 4242\"", "\"****\\u0020****\\u002D**** ****\"", NULL },
        { "\"\\\\u0034242424242424242\"", "\"\\\\u0034242424242424242\"", NULL },
        { "\"\\u00A4224424242424242\"", "\"\\u00A4***************\"", NULL },
        { "{\"token_realm\":\"stripe\",\"id\":\"token\"}",
          "{\"token_realm\":\"stripe\",\"id\":\"token\"}", NULL },
        { "{\"token\":null}", "{\"token\":null}", NULL },
        { "", "", NULL },
        { "token", "token", NULL },
        { "\"token\"", "\"token\"", NULL },
        { "\"token\":\"", "\"token\":\"", NULL },
        { "\"token\":\"\\", "\"token\":\"*", "\\\n" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct kept_body kept;
        struct span back;
        kept_body_make(span_of_text(CASES[i].body), CONTENT_JSON, &arena, &kept);
        assert_int_equal(kept.body.length, strlen(CASES[i].kept));
        assert_memory_equal(kept.body.data, CASES[i].kept, kept.body.length);
        if (CASES[i].token == NULL) {
            assert_null(kept.method_token);
        } else {
            assert_string_equal(kept.method_token, CASES[i].token);
            assert_true(kept_body_restore(kept.body, kept.method_token, &arena, &back));
            assert_true(span_equal(back, span_of_text(CASES[i].body)));
        }
    }
}

static struct span message_with(const char *name, struct value value)
{
    struct value method = value_map_make(&arena, 2);
    value_map_add(&method, "type", value_of_text("card"));
    value_map_add(&method, name, value);
    struct value map = value_map_make(&arena, 2);
    value_map_add(&map, "method", method);
    value_map_add(&map, "amount", value_of_integer(1200));
    return value_write_msgpack(&map, &arena);
}

static void messagepack_tokens_of_every_length_go_and_come_back(void **state)
{
    (void)state;
    static const size_t LENGTHS[] = { 1, 31, 32, 255, 256, 70000 };
    for (size_t i = 0; i < COUNT_OF(LENGTHS); i++) {
        char *token = arena_allocate(&arena, LENGTHS[i] + 1);
        memset(token, 'x', LENGTHS[i]);
        const struct span body = message_with("token", value_of_text(token));
        struct kept_body kept;
        struct span back;
        struct value document;
        kept_body_make(body, CONTENT_MSGPACK, &arena, &kept);
        assert_int_equal(kept.body.length, body.length);
        assert_null(memchr(kept.body.data, 'x', kept.body.length));
        assert_int_equal(value_read_msgpack(kept.body, &arena, &document, NULL), STATUS_OK);
        assert_int_equal(strlen(kept.method_token), LENGTHS[i] + 1);
        assert_true(kept_body_restore(kept.body, kept.method_token, &arena, &back));
        assert_true(span_equal(back, body));
    }
}

static void messagepack_numbers_that_are_cards_are_blanked(void **state)
{
    (void)state;
    const struct span body = message_with("number", value_of_integer(INT64_C(4242424242424242)));
    struct kept_body kept;
    struct value document;
    kept_body_make(body, CONTENT_MSGPACK, &arena, &kept);
    assert_int_equal(value_read_msgpack(kept.body, &arena, &document, NULL), STATUS_OK);
    assert_int_equal(value_find(value_find(&document, "method"), "number")->integer, 0);
    assert_int_equal(value_find(&document, "amount")->integer, 1200);

    /* A client whose numbers are floats. */
    const struct value as_float = { .kind = VALUE_DECIMAL,
                                    .bytes = span_of_text("4242424242424242") };
    kept_body_make(message_with("number", as_float), CONTENT_MSGPACK, &arena, &kept);
    assert_int_equal(value_read_msgpack(kept.body, &arena, &document, NULL), STATUS_OK);
    assert_string_equal(value_find(value_find(&document, "method"), "number")->bytes.data, "0");

    /* Cut off behind the number, and called JSON. */
    assert_non_null(memchr(body.data, 0x76, body.length));
    kept_body_make((struct span){ body.data, body.length - 5 }, CONTENT_JSON, &arena, &kept);
    assert_null(memchr(kept.body.data, 0x76, kept.body.length)); /* 00 0f 12 76 … */

    const struct span security = message_with("cvc", value_of_integer(987));
    kept_body_make(security, CONTENT_MSGPACK, &arena, &kept);
    assert_int_equal(value_read_msgpack(kept.body, &arena, &document, NULL), STATUS_OK);
    assert_int_equal(value_find(value_find(&document, "method"), "cvc")->integer, 0);
}

/* Neither in the body nor beside it. */
static void a_card_number_in_the_place_of_a_token_is_kept_nowhere(void **state)
{
    (void)state;
    static const char TEXT[] = "{\"token\":\"4242 4242 4242 4242\"}";
    const struct span binary = message_with("token", value_of_text("4242424242424242"));
    struct kept_body kept;
    kept_body_make(span_of_text(TEXT), CONTENT_JSON, &arena, &kept);
    assert_false(mask_has_card_number(kept.body));
    assert_string_equal(kept.method_token, "**** **** **** ****\n");
    kept_body_make(binary, CONTENT_MSGPACK, &arena, &kept);
    assert_false(mask_has_card_number(kept.body));
    assert_string_equal(kept.method_token, "****************\n");
}

/* Every cut of a message: no read past the end, and never a byte of the token. */
static void a_cut_message_gives_nothing_away(void **state)
{
    (void)state;
    const struct span body = message_with("token", value_of_text("xxxxxxxxxxxxxxxxxxxx"));
    for (size_t length = 0; length <= body.length; length++) {
        uint8_t *cut = malloc(length + 1); /* its own block, so that a sanitizer sees the end */
        assert_non_null(cut);
        memcpy(cut, body.data, length);
        struct kept_body kept;
        kept_body_make((struct span){ cut, length }, CONTENT_MSGPACK, &arena, &kept);
        assert_int_equal(kept.body.length, length);
        assert_true(length == 0 || memchr(kept.body.data, 'x', length) == NULL);
        free(cut);
    }
}

static void lines_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct span back;
    const struct span kept = span_of_text("{\"token\":\"***\"}");
    assert_true(kept_body_restore(kept, "abc\n", &arena, &back));
    assert_false(kept_body_restore(kept, NULL, &arena, &back));
    assert_false(kept_body_restore(kept, "abcd\n", &arena, &back));
    assert_false(kept_body_restore(kept, "abc", &arena, &back));
    assert_false(kept_body_restore(kept, "abc\nabc\n", &arena, &back));
    assert_false(kept_body_restore(span_of_text("{}"), "abc\n", &arena, &back));
}

static int finish(void **state)
{
    (void)state;
    arena_finish(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_kept_byte_for_byte_but_for_secrets),
        cmocka_unit_test(messagepack_tokens_of_every_length_go_and_come_back),
        cmocka_unit_test(messagepack_numbers_that_are_cards_are_blanked),
        cmocka_unit_test(a_card_number_in_the_place_of_a_token_is_kept_nowhere),
        cmocka_unit_test(a_cut_message_gives_nothing_away),
        cmocka_unit_test(lines_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, finish);
}
