/* tests/unit/value_test.c: JSON and MessagePack mean the same; what is not strict is refused. */
#include "pipeline/value.h"

#include "pipeline/canonical.h"

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

static const char *canonical_of_json(const char *json)
{
    struct value value;
    const char *error = NULL;
    if (value_read_json(span_of_text(json), &arena, &value, &error) != STATUS_OK) {
        fail_msg("%s: %s", json, error);
    }
    return (const char *)canonical_json(&value, &arena).data;
}

static const char *canonical_of_msgpack(const void *bytes, size_t length)
{
    struct value value;
    const char *error = NULL;
    const struct span span = { bytes, length };
    if (value_read_msgpack(span, &arena, &value, &error) != STATUS_OK) fail_msg("%s", error);
    return (const char *)canonical_json(&value, &arena).data;
}

static void numbers_have_one_normal_form(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *normal;
    } CASES[] = {
        { "0", "0" },
        { "-0", "0" },
        { "0.000", "0" },
        { "-0.0e5", "0" },
        { "100", "100" },
        { "100.00", "100" },
        { "1e2", "100" },
        { "1.50E+3", "1500" },
        { "0.1", "0.1" },
        { "10e-2", "0.1" },
        { "-12.340", "-12.34" },
        { "123.456e1", "1234.56" },
        { "1e-3", "0.001" },
        { "9223372036854775807", "9223372036854775807" },
        { "-9223372036854775808", "-9223372036854775808" },
        { "9223372036854775808", "9223372036854775808" },
        { "10000000000000000000000000000000000000000000000000", "1e49" },
        { "1e49", "1e49" },
        { "1e-50", "1e-50" },
        { "0.1e-49", "1e-50" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        assert_string_equal(canonical_of_json(CASES[i].text), CASES[i].normal);
    }
}

static void only_small_integer_tokens_are_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum value_kind kind;
        bool is_integral;
    } CASES[] = {
        { "100", VALUE_INTEGER, false },
        { "0", VALUE_INTEGER, false },
        { "-0", VALUE_INTEGER, false },
        { "999999999999999999", VALUE_INTEGER, false },
        { "9223372036854775807", VALUE_INTEGER, false },
        { "100.0", VALUE_DECIMAL, false },
        { "-9223372036854775808", VALUE_INTEGER, false },
        { "100.00", VALUE_DECIMAL, false },
        { "1e2", VALUE_DECIMAL, false },
        { "9223372036854775808", VALUE_DECIMAL, true },
        { "-9223372036854775809", VALUE_DECIMAL, true },
        { "10000000000000000000000000000000000000000000000000", VALUE_DECIMAL, true },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct value value;
        const struct span text = span_of_text(CASES[i].text);
        assert_int_equal(value_read_json(text, &arena, &value, NULL), STATUS_OK);
        assert_int_equal(value.kind, CASES[i].kind);
        assert_int_equal(value.is_integral, CASES[i].is_integral);
        const bool is_integer = value.kind == VALUE_INTEGER;
        if (is_integer) assert_int_equal(value.integer, strtoll(CASES[i].text, NULL, 10));
    }
}

static void json_that_is_not_strict_is_refused(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "",
        " ",
        "{",
        "{\"a\":1",
        "{\"a\"}",
        "{a:1}",
        "{\"a\":1,}",
        "[1,]",
        "[1 2]",
        "{} {}",
        "nul",
        "True",
        "NaN",
        "Infinity",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "--1",
        "0x10",
        "1e1000",
        "\"a",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\xff\"",
        "\"\xc0\xaf\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x82\"",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "[[[[[[[[[1]]]]]]]]]",
        "// no\n1",
        "'a'",
        "11111111111111111111111111111111111111111111111111111111111111111",
    };
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        struct value value;
        const char *error = NULL;
        const struct span text = span_of_text(TEXTS[i]);
        if (value_read_json(text, &arena, &value, &error) == STATUS_OK) fail_msg("%s", TEXTS[i]);
        assert_non_null(error);
    }
    struct value value;
    const struct span with_nul = { (const uint8_t *)"\"a\0b\"", 5 };
    assert_int_equal(value_read_json(with_nul, &arena, &value, NULL), STATUS_BAD_DATA);
    const struct span behind = { (const uint8_t *)"1\0", 2 };
    assert_int_equal(value_read_json(behind, &arena, &value, NULL), STATUS_BAD_DATA);
}

