/*
 * tests/contract/http_server.h: a small HTTP/1.1 server on a loopback port, one thread per
 * connection, that misbehaves on request: the path says how, and everything it reads is counted.
 *
 *   /ok            200 with a JSON body; the connection stays
 *   /echo          200; the body is the request's head and body as they came
 *   /created       100 Continue, then 201 with headers to look at and a chunked body with a trailer
 *   /empty         204
 *   /redirect      302 to /ok
 *   /ok-then-fin   200, then the server closes the idle connection without a word
 *   /close         the whole request is read, then the connection is closed
 *   /reset         … is reset
 *   /reset-at-head the connection is reset at the first byte of the request
 *   /hang          … nothing, until the client goes away
 *   /half          a third of the promised body, then close
 *   /half-chunk    a chunked body without its end
 *   /half-head     headers without their end
 *   /big           a body of 300 KiB
 *   /big-head      a header of 20 KiB
 *   /many-headers  100 headers
 *   /garbage       not HTTP
 *   /barrier       200, once as many requests wait here as http_server_set_barrier said
 */
#ifndef ONCEPAY_TESTS_CONTRACT_HTTP_SERVER_H
#define ONCEPAY_TESTS_CONTRACT_HTTP_SERVER_H

#include "pipeline/base.h"

struct http_server;

/* ca_path: NULL for plain HTTP; else TLS as "localhost", with its own certificate written there. */
struct http_server *http_server_start(const char *ca_path);
void http_server_stop(struct http_server *server);

int http_server_port(const struct http_server *server);
void http_server_set_barrier(struct http_server *server, int count);

/* How many requests of that path were read to their last byte; NULL: of any path. */
int http_server_requests(struct http_server *server, const char *path);
int http_server_connections(struct http_server *server);

#endif
