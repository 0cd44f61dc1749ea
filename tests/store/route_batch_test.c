/*
 * tests/store/route_batch_test.c: route against a real PostgreSQL: the attempt that it stores, what
 * a repeat does, who wins a race, and what settle is told when there is no account.
 */
#include "pipeline/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "stages/route/route_batch.h"
#include "tests/support/intake_messages.h"
#include "tests/support/pg_fixture.h"

static struct pg_fixture *fixture;

/* --- a PSP whose words are easy to read -------------------------------------------------- */

static enum status fake_build_create(const struct psp_create *in, struct arena *arena,
                                     struct psp_request *out, const char **out_error)
{
    (void)out_error;
    if (in->amount.minor == 666) return STATUS_BAD_DATA;
    *out = (struct psp_request){
        .method = "POST",
        .path = "/pay",
        .content_type = "text/plain",
        .body = span_of_text(arena_format(arena, "%s %" PRId64 " %s %s", in->provider_key,
                                          in->amount.minor, in->amount.currency.code,
                                          in->method_token)),
    };
    return STATUS_OK;
}

static const struct psp_ops fake = {
    .name = "fake",
    .capability = { .version = 1, .key_length_max = 40 },
    .build_create = fake_build_create,
};

/* --- a scene: two accounts, payments accepted by intake ---------------------------------- */

enum { PAYMENTS_MAX = 128 };

struct scene {
    const char *url;
    struct store *store;
    struct intake_messages messages;
    struct config config;
    struct config_account accounts[2];
    struct route_desk desk;
    struct stage_item items[PAYMENTS_MAX];
    struct stage_item *pointers[PAYMENTS_MAX];
    size_t count;
    struct route_item *decided;
};

static const char *const CURRENCIES[] = { "EUR", "USD" };
static const char *const METHODS[] = { "card" };
static const char *const REALMS[] = { "stripe" };

static struct config_account account_of(const char *id)
{
    return (struct config_account){
        .id = id,
        .psp = "stripe",
        .currencies = { CURRENCIES, COUNT_OF(CURRENCIES) },
        .methods = { METHODS, COUNT_OF(METHODS) },
        .token_realms = { REALMS, COUNT_OF(REALMS) },
        .amount_minor_min = 1,
        .amount_minor_max = 99999999,
        .limits = { .open_attempts_max = 1000 },
    };
}

static int open_scene(void **state)
{
    struct scene *scene = memory_allocate(sizeof *scene);
    const char *unknown = NULL;
    scene->url = pg_fixture_database(fixture);
    scene->store = pg_fixture_store(scene->url);
    intake_messages_init(&scene->messages);
    scene->accounts[0] = account_of("stripe-main");
    scene->accounts[1] = account_of("stripe-backup");
    scene->accounts[1].amount_minor_max = 5000;
    scene->config =
        (struct config){ .installation = "test", .accounts = scene->accounts, .account_count = 2 };
    assert_int_equal(route_desk_open(&scene->desk, &scene->config, &unknown), STATUS_OK);
    for (size_t i = 0; i < 2; i++) scene->desk.adapters[i] = &fake;
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    route_desk_close(&scene->desk);
    store_destroy(scene->store);
    intake_messages_finish(&scene->messages);
    free(scene);
    return 0;
}

/* Accepts a payment of this amount and puts its route command into the batch. */
static struct payment_id accept_payment(struct scene *scene, int n, int64_t minor)
{
    struct pay_request request = intake_messages_request(&scene->messages, n);
    request.amount.minor = minor;
    intake_messages_clear(&scene->messages);
    (void)intake_messages_add(&scene->messages, &request, NULL);
    assert_int_equal(intake_messages_run(&scene->messages, scene->store), STATUS_OK);
    const struct intake_item *item = &scene->messages.batch.items[0];
    assert_int_equal(item->decision.verdict, INTAKE_NEW);
    scene->items[scene->count] = (struct stage_item){
        .command = { item->command, item->payment, item->payment.uuid, 0, COMMAND_ROUTE },
    };
    scene->pointers[scene->count] = &scene->items[scene->count];
    scene->count++;
    return item->payment;
}

static enum status run(struct scene *scene)
{
    scene->desk.counted_us = 0; /* each round counts afresh */
    return route_batch_commit(&scene->desk, scene->store, "route/test/1", scene->pointers,
                              scene->count, &scene->messages.arena, &scene->decided);
}

static void expect(const struct scene *scene, size_t index, enum route_verdict verdict,
                   const char *reason)
{
    assert_string_equal(scene->decided[index].decision.reason, reason);
    assert_int_equal(scene->decided[index].decision.verdict, verdict);
}

