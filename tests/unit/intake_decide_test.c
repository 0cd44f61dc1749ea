/* tests/unit/intake_decide_test.c: one row per answer, in the order of intake's looking. */
#include "pipeline/clock.h"
#include "stages/intake/intake_decide.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "stages/intake/intake_answer.h"
#include "stages/intake/intake_render.h"

enum { SECOND = 1000000 };

static const struct payment_id OTHER = { { { 1, 2, 3 } } };
static const struct payment_id RUNNING = { { { 4, 5, 6 } } };

/* Everything wrong at once; each row takes away what stood before it in the order. */
static struct intake_found everything_wrong(void)
{
    struct intake_found found = {
        .now_us = 100 * INT64_C(1000000),
        .has_key = true,
        .fingerprint_version = REQUEST_FINGERPRINT_VERSION,
        .payment = OTHER,
        .is_tombstone = true,
        .active = RUNNING,
        .active_version = 3,
        .active_status = PAYMENT_AUTHORIZING,
        .is_held = true,
    };
    memset(found.fingerprint, 7, sizeof found.fingerprint);
    return found;
}

static struct pay_request request_with_target(void)
{
    struct pay_request request = {
        .merchant = "m-1001", .out_trade_no = "T1", .target_kind = "order", .target_id = "O1"
    };
    memset(request.fingerprint, 7, sizeof request.fingerprint);
    return request;
}

static void check(const struct pay_request *request, const struct intake_found *found,
                  int64_t start_by_us, enum intake_verdict verdict, enum problem_code problem,
                  bool writes_key, struct payment_id existing)
{
    const struct intake_decision decision = intake_decide(request, start_by_us, found);
    assert_string_equal(intake_verdict_name(decision.verdict), intake_verdict_name(verdict));
    assert_int_equal(decision.problem, problem);
    assert_int_equal(decision.writes_key, writes_key);
    assert_true(uuid_equal(decision.existing.uuid, existing.uuid));
}

static void answers_are_looked_for_in_order(void **state)
{
    (void)state;
    const struct payment_id nobody = { { { 0 } } };
    const struct pay_request request = request_with_target();
    struct intake_found found = everything_wrong();
    const int64_t past = found.now_us;
    const int64_t ahead = found.now_us + 1;
    check(&request, &found, past, INTAKE_REPLAY, PROBLEM_NONE, false, nobody);
    found.fingerprint[31]++;
    check(&request, &found, past, INTAKE_CONFLICT, PROBLEM_IDEMPOTENCY_CONFLICT, false, nobody);
    found.has_key = false;
    check(&request, &found, past, INTAKE_CANCELED_BEFORE, PROBLEM_CANCELED_BEFORE_START, true,
          OTHER);
    found.is_tombstone = false;
    check(&request, &found, past, INTAKE_TAKEN, PROBLEM_OUT_TRADE_NO_TAKEN, true, OTHER);
    found.is_same = true;
    check(&request, &found, past, INTAKE_SAME_PAYMENT, PROBLEM_NONE, true, nobody);
    found.payment = nobody;
    check(&request, &found, past, INTAKE_EXPIRED, PROBLEM_EXPIRED, true, nobody);
    check(&request, &found, ahead, INTAKE_TARGET_BUSY, PROBLEM_TARGET_BUSY, true, RUNNING);
    found.active_status = PAYMENT_FAILED;
    check(&request, &found, ahead, INTAKE_TARGET_HELD, PROBLEM_TARGET_HELD, true, RUNNING);
    found.is_held = false;
    check(&request, &found, ahead, INTAKE_NEW, PROBLEM_NONE, true, nobody);
    found.active = nobody;
    check(&request, &found, ahead, INTAKE_NEW, PROBLEM_NONE, true, nobody);
}

static void a_target_is_free_only_when_its_payment_is_over(void **state)
{
    (void)state;
    static const struct {
        enum payment_state status;
        bool is_over;
    } ROWS[] = {
        { PAYMENT_CREATED, false },    { PAYMENT_AUTHORIZING, false }, { PAYMENT_CANCELING, false },
        { PAYMENT_AUTHORIZED, false }, { PAYMENT_VOIDING, false },     { PAYMENT_CAPTURING, false },
        { PAYMENT_CAPTURED, false },   { PAYMENT_REFUNDING, false },   { PAYMENT_REFUNDED, true },
        { PAYMENT_REVERSED, true },    { PAYMENT_FAILED, true },       { PAYMENT_CANCELED, true },
    };
    const struct pay_request request = request_with_target();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const struct intake_found found = { .active = RUNNING,
                                            .active_version = 1,
                                            .active_status = ROWS[i].status };
        const struct intake_decision decision = intake_decide(&request, SECOND, &found);
        assert_int_equal(decision.verdict, ROWS[i].is_over ? INTAKE_NEW : INTAKE_TARGET_BUSY);
    }
}

