/*
 * tests/store/intake_answer_test.c: what intake answers, stores and keeps, request by request,
 * against a real PostgreSQL.
 */
#include "tests/support/intake_scene.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void one_key_with_another_content_is_a_conflict_and_nothing_happens(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 1, "key-1");
    scene_run(scene);
    intake_messages_clear(&scene->messages);
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    (void)intake_messages_add(&scene->messages, &request, "key-1");
    request.amount.minor = 1300;
    (void)intake_messages_add(&scene->messages, &request, "key-1");
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_REPLAY);
    scene_expect(scene, 1, INTAKE_CONFLICT);
    assert_int_equal(scene_item(scene, 1)->answer.status, 422);
    assert_string_equal(scene_answer_member(scene, 1, "code"), "idempotency_conflict");
    assert_int_equal(scene_count(scene, "payment WHERE amount = 1200"), 1);
    assert_int_equal(scene_count(scene, "payment"), 1);
    assert_int_equal(scene_count(scene, "idempotency_key"), 1);
    assert_int_equal(
        scene_count(scene,
                    "outbox WHERE subject = 'pay.event.m-1001.request.rejected' AND version = 0"
                    " AND payment_id IS NULL AND entity_id = id"),
        1);
    scene_run(scene); /* the message comes again: no second event */
    assert_int_equal(
        scene_count(scene, "outbox WHERE subject = 'pay.event.m-1001.request.rejected'"), 1);
}

static void one_number_under_another_key_has_its_first_answer_or_is_taken(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 1, "key-1");
    scene_run(scene);
    const struct intake_answer first = scene_item(scene, 0)->answer;
    intake_messages_clear(&scene->messages);
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    (void)intake_messages_add(&scene->messages, &request, "key-2");
    request.amount.minor = 1300;
    (void)intake_messages_add(&scene->messages, &request, "key-3");
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_SAME_PAYMENT);
    assert_true(span_equal(scene_item(scene, 0)->answer.body, first.body));
    assert_int_equal(scene_item(scene, 0)->answer.status, first.status);
    assert_true(scene_item(scene, 1)->is_twin); /* it writes about the same number: next round */
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_REPLAY);
    scene_expect(scene, 1, INTAKE_TAKEN);
    assert_int_equal(scene_item(scene, 1)->answer.status, 400);
    assert_string_equal(scene_answer_member(scene, 1, "code"), "out_trade_no_taken");
    assert_non_null(strstr(scene_answer_member(scene, 1, "existing"), "\"status\":\"pending\""));
    assert_int_equal(scene_count(scene, "payment"), 1);
    assert_int_equal(scene_count(scene, "idempotency_key k JOIN payment p ON p.id = k.payment_id"),
                     3);
    scene_run(scene);
    scene_expect(scene, 1, INTAKE_REPLAY);
}

static void what_the_fingerprint_leaves_out_may_differ_and_what_it_covers_may_not(void **state)
{
    struct scene *scene = *state;
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    request.metadata = "{\"n\":100,\"s\":\"x\"}";
    (void)intake_messages_add(&scene->messages, &request, "key-1");
    scene_run(scene);
    static const struct {
        const char *return_url;
        const char *metadata;
        const char *token;
        const char *target;
        bool is_same;
    } ROWS[] = {
        { "https://example.org/back", "{\"s\":\"x\",\"n\":100.00}", "pm_card_visa", "O1", true },
        { NULL, "{\"n\":101,\"s\":\"x\"}", "pm_card_visa", "O1", false },
        { NULL, NULL, "pm_card_visa", "O1", false },
        { NULL, "{\"n\":100,\"s\":\"x\"}", "pm_card_mastercard", "O1", false },
        { NULL, "{\"n\":100,\"s\":\"x\"}", "pm_card_visa", "O2", false },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        intake_messages_clear(&scene->messages);
        request.return_url = ROWS[i].return_url;
        request.metadata = ROWS[i].metadata;
        request.method_token = ROWS[i].token;
        request.target_id = ROWS[i].target;
        (void)intake_messages_add(&scene->messages, &request, ROWS[i].token); /* any other key */
        pg_fixture_run(scene->url, "UPDATE idempotency_key SET expires_at = now()");
        scene_run(scene);
        scene_expect(scene, 0, ROWS[i].is_same ? INTAKE_SAME_PAYMENT : INTAKE_TAKEN);
    }
}

