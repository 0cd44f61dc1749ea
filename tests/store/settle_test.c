/*
 * tests/store/settle_test.c: settle's batch on a real PostgreSQL (protocol F): each end once,
 * however many settle it; what it means for the target; and ends that meet a final payment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/clock.h"
#include "pipeline/hash.h"
#include "pipeline/log.h"
#include "stages/settle/settle_batch.h"
#include "tests/support/payment_rows.h"

#define CHECK(call) assert_int_equal(call, STATUS_OK)

enum { ITEMS_MAX = 256 };

static struct pg_fixture *fixture;

static const struct psp_capability FAITHFUL = { .keeps_failures_under_key = true,
                                                .late_arrival_window_s = 3600 };
static const struct psp_capability HOSTILE = { .late_arrival_window_s = 3600 };

struct bench {
    const char *url;
    struct store *store;
    struct arena arena;
    struct settle_account account;
    struct settle settle;
    struct bus_message message;
    struct stage_item items[ITEMS_MAX];
    struct stage_item *pointers[ITEMS_MAX];
    size_t count;
    struct settle_news news;
};

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

static struct bench *make_bench(const struct psp_capability *capability)
{
    struct bench *bench = memory_allocate(sizeof *bench);
    bench->url = pg_fixture_database(fixture);
    payment_rows_install(bench->url);
    bench->store = pg_fixture_store(bench->url);
    bench->account = (struct settle_account){ "stripe-main", capability };
    bench->settle = (struct settle){
        .store = bench->store,
        .actor = "settle/test",
        .accounts = &bench->account,
        .account_count = 1,
        .call_limit_us = 30 * CLOCK_SECOND_US,
        .give_up_after_us = 300 * CLOCK_SECOND_US,
    };
    bench->message.stored_at_us = clock_real_us();
    return bench;
}

static int open_bench(void **state)
{
    *state = make_bench(&FAITHFUL);
    return 0;
}

static void destroy_bench(struct bench *bench)
{
    store_destroy(bench->store);
    arena_finish(&bench->arena);
    free(bench);
}

static int close_bench(void **state)
{
    destroy_bench(*state);
    return 0;
}

static int64_t number(const struct bench *bench, const char *sql, struct uuid id)
{
    return payment_rows_number(bench->url, sql, id);
}

static int64_t version_of(const struct bench *bench, struct payment_id payment)
{
    return number(bench, "SELECT version FROM payment WHERE id = $id", payment.uuid);
}

static void assert_text(const struct bench *bench, const char *sql, struct uuid id,
                        const char *expected)
{
    char *text = payment_rows_text(bench->url, sql, id);
    assert_string_equal(text, expected);
    free(text);
}

/* Commands wait in the bench until they are run together. */
static void add(struct bench *bench, enum command_kind kind, struct payment_id payment,
                struct uuid entity, int64_t version)
{
    assert_true(bench->count < ITEMS_MAX);
    struct stage_item *item = &bench->items[bench->count];
    *item = (struct stage_item){
        .message = &bench->message,
        .command = { .outbox = { uuid_new() },
                     .payment = payment,
                     .entity = entity,
                     .version = version,
                     .kind = kind },
    };
    bench->pointers[bench->count++] = item;
}

static enum status run(struct bench *bench)
{
    const enum status status = settle_batch_run(&bench->settle, bench->pointers, bench->count,
                                                &bench->arena, &bench->news);
    bench->count = 0;
    return status;
}

static void settle(struct bench *bench, struct payment_id payment, struct attempt_id attempt)
{
    add(bench, COMMAND_SETTLE, payment, attempt.uuid, 3);
    CHECK(run(bench));
    assert_int_equal(bench->items[0].disposal, STAGE_DONE);
}

static const struct attempt_news PAID = { ATTEMPT_SUCCEEDED, SOURCE_ANSWER, NULL, CLOSURE_KNOWN,
                                          "pi_1" };
static const struct attempt_news DECLINED = { ATTEMPT_FAILED, SOURCE_ANSWER, "card_declined",
                                              CLOSURE_KNOWN, "pi_1" };
static const struct attempt_news LOST = { ATTEMPT_UNKNOWN, SOURCE_TRANSPORT, "timeout",
                                          CLOSURE_OPEN, NULL };

