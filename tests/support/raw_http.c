/* tests/support/raw_http.c: see raw_http.h. */
#include "tests/support/raw_http.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 1 << 20, WAIT_S = 20 };

int raw_http_send(int port, const char *bytes, size_t length)
{
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in where = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const struct timeval wait = { .tv_sec = WAIT_S };
    if (descriptor < 0 || connect(descriptor, (const struct sockaddr *)&where, sizeof where) != 0) {
        perror("raw_http: connect");
        abort();
    }
    (void)setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    for (size_t sent = 0; sent < length;) {
        const ssize_t count = send(descriptor, bytes + sent, length - sent, MSG_NOSIGNAL);
        if (count <= 0) break; /* refused half-way: the answer says why */
        sent += (size_t)count;
    }
    return descriptor;
}

struct raw_http_answer raw_http_receive(int descriptor, struct arena *arena)
{
    char *text = arena_allocate(arena, ANSWER_BYTES_MAX + 1);
    size_t length = 0;
    ssize_t count = 0;
    while (length < ANSWER_BYTES_MAX &&
           (count = recv(descriptor, text + length, ANSWER_BYTES_MAX - length, 0)) > 0) {
        length += (size_t)count;
    }
    (void)close(descriptor);
    struct raw_http_answer answer = { .status = 0, .head = text, .body = "" };
    if (strncmp(text, "HTTP/1.1 ", 9) == 0) answer.status = (int)strtol(text + 9, NULL, 10);
    char *split = strstr(text, "\r\n\r\n");
    if (split != NULL) {
        *split = '\0';
        answer.body = split + 4;
    }
    return answer;
}

struct raw_http_answer raw_http(int port, const char *method, const char *path, const char *headers,
                                struct span body, struct arena *arena)
{
    const char *head = arena_format(arena,
                                    "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                    "Content-Length: %zu\r\n%s\r\n",
                                    method, path, body.length, headers == NULL ? "" : headers);
    const size_t head_length = strlen(head);
    char *bytes = arena_allocate(arena, head_length + body.length + 1);
    memcpy(bytes, head, head_length);
    if (body.length > 0) memcpy(bytes + head_length, body.data, body.length);
    return raw_http_receive(raw_http_send(port, bytes, head_length + body.length), arena);
}
