/* tests/unit/mask_test.c: what counts as a card number, and what must be left alone. */
#include "pipeline/mask.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void card_numbers_are_masked_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *masked;
    } CASES[] = {
        { "4242424242424242", "****************" },
        { "378282246310005", "***************" },         /* 15 digits */
        { "4222222222222", "*************" },             /* 13 digits */
        { "6304000000000000000", "*******************" }, /* 19 digits */
        { "{\"number\":\"4000000000000002\"}", "{\"number\":\"****************\"}" },
        { "x4242424242424242y 5555555555554444", "x****************y ****************" },
        { "4242 4242 4242 4242", "**** **** **** ****" },
        { "4242-4242-4242-4242", "****-****-****-****" },
        { "card 4242 4242 4242 4242 12 30", "card **** **** **** **** 12 30" },
        { "12 4242 4242 4242 4242", "12 **** **** **** ****" },
        /* left alone */
        { "4242424242424241", "4242424242424241" },         /* Luhn fails */
        { "424242424242", "424242424242" },                 /* 12 digits */
        { "42424242424242424242", "42424242424242424242" }, /* 20 digits: an id */
        { "0000000000000000", "0000000000000000" },
        { "4242  4242  4242  4242", "4242  4242  4242  4242" }, /* two spaces: a table */
        { "1760000000", "1760000000" },
        { "pi_3OaBcD2eZvKYlo2C", "pi_3OaBcD2eZvKYlo2C" },
        { "", "" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "%s", CASES[i].text);
        const size_t found = mask_card_numbers(text, strlen(text));
        assert_string_equal(text, CASES[i].masked);
        const bool differs = strcmp(CASES[i].text, CASES[i].masked) != 0;
        assert_int_equal(found != 0, differs);
        assert_int_equal(mask_has_card_number(span_of_text(CASES[i].text)), differs);
    }
}

static void bytes_behind_the_length_are_not_read(void **state)
{
    (void)state;
    char *text = malloc(13); /* exact, so that the address sanitizer guards the end */
    assert_non_null(text);
    memcpy(text, "4222222222222", 13);
    assert_int_equal(mask_card_numbers(text, 12), 0);
    assert_int_equal(mask_card_numbers(text, 13), 1);
    free(text);
    assert_false(mask_has_card_number((struct span){ NULL, 0 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(card_numbers_are_masked_and_nothing_else),
        cmocka_unit_test(bytes_behind_the_length_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
