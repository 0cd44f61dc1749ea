/* tests/unit/sim_faults_test.c: the simulator's fault rules: reading, drawing, counting. */
#include "ops/sim/faults.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { KEYS = 20000 };

static struct fault_set set_of(uint64_t seed, const char *rules)
{
    struct fault_set set = { .seed = seed };
    char error[FAULTS_ERROR_SIZE] = "";
    json_t *json = json_loads(rules, 0, NULL);
    assert_non_null(json);
    if (!faults_replace(&set, json, error)) fail_msg("%s", error);
    json_decref(json);
    return set;
}

static enum fault_kind draw(struct fault_set *set, enum fault_slot slot, const char *account,
                            const char *key)
{
    const struct fault_subject subject = {
        .account = account, .method = "pm_card_visa", .key = key, .amount_minor = 100, .draw = key
    };
    struct fault fault = { 0 };
    return faults_draw(set, slot, &subject, &fault) ? fault.kind : FAULT_NONE;
}

static void key_of(int number, char out[32])
{
    (void)snprintf(out, 32, "key-%d", number);
}

static void draws_do_not_depend_on_the_order(void **state)
{
    (void)state;
    struct fault_set forward = set_of(7, faults_preset("lost"));
    struct fault_set backward = set_of(7, faults_preset("lost"));
    struct fault_set other_seed = set_of(8, faults_preset("lost"));
    enum fault_kind *seen = memory_allocate(KEYS * sizeof *seen);
    char key[32];
    int differing = 0;
    for (int i = 0; i < KEYS; i++) {
        key_of(i, key);
        seen[i] = draw(&forward, FAULT_SLOT_ANSWER, "a", key);
        differing += seen[i] != draw(&other_seed, FAULT_SLOT_ANSWER, "a", key);
    }
    for (int i = KEYS - 1; i >= 0; i--) {
        key_of(i, key);
        assert_int_equal(seen[i], draw(&backward, FAULT_SLOT_ANSWER, "a", key));
    }
    assert_true(differing > KEYS / 10);
    free(seen);
    faults_finish(&forward);
    faults_finish(&backward);
    faults_finish(&other_seed);
}

static void probabilities_of_one_slot_add_up(void **state)
{
    (void)state;
    struct fault_set set = set_of(1, faults_preset("lost"));
    int count[FAULT_DECLINED_STAYS_PAYABLE + 1] = { 0 };
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        key_of(i, key);
        count[draw(&set, FAULT_SLOT_ANSWER, "stripe-main", key)]++;
        count[draw(&set, FAULT_SLOT_WEBHOOK_DUPLICATE, "stripe-main", key)]++;
    }
    /* 20, 5, 5 and 2 per cent of 20000, give or take five standard deviations. */
    assert_in_range(count[FAULT_LOST_AFTER_COMMIT], 4000 - 290, 4000 + 290);
    assert_in_range(count[FAULT_DROP_BEFORE], 1000 - 160, 1000 + 160);
    assert_in_range(count[FAULT_ERROR_5XX_AFTER], 1000 - 160, 1000 + 160);
    assert_in_range(count[FAULT_IN_PROGRESS_409], 400 - 100, 400 + 100);
    assert_in_range(count[FAULT_DUPLICATE_WEBHOOKS], 4000 - 290, 4000 + 290);
    faults_finish(&set);
}

static void matches_by_account_method_amount_and_key(void **state)
{
    (void)state;
    struct fault_set set =
        set_of(1, "[{\"action\":\"reset\",\"match\":{\"account\":\"a\",\"method\":\"pm_card_visa\","
                  "\"amount\":100,\"key_prefix\":\"key-1\"}}]");
    assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "a", "key-17"), FAULT_RESET);
    assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "b", "key-17"), FAULT_NONE);
    assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "a", "key-27"), FAULT_NONE);
    assert_int_equal(draw(&set, FAULT_SLOT_GET, "a", "key-17"), FAULT_NONE);
    const struct fault_subject dearer = {
        .account = "a", .method = "pm_card_visa", .key = "key-1", .amount_minor = 101, .draw = "x"
    };
    struct fault fault;
    assert_false(faults_draw(&set, FAULT_SLOT_ANSWER, &dearer, &fault));
    faults_finish(&set);
}

