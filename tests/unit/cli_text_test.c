/* tests/unit/cli_text_test.c: times, ages and tables for people; counting ends; arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/cli/cli.h"
#include "ops/cli/cli_finals.h"
#include "ops/cli/cli_text.h"

#define SECOND INT64_C(1000000)

static void ages_have_two_units_at_most(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } ROWS[] = {
        { 0, "0 ms" },
        { 999999, "999 ms" },
        { SECOND, "1.0 s" },
        { -59 * SECOND - 990000, "59.9 s" },
        { 60 * SECOND, "1 min 0 s" },
        { 3599 * SECOND, "59 min 59 s" },
        { 3600 * SECOND, "1 h 0 min" },
        { 47 * 3600 * SECOND, "47 h 0 min" },
        { 50 * 3600 * SECOND, "2 d 2 h" },
    };
    struct arena arena = { NULL };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        assert_string_equal(cli_age(&arena, ROWS[i].us), ROWS[i].text);
    }
    arena_finish(&arena);
}

static void a_moment_is_told_with_its_distance(void **state)
{
    const int64_t now_us = INT64_C(1796032800000000); /* 2026-11-30T10:00:00Z */
    struct arena arena = { NULL };
    (void)state;
    assert_string_equal(cli_when(&arena, now_us + 12 * SECOND, now_us),
                        "2026-11-30T10:00:12.000Z (in 12.0 s)");
    assert_string_equal(cli_when(&arena, now_us - 3 * SECOND, now_us),
                        "2026-11-30T09:59:57.000Z (3.0 s ago)");
    assert_string_equal(cli_when(&arena, 0, now_us), "-");
    arena_finish(&arena);
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    static const char *const HEADINGS[] = { "a", "long heading", "c" };
    static const char *const FIRST[] = { "schön", "x", "last" };
    static const char *const SECOND_ROW[] = { NULL, "", "end" };
    struct arena arena = { NULL };
    struct cli_table table;
    char *text = NULL;
    size_t length = 0;
    (void)state;
    cli_table_begin(&table, &arena, HEADINGS, COUNT_OF(HEADINGS));
    FILE *out = open_memstream(&text, &length);
    cli_table_print(&table, 0, out); /* no rows, no headings */
    cli_table_add(&table, FIRST);
    cli_table_add(&table, SECOND_ROW);
    cli_table_print(&table, 2, out);
    (void)fclose(out);
    assert_string_equal(text, "  a      long heading  c\n"
                              "  schön  x             last\n"
                              "  -      -             end\n");
    free(text);
    arena_finish(&arena);
}

static void an_end_counts_once_however_often_it_is_published(void **state)
{
    static const char *const PAYMENT = "01a22c88-5279-7000-9a67-cf983de0d7be";
    struct cli_finals finals = { .is_unique = true };
    (void)state;
    cli_finals_count(&finals, "pay.event.m-1001.payment.accepted", PAYMENT);
    cli_finals_count(&finals, "pay.event.m-1001.payment.late_success", PAYMENT);
    assert_int_equal(finals.count, 0);
    cli_finals_count(&finals, "pay.event.m-1001.payment.succeeded", PAYMENT);
    cli_finals_count(&finals, "pay.event.m-1001.payment.succeeded", PAYMENT);
    assert_int_equal(finals.count, 1);
    cli_finals_count(&finals, "pay.event.m-1001.payment.failed",
                     "01a22c88-53a6-7000-9840-12d1c5a06eef");
    assert_int_equal(finals.count, 2);
    cli_finals_close(&finals);
}

static void many_ends_are_told_apart(void **state)
{
    enum { COUNT = 5000 };
    struct cli_finals finals = { .is_unique = true };
    char id[UUID_TEXT_SIZE];
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 1; i <= COUNT; i++) {
            struct uuid uuid = { { 0 } };
            memcpy(uuid.bytes, &i, sizeof i);
            cli_finals_count(&finals, "pay.event.m-1001.payment.canceled", uuid_format(uuid, id));
        }
    }
    assert_int_equal(finals.count, COUNT);
    cli_finals_close(&finals);
}

