/*
 * tests/unit/relay_queue_test.c: the relay's order and marks: what consumers rely on, walked
 * through without a server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "stages/relay/relay_queue.h"

static struct payment_id payment(uint8_t number)
{
    return (struct payment_id){ { { 1, [15] = number } } };
}

static void add(struct relay_queue *queue, enum relay_lane lane, uint8_t of, int32_t version)
{
    static uint8_t next;
    const struct relay_event event = {
        .id = { { { 2, [14] = (uint8_t)version, [15] = ++next } } },
        .payment = of == 0 ? (struct payment_id){ { { 0 } } } : payment(of),
        .version = version,
        .created_us = 1000 + version,
        .subject = "pay.event.m.payment.accepted",
        .headers = "ce-id: x\n",
        .body = span_of_text("{}"),
    };
    relay_queue_add(queue, lane, &event);
}

static void versions_go_out_in_order_one_at_a_time(void **state)
{
    (void)state;
    struct relay_queue *queue = relay_queue_create();
    relay_queue_pass(queue, RELAY_LANE_NEW, 10);
    add(queue, RELAY_LANE_NEW, 1, 5);
    add(queue, RELAY_LANE_NEW, 1, 2);
    add(queue, RELAY_LANE_NEW, 2, 1);
    add(queue, RELAY_LANE_NEW, 1, 3);
    struct relay_event *first = relay_queue_next(queue);
    assert_int_equal(first->version, 2);
    assert_string_equal(first->subject, "pay.event.m.payment.accepted");
    assert_string_equal(first->headers, "ce-id: x\n");
    assert_true(span_equal(first->body, span_of_text("{}")));
    struct relay_event *other = relay_queue_next(queue);
    assert_memory_equal(&other->payment, &(struct payment_id){ payment(2).uuid }, 16);
    assert_null(relay_queue_next(queue)); /* both payments have one under way */
    assert_int_equal(relay_queue_in_flight(queue), 2);
    assert_true(relay_queue_confirm(queue, first));
    struct relay_event *second = relay_queue_next(queue);
    assert_int_equal(second->version, 3);
    assert_true(
        relay_queue_retry(queue, second)); /* not stored: it comes again, nothing before it */
    second = relay_queue_next(queue);
    assert_int_equal(second->version, 3);
    assert_true(relay_queue_confirm(queue, second));
    struct relay_event *third = relay_queue_next(queue);
    assert_int_equal(third->version, 5);
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 0);
    assert_true(relay_queue_confirm(queue, third));
    assert_true(relay_queue_confirm(queue, other));
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 10);
    assert_int_equal(relay_queue_count(queue), 0);
    relay_queue_destroy(queue);
}

static void events_without_a_payment_wait_for_nothing(void **state)
{
    (void)state;
    struct relay_queue *queue = relay_queue_create();
    relay_queue_pass(queue, RELAY_LANE_NEW, 1);
    for (int i = 0; i < 5; i++) add(queue, RELAY_LANE_NEW, 0, 0);
    for (int i = 0; i < 5; i++) assert_non_null(relay_queue_next(queue));
    assert_null(relay_queue_next(queue));
    relay_queue_destroy(queue);
}

static void mark_rises_only_behind_the_slowest_pass(void **state)
{
    (void)state;
    struct relay_queue *queue = relay_queue_create();
    relay_queue_pass(queue, RELAY_LANE_NEW, 10);
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 10); /* nothing to wait for */
    relay_queue_pass(queue, RELAY_LANE_NEW, 20);
    add(queue, RELAY_LANE_NEW, 1, 1);
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 10);
    relay_queue_pass(queue, RELAY_LANE_NEW, 30);
    add(queue, RELAY_LANE_NEW, 2, 2);
    for (int64_t mark = 31; mark < 40; mark++) relay_queue_pass(queue, RELAY_LANE_NEW, mark);
    relay_queue_pass(queue, RELAY_LANE_NEW, 40);
    struct relay_event *slow = relay_queue_next(queue);
    struct relay_event *fast = relay_queue_next(queue);
    assert_true(relay_queue_confirm(queue, fast));
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 10);
    assert_int_equal(relay_queue_oldest_us(queue, RELAY_LANE_NEW), 1001);
    assert_false(relay_queue_is_done(queue, RELAY_LANE_NEW));
    assert_true(relay_queue_confirm(queue, slow));
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 40);
    assert_true(relay_queue_is_done(queue, RELAY_LANE_NEW));
    assert_int_equal(relay_queue_oldest_us(queue, RELAY_LANE_NEW), 0);
    relay_queue_destroy(queue);
}

static void lanes_have_marks_of_their_own(void **state)
{
    (void)state;
    struct relay_queue *queue = relay_queue_create();
    relay_queue_pass(queue, RELAY_LANE_OLD, 5);
    add(queue, RELAY_LANE_OLD, 1, 1);
    relay_queue_pass(queue, RELAY_LANE_NEW, 50);
    add(queue, RELAY_LANE_NEW, 1, 2);
    struct relay_event *old = relay_queue_next(queue);
    assert_int_equal(old->version, 1);
    assert_null(relay_queue_next(queue)); /* the lost one goes first, whatever its lane */
    assert_true(relay_queue_confirm(queue, old));
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_OLD), 5);
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 0);
    assert_true(relay_queue_confirm(queue, relay_queue_next(queue)));
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 50);
    relay_queue_destroy(queue);
}