static void a_target_is_paid_once_at_a_time(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 1, NULL);
    scene_run(scene);
    intake_messages_clear(&scene->messages);
    struct pay_request second = intake_messages_request(&scene->messages, 2);
    second.target_id = "O1";
    (void)intake_messages_add(&scene->messages, &second, NULL);
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_TARGET_BUSY);
    assert_int_equal(scene_item(scene, 0)->answer.status, 409);
    assert_string_equal(scene_answer_member(scene, 0, "code"), "target_busy");
    assert_non_null(strstr(scene_answer_member(scene, 0, "existing"), "\"out_trade_no\":\"T1\""));
    assert_int_equal(scene_count(scene, "idempotency_key WHERE answer_status = 409"), 1);
    assert_int_equal(scene_count(scene, "payment"), 1); /* no refusal claims a number */

    pg_fixture_run(
        scene->url,
        "WITH m AS (UPDATE payment SET status = 90, version = 2,"
        " history_hash = history_link(history_hash, 1::int2, id, 2, 10::int2, 90::int2, "
        "'no_route', 'none',"
        " 'test', NULL, now()) RETURNING *), o AS (SELECT history_hash FROM payment WHERE status = "
        "10)"
        " INSERT INTO state_history (payment_id, entity, id, "
        "version,"
        " from_status, to_status, event, why, actor, prev_hash) SELECT id, 1, id, 2, 10, 90,"
        " 'no_route', 'none', 'test', o.history_hash FROM m, o");
    scene_run(scene); /* the same message: the refusal is stored, so it stands */
    scene_expect(scene, 0, INTAKE_REPLAY);
    intake_messages_clear(&scene->messages);
    (void)intake_messages_add(&scene->messages, &second, "another key");
    pg_fixture_run(scene->url, "UPDATE active_payment SET hold = 'late arrival', version = 2");
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_TARGET_HELD);
    assert_non_null(strstr(scene_answer_member(scene, 0, "existing"), "\"hold\":\"late arrival\""));
    intake_messages_clear(&scene->messages);
    (void)intake_messages_add(&scene->messages, &second, "a third key");
    pg_fixture_run(scene->url, "UPDATE active_payment SET hold = NULL, version = 3");
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_NEW);
    assert_int_equal(scene_count(scene, "active_payment a JOIN payment p ON p.id = a.payment_id"
                                        " WHERE a.version = 4 AND p.out_trade_no = 'T2'"),
                     1);
}

static void a_payment_without_target_has_no_pointer(void **state)
{
    struct scene *scene = *state;
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    request.target_kind = "none";
    request.target_id = NULL;
    (void)intake_messages_add(&scene->messages, &request, NULL);
    request.out_trade_no = "T2";
    (void)intake_messages_add(&scene->messages, &request, NULL);
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_NEW);
    scene_expect(scene, 1, INTAKE_NEW);
    assert_int_equal(scene_count(scene, "active_payment"), 0);
    assert_int_equal(scene_count(scene, "payment"), 2);
}

static void deadlines_hold_for_old_and_replayed_messages(void **state)
{
    struct scene *scene = *state;
    const int64_t minute_us = 60 * INT64_C(1000000);
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    struct bus_message *old = intake_messages_add(&scene->messages, &request, NULL);
    old->stored_at_us -= 16 * minute_us;
    request = intake_messages_request(&scene->messages, 2);
    struct bus_message *replayed = intake_messages_add(&scene->messages, &request, NULL);
    struct bus_header *headers = arena_allocate(&scene->messages.arena, 3 * sizeof *headers);
    memcpy(headers, replayed->headers, 2 * sizeof *headers);
    headers[2] = (struct bus_header){ INTAKE_FIRST_STORED_HEADER,
                                      arena_format(&scene->messages.arena, "%" PRId64,
                                                   replayed->stored_at_us - 20 * minute_us) };
    replayed->headers = headers;
    replayed->header_count = 3;
    request = intake_messages_request(&scene->messages, 3);
    request.expires_at_us = old->stored_at_us;
    (void)intake_messages_add(&scene->messages, &request, NULL);
    request = intake_messages_request(&scene->messages, 4);
    request.expires_at_us = replayed->stored_at_us + 5 * minute_us;
    (void)intake_messages_add(&scene->messages, &request, NULL);
    scene_run(scene);
    for (size_t i = 0; i < 3; i++) {
        scene_expect(scene, i, INTAKE_EXPIRED);
        assert_int_equal(scene_item(scene, i)->answer.status, 422);
    }
    scene_expect(scene, 3, INTAKE_NEW);
    assert_int_equal(scene_count(scene, "payment WHERE start_by = expires_at"), 1);
    assert_int_equal(
        scene_count(scene, "idempotency_key WHERE answer_status = 422 AND payment_id IS NULL"), 3);
}

