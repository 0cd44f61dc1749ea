/* tests/unit/provider_key_test.c: one key per attempt step, the same after any restore. */
#include "pipeline/provider_key.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct provider_key_input PLAIN = {
    .installation = "dev",
    .merchant = "m-1001",
    .out_trade_no = "t-1",
    .operation = OPERATION_CREATE,
    .number = 1,
    .ordinal = 1,
    .step = 1,
};

static void a_key_is_pinned_for_ever(void **state)
{
    (void)state;
    char text[PROVIDER_KEY_SIZE];
    assert_string_equal(provider_key_make(&PLAIN, 255, text),
                        "op_iwf7cpk2w264ekglkl2psuehmwvea23w646bszaoyg7y6naaa7xq");
}

static void each_part_makes_another_key(void **state)
{
    (void)state;
    struct provider_key_input inputs[9];
    for (size_t i = 0; i < COUNT_OF(inputs); i++) inputs[i] = PLAIN;
    inputs[1].installation = "prod";
    inputs[2].merchant = "m-1002";
    inputs[3].out_trade_no = "t-2";
    inputs[4].operation = OPERATION_REFUND;
    inputs[5].number = 2;
    inputs[6].ordinal = 2;
    inputs[7].step = 2;
    inputs[8].merchant = "m-1001 3:t-1"; /* borders between the parts cannot be shifted */
    inputs[8].out_trade_no = "";
    char keys[COUNT_OF(inputs)][PROVIDER_KEY_SIZE];
    for (size_t i = 0; i < COUNT_OF(inputs); i++) {
        (void)provider_key_make(&inputs[i], 255, keys[i]);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(keys[i], keys[j]);
    }
}

static void keys_fit_the_psp(void **state)
{
    (void)state;
    static const int LENGTHS[] = { 24, 32, 36, 54, 55, 64, 255 };
    for (size_t i = 0; i < COUNT_OF(LENGTHS); i++) {
        char text[PROVIDER_KEY_SIZE];
        const size_t expected = LENGTHS[i] < 55 ? (size_t)LENGTHS[i] : 55;
        (void)provider_key_make(&PLAIN, LENGTHS[i], text);
        assert_int_equal(strlen(text), expected);
        assert_int_equal(strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_"), expected);
        assert_memory_equal(text, "op_", 3);
    }
}

static void the_longest_names_are_taken(void **state)
{
    (void)state;
    char name[65];
    char text[PROVIDER_KEY_SIZE];
    memset(name, 'x', 64);
    name[64] = '\0';
    struct provider_key_input input = PLAIN;
    input.installation = input.merchant = input.out_trade_no = name;
    assert_int_equal(strlen(provider_key_make(&input, 255, text)), 55);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_pinned_for_ever),
        cmocka_unit_test(each_part_makes_another_key),
        cmocka_unit_test(keys_fit_the_psp),
        cmocka_unit_test(the_longest_names_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
