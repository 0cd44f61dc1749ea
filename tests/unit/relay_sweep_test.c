/* tests/unit/relay_sweep_test.c: lost commands: what is emitted again, and where the mark stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "stages/relay/relay_sweep.h"

static void marks_move_over_what_moved(void **state)
{
    (void)state;
    struct relay_sweep_row rows[] = { { 10, false, false }, { 20, false, false } };
    struct relay_sweep sweep = {
        .rows = rows, .count = 2, .horizon_us = 500, .oldest_left_us = INT64_MAX, .allowance = 9
    };
    struct relay_sweep_end end = relay_sweep_decide(&sweep);
    assert_int_equal(end.mark_us, 500); /* all up to here were asked for */
    assert_int_equal(end.emitted, 0);
    assert_false(end.is_held);
    sweep.is_full = true;
    assert_int_equal(relay_sweep_decide(&sweep).mark_us, 20);
    sweep.count = 0;
    sweep.is_full = false;
    assert_int_equal(relay_sweep_decide(&sweep).mark_us, 500);
}

static void lost_commands_are_emitted(void **state)
{
    (void)state;
    struct relay_sweep_row rows[] = { { 10, true, false },
                                      { 20, false, false },
                                      { 30, true, false } };
    struct relay_sweep sweep = {
        .rows = rows, .count = 3, .horizon_us = 99, .oldest_left_us = INT64_MAX, .allowance = 9
    };
    const struct relay_sweep_end end = relay_sweep_decide(&sweep);
    assert_int_equal(end.emitted, 2);
    assert_int_equal(end.mark_us, 99);
    assert_true(rows[0].is_emitted && !rows[1].is_emitted && rows[2].is_emitted);
}

static void a_message_that_is_left_holds_the_mark(void **state)
{
    (void)state;
    struct relay_sweep_row rows[] = { { 10, true, false },
                                      { 20, true, false },
                                      { 30, true, false } };
    struct relay_sweep sweep = {
        .rows = rows, .count = 3, .horizon_us = 99, .oldest_left_us = 20, .allowance = 9
    };
    const struct relay_sweep_end end = relay_sweep_decide(&sweep);
    assert_int_equal(end.emitted, 1); /* older than all that is left */
    assert_int_equal(end.mark_us, 19);
    assert_true(end.is_held);
    assert_false(rows[1].is_emitted || rows[2].is_emitted);
}

static void a_cap_parts_no_moment(void **state)
{
    (void)state;
    struct relay_sweep_row rows[] = {
        { 10, true, false }, { 10, true, false }, { 10, true, false }, { 11, true, false }
    };
    struct relay_sweep sweep = {
        .rows = rows, .count = 4, .horizon_us = 99, .oldest_left_us = INT64_MAX, .allowance = 2
    };
    const struct relay_sweep_end end = relay_sweep_decide(&sweep);
    assert_int_equal(end.emitted, 3);
    assert_int_equal(end.mark_us, 10);
    assert_true(end.is_held);
}

static void without_allowance_nothing_happens(void **state)
{
    (void)state;
    struct relay_sweep_row rows[] = { { 10, false, false }, { 12, true, false } };
    struct relay_sweep sweep = {
        .rows = rows, .count = 2, .horizon_us = 99, .oldest_left_us = INT64_MAX, .allowance = 0
    };
    assert_true(relay_sweep_has_unmoved(&sweep));
    const struct relay_sweep_end end = relay_sweep_decide(&sweep);
    assert_int_equal(end.emitted, 0);
    assert_int_equal(end.mark_us, 11);
}

static void what_never_moves_is_not_waited_for(void **state)
{
    (void)state;
    struct relay_standstill still = { 0 };
    /* The floor moves: what is above it is left. */
    assert_int_equal(relay_standstill_left_from(&still, 10, 20, 1, 60), 11);
    assert_int_equal(relay_standstill_left_from(&still, 12, 25, 50, 60), 13);
    /* It stands still, while more is delivered: for two ack waits that may be slowness. */
    assert_int_equal(relay_standstill_left_from(&still, 12, 30, 109, 60), 13);
    assert_int_equal(relay_standstill_left_from(&still, 12, 30, 110, 60), 26);
    /* What came later is waited for in its turn. */
    assert_int_equal(relay_standstill_left_from(&still, 12, 40, 169, 60), 26);
    assert_int_equal(relay_standstill_left_from(&still, 12, 40, 170, 60), 31);
    /* It moves again. */
    assert_int_equal(relay_standstill_left_from(&still, 50, 60, 171, 60), 51);
    /* A consumer that was made anew begins anew. */
    assert_int_equal(relay_standstill_left_from(&still, 0, 1, 172, 60), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_move_over_what_moved),
        cmocka_unit_test(lost_commands_are_emitted),
        cmocka_unit_test(a_message_that_is_left_holds_the_mark),
        cmocka_unit_test(a_cap_parts_no_moment),
        cmocka_unit_test(without_allowance_nothing_happens),
        cmocka_unit_test(what_never_moves_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
