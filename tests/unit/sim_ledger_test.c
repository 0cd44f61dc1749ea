/* tests/unit/sim_ledger_test.c: the simulator's books: what a restart finds, and what keys do. */
#include "ops/sim/ledger.h"
#include "ops/sim/stripe_json.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char directory[64];
    char path[96];
    struct ledger ledger;
};

static void open_ledger(struct fixture *fixture)
{
    char error[LOGFILE_ERROR_SIZE] = "";
    if (!ledger_open(&fixture->ledger, fixture->directory, error)) fail_msg("%s", error);
}

static int setup(void **state)
{
    struct fixture *fixture = memory_allocate(sizeof *fixture);
    (void)snprintf(fixture->directory, sizeof fixture->directory, "/tmp/oncepay-sim-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    (void)snprintf(fixture->path, sizeof fixture->path, "%s/ledger.ndjson", fixture->directory);
    open_ledger(fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    ledger_close(&fixture->ledger);
    (void)unlink(fixture->path);
    (void)rmdir(fixture->directory);
    free(fixture);
    return 0;
}

static void reopen(struct fixture *fixture)
{
    ledger_close(&fixture->ledger);
    open_ledger(fixture);
}

static void append_raw(const struct fixture *fixture, const char *text)
{
    const int fd = open(fixture->path, O_WRONLY | O_APPEND);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

static struct charge *add_charge(struct ledger *ledger, const char *object, const char *key)
{
    struct charge *charge = memory_allocate(sizeof *charge);
    *charge = (struct charge){ .account = ledger_account(ledger, "stripe-main", "stripe"),
                               .key = memory_copy_text(key),
                               .method = memory_copy_text("pm_card_visa"),
                               .metadata = memory_copy_text("{\"note\":\"a\\\\b\\u0007\xC3\xBC\"}"),
                               .return_url = memory_copy_text("https://x.test/?a=\"b\""),
                               .charge_id = "ch_1",
                               .amount_minor = 1099,
                               .currency = "EUR",
                               .created_s = 1760000000,
                               .changed_s = 1760000000,
                               .state = CHARGE_PROCESSING };
    (void)snprintf(charge->object, sizeof charge->object, "%s", object);
    ledger_add_charge(ledger, charge);
    return charge;
}

static void charges_survive_byte_for_byte(void **state)
{
    struct fixture *fixture = *state;
    struct charge *charge = add_charge(&fixture->ledger, "pi_1", "k\"1");
    charge->due_real_ms = 0;
    add_charge(&fixture->ledger, "pi_2", "k2");
    ledger_change_charge(&fixture->ledger, charge, CHARGE_DECLINED, "lost_card", 1760000009);
    ledger_commit(&fixture->ledger);
    struct textbuf before = { 0 };
    stripe_json_created(charge, &before);
    reopen(fixture);
    assert_int_equal(fixture->ledger.charge_count, 2);
    const struct charge *again = ledger_find_named(&fixture->ledger, "stripe-main", NULL, "k\"1");
    assert_non_null(again);
    assert_string_equal(again->object, "pi_1");
    assert_int_equal(again->changed_s, 1760000009);
    struct textbuf after = { 0 };
    stripe_json_created(again, &after);
    assert_string_equal(before.data, after.data);
    assert_null(ledger_find_named(&fixture->ledger, "stripe-backup", "pi_1", NULL));
    textbuf_finish(&before);
    textbuf_finish(&after);
}

static void what_is_due_is_due_after_a_restart(void **state)
{
    struct fixture *fixture = *state;
    struct charge *charge = memory_allocate(sizeof *charge);
    *charge = (struct charge){ .account = ledger_account(&fixture->ledger, "a", "stripe"),
                               .method = memory_copy_text("pm"),
                               .metadata = memory_copy_text("{}"),
                               .object = "pi_due",
                               .charge_id = "ch_due",
                               .amount_minor = 1,
                               .currency = "JPY",
                               .state = CHARGE_DECLINED,
                               .decline_code = "generic_decline",
                               .is_payable = true,
                               .due_real_ms = 1760000000123,
                               .due_state = CHARGE_SUCCEEDED };
    ledger_add_charge(&fixture->ledger, charge);
    ledger_commit(&fixture->ledger);
    reopen(fixture);
    charge = ledger_find_charge(&fixture->ledger, "pi_due");
    assert_non_null(charge);
    assert_null(charge->key);
    assert_null(charge->return_url);
    assert_true(charge->is_payable);
    assert_int_equal(charge->due_real_ms, 1760000000123);
    assert_int_equal(charge->due_state, CHARGE_SUCCEEDED);
    ledger_change_charge(&fixture->ledger, charge, CHARGE_SUCCEEDED, NULL, 1760000001);
    ledger_commit(&fixture->ledger);
    reopen(fixture);
    assert_int_equal(ledger_find_charge(&fixture->ledger, "pi_due")->due_real_ms, 0);
}

static void a_torn_end_is_dropped_and_a_torn_middle_refused(void **state)
{
    struct fixture *fixture = *state;
    add_charge(&fixture->ledger, "pi_1", "k1");
    ledger_commit(&fixture->ledger);
    append_raw(fixture, "{\"t\":\"charge\",\"accou");
    reopen(fixture);
    assert_int_equal(fixture->ledger.charge_count, 1);
    add_charge(&fixture->ledger, "pi_2", "k2");
    ledger_commit(&fixture->ledger);
    reopen(fixture);
    assert_int_equal(fixture->ledger.charge_count, 2);

    append_raw(fixture, "{\"t\":\"charge\"}\n{\"t\":\"clock\",\"offset_s\":5}\n");
    ledger_close(&fixture->ledger);
    char error[LOGFILE_ERROR_SIZE] = "";
    assert_false(ledger_open(&fixture->ledger, fixture->directory, error));
    assert_non_null(strstr(error, "ledger.ndjson:4: charge with missing or wrong fields"));
}

static void two_simulators_never_share_books(void **state)
{
    struct fixture *fixture = *state;
    struct ledger second;
    char error[LOGFILE_ERROR_SIZE] = "";
    assert_false(ledger_open(&second, fixture->directory, error));
    assert_non_null(strstr(error, "in use by another simulator"));
    ledger_close(&second);
}

static struct idempotency_key *answered_key(struct ledger *ledger, const char *name,
                                            const struct charge *charge)
{
    const struct account *account = ledger_account(ledger, "stripe-main", "stripe");
    struct idempotency_key *entry = idempotency_add(&ledger->keys, account, name);
    idempotency_fingerprint("/v1/payment_intents", span_of_text("amount=1"), entry->fingerprint);
    entry->first_seen_s = 1000;
    entry->state = IDEMPOTENCY_ANSWERED;
    entry->answer = (struct idempotency_answer){
        .status = 402, .charge = charge, .state = CHARGE_DECLINED, .decline_code = "lost_card"
    };
    return entry;
}

static void keys_answer_after_a_restart_until_their_retention(void **state)
{
    struct fixture *fixture = *state;
    const struct charge *charge = add_charge(&fixture->ledger, "pi_1", "k1");
    ledger_note_key(&fixture->ledger, answered_key(&fixture->ledger, "k1", charge));
    struct idempotency_key *failed = answered_key(&fixture->ledger, "k5", NULL);
    failed->answer.status = 500;
    failed->answer.is_server_error = true;
    ledger_note_key(&fixture->ledger, failed);
    ledger_advance_clock(&fixture->ledger, 77);
    ledger_commit(&fixture->ledger);
    reopen(fixture);
    assert_int_equal(fixture->ledger.clock_offset_s, 77);

    struct idempotency_key *entry = idempotency_find(&fixture->ledger.keys, "stripe-main", "k1");
    assert_non_null(entry);
    assert_null(idempotency_find(&fixture->ledger.keys, "stripe-backup", "k1"));
    assert_int_equal(entry->answer.status, 402);
    assert_string_equal(entry->answer.charge->object, "pi_1");
    assert_int_equal(entry->answer.state, CHARGE_DECLINED);
    assert_string_equal(entry->answer.decline_code, "lost_card");
    uint8_t same[HASH_SIZE];
    uint8_t other[HASH_SIZE];
    idempotency_fingerprint("/v1/payment_intents", span_of_text("amount=1"), same);
    idempotency_fingerprint("/v1/payment_intents", span_of_text("amount=2"), other);
    const int64_t last_s = 1000 + IDEMPOTENCY_RETENTION_S;
    assert_int_equal(idempotency_judge(entry, same, last_s), IDEMPOTENCY_REPLAY);
    assert_int_equal(idempotency_judge(entry, other, last_s), IDEMPOTENCY_MISMATCH);
    assert_int_equal(idempotency_judge(entry, other, last_s + 1), IDEMPOTENCY_RUN);
    assert_int_equal(idempotency_judge(entry, same, last_s + 1), IDEMPOTENCY_RUN);
    entry->state = IDEMPOTENCY_RUNNING;
    assert_int_equal(idempotency_judge(entry, other, 1001), IDEMPOTENCY_MISMATCH);

    failed = idempotency_find(&fixture->ledger.keys, "stripe-main", "k5");
    assert_non_null(failed);
    assert_true(failed->answer.is_server_error);
    assert_null(failed->answer.charge);
}

static void only_acknowledged_events_are_forgotten(void **state)
{
    struct fixture *fixture = *state;
    const struct charge *charge = add_charge(&fixture->ledger, "pi_1", "k1");
    struct event event = { .account = charge->account,
                           .charge = charge,
                           .id = "evt_1",
                           .type = "payment_intent.payment_failed",
                           .state = CHARGE_DECLINED,
                           .decline_code = "lost_card",
                           .created_s = 5 };
    ledger_note_event(&fixture->ledger, &event);
    (void)snprintf(event.id, sizeof event.id, "evt_2");
    ledger_note_event(&fixture->ledger, &event);
    (void)snprintf(event.id, sizeof event.id, "evt_1");
    ledger_note_acknowledged(&fixture->ledger, &event);
    ledger_commit(&fixture->ledger);
    reopen(fixture);
    assert_int_equal(fixture->ledger.unacknowledged_count, 1);
    const struct event *left = fixture->ledger.unacknowledged[0];
    assert_string_equal(left->id, "evt_2");
    assert_int_equal(left->state, CHARGE_DECLINED);
    assert_string_equal(left->decline_code, "lost_card");
    assert_string_equal(left->charge->object, "pi_1");
}

static void a_cleared_ledger_stays_cleared(void **state)
{
    struct fixture *fixture = *state;
    const struct charge *charge = add_charge(&fixture->ledger, "pi_1", "k1");
    ledger_note_key(&fixture->ledger, answered_key(&fixture->ledger, "k1", charge));
    ledger_advance_clock(&fixture->ledger, 5);
    ledger_commit(&fixture->ledger);
    ledger_clear(&fixture->ledger);
    add_charge(&fixture->ledger, "pi_2", "k1");
    ledger_commit(&fixture->ledger);
    reopen(fixture);
    assert_int_equal(fixture->ledger.charge_count, 1);
    assert_non_null(ledger_find_charge(&fixture->ledger, "pi_2"));
    assert_null(idempotency_find(&fixture->ledger.keys, "stripe-main", "k1"));
    assert_int_equal(fixture->ledger.clock_offset_s, 0);
}

static void many_keys_are_all_found(void **state)
{
    struct fixture *fixture = *state;
    const struct account *account = ledger_account(&fixture->ledger, "a", "stripe");
    char key[32];
    for (int i = 0; i < 50000; i++) {
        (void)snprintf(key, sizeof key, "key-%d", i);
        (void)idempotency_add(&fixture->ledger.keys, account, key);
    }
    for (int i = 0; i < 50000; i++) {
        (void)snprintf(key, sizeof key, "key-%d", i);
        assert_string_equal(idempotency_find(&fixture->ledger.keys, "a", key)->key, key);
    }
    assert_null(idempotency_find(&fixture->ledger.keys, "a", "key-50000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(charges_survive_byte_for_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_due_is_due_after_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_end_is_dropped_and_a_torn_middle_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(two_simulators_never_share_books, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_answer_after_a_restart_until_their_retention, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(only_acknowledged_events_are_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cleared_ledger_stays_cleared, setup, teardown),
        cmocka_unit_test_setup_teardown(many_keys_are_all_found, setup, teardown),
    };
    return cmocka_run_group_tests_name("sim_ledger", tests, NULL, NULL);
}
