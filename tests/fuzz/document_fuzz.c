/*
 * tests/fuzz/document_fuzz.c: one document (pipeline/value.h), JSON or MessagePack by the first
 * byte. What could be read is the same after it was written and read again, in its own form and in
 * the other one; both have one canonical form.
 */
#include "pipeline/canonical.h"
#include "tests/fuzz/fuzz.h"

enum { FLOAT_DIGITS = 15, FLOAT_POWER_MAX = 290 };

/* A float64 carries 15 digits; what has more changes on its way into MessagePack (value.h). */
static bool fits_float(struct span number)
{
    const char *text = (const char *)number.data;
    const char *exponent = strchr(text, 'e');
    const long power = exponent == NULL ? 0 : strtol(exponent + 1, NULL, 10);
    return number.length <= FLOAT_DIGITS && power < FLOAT_POWER_MAX && power > -FLOAT_POWER_MAX;
}

static bool fits_msgpack(const struct value *value)
{
    if (value->kind == VALUE_DECIMAL) return fits_float(value->bytes);
    for (size_t i = 0; value->kind == VALUE_LIST && i < value->count; i++) {
        if (!fits_msgpack(&value->items[i])) return false;
    }
    for (size_t i = 0; value->kind == VALUE_MAP && i < value->count; i++) {
        if (!fits_msgpack(&value->members[i].value)) return false;
    }
    return true;
}

static void check_again(enum content_type type, const struct value *value, struct span canonical,
                        struct arena *arena)
{
    struct value again;
    const struct span written = value_write(type, value, arena);
    INVARIANT(value_read(type, written, arena, &again, NULL) == STATUS_OK);
    INVARIANT(span_equal(canonical, canonical_json(&again, arena)));
    INVARIANT(span_equal(written, value_write(type, &again, arena)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    struct span rest = { data, size };
    const enum content_type type = fuzz_choice(&rest, 2) == 0 ? CONTENT_JSON : CONTENT_MSGPACK;
    struct value value;
    const char *error = NULL;
    if (value_read(type, rest, &arena, &value, &error) == STATUS_OK) {
        const struct span canonical = canonical_json(&value, &arena);
        check_again(CONTENT_JSON, &value, canonical, &arena);
        if (fits_msgpack(&value)) check_again(CONTENT_MSGPACK, &value, canonical, &arena);
    } else {
        INVARIANT(error != NULL && error[0] != '\0');
    }
    arena_finish(&arena);
    return 0;
}
