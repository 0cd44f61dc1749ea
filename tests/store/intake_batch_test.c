/*
 * tests/store/intake_batch_test.c: whole batches through intake against a real PostgreSQL: what
 * one transaction leaves behind, what is answered the second time, and who wins a race.
 */
#include "pipeline/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "stages/intake/intake_render.h"
#include "tests/support/intake_messages.h"
#include "tests/support/pg_fixture.h"

static struct pg_fixture *fixture;

struct scene {
    const char *url;
    struct store *store;
    struct intake_messages messages;
};

static int open_scene(void **state)
{
    struct scene *scene = memory_allocate(sizeof *scene);
    scene->url = pg_fixture_database(fixture);
    scene->store = pg_fixture_store(scene->url);
    intake_messages_init(&scene->messages);
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    store_destroy(scene->store);
    intake_messages_finish(&scene->messages);
    free(scene);
    return 0;
}

static void run(struct scene *scene)
{
    const enum status status = intake_messages_run(&scene->messages, scene->store);
    if (status != STATUS_OK) print_message("%s\n", store_last_error(scene->store)->message);
    assert_string_equal(status_name(status), status_name(STATUS_OK));
}

static const struct intake_item *item_at(const struct scene *scene, size_t index)
{
    return &scene->messages.batch.items[index];
}

static void expect_verdict(const struct scene *scene, size_t index, enum intake_verdict verdict)
{
    const struct intake_item *item = item_at(scene, index);
    assert_true(item->is_valid);
    assert_false(item->is_twin);
    assert_string_equal(intake_verdict_name(item->decision.verdict), intake_verdict_name(verdict));
}

/* A member of the answer's body, as text. */
static const char *answer_member(struct scene *scene, size_t index, const char *name)
{
    struct value body;
    const struct intake_item *item = item_at(scene, index);
    assert_int_equal(
        value_read(item->envelope.content, item->answer.body, &scene->messages.arena, &body, NULL),
        STATUS_OK);
    const struct value *value = value_find(&body, name);
    assert_non_null(value);
    if (value->kind == VALUE_TEXT) return value_text(value);
    return (const char *)value_write_json(value, &scene->messages.arena).data;
}

static int64_t count_rows(const struct scene *scene, const char *from)
{
    char sql[400];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", from);
    return pg_fixture_number(scene->url, sql);
}

static void add(struct scene *scene, int n, const char *key)
{
    const struct pay_request request = intake_messages_request(&scene->messages, n);
    (void)intake_messages_add(&scene->messages, &request, key);
}

static void a_hundred_requests_are_one_transaction(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 100; i++) add(scene, i, NULL);
    run(scene);
    for (size_t i = 0; i < 100; i++) {
        expect_verdict(scene, i, INTAKE_NEW);
        assert_int_equal(item_at(scene, i)->answer.status, ANSWER_ACCEPTED);
    }
    assert_string_equal(answer_member(scene, 5, "status"), "pending");
    assert_string_equal(answer_member(scene, 5, "out_trade_no"), "T5");
    assert_string_equal(answer_member(scene, 5, "safe_to_pay_again"), "false");
    assert_string_equal(answer_member(scene, 5, "certainty"), "null");
    assert_string_equal(item_at(scene, 5)->answer.headers, "content-type: application/json\n");
    assert_int_equal(count_rows(scene, "payment WHERE status = 10 AND version = 1"), 100);
    assert_int_equal(
        count_rows(
            scene,
            "idempotency_key k JOIN payment p ON p.id = k.payment_id"
            " WHERE answer_status = 202 AND k.expires_at = k.created_at + interval '24 hours'"),
        100);
    assert_int_equal(
        count_rows(scene,
                   "active_payment a JOIN payment p ON p.id = a.payment_id WHERE a.version = 1"),
        100);
    assert_int_equal(
        count_rows(scene,
                   "state_history h JOIN payment p ON p.id = h.id AND p.history_hash = h.hash"
                   " WHERE h.entity = 1 AND h.version = 1 AND h.event = 'accepted'"),
        100);
    assert_int_equal(
        count_rows(scene,
                   "outbox WHERE kind = 1 AND subject ~ '^pay\\.route\\.[0-9]+$' AND entity = 1"
                   " AND entity_id = payment_id AND version = 0 AND body IS NULL"),
        100);
    assert_int_equal(
        count_rows(scene, "outbox WHERE kind = 2 AND subject = 'pay.event.m-1001.payment.accepted'"
                          " AND version = 1 AND headers LIKE '%ce-id: ' || id || '%'"),
        100);
    assert_int_equal(
        pg_fixture_number(scene->url, "SELECT count(DISTINCT xmin::text) FROM payment"), 1);
    assert_int_equal(count_rows(scene,
                                "payment WHERE start_by BETWEEN now() + interval '14 minutes'"
                                " AND now() + interval '15 minutes'"),
                     100);
}

