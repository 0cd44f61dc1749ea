/* tests/unit/twins_test.c: each id once until the clear, however ids share their places. */
#include "stages/twins.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct twins twins;

static struct uuid numbered(uint32_t number)
{
    struct uuid id = { { 0 } };
    memcpy(id.bytes, &number, sizeof number);
    return id;
}

static void each_id_is_taken_once(void **state)
{
    (void)state;
    twins_clear(&twins);
    for (uint32_t i = 0; i <= TWINS_MAX; i++) assert_true(twins_add(&twins, numbered(i)));
    for (uint32_t i = 0; i <= TWINS_MAX; i++) assert_false(twins_add(&twins, numbered(i)));
    twins_clear(&twins);
    for (uint32_t i = 0; i <= TWINS_MAX; i++) assert_true(twins_add(&twins, numbered(i)));
}

static void nil_is_an_id_like_any(void **state)
{
    (void)state;
    twins_clear(&twins);
    assert_true(twins_add(&twins, numbered(0)));
    assert_false(twins_add(&twins, numbered(0)));
    assert_true(twins_add(&twins, numbered(1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_id_is_taken_once),
        cmocka_unit_test(nil_is_an_id_like_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
