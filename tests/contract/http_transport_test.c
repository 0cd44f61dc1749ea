/*
 * tests/contract/http_transport_test.c: the transport against a server that misbehaves. What every
 * test asks: how often did the server read a whole request, and does the phase say so?
 */
#include "adapters/http/http_transport.h"
#include "pipeline/clock.h"
#include "tests/contract/http_server.h"

#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { ANSWER_BYTES_MAX = 256 * 1024, IN_FLIGHT_MAX = 320 };

static struct http_server *server;
static struct http_transport *transport;

static const struct http_transport_options OPTIONS = {
    .connect_timeout_ms = 3000,
    .call_limit_ms = 30000,
    .in_flight_max = IN_FLIGHT_MAX,
    .answer_bytes_max = ANSWER_BYTES_MAX,
    .allow_plain_http = true,
};

static int set_up(void **state)
{
    (void)state;
    server = http_server_start(NULL);
    transport = http_transport_create(&OPTIONS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_transport_destroy(transport);
    http_server_stop(server);
    return 0;
}

static void use_options(const struct http_transport_options *options)
{
    http_transport_destroy(transport);
    transport = http_transport_create(options);
}

static void sleep_ms(long ms)
{
    const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&time, NULL);
}

/* --- one call -------------------------------------------------------------------------------- */

static enum http_start start(const char *method, const char *url, int64_t send_by_us, void *cookie)
{
    const struct http_request request = {
        .method = method,
        .url = url,
        .headers = { "Authorization: Bearer sk_test", "Content-Type: text/plain" },
        .header_count = 2,
        .body = span_of_text(strcmp(method, "POST") == 0 ? "amount=1099&currency=eur" : ""),
    };
    return http_transport_start(transport, &request, send_by_us, cookie);
}

/* The loop that a stage has, around one transport. */
static bool wait_done(struct http_done *out)
{
    const int64_t give_up_us = clock_monotonic_us() + 20 * CLOCK_SECOND_US;
    while (!http_transport_next_done(transport, out)) {
        if (clock_monotonic_us() > give_up_us || http_transport_in_flight(transport) == 0) {
            return false;
        }
        struct pollfd watched = { .fd = http_transport_poll_fd(transport), .events = POLLIN };
        const int timeout_ms = http_transport_timeout_ms(transport);
        (void)poll(&watched, 1, timeout_ms < 0 || timeout_ms > 1000 ? 1000 : timeout_ms);
        http_transport_drive(transport);
    }
    return true;
}

static struct http_answer call_url(const char *method, const char *url)
{
    const int64_t send_by_us = clock_monotonic_us() + 2 * CLOCK_SECOND_US;
    struct http_done done;
    assert_int_equal(start(method, url, send_by_us, &done), HTTP_STARTED);
    assert_true(wait_done(&done));
    assert_ptr_equal(done.cookie, &done);
    assert_true(done.elapsed_us >= 0);
    return done.answer;
}

static const char *url_of(const char *path)
{
    static char url[128];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d%s", http_server_port(server), path);
    return url;
}

static struct http_answer call_path(const char *method, const char *path)
{
    return call_url(method, url_of(path));
}

static void assert_answer(struct http_answer answer, int status, const char *body)
{
    if (answer.phase != PHASE_ANSWERED) fail_msg("not answered: %s", answer.error_code);
    assert_null(answer.error_code);
    assert_int_equal(answer.status, status);
    assert_true(span_equal(answer.body, span_of_text(body)));
}

static void assert_lost(struct http_answer answer, enum request_phase phase, const char *error_code)
{
    assert_string_equal(answer.error_code == NULL ? "" : answer.error_code, error_code);
    assert_int_equal(answer.phase, phase);
    assert_int_equal(answer.status, 0);
    assert_int_equal(answer.body.length, 0);
    assert_int_equal(answer.header_count, 0);
}

/* A second request that libcurl sent behind our back would come right after the first one's end. */
static void assert_requests(const char *path, int count)
{
    sleep_ms(100);
    assert_int_equal(http_server_requests(server, path), count);
}

static const char *header_of(const struct http_answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->header_count; i++) {
        if (strcasecmp(answer->headers[i].name, name) == 0) return answer->headers[i].value;
    }
    return NULL;
}

/* --- answers --------------------------------------------------------------------------------- */

static void answers_come_whole_over_one_connection(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_answer(call_path("POST", "/ok"), 200, "{\"ok\":true}");
        assert_answer(call_path("GET", "/ok"), 200, "{\"ok\":true}");
    }
    assert_answer(call_path("GET", "/empty"), 204, "");
    assert_answer(call_path("GET", "/nowhere"), 404, "");
    assert_int_equal(http_server_connections(server), 1);
    assert_requests(NULL, 12);
}