/* COMMIT went through and nobody heard of it: the same messages are decided again. */
static void a_repeat_after_a_lost_commit_gives_the_same_answers(void **state)
{
    struct scene *scene = *state;
    struct intake_answer first[20];
    for (int i = 0; i < 20; i++) add(scene, i, NULL);
    run(scene);
    for (size_t i = 0; i < 20; i++) first[i] = item_at(scene, i)->answer;
    pg_fixture_cut(scene->url);
    enum status status = STATUS_RETRY;
    for (int i = 0; i < 50 && status == STATUS_RETRY; i++)
        status = intake_messages_run(&scene->messages, scene->store);
    assert_int_equal(status, STATUS_OK);
    for (size_t i = 0; i < 20; i++) {
        expect_verdict(scene, i, INTAKE_REPLAY);
        assert_int_equal(item_at(scene, i)->answer.status, first[i].status);
        assert_string_equal(item_at(scene, i)->answer.headers, first[i].headers);
        assert_true(span_equal(item_at(scene, i)->answer.body, first[i].body));
    }
    assert_int_equal(count_rows(scene, "payment"), 20);
    assert_int_equal(count_rows(scene, "outbox"), 40);
}

static void one_key_with_another_content_is_a_conflict_and_nothing_happens(void **state)
{
    struct scene *scene = *state;
    add(scene, 1, "key-1");
    run(scene);
    intake_messages_clear(&scene->messages);
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    (void)intake_messages_add(&scene->messages, &request, "key-1");
    request.amount.minor = 1300;
    (void)intake_messages_add(&scene->messages, &request, "key-1");
    run(scene);
    expect_verdict(scene, 0, INTAKE_REPLAY);
    expect_verdict(scene, 1, INTAKE_CONFLICT);
    assert_int_equal(item_at(scene, 1)->answer.status, 422);
    assert_string_equal(answer_member(scene, 1, "code"), "idempotency_conflict");
    assert_int_equal(count_rows(scene, "payment WHERE amount = 1200"), 1);
    assert_int_equal(count_rows(scene, "payment"), 1);
    assert_int_equal(count_rows(scene, "idempotency_key"), 1);
    assert_int_equal(
        count_rows(scene,
                   "outbox WHERE subject = 'pay.event.m-1001.request.rejected' AND version = 0"
                   " AND payment_id IS NULL AND entity_id = id"),
        1);
    run(scene); /* the message comes again: no second event */
    assert_int_equal(
        count_rows(scene, "outbox WHERE subject = 'pay.event.m-1001.request.rejected'"), 1);
}

static void one_number_under_another_key_has_its_first_answer_or_is_taken(void **state)
{
    struct scene *scene = *state;
    add(scene, 1, "key-1");
    run(scene);
    const struct intake_answer first = item_at(scene, 0)->answer;
    intake_messages_clear(&scene->messages);
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    (void)intake_messages_add(&scene->messages, &request, "key-2");
    request.amount.minor = 1300;
    (void)intake_messages_add(&scene->messages, &request, "key-3");
    run(scene);
    expect_verdict(scene, 0, INTAKE_SAME_PAYMENT);
    assert_true(span_equal(item_at(scene, 0)->answer.body, first.body));
    assert_int_equal(item_at(scene, 0)->answer.status, first.status);
    assert_true(item_at(scene, 1)->is_twin); /* it writes about the same number: next round */
    run(scene);
    expect_verdict(scene, 0, INTAKE_REPLAY);
    expect_verdict(scene, 1, INTAKE_TAKEN);
    assert_int_equal(item_at(scene, 1)->answer.status, 400);
    assert_string_equal(answer_member(scene, 1, "code"), "out_trade_no_taken");
    assert_non_null(strstr(answer_member(scene, 1, "existing"), "\"status\":\"pending\""));
    assert_int_equal(count_rows(scene, "payment"), 1);
    assert_int_equal(count_rows(scene, "idempotency_key k JOIN payment p ON p.id = k.payment_id"),
                     3);
    run(scene);
    expect_verdict(scene, 1, INTAKE_REPLAY);
}

