/*
 * tests/fuzz/stripe_answer_fuzz.c: what Stripe, or somebody in its place, answers: a byte for the
 * kind of request, a line "status Retry-After", the body. Whatever it is, it can be stored, and the
 * judge ends no attempt well unless amount, currency and reference are the attempt's own.
 */
#include "adapters/stripe/stripe.h"
#include "pipeline/clock.h"
#include "pipeline/judge.h"
#include "pipeline/mask.h"
#include "pipeline/value.h"
#include "tests/fuzz/fuzz.h"

static const struct money PRICE = { 1099, { "EUR" } };
static const char REFERENCE[] = "op_reference";

static struct verdict judge_it(const struct observation *observation, bool prior)
{
    const struct judge_attempt attempt = {
        .state = ATTEMPT_SENDING,
        .certainty = CERTAINTY_UNKNOWN,
        .amount = PRICE,
        .reference = REFERENCE,
        .prior = prior,
        .last_request_end_us = 1000 * CLOCK_SECOND_US,
        .now_us = 1010 * CLOCK_SECOND_US,
    };
    return judge(OPERATION_CREATE, observation, &stripe_ops.capability, &attempt);
}

static void check_verdict(const struct observation *observation, bool prior)
{
    const struct verdict verdict = judge_it(observation, prior);
    INVARIANT(verdict.reason != NULL);
    if (verdict.next_state == ATTEMPT_SUCCEEDED) {
        INVARIANT(observation->kind == OBSERVED_SUCCEEDED && observation->has_amount);
        INVARIANT(money_equal(observation->amount, PRICE));
        INVARIANT(fuzz_same_text(observation->reference, REFERENCE));
    }
    const bool is_over = verdict.next_state == ATTEMPT_FAILED;
    if (is_over && prior) INVARIANT(verdict.certainty != (int)CERTAINTY_NO_SIDE_EFFECT);
    if (is_over) INVARIANT(!observation->object_payable);
}

static void check_storable(const struct observation *observation, struct arena *arena)
{
    struct value excerpt;
    const struct span text = span_of_text(observation->excerpt);
    INVARIANT(value_read_json(text, arena, &excerpt, NULL) == STATUS_OK);
    INVARIANT(excerpt.kind == VALUE_MAP && !mask_has_card_number(text));
    const char *const texts[] = { observation->error_code, observation->provider_status,
                                  observation->provider_object, observation->reference };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (texts[i] == NULL) continue;
        INVARIANT(texts[i][0] != '\0' && strlen(texts[i]) <= 255);
        INVARIANT(value_text_is_valid(span_of_text(texts[i])));
    }
    INVARIANT(!observation->has_amount || observation->amount.minor >= 0);
    INVARIANT(observation->retry_after_s >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    struct span rest = { data, size };
    const size_t kind = fuzz_choice(&rest, REQUEST_CANCEL) + REQUEST_CREATE;
    const char *head = fuzz_line(&rest, &arena);
    char *end;
    const long status = strtol(head, &end, 10);
    const struct http_header headers[] = {
        { "Retry-After", end + strspn(end, " ") },
        { "Idempotent-Replayed", "true" },
    };
    const struct http_answer answer = {
        .phase = PHASE_ANSWERED,
        .status = (int)(status < 200 || status > 999 ? 200 : status),
        .headers = headers,
        .header_count = COUNT_OF(headers),
        .body = rest,
    };
    struct observation observation;
    stripe_ops.parse(OPERATION_CREATE, (enum request_kind)kind, &answer, &arena, &observation);
    INVARIANT(observation.kind != OBSERVED_UNSENT); /* an answer proves that something left */
    check_storable(&observation, &arena);
    check_verdict(&observation, false);
    check_verdict(&observation, true);
    arena_finish(&arena);
    return 0;
}
