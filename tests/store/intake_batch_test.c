/*
 * tests/store/intake_batch_test.c: whole batches through intake against a real PostgreSQL: what one
 * transaction leaves behind, what a repeat finds, and who wins a race.
 */
#include "tests/support/intake_scene.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <libpq-fe.h>
#include <pthread.h>

#include "pipeline/clock.h"
#include "stages/intake/intake_render.h"

static void a_hundred_requests_are_one_transaction(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 100; i++) scene_add(scene, i, NULL);
    scene_run(scene);
    for (size_t i = 0; i < 100; i++) {
        scene_expect(scene, i, INTAKE_NEW);
        assert_int_equal(scene_item(scene, i)->answer.status, ANSWER_ACCEPTED);
    }
    assert_string_equal(scene_answer_member(scene, 5, "status"), "pending");
    assert_string_equal(scene_answer_member(scene, 5, "out_trade_no"), "T5");
    assert_string_equal(scene_answer_member(scene, 5, "safe_to_pay_again"), "false");
    assert_string_equal(scene_answer_member(scene, 5, "certainty"), "null");
    assert_string_equal(scene_item(scene, 5)->answer.headers, "content-type: application/json\n");
    assert_int_equal(scene_count(scene, "payment WHERE status = 10 AND version = 1"), 100);
    assert_int_equal(
        scene_count(
            scene,
            "idempotency_key k JOIN payment p ON p.id = k.payment_id"
            " WHERE answer_status = 202 AND k.expires_at = k.created_at + interval '24 hours'"),
        100);
    assert_int_equal(
        scene_count(scene,
                    "active_payment a JOIN payment p ON p.id = a.payment_id WHERE a.version = 1"),
        100);
    assert_int_equal(
        scene_count(scene,
                    "state_history h JOIN payment p ON p.id = h.id AND is_linked(h, p.history_hash)"
                    " WHERE h.entity = 1 AND h.version = 1 AND h.event = 'accepted'"),
        100);
    assert_int_equal(
        scene_count(scene,
                    "outbox WHERE kind = 1 AND subject ~ '^pay\\.route\\.[0-9]+$' AND entity = 1"
                    " AND entity_id = payment_id AND version = 0 AND body IS NULL"),
        100);
    assert_int_equal(
        scene_count(scene, "outbox WHERE kind = 2 AND subject = 'pay.event.m-1001.payment.accepted'"
                           " AND version = 1 AND payment_id IS NOT NULL AND headers = ''"),
        100);
    assert_int_equal(
        pg_fixture_number(scene->url, "SELECT count(DISTINCT xmin::text) FROM payment"), 1);
    assert_int_equal(scene_count(scene,
                                 "payment WHERE start_by BETWEEN now() + interval '14 minutes'"
                                 " AND now() + interval '15 minutes'"),
                     100);
}

/* COMMIT went through and nobody heard of it: the same messages are decided again. */
static void a_repeat_after_a_lost_commit_gives_the_same_answers(void **state)
{
    struct scene *scene = *state;
    struct intake_answer first[20];
    for (int i = 0; i < 20; i++) scene_add(scene, i, NULL);
    scene_run(scene);
    for (size_t i = 0; i < 20; i++) first[i] = scene_item(scene, i)->answer;
    pg_fixture_cut(scene->url);
    enum status status = STATUS_RETRY;
    for (int i = 0; i < 50 && status == STATUS_RETRY; i++)
        status = intake_messages_run(&scene->messages, scene->store);
    assert_int_equal(status, STATUS_OK);
    for (size_t i = 0; i < 20; i++) {
        scene_expect(scene, i, INTAKE_REPLAY);
        assert_int_equal(scene_item(scene, i)->answer.status, first[i].status);
        assert_string_equal(scene_item(scene, i)->answer.headers, first[i].headers);
        assert_true(span_equal(scene_item(scene, i)->answer.body, first[i].body));
    }
    assert_int_equal(scene_count(scene, "payment"), 20);
    assert_int_equal(scene_count(scene, "outbox"), 40);
}

/* What is written without a look is accepted like any other, and only if nobody was first. */
static void new_requests_need_no_look(void **state)
{
    struct scene *scene = *state;
    scene->messages.unseen_now_us = clock_real_us();
    for (int i = 0; i < 3; i++) scene_add(scene, i, NULL);
    scene_run(scene);
    assert_false(scene->messages.batch.was_seen);
    for (size_t i = 0; i < 3; i++) scene_expect(scene, i, INTAKE_NEW);
    assert_int_equal(scene_count(scene, "idempotency_key k JOIN payment p ON p.id = k.payment_id"
                                        " JOIN active_payment a ON a.payment_id = p.id"),
                     3);
}

