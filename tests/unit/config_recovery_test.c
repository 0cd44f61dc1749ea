/*
 * tests/unit/config_recovery_test.c: recovery.yaml. The most specific rule wins, ties and what an
 * account cannot do are refused where they stand, a version is its bytes.
 */
#include "config/recovery_policy.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RULE_WITH(match, strategies, delays)                                                       \
    "  - match: " match "\n    strategies: " strategies "\n    delays: " delays "\n"
#define RULE(match) RULE_WITH(match, "[retrieve]", "[1s]")
#define RULES "version: 1\nrules:\n"

static const char *const CARD[] = { "card" };
static const struct config_account MAIN = { .id = "stripe-main",
                                            .psp = "stripe",
                                            .methods = { CARD, 1 } };
static const struct config_account BACKUP = { .id = "stripe-backup",
                                              .psp = "stripe",
                                              .methods = { CARD, 1 } };
static const struct config_account ADYEN = { .id = "adyen-main",
                                             .psp = "adyen",
                                             .methods = { CARD, 1 } };
static const struct psp_capability STRIPE = { .has_idempotency_key = true, .has_retrieve = true };
static const struct psp_capability NO_RETRIEVE = { .has_idempotency_key = true };
static const struct recovery_channel CHANNELS[] = { { &MAIN, &STRIPE }, { &BACKUP, &STRIPE } };
static const struct recovery_channel MIXED[] = { { &MAIN, &STRIPE }, { &ADYEN, &NO_RETRIEVE } };

static const char *refusal(const char *text, const struct recovery_channel *channels, size_t count)
{
    static struct config_error error;
    struct recovery_policy policy;
    if (recovery_policy_parse("recovery.yaml", span_of_text(text), channels, count, &policy,
                              &error) != STATUS_OK) {
        return error.text;
    }
    recovery_policy_finish(&policy);
    return "accepted";
}

struct row {
    const char *text;
    const char *refusal;
};

static void each_wrong_rule_is_named_where_it_stands(void **state)
{
    (void)state;
    static const struct row ROWS[] = {
        { RULES RULE("{}"), "accepted" },
        { "version: 1\n", "recovery.yaml:1:1: rules: has 0 items, allowed are 1..256" },
        { "rules:\n" RULE("{}"), "recovery.yaml:1:1: version is missing" },
        { RULES "  - strategies: [retrieve]\n    delays: [1s]\n",
          "recovery.yaml:3:5: rules[0].match is missing" },
        { RULES RULE("{psp: stripe}"),
          "recovery.yaml:3:13: unknown key \"psp\" in rules[0].match" },
        { RULES RULE("{channel: stipe}"), "recovery.yaml:3:22: rules[0].match.channel: \"stipe\" "
                                          "is neither an account nor its PSP" },
        { RULES RULE("{payment_method: crad}"),
          "recovery.yaml:3:29: rules[0].match.payment_method: \"crad\" is no payment method" },
        { RULES RULE("{operation: pay}"),
          "recovery.yaml:3:24: rules[0].match.operation: \"pay\" is no operation" },
        { RULES RULE_WITH("{}", "[]", "[1s]"),
          "recovery.yaml:4:17: rules[0].strategies: has 0 items, allowed are 1..5" },
        { RULES RULE_WITH("{}", "retrieve", "[1s]"),
          "recovery.yaml:4:17: rules[0].strategies: must be a list" },
        { RULES RULE_WITH("{}", "[retrieve, guess]", "[1s]"),
          "recovery.yaml:4:28: rules[0].strategies[1]: unknown strategy \"guess\"" },
        { RULES RULE_WITH("{}", "[merchant_reference_search]", "[1s]"),
          "recovery.yaml:4:18: rules[0].strategies[0]: merchant_reference_search is not available "
          "in this version" },
        { RULES RULE_WITH("{}", "[retrieve, reconciliation]", "[1s]"),
          "recovery.yaml:4:28: rules[0].strategies[1]: reconciliation is not available in this "
          "version" },
        { RULES RULE_WITH("{}", "[retrieve, retrieve]", "[1s]"),
          "recovery.yaml:4:28: rules[0].strategies[1]: retrieve stands twice" },
        { RULES RULE_WITH("{}", "[wait_webhook, retrieve]", "[1s]"),
          "recovery.yaml:4:18: rules[0].strategies[0]: wait_webhook must be the last" },
        { RULES RULE_WITH("{}", "[retrieve]", "[1s, soon]"),
          "recovery.yaml:5:18: rules[0].delays[1]: \"soon\" is not a duration like 500ms, 15s, 5m, "
          "24h or 7d" },
        { RULES RULE_WITH("{}", "[retrieve]", "[0s]"),
          "recovery.yaml:5:14: rules[0].delays[0]: 0s is not in 100..86400000 ms" },
        { RULES RULE("{}") "    max_unknown_age: 10s\n",
          "recovery.yaml:6:22: rules[0].max_unknown_age: 10s is not in 60000..7776000000 ms" },
        { RULES RULE("{}") "    query_qps: 0\n",
          "recovery.yaml:6:16: rules[0].query_qps: 0 is not in 1..100000" },
        { RULES RULE("{channel: stripe-main}"),
          "recovery.yaml:1:1: no rule matches account stripe-backup, payment method card, "
          "operation create" },
        { RULES RULE("{operation: refund}"),
          "recovery.yaml:1:1: no rule matches account stripe-main, payment method card, operation "
          "create" },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        assert_string_equal(refusal(ROWS[i].text, CHANNELS, 2), ROWS[i].refusal);
    }
}