static int64_t count_rows(const struct scene *scene, const char *from)
{
    char sql[500];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", from);
    return pg_fixture_number(scene->url, sql);
}

static void a_set_of_payments_gets_its_attempts_in_one_transaction(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 100; i++) (void)accept_payment(scene, i, 1000 + i);
    assert_int_equal(run(scene), STATUS_OK);
    for (size_t i = 0; i < 100; i++) {
        expect(scene, i, ROUTE_TAKE, "taken");
        assert_int_equal(scene->decided[i].next.kind, COMMAND_CREATE);
        assert_string_equal(scene->decided[i].next_subject, "pay.create.stripe-main.new");
    }
    assert_int_equal(count_rows(scene, "payment WHERE status = 20 AND version = 2"), 100);
    assert_int_equal(
        count_rows(scene,
                   "payment_attempt a JOIN payment p ON p.id = a.payment_id"
                   " WHERE a.status = 10 AND a.version = 1 AND a.certainty = 2 AND a.ordinal = 1"
                   " AND a.channel_account = 'stripe-main' AND a.amount = p.amount"
                   " AND a.currency = p.currency AND a.method_type = 'card'"
                   " AND a.request_hash = sha256(a.request_bytes)"),
        100);
    assert_int_equal(
        count_rows(scene,
                   "state_history WHERE event = 'routed' AND routing_version LIKE 'first-%'"),
        200);
    assert_int_equal(
        count_rows(
            scene,
            "routing_decision d JOIN payment_attempt a ON a.payment_id = d.payment_id"
            " AND a.ordinal = d.follows + 1 AND a.channel_account = d.channel_account"
            " AND a.routing_version = d.routing_version WHERE d.follows = 0 AND d.reasons = '{}'"),
        100);
    assert_int_equal(
        count_rows(scene, "outbox o JOIN payment_attempt a ON a.id = o.entity_id WHERE o.kind = 1"
                          " AND o.entity = 2 AND o.version = 1 AND o.payment_id = a.payment_id"
                          " AND o.subject = 'pay.create.stripe-main.new'"),
        100);
    assert_int_equal(count_rows(scene, "outbox WHERE kind = 2"),
                     100); /* intake's: route writes no event */
}

/* A database that lost its last commits builds the same key and the same bytes (protocol C4). */
static void keys_and_bytes_depend_on_the_payment_alone(void **state)
{
    struct scene *scene = *state;
    (void)accept_payment(scene, 1, 1000);
    assert_int_equal(run(scene), STATUS_OK);
    char *first = pg_fixture_text(
        scene->url, "SELECT provider_key || encode(request_bytes, 'hex') FROM payment_attempt");
    scene->url = pg_fixture_database(fixture);
    store_destroy(scene->store);
    scene->store = pg_fixture_store(scene->url);
    scene->count = 0;
    (void)accept_payment(scene, 1, 1000);
    assert_int_equal(run(scene), STATUS_OK);
    char *second = pg_fixture_text(
        scene->url, "SELECT provider_key || encode(request_bytes, 'hex') FROM payment_attempt");
    assert_string_equal(first, second);
    free(first);
    free(second);
}

static void a_repeat_does_nothing(void **state)
{
    struct scene *scene = *state;
    (void)accept_payment(scene, 1, 1000);
    assert_int_equal(run(scene), STATUS_OK);
    pg_fixture_cut(scene->url); /* as if the commit's answer had been lost */
    enum status status = STATUS_RETRY;
    for (int i = 0; i < 50 && status == STATUS_RETRY; i++) status = run(scene);
    assert_int_equal(status, STATUS_OK);
    expect(scene, 0, ROUTE_NOTHING, "attempt_exists");
    assert_int_equal(count_rows(scene, "payment_attempt"), 1);
    assert_int_equal(count_rows(scene, "outbox WHERE kind = 1"), 2);
}