static void the_number_of_values_is_bounded(void **state)
{
    (void)state;
    char text[4096];
    size_t length = 0;
    text[length++] = '[';
    for (int i = 0; i < VALUE_COUNT_MAX; i++) {
        text[length++] = '1';
        text[length++] = ',';
    }
    text[length - 1] = ']';
    struct value value;
    const struct span all = { (const uint8_t *)text, length };
    assert_int_equal(value_read_json(all, &arena, &value, NULL), STATUS_BAD_DATA);
    text[length - 3] = ']'; /* one less */
    const struct span fewer = { (const uint8_t *)text, length - 2 };
    assert_int_equal(value_read_json(fewer, &arena, &value, NULL), STATUS_OK);
    assert_int_equal(value.count, VALUE_COUNT_MAX - 1);
}

/* Names do not count, so what one form takes the other takes too. */
static void the_bound_is_the_same_in_both_forms(void **state)
{
    (void)state;
    struct value map = value_map_make(&arena, VALUE_COUNT_MAX);
    while (map.count < VALUE_COUNT_MAX - 1) {
        value_map_add(&map, arena_format(&arena, "m%zu", map.count), value_of_integer(1));
    }
    for (int type = CONTENT_JSON; type <= CONTENT_MSGPACK; type++) {
        struct value value;
        const struct span bytes = value_write((enum content_type)type, &map, &arena);
        assert_int_equal(value_read((enum content_type)type, bytes, &arena, &value, NULL),
                         STATUS_OK);
    }
    value_map_add(&map, "one more", value_of_integer(1));
    for (int type = CONTENT_JSON; type <= CONTENT_MSGPACK; type++) {
        struct value value;
        const struct span bytes = value_write((enum content_type)type, &map, &arena);
        assert_int_equal(value_read((enum content_type)type, bytes, &arena, &value, NULL),
                         STATUS_BAD_DATA);
    }
}

/* Texts are decoded where they stand: none may run into the next. */
static void texts_are_whole_whatever_stands_beside_them(void **state)
{
    (void)state;
    struct value value;
    const struct span text = span_of_text(
        "{\"a\":\"b\",\"\":\"\",\"\\u00e4\xc3\xb6\":[\"\\ud83d\\ude00\",\"\\\\\\\"\",\"x\"]}");
    assert_int_equal(value_read_json(text, &arena, &value, NULL), STATUS_OK);
    assert_int_equal(value.count, 3);
    assert_string_equal(value_text(value_find(&value, "a")), "b");
    assert_string_equal(value_text(value_find(&value, "")), "");
    const struct value *list = value_find(&value, "\xc3\xa4\xc3\xb6");
    assert_string_equal(value_text(&list->items[0]), "\xf0\x9f\x98\x80");
    assert_string_equal(value_text(&list->items[1]), "\\\"");
    assert_string_equal(value_text(&list->items[2]), "x");
    assert_int_equal(list->items[1].bytes.length, 2);
    const struct span half = span_of_text("\"\\u0041\xc3\"");
    assert_int_equal(value_read_json(half, &arena, &value, NULL), STATUS_BAD_DATA);
}

static void bounds_of_its_own_bind_a_reader(void **state)
{
    (void)state;
    static const struct value_bounds BOUNDS = { .depth_max = 2, .count_max = 4 };
    struct value value;
    const struct span fits = span_of_text("[[1,2]]");
    const struct span deep = span_of_text("[[[]]]");
    const struct span many = span_of_text("[1,2,3,4]");
    assert_int_equal(value_read_json_within(&BOUNDS, fits, &arena, &value, NULL), STATUS_OK);
    assert_int_equal(value_read_json_within(&BOUNDS, deep, &arena, &value, NULL), STATUS_BAD_DATA);
    assert_int_equal(value_read_json_within(&BOUNDS, many, &arena, &value, NULL), STATUS_BAD_DATA);
}

