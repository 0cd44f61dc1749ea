/*
 * ops/sim/server.c: see server.h. An exchange that cannot be ended within the handler suspends its
 * connection; libmicrohttpd then leaves both alone until the connection is resumed.
 */
#include "ops/sim/server.h"

#include "ops/sim/ident.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { SERVER_CONNECTIONS_MAX = 8192 };

struct server {
    struct MHD_Daemon *daemon;
    int fd;
    uint16_t port;
    struct deadline_queue *deadlines;
    server_handler handler;
    void *self;
    struct exchange *exchanges;
};

static struct exchange *exchange_create(struct server *server, struct MHD_Connection *connection,
                                        const char *method, const char *path)
{
    struct exchange *exchange = memory_allocate(sizeof *exchange);
    exchange->server = server;
    exchange->connection = connection;
    exchange->method = method;
    exchange->path = memory_copy_text(path);
    exchange->next = server->exchanges;
    if (server->exchanges != NULL) server->exchanges->previous = exchange;
    server->exchanges = exchange;
    return exchange;
}

static void exchange_destroy(struct exchange *exchange)
{
    struct server *server = exchange->server;
    deadline_cancel(server->deadlines, &exchange->deadline);
    if (exchange->work != NULL) exchange->destroy_work(exchange->work);
    if (exchange->response != NULL) MHD_destroy_response(exchange->response);
    if (exchange->previous != NULL) exchange->previous->next = exchange->next;
    if (exchange->next != NULL) exchange->next->previous = exchange->previous;
    if (server->exchanges == exchange) server->exchanges = exchange->next;
    textbuf_finish(&exchange->body);
    free(exchange->path);
    free(exchange);
}

/* Dissolving the association makes the kernel send RST at once, before anybody sends FIN. */
static void reset_connection(struct exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    if (info != NULL) (void)connect(info->connect_fd, &nowhere, sizeof nowhere);
}

static enum MHD_Result conclude(struct exchange *exchange)
{
    switch (exchange->manner) {
    case SERVER_ANSWER:
    case SERVER_HALF_BODY:
        return MHD_queue_response(exchange->connection, exchange->status, exchange->response);
    case SERVER_RESET:
        reset_connection(exchange);
        return MHD_NO;
    case SERVER_CLOSE:
        return MHD_NO; /* libmicrohttpd closes without an answer */
    }
    UNREACHABLE("manner out of range");
}

static void take_body(struct exchange *exchange, const char *data, size_t *length)
{
    if (exchange->body.length + *length > SERVER_BODY_BYTES_MAX) {
        exchange->is_body_too_large = true;
    } else {
        textbuf_add(&exchange->body, data, *length);
    }
    *length = 0;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_length, void **request)
{
    (void)version;
    struct server *server = cls;
    struct exchange *exchange = *request;
    if (exchange == NULL) {
        *request = exchange_create(server, connection, method, url);
        return MHD_YES;
    }
    if (*upload_length > 0) {
        take_body(exchange, upload_data, upload_length);
        return MHD_YES;
    }
    if (!exchange->is_handled) {
        exchange->is_handled = true;
        server->handler(server->self, exchange);
    }
    if (exchange->is_ready) return conclude(exchange);
    exchange->is_held = true;
    MHD_suspend_connection(connection);
    return MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode why)
{
    (void)cls;
    (void)connection;
    (void)why;
    if (*request != NULL) exchange_destroy(*request);
    *request = NULL;
}

struct server *server_create(uint16_t port, struct deadline_queue *deadlines,
                             server_handler handler, void *self)
{
    struct server *server = memory_allocate(sizeof *server);
    *server = (struct server){ .deadlines = deadlines, .handler = handler, .self = self };
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, server,
        MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVER_CONNECTIONS_MAX, MHD_OPTION_END);
    if (server->daemon == NULL) {
        free(server);
        return NULL;
    }
    server->fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    server->port = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    return server;
}

void server_close_held(struct server *server)
{
    for (struct exchange *exchange = server->exchanges; exchange != NULL;
         exchange = exchange->next) {
        if (!exchange->is_held) continue;
        deadline_cancel(server->deadlines, &exchange->deadline);
        exchange->manner = SERVER_CLOSE;
        exchange->is_ready = true;
        exchange->is_held = false;
        MHD_resume_connection(exchange->connection);
    }
}

