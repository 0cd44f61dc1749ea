/*
 * tests/fuzz/cache_record_fuzz.c: what stands in Redis under a key of ours. As it is, nothing
 * verifies that we did not write. Made ours here, a record is read back as it was, under its key
 * and no other, and the answer in it is one or is not, but never half of one.
 */
#include "adapters/redis/cache_internal.h"
#include "stages/intake/intake_answer.h"
#include "tests/fuzz/fuzz.h"

static const char KEY[] = "idem:m-1001:pay:00";
static const char SECRET[] = "a key of this file only, 9c1f7b20";

static void check_answer(struct span payload, struct arena *arena)
{
    struct intake_answer answer;
    struct intake_answer again;
    int64_t expires_us = 0;
    int64_t expires_again_us = 0;
    const bool is_text = payload.length == 0 || memchr(payload.data, 0, payload.length) == NULL;
    if (!intake_answer_decode(payload, arena, &answer, &expires_us) || !is_text ||
        answer.status < 100) {
        return;
    }
    const struct span written = intake_answer_encode(&answer, expires_us, arena);
    INVARIANT(intake_answer_decode(written, arena, &again, &expires_again_us));
    INVARIANT(expires_us >= 0 && expires_again_us == expires_us);
    INVARIANT(again.status == answer.status && strcmp(again.headers, answer.headers) == 0);
    INVARIANT(span_equal(again.body, answer.body));
}

static void check_ours(enum record_kind kind, struct span payload, struct arena *arena)
{
    const struct record record = { .kind = kind, .payload = payload };
    const struct span secret = span_of_text(SECRET);
    const struct span bytes = cache_record_encode(secret, KEY, &record, arena);
    struct record again;
    INVARIANT(cache_record_decode(secret, KEY, bytes, arena, &again));
    INVARIANT(again.kind == kind && span_equal(again.payload, payload));
    INVARIANT(!cache_record_decode(secret, "idem:m-1002:pay:00", bytes, arena, &again));
    INVARIANT(!cache_record_decode(span_of_text("another"), KEY, bytes, arena, &again));
    const struct span cut = { bytes.data, bytes.length - 1 };
    INVARIANT(!cache_record_decode(secret, KEY, cut, arena, &again));
    check_answer(again.payload, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum record_kind KINDS[] = { RECORD_PLACEHOLDER, RECORD_ANSWER, RECORD_LEASE };
    struct arena arena = { NULL };
    struct span rest = { data, size };
    struct record record;
    INVARIANT(!cache_record_decode(span_of_text(SECRET), KEY, rest, &arena, &record));
    const enum record_kind kind = KINDS[fuzz_choice(&rest, COUNT_OF(KINDS))];
    check_ours(kind, rest, &arena);
    arena_finish(&arena);
    return 0;
}