static void who_was_first_shows_to_those_who_did_not_look(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 1, NULL);
    scene_run(scene);
    const struct intake_answer first = scene_item(scene, 0)->answer;
    scene->messages.unseen_now_us = clock_real_us();
    static const struct {
        const char *out_trade_no;
        const char *key;
        const char *target;
        enum intake_verdict then;
    } OTHERS[] = {
        { "T1", NULL, "O1", INTAKE_REPLAY },
        { "T1", "another", "O1", INTAKE_SAME_PAYMENT },
        { "T2", NULL, "O1", INTAKE_TARGET_BUSY },
    };
    for (size_t i = 0; i < COUNT_OF(OTHERS); i++) {
        intake_messages_clear(&scene->messages);
        struct pay_request request = intake_messages_request(&scene->messages, 1);
        request.out_trade_no = OTHERS[i].out_trade_no;
        request.target_id = OTHERS[i].target;
        (void)intake_messages_add(&scene->messages, &request, OTHERS[i].key);
        scene_add(scene, 10 + (int)i, NULL); /* one that is new goes with it */
        scene_run(scene);
        assert_true(scene->messages.batch.was_seen);
        scene_expect(scene, 0, OTHERS[i].then);
        scene_expect(scene, 1, INTAKE_NEW);
        if (OTHERS[i].then == INTAKE_TARGET_BUSY) continue;
        assert_true(span_equal(scene_item(scene, 0)->answer.body, first.body));
    }
    assert_int_equal(scene_count(scene, "payment"), 1 + (int)COUNT_OF(OTHERS));
}

/* A repeat of what was accepted, late: unseen it would be told "expired". */
static void nothing_is_refused_without_a_look(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 1, NULL);
    scene_run(scene);
    scene->messages.unseen_now_us = clock_real_us() + 3600 * CLOCK_SECOND_US;
    scene_run(scene);
    assert_true(scene->messages.batch.was_seen);
    scene_expect(scene, 0, INTAKE_REPLAY);
    assert_int_equal(scene_count(scene, "outbox WHERE kind = 2"), 1);
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
    scene_add(scene, 3, NULL);
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_NEW);
    for (size_t i = 1; i < 4; i++) assert_true(scene_item(scene, i)->is_twin);
    scene_expect(scene, 4, INTAKE_NEW);
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_REPLAY);
    scene_expect(scene, 1, INTAKE_REPLAY);
    scene_expect(scene, 2, INTAKE_SAME_PAYMENT);
    assert_true(scene_item(scene, 3)->is_twin);
    scene_run(scene);
    scene_expect(scene, 3, INTAKE_TARGET_BUSY);
}

static void the_same_request_fifty_times_at_once_is_one_payment(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 50; i++) scene_add(scene, 1, NULL);
    scene_run(scene);
    for (size_t i = 1; i < 50; i++) assert_true(scene_item(scene, i)->is_twin);
    scene_run(scene); /* and one more round answers all of them */
    for (size_t i = 0; i < 50; i++) scene_expect(scene, i, INTAKE_REPLAY);
    assert_int_equal(scene_count(scene, "payment"), 1);
}

/* Two processes read, then both write. The loser is told so and decides again from fresh rows. */
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
        const char *url = pg_fixture_database(scene_fixture);
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
    scene_add(scene, 1, NULL);
    scene_add(scene, 2, NULL);
    intake_messages_run(&scene->messages, scene->store);
    assert_int_equal(scene_count(scene, "payment"), 2);
    struct intake_writes writes;
    struct intake_batch *batch =
        &scene->messages.batch; /* decided as new once more, as if it had not been read */
    batch->items[0].request.out_trade_no = "T9";
    batch->items[0].request.target_id = "O9";
    batch->items[0].request.key_hash[0] ^= 1;
    intake_render(batch, NULL, 0, &writes);
    assert_int_equal(writes.accept_count, 2);
    assert_int_equal(intake_write(scene->store, &writes, &scene->messages.arena), STATUS_LOST_RACE);
    assert_int_equal(scene_count(scene, "payment"), 2);
    assert_int_equal(scene_count(scene, "idempotency_key"), 2);
    assert_int_equal(scene_count(scene, "active_payment"), 2);
}

static void add_rival(struct scene *scene, int n, const char *target)
{
    struct pay_request request = intake_messages_request(&scene->messages, n);
    request.target_id = target;
    (void)intake_messages_add(&scene->messages, &request,
                              arena_format(&scene->messages.arena, "rival-%d", n));
}

/* What was decided is written once more, as by a worker that had not seen the first. */
static enum status write_again(struct scene *scene)
{
    struct intake_writes writes;
    intake_render(&scene->messages.batch, NULL, 0, &writes);
    assert_int_equal(writes.accept_count + writes.stored_count, 1);
    return intake_write(scene->store, &writes, &scene->messages.arena);
}

static void a_stored_answer_is_never_written_over(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 1, NULL);
    scene_run(scene);
    intake_messages_clear(&scene->messages);
    add_rival(scene, 2, "O1");
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_TARGET_BUSY);
    assert_int_equal(write_again(scene), STATUS_LOST_RACE);
}

