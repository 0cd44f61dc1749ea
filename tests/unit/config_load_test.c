/*
 * tests/unit/config_load_test.c: oncepay.yaml. One row per refusal, with the exact place; the
 * shipped development configuration loads.
 */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/oncepay-config-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) != EOF);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    write_file("hmac", "0123456789abcdef\n");
    write_file("key", "sk_test\n");
    write_file("hook", "whsec_test\n");
    static const char *const OVERRIDES[] = { "ONCEPAY_CONFIG",   "ONCEPAY_NATS_URL",
                                             "ONCEPAY_PG_URL",   "ONCEPAY_REDIS_URL",
                                             "ONCEPAY_SIM_URL",  "ONCEPAY_GATEWAY_PORT",
                                             "ONCEPAY_RECOVERY", "ONCEPAY_METRICS_PORT",
                                             "ONCEPAY_SECRETS" };
    for (size_t i = 0; i < COUNT_OF(OVERRIDES); i++) (void)unsetenv(OVERRIDES[i]);
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const NAMES[] = { "oncepay.yaml", "hmac", "key", "hook" };
    char path[128];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static enum status load(const char *text, struct config *config, struct config_error *error)
{
    char path[128];
    write_file("oncepay.yaml", text);
    (void)snprintf(path, sizeof path, "%s/oncepay.yaml", folder);
    return config_load(path, config, error);
}

/* The message without the folder: "oncepay.yaml:1:1: …". */
static const char *refusal(const char *text)
{
    static struct config_error error;
    struct config config = { 0 };
    error.text[0] = '\0';
    if (load(text, &config, &error) == STATUS_OK) {
        config_finish(&config);
        return "accepted";
    }
    const size_t length = strlen(folder);
    return strncmp(error.text, folder, length) == 0 ? error.text + length + 1 : error.text;
}

#define HEAD "installation: test\ndevelopment: true\nredis: {hmac_key_file: hmac}\n"
#define ACCOUNT_AT(id, url)                                                                        \
    "  - id: " id "\n    psp: stripe\n    base_url: " url "\n    failure_domain: eu\n"             \
    "    currencies: [EUR]\n    methods: [card]\n    token_realms: [stripe]\n"                     \
    "    api_key_file: key\n    webhook_secret_file: hook\n"
#define ACCOUNT(id) ACCOUNT_AT(id, "http://sim")

struct row {
    const char *text;
    const char *refusal;
};

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) assert_string_equal(refusal(rows[i].text), rows[i].refusal);
}

static void yaml_that_could_mean_more_than_it_says_is_refused(void **state)
{
    (void)state;
    static const struct row ROWS[] = {
        { "", "oncepay.yaml:1:1: the file must be a mapping of keys" },
        { "- a\n", "oncepay.yaml:1:1: the file must be a mapping of keys" },
        { "a: 1\na: 2\n", "oncepay.yaml:2:1: key \"a\" stands twice" },
        { "nats:\n  url: x\n  url: y\n", "oncepay.yaml:3:3: key \"url\" stands twice" },
        { "a: &x 1\n", "oncepay.yaml:1:4: anchors are not allowed" },
        { "a: &x {b: 1}\n", "oncepay.yaml:1:4: anchors are not allowed" },
        { "a: *x\n", "oncepay.yaml:1:4: aliases are not allowed" },
        { "a: !!str 1\n", "oncepay.yaml:1:4: tags are not allowed" },
        { "a: ! [1]\n", "oncepay.yaml:1:4: tags are not allowed" },
        { "? [a]\n: 1\n", "oncepay.yaml:1:3: a key must be a plain word" },
        { "a: 1\n---\nb: 1\n", "oncepay.yaml:3:1: only one document is allowed" },
        { "a: [1,\n", "oncepay.yaml:2:1: did not find expected node content" },
        { "a:\n\t- b\n", "oncepay.yaml:2:1: found character that cannot start any token" },
        { "a: [[[[[[[[[1]]]]]]]]]\n", "oncepay.yaml:1:11: nested too deep" },
        { "a: \"\\0\"\n", "oncepay.yaml:1:4: a NUL character is not allowed" },
    };
    check(ROWS, COUNT_OF(ROWS));
}

