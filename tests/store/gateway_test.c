/*
 * tests/store/gateway_test.c: the gateway over HTTP on a real PostgreSQL: authentic or not, kept
 * once, committed before the 2xx (C29, C30).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "pipeline/clock.h"
#include "pipeline/hash.h"
#include "pipeline/metrics.h"
#include "stages/gateway/gateway_server.h"
#include "tests/support/pg_fixture.h"
#include "tests/support/raw_http.h"

#define SECRET "whsec_new"
#define SECRET_OLD "whsec_old"

static struct pg_fixture *fixture;

static int start_all(void **state)
{
    (void)state;
    fixture = pg_fixture_start();
    return 0;
}

static int stop_all(void **state)
{
    (void)state;
    pg_fixture_stop(fixture);
    return 0;
}

/* --- a gateway without NATS ------------------------------------------------------------------- */

struct rig {
    const char *url;
    struct arena arena;
    struct config_account account;
    struct config config;
    struct store *store;
    struct gateway_inbox *inbox;
    struct gateway_server *server;
    int port;
    pthread_t expirer;
    atomic_bool is_over;
};

static void *expire(void *self)
{
    struct rig *rig = self;
    while (!rig->is_over) {
        gateway_inbox_expire(rig->inbox, clock_monotonic_us());
        (void)usleep(20000);
    }
    return NULL;
}

static void rig_open(struct rig *rig, const char *url, int64_t wait_ms)
{
    *rig = (struct rig){ .url = url };
    rig->account = (struct config_account){
        .id = "main",
        .psp = "stripe",
        .psp_account = { .id = "main",
                         .base_url = "http://localhost",
                         .api_key = "k",
                         .webhook_secrets = { SECRET_OLD, SECRET },
                         .webhook_tolerance_s = 300 },
    };
    rig->config = (struct config){
        .accounts = &rig->account,
        .account_count = 1,
        .gateway = { .address = "127.0.0.1",
                     .body_max_bytes = 65536,
                     .connections_max = 128,
                     .answer_wait_ms = wait_ms },
    };
    rig->store = pg_fixture_store(url);
    const struct gateway_inbox_options inbox = { .store = rig->store,
                                                 .queue_max = 1000,
                                                 .wait_ms = wait_ms };
    rig->inbox = gateway_inbox_open(&inbox);
    const struct gateway_server_options server = { .config = &rig->config, .inbox = rig->inbox };
    rig->server = gateway_server_open(&server);
    assert_non_null(rig->server);
    rig->port = gateway_server_port(rig->server);
    assert_int_equal(pthread_create(&rig->expirer, NULL, expire, rig), 0);
}

static void rig_close(struct rig *rig)
{
    rig->is_over = true;
    (void)pthread_join(rig->expirer, NULL);
    gateway_inbox_close(rig->inbox);
    gateway_server_close(rig->server);
    store_destroy(rig->store);
    arena_finish(&rig->arena);
}

/* --- webhooks --------------------------------------------------------------------------------- */

static const char *event_body(struct arena *arena, const char *event, const char *type)
{
    return arena_format(
        arena,
        "{\"id\":\"%s\",\"object\":\"event\",\"created\":1790000000,\"type\":\"%s\","
        "\"data\":{\"object\":{\"id\":\"pi_1\",\"object\":\"payment_intent\",\"amount\":1000,"
        "\"amount_received\":1000,\"currency\":\"eur\",\"status\":\"succeeded\","
        "\"metadata\":{\"reference\":\"ref-1\"}}}}",
        event, type);
}

static const char *signature(struct arena *arena, const char *secret, int64_t at_s,
                             const char *body)
{
    uint8_t digest[HASH_SIZE];
    char hex[HASH_HEX_SIZE];
    const char *text = arena_format(arena, "%" PRId64 ".%s", at_s, body);
    hash_hmac_sha256(span_of_text(secret), span_of_text(text), digest);
    return arena_format(arena, "Stripe-Signature: t=%" PRId64 ",v1=%s\r\n", at_s,
                        hash_hex((struct span){ digest, sizeof digest }, hex));
}

static int64_t now_s(void)
{
    return clock_real_us() / CLOCK_SECOND_US;
}

static struct raw_http_answer send_signed(struct rig *rig, const char *body, const char *secret,
                                          int64_t at_s, const char *sent_body)
{
    return raw_http(rig->port, "POST", "/webhooks/main", signature(&rig->arena, secret, at_s, body),
                    span_of_text(sent_body), &rig->arena);
}

static struct raw_http_answer send_event(struct rig *rig, const char *event)
{
    const char *body = event_body(&rig->arena, event, "payment_intent.succeeded");
    return send_signed(rig, body, SECRET, now_s(), body);
}

static int64_t kept(const struct rig *rig)
{
    return pg_fixture_number(rig->url, "SELECT count(*) FROM oncepay.webhook_inbox");
}