static struct payment_id sent_payment(const struct bench *bench, const char *out_trade_no,
                                      const char *target, struct attempt_id *out_attempt)
{
    const struct payment_id payment = payment_rows_pay(bench->url, out_trade_no, target);
    *out_attempt = payment_rows_attempt(bench->url, payment);
    payment_rows_send(bench->url, *out_attempt, 10);
    return payment;
}

/* The body of the payment's newest event as JSON. */
static const char *event_body(struct bench *bench, struct payment_id payment)
{
    char *hex = payment_rows_text(bench->url,
                                  "SELECT encode(body, 'hex') FROM outbox WHERE kind = 2 AND"
                                  " payment_id = $id AND version > 0 ORDER BY version DESC LIMIT 1",
                                  payment.uuid);
    const size_t size = strlen(hex) / 2;
    uint8_t *bytes = arena_allocate(&bench->arena, size + 1);
    struct value body;
    assert_true(hash_unhex(span_of_text(hex), bytes, size));
    free(hex);
    CHECK(value_read_msgpack((struct span){ bytes, size }, &bench->arena, &body, NULL));
    return (const char *)value_write_json(&body, &bench->arena).data;
}

static void assert_told(struct bench *bench, struct payment_id payment, const char *part)
{
    assert_non_null(strstr(event_body(bench, payment), part));
}

#define ENDS "SELECT count(*) FROM outbox WHERE kind = 2 AND payment_id = $id AND version > 0"

static void an_end_is_applied_once_however_often_it_is_told(void **state)
{
    struct bench *bench = *state;
    struct attempt_id attempt;
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &attempt);
    (void)payment_rows_news(bench->url, attempt, &PAID);
    for (int i = 0; i < 5; i++) settle(bench, payment, attempt);
    assert_text(bench,
                "SELECT status || ' ' || version || ' ' || captured || ' ' || authorised || ' ' ||"
                " certainty FROM payment WHERE id = $id",
                payment.uuid, "50 3 1099 1099 5");
    assert_int_equal(number(bench, ENDS, payment.uuid), 1);
    assert_text(bench, "SELECT subject FROM outbox WHERE kind = 2 AND payment_id = $id",
                payment.uuid, "pay.event.m-1001.payment.succeeded");
    assert_text(bench,
                "SELECT event || ' ' || why FROM state_history WHERE id = $id AND version = 3",
                payment.uuid, "settled.succeeded captured");
    assert_int_equal(number(bench,
                            "SELECT count(*) FROM payment p JOIN payment_attempt a ON a.id ="
                            " p.applied_attempt AND a.version = p.applied_version WHERE p.id = $id",
                            payment.uuid),
                     1);
    char *headers = payment_rows_text(
        bench->url, "SELECT headers FROM outbox WHERE kind = 2 AND payment_id = $id", payment.uuid);
    assert_int_equal(strncmp(headers, "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-", 49), 0);
    free(headers);
    assert_told(bench, payment, "\"status\":\"succeeded\"");
    assert_told(bench, payment, "\"captured\":1099");
    assert_told(bench, payment, "\"version\":3");
}

static void news_before_the_end_is_told_in_order(void **state)
{
    struct bench *bench = *state;
    struct attempt_id attempt;
    const struct attempt_news pending = { ATTEMPT_PROCESSING, SOURCE_RETRIEVE, NULL, CLOSURE_KNOWN,
                                          "pi_1" };
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &attempt);
    (void)payment_rows_news(bench->url, attempt, &LOST);
    settle(bench, payment, attempt);
    assert_told(bench, payment, "\"reason\":\"timeout\"");
    (void)payment_rows_news(bench->url, attempt, &pending);
    settle(bench, payment, attempt);
    (void)payment_rows_news(bench->url, attempt, &LOST); /* unknown again: applied, not told */
    settle(bench, payment, attempt);
    (void)payment_rows_news(bench->url, attempt, &PAID);
    settle(bench, payment, attempt);
    assert_text(bench,
                "SELECT string_agg(version || substr(subject, 17), ' ' ORDER BY version) FROM"
                " outbox WHERE kind = 2 AND payment_id = $id",
                payment.uuid, "3.payment.unknown 4.payment.processing 6.payment.succeeded");
    assert_int_equal(version_of(bench, payment), 6);
}