static void without_an_account_settle_is_told_and_the_payment_stays(void **state)
{
    struct scene *scene = *state;
    const struct payment_id payment = accept_payment(scene, 1, 100000000);
    char subject[SUBJECT_SIZE];
    assert_int_equal(run(scene), STATUS_OK);
    expect(scene, 0, ROUTE_DENY, "no_route");
    assert_int_equal(scene->decided[0].next.kind, COMMAND_NO_ROUTE);
    assert_string_equal(scene->decided[0].next_subject, subject_settle(payment, subject));
    assert_int_equal(count_rows(scene, "payment WHERE status = 10 AND version = 1"), 1);
    assert_int_equal(
        count_rows(scene, "routing_decision WHERE channel_account IS NULL AND attempt_id IS NULL"
                          " AND reasons->>'reason' = 'no_route'"
                          " AND reasons->'candidates'->0->>'account' = 'stripe-main'"
                          " AND reasons->'candidates'->0->>'reason' = 'amount'"),
        1);
    assert_int_equal(
        count_rows(scene,
                   "outbox o JOIN routing_decision d ON d.id = o.entity_id WHERE o.entity = 5"
                   " AND o.version = 0 AND o.payment_id = d.payment_id"),
        1);
    assert_int_equal(run(scene), STATUS_OK);
    expect(scene, 0, ROUTE_NOTHING, "decision_exists");
}

static void what_a_psp_cannot_say_goes_to_the_next_account(void **state)
{
    struct scene *scene = *state;
    static struct psp_ops other;
    other = fake;
    other.capability.key_length_max = 30;
    scene->desk.adapters[1] = &other;
    (void)accept_payment(scene, 1, 666);
    assert_int_equal(run(scene), STATUS_OK);
    expect(scene, 0, ROUTE_DENY, "no_route"); /* neither has words for it */
    assert_int_equal(
        count_rows(scene,
                   "routing_decision WHERE reasons->'candidates'->0->>'reason' = 'inexpressible'"
                   " AND reasons->'candidates'->1->>'reason' = 'inexpressible'"),
        1);
    scene->accounts[0].amount_minor_max = 999;
    (void)accept_payment(scene, 2, 1000);
    assert_int_equal(run(scene), STATUS_OK);
    expect(scene, 1, ROUTE_TAKE, "taken");
    assert_int_equal(
        count_rows(scene, "routing_decision WHERE channel_account = 'stripe-backup' AND reasons ="
                          " '{\"candidates\": [{\"account\": \"stripe-main\","
                          " \"reason\": \"amount\"}]}'"),
        1);
    assert_int_equal(count_rows(scene, "payment_attempt WHERE channel_account = 'stripe-backup'"
                                       " AND length(provider_key) = 30"),
                     1);
}

static void a_payment_past_its_start_by_is_denied(void **state)
{
    struct scene *scene = *state;
    scene->messages.config.timers.start_by_s = 1;
    (void)accept_payment(scene, 1, 1000);
    pg_fixture_run(scene->url, "SELECT pg_sleep(1)");
    assert_int_equal(run(scene), STATUS_OK);
    expect(scene, 0, ROUTE_DENY, "expired_before_start");
    assert_int_equal(
        count_rows(scene, "routing_decision WHERE reasons->>'reason' = 'expired_before_start'"), 1);
}

static void full_accounts_make_payments_wait(void **state)
{
    struct scene *scene = *state;
    scene->accounts[0].limits.open_attempts_max = 5;
    scene->accounts[1].limits.open_attempts_max = 2;
    scene->desk.accounts[0].cap = 5;
    scene->desk.accounts[1].cap = 2;
    pg_fixture_run(
        scene->url,
        "INSERT INTO recovery_policy (version, body) VALUES ('v', '');"
        "INSERT INTO recovery_task (id, payment_id, attempt_id, channel_account, method_type, "
        "operation, amount,"
        " currency, purpose, status, due_at, policy_version, version) SELECT gen_random_uuid(),"
        " gen_random_uuid(), gen_random_uuid(), 'stripe-main', 'card', 1, 1, 'EUR', 1, CASE WHEN g "
        "> 2 THEN 50"
        " ELSE 10 END, now(), 'v', 1 FROM generate_series(1, 9) g;"
        "INSERT INTO fence_batch (id, channel_account, worker, attempts, due_at) VALUES "
        "(gen_random_uuid(),"
        " 'stripe-main', 'w', ARRAY[gen_random_uuid(), gen_random_uuid()], now())");
    for (int i = 0; i < 4; i++)
        (void)accept_payment(scene, i, 1000); /* room for one here, two there */
    assert_int_equal(run(scene), STATUS_OK);
    assert_string_equal(scene->decided[0].next_subject, "pay.create.stripe-main.new");
    assert_string_equal(scene->decided[1].next_subject, "pay.create.stripe-backup.new");
    assert_string_equal(scene->decided[2].next_subject, "pay.create.stripe-backup.new");
    expect(scene, 3, ROUTE_WAIT, "open_attempts");
    assert_int_equal(count_rows(scene, "payment WHERE status = 10"), 1);
    assert_int_equal(count_rows(scene, "routing_decision"), 3);
}

