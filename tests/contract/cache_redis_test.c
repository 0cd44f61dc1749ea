/*
 * tests/contract/cache_redis_test.c: the cache against a private Redis that is flushed, killed,
 * frozen, filled with lies. It may always say "unknown"; it must never say anything untrue, and
 * never keep anybody waiting.
 */
#include "adapters/redis/cache_redis.h"
#include "pipeline/clock.h"
#include "tests/support/server_fixture.h"

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char HMAC_KEY[] = "a key of thirty-two characters!!";

struct fixture {
    struct server_fixture server;
    struct cache *cache;
    redisContext *raw;
    struct arena arena;
};

static struct cache *open_cache(const char *url, const char *hmac_key)
{
    const struct cache_options options = { .url = url,
                                           .hmac_key = span_of_text(hmac_key),
                                           .connect_timeout_ms = 1000,
                                           .command_timeout_ms = 100,
                                           .placeholder_ms = 10000,
                                           .lease_ms = 2000 };
    struct cache *cache = NULL;
    assert_int_equal(cache_open(&options, &cache, NULL), STATUS_OK);
    return cache;
}

static const char *url_of(struct fixture *fixture)
{
    return arena_format(&fixture->arena, "redis://127.0.0.1:%d/3", fixture->server.port);
}

static int setup(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){ 0 };
    server_fixture_init(&fixture.server);
    server_fixture_argument(&fixture.server, "redis-server");
    server_fixture_argument(&fixture.server, "--port");
    server_fixture_argument(&fixture.server, "%d", fixture.server.port);
    server_fixture_argument(&fixture.server, "--bind");
    server_fixture_argument(&fixture.server, "127.0.0.1");
    server_fixture_argument(&fixture.server, "--dir");
    server_fixture_argument(&fixture.server, "%s", fixture.server.folder);
    server_fixture_argument(&fixture.server, "--save");
    server_fixture_argument(&fixture.server, "%s", "");
    server_fixture_start(&fixture.server);
    fixture.cache = open_cache(url_of(&fixture), HMAC_KEY);
    fixture.raw = redisConnect("127.0.0.1", fixture.server.port);
    freeReplyObject(redisCommand(fixture.raw, "SELECT 3"));
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    cache_close(fixture->cache);
    redisFree(fixture->raw);
    server_fixture_finish(&fixture->server);
    arena_finish(&fixture->arena);
    return 0;
}

static int64_t now_ms(void)
{
    return clock_monotonic_us() / 1000;
}

static struct cache_claim claim_of(uint8_t key, uint8_t fingerprint, const char *owner)
{
    struct cache_claim claim = { .key = { .merchant = "m-1001", .operation = "pay" },
                                 .owner = owner };
    claim.key.key_hash[31] = key;
    claim.fingerprint[0] = fingerprint;
    return claim;
}

static enum cache_verdict claim_once(struct fixture *fixture, uint8_t key, uint8_t fingerprint,
                                     const char *owner)
{
    struct cache_claim claim = claim_of(key, fingerprint, owner);
    cache_claim_keys(fixture->cache, &claim, 1, &fixture->arena);
    return claim.verdict;
}

static const char *key_name(struct fixture *fixture, uint8_t key)
{
    return arena_format(&fixture->arena, "idem:m-1001:pay:%062d%02x", 0, key);
}