static void a_decline_frees_the_target(void **state)
{
    struct bench *bench = *state;
    struct attempt_id attempt;
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &attempt);
    (void)payment_rows_news(bench->url, attempt, &DECLINED);
    settle(bench, payment, attempt);
    assert_text(bench,
                "SELECT status || ' ' || reason || ' ' || certainty FROM payment WHERE id = $id",
                payment.uuid, "90 card_declined 3");
    assert_told(bench, payment, "\"safe_to_pay_again\":true");
    assert_told(bench, payment, "\"retry_with\":\"new out_trade_no\"");
    assert_told(bench, payment, "\"reason\":\"card_declined\"");
    /* The guard lets the next payment of the target have the pointer. */
    const struct payment_id next = payment_rows_pay(bench->url, "o-2", "order-1");
    assert_int_equal(
        number(bench, "SELECT count(*) FROM active_payment WHERE payment_id = $id", next.uuid), 1);
}

/* C07: while the first is unknown, the database itself gives the target to nobody else. */
static void an_unknown_payment_keeps_its_target(void **state)
{
    struct bench *bench = *state;
    struct attempt_id attempt;
    char sqlstate[PG_FIXTURE_SQLSTATE_SIZE];
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &attempt);
    (void)payment_rows_news(bench->url, attempt, &LOST);
    settle(bench, payment, attempt);
    assert_string_equal(pg_fixture_try(bench->url, "SELECT test.pay('o-2', 'order-1')", sqlstate),
                        "OP010");
    (void)payment_rows_news(bench->url, attempt, &PAID);
    settle(bench, payment, attempt);
    assert_int_equal(number(bench, "SELECT captured FROM payment WHERE id = $id", payment.uuid),
                     1099);
}

static void a_create_that_may_still_arrive_holds_the_target_for_a_time(void **state)
{
    (void)state;
    struct bench *bench = make_bench(&HOSTILE);
    struct attempt_id attempt;
    char sqlstate[PG_FIXTURE_SQLSTATE_SIZE];
    const struct attempt_news by_webhook = { ATTEMPT_FAILED, SOURCE_WEBHOOK, "card_declined",
                                             CLOSURE_OPEN, "pi_1" };
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &attempt);
    (void)payment_rows_news(bench->url, attempt, &by_webhook);
    for (int i = 0; i < 2; i++) settle(bench, payment, attempt);
    assert_text(bench, "SELECT hold || ' ' || version FROM active_payment WHERE payment_id = $id",
                payment.uuid, "late_arrival 2");
    assert_int_equal(number(bench,
                            "SELECT count(*) FROM payment_timer WHERE payment_id = $id AND kind = 1"
                            " AND due_at BETWEEN now() + interval '55 minutes' AND now() + interval"
                            " '61 minutes'",
                            payment.uuid),
                     1);
    assert_told(bench, payment, "\"safe_to_pay_again\":false");
    assert_told(bench, payment, "\"hold\":\"late_arrival\"");
    assert_string_equal(pg_fixture_try(bench->url, "SELECT test.pay('o-2', 'order-1')", sqlstate),
                        "OP010");
    pg_fixture_run(bench->url, "UPDATE payment_timer SET due_at = now() - interval '1 second'");
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_TIMER_LIFT_HOLD, &bench->arena);
    sql_bind_int4(&call, 10);
    CHECK(store_run(bench->store, &call, &result));
    store_result_clear(&result);
    (void)payment_rows_pay(bench->url, "o-2", "order-1");
    destroy_bench(bench);
}

/* C08: the same failure, found by the answer, a replay, a retrieve or a webhook. */
static const char *told_by(enum evidence_source source, struct arena *arena)
{
    struct bench *bench = make_bench(&FAITHFUL);
    struct attempt_id attempt;
    char payment_text[UUID_TEXT_SIZE];
    struct attempt_news declined = DECLINED;
    declined.source = source;
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &attempt);
    (void)payment_rows_news(bench->url, attempt, &declined);
    settle(bench, payment, attempt);
    const char *body = event_body(bench, payment);
    const char *id = strstr(body, uuid_format(payment.uuid, payment_text));
    assert_non_null(id);
    char *target = payment_rows_text(
        bench->url,
        "SELECT coalesce(hold, 'free') || version FROM active_payment WHERE payment_id = $id",
        payment.uuid);
    char *why = payment_rows_text(
        bench->url, "SELECT event || ' ' || why FROM state_history WHERE id = $id AND version = 3",
        payment.uuid);
    /* All but the id that the payment happens to have. */
    const char *told = arena_format(arena, "%.*s%s %s %s", (int)(id - body), body,
                                    id + UUID_TEXT_SIZE - 1, target, why);
    free(target);
    free(why);
    destroy_bench(bench);
    return told;
}