/* Two processes read the same payment; the second writes nothing, then finds nothing to do. */
static void one_of_two_routes_a_payment(void **state)
{
    struct scene *scene = *state;
    (void)accept_payment(scene, 1, 1000);
    const struct payment_id second = accept_payment(scene, 2, 1000);
    struct store *other = pg_fixture_store(scene->url);
    const struct route_question question = { scene->items[0].command.payment, 0 };
    struct route_payment *read = NULL;
    assert_int_equal(route_read(other, &question, 1, &scene->messages.arena, &read), STATUS_OK);
    assert_int_equal(read->version, 1);

    scene->count = 1; /* the first one only */
    assert_int_equal(run(scene), STATUS_OK);
    struct route_take takes[2] = { 0 };
    for (size_t i = 0; i < 2; i++) {
        takes[i] = (struct route_take){
            .payment = i == 0 ? question.payment : second,
            .version = 1,
            .attempt = { uuid_new() },
            .ordinal = 1,
            .account = "stripe-main",
            .provider_key = i == 0 ? "op_aaaaaaaaaaaaaaaaaaaaaaaa" : "op_bbbbbbbbbbbbbbbbbbbbbbbb",
            .request_bytes = span_of_text("x"),
            .decision = uuid_new(),
            .reasons = "{}",
            .command = { uuid_new() },
            .command_subject = "pay.create.stripe-main.new",
        };
    }
    const struct route_writes writes = {
        .actor = "other", .routing_version = "v", .takes = takes, .take_count = 2
    };
    assert_int_equal(route_write(other, &writes, &scene->messages.arena), STATUS_LOST_RACE);
    assert_int_equal(count_rows(scene, "payment_attempt"),
                     1); /* nothing of the lost batch is there */

    struct route_deny denial = {
        .payment = question.payment,
        .version = 1,
        .decision = uuid_new(),
        .reasons = "{}",
        .command = { uuid_new() },
        .command_subject = "pay.settle.0",
    };
    const struct route_writes late = {
        .actor = "other", .routing_version = "v", .denials = &denial, .denial_count = 1
    };
    assert_int_equal(route_write(other, &late, &scene->messages.arena), STATUS_LOST_RACE);
    scene->count = 2;
    assert_int_equal(run(scene), STATUS_OK);
    expect(scene, 0, ROUTE_NOTHING, "attempt_exists");
    expect(scene, 1, ROUTE_TAKE, "taken");
    store_destroy(other);
}

static void a_payment_that_is_not_there_is_nothing(void **state)
{
    struct scene *scene = *state;
    scene->items[0] =
        (struct stage_item){ .command = { .payment = { uuid_new() }, .kind = COMMAND_ROUTE } };
    scene->pointers[0] = &scene->items[0];
    scene->count = 1;
    assert_int_equal(run(scene), STATUS_OK);
    expect(scene, 0, ROUTE_NOTHING, "payment_missing");
}

/* A plan made while the tables were empty is kept; it must not cost more when they have grown. */
static void plans_made_on_empty_tables_stay_good(void **state)
{
    struct scene *scene = *state;
    enum { ROUNDS = 10 };
    for (int i = 0; i < ROUNDS * PAYMENTS_MAX; i++) {
        (void)accept_payment(scene, i, 1000);
        if (scene->count < PAYMENTS_MAX) continue;
        assert_int_equal(run(scene), STATUS_OK);
        scene->count = 0;
    }
    store_destroy(scene->store);
    scene->store = NULL;
    static const char *const TABLES[] = { "payment", "payment_attempt", "routing_decision",
                                          "state_history", "outbox" };
    for (size_t i = 0; i < COUNT_OF(TABLES); i++) {
        const int64_t reads = pg_fixture_reads_per_row(scene->url, TABLES[i]);
        if (reads > 20) print_error("%s: %" PRId64 " rows read for each\n", TABLES[i], reads);
        assert_true(reads <= 20);
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
        SCENE(a_set_of_payments_gets_its_attempts_in_one_transaction),
        SCENE(keys_and_bytes_depend_on_the_payment_alone),
        SCENE(a_repeat_does_nothing),
        SCENE(without_an_account_settle_is_told_and_the_payment_stays),
        SCENE(what_a_psp_cannot_say_goes_to_the_next_account),
        SCENE(a_payment_past_its_start_by_is_denied),
        SCENE(full_accounts_make_payments_wait),
        SCENE(one_of_two_routes_a_payment),
        SCENE(a_payment_that_is_not_there_is_nothing),
        SCENE(plans_made_on_empty_tables_stay_good),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