static void each_wrong_key_or_value_is_named_where_it_stands(void **state)
{
    (void)state;
    static const struct row ROWS[] = {
        { HEAD, "accepted" },
        { HEAD "colour: red\n", "oncepay.yaml:4:1: unknown key \"colour\" in the file" },
        { HEAD "timers:\n  start_by: 9\n", "oncepay.yaml:5:3: unknown key \"start_by\" in timers" },
        { "development: true\nredis: {hmac_key_file: hmac}\n",
          "oncepay.yaml:1:1: installation is missing" },
        { "installation: test\nredis: {placeholder: 1s}\n",
          "oncepay.yaml:2:8: redis.hmac_key_file is missing" },
        { "installation: a b\n",
          "oncepay.yaml:1:15: installation: \"a b\" is not 1 to 64 of A-Z a-z 0-9 _ -" },
        { HEAD "timers: 5\n", "oncepay.yaml:4:9: timers: must be a mapping of keys" },
        { HEAD "timers: {lease_s: [1]}\n", "oncepay.yaml:4:19: timers.lease_s: must be one value" },
        { HEAD "timers: {lease_s: }\n", "oncepay.yaml:4:19: timers.lease_s: has no value" },
        { HEAD "timers: {lease_s: ~}\n", "oncepay.yaml:4:19: timers.lease_s: has no value" },
        { HEAD "timers: {lease_s: soon}\n",
          "oncepay.yaml:4:19: timers.lease_s: \"soon\" is not an integer" },
        { HEAD "timers: {lease_s: \"45\"}\n",
          "oncepay.yaml:4:19: timers.lease_s: \"45\" is not an integer" },
        { HEAD "timers: {lease_s: 045}\n",
          "oncepay.yaml:4:19: timers.lease_s: \"045\" is not an integer" },
        { HEAD "timers: {lease_s: 1e3}\n",
          "oncepay.yaml:4:19: timers.lease_s: \"1e3\" is not an integer" },
        { HEAD "timers: {lease_s: -45}\n",
          "oncepay.yaml:4:19: timers.lease_s: \"-45\" is not an integer" },
        { HEAD "timers: {lease_s: 9999999999999999999}\n",
          "oncepay.yaml:4:19: timers.lease_s: \"9999999999999999999\" is not an integer" },
        { HEAD "timers: {lease_s: 4}\n", "oncepay.yaml:4:19: timers.lease_s: 4 is not in 5..600" },
        { HEAD "timers:\n  stuck_after_s: 30\n",
          "oncepay.yaml:5:18: timers.stuck_after_s: 30 is not in 60..300" },
        { HEAD "relay: {poll: 1ms}\n", "oncepay.yaml:4:15: relay.poll: 1ms is not in 5..10000 ms" },
        { HEAD "relay: {poll: 50}\n", "oncepay.yaml:4:15: relay.poll: \"50\" is not a duration "
                                      "like 500ms, 15s, 5m, 24h or 7d" },
        { HEAD "relay: {poll: 1 s}\n", "oncepay.yaml:4:15: relay.poll: \"1 s\" is not a duration "
                                       "like 500ms, 15s, 5m, 24h or 7d" },
        { HEAD "streams: {intake: {bytes_max: 1GB}}\n",
          "oncepay.yaml:4:31: streams.intake.bytes_max: \"1GB\" is not a size like 65536, 64KiB, "
          "256MiB or 2GiB" },
        { "installation: test\ndevelopment: yes\n",
          "oncepay.yaml:2:14: development: \"yes\" is not true or false" },
        { "installation: test\ndevelopment: \"true\"\n",
          "oncepay.yaml:2:14: development: \"true\" is not true or false" },
        { HEAD "nats: {url: n}\n",
          "oncepay.yaml:4:13: nats.url: has 1 characters, allowed are 8..2048" },
        { HEAD "merchants: {id: a}\n", "oncepay.yaml:4:12: merchants: must be a list" },
        { HEAD "merchants: [a]\n", "oncepay.yaml:4:13: merchants[0]: must be a mapping of keys" },
        { HEAD "merchants:\n  - key_lifetime_h: 24\n",
          "oncepay.yaml:5:5: merchants[0].id is missing" },
        { HEAD "merchants:\n  - id: m-1\n  - id: m-2\n    key_lifetime_h: 9000\n",
          "oncepay.yaml:7:21: merchants[1].key_lifetime_h: 9000 is not in 1..8760" },
        { HEAD "nats: {url: \"${HOME}/x\"}\n",
          "oncepay.yaml:4:13: nats.url: ${HOME} is not one of oncepay's variables" },
        { HEAD "nats: {url: \"${ONCEPAY_NATS_URL\"}\n",
          "oncepay.yaml:4:13: nats.url: \"${\" without \"}\"" },
        { HEAD "nats: {url: \"${ONCEPAY_SIM_URL}/x\"}\n",
          "oncepay.yaml:4:13: nats.url: environment variable ONCEPAY_SIM_URL is not set" },
    };
    check(ROWS, COUNT_OF(ROWS));
}

