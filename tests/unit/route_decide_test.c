/* tests/unit/route_decide_test.c: one row per reason not to take an account, in order. */
#include "stages/route/route_decide.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const EUR_USD[] = { "EUR", "USD" };
static const char *const JPY[] = { "JPY" };
static const char *const CARD[] = { "card" };
static const char *const STRIPE[] = { "stripe" };
static const char *const NETWORK[] = { "stripe", "network" };

static struct config_account account_main(void)
{
    return (struct config_account){
        .id = "main",
        .currencies = { EUR_USD, 2 },
        .methods = { CARD, 1 },
        .token_realms = { STRIPE, 1 },
        .amount_minor_min = 100,
        .amount_minor_max = 5000,
        .limits = { .open_attempts_max = 10 },
    };
}

static struct route_payment payment_of(int64_t minor, const char *currency)
{
    struct route_payment payment = {
        .exists = true,
        .now_us = 100,
        .start_by_us = 101,
        .status = PAYMENT_CREATED,
        .version = 1,
        .method_type = "card",
        .token_realm = "stripe",
        .amount = { .minor = minor },
    };
    (void)snprintf(payment.amount.currency.code, sizeof payment.amount.currency.code, "%s",
                   currency);
    return payment;
}

static void expect(const struct route_payment *payment, struct route_candidate *candidates,
                   size_t count, enum route_verdict verdict, const char *reason)
{
    const struct route_decision decision = route_decide(payment, candidates, count);
    assert_int_equal(decision.verdict, verdict);
    assert_string_equal(decision.reason, reason);
}

/* Everything is wrong; each step puts right what stood first. */
static void reasons_are_looked_for_in_order(void **state)
{
    (void)state;
    const struct config_account account = account_main();
    struct route_payment payment = payment_of(99, "JPY");
    payment.method_type = "wallet";
    payment.token_realm = "network";
    struct route_candidate candidate = { .account = &account,
                                         .open_attempts = 10,
                                         .is_inexpressible = true };
    expect(&payment, &candidate, 1, ROUTE_DENY, "no_route");
    assert_string_equal(route_reason_name(candidate.reason), "currency");
    payment.amount.currency = (struct currency){ "EUR" };
    expect(&payment, &candidate, 1, ROUTE_DENY, "no_route");
    assert_string_equal(route_reason_name(candidate.reason), "method");
    payment.method_type = "card";
    expect(&payment, &candidate, 1, ROUTE_DENY, "no_route");
    assert_string_equal(route_reason_name(candidate.reason), "amount");
    payment.amount.minor = 5001;
    expect(&payment, &candidate, 1, ROUTE_DENY, "no_route");
    assert_string_equal(route_reason_name(candidate.reason), "amount");
    payment.amount.minor = 5000;
    expect(&payment, &candidate, 1, ROUTE_DENY, "no_route");
    assert_string_equal(route_reason_name(candidate.reason), "token_realm");
    payment.token_realm = "stripe";
    expect(&payment, &candidate, 1, ROUTE_DENY, "no_route");
    assert_string_equal(route_reason_name(candidate.reason), "inexpressible");
    candidate.is_inexpressible = false;
    expect(&payment, &candidate, 1, ROUTE_WAIT, "open_attempts");
    assert_string_equal(route_reason_name(candidate.reason), "open_attempts");
    candidate.open_attempts = 9;
    expect(&payment, &candidate, 1, ROUTE_TAKE, "taken");
    assert_string_equal(route_reason_name(candidate.reason), "taken");
    payment.amount.minor = 100;
    expect(&payment, &candidate, 1, ROUTE_TAKE, "taken");
    payment.token_realm = NULL; /* whoever knows the token */
    expect(&payment, &candidate, 1, ROUTE_TAKE, "taken");
}

static void nothing_is_done_twice_or_too_late(void **state)
{
    (void)state;
    const struct config_account account = account_main();
    struct route_candidate candidate = { .account = &account };
    struct route_payment payment = payment_of(1000, "EUR");
    payment.exists = false;
    payment.has_attempt = true;
    payment.has_decision = true;
    payment.status = PAYMENT_AUTHORIZING;
    payment.start_by_us = payment.now_us;
    expect(&payment, &candidate, 1, ROUTE_NOTHING, "payment_missing");
    payment.exists = true;
    expect(&payment, &candidate, 1, ROUTE_NOTHING, "attempt_exists");
    payment.has_attempt = false;
    expect(&payment, &candidate, 1, ROUTE_NOTHING, "decision_exists");
    payment.has_decision = false;
    expect(&payment, &candidate, 1, ROUTE_NOTHING, "overtaken");
    payment.status = PAYMENT_CREATED;
    expect(&payment, &candidate, 1, ROUTE_DENY, "expired_before_start");
    assert_int_equal(candidate.reason, ROUTE_REASON_TAKEN); /* what would have been */
    payment.start_by_us++;
    expect(&payment, &candidate, 1, ROUTE_TAKE, "taken");
}

static void the_first_that_serves_is_taken(void **state)
{
    (void)state;
    struct config_account accounts[] = { account_main(), account_main(), account_main(),
                                         account_main() };
    accounts[0].currencies = (struct config_texts){ JPY, 1 };
    accounts[3].token_realms = (struct config_texts){ NETWORK, 2 };
    struct route_candidate candidates[COUNT_OF(accounts)] = { 0 };
    for (size_t i = 0; i < COUNT_OF(accounts); i++) candidates[i].account = &accounts[i];
    candidates[1].open_attempts = 10;
    const struct route_payment payment = payment_of(1000, "EUR");
    const struct route_decision decision = route_decide(&payment, candidates, COUNT_OF(candidates));
    assert_int_equal(decision.verdict, ROUTE_TAKE);
    assert_int_equal(decision.taken, 2);
    assert_int_equal(candidates[0].reason, ROUTE_REASON_CURRENCY);
    assert_int_equal(candidates[1].reason, ROUTE_REASON_FULL);
    assert_int_equal(candidates[2].reason, ROUTE_REASON_TAKEN);
    assert_int_equal(candidates[3].reason, ROUTE_REASON_NOT_NEEDED);
}

/* One that is full is a wait even if the others can never take it. */
static void a_full_account_is_a_wait_until_start_by(void **state)
{
    (void)state;
    struct config_account accounts[] = { account_main(), account_main() };
    accounts[1].currencies = (struct config_texts){ JPY, 1 };
    struct route_candidate candidates[] = { { .account = &accounts[0], .open_attempts = 11 },
                                            { .account = &accounts[1] } };
    struct route_payment payment = payment_of(1000, "EUR");
    expect(&payment, candidates, 2, ROUTE_WAIT, "open_attempts");
    payment.now_us = payment.start_by_us;
    expect(&payment, candidates, 2, ROUTE_DENY, "expired_before_start");
    expect(&payment, candidates, 0, ROUTE_DENY, "expired_before_start");
    payment.now_us--;
    expect(&payment, candidates, 0, ROUTE_DENY, "no_route");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_are_looked_for_in_order),
        cmocka_unit_test(nothing_is_done_twice_or_too_late),
        cmocka_unit_test(the_first_that_serves_is_taken),
        cmocka_unit_test(a_full_account_is_a_wait_until_start_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