static int64_t told(const struct rig *rig)
{
    return pg_fixture_number(
        rig->url, "SELECT count(*) FROM oncepay.outbox o JOIN oncepay.webhook_inbox i ON i.id ="
                  " o.entity_id WHERE o.kind = 1 AND o.entity = 6 AND o.version = 0 AND"
                  " o.payment_id IS NULL AND o.subject = 'pay.recover.evidence.main'");
}

static void an_authentic_event_is_kept_with_its_command(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 5000);
    const struct raw_http_answer answer = send_event(&rig, "evt_1");
    assert_int_equal(answer.status, 200);
    assert_int_equal(kept(&rig), 1);
    assert_int_equal(told(&rig), 1);
    assert_int_equal(pg_fixture_number(rig.url,
                                       "SELECT amount FROM oncepay.webhook_inbox WHERE event_id ="
                                       " 'evt_1' AND channel_account = 'main' AND provider_object ="
                                       " 'pi_1' AND reference = 'ref-1' AND currency = 'EUR' AND"
                                       " processed_at IS NULL AND looks = 0"),
                     1000);
    rig_close(&rig);
}

/* C29: in time it is a duplicate, later it is refused; known for ever either way. */
static void a_replay_does_nothing(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 5000);
    const char *body = event_body(&rig.arena, "evt_1", "payment_intent.succeeded");
    assert_int_equal(send_signed(&rig, body, SECRET, now_s(), body).status, 200);
    assert_int_equal(send_signed(&rig, body, SECRET, now_s(), body).status, 200);
    const struct raw_http_answer late = send_signed(&rig, body, SECRET, now_s() - 601, body);
    assert_int_equal(late.status, 401);
    assert_non_null(strstr(late.head, "application/problem+json"));
    assert_non_null(strstr(late.body, "\"code\":\"not_authentic\""));
    assert_non_null(strstr(late.body, "timestamp_out_of_tolerance"));
    assert_int_equal(send_signed(&rig, body, SECRET, now_s() + 601, body).status, 401);
    assert_int_equal(kept(&rig), 1);
    assert_int_equal(told(&rig), 1);
    rig_close(&rig);
}

/* C30: the raw bytes are verified; both secrets hold while they overlap. */
static void only_the_signed_bytes_are_authentic(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 5000);
    const char *body = event_body(&rig.arena, "evt_1", "payment_intent.succeeded");
    const char *reordered = arena_format(&rig.arena, "{\"object\":\"event\",\"id\":\"evt_1\",%s",
                                         strstr(body, "\"created\""));
    assert_int_equal(send_signed(&rig, body, SECRET, now_s(), reordered).status, 401);
    assert_int_equal(send_signed(&rig, body, "whsec_other", now_s(), body).status, 401);
    assert_int_equal(
        raw_http(rig.port, "POST", "/webhooks/main", NULL, span_of_text(body), &rig.arena).status,
        401);
    const char *twice =
        arena_format(&rig.arena, "%s%s", signature(&rig.arena, SECRET, now_s(), body),
                     signature(&rig.arena, SECRET, now_s(), body));
    assert_int_equal(
        raw_http(rig.port, "POST", "/webhooks/main", twice, span_of_text(body), &rig.arena).status,
        401);
    assert_int_equal(kept(&rig), 0);
    assert_int_equal(send_signed(&rig, body, SECRET_OLD, now_s(), body).status, 200);
    const char *next = event_body(&rig.arena, "evt_2", "payment_intent.succeeded");
    assert_int_equal(send_signed(&rig, next, SECRET, now_s(), next).status, 200);
    assert_int_equal(kept(&rig), 2);
    rig_close(&rig);
}

static void an_event_of_no_use_is_answered_and_not_kept(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 5000);
    const char *body = event_body(&rig.arena, "evt_1", "customer.created");
    assert_int_equal(send_signed(&rig, body, SECRET, now_s(), body).status, 200);
    const char *broken = "{\"id\":\"evt_1\"";
    assert_int_equal(send_signed(&rig, broken, SECRET, now_s(), broken).status, 400);
    assert_int_equal(kept(&rig), 0);
    rig_close(&rig);
}

static void what_is_not_there_is_said(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 5000);
    const struct span none = { NULL, 0 };
    static const struct {
        const char *method;
        const char *path;
        int status;
    } ROWS[] = {
        { "POST", "/webhooks/other", 404 },  { "POST", "/webhooks/", 404 },
        { "POST", "/webhooks/main/x", 404 }, { "POST", "/v1/payments", 404 },
        { "GET", "/v1/payments/1", 404 },    { "GET", "/webhooks/main", 405 },
        { "DELETE", "/webhooks/main", 405 },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const struct raw_http_answer answer =
            raw_http(rig.port, ROWS[i].method, ROWS[i].path, NULL, none, &rig.arena);
        assert_int_equal(answer.status, ROWS[i].status);
        assert_non_null(strstr(answer.head, "application/problem+json"));
    }
    rig_close(&rig);
}

