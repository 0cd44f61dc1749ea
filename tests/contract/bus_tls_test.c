/*
 * tests/contract/bus_tls_test.c: a tls:// address means an encrypted connection to a server whose
 * certificate our authority signed for that very name, or none.
 */
#include "adapters/nats/bus_nats.h"
#include "tests/support/server_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static volatile sig_atomic_t stop;

static void on_alarm(int number)
{
    (void)number;
    stop = 1;
}

static void shell(const char *format, ...) PRINTF_LIKE(1, 2);
static void shell(const char *format, ...)
{
    char command[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
    static struct server_fixture server;
    char text[1024];
    server_fixture_init(&server);
    shell("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
          "-subj /CN=ours -keyout ca.key -out ca.pem 2>/dev/null && "
          "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
          "-subj /CN=other -keyout other.key -out other.pem 2>/dev/null && "
          "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost "
          "-keyout server.key -out server.csr 2>/dev/null && "
          "printf 'subjectAltName=DNS:localhost\\n' >ext && "
          "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
          "-extfile ext -out server.pem 2>/dev/null",
          server.folder);
    (void)snprintf(text, sizeof text,
                   "listen: \"127.0.0.1:%d\"\ntls { cert_file: \"%s/server.pem\", "
                   "key_file: \"%s/server.key\" }\n",
                   server.port, server.folder, server.folder);
    server_fixture_write(&server, "nats.conf", text);
    server_fixture_argument(&server, "nats-server");
    server_fixture_argument(&server, "-c");
    server_fixture_argument(&server, "%s/nats.conf", server.folder);
    server_fixture_start(&server);
    *state = &server;
    return 0;
}

static int teardown(void **state)
{
    server_fixture_finish(*state);
    return 0;
}

/* Tries for two seconds. */
static enum status connect_to(const struct server_fixture *server, const char *scheme,
                              const char *host, const char *authority)
{
    char url[128];
    char ca_file[128];
    (void)snprintf(url, sizeof url, "%s://%s:%d", scheme, host, server->port);
    (void)snprintf(ca_file, sizeof ca_file, "%s/%s", server->folder, authority);
    const struct bus_options options = {
        .url = url, .name = "tls", .ca_file = ca_file, .stop = &stop
    };
    struct bus *bus = NULL;
    const char *error = NULL;
    stop = 0;
    (void)signal(SIGALRM, on_alarm);
    (void)alarm(2);
    const enum status status = bus_connect(&options, &bus, &error);
    (void)alarm(0);
    if (status == STATUS_OK) bus_close(bus);
    return status;
}

static void only_the_right_authority_and_name_will_do(void **state)
{
    const struct server_fixture *server = *state;
    assert_int_equal(connect_to(server, "tls", "localhost", "ca.pem"), STATUS_OK);
    assert_int_equal(connect_to(server, "tls", "localhost", "other.pem"), STATUS_RETRY);
    assert_int_equal(connect_to(server, "tls", "127.0.0.1", "ca.pem"), STATUS_RETRY);
    assert_int_equal(connect_to(server, "tls", "localhost", "nowhere.pem"), STATUS_STOP);
    assert_int_equal(connect_to(server, "nats", "localhost", "ca.pem"), STATUS_RETRY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_the_right_authority_and_name_will_do, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