static void raw(struct fixture *fixture, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(fixture->raw, format, arguments);
    va_end(arguments);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

static void store_answer(struct fixture *fixture, uint8_t key, uint8_t fingerprint,
                         const char *text)
{
    const struct cache_claim claim = claim_of(key, fingerprint, "");
    struct cache_answer answer = { .key = claim.key,
                                   .answer = span_of_text(text),
                                   .lifetime_ms = 60000 };
    memcpy(answer.fingerprint, claim.fingerprint, sizeof answer.fingerprint);
    cache_store_answers(fixture->cache, &answer, 1);
}

static uint64_t unverified(struct fixture *fixture)
{
    struct cache_stats stats;
    cache_stats(fixture->cache, &stats);
    return stats.unverified;
}

static bool wait_available(struct fixture *fixture, int64_t timeout_ms)
{
    const int64_t until_ms = now_ms() + timeout_ms;
    while (now_ms() < until_ms) {
        (void)claim_once(fixture, 250, 1, "probe");
        if (cache_is_available(fixture->cache)) return true;
        server_fixture_sleep_ms(20);
    }
    return false;
}

static void a_placeholder_holds_others_back_but_never_its_own_message(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.1"), CACHE_PLACED);
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.1"), CACHE_PLACED);
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.2"), CACHE_HELD);
    assert_int_equal(claim_once(fixture, 1, 2, "PAY_INTAKE.3"), CACHE_UNKNOWN); /* other content */
    assert_int_equal(claim_once(fixture, 2, 1, "PAY_INTAKE.3"), CACHE_PLACED);
    assert_int_equal(unverified(fixture), 0);
}

static void a_finished_answer_comes_back_byte_for_byte(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.1"), CACHE_PLACED);
    store_answer(fixture, 1, 1, "the first answer");
    struct cache_claim claims[] = { claim_of(1, 1, "PAY_INTAKE.1"), claim_of(1, 1, "PAY_INTAKE.2"),
                                    claim_of(1, 2, "PAY_INTAKE.3") };
    cache_claim_keys(fixture->cache, claims, 3, &fixture->arena);
    assert_int_equal(claims[0].verdict, CACHE_ANSWERED);
    assert_int_equal(claims[1].verdict, CACHE_ANSWERED);
    assert_true(span_equal(claims[1].answer, span_of_text("the first answer")));
    assert_int_equal(claims[2].verdict, CACHE_UNKNOWN);
    assert_int_equal(claims[2].answer.length, 0);
}

static void only_the_owner_releases_and_an_answer_stays(void **state)
{
    struct fixture *fixture = *state;
    const struct cache_claim mine = claim_of(1, 1, "PAY_INTAKE.1");
    const struct cache_claim other = claim_of(1, 1, "PAY_INTAKE.2");
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.1"), CACHE_PLACED);
    cache_release_keys(fixture->cache, &other, 1);
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.2"), CACHE_HELD);
    cache_release_keys(fixture->cache, &mine, 1);
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.2"), CACHE_PLACED);
    store_answer(fixture, 1, 1, "answer");
    cache_release_keys(fixture->cache, &other, 1);
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.3"), CACHE_ANSWERED);
}

static void what_we_did_not_write_there_counts_as_nothing(void **state)
{
    struct fixture *fixture = *state;
    raw(fixture, "SET %s garbage PX 5000", key_name(fixture, 1));
    assert_int_equal(claim_once(fixture, 1, 1, "x"), CACHE_UNKNOWN);
    raw(fixture, "RPUSH %s garbage", key_name(fixture, 2));
    assert_int_equal(claim_once(fixture, 2, 1, "x"), CACHE_UNKNOWN);
    raw(fixture, "SETRANGE %s 20000000 x", key_name(fixture, 3));
    assert_int_equal(claim_once(fixture, 3, 1, "x"), CACHE_UNKNOWN);
    store_answer(fixture, 4, 1, "answer of key 4");
    raw(fixture, "COPY %s %s", key_name(fixture, 4), key_name(fixture, 5));
    assert_int_equal(claim_once(fixture, 5, 1, "x"), CACHE_UNKNOWN);
    raw(fixture, "SETRANGE %s 70 X", key_name(fixture, 4));
    assert_int_equal(claim_once(fixture, 4, 1, "x"), CACHE_UNKNOWN);
    raw(fixture, "SET %s %b PX 5000", key_name(fixture, 6), "P", (size_t)1);
    assert_int_equal(claim_once(fixture, 6, 1, "x"), CACHE_UNKNOWN);
    assert_true(cache_is_available(fixture->cache)); /* lies about keys are no trouble of Redis */
    assert_int_equal(unverified(fixture), 5);
}

static void a_placeholder_that_would_stay_for_ever_holds_nobody(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.1"), CACHE_PLACED);
    raw(fixture, "PERSIST %s", key_name(fixture, 1));
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.2"), CACHE_UNKNOWN);
    raw(fixture, "PEXPIRE %s 60000", key_name(fixture, 1));
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.2"), CACHE_UNKNOWN);
}

static void another_installations_key_verifies_nothing(void **state)
{
    struct fixture *fixture = *state;
    store_answer(fixture, 1, 1, "answer");
    cache_close(fixture->cache);
    fixture->cache = open_cache(url_of(fixture), "another key of over sixteen");
    assert_int_equal(claim_once(fixture, 1, 1, "x"), CACHE_UNKNOWN);
    assert_int_equal(unverified(fixture), 1);
}

static void after_a_flush_all_begins_anew(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.1"), CACHE_PLACED);
    store_answer(fixture, 2, 1, "answer");
    raw(fixture, "FLUSHALL");
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.2"), CACHE_PLACED);
    assert_int_equal(claim_once(fixture, 2, 1, "PAY_INTAKE.2"), CACHE_PLACED);
}

static void a_whole_batch_is_one_exchange(void **state)
{
    struct fixture *fixture = *state;
    enum { BATCH = 1000 };
    static struct cache_claim claims[BATCH];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < BATCH; i++) {
            claims[i] = claim_of((uint8_t)i, 1, round == 0 ? "PAY_INTAKE.1" : "PAY_INTAKE.2");
            claims[i].key.key_hash[0] = (uint8_t)(i >> 8);
        }
        cache_claim_keys(fixture->cache, claims, BATCH, &fixture->arena);
        for (size_t i = 0; i < BATCH; i++) {
            assert_int_equal(claims[i].verdict, round == 0 ? CACHE_PLACED : CACHE_HELD);
        }
    }
}

