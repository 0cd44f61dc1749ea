/* tests/unit/relay_reader_test.c: which events count as read, and how far the mark may follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "stages/relay/relay_reader.h"

static void a_round_ends_at_its_snapshot(void **state)
{
    (void)state;
    struct relay_reader reader = { 0 };
    relay_reader_start(&reader, 100);
    assert_string_equal(reader.base, "100:100:");
    const struct relay_reader_page page = { .snapshot = "150:170:150,161", .xmin = 150 };
    assert_int_equal(relay_reader_step(&reader, &page), 150);
    assert_string_equal(reader.base, "150:170:150,161");
    assert_false(relay_reader_is_paging(&reader));
    relay_reader_finish(&reader);
}

static void pages_belong_to_the_first_ones_snapshot(void **state)
{
    (void)state;
    struct relay_reader reader = { 0 };
    relay_reader_start(&reader, 100);
    const struct uuid id = { { 9 } };
    struct relay_reader_page page = {
        .snapshot = "150:170:150,161", .xmin = 150, .is_full = true, .last_xid = 120, .last_id = id
    };
    assert_int_equal(relay_reader_step(&reader, &page), 120);
    assert_true(relay_reader_is_paging(&reader));
    assert_string_equal(reader.base, "100:100:");
    assert_string_equal(reader.target, "150:170:150,161");
    assert_int_equal(reader.after_xid, 120);
    assert_true(uuid_equal(reader.after_id, id));
    page.last_xid = 165; /* 150 still runs: the mark stays before it */
    assert_int_equal(relay_reader_step(&reader, &page), 150);
    page.is_full = false;
    assert_int_equal(relay_reader_step(&reader, &page), 150);
    assert_false(relay_reader_is_paging(&reader));
    assert_string_equal(reader.base, "150:170:150,161");
    assert_int_equal(reader.after_xid, 0);
    relay_reader_finish(&reader);
}

static void a_limit_ends_the_reading(void **state)
{
    (void)state;
    struct relay_reader reader = { 0 };
    relay_reader_start(&reader, 5);
    relay_reader_limit(&reader, "90:90:");
    assert_true(relay_reader_is_paging(&reader));
    const struct relay_reader_page page = { .snapshot = "90:90:", .xmin = 90 };
    assert_int_equal(relay_reader_step(&reader, &page), 90);
    assert_false(relay_reader_is_paging(&reader));
    relay_reader_finish(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_ends_at_its_snapshot),
        cmocka_unit_test(pages_belong_to_the_first_ones_snapshot),
        cmocka_unit_test(a_limit_ends_the_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