static void the_wire_has_what_was_asked_and_no_more(void **state)
{
    (void)state;
    const struct http_answer answer = call_path("POST", "/echo?a=/../b");
    char expected[512];
    (void)snprintf(expected, sizeof expected,
                   "POST /echo?a=/../b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: oncepay\r\n"
                   "Accept: */*\r\nAuthorization: Bearer sk_test\r\nContent-Type: text/plain\r\n"
                   "Content-Length: 24\r\n\r\namount=1099&currency=eur",
                   http_server_port(server));
    assert_answer(answer, 200, expected);
}

static void a_post_without_a_body_says_so(void **state)
{
    (void)state;
    const struct http_request request = { .method = "POST", .url = url_of("/echo") };
    struct http_done done;
    assert_int_equal(
        http_transport_start(transport, &request, clock_monotonic_us() + CLOCK_SECOND_US, NULL),
        HTTP_STARTED);
    assert_true(wait_done(&done));
    assert_int_equal(done.answer.status, 200);
    char text[512];
    (void)snprintf(text, sizeof text, "%.*s", (int)done.answer.body.length,
                   (const char *)done.answer.body.data);
    assert_non_null(strstr(text, "\r\nContent-Length: 0\r\n"));
}

static void headers_are_of_the_final_answer_only(void **state)
{
    (void)state;
    const struct http_answer answer = call_path("POST", "/created");
    assert_answer(answer, 201, "abcde");
    assert_string_equal(header_of(&answer, "idempotent-replayed"), "true");
    assert_string_equal(header_of(&answer, "Retry-After"), "7");
    assert_string_equal(header_of(&answer, "X-Empty"), "");
    assert_null(header_of(&answer, "X-Interim"));
    assert_null(header_of(&answer, "X-Trailer"));
}

static void redirects_are_answers(void **state)
{
    (void)state;
    const struct http_answer answer = call_path("POST", "/redirect");
    assert_answer(answer, 302, "");
    assert_string_equal(header_of(&answer, "Location"), "/ok");
    assert_requests("/ok", 0);
}

/* --- no answer -------------------------------------------------------------------------------- */

static void a_refused_connection_is_proof(void **state)
{
    (void)state;
    const char *url = url_of("/ok");
    http_server_stop(server);
    assert_lost(call_url("POST", url), PHASE_CONNECT, "connect_refused");
    server = http_server_start(NULL);
    const struct http_answer answer = call_url("POST", "http://no-such-host.invalid/");
    assert_int_equal(answer.phase, PHASE_CONNECT); /* a silent name server: connect_timeout */
    assert_true(strcmp(answer.error_code, "resolve_failed") == 0 ||
                strcmp(answer.error_code, "connect_timeout") == 0);
}

static void a_lost_answer_is_no_proof(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *error_code;
    } CASES[] = {
        { "/close", "no_answer" },           { "/reset", "reset" },
        { "/half", "half_answer" },          { "/half-chunk", "half_answer" },
        { "/half-head", "half_answer" },     { "/big", "answer_too_large" },
        { "/big-head", "answer_too_large" }, { "/many-headers", "answer_too_large" },
        { "/garbage", "bad_answer" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        print_message("%s\n", CASES[i].path);
        assert_lost(call_path("POST", CASES[i].path), PHASE_SENT, CASES[i].error_code);
        assert_requests(CASES[i].path, 1);
        use_options(&OPTIONS);
    }
}

static void a_silent_peer_ends_at_the_call_limit(void **state)
{
    (void)state;
    struct http_transport_options options = OPTIONS;
    options.call_limit_ms = 300;
    use_options(&options);
    const int64_t before_us = clock_monotonic_us();
    assert_lost(call_path("POST", "/hang"), PHASE_SENT, "timeout");
    const int64_t elapsed_us = clock_monotonic_us() - before_us;
    assert_in_range(elapsed_us, 290 * CLOCK_MILLISECOND_US, 2 * CLOCK_SECOND_US);
    assert_requests("/hang", 1);
}

/* --- the silent re-send (protocol C9) --------------------------------------------------------- */

