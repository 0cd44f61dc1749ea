/*
 * tests/support/raw_http.h: one HTTP request to a server on this machine, byte for byte as a test
 * wants it, over a connection of its own.
 */
#ifndef ONCEPAY_TESTS_SUPPORT_RAW_HTTP_H
#define ONCEPAY_TESTS_SUPPORT_RAW_HTTP_H

#include "pipeline/arena.h"

struct raw_http_answer {
    int status;       /* 0: no answer */
    const char *head; /* status line and headers */
    const char *body;
};

/* headers: "name: value\r\n" lines, NULL for none. Everything lives in the arena. */
struct raw_http_answer raw_http(int port, const char *method, const char *path, const char *headers,
                                struct span body, struct arena *arena);
/* Connects and sends exactly this; the descriptor is the caller's. Aborts when it cannot. */
int raw_http_send(int port, const char *bytes, size_t length);
/* Reads until the server closes. */
struct raw_http_answer raw_http_receive(int descriptor, struct arena *arena);

#endif
