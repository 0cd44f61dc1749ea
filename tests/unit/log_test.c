/* tests/unit/log_test.c: each line is one valid JSON object (or logfmt), bounded and masked. */
#include "pipeline/log.h"

#include "pipeline/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static struct arena arena;
static int pipe_ends[2];

static int setup(void **state)
{
    (void)state;
    (void)setenv("ONCEPAY_LOG", "info", 1);
    log_open("oncepay-test");
    return pipe(pipe_ends);
}

static int teardown(void **state)
{
    (void)state;
    arena_finish(&arena);
    (void)close(pipe_ends[0]);
    return close(pipe_ends[1]);
}

static const char *read_line(void)
{
    static char line[8192];
    const ssize_t length = read(pipe_ends[0], line, sizeof line - 1);
    assert_true(length > 0);
    assert_int_equal(line[length - 1], '\n');
    line[length - 1] = '\0';
    assert_null(strchr(line, '\n'));
    return line;
}

static struct value read_json_line(void)
{
    struct value value;
    const char *error = NULL;
    const char *line = read_line();
    if (value_read_json(span_of_text(line), &arena, &value, &error) != STATUS_OK) {
        fail_msg("%s: %s", error, line);
    }
    return value;
}

static void a_line_has_time_level_program_message_and_fields(void **state)
{
    (void)state;
    log_redirect(pipe_ends[1], true);
    struct uuid id;
    assert_true(uuid_parse("01234567-89ab-7cde-8f01-23456789abcd", &id));
    LOG_WARNING("settled", LOG_ID("payment", id), LOG_TEXT("to", "CAPTURED"), LOG_NUMBER("ms", -12),
                LOG_BOOLEAN("held", true), LOG_TEXT("absent", NULL),
                LOG_ID("none", (struct uuid){ .bytes = { 0 } }));
    const struct value line = read_json_line();
    assert_int_equal(line.count, 8);
    assert_string_equal(value_text(value_find(&line, "level")), "warning");
    assert_string_equal(value_text(value_find(&line, "program")), "oncepay-test");
    assert_string_equal(value_text(value_find(&line, "message")), "settled");
    assert_string_equal(value_text(value_find(&line, "payment")),
                        "01234567-89ab-7cde-8f01-23456789abcd");
    assert_string_equal(value_text(value_find(&line, "to")), "CAPTURED");
    assert_int_equal(value_find(&line, "ms")->integer, -12);
    assert_true(value_find(&line, "held")->boolean);
    assert_int_equal(strlen(value_text(value_find(&line, "time"))), 27);
}

static void hostile_text_stays_inside_its_quotes(void **state)
{
    (void)state;
    log_redirect(pipe_ends[1], true);
    static const char *const TEXTS[] = {
        "a\"b\\c\nd\te\x01\x7f",
        "\xc3\xa9\xf0\x9f\x98\x80",
        "\xff\xfe broken \xc3",
        "{\"level\":\"error\"}",
    };
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        LOG_INFO("text", LOG_TEXT("field", TEXTS[i]));
        const struct value line = read_json_line();
        assert_int_equal(line.count, 5);
        if (value_text_is_valid(span_of_text(TEXTS[i]))) {
            assert_string_equal(value_text(value_find(&line, "field")), TEXTS[i]);
        }
    }
}

static void card_numbers_are_masked(void **state)
{
    (void)state;
    log_redirect(pipe_ends[1], true);
    LOG_ERROR("paid with 4242424242424242", LOG_TEXT("note", "pan 4242 4242 4242 4242 given"));
    const char *line = read_line();
    assert_null(strstr(line, "4242"));
    assert_non_null(strstr(line, "****"));
}

static void lines_are_bounded_and_stay_valid(void **state)
{
    (void)state;
    log_redirect(pipe_ends[1], true);
    static char quotes[20000];
    static char letters[20000];
    memset(quotes, '\x01', sizeof quotes - 1);
    for (size_t i = 0; i + 1 < sizeof letters; i++) letters[i] = i % 2 == 0 ? '\xc3' : '\xa9';
    LOG_INFO(quotes, LOG_TEXT("a", letters), LOG_TEXT("b", quotes), LOG_TEXT("c", letters),
             LOG_TEXT("d", "small"));
    const struct value line = read_json_line();
    assert_true(value_find(&line, "truncated")->boolean);
    for (int i = 0; i < 40; i++) { /* whatever the length, it parses and ends with a brace */
        letters[500 + i] = '\0';
        LOG_INFO("x", LOG_TEXT("a", letters), LOG_TEXT("b", letters), LOG_TEXT("c", letters),
                 LOG_TEXT("d", letters), LOG_TEXT("e", letters), LOG_TEXT("f", letters),
                 LOG_TEXT("g", letters), LOG_TEXT("h", quotes), LOG_TEXT("i", letters));
        (void)read_json_line();
        letters[500 + i] = i % 2 == 0 ? '\xc3' : '\xa9';
    }
}

static void a_terminal_gets_logfmt(void **state)
{
    (void)state;
    log_redirect(pipe_ends[1], false);
    LOG_INFO("two words", LOG_TEXT("plain", "x-1"), LOG_TEXT("empty", ""), LOG_NUMBER("n", 7));
    const char *line = read_line();
    assert_non_null(strstr(line, " level=info program=oncepay-test message=\"two words\" "
                                 "plain=x-1 empty=\"\" n=7"));
    assert_memory_equal(line, "time=20", 7);
}

static void levels_below_the_threshold_are_silent(void **state)
{
    (void)state;
    log_redirect(pipe_ends[1], true);
    assert_false(log_is_on(LOG_LEVEL_DEBUG));
    LOG_DEBUG("silent");
    LOG_INFO("heard");
    assert_non_null(strstr(read_line(), "heard"));
    (void)setenv("ONCEPAY_LOG", "off", 1);
    log_open("oncepay-test");
    assert_false(log_is_on(LOG_LEVEL_ERROR));
    (void)setenv("ONCEPAY_LOG", "debug", 1);
    log_open("oncepay-test");
    assert_true(log_is_on(LOG_LEVEL_DEBUG));
    (void)setenv("ONCEPAY_LOG", "nonsense", 1);
    log_open("oncepay-test");
    assert_true(log_is_on(LOG_LEVEL_INFO));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_program_message_and_fields),
        cmocka_unit_test(hostile_text_stays_inside_its_quotes),
        cmocka_unit_test(card_numbers_are_masked),
        cmocka_unit_test(lines_are_bounded_and_stay_valid),
        cmocka_unit_test(a_terminal_gets_logfmt),
        cmocka_unit_test(levels_below_the_threshold_are_silent),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