void server_destroy(struct server *server)
{
    if (server == NULL) return;
    server_close_held(server);
    (void)MHD_run(server->daemon); /* stopping with suspended connections is forbidden */
    MHD_stop_daemon(server->daemon);
    INVARIANT(server->exchanges == NULL);
    free(server);
}

uint16_t server_port(const struct server *server)
{
    return server->port;
}

int server_fd(const struct server *server)
{
    return server->fd;
}

int server_wait_ms(const struct server *server, int limit_ms)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    if (MHD_get_timeout(server->daemon, &wait_ms) != MHD_YES) return limit_ms;
    return wait_ms < (MHD_UNSIGNED_LONG_LONG)limit_ms ? (int)wait_ms : limit_ms;
}

void server_run(struct server *server)
{
    (void)MHD_run(server->daemon);
}

const char *server_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *server_query(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

void server_add_header(struct exchange *exchange, const char *name, const char *value)
{
    INVARIANT(exchange->header_count < SERVER_HEADERS_MAX);
    const size_t at = exchange->header_count++;
    exchange->header_names[at] = name;
    (void)snprintf(exchange->header_values[at], sizeof exchange->header_values[at], "%s", value);
}

/* Half a body. */

struct half_body {
    struct textbuf text;
    size_t promised;
};

static ssize_t half_body_read(void *cls, uint64_t position, char *out, size_t size)
{
    const struct half_body *half = cls;
    if (position >= half->promised / 2) return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t length = half->promised / 2 - (size_t)position;
    if (length > size) length = size;
    memcpy(out, half->text.data + position, length);
    return (ssize_t)length;
}

static void half_body_free(void *cls)
{
    struct half_body *half = cls;
    textbuf_finish(&half->text);
    free(half);
}

static struct MHD_Response *make_response(enum server_manner manner, struct textbuf *body)
{
    if (manner == SERVER_HALF_BODY) {
        struct half_body *half = memory_allocate(sizeof *half);
        *half = (struct half_body){ *body, body->length };
        *body = (struct textbuf){ 0 };
        return MHD_create_response_from_callback(half->promised, 1024, half_body_read, half,
                                                 half_body_free);
    }
    textbuf_add(body, "", 0); /* never NULL */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->length, body->data, MHD_RESPMEM_MUST_FREE);
    *body = (struct textbuf){ 0 };
    return response;
}

static void release(struct exchange *exchange)
{
    exchange->is_ready = true;
    if (!exchange->is_held) return; /* still inside the handler: on_request concludes */
    exchange->is_held = false;
    MHD_resume_connection(exchange->connection);
}

void server_finish(struct exchange *exchange, enum server_manner manner, unsigned status,
                   const char *content_type, struct textbuf *body, int64_t delay_ms)
{
    INVARIANT(exchange->manner == 0);
    exchange->manner = manner;
    if (manner == SERVER_ANSWER || manner == SERVER_HALF_BODY) {
        exchange->status = status;
        exchange->response = make_response(manner, body);
        INVARIANT(exchange->response != NULL);
        (void)MHD_add_response_header(exchange->response, "Content-Type", content_type);
        for (size_t i = 0; i < exchange->header_count; i++) {
            (void)MHD_add_response_header(exchange->response, exchange->header_names[i],
                                          exchange->header_values[i]);
        }
    } else if (body != NULL) {
        textbuf_finish(body);
    }
    if (delay_ms > 0) {
        server_later(exchange, delay_ms, release);
    } else {
        release(exchange);
    }
}

static void on_deadline(void *self)
{
    struct exchange *exchange = self;
    exchange->then(exchange);
}

void server_later(struct exchange *exchange, int64_t delay_ms,
                  void (*then)(struct exchange *exchange))
{
    exchange->then = then;
    exchange->deadline.fire = on_deadline;
    exchange->deadline.self = exchange;
    deadline_arm(exchange->server->deadlines, &exchange->deadline, ident_monotonic_ms() + delay_ms);
}