/* Never a wrong word, hardly any time, and back by itself. */
static void live_without_redis(struct fixture *fixture)
{
    const int64_t first_ms = now_ms();
    (void)claim_once(fixture, 9, 1, "x");
    assert_in_range(now_ms() - first_ms, 0, 150);
    const int64_t before_us = clock_monotonic_us();
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(claim_once(fixture, 9, 1, "x"), CACHE_UNKNOWN);
        store_answer(fixture, 8, 1, "answer");
    }
    assert_in_range(clock_monotonic_us() - before_us, 0, 100000);
    assert_false(cache_is_available(fixture->cache));
    const int64_t until_ms = now_ms() + 2500;
    while (now_ms() < until_ms) { /* over several probes */
        const int64_t call_us = clock_monotonic_us();
        assert_int_equal(claim_once(fixture, 9, 1, "x"), CACHE_UNKNOWN);
        assert_in_range(clock_monotonic_us() - call_us, 0, 20000);
        server_fixture_sleep_ms(5);
    }
}

static void a_dead_redis_costs_nothing_and_is_found_again(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.1"), CACHE_PLACED);
    server_fixture_kill(&fixture->server);
    live_without_redis(fixture);
    server_fixture_start(&fixture->server);
    assert_true(wait_available(fixture, 3000));
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.2"), CACHE_PLACED);
}

static void a_frozen_redis_costs_one_deadline_and_is_found_again(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.1"), CACHE_PLACED);
    server_fixture_freeze(&fixture->server);
    live_without_redis(fixture);
    server_fixture_thaw(&fixture->server);
    assert_true(wait_available(fixture, 3000));
    assert_int_equal(claim_once(fixture, 1, 1, "PAY_INTAKE.2"), CACHE_HELD);
}

static void a_redis_that_takes_no_writes_is_as_good_as_none(void **state)
{
    struct fixture *fixture = *state;
    raw(fixture, "CONFIG SET maxmemory 1");
    assert_int_equal(claim_once(fixture, 1, 1, "x"), CACHE_UNKNOWN);
    assert_false(cache_is_available(fixture->cache));
    raw(fixture, "CONFIG SET maxmemory 0");
    assert_true(wait_available(fixture, 3000));
    assert_int_equal(claim_once(fixture, 1, 1, "x"), CACHE_PLACED);
}

static void a_password_is_sent_and_a_wrong_one_holds_nobody_up(void **state)
{
    struct fixture *fixture = *state;
    raw(fixture, "CONFIG SET requirepass p@ss/word");
    cache_close(fixture->cache);
    fixture->cache =
        open_cache(arena_format(&fixture->arena, "redis://:p%%40ss%%2Fword@127.0.0.1:%d",
                                fixture->server.port),
                   HMAC_KEY);
    assert_int_equal(claim_once(fixture, 1, 1, "x"), CACHE_PLACED);
    cache_close(fixture->cache);
    const int64_t before_ms = now_ms();
    fixture->cache = open_cache(
        arena_format(&fixture->arena, "redis://:wrong@127.0.0.1:%d", fixture->server.port),
        HMAC_KEY);
    assert_in_range(now_ms() - before_ms, 0, 500);
    assert_int_equal(claim_once(fixture, 1, 1, "x"), CACHE_UNKNOWN);
    assert_false(cache_is_available(fixture->cache));
}

/* A port where somebody speaks, but not Redis, and where even that comes byte by byte. */
static pid_t start_babbler(int *out_port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(listen(fd, 16), 0);
    *out_port = ntohs(address.sin_port);
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        for (int i = 0; i < 1000; i++) {
            const int peer = accept(fd, NULL, NULL);
            const char *text =
                i % 2 == 0 ? "HTTP/1.1 400 Bad Request\r\n\r\n" : "+OK\r\n+PONG\r\n$99\r\n";
            if (write(peer, text, strlen(text)) < 0) _exit(1);
            for (int j = 0; j < 10 && write(peer, "x", 1) == 1; j++) server_fixture_sleep_ms(20);
            (void)close(peer);
        }
        _exit(0);
    }
    (void)close(fd);
    return child;
}

