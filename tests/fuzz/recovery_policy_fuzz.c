/*
 * tests/fuzz/recovery_policy_fuzz.c: recovery.yaml, for an account with all capabilities. What is
 * accepted has a rule for each of the account's methods, and delays for every probe.
 */
#include "config/recovery_policy.h"
#include "tests/fuzz/fuzz.h"

static const char *const METHODS[] = { "card", "wallet" };
static const struct config_account ACCOUNT = { .id = "stripe-main",
                                               .psp = "stripe",
                                               .methods = { METHODS, COUNT_OF(METHODS) } };
static const struct psp_capability CAPABILITY = { .has_idempotency_key = true,
                                                  .has_retrieve = true,
                                                  .has_search = true };
static const struct recovery_channel CHANNEL = { &ACCOUNT, &CAPABILITY };

static void check_rule(const struct recovery_rule *rule)
{
    INVARIANT(rule->strategy_count > 0 && rule->strategy_count <= RECOVERY_STRATEGY_MAX);
    for (size_t i = 0; i < rule->strategy_count; i++) {
        INVARIANT(recovery_strategy_name((int)rule->strategies[i]) != NULL);
    }
    for (size_t probe = 0; probe <= RECOVERY_DELAY_MAX; probe++) {
        INVARIANT(recovery_rule_delay_ms(rule, probe) > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span text = { data, size };
    struct recovery_policy policy;
    struct config_error error = { "" };
    if (recovery_policy_parse("recovery.yaml", text, &CHANNEL, 1, &policy, &error) == STATUS_OK) {
        INVARIANT(span_equal(policy.source, text));
        for (size_t i = 0; i < policy.rule_count; i++) check_rule(&policy.rules[i]);
        for (size_t i = 0; i < COUNT_OF(METHODS); i++) {
            const struct recovery_rule *rule = recovery_policy_rule(
                &policy, ACCOUNT.psp, ACCOUNT.id, METHODS[i], OPERATION_CREATE);
            INVARIANT(rule != NULL);
        }
        recovery_policy_finish(&policy);
    } else {
        INVARIANT(strncmp(error.text, "recovery.yaml", 13) == 0);
    }
    if (recovery_policy_parse("recovery.yaml", text, NULL, 0, &policy, &error) == STATUS_OK) {
        recovery_policy_finish(&policy);
    }
    return 0;
}