static void what_the_fingerprint_leaves_out_may_differ_and_what_it_covers_may_not(void **state)
{
    struct scene *scene = *state;
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    request.metadata = "{\"n\":100,\"s\":\"x\"}";
    (void)intake_messages_add(&scene->messages, &request, "key-1");
    run(scene);
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
        run(scene);
        expect_verdict(scene, 0, ROWS[i].is_same ? INTAKE_SAME_PAYMENT : INTAKE_TAKEN);
    }
}

static void a_target_is_paid_once_at_a_time(void **state)
{
    struct scene *scene = *state;
    add(scene, 1, NULL);
    run(scene);
    intake_messages_clear(&scene->messages);
    struct pay_request second = intake_messages_request(&scene->messages, 2);
    second.target_id = "O1";
    (void)intake_messages_add(&scene->messages, &second, NULL);
    run(scene);
    expect_verdict(scene, 0, INTAKE_TARGET_BUSY);
    assert_int_equal(item_at(scene, 0)->answer.status, 409);
    assert_string_equal(answer_member(scene, 0, "code"), "target_busy");
    assert_non_null(strstr(answer_member(scene, 0, "existing"), "\"out_trade_no\":\"T1\""));
    assert_int_equal(count_rows(scene, "idempotency_key WHERE answer_status = 409"), 1);
    assert_int_equal(count_rows(scene, "payment"), 1); /* no refusal claims a number */

    pg_fixture_run(
        scene->url,
        "WITH m AS (UPDATE payment SET status = 90, version = 2, history_prev = history_hash,"
        " history_hash = history_link(history_hash, 1::int2, id, 2, 10::int2, 90::int2, "
        "'no_route', 'none',"
        " 'test', NULL, now()) RETURNING *) INSERT INTO state_history (payment_id, entity, id, "
        "version,"
        " from_status, to_status, event, why, actor, prev_hash, hash) SELECT id, 1, id, 2, 10, 90,"
        " 'no_route', 'none', 'test', history_prev, history_hash FROM m");
    run(scene); /* the same message: the refusal is stored, so it stands */
    expect_verdict(scene, 0, INTAKE_REPLAY);
    intake_messages_clear(&scene->messages);
    (void)intake_messages_add(&scene->messages, &second, "another key");
    pg_fixture_run(scene->url, "UPDATE active_payment SET hold = 'late arrival', version = 2");
    run(scene);
    expect_verdict(scene, 0, INTAKE_TARGET_HELD);
    assert_non_null(strstr(answer_member(scene, 0, "existing"), "\"hold\":\"late arrival\""));
    intake_messages_clear(&scene->messages);
    (void)intake_messages_add(&scene->messages, &second, "a third key");
    pg_fixture_run(scene->url, "UPDATE active_payment SET hold = NULL, version = 3");
    run(scene);
    expect_verdict(scene, 0, INTAKE_NEW);
    assert_int_equal(count_rows(scene, "active_payment a JOIN payment p ON p.id = a.payment_id"
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
    run(scene);
    expect_verdict(scene, 0, INTAKE_NEW);
    expect_verdict(scene, 1, INTAKE_NEW);
    assert_int_equal(count_rows(scene, "active_payment"), 0);
    assert_int_equal(count_rows(scene, "payment"), 2);
}

static void twins_wait_for_the_first_of_them(void **state)
{
    struct scene *scene = *state;
    struct pay_request request = intake_messages_request(&scene->messages, 1);
    (void)intake_messages_add(&scene->messages, &request, NULL);
    (void)intake_messages_add(&scene->messages, &request, NULL);      /* same key */
    (void)intake_messages_add(&scene->messages, &request, "another"); /* same number */
    request.out_trade_no = "T2";
    (void)intake_messages_add(&scene->messages, &request, NULL); /* same target */
    add(scene, 3, NULL);
    run(scene);
    expect_verdict(scene, 0, INTAKE_NEW);
    for (size_t i = 1; i < 4; i++) assert_true(item_at(scene, i)->is_twin);
    expect_verdict(scene, 4, INTAKE_NEW);
    run(scene);
    expect_verdict(scene, 0, INTAKE_REPLAY);
    expect_verdict(scene, 1, INTAKE_REPLAY);
    expect_verdict(scene, 2, INTAKE_SAME_PAYMENT);
    assert_true(item_at(scene, 3)->is_twin);
    run(scene);
    expect_verdict(scene, 3, INTAKE_TARGET_BUSY);
}

static void the_same_request_fifty_times_at_once_is_one_payment(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 50; i++) add(scene, 1, NULL);
    run(scene);
    for (size_t i = 1; i < 50; i++) assert_true(item_at(scene, i)->is_twin);
    run(scene); /* and one more round answers all of them */
    for (size_t i = 0; i < 50; i++) expect_verdict(scene, i, INTAKE_REPLAY);
    assert_int_equal(count_rows(scene, "payment"), 1);
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
    run(scene);
    for (size_t i = 0; i < 3; i++) {
        expect_verdict(scene, i, INTAKE_EXPIRED);
        assert_int_equal(item_at(scene, i)->answer.status, 422);
    }
    expect_verdict(scene, 3, INTAKE_NEW);
    assert_int_equal(count_rows(scene, "payment WHERE start_by = expires_at"), 1);
    assert_int_equal(
        count_rows(scene, "idempotency_key WHERE answer_status = 422 AND payment_id IS NULL"), 3);
}

static void an_expired_key_may_be_used_anew_but_never_for_its_own_number(void **state)
{
    struct scene *scene = *state;
    add(scene, 1, "key-1");
    run(scene);
    pg_fixture_run(scene->url,
                   "UPDATE idempotency_key SET expires_at = now() - interval '1 second'");
    intake_messages_clear(&scene->messages);
    add(scene, 1, "key-1");
    run(scene);
    expect_verdict(scene, 0, INTAKE_SAME_PAYMENT);
    assert_int_equal(count_rows(scene, "idempotency_key WHERE expires_at < now()"),
                     1); /* its record stays */
    intake_messages_clear(&scene->messages);
    add(scene, 2, "key-1");
    run(scene);
    expect_verdict(scene, 0, INTAKE_NEW);
    assert_int_equal(count_rows(scene, "idempotency_key k JOIN payment p ON p.id = k.payment_id"
                                       " WHERE p.out_trade_no = 'T2' AND k.expires_at > now()"),
                     1);
    run(scene);
    expect_verdict(scene, 0, INTAKE_REPLAY);
}

static void a_tombstone_answers_the_payment_that_comes_later(void **state)
{
    struct scene *scene = *state;
    pg_fixture_run(
        scene->url,
        "WITH d AS (SELECT gen_random_uuid() AS id, decode(repeat('00', 32), 'hex') AS zero), m AS "
        "(INSERT INTO"
        " payment (id, merchant, out_trade_no, status, version, certainty, start_by, history_prev,"
        " history_hash) SELECT id, 'm-1001', 'T1', 95, 1, 0, now(), zero, history_link(zero, "
        "1::int2, id, 1,"
        " 0::int2, 95::int2, 'cancel', 'c', 'test', NULL, now()) FROM d RETURNING *) INSERT INTO "
        "state_history"
        " (payment_id, entity, id, version, from_status, to_status, event, why, actor, prev_hash, "
        "hash)"
        " SELECT id, 1, id, 1, 0, 95, 'cancel', 'c', 'test', history_prev, history_hash FROM m");
    add(scene, 1, NULL);
    run(scene);
    expect_verdict(scene, 0, INTAKE_CANCELED_BEFORE);
    assert_int_equal(item_at(scene, 0)->answer.status, 409);
    assert_non_null(strstr(answer_member(scene, 0, "existing"), "\"status\":\"canceled\""));
    assert_int_equal(count_rows(scene, "payment"), 1);
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
    add(scene, 1, NULL);
    run(scene);
    int64_t kept = 1; /* the empty one */
    int64_t told = 1;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        assert_false(item_at(scene, i)->is_valid);
        assert_string_equal(answer_member(scene, i, "code"), ROWS[i].code);
        kept += ROWS[i].is_kept;
        told += ROWS[i].has_event;
    }
    expect_verdict(scene, COUNT_OF(ROWS) + 1, INTAKE_NEW);
    assert_int_equal(count_rows(scene, "dead_letter WHERE consumer = 'intake' AND case_id IS NULL"),
                     kept);
    assert_int_equal(count_rows(scene, "outbox WHERE subject LIKE '%.request.rejected'"), told);
    assert_int_equal(count_rows(scene, "idempotency_key"), 1);
    assert_int_equal(
        count_rows(scene, "dead_letter WHERE position('tok_secret' IN encode(body, 'escape')) > 0"
                          " OR position('42424242' IN encode(body, 'escape')) > 0"
                          " OR headers LIKE '%42424242%' OR problem LIKE '%tok_secret%'"),
        0);
    assert_int_equal(
        count_rows(scene, "dead_letter WHERE method_token LIKE 'tok_secret%' AND field = 'amount'"),
        1);
    run(scene); /* redelivered: nothing is kept or told twice */
    assert_int_equal(count_rows(scene, "dead_letter"), kept);
    assert_int_equal(count_rows(scene, "outbox WHERE subject LIKE '%.request.rejected'"), told);
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
    run(scene);
    expect_verdict(scene, 0, INTAKE_NEW);
    expect_verdict(scene, 1, INTAKE_NEW);
    assert_int_equal(
        count_rows(scene, "payment WHERE amount = 9223372036854775807 AND currency = 'IDR'"), 1);
}

