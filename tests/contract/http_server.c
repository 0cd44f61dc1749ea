/* tests/contract/http_server.c: see http_server.h. */
#include "tests/contract/http_server.h"

#include "tests/contract/http_server_tls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTION_MAX = 1024, PATH_MAX_BYTES = 32, PATH_COUNT_MAX = 32, REQUEST_BYTES_MAX = 65536 };

struct connection {
    struct http_server *server;
    pthread_t thread;
    int fd;
    SSL *ssl; /* NULL on plain HTTP */
    char request[REQUEST_BYTES_MAX];
    size_t length; /* bytes in request */
};

struct path_count {
    char path[PATH_MAX_BYTES];
    int requests;
};

struct http_server {
    int listen_fd;
    int port;
    SSL_CTX *tls;
    pthread_t acceptor;
    pthread_mutex_t mutex; /* over all below */
    pthread_cond_t changed;
    bool stopping;
    struct connection *connections[CONNECTION_MAX];
    int connection_count;
    struct path_count counts[PATH_COUNT_MAX];
    int barrier;
};

/* --- bytes ----------------------------------------------------------------------------------- */

static long receive(struct connection *connection, char *buffer, size_t size)
{
    if (connection->ssl != NULL) return SSL_read(connection->ssl, buffer, (int)size);
    return recv(connection->fd, buffer, size, 0);
}

static void answer_bytes(struct connection *connection, const char *data, size_t length)
{
    while (length > 0) {
        const long sent = connection->ssl != NULL
                              ? SSL_write(connection->ssl, data, (int)length)
                              : send(connection->fd, data, length, MSG_NOSIGNAL);
        if (sent <= 0) return; /* the client has gone: what it saw is the client's to tell */
        data += sent;
        length -= (size_t)sent;
    }
}

static void answer_text(struct connection *connection, const char *text)
{
    answer_bytes(connection, text, strlen(text));
}

