/*
 * tests/contract/http_stripe_test.c: the stripe adapter and the transport against the simulator,
 * so that what the one writes and the other reads cannot drift apart. The rules of the faults are
 * matched by the beginning of the key.
 */
#include "adapters/http/http_transport.h"
#include "adapters/stripe/stripe.h"
#include "pipeline/clock.h"
#include "tests/support/server_fixture.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char FAULTS[] =
    "[{\"match\":{\"key_prefix\":\"lost\"},\"action\":\"lost_after_commit\"},"
    "{\"match\":{\"key_prefix\":\"drop\"},\"action\":\"drop_before\"},"
    "{\"match\":{\"key_prefix\":\"half\"},\"action\":\"half_body\"},"
    "{\"match\":{\"key_prefix\":\"reset\"},\"action\":\"reset\"},"
    "{\"match\":{\"key_prefix\":\"busy\"},\"action\":\"in_progress_409\"},"
    "{\"match\":{\"key_prefix\":\"limit\"},\"action\":\"rate_limit_429\"},"
    "{\"match\":{\"key_prefix\":\"error\"},\"action\":\"error_5xx_after\"}]";

static struct server_fixture simulator;
static struct http_transport *transport;
static struct arena arena;
static char base_url[64];
static struct psp_account account = { .id = "stripe-main", .base_url = base_url };

static int set_up(void **state)
{
    (void)state;
    server_fixture_init(&simulator);
    server_fixture_write(&simulator, "faults.json", FAULTS);
    server_fixture_argument(&simulator, "%s", PSP_SIM);
    server_fixture_argument(&simulator, "--port");
    server_fixture_argument(&simulator, "%d", simulator.port);
    server_fixture_argument(&simulator, "--data");
    server_fixture_argument(&simulator, "%s/ledger", simulator.folder);
    server_fixture_argument(&simulator, "--faults");
    server_fixture_argument(&simulator, "%s/faults.json", simulator.folder);
    server_fixture_start(&simulator);
    (void)snprintf(base_url, sizeof base_url, "http://127.0.0.1:%d/stripe-main", simulator.port);
    account.api_key = "sk_sim_stripe-main";
    const struct http_transport_options options = { .connect_timeout_ms = 2000,
                                                    .call_limit_ms = 10000,
                                                    .in_flight_max = 256,
                                                    .answer_bytes_max = 256 * 1024,
                                                    .allow_plain_http = true };
    transport = http_transport_create(&options);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_transport_destroy(transport);
    server_fixture_finish(&simulator);
    arena_finish(&arena);
    return 0;
}

/* --- one call --------------------------------------------------------------------------------- */

static struct http_done wait_done(void)
{
    struct http_done done;
    while (!http_transport_next_done(transport, &done)) {
        assert_true(http_transport_in_flight(transport) > 0);
        struct pollfd watched = { .fd = http_transport_poll_fd(transport), .events = POLLIN };
        (void)poll(&watched, 1, http_transport_timeout_ms(transport));
        http_transport_drive(transport);
    }
    return done;
}

static void start(const struct psp_request *request, const char *key, void *cookie)
{
    struct http_request http;
    stripe_ops.authenticate(&account, request, key, &arena, &http);
    const int64_t send_by_us = clock_monotonic_us() + 2 * CLOCK_SECOND_US;
    assert_int_equal(http_transport_start(transport, &http, send_by_us, cookie), HTTP_STARTED);
}

static struct observation call(enum request_kind kind, const struct psp_request *request,
                               const char *key)
{
    start(request, key, NULL);
    const struct http_done done = wait_done();
    struct observation out;
    stripe_ops.parse(OPERATION_CREATE, kind, &done.answer, &arena, &out);
    return out;
}

static struct psp_request create_request(const char *key, int64_t minor, const char *currency,
                                         const char *token)
{
    struct psp_create create = { .provider_key = key,
                                 .amount.minor = minor,
                                 .method_type = "card",
                                 .method_token = token,
                                 .capture_automatic = true };
    assert_true(currency_parse(currency, &create.amount.currency));
    struct psp_request request;
    assert_int_equal(stripe_ops.build_create(&create, &arena, &request, NULL), STATUS_OK);
    return request;
}

static struct observation create(const char *key, const char *token)
{
    const struct psp_request request = create_request(key, 1099, "EUR", token);
    return call(REQUEST_CREATE, &request, key);
}

static struct observation replay(const char *key, const char *token)
{
    const struct psp_request request = create_request(key, 1099, "EUR", token);
    return call(REQUEST_REPLAY, &request, key);
}

static struct observation retrieve(const char *object)
{
    struct psp_request request;
    assert_int_equal(stripe_ops.build_retrieve(object, &arena, &request), STATUS_OK);
    return call(REQUEST_RETRIEVE, &request, NULL);
}

static void assert_success(const struct observation *out, const char *key)
{
    assert_int_equal(out->kind, OBSERVED_SUCCEEDED);
    assert_string_equal(out->reference, key);
    assert_true(out->has_amount);
    assert_int_equal(out->amount.minor, 1099);
    assert_string_equal(out->amount.currency.code, "EUR");
}

/* --- tests ------------------------------------------------------------------------------------ */

static void a_create_its_replay_and_the_lookup_agree(void **state)
{
    (void)state;
    const struct observation first = create("op_1", "pm_card_visa");
    assert_success(&first, "op_1");
    assert_false(first.replayed);
    const struct observation again = replay("op_1", "pm_card_visa");
    assert_success(&again, "op_1");
    assert_true(again.replayed);
    const struct observation found = retrieve(first.provider_object);
    assert_success(&found, "op_1");
    assert_string_equal(again.provider_object, first.provider_object);
    assert_string_equal(found.provider_object, first.provider_object);
}