/* Two processes read, then both write. The loser is told so and decides again from what there is. */
static void the_loser_of_a_race_decides_again(void **state)
{
    struct scene *scene = *state;
    static const struct {
        const char *out_trade_no;
        const char *key;
        const char *target;
        enum intake_verdict then;
    } LOSERS[] = {
        { "R1", "race", "O-a", INTAKE_REPLAY },            /* same key */
        { "R1", "other key", "O-a", INTAKE_SAME_PAYMENT }, /* same number */
        { "R1", "other key", "O-b", INTAKE_TAKEN },        /* same number, other target */
        { "R2", "other key", "O-a", INTAKE_TARGET_BUSY },  /* same target */
    };
    for (size_t i = 0; i < COUNT_OF(LOSERS); i++) {
        const char *url = pg_fixture_database(fixture);
        struct store *winner = pg_fixture_store(url);
        struct store *loser = pg_fixture_store(url);
        struct intake_messages *messages = &scene->messages;
        intake_messages_clear(messages);
        struct pay_request request = intake_messages_request(messages, 1);
        request.out_trade_no = "R1";
        request.target_id = "O-a";
        (void)intake_messages_add(messages, &request, "race");

        /* The loser's look and decision, before the winner commits. */
        struct intake_messages second;
        intake_messages_init(&second);
        request.out_trade_no = LOSERS[i].out_trade_no;
        request.target_id = LOSERS[i].target;
        (void)intake_messages_add(&second, &request, LOSERS[i].key);
        second.batch = (struct intake_batch){ .config = &second.config,
                                              .actor = "loser",
                                              .arena = &second.arena };
        intake_batch_read(&second.batch, second.pointers, second.count);
        struct intake_item *item = &second.batch.items[0];
        const struct pay_request *pointer = &item->request;
        struct intake_found *found = NULL;
        assert_int_equal(intake_read(loser, &pointer, 1, &second.arena, &found), STATUS_OK);
        item->found = found;
        item->start_by_us = found->now_us + 1000000;
        item->decision = intake_decide(&item->request, item->start_by_us, found);
        assert_int_equal(item->decision.verdict, INTAKE_NEW);
        struct intake_writes writes;
        intake_render(&second.batch, NULL, 0, &writes);

        assert_int_equal(intake_messages_run(messages, winner), STATUS_OK);
        assert_int_equal(intake_write(loser, &writes, &second.arena), STATUS_LOST_RACE);
        assert_int_equal(intake_messages_run(&second, loser), STATUS_OK);
        assert_string_equal(intake_verdict_name(second.batch.items[0].decision.verdict),
                            intake_verdict_name(LOSERS[i].then));
        assert_int_equal(pg_fixture_number(url, "SELECT count(*) FROM payment"), 1);
        assert_int_equal(pg_fixture_number(url, "SELECT count(*) FROM outbox WHERE kind = 1"), 1);
        intake_messages_finish(&second);
        store_destroy(winner);
        store_destroy(loser);
    }
}