struct arguments {
    const char *text;
    int64_t number;
    bool flag;
    struct cli_list list;
    const char *words[2];
    size_t word_count;
};

/* Reads "command a b …" into out; the last item of words is NULL. */
static bool read_arguments(struct cli *cli, char **words, struct arguments *out)
{
    *out = (struct arguments){ .number = 7 };
    const struct cli_option options[] = {
        { "--text", CLI_OPTION_TEXT, &out->text },
        { "--number", CLI_OPTION_NUMBER, &out->number },
        { "--flag", CLI_OPTION_FLAG, &out->flag },
        { "--list", CLI_OPTION_LIST, &out->list },
    };
    cli->command = "test";
    cli->argv = words;
    for (cli->argc = 0; words[cli->argc] != NULL; cli->argc++) continue;
    return cli_read_arguments(cli, options, COUNT_OF(options), out->words, 2, &out->word_count);
}

static void options_and_words_may_be_mixed(void **state)
{
    char *words[] = { (char[]){ "test" },
                      (char[]){ "one" },
                      (char[]){ "--list" },
                      (char[]){ "a=1" },
                      (char[]){ "--flag" },
                      (char[]){ "--number" },
                      (char[]){ "42" },
                      (char[]){ "two" },
                      (char[]){ "--list" },
                      (char[]){ "b=2" },
                      (char[]){ "--text" },
                      (char[]){ "--json-like" },
                      NULL };
    struct cli cli = { .command = "" };
    struct arguments got;
    (void)state;
    assert_true(read_arguments(&cli, words, &got));
    assert_int_equal(got.word_count, 2);
    assert_string_equal(got.words[1], "two");
    assert_int_equal(got.number, 42);
    assert_true(got.flag);
    assert_string_equal(got.text, "--json-like");
    assert_int_equal(got.list.count, 2);
    assert_string_equal(got.list.items[0], "a=1");
    assert_string_equal(got.list.items[1], "b=2");
    arena_finish(&cli.arena);
}

static void wrong_arguments_are_refused(void **state)
{
    char *rows[][4] = {
        { (char[]){ "test" }, (char[]){ "--unknown" }, NULL, NULL },
        { (char[]){ "test" }, (char[]){ "--text" }, NULL, NULL },
        { (char[]){ "test" }, (char[]){ "--number" }, (char[]){ "-1" }, NULL },
        { (char[]){ "test" }, (char[]){ "--number" }, (char[]){ "4x" }, NULL },
        { (char[]){ "a" }, (char[]){ "b" }, (char[]){ "c" }, NULL },
    };
    struct cli cli = { .command = "" };
    struct arguments got;
    (void)state;
    for (size_t i = 0; i + 1 < COUNT_OF(rows); i++) {
        assert_false(read_arguments(&cli, rows[i], &got));
    }
    assert_true(read_arguments(&cli, rows[4], &got));
    arena_finish(&cli.arena);
}

static void a_target_is_split_at_its_first_slash(void **state)
{
    struct arena arena = { NULL };
    const char *kind = NULL;
    const char *id = NULL;
    (void)state;
    assert_true(cli_split_target("order/A/1", &arena, &kind, &id));
    assert_string_equal(kind, "order");
    assert_string_equal(id, "A/1");
    assert_false(cli_split_target("order", &arena, &kind, &id));
    assert_false(cli_split_target("/1", &arena, &kind, &id));
    assert_false(cli_split_target("order/", &arena, &kind, &id));
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ages_have_two_units_at_most),
        cmocka_unit_test(a_moment_is_told_with_its_distance),
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(an_end_counts_once_however_often_it_is_published),
        cmocka_unit_test(many_ends_are_told_apart),
        cmocka_unit_test(options_and_words_may_be_mixed),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_target_is_split_at_its_first_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