static void a_request_without_target_meets_no_barrier(void **state)
{
    (void)state;
    struct pay_request request = request_with_target();
    request.target_id = NULL;
    const struct intake_found found = { .active = RUNNING,
                                        .active_status = PAYMENT_AUTHORIZING,
                                        .is_held = true };
    assert_int_equal(intake_decide(&request, SECOND, &found).verdict, INTAKE_NEW);
}

/* Its record stays: only a request with a number of its own may use the key anew. */
static void an_expired_key_stops_answering_and_the_number_holds(void **state)
{
    (void)state;
    const struct payment_id nobody = { { { 0 } } };
    const struct pay_request request = request_with_target();
    struct intake_found found = {
        .has_key = true, .key_is_expired = true, .payment = OTHER, .is_same = true
    };
    found.fingerprint_version = REQUEST_FINGERPRINT_VERSION;
    memset(found.fingerprint, 7, sizeof found.fingerprint);
    check(&request, &found, SECOND, INTAKE_SAME_PAYMENT, PROBLEM_NONE, false, nobody);
    found.is_same = false;
    check(&request, &found, SECOND, INTAKE_TAKEN, PROBLEM_OUT_TRADE_NO_TAKEN, false, OTHER);
    found.is_tombstone = true;
    check(&request, &found, SECOND, INTAKE_CANCELED_BEFORE, PROBLEM_CANCELED_BEFORE_START, false,
          OTHER);
    found.payment = nobody;
    check(&request, &found, SECOND, INTAKE_NEW, PROBLEM_NONE, true, nobody);
}

static void a_fingerprint_of_another_version_is_another_fingerprint(void **state)
{
    (void)state;
    const struct pay_request request = request_with_target();
    struct intake_found found = everything_wrong();
    found.fingerprint_version = REQUEST_FINGERPRINT_VERSION + 1;
    assert_int_equal(intake_decide(&request, SECOND, &found).verdict, INTAKE_CONFLICT);
}

static void start_by_counts_from_the_older_time_and_never_from_the_future(void **state)
{
    (void)state;
    static const struct {
        struct intake_age age;
        int64_t expires_at;
        int64_t now;
        int64_t start_by;
    } ROWS[] = {
        /* seconds */
        { { 1000, 0 }, 0, 1000, 1900 },     { { 1000, 0 }, 0, 5000, 1900 },
        { { 1000, 400 }, 0, 1000, 1300 },   { { 1000, 2000 }, 0, 1000, 1900 },
        { { 9000, 0 }, 0, 1000, 1900 },     { { 1000, 0 }, 1200, 1000, 1200 },
        { { 1000, 0 }, 99999, 1000, 1900 }, { { 1000, 0 }, 10, 1000, 10 },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const struct intake_age age = { ROWS[i].age.stored_us * SECOND,
                                        ROWS[i].age.first_stored_us * SECOND };
        assert_int_equal(
            intake_start_by(&age, ROWS[i].expires_at * SECOND, 900, ROWS[i].now * SECOND),
            ROWS[i].start_by * SECOND);
    }
}

static void the_first_stored_header_is_digits_or_nothing(void **state)
{
    (void)state;
    assert_int_equal(intake_first_stored("1764500000000000"), INT64_C(1764500000000000));
    static const char *const NOTHING[] = {
        NULL, "", "-5", "+5", " 5", "5 ", "0x5", "1.5", "9999999999999999999", "0"
    };
    for (size_t i = 0; i < COUNT_OF(NOTHING); i++)
        assert_int_equal(intake_first_stored(NOTHING[i]), 0);
}

static void check_cached(const char *headers)
{
    struct arena arena = { NULL };
    static const uint8_t BODY[] = { 0x81, '\n', '\n', 0, 0xff };
    const struct intake_answer answer = { 202, headers, { BODY, sizeof BODY } };
    const int64_t life_ends_us = INT64_C(1764500000123456);
    const struct span bytes = intake_answer_encode(&answer, life_ends_us, &arena);
    struct intake_answer back;
    int64_t expires_us = 0;
    assert_true(intake_answer_decode(bytes, &arena, &back, &expires_us));
    assert_int_equal(expires_us, life_ends_us);
    assert_int_equal(back.status, 202);
    assert_string_equal(back.headers, headers);
    assert_true(span_equal(back.body, answer.body));
    for (size_t length = 0; length + sizeof BODY < bytes.length; length++) {
        assert_false(
            intake_answer_decode((struct span){ bytes.data, length }, &arena, &back, &expires_us));
    }
    arena_finish(&arena);
}