static void a_rule_at_its_limit_gives_way_to_the_next(void **state)
{
    (void)state;
    struct fault_set set = set_of(1, "[{\"action\":\"reset\",\"limit\":2},"
                                     "{\"action\":\"half_body\",\"limit\":1}]");
    assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "a", "1"), FAULT_RESET);
    assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "a", "2"), FAULT_RESET);
    assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "a", "3"), FAULT_HALF_BODY);
    assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "a", "4"), FAULT_NONE);
    faults_restart_counts(&set);
    assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "a", "5"), FAULT_RESET);
    faults_finish(&set);
}

static void what_is_printed_reads_the_same(void **state)
{
    (void)state;
    struct fault_set set =
        set_of(1, "[{\"action\":\"pending_then\",\"ms\":40,\"result\":\"failed\",\"limit\":3,"
                  "\"match\":{\"probability\":0.125,\"key_prefix\":\"a\\\"b\"}},"
                  "{\"action\":\"error_5xx_after\",\"status\":502,\"stored\":false,\"times\":4},"
                  "{\"action\":\"wrong_echo\",\"amount\":1,\"currency\":\"jpy\"},"
                  "{\"action\":\"get_404\"}]");
    struct textbuf first = { 0 };
    faults_render(&set, &first);
    struct fault_set again = set_of(1, first.data);
    struct textbuf second = { 0 };
    faults_render(&again, &second);
    assert_string_equal(first.data, second.data);
    assert_non_null(strstr(first.data, "\"currency\":\"JPY\""));
    assert_non_null(strstr(first.data, "\"probability\":0.125000"));
    textbuf_finish(&first);
    textbuf_finish(&second);
    faults_finish(&set);
    faults_finish(&again);
}

static void a_bad_rule_is_named_and_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        const char *error;
    } CASES[] = {
        { "{}", "the rules must be a JSON array" },
        { "[7]", "rule 0: rule must be an object" },
        { "[{\"action\":\"get_404\"},{}]", "rule 1: action is missing" },
        { "[{\"action\":\"explode\"}]", "rule 0: action is not a known action" },
        { "[{\"action\":\"delay_ms\"}]", "rule 0: ms is missing" },
        { "[{\"action\":\"delay_ms\",\"ms\":-1}]", "rule 0: ms is out of range" },
        { "[{\"action\":\"reset\",\"ms\":1}]", "rule 0: ms is not a parameter of this action" },
        { "[{\"action\":\"reset\",\"match\":{\"probability\":1.5}}]",
          "rule 0: probability must be from 0 to 1" },
        { "[{\"action\":\"reset\",\"match\":{\"acount\":\"a\"}}]",
          "rule 0: acount is not a known field of match" },
        { "[{\"action\":\"error_5xx_after\",\"status\":404}]", "rule 0: status is out of range" },
        { "[{\"action\":\"pending_then\",\"ms\":1,\"result\":\"pending\"}]",
          "rule 0: result must be succeeded, failed or canceled" },
        { "[{\"action\":\"decline\",\"code\":\"\"}]", "rule 0: code is empty or too long" },
    };
    struct fault_set set = set_of(1, "[{\"action\":\"reset\"}]");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char error[FAULTS_ERROR_SIZE] = "";
        json_t *json = json_loads(CASES[i].rules, 0, NULL);
        assert_false(faults_replace(&set, json, error));
        assert_string_equal(error, CASES[i].error);
        json_decref(json);
        assert_int_equal(draw(&set, FAULT_SLOT_ANSWER, "a", "k"), FAULT_RESET);
    }
    faults_finish(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_do_not_depend_on_the_order),
        cmocka_unit_test(probabilities_of_one_slot_add_up),
        cmocka_unit_test(matches_by_account_method_amount_and_key),
        cmocka_unit_test(a_rule_at_its_limit_gives_way_to_the_next),
        cmocka_unit_test(what_is_printed_reads_the_same),
        cmocka_unit_test(a_bad_rule_is_named_and_changes_nothing),
    };
    return cmocka_run_group_tests_name("sim_faults", tests, NULL, NULL);
}
