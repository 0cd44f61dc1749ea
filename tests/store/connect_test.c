/*
 * tests/store/connect_test.c: several hosts in the connection URL, of which one accepts and never
 * says a word, as a stopped server or a black hole does. Time limits pass at once here: the store
 * is told the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/clock.h"
#include "tests/support/pg_fixture.h"

enum { QUIET_MS = 500, LIMITS_MAX = 6, URL_SIZE = 512 };

static struct pg_fixture *fixture;

static int start(void **state)
{
    (void)state;
    fixture = pg_fixture_start();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pg_fixture_stop(fixture);
    return 0;
}

struct silent {
    int listener;
    int port;
};

static struct silent open_silent(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct silent silent = { .listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) };
    assert_true(silent.listener >= 0);
    assert_int_equal(bind(silent.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(silent.listener, 64), 0);
    assert_int_equal(getsockname(silent.listener, (struct sockaddr *)&address, &length), 0);
    silent.port = ntohs(address.sin_port);
    return silent;
}

/* How many came since the last look. */
static size_t count_callers(const struct silent *silent)
{
    size_t count = 0;
    for (int caller = 0; (caller = accept(silent->listener, NULL, NULL)) >= 0; count++)
        (void)close(caller);
    return count;
}

/* The store with the fixture's server at one place of a list of silent ones. */
static struct store *open_store(const struct silent *silent, size_t hosts, size_t place)
{
    char url[URL_SIZE];
    char host[URL_SIZE] = "";
    char port[URL_SIZE] = "";
    char *folder = pg_fixture_text(pg_fixture_database(fixture),
                                   "SELECT split_part(current_setting('unix_socket_directories'),"
                                   " ',', 1)");
    for (size_t i = 0; i < hosts; i++) {
        const char *comma = i == 0 ? "" : ",";
        (void)snprintf(host + strlen(host), sizeof host - strlen(host), "%s%s", comma,
                       i == place ? folder : "127.0.0.1");
        (void)snprintf(port + strlen(port), sizeof port - strlen(port), "%s%d", comma,
                       i == place ? 5432 : silent->port);
    }
    (void)snprintf(url, sizeof url,
                   "postgresql://oncepay@/postgres?host=%s&port=%s&target_session_attrs=read-write",
                   host, port);
    free(folder);
    return pg_fixture_store(url);
}

/* Returns how many limits had to pass. */
static size_t connect_store(struct store *store)
{
    int64_t now_us = clock_monotonic_us();
    size_t limits = 0;
    for (;;) {
        store_service(store, now_us);
        if (store_is_ready(store)) return limits;
        short events = 0;
        struct pollfd waited = { .fd = store_poll_fd(store, &events) };
        waited.events = events;
        if (waited.fd >= 0 && poll(&waited, 1, QUIET_MS) > 0) continue;
        limits += waited.fd >= 0;
        assert_true(limits <= LIMITS_MAX);
        now_us = store_wake_us(store);
    }
}

static void a_silent_host_costs_one_attempt(void **state)
{
    (void)state;
    for (size_t hosts = 1; hosts <= 3; hosts++) {
        for (size_t place = 0; place < hosts; place++) {
            const struct silent silent = open_silent();
            struct store *store = open_store(&silent, hosts, place);
            assert_int_equal(connect_store(store), place);
            assert_int_equal(count_callers(&silent), place);
            store_destroy(store);
            (void)close(silent.listener);
        }
    }
}

/* Who was reached last is asked first again. */
static void a_lost_connection_comes_back_to_its_host(void **state)
{
    (void)state;
    const struct silent silent = open_silent();
    struct store *store = open_store(&silent, 2, 1);
    (void)connect_store(store);
    assert_int_equal(count_callers(&silent), 1);
    pg_fixture_crash(fixture);
    while (store_is_ready(store)) store_service(store, clock_monotonic_us());
    assert_int_equal(connect_store(store), 0);
    assert_int_equal(count_callers(&silent), 0);
    store_destroy(store);
    (void)close(silent.listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_host_costs_one_attempt),
        cmocka_unit_test(a_lost_connection_comes_back_to_its_host),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