static void accounts_are_checked_where_they_stand(void **state)
{
    (void)state;
    static const struct row ROWS[] = {
        { HEAD "accounts:\n" ACCOUNT("stripe-main"), "accepted" },
        { HEAD "accounts:\n" ACCOUNT("a") ACCOUNT("b") ACCOUNT("a"),
          "oncepay.yaml:23:5: account id \"a\" stands twice" },
        { HEAD "accounts:\n" ACCOUNT("stripe"),
          "oncepay.yaml:5:5: account id \"stripe\" is also the name of a PSP" },
        { HEAD "accounts:\n" ACCOUNT("a.b"),
          "oncepay.yaml:5:9: accounts[0].id: \"a.b\" is not 1 to 64 of A-Z a-z 0-9 _ -" },
        { HEAD "accounts:\n" ACCOUNT_AT("a", "ftp://x-y-z"),
          "oncepay.yaml:5:5: account a: base_url must begin with https://" },
        { HEAD "accounts:\n" ACCOUNT_AT("a", "http://sim/"),
          "oncepay.yaml:5:5: account a: base_url must have no blank, query, credentials or slash "
          "at the end" },
        { HEAD "accounts:\n" ACCOUNT_AT("a", "http://u:p@sim"),
          "oncepay.yaml:5:5: account a: base_url must have no blank, query, credentials or slash "
          "at the end" },
        { HEAD "accounts:\n" ACCOUNT("a") "    amount_minor_min: 10\n    amount_minor_max: 9\n",
          "oncepay.yaml:5:5: account a: amount_minor_min is above amount_minor_max" },
        { HEAD "accounts:\n" ACCOUNT("a") "    limits: {creates_per_s: 0}\n",
          "oncepay.yaml:14:29: accounts[0].limits.creates_per_s: 0 is not in 1..100000" },
        { HEAD "accounts:\n  - id: a\n    psp: stripe\n    base_url: http://sim\n"
               "    failure_domain: eu\n    currencies: [EUR, EUR]\n",
          "oncepay.yaml:9:23: accounts[0].currencies: \"EUR\" stands twice" },
        { HEAD "accounts:\n  - id: a\n    psp: stripe\n    base_url: http://sim\n"
               "    failure_domain: eu\n    currencies: []\n",
          "oncepay.yaml:9:17: accounts[0].currencies: has 0 items, allowed are 1..200" },
        { HEAD "merchants:\n  - id: a\n  - id: a\n",
          "oncepay.yaml:6:9: merchants[1].id: \"a\" stands twice" },
    };
    check(ROWS, COUNT_OF(ROWS));
}

static void keys_that_depend_on_each_other_are_checked_together(void **state)
{
    (void)state;
    static const struct row ROWS[] = {
        { HEAD "timers:\n  lease_s: 30\n", "oncepay.yaml:5:12: timers.lease_s: must outlive "
                                           "send_by_ms + call_limit_ms by a second" },
        { HEAD "timers:\n  call_limit_ms: 60000\n",
          "oncepay.yaml:5:3: timers.lease_s: must outlive send_by_ms + call_limit_ms by a second" },
        { HEAD "timers:\n  call_connect_ms: 31000\n",
          "oncepay.yaml:5:20: timers.call_connect_ms: is above call_limit_ms" },
        { HEAD "stages:\n  route:\n    retry_min: 6s\n",
          "oncepay.yaml:6:5: stages.route: retry_min is above retry_max" },
        { HEAD "stages:\n  route:\n    batch_max: 1000\n",
          "oncepay.yaml:6:5: stages.route: batch_max is above queue_max" },
        { HEAD "streams: {ack_pending_max: 100}\n",
          "oncepay.yaml:4:28: streams.ack_pending_max: must be twice stages.intake.queue_max or "
          "more" },
        { HEAD "streams: {replicas: 2}\n",
          "oncepay.yaml:4:21: streams.replicas: must be odd, an even number survives no more" },
        { HEAD "nats: {url: \"tls://nats:4222\"}\n",
          "oncepay.yaml:4:13: nats.ca_file: is needed for a tls:// address" },
    };
    check(ROWS, COUNT_OF(ROWS));
}

