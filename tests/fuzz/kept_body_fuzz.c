/*
 * tests/fuzz/kept_body_fuzz.c: how a refused request is kept (pipeline/kept_body.h), which must
 * work on any bytes. What is kept has no card number that anybody could read from it, neither in
 * its bytes nor in its values, and its tokens go back where they were.
 */
#include "pipeline/kept_body.h"
#include "pipeline/mask.h"
#include "tests/fuzz/fuzz.h"

static bool number_is_card(int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    return mask_has_card_number(span_of_text(text));
}

static bool holds_card(const struct value *value)
{
    for (size_t i = 0; value->kind == VALUE_LIST && i < value->count; i++) {
        if (holds_card(&value->items[i])) return true;
    }
    for (size_t i = 0; value->kind == VALUE_MAP && i < value->count; i++) {
        const struct value_member *member = &value->members[i];
        if (mask_has_card_number(span_of_text(member->name))) return true;
        if (holds_card(&member->value)) return true;
    }
    if (value->kind == VALUE_INTEGER) return number_is_card(value->integer);
    if (value->kind == VALUE_TEXT) return mask_has_card_number(value->bytes);
    return false;
}

/* Each byte is the original's, or one that blanks (the 'u002' is of an escape that does). */
static void check_restored(struct span body, struct span restored)
{
    INVARIANT(restored.length == body.length);
    for (size_t i = 0; i < body.length; i++) {
        const uint8_t byte = restored.data[i];
        INVARIANT(byte == body.data[i] || byte == 0 || strchr("*0u2a\\", byte) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    struct span body = { data, size };
    const enum content_type content = fuzz_choice(&body, 2) == 0 ? CONTENT_JSON : CONTENT_MSGPACK;
    struct kept_body kept;
    struct value value;
    struct span restored;
    kept_body_make(body, content, &arena, &kept);
    INVARIANT(kept.body.length == body.length);
    INVARIANT(!mask_has_card_number(kept.body));
    if (value_read(content, kept.body, &arena, &value, NULL) == STATUS_OK) {
        INVARIANT(!holds_card(&value));
    }
    INVARIANT(kept.method_token == NULL || !mask_has_card_number(span_of_text(kept.method_token)));
    if (kept_body_restore(kept.body, kept.method_token, &arena, &restored)) {
        check_restored(body, restored);
    }
    arena_finish(&arena);
    return 0;
}
