/* tests/unit/command_test.c: batches between the stages, and the subjects they travel on. */
#include "pipeline/command.h"

#include "pipeline/value.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct arena arena;

static int teardown(void **state)
{
    (void)state;
    arena_finish(&arena);
    return 0;
}

static void a_full_batch_comes_back(void **state)
{
    (void)state;
    struct command commands[COMMAND_BATCH_MAX];
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        commands[i] = (struct command){
            .outbox.uuid = uuid_new(),
            .payment.uuid = uuid_new(),
            .entity = uuid_new(),
            .version = i == 0 ? INT64_MAX : (int64_t)i,
            .kind = (enum command_kind)(COMMAND_ROUTE + (int)(i % 5)),
        };
    }
    commands[3].payment = (struct payment_id){ .uuid = { .bytes = { 0 } } };
    const struct span body = command_batch_encode(commands, COUNT_OF(commands), &arena);
    assert_true(body.length <= COMMAND_BODY_BYTES_MAX);
    const struct command *again;
    size_t count;
    assert_int_equal(command_batch_decode(body, &arena, &again, &count), COMMAND_READ);
    assert_int_equal(count, COMMAND_BATCH_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_true(uuid_equal(again[i].outbox.uuid, commands[i].outbox.uuid));
        assert_true(uuid_equal(again[i].payment.uuid, commands[i].payment.uuid));
        assert_true(uuid_equal(again[i].entity, commands[i].entity));
        assert_int_equal(again[i].version, commands[i].version);
        assert_int_equal(again[i].kind, commands[i].kind);
    }
}

/* A batch of one in which one member is exchanged; name NULL: none; value NULL: left out. */
static struct span batch_with(int64_t version, const char *name, const struct value *value)
{
    static const char *const NAMES[] = { "o", "p", "e", "n", "k" };
    static const uint8_t ID[16] = { 1 };
    const struct value id = { .kind = VALUE_BINARY, .bytes = { ID, sizeof ID } };
    struct value command = value_map_make(&arena, 6);
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        const bool is_other = name != NULL && strcmp(NAMES[i], name) == 0;
        if (is_other && value != NULL) value_map_add(&command, NAMES[i], *value);
        if (!is_other) value_map_add(&command, NAMES[i], i < 3 ? id : value_of_integer(1));
    }
    value_map_add(&command, "later", value_of_text("ignored"));
    struct value map = value_map_make(&arena, 2);
    value_map_add(&map, "v", value_of_integer(version));
    value_map_add(&map, "commands",
                  (struct value){ .kind = VALUE_LIST, .items = &command, .count = 1 });
    return value_write_msgpack(&map, &arena);
}

static enum command_reading read_of(struct span body)
{
    const struct command *commands = NULL;
    size_t count = 99;
    const enum command_reading reading = command_batch_decode(body, &arena, &commands, &count);
    assert_int_equal(commands != NULL, reading == COMMAND_READ);
    assert_int_equal(count == 99, reading != COMMAND_READ);
    return reading;
}

static void what_is_newer_is_told_from_what_is_broken(void **state)
{
    (void)state;
    const struct value short_id = { .kind = VALUE_BINARY, .bytes = { (const uint8_t *)"123", 3 } };
    const struct value unknown_kind = value_of_integer(77);
    const struct value text = value_of_text("x");
    const struct value negative = value_of_integer(-1);
    assert_int_equal(read_of(batch_with(1, NULL, NULL)), COMMAND_READ);
    assert_int_equal(read_of(batch_with(2, NULL, NULL)), COMMAND_NEWER);
    assert_int_equal(read_of(batch_with(2, "o", NULL)), COMMAND_NEWER);
    assert_int_equal(read_of(batch_with(1, "k", &unknown_kind)), COMMAND_NEWER);
    assert_int_equal(read_of(batch_with(0, NULL, NULL)), COMMAND_MALFORMED);
    assert_int_equal(read_of(batch_with(1, "o", &short_id)), COMMAND_MALFORMED);
    assert_int_equal(read_of(batch_with(1, "p", NULL)), COMMAND_MALFORMED);
    assert_int_equal(read_of(batch_with(1, "e", &text)), COMMAND_MALFORMED);
    assert_int_equal(read_of(batch_with(1, "n", &negative)), COMMAND_MALFORMED);
    assert_int_equal(read_of(batch_with(1, "k", &text)), COMMAND_MALFORMED);
    assert_int_equal(read_of((struct span){ NULL, 0 }), COMMAND_MALFORMED);
    assert_int_equal(read_of(span_of_text("{\"v\":1}")), COMMAND_MALFORMED);
    assert_int_equal(read_of(span_of_text("\x81\xa1v\x01")), COMMAND_MALFORMED);
    assert_int_equal(read_of(span_of_text("\x80")), COMMAND_MALFORMED);
}

