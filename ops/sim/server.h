/*
 * ops/sim/server.h: the simulator's HTTP side. One exchange is one request and what becomes of
 * it, which may be an answer now or later, half of one, a closed or a reset connection.
 * libmicrohttpd parses; everything runs in the thread of the caller.
 */
#ifndef ONCEPAY_SIM_SERVER_H
#define ONCEPAY_SIM_SERVER_H

#include "ops/sim/deadline.h"
#include "ops/sim/textbuf.h"

struct MHD_Connection;
struct MHD_Response;
struct server;

enum server_manner {
    SERVER_ANSWER = 1,
    SERVER_HALF_BODY, /* headers promise all of it, half comes, the connection closes */
    SERVER_CLOSE,     /* no byte, then FIN */
    SERVER_RESET,     /* no byte, then RST */
};

enum { SERVER_HEADERS_MAX = 4, SERVER_BODY_BYTES_MAX = 256 * 1024 };

struct exchange {
    struct server *server;
    struct MHD_Connection *connection;
    const char *method;
    char *path; /* decoded, without the query */
    struct textbuf body;
    bool is_body_too_large;

    /* Work that goes on while the exchange waits; destroyed with it. */
    void *work;
    void (*destroy_work)(void *work);

    /* The rest is the server's. */
    struct exchange *previous;
    struct exchange *next;
    struct deadline deadline;
    void (*then)(struct exchange *exchange);
    bool is_handled;
    bool is_held;
    bool is_ready;
    enum server_manner manner;
    struct MHD_Response *response;
    unsigned status;
    size_t header_count;
    const char *header_names[SERVER_HEADERS_MAX];
    char header_values[SERVER_HEADERS_MAX][64];
};

typedef void (*server_handler)(void *self, struct exchange *exchange);

/* Listens on 127.0.0.1; port 0 takes a free one. NULL: the port is taken. */
struct server *server_create(uint16_t port, struct deadline_queue *deadlines,
                             server_handler handler, void *self);
/* Closes all connections, whatever they wait for. */
void server_destroy(struct server *server);
/* Closes the connections of all exchanges that wait, but not of one that is being handled. */
void server_close_held(struct server *server);
uint16_t server_port(const struct server *server);
/* Readable when server_run has something to do; it also must run after server_wait_ms. */
int server_fd(const struct server *server);
int server_wait_ms(const struct server *server, int limit_ms);
void server_run(struct server *server);

/* NULL if the request has none; borrowed until the exchange ends. */
const char *server_header(const struct exchange *exchange, const char *name);
const char *server_query(const struct exchange *exchange, const char *name);

/* name is a constant; the value is copied. */
void server_add_header(struct exchange *exchange, const char *name, const char *value);
/*
 * Ends the exchange, after delay_ms if that is positive. Takes the body's memory and leaves it
 * empty; for SERVER_CLOSE and SERVER_RESET the rest is not looked at. Call it exactly once.
 */
void server_finish(struct exchange *exchange, enum server_manner manner, unsigned status,
                   const char *content_type, struct textbuf *body, int64_t delay_ms);
/* Calls then after delay_ms; the client may have gone away by then, the exchange has not. */
void server_later(struct exchange *exchange, int64_t delay_ms,
                  void (*then)(struct exchange *exchange));

#endif