static void ties_are_refused_at_the_later_rule(void **state)
{
    (void)state;
    static const struct row ROWS[] = {
        { RULES RULE("{}") RULE("{}"),
          "recovery.yaml:6:5: rules[1]: ties with rules[0] of line 3, neither is more specific" },
        { RULES RULE("{channel: stripe}") RULE("{payment_method: card}"),
          "recovery.yaml:6:5: rules[1]: ties with rules[0] of line 3, neither is more specific" },
        { RULES RULE("{channel: stripe, payment_method: card}")
              RULE("{channel: stripe, operation: create}"),
          "recovery.yaml:6:5: rules[1]: ties with rules[0] of line 3, neither is more specific" },
        /* An account beats its PSP, disjoint rules never meet, more fields win. */
        { RULES RULE("{channel: stripe}") RULE("{channel: stripe-main}"), "accepted" },
        { RULES RULE("{channel: stripe-backup}") RULE("{channel: stripe-main}"), "accepted" },
        { RULES RULE("{}") RULE("{payment_method: card}") RULE("{payment_method: qr}"),
          "accepted" },
        { RULES RULE("{operation: create}") RULE("{operation: refund}"), "accepted" },
        { RULES RULE("{channel: stripe-main}") RULE("{payment_method: card, operation: create}"),
          "accepted" },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const char *text = refusal(ROWS[i].text, CHANNELS, 2);
        if (strncmp(text, "recovery.yaml:1:1: no rule matches", 34) == 0) text = "accepted";
        assert_string_equal(text, ROWS[i].refusal);
    }
}

static void what_an_account_cannot_do_is_refused_only_where_it_would_apply(void **state)
{
    (void)state;
    assert_string_equal(
        refusal(RULES RULE_WITH("{}", "[idempotent_replay, retrieve]", "[1s]"), MIXED, 2),
        "recovery.yaml:4:37: rules[0].strategies[1]: account adyen-main (PSP adyen) cannot do "
        "retrieve");
    assert_string_equal(
        refusal(RULES RULE_WITH("{}", "[idempotent_replay, retrieve]", "[1s]")
                    RULE_WITH("{channel: adyen}", "[idempotent_replay, wait_webhook]", "[1s]"),
                MIXED, 2),
        "accepted");
}