static void a_kept_connection_that_dies_with_a_post_sends_it_once(void **state)
{
    (void)state;
    static const char *const PATHS[] = { "/close", "/reset" };
    for (size_t i = 0; i < COUNT_OF(PATHS); i++) {
        assert_answer(call_path("POST", "/ok"), 200, "{\"ok\":true}");
        const int connections = http_server_connections(server);
        const struct http_answer answer = call_path("POST", PATHS[i]);
        assert_int_equal(answer.phase, PHASE_SENT);
        assert_true(strcmp(answer.error_code, "connection_died") == 0 ||
                    strcmp(answer.error_code, "reset") == 0);
        assert_requests(PATHS[i], 1);
        assert_true(http_server_connections(server) - connections <= 1);
    }
}

static void a_kept_connection_that_dies_with_a_get_sends_it_once(void **state)
{
    (void)state;
    assert_answer(call_path("GET", "/ok"), 200, "{\"ok\":true}");
    assert_lost(call_path("GET", "/close"), PHASE_SENT, "connection_died");
    assert_requests("/close", 1);
    assert_answer(call_path("GET", "/ok"), 200, "{\"ok\":true}");
}

static void a_kept_connection_that_dies_at_the_head_sends_nothing_twice(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_answer(call_path("POST", "/ok"), 200, "{\"ok\":true}");
        const struct http_answer answer = call_path(i % 2 == 0 ? "POST" : "GET", "/reset-at-head");
        assert_int_equal(answer.phase, PHASE_SENT);
    }
    assert_requests(NULL, 20);
}

static void an_idle_connection_that_the_server_closed_costs_nothing(void **state)
{
    (void)state;
    for (int i = 1; i <= 10; i++) {
        assert_answer(call_path("POST", "/ok-then-fin"), 200, "{\"ok\":true}");
        sleep_ms(20);
    }
    assert_requests("/ok-then-fin", 10);
}

/* The server's FIN and our next request cross each other: one of both, never twice. */
static void an_idle_connection_that_closes_right_now_sends_once_or_not_at_all(void **state)
{
    (void)state;
    int answered = 0;
    int lost = 0;
    for (int i = 0; i < 300; i++) {
        const struct http_answer answer = call_path("POST", "/ok-then-fin");
        if (answer.phase == PHASE_ANSWERED) {
            answered++;
        } else {
            assert_int_equal(answer.phase, PHASE_SENT);
            lost++;
        }
    }
    print_message("%d answered, %d lost\n", answered, lost);
    sleep_ms(100);
    const int requests = http_server_requests(server, "/ok-then-fin");
    assert_in_range(requests, answered, answered + lost);
}

/* --- send_by ---------------------------------------------------------------------------------- */

static void a_call_that_is_too_late_is_refused(void **state)
{
    (void)state;
    assert_int_equal(start("POST", url_of("/ok"), clock_monotonic_us() - 1, NULL),
                     HTTP_REFUSED_LATE);
    assert_lost(http_start_answer(HTTP_REFUSED_LATE), PHASE_LOCAL, "send_by_passed");
    struct http_done done;
    assert_false(wait_done(&done));
    assert_int_equal(http_server_connections(server), 0);
}

/* The moment of send_by wanders over the whole start, on new connections and kept ones. */
static void no_byte_leaves_after_send_by(void **state)
{
    (void)state;
    int sent = 0;
    int unsent_by_check = 0;
    int half_sent = 0;
    for (int i = 0; i < 600; i++) {
        if (i % 2 == 0) use_options(&OPTIONS);
        struct http_done done;
        const int64_t send_by_us = clock_monotonic_us() + i;
        const enum http_start started = start("POST", url_of("/ok"), send_by_us, NULL);
        if (started == HTTP_REFUSED_LATE) continue;
        assert_int_equal(started, HTTP_STARTED);
        assert_true(wait_done(&done));
        const bool stopped = done.answer.error_code != NULL;
        if (!stopped) sent++;
        if (stopped && done.answer.phase == PHASE_CONNECT) unsent_by_check++;
        if (stopped && done.answer.phase == PHASE_SENT) half_sent++;
        if (stopped) {
            assert_true(strcmp(done.answer.error_code, "send_by_passed") == 0 ||
                        strcmp(done.answer.error_code, "connect_timeout") == 0);
        }
    }
    print_message("%d sent, %d stopped before the head, %d between head and body\n", sent,
                  unsent_by_check, half_sent);
    assert_true(unsent_by_check > 0);
    assert_requests("/ok", sent);
}

