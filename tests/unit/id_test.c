/*
 * tests/unit/id_test.c: ids are ordered, parse strictly and fall on the shards NATS would choose.
 */
#include "pipeline/id.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void ids_are_version_7_and_strictly_increasing(void **state)
{
    (void)state;
    struct uuid last = uuid_new();
    for (int i = 0; i < 100000; i++) {
        const struct uuid next = uuid_new();
        assert_int_equal(next.bytes[6] >> 4, 7);
        assert_int_equal(next.bytes[8] >> 6, 2);
        assert_true(uuid_compare(last, next) < 0);
        last = next;
    }
}

enum { THREAD_COUNT = 4, IDS_PER_THREAD = 20000 };

static struct uuid drawn[THREAD_COUNT][IDS_PER_THREAD];

static void *draw(void *ids)
{
    struct uuid *own = ids;
    for (size_t i = 0; i < IDS_PER_THREAD; i++) own[i] = uuid_new();
    return NULL;
}

static int uuid_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct uuid));
}

static void threads_never_draw_the_same(void **state)
{
    (void)state;
    pthread_t threads[THREAD_COUNT];
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, draw, drawn[i]), 0);
    }
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    struct uuid *all = &drawn[0][0];
    const size_t count = THREAD_COUNT * IDS_PER_THREAD;
    qsort(all, count, sizeof *all, uuid_order);
    for (size_t i = 1; i < count; i++) assert_false(uuid_equal(all[i - 1], all[i]));
}

static void text_comes_back_and_either_case_is_read(void **state)
{
    (void)state;
    char text[UUID_TEXT_SIZE];
    struct uuid parsed;
    for (int i = 0; i < 1000; i++) {
        const struct uuid uuid = uuid_new();
        assert_true(uuid_parse(uuid_format(uuid, text), &parsed));
        assert_true(uuid_equal(uuid, parsed));
    }
    assert_true(uuid_parse("01234567-89AB-7CDE-8F01-23456789ABCD", &parsed));
    assert_string_equal(uuid_format(parsed, text), "01234567-89ab-7cde-8f01-23456789abcd");
}

static void other_text_is_refused(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "",
        "01234567-89ab-7cde-8f01-23456789abc",
        "01234567-89ab-7cde-8f01-23456789abcde",
        "0123456789ab7cde8f0123456789abcd",
        "01234567-89ab-7cde-8f01_23456789abcd",
        "g1234567-89ab-7cde-8f01-23456789abcd",
        "{01234567-89ab-7cde-8f01-23456789abcd}",
        " 1234567-89ab-7cde-8f01-23456789abcd",
    };
    struct uuid untouched = { .bytes = { 1 } };
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        assert_false(uuid_parse(TEXTS[i], &untouched));
        assert_int_equal(untouched.bytes[0], 1);
    }
    const struct uuid nil = { .bytes = { 0 } };
    assert_true(uuid_is_nil(nil));
    assert_false(uuid_is_nil(uuid_new()));
}

static void shards_are_fnv_1a_of_the_text(void **state)
{
    (void)state;
    struct payment_id payment;
    assert_true(uuid_parse("01234567-89ab-7cde-8f01-23456789abcd", &payment.uuid));
    assert_int_equal(uuid_fnv1a(payment.uuid), 0x0ab64a6fu);
    assert_int_equal(payment_shard(payment), 0x0ab64a6fu % 16);
    unsigned counts[SHARD_COUNT] = { 0 };
    for (int i = 0; i < 16000; i++) {
        counts[payment_shard((struct payment_id){ uuid_new() })]++;
    }
    for (size_t i = 0; i < SHARD_COUNT; i++) assert_true(counts[i] > 800 && counts[i] < 1200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_version_7_and_strictly_increasing),
        cmocka_unit_test(threads_never_draw_the_same),
        cmocka_unit_test(text_comes_back_and_either_case_is_read),
        cmocka_unit_test(other_text_is_refused),
        cmocka_unit_test(shards_are_fnv_1a_of_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
