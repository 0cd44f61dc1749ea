/* tests/unit/clock_test.c: RFC 3339 there and back, and what is refused. */
#include "pipeline/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void known_moments_have_their_text(void **state)
{
    (void)state;
    static const struct {
        int64_t second;
        const char *text;
    } CASES[] = {
        { 0, "1970-01-01T00:00:00.000000Z" },
        { 951782400, "2000-02-29T00:00:00.000000Z" },
        { 1760000000, "2025-10-09T08:53:20.000000Z" },
        { 1796033700, "2026-11-30T10:15:00.000000Z" },
        { 4107542399, "2100-02-28T23:59:59.000000Z" },
        { 4107542400, "2100-03-01T00:00:00.000000Z" },
        { 253402300799, "9999-12-31T23:59:59.000000Z" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char text[CLOCK_TEXT_SIZE];
        int64_t us = -1;
        const int64_t expected_us = CASES[i].second * CLOCK_SECOND_US;
        assert_string_equal(clock_format(expected_us, text), CASES[i].text);
        assert_true(clock_parse(text, &us));
        assert_int_equal(us, expected_us);
    }
}

static void all_forms_of_rfc_3339_are_read(void **state)
{
    (void)state;
    static const char *const SAME[] = {
        "2026-11-30T10:15:00Z",          "2026-11-30t10:15:00z",
        "2026-11-30 10:15:00Z",          "2026-11-30T10:15:00.0Z",
        "2026-11-30T11:15:00+01:00",     "2026-11-30T04:45:00-05:30",
        "2026-11-30T10:15:00.0000009Z",  "2026-11-30T10:14:60Z",
        "2026-12-01T09:15:00.000+23:00",
    };
    for (size_t i = 0; i < COUNT_OF(SAME); i++) {
        int64_t us = -1;
        assert_true(clock_parse(SAME[i], &us));
        assert_int_equal(us, INT64_C(1796033700) * CLOCK_SECOND_US);
    }
    int64_t us = 0;
    assert_true(clock_parse("1970-01-01T00:00:00.123456Z", &us));
    assert_int_equal(us, 123456);
}

static void other_text_is_refused(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "",
        "2026",
        "2026-11-30",
        "2026-11-30T10:15:00",
        "2026-11-30T10:15Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T10:60:00Z",
        "2026-11-30T10:15:61Z",
        "2026-11-30T10:15:00.Z",
        "2026-11-30T10:15:00Zx",
        "2026-11-30T10:15:00+1:00",
        "2026-11-30T10:15:00+24:00",
        "26-11-30T10:15:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:30:00+01:00",
        "9999-12-31T23:59:59-00:01",
        "1796033700",
    };
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        int64_t us = 42;
        assert_false(clock_parse(TEXTS[i], &us));
        assert_int_equal(us, 42);
    }
}

static void every_day_of_four_centuries_comes_back(void **state)
{
    (void)state;
    for (int64_t day = 0; day < 146097; day++) {
        char text[CLOCK_TEXT_SIZE];
        int64_t us = -1;
        const int64_t noon_us = (day * 86400 + 43200) * CLOCK_SECOND_US + 1;
        assert_true(clock_parse(clock_format(noon_us, text), &us));
        assert_int_equal(us, noon_us);
    }
}

static void the_monotonic_clock_does_not_go_back(void **state)
{
    (void)state;
    int64_t last_us = clock_monotonic_us();
    for (int i = 0; i < 1000; i++) {
        const int64_t now_us = clock_monotonic_us();
        assert_true(now_us >= last_us);
        last_us = now_us;
    }
    assert_true(clock_real_us() > INT64_C(1700000000) * CLOCK_SECOND_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_moments_have_their_text),
        cmocka_unit_test(all_forms_of_rfc_3339_are_read),
        cmocka_unit_test(other_text_is_refused),
        cmocka_unit_test(every_day_of_four_centuries_comes_back),
        cmocka_unit_test(the_monotonic_clock_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