/* A stopped process: the connection comes up while nobody drives it. */
static void a_call_that_slept_over_send_by_is_not_sent(void **state)
{
    (void)state;
    struct http_done done;
    const int64_t send_by_us = clock_monotonic_us() + 50 * CLOCK_MILLISECOND_US;
    assert_int_equal(start("POST", url_of("/ok"), send_by_us, NULL), HTTP_STARTED);
    if (http_transport_next_done(transport, &done)) skip();
    sleep_ms(120);
    assert_true(wait_done(&done));
    assert_int_equal(done.answer.phase, PHASE_CONNECT);
    assert_requests("/ok", 0);
}

/* --- many, bounds, refusals ------------------------------------------------------------------- */

static void three_hundred_calls_are_in_flight_at_once(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static int cookies[COUNT];
    memset(cookies, 0, sizeof cookies);
    http_server_set_barrier(server, COUNT);
    const int64_t send_by_us = clock_monotonic_us() + 2 * CLOCK_SECOND_US;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(start("POST", url_of("/barrier"), send_by_us, &cookies[i]), HTTP_STARTED);
    }
    assert_int_equal(http_transport_in_flight(transport), COUNT);
    assert_int_equal(http_transport_room(transport), IN_FLIGHT_MAX - COUNT);
    for (int i = 0; i < COUNT; i++) {
        struct http_done done;
        assert_true(wait_done(&done));
        assert_answer(done.answer, 200, "{\"ok\":true}");
        (*(int *)done.cookie)++;
    }
    for (int i = 0; i < COUNT; i++) assert_int_equal(cookies[i], 1);
    assert_int_equal(http_transport_in_flight(transport), 0);
    assert_requests("/barrier", COUNT);
}

static void a_full_transport_refuses(void **state)
{
    (void)state;
    struct http_transport_options options = OPTIONS;
    options.in_flight_max = 2;
    options.call_limit_ms = 300;
    use_options(&options);
    const int64_t send_by_us = clock_monotonic_us() + 2 * CLOCK_SECOND_US;
    assert_int_equal(start("GET", url_of("/hang"), send_by_us, NULL), HTTP_STARTED);
    assert_int_equal(start("GET", url_of("/hang"), send_by_us, NULL), HTTP_STARTED);
    assert_int_equal(http_transport_room(transport), 0);
    assert_int_equal(start("GET", url_of("/ok"), send_by_us, NULL), HTTP_REFUSED_FULL);
    assert_lost(http_start_answer(HTTP_REFUSED_FULL), PHASE_LOCAL, "in_flight_full");
    struct http_done done;
    assert_true(wait_done(&done)); /* its answer is still looked at: one in flight, one lent */
    assert_int_equal(start("GET", url_of("/ok"), send_by_us, NULL), HTTP_REFUSED_FULL);
    assert_true(wait_done(&done));
    assert_false(http_transport_next_done(transport, &done));
    assert_int_equal(http_transport_room(transport), 2);
    assert_answer(call_path("GET", "/ok"), 200, "{\"ok\":true}");
}

static void what_must_not_be_sent_is_refused(void **state)
{
    (void)state;
    const int64_t send_by_us = clock_monotonic_us() + CLOCK_SECOND_US;
    const char *url = url_of("/ok");
    const struct http_request requests[] = {
        { .method = "PUT", .url = url },
        { .method = "GET", .url = url, .body = span_of_text("x") },
        { .method = "GET", .url = "ftp://127.0.0.1/" },
        { .method = "GET", .url = "file:///etc/passwd" },
        { .method = "GET", .url = "http://127.0.0.1/a\r\nX: 1" },
        { .method = "GET", .url = url, .headers = { "Key: a\r\nOther: b" }, .header_count = 1 },
        { .method = "GET", .url = url, .headers = { "no colon" }, .header_count = 1 },
    };
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        assert_int_equal(http_transport_start(transport, &requests[i], send_by_us, NULL),
                         HTTP_REFUSED_REQUEST);
    }
    assert_lost(http_start_answer(HTTP_REFUSED_REQUEST), PHASE_LOCAL, "bad_request_line");
    struct http_transport_options options = OPTIONS;
    options.allow_plain_http = false;
    use_options(&options);
    assert_int_equal(start("GET", url, send_by_us, NULL), HTTP_REFUSED_REQUEST);
    assert_int_equal(http_server_connections(server), 0);
}

static void the_environment_names_no_proxy(void **state)
{
    (void)state;
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("all_proxy", "http://127.0.0.1:1", 1), 0);
    assert_answer(call_path("POST", "/ok"), 200, "{\"ok\":true}");
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(unsetenv("all_proxy"), 0);
}

