/*
 * tests/fuzz/form_fuzz.c: form bodies and their percent-encoding (pipeline/form.h). Fields that
 * could be read are the same fields when they are written and read again, and so written they have
 * one spelling.
 */
#include "pipeline/form.h"
#include "tests/fuzz/fuzz.h"

static struct span write_fields(const struct form_field *fields, size_t count, struct arena *arena)
{
    struct form form = { .arena = arena };
    for (size_t i = 0; i < count; i++) form_add(&form, fields[i].name, fields[i].value);
    return form_body(&form);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    const struct form_field *fields;
    const struct form_field *again;
    size_t count;
    size_t count_again;
    if (form_parse((struct span){ data, size }, &arena, &fields, &count) == STATUS_OK) {
        const struct span written = write_fields(fields, count, &arena);
        for (size_t i = 0; i < written.length; i++) {
            INVARIANT(written.data[i] > ' ' && written.data[i] <= '~');
        }
        INVARIANT(form_parse(written, &arena, &again, &count_again) == STATUS_OK);
        INVARIANT(count_again == count);
        for (size_t i = 0; i < count; i++) {
            INVARIANT(strcmp(fields[i].name, again[i].name) == 0);
            INVARIANT(strcmp(fields[i].value, again[i].value) == 0);
            INVARIANT(form_find(again, count, fields[i].name) != NULL);
        }
        INVARIANT(span_equal(written, write_fields(again, count, &arena)));
    }
    arena_finish(&arena);
    return 0;
}
