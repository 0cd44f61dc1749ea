/* stages/http_server.c: see http_server.h. */
#include "stages/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/log.h"

enum { HEADERS_BYTES_MAX = 32 * 1024 };

static struct addrinfo *resolve(const char *address, int port)
{
    char service[16];
    (void)snprintf(service, sizeof service, "%d", port);
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                    .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    return getaddrinfo(address, service, &hints, &found) == 0 ? found : NULL;
}

/* Under another name first, so that whoever waits for the file never reads half of it. */
static bool write_port(const char *path, int port)
{
    if (path == NULL || path[0] == '\0') return true;
    char fresh[4096];
    const int length = snprintf(fresh, sizeof fresh, "%s.%ld", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof fresh) return false;
    FILE *file = fopen(fresh, "we");
    if (file == NULL) return false;
    const bool is_written = fprintf(file, "%d\n", port) > 0;
    const bool is_closed = fclose(file) == 0;
    if (is_written && is_closed && rename(fresh, path) == 0) return true;
    (void)unlink(fresh);
    return false;
}

static struct MHD_Daemon *start(const struct http_server_options *options,
                                const struct addrinfo *where)
{
    unsigned flags = options->flags | MHD_USE_AUTO_INTERNAL_THREAD;
    if (where->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    return MHD_start_daemon(
        flags, (uint16_t)options->port, NULL, NULL, options->handle, options->self,
        MHD_OPTION_SOCK_ADDR, where->ai_addr, MHD_OPTION_CONNECTION_LIMIT, options->connections_max,
        MHD_OPTION_CONNECTION_TIMEOUT, options->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEADERS_BYTES_MAX, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1U,
        MHD_OPTION_NOTIFY_COMPLETED, options->completed, options->self, MHD_OPTION_END);
}

struct MHD_Daemon *http_server_start(const struct http_server_options *options)
{
    struct addrinfo *where = resolve(options->address, options->port);
    if (where == NULL) {
        LOG_ERROR("address to listen on is not numeric", LOG_TEXT("address", options->address));
        return NULL;
    }
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = start(options, where);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    freeaddrinfo(where);
    if (daemon == NULL) {
        LOG_ERROR("cannot listen", LOG_TEXT("address", options->address),
                  LOG_NUMBER("port", options->port));
        return NULL;
    }
    if (!write_port(options->port_file, http_server_port(daemon))) {
        LOG_ERROR("cannot write the port file", LOG_TEXT("file", options->port_file));
        MHD_stop_daemon(daemon);
        return NULL;
    }
    return daemon;
}

int http_server_port(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info == NULL ? 0 : info->port;
}

enum MHD_Result http_server_respond(struct MHD_Connection *connection,
                                    const struct http_server_answer *answer)
{
    /* A copy: libmicrohttpd's signature takes the buffer without const, whatever the mode. */
    void *copy = malloc(answer->body.length + 1);
    if (copy == NULL) return MHD_NO;
    if (answer->body.length > 0) memcpy(copy, answer->body.data, answer->body.length);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer->body.length, copy, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(copy);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
    if (answer->retry_after_s > 0) {
        char seconds[16];
        (void)snprintf(seconds, sizeof seconds, "%d", answer->retry_after_s);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    if (answer->allow != NULL) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    }
    const enum MHD_Result result = MHD_queue_response(connection, answer->status, response);
    MHD_destroy_response(response);
    return result;
}