static void msgpack_means_what_json_means(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *canonical;
    } CASES[] = {
        { "\x80", 1, "{}" },
        { "\x82\xa1"
          "b\x91\x01\xa1"
          "a\xc0",
          8, "{\"a\":null,\"b\":[1]}" },
        { "\xff", 1, "-1" },
        { "\xe0", 1, "-32" },
        { "\xcc\xc8", 2, "200" },
        { "\xcd\xff\xff", 3, "65535" },
        { "\xce\xff\xff\xff\xff", 5, "4294967295" },
        { "\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", 9, "9223372036854775807" },
        { "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9, "18446744073709551615" },
        { "\xd0\x80", 2, "-128" },
        { "\xd1\x80\x00", 3, "-32768" },
        { "\xd2\xff\xff\xff\xff", 5, "-1" },
        { "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 9, "-9223372036854775808" },
        { "\xca\x3d\xcc\xcc\xcd", 5, "0.1" },
        { "\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a", 9, "0.1" },
        { "\xcb\x40\x59\x00\x00\x00\x00\x00\x00", 9, "100" },
        { "\xcb\x80\x00\x00\x00\x00\x00\x00\x00", 9, "0" },
        { "\xc3", 1, "true" },
        { "\xc2", 1, "false" },
        { "\xd9\x01x", 3, "\"x\"" },
        { "\xda\x00\x01x", 4, "\"x\"" },
        { "\xdb\x00\x00\x00\x01x", 6, "\"x\"" },
        { "\xc4\x03\x00\x01\xff", 5, "\"AAH/\"" },
        { "\xc4\x02\x00\x01", 4, "\"AAE=\"" },
        { "\xc4\x01\xff", 3, "\"/w==\"" },
        { "\xdc\x00\x01\x05", 4, "[5]" },
        { "\xdf\x00\x00\x00\x01\xa1k\x05", 8, "{\"k\":5}" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        assert_string_equal(canonical_of_msgpack(CASES[i].bytes, CASES[i].length),
                            CASES[i].canonical);
    }
}

static void msgpack_that_is_not_strict_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
    } CASES[] = {
        { "", 0 },
        { "\x01\x01", 2 },
        { "\xa2x", 2 },
        { "\xcd\x01", 2 },
        { "\xc1", 1 },                                 /* never used */
        { "\xd4\x01\x01", 3 },                         /* fixext */
        { "\xc7\x01\x01\x01", 4 },                     /* ext */
        { "\xa1\xff", 2 },                             /* not UTF-8 */
        { "\xa1\x00", 2 },                             /* NUL */
        { "\x81\x01\x01", 3 },                         /* a name that is no text */
        { "\x82\xa1k\x01\xa1k\x02", 7 },               /* a name twice */
        { "\xca\x7f\x80\x00\x00", 5 },                 /* infinity */
        { "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", 9 }, /* NaN */
        { "\xdd\xff\xff\xff\xff", 5 },                 /* claims more than it has */
        { "\xdf\xff\xff\xff\xff", 5 },
        { "\xdb\xff\xff\xff\xff", 5 },
        { "\xc6\xff\xff\xff\xff", 5 },
        { "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x01", 10 },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct value value;
        const char *error = NULL;
        const struct span bytes = { (const uint8_t *)CASES[i].bytes, CASES[i].length };
        if (value_read_msgpack(bytes, &arena, &value, &error) == STATUS_OK) {
            fail_msg("case %zu was read", i);
        }
        assert_non_null(error);
    }
}

static void both_forms_come_back(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "{\"a\":[1,-1,0.5,\"x\\\"\",true,false,null,{\"b\":9223372036854775807}]}",
        "\"\"",
        "[[],{}]",
    };
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        struct value value;
        struct value again;
        const struct span text = span_of_text(TEXTS[i]);
        assert_int_equal(value_read_json(text, &arena, &value, NULL), STATUS_OK);
        assert_string_equal((const char *)value_write_json(&value, &arena).data, TEXTS[i]);
        const struct span packed = value_write_msgpack(&value, &arena);
        assert_int_equal(value_read_msgpack(packed, &arena, &again, NULL), STATUS_OK);
        assert_string_equal((const char *)value_write_json(&again, &arena).data, TEXTS[i]);
    }
}

static void content_types_are_read_with_parameters_in_any_case(void **state)
{
    (void)state;
    enum content_type type;
    assert_true(content_type_parse("application/json", &type));
    assert_int_equal(type, CONTENT_JSON);
    assert_true(content_type_parse(" Application/MsgPack ; v=1", &type));
    assert_int_equal(type, CONTENT_MSGPACK);
    assert_false(content_type_parse("application/jsonx", &type));
    assert_false(content_type_parse("text/plain", &type));
    assert_false(content_type_parse("", &type));
}

static void members_are_found_by_name(void **state)
{
    (void)state;
    struct value map = value_map_make(&arena, 2);
    value_map_add(&map, "a", value_of_text("x"));
    value_map_add(&map, "b", value_of_integer(1));
    assert_string_equal(value_text(value_find(&map, "a")), "x");
    assert_null(value_text(value_find(&map, "b")));
    assert_null(value_find(&map, "c"));
    assert_null(value_find(NULL, "a"));
    const struct value text = value_of_text("x");
    assert_null(value_find(&text, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_one_normal_form),
        cmocka_unit_test(only_small_integer_tokens_are_integers),
        cmocka_unit_test(json_that_is_not_strict_is_refused),
        cmocka_unit_test(the_number_of_values_is_bounded),
        cmocka_unit_test(the_bound_is_the_same_in_both_forms),
        cmocka_unit_test(texts_are_whole_whatever_stands_beside_them),
        cmocka_unit_test(bounds_of_its_own_bind_a_reader),
        cmocka_unit_test(msgpack_means_what_json_means),
        cmocka_unit_test(msgpack_that_is_not_strict_is_refused),
        cmocka_unit_test(both_forms_come_back),
        cmocka_unit_test(content_types_are_read_with_parameters_in_any_case),
        cmocka_unit_test(members_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