/* Decided from a pointer that was free, and has moved or is held since. */
static void a_pointer_that_moved_is_a_lost_race(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 1, NULL);
    scene_run(scene);
    const struct payment_id first = scene_item(scene, 0)->payment;
    intake_messages_clear(&scene->messages);
    add_rival(scene, 2, "O1");
    scene_run(scene);
    scene_expect(scene, 0, INTAKE_TARGET_BUSY);
    struct intake_item *item = &scene->messages.batch.items[0];
    struct intake_found found = *item->found;
    item->request.key_hash[0] ^= 1;
    item->decision = (struct intake_decision){ .verdict = INTAKE_NEW, .writes_key = true };
    item->problem = (struct problem){ .code = PROBLEM_NONE };
    item->found = &found;
    found.active_version = 7;
    assert_int_equal(write_again(scene), STATUS_LOST_RACE);
    found.active_version = 1;
    found.active.uuid = uuid_new();
    assert_int_equal(write_again(scene), STATUS_LOST_RACE);
    found.active = first;
    found.active_version = 2;
    pg_fixture_run(scene->url, "UPDATE active_payment SET hold = 'case', version = version + 1");
    assert_int_equal(write_again(scene), STATUS_LOST_RACE);
}

/* --- who waits for whom ---------------------------------------------------------------------- */

/* The key's row, locked. */
static const char *lock_key_sql(struct scene *scene, const struct pay_request *request,
                                const char *if_locked)
{
    char hash[2 * sizeof request->key_hash + 1];
    for (size_t i = 0; i < sizeof request->key_hash; i++)
        (void)snprintf(hash + 2 * i, 3, "%02x", request->key_hash[i]);
    return arena_format(&scene->messages.arena,
                        "SELECT 1 FROM oncepay.idempotency_key WHERE key_hash = '\\x%s'"
                        " FOR UPDATE%s",
                        hash, if_locked);
}

static void *run_scene(void *argument)
{
    scene_run(argument);
    return NULL;
}

/*
 * Expired keys are locked in their order, whatever the order of the batch (protocol H3): the batch
 * has the greater one first, another session holds it, and the lesser is locked already.
 */
static void expired_keys_are_renewed_in_their_order(void **state)
{
    struct scene *scene = *state;
    scene_add(scene, 0, NULL);
    scene_add(scene, 1, NULL);
    scene_run(scene);
    intake_messages_clear(&scene->messages);
    add_rival(scene, 2, "O0");
    add_rival(scene, 3, "O1");
    scene_run(scene);
    for (size_t i = 0; i < 2; i++) scene_expect(scene, i, INTAKE_TARGET_BUSY);
    pg_fixture_run(scene->url, "UPDATE idempotency_key SET expires_at = now() - interval '1 h'"
                               " WHERE answer_status <> 202");
    const struct pay_request first = scene_item(scene, 0)->request;
    const struct pay_request second = scene_item(scene, 1)->request;
    const bool is_sorted = memcmp(first.key_hash, second.key_hash, sizeof first.key_hash) < 0;

    intake_messages_clear(&scene->messages);
    add_rival(scene, is_sorted ? 3 : 2, "O2");
    add_rival(scene, is_sorted ? 2 : 3, "O3");
    PGconn *holder = PQconnectdb(scene->url);
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, lock_key_sql(scene, is_sorted ? &second : &first, "")));
    const char *free_sql =
        arena_format(&scene->messages.arena, "SELECT count(*) FROM (%s) free",
                     lock_key_sql(scene, is_sorted ? &first : &second, " SKIP LOCKED"));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_scene, scene), 0);
    while (pg_fixture_number(scene->url, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0) {}
    const int64_t free_count = pg_fixture_number(scene->url, free_sql);
    PQclear(PQexec(holder, "ROLLBACK"));
    PQfinish(holder);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(free_count, 0);
    for (size_t i = 0; i < 2; i++) scene_expect(scene, i, INTAKE_NEW);
}

/* A plan made while the tables were empty is kept; it must not cost more when they have grown. */
static void plans_made_on_empty_tables_stay_good(void **state)
{
    struct scene *scene = *state;
    enum { ROUNDS = 20, SIZE = 64 };
    for (int i = 0; i < ROUNDS * SIZE; i++) {
        scene_add(scene, i, NULL);
        if (scene->messages.count < SIZE) continue;
        scene_run(scene);
        scene_run(scene); /* replays read most */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(a_hundred_requests_are_one_transaction),
        SCENE(a_repeat_after_a_lost_commit_gives_the_same_answers),
        SCENE(new_requests_need_no_look),
        SCENE(who_was_first_shows_to_those_who_did_not_look),
        SCENE(nothing_is_refused_without_a_look),
        SCENE(twins_wait_for_the_first_of_them),
        SCENE(the_same_request_fifty_times_at_once_is_one_payment),
        SCENE(the_loser_of_a_race_decides_again),
        SCENE(a_lost_race_undoes_the_whole_batch),
        SCENE(a_stored_answer_is_never_written_over),
        SCENE(a_pointer_that_moved_is_a_lost_race),
        SCENE(expired_keys_are_renewed_in_their_order),
        SCENE(plans_made_on_empty_tables_stay_good),
    };
    return cmocka_run_group_tests(tests, scene_start, scene_stop);
}