static void answer_body(struct connection *connection, const char *body, size_t length)
{
    char head[128];
    (void)snprintf(
        head, sizeof head,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", length);
    answer_text(connection, head);
    answer_bytes(connection, body, length);
}

static void reset_on_close(struct connection *connection)
{
    const struct linger now = { .l_onoff = 1, .l_linger = 0 };
    INVARIANT(setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
}

/* --- behaviours: false means that the connection ends here ------------------------------------ */

static bool do_ok(struct connection *connection)
{
    answer_body(connection, "{\"ok\":true}", 11);
    return true;
}

static bool do_echo(struct connection *connection)
{
    answer_body(connection, connection->request, connection->length);
    return true;
}

static bool do_created(struct connection *connection)
{
    answer_text(connection, "HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\n"
                            "HTTP/1.1 201 Created\r\nIdempotent-Replayed:true\r\n"
                            "retry-after:  7 \r\nX-Empty:\r\nX-Folded: a\r\n b\r\n"
                            "Transfer-Encoding: chunked\r\nTrailer: X-Trailer\r\n\r\n"
                            "3\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n");
    return true;
}

static bool do_empty(struct connection *connection)
{
    answer_text(connection, "HTTP/1.1 204 No Content\r\n\r\n");
    return true;
}

static bool do_redirect(struct connection *connection)
{
    answer_text(connection, "HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n");
    return true;
}

static bool do_ok_then_fin(struct connection *connection)
{
    (void)do_ok(connection);
    return false;
}

static bool do_close(struct connection *connection)
{
    (void)connection;
    return false;
}

static bool do_reset(struct connection *connection)
{
    reset_on_close(connection);
    return false;
}

static bool do_hang(struct connection *connection)
{
    char byte;
    (void)receive(connection, &byte, 1);
    return false;
}

static bool do_half(struct connection *connection)
{
    answer_text(connection, "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{\"id\":\"pi_");
    return false;
}

static bool do_half_chunk(struct connection *connection)
{
    answer_text(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n");
    return false;
}

static bool do_half_head(struct connection *connection)
{
    answer_text(connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
    return false;
}

static bool do_big(struct connection *connection)
{
    enum { SIZE = 300 * 1024 };
    char *body = memory_allocate(SIZE);
    memset(body, 'x', SIZE);
    answer_body(connection, body, SIZE);
    free(body);
    return false;
}

static bool do_big_head(struct connection *connection)
{
    enum { SIZE = 20 * 1024 };
    char *value = memory_allocate(SIZE);
    memset(value, 'x', SIZE);
    answer_text(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Big: ");
    answer_bytes(connection, value, SIZE);
    answer_text(connection, "\r\n\r\n");
    free(value);
    return false;
}

static bool do_many_headers(struct connection *connection)
{
    answer_text(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n");
    for (int i = 0; i < 100; i++) answer_text(connection, "X-Header: 1\r\n");
    answer_text(connection, "\r\n");
    return false;
}

static bool do_garbage(struct connection *connection)
{
    answer_text(connection, "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
    return false;
}

static bool do_barrier(struct connection *connection)
{
    struct http_server *server = connection->server;
    (void)pthread_mutex_lock(&server->mutex);
    server->barrier--;
    (void)pthread_cond_broadcast(&server->changed);
    while (server->barrier > 0 && !server->stopping) {
        (void)pthread_cond_wait(&server->changed, &server->mutex);
    }
    (void)pthread_mutex_unlock(&server->mutex);
    return do_ok(connection);
}

static const struct {
    const char *path;
    bool (*act)(struct connection *connection);
} BEHAVIOURS[] = {
    { "/ok", do_ok },
    { "/echo", do_echo },
    { "/created", do_created },
    { "/empty", do_empty },
    { "/redirect", do_redirect },
    { "/ok-then-fin", do_ok_then_fin },
    { "/close", do_close },
    { "/reset", do_reset },
    { "/hang", do_hang },
    { "/half", do_half },
    { "/half-chunk", do_half_chunk },
    { "/half-head", do_half_head },
    { "/big", do_big },
    { "/big-head", do_big_head },
    { "/many-headers", do_many_headers },
    { "/garbage", do_garbage },
    { "/barrier", do_barrier },
};

/* --- one connection --------------------------------------------------------------------------- */

static void count_request(struct http_server *server, const char *path)
{
    (void)pthread_mutex_lock(&server->mutex);
    for (size_t i = 0; i < PATH_COUNT_MAX; i++) {
        struct path_count *count = &server->counts[i];
        if (count->path[0] == '\0') (void)snprintf(count->path, sizeof count->path, "%s", path);
        if (strcmp(count->path, path) != 0) continue;
        count->requests++;
        break;
    }
    (void)pthread_mutex_unlock(&server->mutex);
}

/* Where the head ends, or 0. The request is kept NUL-terminated for the text functions. */
static size_t head_length(const struct connection *connection)
{
    const char *end = strstr(connection->request, "\r\n\r\n");
    return end == NULL ? 0 : (size_t)(end - connection->request) + 4;
}

static size_t body_length(const struct connection *connection)
{
    const char *header = strstr(connection->request, "\r\nContent-Length: ");
    return header == NULL ? 0 : strtoul(header + 18, NULL, 10);
}

/* A ClientHello on plain HTTP is answered like any other nonsense: at once. */
static bool is_tls_hello(const struct connection *connection)
{
    return connection->length > 0 && connection->request[0] == 0x16;
}

/* Reads one whole request. False: the client has gone, or the path wants a reset in the middle. */
static bool read_request(struct connection *connection)
{
    connection->length = 0;
    memset(connection->request, 0, sizeof connection->request);
    for (;;) {
        char *request = connection->request;
        if (strstr(request, "/reset-at-head") != NULL) {
            reset_on_close(connection);
            return false;
        }
        if (is_tls_hello(connection)) {
            answer_text(connection, "HTTP/1.1 400 Bad Request\r\n\r\n");
            return false;
        }
        const size_t head = head_length(connection);
        if (head > 0 && connection->length >= head + body_length(connection)) return true;
        const size_t room = sizeof connection->request - 1 - connection->length;
        const long received = receive(connection, request + connection->length, room);
        if (received <= 0) return false;
        connection->length += (size_t)received;
    }
}

static bool serve_one(struct connection *connection)
{
    if (!read_request(connection)) return false;
    char path[PATH_MAX_BYTES] = "";
    (void)sscanf(connection->request, "%*s %31[^ ?]", path);
    count_request(connection->server, path);
    for (size_t i = 0; i < COUNT_OF(BEHAVIOURS); i++) {
        if (strcmp(path, BEHAVIOURS[i].path) == 0) return BEHAVIOURS[i].act(connection);
    }
    answer_text(connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    return true;
}

/* The descriptor is shut here and closed by http_server_stop, so that its number stays ours. */
static void *serve(void *user)
{
    struct connection *connection = user;
    const bool is_up = connection->ssl == NULL || SSL_accept(connection->ssl) == 1;
    while (is_up && serve_one(connection)) {}
    struct linger linger;
    socklen_t size = sizeof linger;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 &&
        linger.l_onoff != 0) {
        /* Only closing resets, so another descriptor takes the number over in the same call. */
        const int filler = dup(connection->server->listen_fd);
        (void)dup2(filler, connection->fd);
        (void)close(filler);
    } else {
        (void)shutdown(connection->fd, SHUT_RDWR);
    }
    return NULL;
}

static void *accept_connections(void *user)
{
    struct http_server *server = user;
    for (;;) {
        const int fd = accept(server->listen_fd, NULL, NULL);
        if (fd < 0) return NULL;
        const int one = 1; /* head and body are two writes: without it each answer takes 40 ms */
        INVARIANT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
        struct connection *connection = memory_allocate(sizeof *connection);
        connection->server = server;
        connection->fd = fd;
        if (server->tls != NULL) {
            connection->ssl = SSL_new(server->tls);
            INVARIANT(connection->ssl != NULL && SSL_set_fd(connection->ssl, fd) == 1);
        }
        (void)pthread_mutex_lock(&server->mutex);
        INVARIANT(server->connection_count < CONNECTION_MAX);
        server->connections[server->connection_count++] = connection;
        (void)pthread_mutex_unlock(&server->mutex);
        INVARIANT(pthread_create(&connection->thread, NULL, serve, connection) == 0);
    }
}

/* --- the server ------------------------------------------------------------------------------- */

struct http_server *http_server_start(const char *ca_path)
{
    (void)signal(SIGPIPE, SIG_IGN);
    struct http_server *server = memory_allocate(sizeof *server);
    INVARIANT(pthread_mutex_init(&server->mutex, NULL) == 0);
    INVARIANT(pthread_cond_init(&server->changed, NULL) == 0);
    if (ca_path != NULL) server->tls = http_server_tls_create(ca_path);

    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    INVARIANT(bind(server->listen_fd, (struct sockaddr *)&address, size) == 0);
    INVARIANT(getsockname(server->listen_fd, (struct sockaddr *)&address, &size) == 0);
    INVARIANT(listen(server->listen_fd, 1024) == 0);
    server->port = ntohs(address.sin_port);
    INVARIANT(pthread_create(&server->acceptor, NULL, accept_connections, server) == 0);
    return server;
}

void http_server_stop(struct http_server *server)
{
    (void)shutdown(server->listen_fd, SHUT_RDWR);
    (void)pthread_join(server->acceptor, NULL);
    (void)pthread_mutex_lock(&server->mutex);
    server->stopping = true;
    (void)pthread_cond_broadcast(&server->changed);
    for (int i = 0; i < server->connection_count; i++) {
        (void)shutdown(server->connections[i]->fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&server->mutex);
    for (int i = 0; i < server->connection_count; i++) {
        struct connection *connection = server->connections[i];
        (void)pthread_join(connection->thread, NULL);
        SSL_free(connection->ssl);
        (void)close(connection->fd);
        free(connection);
    }
    (void)close(server->listen_fd);
    SSL_CTX_free(server->tls);
    (void)pthread_mutex_destroy(&server->mutex);
    (void)pthread_cond_destroy(&server->changed);
    free(server);
}

int http_server_port(const struct http_server *server)
{
    return server->port;
}

void http_server_set_barrier(struct http_server *server, int count)
{
    (void)pthread_mutex_lock(&server->mutex);
    server->barrier = count;
    (void)pthread_mutex_unlock(&server->mutex);
}

int http_server_requests(struct http_server *server, const char *path)
{
    int requests = 0;
    (void)pthread_mutex_lock(&server->mutex);
    for (size_t i = 0; i < PATH_COUNT_MAX; i++) {
        const struct path_count *count = &server->counts[i];
        if (path == NULL || strcmp(count->path, path) == 0) requests += count->requests;
    }
    (void)pthread_mutex_unlock(&server->mutex);
    return requests;
}

int http_server_connections(struct http_server *server)
{
    (void)pthread_mutex_lock(&server->mutex);
    const int count = server->connection_count;
    (void)pthread_mutex_unlock(&server->mutex);
    return count;
}