static void an_expired_key_may_be_used_anew_but_never_for_its_own_number(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 1, "key-1");
    scene_run(scene);
    pg_fixture_run(scene->url,
                   "UPDATE idempotency_key SET expires_at = now() - interval '1 second'");
    intake_messages_clear(&scene->messages);
    scene_add(scene, 1, "key-1");
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_SAME_PAYMENT);
    assert_int_equal(scene_count(scene, "idempotency_key WHERE expires_at < now()"),
                     1); /* its record stays */
    intake_messages_clear(&scene->messages);
    scene_add(scene, 2, "key-1");
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_NEW);
    assert_int_equal(scene_count(scene, "idempotency_key k JOIN payment p ON p.id = k.payment_id"
                                        " WHERE p.out_trade_no = 'T2' AND k.expires_at > now()"),
                     1);
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_REPLAY);
}

static void a_tombstone_answers_the_payment_that_comes_later(void **state)
{
    struct scene *scene = *state;
    pg_fixture_run(
        scene->url,
        "WITH d AS (SELECT gen_random_uuid() AS id, decode(repeat('00', 32), 'hex') AS zero), m AS "
        "(INSERT INTO"
        " payment (id, merchant, out_trade_no, status, version, certainty, start_by,"
        " history_hash) SELECT id, 'm-1001', 'T1', 95, 1, 0, now(), history_link(zero, "
        "1::int2, id, 1,"
        " 0::int2, 95::int2, 'cancel', 'c', 'test', NULL, now()) FROM d RETURNING *) INSERT INTO "
        "state_history"
        " (payment_id, entity, id, version, from_status, to_status, event, why, actor, prev_hash)"
        " SELECT id, 1, id, 1, 0, 95, 'cancel', 'c', 'test', decode(repeat('00', 32), 'hex') FROM "
        "m");
    scene_add(scene, 1, NULL);
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_CANCELED_BEFORE);
    assert_int_equal(scene_item(scene, 0)->answer.status, 409);
    assert_non_null(strstr(scene_answer_member(scene, 0, "existing"), "\"status\":\"canceled\""));
    assert_int_equal(scene_count(scene, "payment"), 1);
}