/* One lost race undoes all of the batch: nothing of it is half there. */
static void a_lost_race_undoes_the_whole_batch(void **state)
{
    struct scene *scene = *state;
    add(scene, 1, NULL);
    add(scene, 2, NULL);
    intake_messages_run(&scene->messages, scene->store);
    assert_int_equal(count_rows(scene, "payment"), 2);
    struct intake_writes writes;
    struct intake_batch *batch =
        &scene->messages.batch; /* decided as new once more, as if it had not been read */
    batch->items[0].request.out_trade_no = "T9";
    batch->items[0].request.target_id = "O9";
    batch->items[0].request.key_hash[0] ^= 1;
    intake_render(batch, NULL, 0, &writes);
    assert_int_equal(writes.accept_count, 2);
    assert_int_equal(intake_write(scene->store, &writes, &scene->messages.arena), STATUS_LOST_RACE);
    assert_int_equal(count_rows(scene, "payment"), 2);
    assert_int_equal(count_rows(scene, "idempotency_key"), 2);
    assert_int_equal(count_rows(scene, "active_payment"), 2);
}

/* A plan made while the tables were empty is kept; it must not cost more when they have grown. */
static void plans_made_on_empty_tables_stay_good(void **state)
{
    struct scene *scene = *state;
    enum { ROUNDS = 20, SIZE = 64 };
    for (int i = 0; i < ROUNDS * SIZE; i++) {
        add(scene, i, NULL);
        if (scene->messages.count < SIZE) continue;
        run(scene);
        run(scene); /* replays read most */
        intake_messages_clear(&scene->messages);
    }
    store_destroy(scene->store);
    scene->store = NULL;
    static const char *const TABLES[] = { "payment", "active_payment", "idempotency_key",
                                          "state_history", "outbox" };
    for (size_t i = 0; i < COUNT_OF(TABLES); i++) {
        const int64_t reads = pg_fixture_reads_per_row(scene->url, TABLES[i]);
        if (reads > 10) print_error("%s: %" PRId64 " rows read for each\n", TABLES[i], reads);
        assert_true(reads <= 10);
    }
}

