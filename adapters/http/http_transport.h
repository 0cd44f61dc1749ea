/*
 * adapters/http/http_transport.h: the one way to a PSP. Many HTTP/1.1 calls at once on libcurl's
 * multi interface, driven by the caller's poll loop, so that it never blocks on anything else
 * while calls are in flight (protocol C9). The transport never decides, retries, follows or waits:
 * one start is one request at the PSP or none, and the answer's phase says which:
 *
 *   PHASE_LOCAL     refused by http_transport_start; libcurl never saw it
 *   PHASE_CONNECT   no request byte was handed to the connection: resolving, connecting or TLS
 *                   failed, or send_by passed meanwhile. Direct connections only, so this is proof.
 *   PHASE_SENT      a request byte may have left, and no complete answer came
 *   PHASE_ANSWERED  a complete HTTP answer
 *
 * One thread per transport. The loop of its owner:
 *
 *   start as many calls as http_transport_room allows;
 *   while (http_transport_next_done(transport, &done)) …;
 *   poll(http_transport_poll_fd for POLLIN and everything else, http_transport_timeout_ms or less);
 *   http_transport_drive(transport);
 *   while (http_transport_next_done(transport, &done)) …;
 */
#ifndef ONCEPAY_ADAPTERS_HTTP_TRANSPORT_H
#define ONCEPAY_ADAPTERS_HTTP_TRANSPORT_H

#include "pipeline/psp.h"

struct http_transport;

struct http_transport_options {
    int connect_timeout_ms;  /* resolving, connecting and TLS together */
    int call_limit_ms;       /* from start to the last byte of the answer (protocol C2: 30 s) */
    size_t in_flight_max;    /* also bounds the connections, idle ones included */
    size_t answer_bytes_max; /* a longer body is PHASE_SENT, "answer_too_large" */
    bool allow_plain_http;   /* development only: without TLS a peer is whoever answers */
    const char *ca_file;     /* PEM; NULL: the system's */
};

/*
 * Copies the options. Ignores SIGPIPE for the process: OpenSSL writes to sockets with write(2).
 * destroy drops calls in flight unanswered and accepts NULL.
 */
struct http_transport *http_transport_create(const struct http_transport_options *options);
void http_transport_destroy(struct http_transport *transport);

enum http_start {
    HTTP_STARTED = 0,     /* exactly one http_done will follow */
    HTTP_REFUSED_FULL,    /* in_flight_max; ask http_transport_room before the fence */
    HTTP_REFUSED_LATE,    /* send_by has passed */
    HTTP_REFUSED_REQUEST, /* not GET or POST, not https, a control character in a line … */
};

/*
 * Copies the request and hands it over at once: nothing waits behind the check of send_by_us
 * (clock_monotonic_us), which is made here, again when the connection is up, and again before the
 * first byte of the body. cookie comes back in http_done.
 */
enum http_start http_transport_start(struct http_transport *transport,
                                     const struct http_request *request, int64_t send_by_us,
                                     void *cookie) MUST_CHECK;

/* The answer that stands for a refusal: PHASE_LOCAL. Not for HTTP_STARTED. */
struct http_answer http_start_answer(enum http_start refusal);

/* How many more calls start would take now; calls that are done and not yet fetched count. */
size_t http_transport_room(const struct http_transport *transport);
size_t http_transport_in_flight(const struct http_transport *transport);

/* An epoll descriptor over all sockets of the transport. Poll it for POLLIN; never close it. */
int http_transport_poll_fd(const struct http_transport *transport);
/* How long poll may sleep; -1: for ever. 0 while something is done and not fetched. */
int http_transport_timeout_ms(const struct http_transport *transport);
/* Moves everything on that can move; never blocks. Call it after each poll, whatever woke it. */
void http_transport_drive(struct http_transport *transport);

struct http_done {
    void *cookie;
    struct http_answer answer; /* valid until the next http_transport_next_done or destroy */
    int64_t elapsed_us;        /* since start */
};
/* False when nothing more is done for now. */
bool http_transport_next_done(struct http_transport *transport, struct http_done *out);

#endif
