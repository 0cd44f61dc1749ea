/* tests/unit/feed_book_test.c: the feeder behaves as a producer must, and counts what it saw. */
#include "ops/feed/feed_book.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "pipeline/clock.h"

#define SECOND CLOCK_SECOND_US

static struct feed_options options_for(size_t payments, size_t in_flight, size_t rate_per_s)
{
    return (struct feed_options){
        .payments = payments,
        .prefix = "t",
        .amount_min_minor = 100,
        .amount_max_minor = 200,
        .seed = 7,
        .rate_per_s = rate_per_s,
        .in_flight = in_flight,
    };
}

static size_t send_all(struct feed_book *book, int64_t now_us)
{
    size_t count = 0;
    size_t index = 0;
    int64_t wait_us = 0;
    while (feed_book_next(book, now_us, &index, &wait_us)) {
        assert_int_equal(index, book->sent_count);
        feed_book_sent(book, index, now_us);
        count++;
    }
    return count;
}

static void in_flight_bounds_what_is_unanswered(void **state)
{
    (void)state;
    const struct feed_options options = options_for(10, 4, 0);
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    assert_int_equal(send_all(&book, 1), 4);
    feed_book_accepted(&book, 2, "id", 2);
    feed_book_refused(&book, 0, 2);
    assert_int_equal(send_all(&book, 3), 2);
    assert_int_equal(book.asked_count, 4);
    feed_book_finish(&book);
}

static void a_rate_is_an_open_loop(void **state)
{
    (void)state;
    const struct feed_options options = options_for(100, 100, 10);
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    size_t index = 0;
    int64_t wait_us = 0;
    assert_int_equal(send_all(&book, 0), 1);
    assert_false(feed_book_next(&book, 0, &index, &wait_us));
    assert_int_equal(wait_us, SECOND / 10);
    /* Late by a second: all that is due goes out, and counts from when it was due. */
    assert_int_equal(send_all(&book, SECOND), 10);
    assert_int_equal(book.payments[10].planned_us, SECOND);
    assert_int_equal(book.payments[4].planned_us, 4 * SECOND / 10);
    feed_book_finish(&book);
}

static void what_has_no_end_is_bounded(void **state)
{
    (void)state;
    struct feed_options options = options_for(10, 10, 0);
    options.unfinished = 4;
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    assert_int_equal(send_all(&book, 1), 4);
    feed_book_accepted(&book, 0, "id", 2);
    assert_int_equal(send_all(&book, 2), 0); /* an answer is no end */
    feed_book_ended(&book, 0, FEED_END_SUCCEEDED, 3);
    feed_book_refused(&book, 1, 3);
    assert_int_equal(send_all(&book, 4), 2);
    feed_book_finish(&book);
}

static void nothing_new_after_its_time_and_what_is_out_is_waited_for(void **state)
{
    (void)state;
    struct feed_options options = options_for(10, 2, 0);
    options.seconds_us = 5 * SECOND;
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    assert_int_equal(send_all(&book, 1), 2);
    feed_book_close(&book, 5 * SECOND - 1);
    feed_book_accepted(&book, 0, "id", 2);
    assert_int_equal(send_all(&book, 3), 1);
    feed_book_close(&book, 5 * SECOND);
    feed_book_accepted(&book, 1, "id", 5 * SECOND);
    assert_int_equal(send_all(&book, 5 * SECOND), 0);
    feed_book_accepted(&book, 2, "id", 6 * SECOND);
    assert_false(feed_book_is_done(&book));
    for (size_t i = 0; i < 3; i++) feed_book_ended(&book, i, FEED_END_SUCCEEDED, 6 * SECOND);
    assert_true(feed_book_is_done(&book));
    feed_book_finish(&book);
}

static void what_is_not_answered_is_repeated_ever_more_slowly(void **state)
{
    (void)state;
    const struct feed_options options = options_for(1, 1, 0);
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    assert_int_equal(send_all(&book, 0), 1);
    int64_t now_us = 0;
    int64_t waits_us[5];
    for (size_t i = 0; i < COUNT_OF(waits_us); i++) {
        size_t index = 0;
        assert_int_equal(feed_book_overdue(&book, now_us, 1, &index), 0);
        waits_us[i] = book.payments[0].repeat_us - now_us;
        now_us = book.payments[0].repeat_us;
        assert_int_equal(feed_book_overdue(&book, now_us, 1, &index), 1);
        feed_book_sent(&book, index, now_us);
    }
    assert_in_range(waits_us[0], 16 * SECOND / 10, 24 * SECOND / 10);
    assert_in_range(waits_us[4], 8 * SECOND, 12 * SECOND);
    assert_int_equal(book.repeats, 5);
    assert_int_equal(book.sent_count, 1);
    feed_book_accepted(&book, 0, "id", now_us);
    size_t index = 0;
    assert_int_equal(feed_book_overdue(&book, INT64_MAX, 1, &index), 0);
    feed_book_finish(&book);
}