static void production_allows_less(void **state)
{
    char path[128];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/hmac", folder);
    static const char *const HTTP = "installation: test\nredis: {hmac_key_file: hmac}\n"
                                    "streams: {replicas: 3}\naccounts:\n" ACCOUNT("a");
    assert_string_equal(refusal("installation: test\nredis: {hmac_key_file: hmac}\n"),
                        "oncepay.yaml:1:1: streams.replicas: must be 3 or 5 unless development is "
                        "true");
    assert_string_equal(
        refusal(HTTP),
        "oncepay.yaml:5:5: account a: base_url must be https unless development is true");
    static const char *const GOOD =
        "installation: test\nredis: {hmac_key_file: hmac}\nstreams: {replicas: 3}\n";
    assert_int_equal(chmod(path, 0644), 0);
    assert_string_equal(refusal(GOOD), "hmac: others may read this secret (chmod o-rwx), and "
                                       "development is false");
    assert_int_equal(chmod(path, 0640), 0);
    assert_string_equal(refusal(GOOD), "accepted");
    assert_int_equal(chmod(path, 0644), 0);
}

static void secrets_are_read_and_never_repeated(void **state)
{
    (void)state;
    struct config config = { 0 };
    struct config_error error;
    assert_int_equal(load(HEAD "accounts:\n" ACCOUNT("a"), &config, &error), STATUS_OK);
    assert_string_equal(config.accounts[0].psp_account.api_key, "sk_test");
    assert_string_equal(config.accounts[0].psp_account.webhook_secrets[0], "whsec_test");
    assert_null(config.accounts[0].psp_account.webhook_secrets[1]);
    assert_int_equal(config.accounts[0].psp_account.webhook_tolerance_s, 300);
    assert_true(span_equal(config.redis.hmac_key, span_of_text("0123456789abcdef")));
    config_finish(&config);
    write_file("hmac", "tooshort\n");
    assert_string_equal(refusal(HEAD), "hmac: the secret is shorter than 16 characters");
    write_file("hmac", "two lines of\nsome secret\n");
    assert_string_equal(refusal(HEAD), "hmac: the secret is not one line of ASCII");
    write_file("hmac", "0123456789abcdef\n");
    assert_string_equal(refusal("installation: t\nredis: {hmac_key_file: nowhere}\n"
                                "development: true\n"),
                        "nowhere: cannot be opened: No such file or directory");
    /* A password in an address of the wrong form stays out of the message. */
    assert_null(strstr(refusal(HEAD "nats: {url: \"p4ss\"}\n"), "p4ss"));
}

