/*
 * tests/support/server_fixture.h: a private server process for one test program: its own folder
 * under /tmp and its own port, below the range that the kernel gives to outgoing connections, so
 * that it can be killed and started again on the same port. It dies with the test, however that
 * ends.
 */
#ifndef ONCEPAY_TESTS_SUPPORT_SERVER_FIXTURE_H
#define ONCEPAY_TESTS_SUPPORT_SERVER_FIXTURE_H

#include "pipeline/base.h"

#include <sys/types.h>

enum { SERVER_FIXTURE_ARGUMENTS_MAX = 24, SERVER_FIXTURE_TEXT_SIZE = 256 };

struct server_fixture {
    char folder[64];
    int port;
    pid_t pid; /* 0: not running */
    bool is_frozen;
    size_t argument_count;
    char arguments[SERVER_FIXTURE_ARGUMENTS_MAX][SERVER_FIXTURE_TEXT_SIZE];
};

/* Makes the folder, finds a port. All of these abort with a sentence on stderr if they fail. */
void server_fixture_init(struct server_fixture *server);
/* One more word of the command line; the first is the program. */
void server_fixture_argument(struct server_fixture *server, const char *format, ...)
    PRINTF_LIKE(2, 3);
/* A file in the folder. */
void server_fixture_write(const struct server_fixture *server, const char *name, const char *text);
/* A file or folder in the folder, with what is in it. */
void server_fixture_remove(const struct server_fixture *server, const char *name);

/* Starts and waits until it accepts connections. */
void server_fixture_start(struct server_fixture *server);
void server_fixture_kill(struct server_fixture *server);   /* SIGKILL, and it is gone */
void server_fixture_stop(struct server_fixture *server);   /* SIGTERM, and it is gone */
void server_fixture_freeze(struct server_fixture *server); /* SIGSTOP */
void server_fixture_thaw(struct server_fixture *server);
/* Kills, removes the folder. */
void server_fixture_finish(struct server_fixture *server);

void server_fixture_sleep_ms(int64_t ms);

#endif