static void an_answer_in_the_cache_reads_back(void **state)
{
    (void)state;
    struct arena arena = { NULL };
    struct intake_answer back;
    check_cached("");
    check_cached("content-type: application/json\n");
    static const char *const BAD[] = {
        "",
        "abc 5\n\n",
        "20 5\n\n",
        "20\n\n",
        "202\n\n",
        "202 \n\n",
        " 5\n\n",
        "2020 5\n\n",
        "202 -5\n\n",
        "202 5\ncontent-type: x\n",
        "202 1234567890123456789\n\n",
    };
    int64_t expires_us = 0;
    for (size_t i = 0; i < COUNT_OF(BAD); i++)
        assert_false(intake_answer_decode(span_of_text(BAD[i]), &arena, &back, &expires_us));
    arena_finish(&arena);
}

static void an_answer_expires_no_later_than_its_key(void **state)
{
    (void)state;
    const struct intake_found found = { .now_us = 1000, .key_expires_us = 1700 };
    const struct {
        struct intake_decision decision;
        int64_t expires_us;
    } CASES[] = {
        { { .verdict = INTAKE_NEW, .writes_key = true }, 1500 },
        { { .verdict = INTAKE_TARGET_BUSY, .writes_key = true }, 1500 },
        { { .verdict = INTAKE_REPLAY, .writes_key = false }, 1700 },
        { { .verdict = INTAKE_CONFLICT, .writes_key = false }, 0 },
        { { .verdict = INTAKE_SAME_PAYMENT, .writes_key = false }, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        assert_int_equal(intake_answer_expires(&CASES[i].decision, &found, 500),
                         CASES[i].expires_us);
    }
}

static void the_databases_clock_is_never_thought_too_early(void **state)
{
    (void)state;
    struct intake_clock clock = { .is_known = false };
    assert_true(intake_clock_latest(&clock, 5) == INT64_MAX);
    /* Asked at 100, said 9000 at some time up to the answer at 130. */
    intake_clock_note(&clock, 100, 150, 9000);
    assert_int_equal(intake_clock_latest(&clock, 100), 9000);
    assert_int_equal(intake_clock_latest(&clock, 130), 9030);
    intake_clock_note(&clock, 200, 250, 8000);
    assert_int_equal(intake_clock_latest(&clock, 250), 8050);
    /* Two clocks that are left alone for a day do not agree at its end. */
    const int64_t day_us = 24 * 3600 * CLOCK_SECOND_US;
    assert_true(intake_clock_latest(&clock, 250 + day_us) >= 8050 + day_us + 60 * CLOCK_SECOND_US);
}

/* What is written unseen must neither get more time to start nor be kept longer for it. */
static void nor_too_late_where_it_is_assumed(void **state)
{
    (void)state;
    struct intake_clock clock = { .is_known = false };
    assert_int_equal(intake_clock_earliest(&clock, 5), 0);
    intake_clock_note(&clock, 100, 150, 9000);
    assert_int_equal(intake_clock_earliest(&clock, 150), 9000);
    assert_int_equal(intake_clock_earliest(&clock, 160), 9010);
    assert_int_equal(intake_clock_earliest(&clock, 150 + 10 * CLOCK_SECOND_US),
                     9000 + 10 * CLOCK_SECOND_US);
    assert_int_equal(intake_clock_earliest(&clock, 151 + 10 * CLOCK_SECOND_US), 0);
}

static void a_message_has_one_id_and_another_message_another(void **state)
{
    (void)state;
    struct bus_message message = { .stream_sequence = 7,
                                   .stored_at_us = INT64_C(1764500000123456),
                                   .body = span_of_text("x") };
    const struct uuid id = intake_render_id(&message);
    assert_true(uuid_equal(id, intake_render_id(&message)));
    assert_int_equal(id.bytes[6] >> 4, 7);
    assert_int_equal(id.bytes[8] >> 6, 2);
    uint64_t ms = 0;
    for (size_t i = 0; i < 6; i++) ms = ms << 8 | id.bytes[i];
    assert_int_equal(ms, UINT64_C(1764500000123));
    message.deliveries = 5;
    assert_true(uuid_equal(id, intake_render_id(&message)));
    message.stream_sequence = 8;
    assert_false(uuid_equal(id, intake_render_id(&message)));
    message.stream_sequence = 7;
    message.stored_at_us++;
    assert_false(uuid_equal(id, intake_render_id(&message)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_looked_for_in_order),
        cmocka_unit_test(a_target_is_free_only_when_its_payment_is_over),
        cmocka_unit_test(a_request_without_target_meets_no_barrier),
        cmocka_unit_test(an_expired_key_stops_answering_and_the_number_holds),
        cmocka_unit_test(a_fingerprint_of_another_version_is_another_fingerprint),
        cmocka_unit_test(start_by_counts_from_the_older_time_and_never_from_the_future),
        cmocka_unit_test(the_first_stored_header_is_digits_or_nothing),
        cmocka_unit_test(an_answer_in_the_cache_reads_back),
        cmocka_unit_test(an_answer_expires_no_later_than_its_key),
        cmocka_unit_test(the_databases_clock_is_never_thought_too_early),
        cmocka_unit_test(nor_too_late_where_it_is_assumed),
        cmocka_unit_test(a_message_has_one_id_and_another_message_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
