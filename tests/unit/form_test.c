/* tests/unit/form_test.c: the encoding against what Stripe's own library sent, and its inverse. */
#include "pipeline/form.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void encodes_as_the_official_client_does(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct form form = { .arena = &arena };
    form_add_integer(&form, "amount", 1099);
    form_add(&form, "confirm", "true");
    form_add(&form, "metadata[order_id]", "ord_0001");
    form_add(&form, "metadata[note]", "a&b=c \xC3\xBC");
    form_add(&form, "empty", "");
    const char *expected = "amount=1099&confirm=true&metadata[order_id]=ord_0001&"
                           "metadata[note]=a%26b%3Dc%20%C3%BC&empty=";
    assert_true(span_equal(form_body(&form), span_of_text(expected)));
    arena_finish(&arena);
}

static void long_values_grow_the_body(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct form form = { .arena = &arena };
    char value[3001];
    memset(value, '&', 3000);
    value[3000] = '\0';
    form_add(&form, "v", value);
    assert_int_equal(form_body(&form).length, 2 + 9000);
    const struct form_field *fields;
    size_t count;
    assert_int_equal(form_parse(form_body(&form), &arena, &fields, &count), STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(fields[0].value, value);
    arena_finish(&arena);
}

static void parses_what_other_clients_send(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    const struct form_field *fields;
    size_t count;
    const char *body = "a=1+2&b%5Bc%5D=%C3%bc&flag&a=again&&";
    /* An empty field ("&&") has no name. */
    assert_int_equal(form_parse(span_of_text(body), &arena, &fields, &count), STATUS_BAD_DATA);
    body = "a=1+2&b%5Bc%5D=%C3%bc&flag&a=again";
    assert_int_equal(form_parse(span_of_text(body), &arena, &fields, &count), STATUS_OK);
    assert_int_equal(count, 4);
    assert_string_equal(form_find(fields, count, "a"), "1 2");
    assert_string_equal(form_find(fields, count, "b[c]"), "\xC3\xBC");
    assert_string_equal(form_find(fields, count, "flag"), "");
    assert_null(form_find(fields, count, "c"));
    assert_int_equal(form_parse((struct span){ NULL, 0 }, &arena, &fields, &count), STATUS_OK);
    assert_int_equal(count, 0);
    arena_finish(&arena);
}

static void broken_bodies_are_refused(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    static const char *const BODIES[] = { "a=%", "a=%4", "a=%zz", "a=%00", "=1", "%4=1" };
    for (size_t i = 0; i < COUNT_OF(BODIES); i++) {
        const struct form_field *fields;
        size_t count;
        assert_int_equal(form_parse(span_of_text(BODIES[i]), &arena, &fields, &count),
                         STATUS_BAD_DATA);
    }
    char many[FORM_FIELD_MAX * 2 + 3];
    for (size_t i = 0; i < sizeof many; i++) many[i] = i % 2 == 0 ? 'a' : '&';
    const struct span body = { (const uint8_t *)many, sizeof many };
    const struct form_field *fields;
    size_t count;
    assert_int_equal(form_parse(body, &arena, &fields, &count), STATUS_BAD_DATA);
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_as_the_official_client_does),
        cmocka_unit_test(long_values_grow_the_body),
        cmocka_unit_test(parses_what_other_clients_send),
        cmocka_unit_test(broken_bodies_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
