/* ops/faultproxy/pair.c: see pair.h. */
#include "ops/faultproxy/pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ops/faultproxy/link.h"

enum { BACKLOG = 256 };

static bool open_port(struct pair *pair)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(pair->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    const int one = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    INVARIANT(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, BACKLOG) != 0) {
        const int why = errno;
        (void)close(fd);
        errno = why;
        return false;
    }
    pair->fd = fd;
    return true;
}

struct pair *pair_create(const char *name, uint16_t port, uint16_t target_port, uint64_t seed)
{
    errno = EINVAL;
    if (strlen(name) >= PAIR_NAME_SIZE) return NULL;
    struct pair *pair = memory_allocate(sizeof *pair);
    (void)snprintf(pair->name, sizeof pair->name, "%s", name);
    pair->port = port;
    pair->target_port = target_port;
    pair->draws = fault_seed(seed, name);
    if (open_port(pair)) return pair;
    free(pair);
    return NULL;
}

void pair_destroy(struct pair *pair)
{
    if (pair == NULL) return;
    (void)pair_cut(pair, true);
    if (pair->fd >= 0) (void)close(pair->fd);
    free(pair);
}

static void drop_those_over(struct pair *pair)
{
    struct link **at = &pair->links;
    while (*at != NULL) {
        struct link *link = *at;
        if (!link->is_over) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        /* A connection that came to its end on both sides needs no RST; any other one is reset. */
        link_destroy(link, !(link->up.is_passed_on && link->down.is_passed_on));
    }
}

void pair_settle(struct pair *pair)
{
    if (pair->settings.refuse != 0 && pair->fd >= 0) {
        (void)close(pair->fd);
        pair->fd = -1;
        pair->counts.refusing++;
    } else if (pair->settings.refuse == 0 && pair->fd < 0) {
        INVARIANT(open_port(pair)); /* it was ours until a moment ago */
    }
    for (struct link *link = pair->links; link != NULL; link = link->next) link_settle(link);
    drop_those_over(pair);
}

size_t pair_cut(struct pair *pair, bool is_reset)
{
    size_t count = 0;
    while (pair->links != NULL) {
        struct link *link = pair->links;
        pair->links = link->next;
        link_destroy(link, is_reset);
        count++;
    }
    pair->counts.cut += count;
    return count;
}

size_t pair_poll_max(const struct pair *pair)
{
    size_t count = 1;
    for (const struct link *link = pair->links; link != NULL; link = link->next) count += LINK_FDS;
    return count;
}

size_t pair_poll(struct pair *pair, struct pollfd *fds, int64_t now_us, int64_t *out_due_us)
{
    size_t count = 0;
    fds[count++] = (struct pollfd){ .fd = pair->fd, .events = POLLIN };
    for (struct link *link = pair->links; link != NULL; link = link->next) {
        link_poll(link, &fds[count], now_us, out_due_us);
        count += LINK_FDS;
    }
    return count;
}

static void accept_all(struct pair *pair)
{
    for (;;) {
        const int client = accept4(pair->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) return;
        struct link *link = link_create(pair, client);
        link->next = pair->links;
        pair->links = link;
    }
}

void pair_service(struct pair *pair, const struct pollfd *fds, int64_t now_us)
{
    const struct pollfd *at = fds + 1;
    for (struct link *link = pair->links; link != NULL; link = link->next) {
        link_service(link, at, now_us);
        at += LINK_FDS;
    }
    drop_those_over(pair);
    if (pair->fd >= 0 && (fds[0].revents & POLLIN) != 0) accept_all(pair);
}