static int start(void **state)
{
    (void)state;
    fixture = pg_fixture_start();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pg_fixture_stop(fixture);
    return 0;
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(a_hundred_requests_are_one_transaction),
        SCENE(a_repeat_after_a_lost_commit_gives_the_same_answers),
        SCENE(one_key_with_another_content_is_a_conflict_and_nothing_happens),
        SCENE(one_number_under_another_key_has_its_first_answer_or_is_taken),
        SCENE(what_the_fingerprint_leaves_out_may_differ_and_what_it_covers_may_not),
        SCENE(a_target_is_paid_once_at_a_time),
        SCENE(a_payment_without_target_has_no_pointer),
        SCENE(twins_wait_for_the_first_of_them),
        SCENE(the_same_request_fifty_times_at_once_is_one_payment),
        SCENE(deadlines_hold_for_old_and_replayed_messages),
        SCENE(an_expired_key_may_be_used_anew_but_never_for_its_own_number),
        SCENE(a_tombstone_answers_the_payment_that_comes_later),
        SCENE(invalid_messages_are_kept_and_harm_nobody),
        SCENE(amounts_at_the_edge_are_taken),
        SCENE(the_loser_of_a_race_decides_again),
        SCENE(a_lost_race_undoes_the_whole_batch),
        SCENE(plans_made_on_empty_tables_stay_good),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
