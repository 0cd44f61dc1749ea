/*
 * tests/fuzz/word_fuzz.c: the short texts that come from outside, each parsed by all who would take
 * one: times, ids, subjects, content types, currencies, digests. What was parsed is printed, and
 * the print means the same.
 */
#include "pipeline/bus.h"
#include "pipeline/clock.h"
#include "pipeline/hash.h"
#include "pipeline/id.h"
#include "pipeline/money.h"
#include "pipeline/subject.h"
#include "pipeline/value.h"
#include "tests/fuzz/fuzz.h"

static void check_time(const char *text)
{
    int64_t time_us;
    int64_t again_us;
    char printed[CLOCK_TEXT_SIZE];
    if (!clock_parse(text, &time_us)) return;
    INVARIANT(clock_parse(clock_format(time_us, printed), &again_us) && again_us == time_us);
}

static void check_id(const char *text)
{
    struct uuid id;
    struct uuid again;
    char printed[UUID_TEXT_SIZE];
    if (!uuid_parse(text, &id)) return;
    INVARIANT(uuid_parse(uuid_format(id, printed), &again) && uuid_equal(id, again));
    INVARIANT(payment_shard((struct payment_id){ id }) < SHARD_COUNT);
}

static void check_subject(const char *text, struct arena *arena)
{
    struct subject_intake_tokens tokens;
    char printed[SUBJECT_SIZE];
    const char *filter = arena_format(arena, "pay.%s.>", text);
    if (bus_subject_is_valid(text)) {
        INVARIANT(bus_subject_matches(text, text) && bus_subject_overlaps(text, text));
        INVARIANT(bus_subject_overlaps(text, filter) == bus_subject_overlaps(filter, text));
    }
    if (!subject_intake_parse(text, &tokens)) return;
    INVARIANT(bus_subject_is_valid(text));
    INVARIANT(strcmp(subject_intake(tokens.merchant, tokens.operation, printed), text) == 0);
}

static void check_rest(const char *text)
{
    enum content_type content;
    struct currency currency;
    int exponent;
    uint8_t digest[HASH_SIZE];
    char hex[HASH_HEX_SIZE];
    char money[MONEY_TEXT_SIZE];
    if (content_type_parse(text, &content)) INVARIANT(content_type_name(content) != NULL);
    if (currency_parse(text, &currency)) {
        INVARIANT(currency_exponent(currency, &exponent) && exponent >= 0 && exponent <= 4);
        (void)money_format((struct money){ INT64_MIN, currency }, money);
    }
    if (hash_unhex(span_of_text(text), digest, sizeof digest)) {
        (void)hash_hex((struct span){ digest, sizeof digest }, hex);
        INVARIANT(strlen(hex) == strlen(text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    struct span rest = { data, size };
    const char *text = fuzz_line(&rest, &arena);
    check_time(text);
    check_id(text);
    check_subject(text, &arena);
    check_rest(text);
    arena_finish(&arena);
    return 0;
}