static void big_bodies_are_refused(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 5000);
    char *big = memory_allocate(65537);
    memset(big, 'x', 65537);
    const struct span body = { (const uint8_t *)big, 65537 };
    assert_int_equal(raw_http(rig.port, "POST", "/webhooks/main", NULL, body, &rig.arena).status,
                     413);
    /* Without a length, in chunks. */
    const char *head = "POST /webhooks/main HTTP/1.1\r\nHost: l\r\nConnection: close\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n10001\r\n";
    char *bytes = memory_allocate(strlen(head) + 65537 + 16);
    memcpy(bytes, head, strlen(head));
    memcpy(bytes + strlen(head), big, 65537);
    memcpy(bytes + strlen(head) + 65537, "\r\n0\r\n\r\n", 7);
    const int descriptor = raw_http_send(rig.port, bytes, strlen(head) + 65537 + 7);
    assert_int_equal(raw_http_receive(descriptor, &rig.arena).status, 413);
    free(bytes);
    free(big);
    assert_int_equal(send_event(&rig, "evt_1").status, 200); /* and it goes on */
    rig_close(&rig);
}

/* --- many at once, and a database that is away ------------------------------------------------ */

enum { SENDERS = 40, EVENTS_EACH = 10 };

struct sender {
    struct rig *rig;
    pthread_t thread;
    int number;
    int ok;
};

static void *send_many(void *self)
{
    struct sender *sender = self;
    struct arena arena = { NULL };
    for (int i = 0; i < EVENTS_EACH; i++) {
        /* Every event twice, by different senders. */
        const char *event = arena_format(&arena, "evt_%d", (sender->number / 2) * EVENTS_EACH + i);
        const char *body = event_body(&arena, event, "payment_intent.succeeded");
        const struct raw_http_answer answer =
            raw_http(sender->rig->port, "POST", "/webhooks/main",
                     signature(&arena, SECRET, now_s(), body), span_of_text(body), &arena);
        sender->ok += answer.status == 200;
        arena_reset(&arena);
    }
    arena_finish(&arena);
    return NULL;
}

static void many_at_once_share_commits(void **state)
{
    (void)state;
    struct rig rig;
    struct sender senders[SENDERS];
    rig_open(&rig, pg_fixture_database(fixture), 5000);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){ .rig = &rig, .number = i };
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_many, &senders[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        (void)pthread_join(senders[i].thread, NULL);
        assert_int_equal(senders[i].ok, EVENTS_EACH);
    }
    assert_int_equal(kept(&rig), SENDERS / 2 * EVENTS_EACH);
    assert_int_equal(told(&rig), SENDERS / 2 * EVENTS_EACH);
    assert_true(
        pg_fixture_number(rig.url, "SELECT count(DISTINCT xmin::text) FROM oncepay.webhook_inbox") <
        SENDERS / 2 * EVENTS_EACH);
    rig_close(&rig);
}

static void without_a_database_senders_come_again(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "postgresql://nobody@127.0.0.1:1/none", 2000);
    const int64_t before_us = clock_monotonic_us();
    const struct raw_http_answer answer = send_event(&rig, "evt_1");
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(answer.head, "Retry-After: 5"));
    assert_true(clock_monotonic_us() - before_us < 4 * CLOCK_SECOND_US);
    rig_close(&rig);
}

static void a_database_that_hangs_does_not_hold_senders(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, pg_fixture_database(fixture), 500);
    assert_int_equal(send_event(&rig, "evt_1").status, 200);
    /* The table is locked for two seconds by somebody else. */
    const pid_t child = fork();
    if (child == 0) {
        pg_fixture_run(rig.url, "BEGIN; LOCK TABLE oncepay.webhook_inbox IN ACCESS EXCLUSIVE MODE;"
                                "SELECT pg_sleep(2); COMMIT");
        _exit(0);
    }
    while (pg_fixture_number(rig.url,
                             "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
                             " WHERE c.relname = 'webhook_inbox' AND l.mode ="
                             " 'AccessExclusiveLock' AND l.granted") == 0) {}
    const int64_t before_us = clock_monotonic_us();
    assert_int_equal(send_event(&rig, "evt_2").status, 503);
    assert_true(clock_monotonic_us() - before_us < 1500 * CLOCK_MILLISECOND_US);
    int status = 0;
    for (int i = 0; i < 100 && status != 200; i++) {
        status = send_event(&rig, "evt_2").status; /* the PSP repeats it */
        if (status != 200) (void)usleep(50000);
    }
    assert_int_equal(status, 200);
    assert_int_equal(kept(&rig), 2);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_authentic_event_is_kept_with_its_command),
        cmocka_unit_test(a_replay_does_nothing),
        cmocka_unit_test(only_the_signed_bytes_are_authentic),
        cmocka_unit_test(an_event_of_no_use_is_answered_and_not_kept),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(big_bodies_are_refused),
        cmocka_unit_test(many_at_once_share_commits),
        cmocka_unit_test(without_a_database_senders_come_again),
        cmocka_unit_test(a_database_that_hangs_does_not_hold_senders),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