static void every_cut_of_a_batch_is_malformed(void **state)
{
    (void)state;
    const struct span whole = batch_with(1, NULL, NULL);
    for (size_t length = 0; length < whole.length; length++) {
        assert_int_equal(read_of((struct span){ whole.data, length }), COMMAND_MALFORMED);
    }
}

static void message_ids_name_the_first_row_and_the_run(void **state)
{
    (void)state;
    struct outbox_id first;
    char text[COMMAND_MESSAGE_ID_SIZE];
    assert_true(uuid_parse("01234567-89ab-7cde-8f01-23456789abcd", &first.uuid));
    assert_string_equal(command_message_id(first, 0, text), "01234567-89ab-7cde-8f01-23456789abcd");
    assert_string_equal(command_message_id(first, 12, text),
                        "01234567-89ab-7cde-8f01-23456789abcd.12");
}

static void subjects_are_those_of_the_design(void **state)
{
    (void)state;
    char text[SUBJECT_SIZE];
    char expected[SUBJECT_SIZE];
    const struct payment_id payment = { uuid_new() };
    (void)snprintf(expected, sizeof expected, "pay.route.%u", payment_shard(payment));
    assert_string_equal(subject_route(payment, text), expected);
    (void)snprintf(expected, sizeof expected, "pay.settle.%u", payment_shard(payment));
    assert_string_equal(subject_settle(payment, text), expected);
    assert_string_equal(subject_create("stripe-main", text), "pay.create.stripe-main.new");
    assert_string_equal(subject_evidence("stripe-main", text), "pay.recover.evidence.stripe-main");
    assert_string_equal(subject_event("m-1", "payment.succeeded", text),
                        "pay.event.m-1.payment.succeeded");
    assert_string_equal(subject_intake("m-1", "pay", text), "pay.intake.m-1.pay");
}

#define LONGEST "0123456789012345678901234567890123456789012345678901234567890123"
#define TOO_LONG "01234567890123456789012345678901234567890123456789012345678901234"

static void tokens_hold_no_wildcards_dots_or_blanks(void **state)
{
    (void)state;
    static const char *const GOOD[] = { "m", "m-1001", "A_z-9", LONGEST };
    static const char *const BAD[] = { "",    "a.b",      "*",   ">",     "a b",
                                       "a\n", "\xc3\xa9", "a/b", TOO_LONG };
    for (size_t i = 0; i < COUNT_OF(GOOD); i++) assert_true(subject_token_is_valid(GOOD[i]));
    for (size_t i = 0; i < COUNT_OF(BAD); i++) assert_false(subject_token_is_valid(BAD[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_batch_comes_back),
        cmocka_unit_test(what_is_newer_is_told_from_what_is_broken),
        cmocka_unit_test(every_cut_of_a_batch_is_malformed),
        cmocka_unit_test(message_ids_name_the_first_row_and_the_run),
        cmocka_unit_test(subjects_are_those_of_the_design),
        cmocka_unit_test(tokens_hold_no_wildcards_dots_or_blanks),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
