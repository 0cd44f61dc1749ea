/* tests/unit/arena_test.c: memory of a batch, and the buffers that grow in it. */
#include "pipeline/arena.h"
#include "pipeline/buffer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    uint8_t *blocks[300];
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        blocks[i] = arena_allocate(&arena, i);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < i; j++) assert_int_equal(blocks[i][j], 0);
        memset(blocks[i], (int)(i % 256), i);
    }
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        for (size_t j = 0; j < i; j++) assert_int_equal(blocks[i][j], i % 256);
    }
    arena_finish(&arena);
}

static void reset_hands_out_zeroed_memory_again(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    for (int round = 0; round < 50; round++) {
        uint8_t *block = arena_allocate(&arena, 40000);
        for (size_t i = 0; i < 40000; i += 97) assert_int_equal(block[i], 0);
        memset(block, 0xff, 40000);
        memset(arena_allocate(&arena, 100), 0xff, 100);
        arena_reset(&arena);
    }
    arena_finish(&arena);
    arena_finish(&arena); /* a finished arena is an empty one */
    assert_non_null(arena_allocate(&arena, 1));
    arena_finish(&arena);
}

static void large_requests_get_a_block_of_their_own(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    const size_t size = (size_t)5 * 1024 * 1024;
    uint8_t *large = arena_allocate(&arena, size);
    large[0] = large[size - 1] = 1;
    assert_non_null(arena_allocate(&arena, 0));
    arena_finish(&arena);
}

static void copies_are_terminated(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    assert_string_equal(arena_copy(&arena, "abcdef", 3), "abc");
    assert_string_equal(arena_copy(&arena, NULL, 0), "");
    assert_string_equal(arena_format(&arena, "%s-%d", "pay", 7), "pay-7");
    for (int length = 250; length < 260; length++) { /* around what is printed in one go */
        const char *text = arena_format(&arena, "%0*d", length, 7);
        assert_int_equal(strlen(text), length);
        assert_int_equal(text[length - 1], '7');
    }
    const struct span copy = arena_copy_span(&arena, span_of_text("span"));
    assert_true(span_equal(copy, span_of_text("span")));
    arena_finish(&arena);
}

static void a_buffer_keeps_what_was_added(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct buffer buffer = { .arena = &arena };
    assert_int_equal(buffer_span(&buffer).length, 0);
    assert_string_equal((const char *)buffer_span(&buffer).data, "");
    for (int i = 0; i < 5000; i++) {
        buffer_add_integer(&buffer, i % 10);
        buffer_add_byte(&buffer, ',');
    }
    buffer_add_text(&buffer, "end");
    buffer_add(&buffer, NULL, 0);
    const struct span all = buffer_span(&buffer);
    assert_int_equal(all.length, 10003);
    assert_int_equal(strlen((const char *)all.data), 10003);
    assert_memory_equal(all.data + 9994, "7,8,9,end", 9);
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(reset_hands_out_zeroed_memory_again),
        cmocka_unit_test(large_requests_get_a_block_of_their_own),
        cmocka_unit_test(copies_are_terminated),
        cmocka_unit_test(a_buffer_keeps_what_was_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
