/*
 * tests/store/verify_test.c: `verify` is silent on books that are right, and finds each kind of
 * corruption where it was planted. What the guards refuse is planted with the guards asleep
 * (session_replication_role), as a restore or a person with rights could.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "store/verify.h"
#include "tests/support/payment_rows.h"

enum { STUCK_AFTER_S = 60 };

static struct pg_fixture *fixture;

struct bench {
    const char *url;
    struct store *reader;
    struct arena arena;
    struct verify_result results[VERIFY_CHECK_COUNT];
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

/*
 * One payment per way to stand: paid, declined and paid again, never sent, without a target, open
 * with a task. Sums are settle's: here they are put in beside it.
 */
static const char BOOKS[] =
    "CREATE FUNCTION test.life(out_no text, target text, to_ int, source int, error text, end_ int)"
    " RETURNS void LANGUAGE plpgsql AS $$ DECLARE p uuid := test.pay(out_no, target);"
    " a uuid := test.attempt(p);"
    "BEGIN"
    " IF source <> 1 THEN PERFORM test.send(a); END IF;"
    " PERFORM test.news(a, to_, source, error, CASE source WHEN 2 THEN 0 ELSE 2 END, out_no);"
    " IF end_ <> 20 THEN PERFORM test.move_payment(p, end_); END IF;"
    "END $$;"
    "SELECT test.life('paid', 'order-1', 50, 3, NULL, 50);"
    "SELECT test.life('declined', 'order-2', 60, 7, 'card_declined', 90);"
    "SELECT test.life('paid-after-decline', 'order-2', 50, 3, NULL, 50);"
    "SELECT test.life('unsent', 'order-3', 60, 1, 'expired_before_start', 90);"
    "SELECT test.life('no-target', NULL, 50, 3, NULL, 50);"
    "SELECT test.life('open', 'order-4', 40, 2, 'timeout', 20);"
    "INSERT INTO recovery_task (id, payment_id, attempt_id, channel_account, method_type, "
    "operation,"
    " amount, currency, purpose, status, due_at, policy_version, version)"
    " SELECT test.id(), payment_id, id, channel_account, 'card', 1, amount, currency, 1, 10, "
    "now(), '1', 1"
    " FROM payment_attempt WHERE status = 40;"
    "SET session_replication_role = replica;"
    "UPDATE payment SET captured = amount, authorised = amount WHERE status = 50";

static void make_books(const char *url)
{
    payment_rows_install(url);
    pg_fixture_run(url, BOOKS);
}

static int open_bench(void **state)
{
    struct bench *bench = memory_allocate(sizeof *bench);
    bench->url = pg_fixture_database(fixture);
    make_books(bench->url);
    bench->reader = store_create(&(struct store_options){
        .url = bench->url,
        .application = "oncepay-verify",
        .statement_timeout_ms = 60000,
        .lock_timeout_ms = 5000,
        .is_reader = true,
    });
    *state = bench;
    return 0;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    store_destroy(bench->reader);
    arena_finish(&bench->arena);
    free(bench);
    return 0;
}

/* The names of those that found something: "I7 I8". */
static const char *verify(struct bench *bench)
{
    const char *found = "";
    assert_int_equal(verify_run(bench->reader, STUCK_AFTER_S, &bench->arena, bench->results),
                     STATUS_OK);
    for (size_t i = 0; i < VERIFY_CHECK_COUNT; i++) {
        const struct verify_result *result = &bench->results[i];
        for (size_t k = 0; k < result->shown_count; k++) {
            print_message("%s %s: %s\n", result->invariant, result->offenders[k].id,
                          result->offenders[k].what);
        }
        if (result->offender_count == 0) continue;
        found = arena_format(&bench->arena, "%s%s%s", found, found[0] == '\0' ? "" : " ",
                             result->invariant);
    }
    return found;
}

static void good_books_are_clean(void **state)
{
    struct bench *bench = *state;
    assert_string_equal(verify(bench), "");
}

static void an_empty_database_is_clean(void **state)
{
    struct bench *bench = *state;
    struct bench empty = { .url = pg_fixture_database(fixture) };
    (void)bench;
    empty.reader = store_create(&(struct store_options){
        .url = empty.url,
        .application = "t",
        .statement_timeout_ms = 60000,
        .lock_timeout_ms = 5000,
        .is_reader = true,
    });
    assert_string_equal(verify(&empty), "");
    store_destroy(empty.reader);
    arena_finish(&empty.arena);
}