static void the_most_specific_rule_wins_wherever_it_stands(void **state)
{
    (void)state;
    static const char TEXT[] =
        RULES RULE("{channel: stripe-main, payment_method: card, operation: create}") RULE("{}")
            RULE("{channel: stripe}") RULE("{channel: stripe-main}")
                RULE("{channel: stripe, payment_method: card}");
    struct recovery_policy policy;
    struct config_error error;
    assert_int_equal(
        recovery_policy_parse("recovery.yaml", span_of_text(TEXT), MIXED, 0, &policy, &error),
        STATUS_OK);
    static const struct {
        const char *psp, *account, *method;
        enum operation operation;
        size_t rule;
    } ROWS[] = {
        { "stripe", "stripe-main", "card", OPERATION_CREATE, 0 },
        { "adyen", "adyen-main", "card", OPERATION_CREATE, 1 },
        { "stripe", "stripe-backup", "qr", OPERATION_CREATE, 2 },
        { "stripe", "stripe-main", "qr", OPERATION_CREATE, 3 },
        { "stripe", "stripe-main", "card", OPERATION_REFUND, 4 },
        { "stripe", "stripe-backup", "card", OPERATION_CREATE, 4 },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const struct recovery_rule *rule = recovery_policy_rule(
            &policy, ROWS[i].psp, ROWS[i].account, ROWS[i].method, ROWS[i].operation);
        assert_ptr_equal(rule, &policy.rules[ROWS[i].rule]);
    }
    recovery_policy_finish(&policy);
}

static void a_version_is_its_number_and_its_bytes(void **state)
{
    (void)state;
    static const char TEXT[] = RULES RULE_WITH("{}", "[retrieve]", "[500ms, 2s, 1h]");
    static const char SPACED[] = RULES RULE_WITH("{}", "[retrieve]", "[500ms, 2s,  1h]");
    struct recovery_policy first;
    struct recovery_policy again;
    struct recovery_policy spaced;
    struct config_error error;
    assert_int_equal(recovery_policy_parse("a", span_of_text(TEXT), NULL, 0, &first, &error),
                     STATUS_OK);
    assert_int_equal(recovery_policy_parse("b", first.source, NULL, 0, &again, &error), STATUS_OK);
    assert_int_equal(recovery_policy_parse("c", span_of_text(SPACED), NULL, 0, &spaced, &error),
                     STATUS_OK);
    assert_string_equal(first.version, again.version);
    assert_memory_equal(first.hash, again.hash, sizeof first.hash);
    assert_string_not_equal(first.version, spaced.version);
    assert_int_equal(strncmp(first.version, "1-", 2), 0);
    assert_int_equal(strlen(first.version), 2 + 16);
    const int64_t delays[] = { 500, 2000, 3600000, 3600000, 3600000 };
    for (size_t i = 0; i < COUNT_OF(delays); i++) {
        assert_int_equal(recovery_rule_delay_ms(&first.rules[0], i), delays[i]);
    }
    recovery_policy_finish(&first);
    recovery_policy_finish(&again);
    recovery_policy_finish(&spaced);
}

static void the_development_policy_loads(void **state)
{
    (void)state;
    struct recovery_policy policy;
    struct config_error error = { "" };
    if (recovery_policy_load(SOURCE_DIR "/config/recovery.yaml", CHANNELS, 2, &policy, &error) !=
        STATUS_OK) {
        fail_msg("%s", error.text);
    }
    const struct recovery_rule *rule =
        recovery_policy_rule(&policy, "stripe", "stripe-main", "card", OPERATION_CREATE);
    assert_non_null(rule);
    assert_true(recovery_rule_delay_ms(rule, 0) <= 5000); /* the first probe comes within seconds */
    assert_int_equal(rule->strategies[rule->strategy_count - 1], RECOVERY_WAIT_WEBHOOK);
    recovery_policy_finish(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wrong_rule_is_named_where_it_stands),
        cmocka_unit_test(ties_are_refused_at_the_later_rule),
        cmocka_unit_test(what_an_account_cannot_do_is_refused_only_where_it_would_apply),
        cmocka_unit_test(the_most_specific_rule_wins_wherever_it_stands),
        cmocka_unit_test(a_version_is_its_number_and_its_bytes),
        cmocka_unit_test(the_development_policy_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