static void amounts_come_back_as_they_went(void **state)
{
    (void)state;
    static const struct {
        int64_t minor;
        const char *currency;
    } CASES[] = { { 5, "ISK" }, { 80, "JPY" }, { 7500, "KWD" }, { 500, "MGA" }, { 3, "UGX" } };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const char *key = arena_format(&arena, "op_%s", CASES[i].currency);
        const struct psp_request request =
            create_request(key, CASES[i].minor, CASES[i].currency, "pm_card_visa");
        const struct observation out = call(REQUEST_CREATE, &request, key);
        assert_int_equal(out.kind, OBSERVED_SUCCEEDED);
        assert_int_equal(out.amount.minor, CASES[i].minor);
        assert_string_equal(out.amount.currency.code, CASES[i].currency);
    }
}

static void another_body_under_the_key_is_a_mismatch(void **state)
{
    (void)state;
    (void)create("op_1", "pm_card_visa");
    assert_int_equal(replay("op_1", "pm_card_mastercard").kind, OBSERVED_KEY_MISMATCH);
}

static void declines_are_kept_under_the_key(void **state)
{
    (void)state;
    static const char TOKEN[] = "pm_card_chargeDeclinedStolenCard";
    const struct observation first = create("op_1", TOKEN);
    assert_int_equal(first.kind, OBSERVED_DECLINED);
    assert_int_equal(first.decline, DECLINE_HARD_FRAUD);
    assert_string_equal(first.reference, "op_1");
    const struct observation again = replay("op_1", TOKEN);
    assert_int_equal(again.kind, OBSERVED_DECLINED);
    assert_true(again.replayed);
    const struct observation found = retrieve(first.provider_object);
    assert_int_equal(found.kind, OBSERVED_DECLINED);
    assert_int_equal(found.decline, DECLINE_HARD_FRAUD);
    assert_string_equal(found.error_code, "stolen_card");
}

static void open_intents_are_pending(void **state)
{
    (void)state;
    const struct observation action = create("op_1", "pm_card_threeDSecure2Required");
    assert_int_equal(action.kind, OBSERVED_PENDING);
    assert_true(action.handed_out && action.object_payable);
    const struct observation pending = create("op_2", "pm_sim_pending");
    assert_int_equal(pending.kind, OBSERVED_PENDING);
    assert_false(pending.handed_out || pending.object_payable);
}

static void rejections_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(retrieve("pi_no_such_object").kind, OBSERVED_NOT_FOUND);
    struct psp_request request = create_request("op_1", 1099, "EUR", "pm_card_visa");
    request.body = span_of_text("amount=1099");
    assert_int_equal(call(REQUEST_CREATE, &request, "op_1").kind, OBSERVED_REQUEST_REJECTED);
    account.api_key = "sk_sim_somebody-else";
    assert_int_equal(create("op_2", "pm_card_visa").kind, OBSERVED_AUTH_REJECTED);
}

/* What a lost first answer says, and what the replay of the same bytes then says. */
static void lost_answers_are_found_again_by_a_replay(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        enum observation_kind first;
        enum observation_kind again;
    } CASES[] = {
        { "lost_1", OBSERVED_TRANSPORT_LOST, OBSERVED_SUCCEEDED },
        { "drop_1", OBSERVED_TRANSPORT_LOST, OBSERVED_SUCCEEDED },
        { "half_1", OBSERVED_TRANSPORT_LOST, OBSERVED_SUCCEEDED },
        { "reset_1", OBSERVED_TRANSPORT_LOST, OBSERVED_SUCCEEDED },
        { "busy_1", OBSERVED_IN_PROGRESS, OBSERVED_SUCCEEDED },
        { "limit_1", OBSERVED_RATE_LIMITED, OBSERVED_SUCCEEDED },
        { "error_1", OBSERVED_SERVER_ERROR, OBSERVED_SERVER_ERROR },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        print_message("%s\n", CASES[i].key);
        const struct observation warm = create(arena_format(&arena, "op_%zu", i), "pm_card_visa");
        assert_int_equal(warm.kind, OBSERVED_SUCCEEDED); /* the next call finds it kept alive */
        const struct observation first = create(CASES[i].key, "pm_card_visa");
        assert_int_equal(first.kind, CASES[i].first);
        const struct observation again = replay(CASES[i].key, "pm_card_visa");
        assert_int_equal(again.kind, CASES[i].again);
        if (again.kind == OBSERVED_SUCCEEDED) assert_success(&again, CASES[i].key);
    }
}

static void hundreds_of_creates_go_at_once(void **state)
{
    (void)state;
    enum { COUNT = 250 };
    static char keys[COUNT][16];
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "many_%d", i);
        const struct psp_request request = create_request(keys[i], 1099, "EUR", "pm_card_visa");
        start(&request, keys[i], keys[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        const struct http_done done = wait_done();
        struct observation out;
        stripe_ops.parse(OPERATION_CREATE, REQUEST_CREATE, &done.answer, &arena, &out);
        assert_success(&out, done.cookie);
        ((char *)done.cookie)[0] = '\0'; /* each answers once */
    }
}

#define STRIPE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STRIPE_TEST(a_create_its_replay_and_the_lookup_agree),
        STRIPE_TEST(amounts_come_back_as_they_went),
        STRIPE_TEST(another_body_under_the_key_is_a_mismatch),
        STRIPE_TEST(declines_are_kept_under_the_key),
        STRIPE_TEST(open_intents_are_pending),
        STRIPE_TEST(rejections_are_told_apart),
        STRIPE_TEST(lost_answers_are_found_again_by_a_replay),
        STRIPE_TEST(hundreds_of_creates_go_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