/* The store of verify cannot write, whatever it is asked. */
static void a_reader_writes_nothing(void **state)
{
    struct bench *bench = *state;
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, STMT_TRANSITION_CLEAR, &bench->arena);
    assert_int_not_equal(store_run(bench->reader, &call, &result), STATUS_OK);
    assert_string_equal(store_last_error(bench->reader)->sqlstate, "25006");
}

struct plant {
    const char *sql; /* runs with the guards asleep */
    const char *found;
};

#define ONE_PAYMENT(no) "(SELECT id FROM payment WHERE out_trade_no = '" no "')"
#define ITS_ATTEMPT(no)                                                                            \
    "(SELECT a.id FROM payment_attempt a WHERE a.payment_id = " ONE_PAYMENT(no) ")"

static const struct plant PLANTS[] = {
    { "UPDATE active_payment SET payment_id = " ONE_PAYMENT(
          "declined") " WHERE target_id = 'order-2'",
      "I1" },
    { "UPDATE active_payment SET payment_id = " ONE_PAYMENT("paid") " WHERE target_id = 'order-3'",
      "I1" },
    { "ALTER TABLE payment DROP CONSTRAINT payment_out_trade_no_key;"
      "UPDATE payment SET out_trade_no = 'paid' WHERE out_trade_no = 'unsent'",
      "I2" },
    { "UPDATE payment_attempt SET request_bytes = 'another' WHERE id = " ITS_ATTEMPT("paid"),
      "I3" },
    { "UPDATE payment_attempt SET ordinal = 2 WHERE id = " ITS_ATTEMPT("paid"), "I4" },
    { "DELETE FROM state_transition WHERE entity = 1 AND from_status = 20 AND to_status = 50",
      "I5" },
    { "ALTER TABLE payment DISABLE TRIGGER payment_guard_update", "I5" },
    { "DROP TRIGGER attempt_guard_insert ON payment_attempt", "I5" },
    { "DELETE FROM evidence WHERE attempt_id = " ITS_ATTEMPT("paid"), "I6" },
    { "UPDATE evidence SET proves = 3 WHERE attempt_id = " ITS_ATTEMPT("paid"), "I6" },
    { "UPDATE evidence SET attempt_id = " ITS_ATTEMPT(
          "declined") " WHERE attempt_id = " ITS_ATTEMPT("paid"),
      "I6" },
    { "UPDATE evidence SET source = 1 WHERE proves = 3 AND attempt_id = " ITS_ATTEMPT("declined"),
      "I6" },
    { "UPDATE state_history SET why = 'tampered' WHERE entity = 1 AND version = 2 AND payment_id "
      "= " ONE_PAYMENT("paid"),
      "I7" },
    { "UPDATE state_history SET at = at - interval '1 hour' WHERE entity = 2 AND version = 1 AND "
      "payment_id = " ONE_PAYMENT("paid"),
      "I7" },
    { "ALTER TABLE evidence DISABLE TRIGGER append_only", "I7" },
    /* A row taken out, and the chain mended around it as far as a forger can. */
    { "DELETE FROM state_history WHERE entity = 2 AND version = 2 AND payment_id = " ONE_PAYMENT(
          "paid"),
      "I7 I8" },
    { "UPDATE payment SET version = version + 1 WHERE out_trade_no = 'paid'", "I8" },
    { "UPDATE payment SET status = 40 WHERE out_trade_no = 'paid'", "I8 I13" },
    { "UPDATE payment SET history_hash = sha256('') WHERE out_trade_no = 'paid'", "I8" },
    { "DELETE FROM payment WHERE out_trade_no = 'unsent'", "I1 I8 I12" },
    { "UPDATE payment_attempt SET payment_id = payment_id, status = 50, certainty = 5 WHERE id "
      "= " ITS_ATTEMPT("declined"),
      "I6 I8 I10" },
    { "INSERT INTO stray_fact (id, payment_id, attempt_id, kind, channel_account, provider_object, "
      "evidence_id)"
      " VALUES (test.id(), " ONE_PAYMENT("paid") ", " ITS_ATTEMPT(
          "paid") ", 1, 'stripe-main', 'pi_9', test.id())",
      "I10" },
    { "UPDATE payment SET refunded = captured + 1 WHERE out_trade_no = 'paid'", "I11" },
    { "UPDATE payment SET captured = captured + 1 WHERE out_trade_no = 'paid'", "I11 I17" },
    { "UPDATE payment_attempt SET amount = amount + 1 WHERE id = " ITS_ATTEMPT("paid"), "I12" },
    { "UPDATE recovery_task SET status = 50", "I13" },
    { "INSERT INTO idempotency_key (merchant, operation, key_hash, fingerprint, "
      "fingerprint_version, payment_id,"
      " answer_status, answer_headers, answer_body, expires_at) VALUES ('m-1001', 1, sha256('k'), "
      "sha256('f'), 1,"
      " test.id(), 202, '', '', now())",
      "I13" },
    { "UPDATE evidence SET source = 9 WHERE attempt_id = " ITS_ATTEMPT("declined"), "I16" },
    { "UPDATE payment SET captured = 0 WHERE out_trade_no = 'paid'", "I17" },
    { "UPDATE payment SET captured = amount, authorised = amount WHERE out_trade_no = 'declined'",
      "I17" },
    { "UPDATE payment SET applied_attempt = " ITS_ATTEMPT(
          "declined") ", applied_version = 1"
                      " WHERE out_trade_no = 'paid'",
      "I17" },
    { "UPDATE payment_attempt SET status = 40 WHERE id = " ITS_ATTEMPT("declined"), "I8 I18" },
    { "UPDATE payment_attempt SET operation = 5, channel_account = 'elsewhere' WHERE id "
      "= " ITS_ATTEMPT("unsent"),
      "I19" },
    { "DROP INDEX recovery_task_open; INSERT INTO recovery_task SELECT (jsonb_populate_record(t, "
      "jsonb_build_object("
      "'id', test.id()))).* FROM recovery_task t",
      "I21" },
    { "INSERT INTO outbox (id, kind, subject, entity, entity_id, version) VALUES"
      " ('00000000-0000-7000-8000-000000000001', 1, 's', 1, test.id(), 1)",
      "partitions" },
};

