/* tests/unit/canonical_test.c: one content, one text, whatever the form it came in. */
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

static const char *canonical_of(const char *json)
{
    struct value value;
    assert_int_equal(value_read_json(span_of_text(json), &arena, &value, NULL), STATUS_OK);
    return (const char *)canonical_json(&value, &arena).data;
}

static void members_are_sorted_by_bytes_at_every_depth(void **state)
{
    (void)state;
    assert_string_equal(canonical_of(" { \"b\" : [ 1 , true , null ] , \"a\" : \"x\" } "),
                        "{\"a\":\"x\",\"b\":[1,true,null]}");
    assert_string_equal(canonical_of("{\"Z\":1,\"a\":{\"d\":1,\"c\":2},\"_\":3}"),
                        "{\"Z\":1,\"_\":3,\"a\":{\"c\":2,\"d\":1}}");
    assert_string_equal(canonical_of("{\"\xc3\xa9\":1,\"z\":2}"), "{\"z\":2,\"\xc3\xa9\":1}");
    assert_string_equal(canonical_of("[{\"b\":1,\"a\":2},[]]"), "[{\"a\":2,\"b\":1},[]]");
    assert_string_equal(canonical_of("{}"), "{}");
}

static void text_has_the_shortest_escapes(void **state)
{
    (void)state;
    assert_string_equal(
        canonical_of("\"\\u0041\\/\\n\\t\\b\\f\\r\\u001f\\u007f\\u00e9\\ud83d\\ude00\""),
        "\"A/\\n\\t\\b\\f\\r\\u001f\x7f\xc3\xa9\xf0\x9f\x98\x80\"");
}

static void numbers_agree_however_they_are_written(void **state)
{
    (void)state;
    assert_string_equal(canonical_of("{\"n\":100}"), canonical_of("{\"n\":100.00}"));
    assert_string_equal(canonical_of("{\"n\":1e2}"), canonical_of("{\"n\":100.00}"));
    assert_string_not_equal(canonical_of("{\"n\":100.01}"), canonical_of("{\"n\":100.00}"));
    assert_string_not_equal(canonical_of("{\"n\":\"100\"}"), canonical_of("{\"n\":100}"));
}

static void numbers_beyond_a_double_stay_apart(void **state)
{
    (void)state;
    assert_string_not_equal(canonical_of("9007199254740993"), canonical_of("9007199254740992"));
    assert_string_not_equal(canonical_of("0.30000000000000000001"),
                            canonical_of("0.30000000000000000002"));
}

static void it_is_its_own_canonical_form(void **state)
{
    (void)state;
    const char *once = canonical_of("{\"b\":[1.50,\"\\u00e9\\n\"],\"a\":{\"y\":null,\"x\":1e50}}");
    assert_string_equal(canonical_of(once), once);
}

static void the_longest_numbers_can_be_read_again(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "22222222222222222222222222222222222222222222222221",
        "0.2222222222222222222222222222222222222222222222221",
        "-2222222222222222222222222222222222222222222222222.1e-60",
        "1e999",
        "100e-999",
        "1.5E+0998",
    };
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        const char *once = canonical_of(TEXTS[i]);
        assert_string_equal(canonical_of(once), once);
    }
    static const char *const REFUSED[] = {
        "222222222222222222222222222222222222222222222222221", /* 51 digits */
        "10e999",                                              /* is 1e1000 */
        "0.1e-999",
    };
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        struct value value;
        const struct span text = span_of_text(REFUSED[i]);
        assert_int_equal(value_read_json(text, &arena, &value, NULL), STATUS_BAD_DATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_sorted_by_bytes_at_every_depth),
        cmocka_unit_test(text_has_the_shortest_escapes),
        cmocka_unit_test(numbers_agree_however_they_are_written),
        cmocka_unit_test(numbers_beyond_a_double_stay_apart),
        cmocka_unit_test(it_is_its_own_canonical_form),
        cmocka_unit_test(the_longest_numbers_can_be_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