static void the_finder_makes_no_difference(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    static const enum evidence_source OTHERS[] = { SOURCE_REPLAY, SOURCE_RETRIEVE, SOURCE_WEBHOOK };
    const char *first = told_by(SOURCE_ANSWER, &arena);
    for (size_t i = 0; i < COUNT_OF(OTHERS); i++) {
        assert_string_equal(told_by(OTHERS[i], &arena), first);
    }
    arena_finish(&arena);
}

static void an_end_that_meets_a_final_payment_becomes_a_stray_fact(void **state)
{
    struct bench *bench = *state;
    struct attempt_id attempt;
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &attempt);
    (void)payment_rows_news(bench->url, attempt, &LOST);
    payment_rows_move(bench->url, payment, PAYMENT_FAILED); /* nobody may, but so it stands */
    const struct payment_id second = payment_rows_pay(bench->url, "o-2", "order-1");
    const struct attempt_id unsent = payment_rows_attempt(bench->url, second);
    const int64_t version = version_of(bench, payment);
    (void)payment_rows_news(bench->url, attempt, &PAID);
    add(bench, COMMAND_SETTLE, payment, attempt.uuid, 4);
    CHECK(run(bench));
    assert_string_equal(bench->items[0].verdict, "stray");
    assert_int_equal(bench->news.command_count, 1);
    assert_memory_equal(&bench->news.commands[0].entity, &unsent.uuid, sizeof unsent.uuid);
    assert_true(bench->news.has_events);
    for (int i = 0; i < 3; i++) {
        settle(bench, payment, attempt);
        assert_int_equal(bench->news.command_count, 0);
        assert_false(bench->news.has_events);
    }
    assert_text(bench, "SELECT status || ' ' || captured FROM payment WHERE id = $id", payment.uuid,
                "90 0");
    assert_int_equal(version_of(bench, payment), version + 1);
    assert_text(bench,
                "SELECT kind || ' ' || provider_object || ' ' || amount FROM stray_fact WHERE"
                " payment_id = $id",
                payment.uuid, "1 pi_1 1099");
    assert_int_equal(
        number(bench, "SELECT count(*) FROM manual_case WHERE attempt_id = $id", attempt.uuid), 1);
    assert_text(bench, "SELECT hold FROM active_payment WHERE payment_id = $id", second.uuid,
                "stray_fact");
    assert_told(bench, payment, "\"status\":\"failed\"");
    /* The attempt that was failed is an end like any other; its target stays held. */
    add(bench, COMMAND_SETTLE, second, unsent.uuid, 2);
    CHECK(run(bench));
    assert_text(bench, "SELECT status || ' ' || reason FROM payment WHERE id = $id", second.uuid,
                "90 target_held");
    assert_told(bench, second, "\"safe_to_pay_again\":false");
    assert_told(bench, second, "\"hold\":\"stray_fact\"");
}

/* C23: the first attempt's failure, told again after the second one's success. */
static void a_late_failure_of_an_earlier_attempt_changes_nothing(void **state)
{
    struct bench *bench = *state;
    struct attempt_id first;
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &first);
    (void)payment_rows_news(bench->url, first, &DECLINED);
    const struct attempt_id second = payment_rows_attempt(bench->url, payment);
    payment_rows_send(bench->url, second, 10);
    (void)payment_rows_news(bench->url, second, &PAID);
    settle(bench, payment, second);
    const int64_t version = version_of(bench, payment);
    settle(bench, payment, first);
    assert_text(bench, "SELECT status || ' ' || captured FROM payment WHERE id = $id", payment.uuid,
                "50 1099");
    assert_int_equal(version_of(bench, payment), version);
    assert_int_equal(number(bench, ENDS, payment.uuid), 1);
}