/* Refused, kept without what must not be kept, told by event; the rest of the batch is unharmed. */
static void invalid_messages_are_kept_and_harm_nobody(void **state)
{
    struct scene *scene = *state;
    static const struct {
        const char *subject;
        const char *body;
        const char *code;
        bool is_kept;
        bool has_event;
    } ROWS[] = {
        { "pay.intake.m-1001.pay", "{\"merchant\":", "not_json", true, true },
        { "pay.intake.m-1001.pay", "{\"version\":9}", "unknown_version", true, true },
        { "pay.intake.m-1001.pay",
          "{\"merchant\":\"m-1001\",\"out_trade_no\":\"A1\",\"target\":{\"kind\":\"none\"},"
          "\"amount\":100.00,"
          "\"currency\":\"EUR\",\"method\":{\"type\":\"card\",\"token\":\"tok_secret\"}}",
          "field_type", true, true },
        { "pay.intake.m-1001.pay",
          "{\"merchant\":\"m-1001\",\"out_trade_no\":\"A2\",\"target\":{\"kind\":\"none\"},"
          "\"amount\":100,"
          "\"currency\":\"EUR\",\"method\":{\"type\":\"card\",\"number\":\"4242424242424242\"}}",
          "raw_card_number", true, true },
        { "pay.intake.m-9999.pay", "{}", "merchant_unknown", true, true },
        { "pay.intake.m 1.pay", "{}", "unknown_operation", true, false },
        { "pay.intake.\xff\xfe.pay", "\xff\xfe", "unknown_operation", true, false },
        { "pay.intake.m-1001.refund", "{}", "not_supported", false, true },
        { "pay.intake.m-1001.dance", "{}", "unknown_operation", true, true },
    };
    const struct bus_header headers[] = { { "content-type", "application/json" },
                                          { "pay-reply-to", "_INBOX.x.1" },
                                          { "x-card", "4242424242424242 \xff" } };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        (void)intake_messages_add_raw(&scene->messages, ROWS[i].subject, span_of_text(ROWS[i].body),
                                      headers, COUNT_OF(headers));
    }
    (void)intake_messages_add_raw(&scene->messages, "pay.intake.m-1001.pay",
                                  (struct span){ NULL, 0 }, NULL, 0);
    scene_add(scene, 1, NULL);
    scene_run(scene);
    int64_t kept = 1; /* the empty one */
    int64_t told = 1;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        assert_false(scene_item(scene, i)->is_valid);
        assert_string_equal(scene_answer_member(scene, i, "code"), ROWS[i].code);
        kept += ROWS[i].is_kept;
        told += ROWS[i].has_event;
    }
    scene_expect(scene, COUNT_OF(ROWS) + 1, INTAKE_NEW);
    assert_int_equal(
        scene_count(scene, "dead_letter WHERE consumer = 'intake' AND case_id IS NULL"), kept);
    assert_int_equal(scene_count(scene, "outbox WHERE subject LIKE '%.request.rejected'"), told);
    assert_int_equal(scene_count(scene, "idempotency_key"), 1);
    assert_int_equal(
        scene_count(scene, "dead_letter WHERE position('tok_secret' IN encode(body, 'escape')) > 0"
                           " OR position('42424242' IN encode(body, 'escape')) > 0"
                           " OR headers LIKE '%42424242%' OR problem LIKE '%tok_secret%'"),
        0);
    assert_int_equal(
        scene_count(scene,
                    "dead_letter WHERE method_token LIKE 'tok_secret%' AND field = 'amount'"),
        1);
    scene_run(scene); /* redelivered: nothing is kept or told twice */
    assert_int_equal(scene_count(scene, "dead_letter"), kept);
    assert_int_equal(scene_count(scene, "outbox WHERE subject LIKE '%.request.rejected'"), told);
}

static void amounts_at_the_edge_are_taken(void **state)
{
    struct scene *scene = *state;
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    request.amount = (struct money){ INT64_MAX, { "IDR" } };
    request.metadata = "{\"big\":1e300,\"small\":1e-300}";
    (void)intake_messages_add(&scene->messages, &request, NULL);
    request = intake_messages_request(&scene->messages, 2);
    request.amount = (struct money){ 1, { "KWD" } };
    request.out_trade_no = "~!\"'\\ $1;--";
    (void)intake_messages_add(&scene->messages, &request, NULL);
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_NEW);
    scene_expect(scene, 1, INTAKE_NEW);
    assert_int_equal(
        scene_count(scene, "payment WHERE amount = 9223372036854775807 AND currency = 'IDR'"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(one_key_with_another_content_is_a_conflict_and_nothing_happens),
        SCENE(one_number_under_another_key_has_its_first_answer_or_is_taken),
        SCENE(what_the_fingerprint_leaves_out_may_differ_and_what_it_covers_may_not),
        SCENE(a_target_is_paid_once_at_a_time),
        SCENE(a_payment_without_target_has_no_pointer),
        SCENE(deadlines_hold_for_old_and_replayed_messages),
        SCENE(an_expired_key_may_be_used_anew_but_never_for_its_own_number),
        SCENE(a_tombstone_answers_the_payment_that_comes_later),
        SCENE(invalid_messages_are_kept_and_harm_nobody),
        SCENE(amounts_at_the_edge_are_taken),
    };
    return cmocka_run_group_tests(tests, scene_start, scene_stop);
}