static void a_retried_event_lets_an_earlier_one_pass(void **state)
{
    (void)state;
    struct relay_queue *queue = relay_queue_create();
    relay_queue_pass(queue, RELAY_LANE_NEW, 1);
    add(queue, RELAY_LANE_NEW, 1, 7);
    struct relay_event *event = relay_queue_next(queue);
    relay_queue_pass(queue, RELAY_LANE_OLD, 1);
    add(queue, RELAY_LANE_OLD, 1, 3);
    assert_true(relay_queue_retry(queue, event));
    event = relay_queue_next(queue);
    assert_int_equal(event->version, 3);
    assert_true(relay_queue_confirm(queue, event));
    assert_int_equal(relay_queue_next(queue)->version, 7);
    relay_queue_destroy(queue);
}

static void a_refused_event_delays_only_its_payment(void **state)
{
    (void)state;
    struct relay_queue *queue = relay_queue_create();
    relay_queue_pass(queue, RELAY_LANE_NEW, 1);
    add(queue, RELAY_LANE_NEW, 1, 1);
    add(queue, RELAY_LANE_NEW, 2, 1);
    struct relay_event *refused = relay_queue_next(queue);
    assert_true(relay_queue_delay(queue, refused, 100));
    add(queue, RELAY_LANE_NEW, 1, 2);
    struct relay_event *other = relay_queue_next(queue);
    assert_int_equal(other->payment.uuid.bytes[15], 2);
    assert_null(relay_queue_next(queue));
    relay_queue_wake(queue, 99);
    assert_null(relay_queue_next(queue));
    assert_int_equal(relay_queue_delayed(queue), 1);
    relay_queue_wake(queue, 100);
    assert_ptr_equal(relay_queue_next(queue), refused);
    relay_queue_destroy(queue);
}

static void emptying_disowns_what_is_under_way(void **state)
{
    (void)state;
    struct relay_queue *queue = relay_queue_create();
    relay_queue_pass(queue, RELAY_LANE_NEW, 10);
    add(queue, RELAY_LANE_NEW, 1, 1);
    add(queue, RELAY_LANE_NEW, 1, 2);
    struct relay_event *flying = relay_queue_next(queue);
    relay_queue_empty(queue);
    assert_int_equal(relay_queue_count(queue), 0);
    assert_int_equal(relay_queue_in_flight(queue), 1);
    relay_queue_pass(queue, RELAY_LANE_NEW, 7);
    add(queue, RELAY_LANE_NEW, 1, 1);
    struct relay_event *again = relay_queue_next(queue);
    assert_false(relay_queue_confirm(queue, flying)); /* its end says nothing about the new one */
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 0);
    assert_true(relay_queue_confirm(queue, again));
    assert_int_equal(relay_queue_mark(queue, RELAY_LANE_NEW), 7);
    relay_queue_destroy(queue);
}

/*
 * Random lives: whatever fails and in which order it ends, each payment's first copies stay in
 * order.
 */
static void random_ends_keep_every_order(void **state)
{
    (void)state;
    enum { PAYMENTS = 40, ROUNDS = 20000, FLYING_MAX = 16 };
    uint32_t random = 12345;
    struct relay_queue *queue = relay_queue_create();
    struct relay_event *flying[FLYING_MAX];
    size_t count = 0;
    int32_t drawn[PAYMENTS + 1] = { 0 };
    int32_t confirmed[PAYMENTS + 1] = { 0 };
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525U + 1013904223U;
        const uint32_t dice = random >> 16;
        if (dice % 3 == 0) {
            relay_queue_pass(queue, RELAY_LANE_NEW, round);
            for (uint32_t i = 0; i < dice % 7; i++) {
                const uint8_t of = (uint8_t)((dice / 7 + i * 11) % PAYMENTS + 1);
                add(queue, RELAY_LANE_NEW, of, ++drawn[of]);
            }
        } else if (dice % 3 == 1 && count < FLYING_MAX) {
            flying[count] = relay_queue_next(queue);
            if (flying[count] != NULL) count++;
        } else if (count > 0) {
            const size_t which = dice / 3 % count;
            struct relay_event *event = flying[which];
            flying[which] = flying[--count];
            const uint8_t of = event->payment.uuid.bytes[15];
            if (dice % 5 == 0) {
                assert_true(relay_queue_retry(queue, event));
            } else {
                assert_int_equal(event->version, confirmed[of] + 1);
                confirmed[of] = event->version;
                assert_true(relay_queue_confirm(queue, event));
            }
        }
    }
    relay_queue_destroy(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_go_out_in_order_one_at_a_time),
        cmocka_unit_test(events_without_a_payment_wait_for_nothing),
        cmocka_unit_test(mark_rises_only_behind_the_slowest_pass),
        cmocka_unit_test(lanes_have_marks_of_their_own),
        cmocka_unit_test(a_retried_event_lets_an_earlier_one_pass),
        cmocka_unit_test(a_refused_event_delays_only_its_payment),
        cmocka_unit_test(emptying_disowns_what_is_under_way),
        cmocka_unit_test(random_ends_keep_every_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