static void no_route_ends_the_payment(void **state)
{
    struct bench *bench = *state;
    const struct payment_id payment = payment_rows_pay(bench->url, "o-1", "order-1");
    const struct uuid decision = uuid_new();
    add(bench, COMMAND_NO_ROUTE, payment, decision, 0);
    CHECK(run(bench));
    assert_int_equal(bench->items[0].disposal, STAGE_HAND_BACK); /* its decision is not there */
    (void)number(bench,
                 "WITH d AS (INSERT INTO routing_decision (id, payment_id, follows,"
                 " routing_version, reasons) VALUES (test.id(), $id, 0, '1',"
                 " '{\"reason\": \"expired_before_start\"}') RETURNING 1) SELECT count(*) FROM d",
                 payment.uuid);
    for (int i = 0; i < 2; i++) {
        add(bench, COMMAND_NO_ROUTE, payment, decision, 0);
        CHECK(run(bench));
        assert_int_equal(bench->items[0].disposal, STAGE_DONE);
    }
    assert_text(bench,
                "SELECT status || ' ' || reason || ' ' || certainty FROM payment WHERE id = $id",
                payment.uuid, "90 expired_before_start 2");
    assert_int_equal(number(bench, ENDS, payment.uuid), 1);
    assert_told(bench, payment, "\"safe_to_pay_again\":true");
}

static void what_is_not_there_is_waited_for_and_then_given_up(void **state)
{
    struct bench *bench = *state;
    const struct payment_id payment = payment_rows_pay(bench->url, "o-1", "order-1");
    add(bench, COMMAND_SETTLE, payment, uuid_new(), 3);
    add(bench, COMMAND_SETTLE, (struct payment_id){ uuid_new() }, uuid_new(), 3);
    CHECK(run(bench));
    assert_int_equal(bench->items[0].disposal, STAGE_HAND_BACK);
    assert_int_equal(bench->items[1].disposal, STAGE_HAND_BACK);
    bench->message.stored_at_us -= 301 * CLOCK_SECOND_US;
    add(bench, COMMAND_SETTLE, payment, uuid_new(), 3);
    CHECK(run(bench));
    assert_int_equal(bench->items[0].disposal, STAGE_DEAD_LETTER);
    assert_true(bench->items[0].with_case);
    add(bench, COMMAND_CREATE, payment, uuid_new(), 3); /* somebody else's command */
    CHECK(run(bench));
    assert_int_equal(bench->items[0].disposal, STAGE_DEAD_LETTER);
}

/* A batch is one transaction, and a foul item spoils no other. */
static void a_batch_of_many_is_settled_together(void **state)
{
    struct bench *bench = *state;
    enum { MANY = 60 };
    for (int i = 0; i < MANY; i++) {
        char name[32];
        struct attempt_id attempt;
        (void)snprintf(name, sizeof name, "o-%d", i);
        const struct payment_id payment = sent_payment(bench, name, name, &attempt);
        (void)payment_rows_news(bench->url, attempt, i % 3 == 0 ? &DECLINED : &PAID);
        add(bench, COMMAND_SETTLE, payment, attempt.uuid, 3);
    }
    add(bench, COMMAND_SETTLE, (struct payment_id){ uuid_new() }, uuid_new(), 3);
    CHECK(run(bench));
    assert_int_equal(bench->items[MANY].disposal, STAGE_HAND_BACK);
    assert_int_equal(
        pg_fixture_number(bench->url, "SELECT count(*) FROM payment WHERE status = 50"), 40);
    assert_int_equal(
        pg_fixture_number(bench->url, "SELECT count(*) FROM payment WHERE status = 90"), 20);
    assert_int_equal(
        pg_fixture_number(bench->url, "SELECT count(DISTINCT xid) FROM outbox WHERE kind = 2"), 1);
}

/* Connects, waits at the gate, and settles all in small batches. */
static bool settle_in_another_order(struct bench *bench, int child, int gate,
                                    const struct payment_id *payments,
                                    const struct attempt_id *attempts, int count)
{
    enum { BATCH = 5, RANDOM_POOL = 64 };
    char nothing;
    for (int i = 0; i < RANDOM_POOL; i++) (void)uuid_new(); /* drawn by the parent, so by all */
    bool is_good = run(bench) == STATUS_OK;
    is_good = read(gate, &nothing, 1) == 0 && is_good;
    for (int i = 0; i < count; i++) {
        const int at = (i + child * 3) % count;
        add(bench, COMMAND_SETTLE, payments[at], attempts[at].uuid, 3);
        if (bench->count < BATCH && i < count - 1) continue;
        is_good = run(bench) == STATUS_OK && is_good;
    }
    store_destroy(bench->settle.store);
    return is_good;
}