static void every_corruption_is_found_where_it_is(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < COUNT_OF(PLANTS); i++) {
        char sql[1024];
        struct bench planted = { .url = pg_fixture_database(fixture) };
        make_books(planted.url);
        (void)snprintf(sql, sizeof sql, "SET session_replication_role = replica; %s",
                       PLANTS[i].sql);
        pg_fixture_run(planted.url, sql);
        planted.reader = store_create(&(struct store_options){
            .url = planted.url,
            .application = "t",
            .statement_timeout_ms = 60000,
            .lock_timeout_ms = 5000,
            .is_reader = true,
        });
        print_message("-- %s\n", PLANTS[i].sql);
        assert_string_equal(verify(&planted), PLANTS[i].found);
        store_destroy(planted.reader);
        arena_finish(&planted.arena);
    }
    (void)bench;
}

static void more_offenders_than_are_shown_are_counted(void **state)
{
    struct bench *bench = *state;
    for (int i = 0; i < VERIFY_SHOWN_MAX + 5; i++) {
        char out_trade_no[32];
        (void)snprintf(out_trade_no, sizeof out_trade_no, "left-%d", i);
        (void)payment_rows_pay(bench->url, out_trade_no, NULL);
    }
    assert_string_equal(verify(bench), "I13");
    for (size_t i = 0; i < VERIFY_CHECK_COUNT; i++) {
        if (strcmp(bench->results[i].invariant, "I13") != 0) continue;
        assert_int_equal(bench->results[i].offender_count, VERIFY_SHOWN_MAX + 5);
        assert_int_equal(bench->results[i].shown_count, VERIFY_SHOWN_MAX);
    }
}

/* A payment that waits is in somebody's hand as long as its command is young, and no longer. */
static void a_young_command_is_a_hand(void **state)
{
    struct bench *bench = *state;
    const struct payment_id payment = payment_rows_pay(bench->url, "young", NULL);
    char id[UUID_TEXT_SIZE];
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (id, kind, subject, entity, entity_id, version, payment_id)"
                   " VALUES (test.id(), 1, 'pay.route.1', 1, '%s', 0, '%s')",
                   uuid_format(payment.uuid, id), id);
    pg_fixture_run(bench->url, sql);
    assert_string_equal(verify(bench), "");
    pg_fixture_run(bench->url, "SET session_replication_role = replica;"
                               "UPDATE outbox SET created_at = created_at - interval '61 seconds'");
    assert_string_equal(verify(bench), "I13");
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(good_books_are_clean),
        BENCH_TEST(an_empty_database_is_clean),
        BENCH_TEST(a_reader_writes_nothing),
        BENCH_TEST(every_corruption_is_found_where_it_is),
        BENCH_TEST(more_offenders_than_are_shown_are_counted),
        BENCH_TEST(a_young_command_is_a_hand),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