static void the_first_answer_and_the_first_end_count(void **state)
{
    (void)state;
    const struct feed_options options = options_for(2, 2, 0);
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    assert_int_equal(send_all(&book, 0), 2);
    feed_book_accepted(&book, 0, "first", 5);
    feed_book_accepted(&book, 0, "second", 6);
    feed_book_refused(&book, 0, 7);
    assert_string_equal(book.payments[0].id, "first");
    assert_int_equal(book.accepted, 1);
    assert_int_equal(book.refused, 0);
    feed_book_ended(&book, 0, FEED_END_SUCCEEDED, 8);
    feed_book_ended(&book, 0, FEED_END_FAILED, 9);
    assert_int_equal(book.ends[FEED_END_SUCCEEDED], 1);
    assert_int_equal(book.ends[FEED_END_FAILED], 0);
    assert_int_equal(book.payments[0].final_us, 8);
    feed_book_finish(&book);
}

static void an_event_may_overtake_the_answer(void **state)
{
    (void)state;
    const struct feed_options options = options_for(1, 1, 0);
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    assert_int_equal(send_all(&book, 0), 1);
    feed_book_ended(&book, 0, FEED_END_SUCCEEDED, 3);
    assert_false(feed_book_is_done(&book));
    feed_book_accepted(&book, 0, "id", 4);
    assert_true(feed_book_is_done(&book));
    feed_book_finish(&book);
}

static void a_refusal_needs_no_event(void **state)
{
    (void)state;
    const struct feed_options options = options_for(1, 1, 0);
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    assert_int_equal(send_all(&book, 0), 1);
    feed_book_refused(&book, 0, 4);
    assert_true(feed_book_is_done(&book));
    feed_book_finish(&book);
}

static void names_find_their_payment(void **state)
{
    (void)state;
    const struct feed_options options = options_for(20, 20, 0);
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    char name[FEED_NAME_SIZE];
    size_t index = 99;
    assert_string_equal(feed_book_name(&book, 7, name), "t-0000007");
    assert_true(feed_book_find(&book, name, &index));
    assert_int_equal(index, 7);
    assert_false(feed_book_find(&book, "t-0000020", &index));
    assert_false(feed_book_find(&book, "t-00000070", &index));
    assert_false(feed_book_find(&book, "u-0000007", &index));
    assert_false(feed_book_find(&book, "t-000000x", &index));
    feed_book_finish(&book);
}

static void amounts_follow_from_the_seed(void **state)
{
    (void)state;
    const struct feed_options options = options_for(1000, 1000, 0);
    struct feed_book book;
    feed_book_init(&book, &options, 0);
    int64_t lowest = INT64_MAX;
    int64_t highest = 0;
    for (size_t i = 0; i < 1000; i++) {
        const int64_t amount = feed_book_amount_minor(&book, i);
        assert_int_equal(amount, feed_book_amount_minor(&book, i));
        if (amount < lowest) lowest = amount;
        if (amount > highest) highest = amount;
    }
    assert_int_equal(lowest, 100);
    assert_int_equal(highest, 200);
    feed_book_finish(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_flight_bounds_what_is_unanswered),
        cmocka_unit_test(a_rate_is_an_open_loop),
        cmocka_unit_test(what_has_no_end_is_bounded),
        cmocka_unit_test(nothing_new_after_its_time_and_what_is_out_is_waited_for),
        cmocka_unit_test(what_is_not_answered_is_repeated_ever_more_slowly),
        cmocka_unit_test(the_first_answer_and_the_first_end_count),
        cmocka_unit_test(an_event_may_overtake_the_answer),
        cmocka_unit_test(a_refusal_needs_no_event),
        cmocka_unit_test(names_find_their_payment),
        cmocka_unit_test(amounts_follow_from_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
