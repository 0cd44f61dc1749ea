/* tests/unit/money_test.c: currencies with their exponents, and arithmetic that refuses to wrap. */
#include "pipeline/money.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct money money_of(int64_t minor, const char *code)
{
    struct money money = { .minor = minor };
    assert_true(currency_parse(code, &money.currency));
    return money;
}

static void exponents_are_those_of_iso_4217(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        int exponent;
    } CASES[] = {
        { "EUR", 2 }, { "USD", 2 }, { "JPY", 0 }, { "KRW", 0 }, { "KWD", 3 }, { "BHD", 3 },
        { "TND", 3 }, { "CLP", 0 }, { "CLF", 4 }, { "ISK", 0 }, { "UGX", 0 }, { "MGA", 2 },
        { "IDR", 2 }, { "AED", 2 }, { "ZWG", 2 }, { "XOF", 0 },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct currency currency;
        int exponent = -1;
        assert_true(currency_parse(CASES[i].code, &currency));
        assert_string_equal(currency.code, CASES[i].code);
        assert_true(currency_exponent(currency, &exponent));
        assert_int_equal(exponent, CASES[i].exponent);
    }
}

static void what_is_no_active_code_is_refused(void **state)
{
    (void)state;
    static const char *const CODES[] = { "",    "EU",  "EURO", "eur", "XXX", "DEM",
                                         "HRK", "XAU", "ABC",  "E R", "1EU", "ZWL" };
    struct currency currency = { "EUR" };
    for (size_t i = 0; i < COUNT_OF(CODES); i++) {
        assert_false(currency_parse(CODES[i], &currency));
        assert_string_equal(currency.code, "EUR");
    }
}

static void sums_are_exact_up_to_the_last_unit(void **state)
{
    (void)state;
    struct money sum;
    assert_true(money_add(money_of(1, "EUR"), money_of(2, "EUR"), &sum));
    assert_int_equal(sum.minor, 3);
    assert_true(money_add(money_of(INT64_MAX - 1, "IDR"), money_of(1, "IDR"), &sum));
    assert_true(sum.minor == INT64_MAX);
    assert_true(money_subtract(money_of(-1, "EUR"), money_of(INT64_MAX, "EUR"), &sum));
    assert_true(sum.minor == INT64_MIN);
    assert_string_equal(sum.currency.code, "EUR");
}

static void overflow_and_mixed_currencies_leave_the_result_alone(void **state)
{
    (void)state;
    struct money result = money_of(7, "EUR");
    assert_false(money_add(money_of(INT64_MAX, "EUR"), money_of(1, "EUR"), &result));
    assert_false(money_add(money_of(INT64_MIN, "EUR"), money_of(-1, "EUR"), &result));
    assert_false(money_subtract(money_of(INT64_MIN, "EUR"), money_of(1, "EUR"), &result));
    assert_false(money_subtract(money_of(0, "EUR"), money_of(INT64_MIN, "EUR"), &result));
    assert_false(money_add(money_of(1, "EUR"), money_of(1, "USD"), &result));
    assert_true(money_equal(result, money_of(7, "EUR")));
    assert_false(money_equal(money_of(7, "EUR"), money_of(7, "USD")));
}

/* A small generator of its own, so that a failure repeats. */
static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void sums_agree_with_wider_arithmetic(void **state)
{
    (void)state;
    uint64_t seed = 20261130;
    for (int i = 0; i < 200000; i++) {
        const unsigned shift_a = (unsigned)(next_random(&seed) % 64);
        const unsigned shift_b = (unsigned)(next_random(&seed) % 64);
        const int64_t a = (int64_t)(next_random(&seed) >> shift_a);
        const int64_t b = (int64_t)(next_random(&seed) >> shift_b);
        /* The top bits of a sum that is taken apart cannot overflow. */
        const int64_t high = a / 4 + b / 4 + (a % 4 + b % 4) / 4;
        const bool fits = high >= INT64_MIN / 4 && high <= INT64_MAX / 4;
        struct money sum;
        const bool is_added = money_add(money_of(a, "EUR"), money_of(b, "EUR"), &sum);
        if (is_added) {
            assert_true((uint64_t)sum.minor == (uint64_t)a + (uint64_t)b);
            assert_true(b >= 0 ? sum.minor >= a : sum.minor < a);
        } else {
            assert_false(fits && high > INT64_MIN / 4 + 1 && high < INT64_MAX / 4 - 1);
        }
    }
}

static void people_read_amounts_with_their_own_exponent(void **state)
{
    (void)state;
    static const struct {
        int64_t minor;
        const char *code;
        const char *text;
    } CASES[] = {
        { 1234, "EUR", "12.34 EUR" },
        { 5, "EUR", "0.05 EUR" },
        { 80, "JPY", "80 JPY" },
        { 7500, "KWD", "7.500 KWD" },
        { 0, "USD", "0.00 USD" },
        { -1, "USD", "-0.01 USD" },
        { 100, "CLF", "0.0100 CLF" },
        { INT64_MAX, "EUR", "92233720368547758.07 EUR" },
        { INT64_MIN, "JPY", "-9223372036854775808 JPY" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char text[MONEY_TEXT_SIZE];
        assert_string_equal(money_format(money_of(CASES[i].minor, CASES[i].code), text),
                            CASES[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponents_are_those_of_iso_4217),
        cmocka_unit_test(what_is_no_active_code_is_refused),
        cmocka_unit_test(sums_are_exact_up_to_the_last_unit),
        cmocka_unit_test(overflow_and_mixed_currencies_leave_the_result_alone),
        cmocka_unit_test(sums_agree_with_wider_arithmetic),
        cmocka_unit_test(people_read_amounts_with_their_own_exponent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