static void destroy_drops_what_is_in_flight(void **state)
{
    (void)state;
    const int64_t send_by_us = clock_monotonic_us() + CLOCK_SECOND_US;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(start("POST", url_of("/hang"), send_by_us, NULL), HTTP_STARTED);
        http_transport_drive(transport);
    }
    use_options(&OPTIONS);
    assert_int_equal(http_transport_in_flight(transport), 0);
    http_transport_destroy(NULL);
}

/* --- TLS -------------------------------------------------------------------------------------- */

static char ca_path[] = "/tmp/oncepay-http-test-XXXXXX";

static void use_tls_server(void)
{
    http_server_stop(server);
    server = http_server_start(ca_path);
}

static const char *tls_url(const char *host, const char *path)
{
    static char url[128];
    (void)snprintf(url, sizeof url, "https://%s:%d%s", host, http_server_port(server), path);
    return url;
}

static void tls_proves_who_answers(void **state)
{
    (void)state;
    use_tls_server();
    assert_lost(call_url("POST", tls_url("localhost", "/ok")), PHASE_CONNECT, "tls_untrusted");
    struct http_transport_options options = OPTIONS;
    options.ca_file = ca_path;
    options.allow_plain_http = false;
    use_options(&options);
    assert_answer(call_url("POST", tls_url("localhost", "/ok")), 200, "{\"ok\":true}");
    assert_lost(call_url("POST", tls_url("127.0.0.1", "/ok")), PHASE_CONNECT, "tls_untrusted");
    assert_requests("/ok", 1);
}

static void a_kept_tls_connection_that_dies_sends_once(void **state)
{
    (void)state;
    use_tls_server();
    struct http_transport_options options = OPTIONS;
    options.ca_file = ca_path;
    use_options(&options);
    assert_answer(call_url("POST", tls_url("localhost", "/ok")), 200, "{\"ok\":true}");
    assert_int_equal(call_url("POST", tls_url("localhost", "/close")).phase, PHASE_SENT);
    assert_requests("/close", 1);
    assert_answer(call_url("GET", tls_url("localhost", "/ok")), 200, "{\"ok\":true}");
    assert_int_equal(call_url("GET", tls_url("localhost", "/reset")).phase, PHASE_SENT);
    assert_requests("/reset", 1);
}

static void a_failed_handshake_is_proof(void **state)
{
    (void)state;
    assert_lost(call_url("POST", tls_url("127.0.0.1", "/ok")), PHASE_CONNECT, "tls_failed");
    assert_requests(NULL, 0);
}

/* --- */

#define TRANSPORT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const int file = mkstemp(ca_path);
    if (file < 0 || close(file) != 0) return 1;
    const struct CMUnitTest tests[] = {
        TRANSPORT_TEST(answers_come_whole_over_one_connection),
        TRANSPORT_TEST(the_wire_has_what_was_asked_and_no_more),
        TRANSPORT_TEST(a_post_without_a_body_says_so),
        TRANSPORT_TEST(headers_are_of_the_final_answer_only),
        TRANSPORT_TEST(redirects_are_answers),
        TRANSPORT_TEST(a_refused_connection_is_proof),
        TRANSPORT_TEST(a_lost_answer_is_no_proof),
        TRANSPORT_TEST(a_silent_peer_ends_at_the_call_limit),
        TRANSPORT_TEST(a_kept_connection_that_dies_with_a_post_sends_it_once),
        TRANSPORT_TEST(a_kept_connection_that_dies_with_a_get_sends_it_once),
        TRANSPORT_TEST(a_kept_connection_that_dies_at_the_head_sends_nothing_twice),
        TRANSPORT_TEST(an_idle_connection_that_the_server_closed_costs_nothing),
        TRANSPORT_TEST(an_idle_connection_that_closes_right_now_sends_once_or_not_at_all),
        TRANSPORT_TEST(a_call_that_is_too_late_is_refused),
        TRANSPORT_TEST(no_byte_leaves_after_send_by),
        TRANSPORT_TEST(a_call_that_slept_over_send_by_is_not_sent),
        TRANSPORT_TEST(three_hundred_calls_are_in_flight_at_once),
        TRANSPORT_TEST(a_full_transport_refuses),
        TRANSPORT_TEST(what_must_not_be_sent_is_refused),
        TRANSPORT_TEST(the_environment_names_no_proxy),
        TRANSPORT_TEST(destroy_drops_what_is_in_flight),
        TRANSPORT_TEST(tls_proves_who_answers),
        TRANSPORT_TEST(a_kept_tls_connection_that_dies_sends_once),
        TRANSPORT_TEST(a_failed_handshake_is_proof),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(ca_path);
    return failed;
}