/* Several processes settle the same ends at the same time: one of them applies each. */
static void settlers_side_by_side_apply_each_end_once(void **state)
{
    struct bench *bench = *state;
    enum { MANY = 40, SETTLERS = 4 };
    struct payment_id payments[MANY];
    struct attempt_id attempts[MANY];
    for (int i = 0; i < MANY; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "o-%d", i);
        payments[i] = sent_payment(bench, name, name, &attempts[i]);
        (void)payment_rows_news(bench->url, attempts[i], i % 2 == 0 ? &DECLINED : &PAID);
    }
    store_destroy(bench->store); /* every child has a connection of its own */
    bench->store = NULL;
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    for (int child = 0; child < SETTLERS; child++) {
        if (fork() != 0) continue;
        (void)close(gate[1]);
        bench->settle.store = pg_fixture_store(bench->url);
        _exit(settle_in_another_order(bench, child, gate[0], payments, attempts, MANY) ? 0 : 1);
    }
    (void)close(gate[0]);
    (void)close(gate[1]); /* they all go */
    for (int child = 0; child < SETTLERS; child++) {
        int outcome = -1;
        assert_true(wait(&outcome) > 0);
        assert_int_equal(outcome, 0);
    }
    assert_int_equal(pg_fixture_number(bench->url, "SELECT count(*) FROM payment WHERE version = 3"
                                                   " AND status IN (50, 90)"),
                     MANY);
    assert_int_equal(pg_fixture_number(bench->url, "SELECT count(*) FROM outbox WHERE kind = 2"),
                     MANY);
}

/* A process that is frozen between reading and writing finds that the world went on. */
static void a_move_by_an_old_version_writes_nothing(void **state)
{
    struct bench *bench = *state;
    struct attempt_id attempt;
    const struct payment_id payment = sent_payment(bench, "o-1", "order-1", &attempt);
    (void)payment_rows_news(bench->url, attempt, &DECLINED);
    const struct command command = {
        .payment = payment, .entity = attempt.uuid, .version = 3, .kind = COMMAND_SETTLE
    };
    const struct command *commands[] = { &command };
    struct settle_facts facts;
    CHECK(settle_read(bench->store, commands, 1, &bench->arena, &facts));
    struct settle_move move = {
        .payment = &facts.payment,
        .next_status = PAYMENT_FAILED,
        .certainty = CERTAINTY_DEFINITE_FAILURE,
        .history_event = "settled.failed",
        .why = "too late",
        .around = &facts.around,
    };
    bool moved = true;
    facts.payment.version--; /* the status alone proves nothing */
    CHECK(settle_write(bench->store, &move, 1, "test", &bench->arena, &moved));
    assert_false(moved);
    facts.payment.version++;
    settle(bench, payment, attempt);
    CHECK(settle_write(bench->store, &move, 1, "test", &bench->arena, &moved));
    assert_false(moved);
    move.hold = "late_arrival";   /* with its pointer in the same transaction: all or nothing */
    for (int i = 0; i < 3; i++) { /* statements whose first use fails are none the worse for it */
        assert_int_equal(settle_write(bench->store, &move, 1, "test", &bench->arena, &moved),
                         STATUS_LOST_RACE);
    }
    assert_int_equal(number(bench,
                            "SELECT count(*) FROM active_payment WHERE payment_id = $id AND hold IS"
                            " NULL AND version = 1",
                            payment.uuid),
                     1);
    assert_int_equal(number(bench, ENDS, payment.uuid), 1);
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(an_end_is_applied_once_however_often_it_is_told),
        BENCH_TEST(news_before_the_end_is_told_in_order),
        BENCH_TEST(a_decline_frees_the_target),
        BENCH_TEST(an_unknown_payment_keeps_its_target),
        cmocka_unit_test(a_create_that_may_still_arrive_holds_the_target_for_a_time),
        cmocka_unit_test(the_finder_makes_no_difference),
        BENCH_TEST(an_end_that_meets_a_final_payment_becomes_a_stray_fact),
        BENCH_TEST(a_late_failure_of_an_earlier_attempt_changes_nothing),
        BENCH_TEST(no_route_ends_the_payment),
        BENCH_TEST(what_is_not_there_is_waited_for_and_then_given_up),
        BENCH_TEST(a_batch_of_many_is_settled_together),
        BENCH_TEST(settlers_side_by_side_apply_each_end_once),
        BENCH_TEST(a_move_by_an_old_version_writes_nothing),
    };
    (void)setenv("ONCEPAY_LOG", "error", 1);
    log_open("settle_test");
    return cmocka_run_group_tests(tests, start, stop);
}