static void variables_override_and_fill_in(void **state)
{
    (void)state;
    struct config config = { 0 };
    struct config_error error;
    assert_int_equal(setenv("ONCEPAY_NATS_URL", "nats://u:p@127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("ONCEPAY_GATEWAY_PORT", "0", 1), 0);
    assert_int_equal(setenv("ONCEPAY_SIM_URL", "http://127.0.0.1:9", 1), 0);
    assert_int_equal(
        load(HEAD "nats: {url: nats://file:1}\naccounts:\n" ACCOUNT_AT("a", "${ONCEPAY_SIM_URL}/a"),
             &config, &error),
        STATUS_OK);
    assert_string_equal(config.nats.url, "nats://u:p@127.0.0.1:1");
    assert_int_equal(config.gateway.port, 0);
    assert_string_equal(config.accounts[0].base_url, "http://127.0.0.1:9/a");
    assert_string_equal(config.accounts[0].psp_account.base_url, "http://127.0.0.1:9/a");
    config_finish(&config);
    assert_int_equal(setenv("ONCEPAY_GATEWAY_PORT", "65536", 1), 0);
    assert_string_equal(refusal(HEAD),
                        "ONCEPAY_GATEWAY_PORT: gateway.port: 65536 is not in 0..65535");
    assert_int_equal(setenv("ONCEPAY_GATEWAY_PORT", "", 1), 0); /* empty is as good as unset */
    assert_string_equal(refusal(HEAD), "accepted");
    assert_int_equal(unsetenv("ONCEPAY_NATS_URL"), 0);
    assert_int_equal(unsetenv("ONCEPAY_GATEWAY_PORT"), 0);
    assert_int_equal(unsetenv("ONCEPAY_SIM_URL"), 0);
}

static void the_protocols_times_are_the_defaults(void **state)
{
    (void)state;
    struct config config = { 0 };
    struct config_error error;
    assert_int_equal(load(HEAD, &config, &error), STATUS_OK);
    assert_int_equal(config.timers.start_by_s, 900);
    assert_int_equal(config.timers.replay_until_s, 3600);
    assert_int_equal(config.timers.send_by_ms, 2000);
    assert_int_equal(config.timers.call_limit_ms, 30000);
    assert_int_equal(config.timers.fence_grace_ms, 5000);
    assert_int_equal(config.timers.lease_s, 45);
    assert_int_equal(config.timers.stuck_after_s, 60);
    assert_int_equal(config.streams.ack_wait_s, 30);
    assert_int_equal(config.streams.duplicate_window_s, 120);
    assert_int_equal(config.streams.message_bytes_max, 65536);
    assert_int_equal(config.streams.event_age_max_s, 7 * 86400);
    assert_int_equal(config.redis.placeholder_ms, 10000);
    config_finish(&config);
}

static void the_development_configuration_loads(void **state)
{
    (void)state;
    struct config config = { 0 };
    struct config_error error = { "" };
    assert_int_equal(setenv("ONCEPAY_SIM_URL", "http://127.0.0.1:4790", 1), 0);
    if (config_load(SOURCE_DIR "/config/oncepay.yaml", &config, &error) != STATUS_OK) {
        fail_msg("%s", error.text);
    }
    assert_true(config.development);
    assert_int_equal(config.merchant_count, 2);
    assert_non_null(config_merchant_find(&config, "m-1001"));
    assert_non_null(config_merchant_find(&config, "m-1002"));
    assert_null(config_merchant_find(&config, "m-1003"));
    const struct config_account *main_account = config_account_find(&config, "stripe-main");
    const struct config_account *backup = config_account_find(&config, "stripe-backup");
    assert_non_null(main_account);
    assert_non_null(backup);
    assert_string_not_equal(main_account->failure_domain, backup->failure_domain);
    assert_string_equal(main_account->base_url, "http://127.0.0.1:4790/stripe-main");
    assert_string_equal(main_account->psp_account.api_key, "sk_sim_stripe-main");
    assert_string_equal(main_account->psp_account.webhook_secrets[0], "whsec_sim_stripe-main");
    assert_true(config_texts_contain(&main_account->currencies, "EUR"));
    config_finish(&config);
    assert_int_equal(unsetenv("ONCEPAY_SIM_URL"), 0);
}

static void an_account_without_a_way_back_needs_an_owner(void **state)
{
    (void)state;
    struct config config = { 0 };
    struct config_error error;
    assert_int_equal(load(HEAD "accounts:\n" ACCOUNT("a")
                              ACCOUNT("b") "    accept_manual_recovery: ops@example.org\n",
                          &config, &error),
                     STATUS_OK);
    const struct psp_capability none = { .has_retrieve = true };
    const struct psp_capability key_only = { .has_idempotency_key = true };
    const struct psp_capability both = { .has_idempotency_key = true, .has_retrieve = true };
    assert_int_equal(config_account_check(&config, &config.accounts[0], &both, &error), STATUS_OK);
    assert_int_equal(config_account_check(&config, &config.accounts[0], &none, &error),
                     STATUS_STOP);
    assert_non_null(strstr(error.text, "oncepay.yaml:5:5: account a: PSP stripe has no "
                                       "idempotency key"));
    assert_int_equal(config_account_check(&config, &config.accounts[0], &key_only, &error),
                     STATUS_STOP);
    assert_non_null(strstr(error.text, "has no lookup"));
    assert_int_equal(config_account_check(&config, &config.accounts[1], &none, &error), STATUS_OK);
    config_finish(&config);
}

static void every_key_has_a_help_sentence(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    config_describe(out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "timers.lease_s: integer 5..600, default \"45\". of a recovery "
                                 "task; outlives send_by and call limit (G)\n"));
    assert_non_null(strstr(text, "accounts[].limits.creates_per_s: integer"));
    assert_null(strstr(text, "(null)"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_that_could_mean_more_than_it_says_is_refused),
        cmocka_unit_test(each_wrong_key_or_value_is_named_where_it_stands),
        cmocka_unit_test(accounts_are_checked_where_they_stand),
        cmocka_unit_test(keys_that_depend_on_each_other_are_checked_together),
        cmocka_unit_test(production_allows_less),
        cmocka_unit_test(secrets_are_read_and_never_repeated),
        cmocka_unit_test(variables_override_and_fill_in),
        cmocka_unit_test(the_protocols_times_are_the_defaults),
        cmocka_unit_test(the_development_configuration_loads),
        cmocka_unit_test(an_account_without_a_way_back_needs_an_owner),
        cmocka_unit_test(every_key_has_a_help_sentence),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