static void a_stranger_on_the_port_is_no_redis(void **state)
{
    struct fixture *fixture = *state;
    int port;
    const pid_t child = start_babbler(&port);
    cache_close(fixture->cache);
    fixture->cache =
        open_cache(arena_format(&fixture->arena, "redis://127.0.0.1:%d", port), HMAC_KEY);
    const int64_t until_ms = now_ms() + 4000;
    while (now_ms() < until_ms) {
        const int64_t call_ms = now_ms();
        assert_int_equal(claim_once(fixture, 1, 1, "x"), CACHE_UNKNOWN);
        assert_in_range(now_ms() - call_ms, 0, 150);
        server_fixture_sleep_ms(10);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

static void a_lease_is_for_one_owner_until_it_is_released_or_runs_out(void **state)
{
    struct fixture *fixture = *state;
    struct cache_lease mine[] = { { .attempt = { uuid_new() }, .owner = "w1.1" },
                                  { .attempt = { uuid_new() }, .owner = "w1.1" } };
    struct cache_lease theirs[] = { { .attempt = mine[0].attempt, .owner = "w2.1" },
                                    { .attempt = { uuid_new() }, .owner = "w2.1" } };
    cache_claim_leases(fixture->cache, mine, 2);
    assert_int_equal(mine[0].verdict, CACHE_PLACED);
    assert_int_equal(mine[1].verdict, CACHE_PLACED);
    cache_claim_leases(fixture->cache, theirs, 2);
    assert_int_equal(theirs[0].verdict, CACHE_HELD);
    assert_int_equal(theirs[1].verdict, CACHE_PLACED);
    cache_release_leases(fixture->cache, theirs, 1);
    cache_claim_leases(fixture->cache, theirs, 1);
    assert_int_equal(theirs[0].verdict, CACHE_HELD);
    cache_release_leases(fixture->cache, mine, 2);
    cache_claim_leases(fixture->cache, theirs, 1);
    assert_int_equal(theirs[0].verdict, CACHE_PLACED);
    server_fixture_sleep_ms(2100); /* the worker was paused past its lease */
    cache_claim_leases(fixture->cache, mine, 1);
    assert_int_equal(mine[0].verdict, CACHE_PLACED);
    cache_release_leases(fixture->cache, theirs, 1); /* late: not its lease any more */
    cache_claim_leases(fixture->cache, theirs, 1);
    assert_int_equal(theirs[0].verdict, CACHE_HELD);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const char *const URLS[] = { "http://x",        "redis://",        "redis://:pw@",
                                        "redis://h:0",     "redis://h:99999", "redis://h:1/x",
                                        "unix://relative", "redis://user@h",  "redis://[::1",
                                        "redis://[::1]x" };
    for (size_t i = 0; i < COUNT_OF(URLS); i++) {
        const struct cache_options options = { .url = URLS[i],
                                               .hmac_key = span_of_text(HMAC_KEY),
                                               .command_timeout_ms = 50,
                                               .placeholder_ms = 10000,
                                               .lease_ms = 1000 };
        struct cache *cache = NULL;
        const char *error = NULL;
        assert_int_equal(cache_open(&options, &cache, &error), STATUS_STOP);
        assert_non_null(error);
    }
    struct cache *cache = NULL;
    const struct cache_options weak = { .url = "redis://h",
                                        .hmac_key = span_of_text("short"),
                                        .command_timeout_ms = 50,
                                        .placeholder_ms = 10000,
                                        .lease_ms = 1000 };
    assert_int_equal(cache_open(&weak, &cache, NULL), STATUS_STOP);
    const struct cache_options longer = { .url = "redis://h",
                                          .hmac_key = span_of_text(HMAC_KEY),
                                          .command_timeout_ms = 50,
                                          .placeholder_ms = 10001,
                                          .lease_ms = 1000 };
    assert_int_equal(cache_open(&longer, &cache, NULL), STATUS_STOP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_placeholder_holds_others_back_but_never_its_own_message),
        TEST(a_finished_answer_comes_back_byte_for_byte),
        TEST(only_the_owner_releases_and_an_answer_stays),
        TEST(what_we_did_not_write_there_counts_as_nothing),
        TEST(a_placeholder_that_would_stay_for_ever_holds_nobody),
        TEST(another_installations_key_verifies_nothing),
        TEST(after_a_flush_all_begins_anew),
        TEST(a_whole_batch_is_one_exchange),
        TEST(a_dead_redis_costs_nothing_and_is_found_again),
        TEST(a_frozen_redis_costs_one_deadline_and_is_found_again),
        TEST(a_redis_that_takes_no_writes_is_as_good_as_none),
        TEST(a_password_is_sent_and_a_wrong_one_holds_nobody_up),
        TEST(a_stranger_on_the_port_is_no_redis),
        TEST(a_lease_is_for_one_owner_until_it_is_released_or_runs_out),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
