/*
 * stages/http_server.h: what the health server and the gateway share of libmicrohttpd: where to
 * listen, the port file, and answers. Its threads take no signals: those are the main thread's.
 */
#ifndef ONCEPAY_STAGES_HTTP_SERVER_H
#define ONCEPAY_STAGES_HTTP_SERVER_H

#include <microhttpd.h>

#include "pipeline/base.h"

struct http_server_options {
    const char *address;   /* numeric IPv4 or IPv6 */
    int port;              /* 0: a free one */
    const char *port_file; /* the port is written there; NULL or "" not */
    unsigned flags;        /* of MHD, beyond the internal polling thread */
    unsigned connections_max;
    unsigned idle_s; /* a connection on which nothing happens for so long is closed */
    MHD_AccessHandlerCallback handle;
    MHD_RequestCompletedCallback completed; /* may be NULL */
    void *self;                             /* of both callbacks */
};

/* NULL when the port cannot be had; logged. */
struct MHD_Daemon *http_server_start(const struct http_server_options *options);
int http_server_port(struct MHD_Daemon *daemon);

/* The body is copied. retry_after_s: 0 for none. allow: the methods of a 405, else NULL. */
struct http_server_answer {
    unsigned status;
    const char *content_type;
    struct span body;
    int retry_after_s;
    const char *allow;
};
enum MHD_Result http_server_respond(struct MHD_Connection *connection,
                                    const struct http_server_answer *answer);

#endif
