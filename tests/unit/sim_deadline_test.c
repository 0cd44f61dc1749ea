/* tests/unit/sim_deadline_test.c: the simulator's heap of things to do later. */
#include "ops/sim/deadline.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { COUNT = 500 };

struct item {
    struct deadline deadline;
    int number;
};

static int fired[COUNT];
static size_t fired_count;

static void note(void *self)
{
    fired[fired_count++] = ((struct item *)self)->number;
}

static void fires_in_order_of_time_then_of_arming(void **state)
{
    (void)state;
    static struct item items[COUNT];
    struct deadline_queue queue = { 0 };
    fired_count = 0;
    for (int i = 0; i < COUNT; i++) {
        items[i] = (struct item){ .deadline = { .fire = note, .self = &items[i] }, .number = i };
        deadline_arm(&queue, &items[i].deadline, i * 7919 % 100);
    }
    for (int i = 0; i < COUNT; i += 3) deadline_cancel(&queue, &items[i].deadline);
    for (int i = 1; i < COUNT; i += 30) deadline_arm(&queue, &items[i].deadline, 200);
    assert_int_equal(deadline_wait_ms(&queue, -5, 1000), 5);
    deadline_run(&queue, 99);
    const size_t early = fired_count;
    for (size_t i = 1; i < early; i++) {
        const int before = fired[i - 1] * 7919 % 100;
        const int after = fired[i] * 7919 % 100;
        assert_true(before < after || (before == after && fired[i - 1] < fired[i]));
        assert_true(fired[i] % 3 != 0);
    }
    assert_int_equal(deadline_wait_ms(&queue, 99, 1000), 101);
    deadline_run(&queue, 200);
    assert_int_equal(fired_count, COUNT - (COUNT + 2) / 3);
    assert_int_equal(queue.count, 0);
    assert_int_equal(deadline_wait_ms(&queue, 0, 1000), 1000);
    deadline_finish(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fires_in_order_of_time_then_of_arming),
    };
    return cmocka_run_group_tests_name("sim_deadline", tests, NULL, NULL);
}
