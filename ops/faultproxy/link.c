/* ops/faultproxy/link.c: see link.h. */
#include "ops/faultproxy/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static void close_socket(int fd, bool is_reset)
{
    if (fd < 0) return;
    const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
    if (is_reset) (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)close(fd);
}

static void start_connecting(struct link *link)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(link->pair->target_port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    const int one = 1;
    link->server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    INVARIANT(link->server >= 0);
    (void)setsockopt(link->server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->state = LINK_SERVER_CONNECTING;
    if (connect(link->server, (const struct sockaddr *)&address, sizeof address) == 0 ||
        errno == EINPROGRESS)
        return;
    link->pair->counts.unreached++;
    link->is_over = true;
}

static void draw_break(struct link *link)
{
    const int64_t limit = link->pair->settings.break_after_bytes;
    link->break_at =
        limit == 0 ? 0 : link->through + 1 + fault_draw(&link->pair->draws, (uint64_t)limit);
}

static void lose_server(struct link *link)
{
    close_socket(link->server, true);
    link->server = -1;
    link->state = LINK_SERVER_NONE;
    link->is_half_open = true;
    link->pair->counts.half_open++;
    flow_finish(&link->up);
    flow_finish(&link->down);
}

struct link *link_create(struct pair *pair, int client)
{
    struct link *link = memory_allocate(sizeof *link);
    const int one = 1;
    link->pair = pair;
    link->client = client;
    link->server = -1;
    (void)fcntl(client, F_SETFL, O_NONBLOCK);
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pair->counts.connections++;
    draw_break(link);
    link_settle(link);
    return link;
}

void link_destroy(struct link *link, bool is_reset)
{
    if (link == NULL) return;
    close_socket(link->client, is_reset);
    close_socket(link->server, is_reset);
    flow_finish(&link->up);
    flow_finish(&link->down);
    free(link);
}

/* A half-open connection ends with the fault: what it lost cannot be made good. */
void link_settle(struct link *link)
{
    const struct fault_settings *settings = &link->pair->settings;
    if (link->is_half_open && !settings->half_open) link->is_over = true;
    if (link->is_over) return;
    if (settings->half_open) {
        if (!link->is_half_open) lose_server(link);
    } else if (!settings->stall) {
        link->is_counted_stalled = false;
        if (link->state == LINK_SERVER_NONE) start_connecting(link);
    }
    const bool is_wanted = settings->break_after_bytes > 0;
    if (is_wanted != (link->break_at != 0)) draw_break(link);
}

void link_poll(struct link *link, struct pollfd fds[LINK_FDS], int64_t now_us, int64_t *out_due_us)
{
    const bool is_stalled = link->pair->settings.stall != 0 && !link->is_half_open;
    short client = POLLRDHUP;
    short server = POLLRDHUP;
    if (link->is_half_open) {
        client = POLLIN;
    } else if (!is_stalled && link->state == LINK_SERVER_CONNECTING) {
        server = POLLOUT;
    } else if (!is_stalled && link->state == LINK_SERVER_OPEN) {
        const int64_t up_us = flow_due_us(&link->up);
        const int64_t down_us = flow_due_us(&link->down);
        client =
            (short)((flow_has_room(&link->up) ? POLLIN : 0) | (down_us <= now_us ? POLLOUT : 0));
        server =
            (short)((flow_has_room(&link->down) ? POLLIN : 0) | (up_us <= now_us ? POLLOUT : 0));
        const int64_t due_us = up_us < down_us ? up_us : down_us;
        if (due_us > now_us && due_us < *out_due_us) *out_due_us = due_us;
    }
    /* Of a side that has ended and is not written to, poll would say so again and again. */
    const bool is_client_idle = client == 0 && link->up.is_ended;
    const bool is_server_idle = server == 0 && link->down.is_ended;
    fds[0] = (struct pollfd){ .fd = is_client_idle ? -1 : link->client, .events = client };
    fds[1] = (struct pollfd){ .fd = is_server_idle ? -1 : link->server, .events = server };
}

/* The client of a half-open connection writes on, into nothing. */
static void swallow(struct link *link)
{
    uint8_t lost[4096];
    const ssize_t length = recv(link->client, lost, sizeof lost, MSG_DONTWAIT);
    if (length > 0) {
        link->pair->counts.swallowed += (uint64_t)length;
    } else if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
        link->is_over = true;
    }
}

/* Whoever gives up in the meantime takes what was held here with it, as behind a firewall. */
static void hold(struct link *link, const struct pollfd fds[LINK_FDS])
{
    const short gone = POLLRDHUP | POLLHUP | POLLERR;
    if (!link->is_counted_stalled) {
        link->is_counted_stalled = true;
        link->pair->counts.stalled++;
    }
    if ((fds[0].revents & gone) != 0 || (fds[1].revents & gone) != 0) link->is_over = true;
}

static void finish_connecting(struct link *link, short events)
{
    int error = 0;
    socklen_t size = sizeof error;
    if ((events & (POLLOUT | POLLERR | POLLHUP)) == 0) return;
    if (getsockopt(link->server, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
        link->state = LINK_SERVER_OPEN;
        return;
    }
    link->pair->counts.unreached++;
    link->is_over = true;
}

static bool is_broken_now(struct link *link, uint64_t bytes_before)
{
    link->through += link->pair->counts.bytes - bytes_before;
    if (link->break_at == 0 || link->through < link->break_at) return false;
    link->pair->counts.broken++;
    return true;
}

static void move_bytes(struct link *link, const struct pollfd fds[LINK_FDS], int64_t now_us)
{
    struct pair *pair = link->pair;
    const struct flow_rules rules = { &pair->settings, &pair->counts, &pair->draws };
    const short readable = POLLIN | POLLHUP | POLLERR;
    const uint64_t bytes_before = pair->counts.bytes;
    enum flow_step step = FLOW_MOVED;
    if ((fds[0].revents & readable) != 0 && flow_has_room(&link->up))
        step = flow_read(&link->up, link->client, &rules, now_us);
    if (step == FLOW_MOVED && (fds[1].revents & readable) != 0 && flow_has_room(&link->down))
        step = flow_read(&link->down, link->server, &rules, now_us);
    if (is_broken_now(link, bytes_before)) step = FLOW_BROKEN;
    if (step == FLOW_MOVED) step = flow_write(&link->up, link->server, &rules, now_us);
    if (step == FLOW_MOVED) step = flow_write(&link->down, link->client, &rules, now_us);
    const bool is_done = link->up.is_passed_on && link->down.is_passed_on;
    if (step == FLOW_BROKEN || is_done) link->is_over = true;
}

void link_service(struct link *link, const struct pollfd fds[LINK_FDS], int64_t now_us)
{
    if (link->is_over) return;
    if (link->is_half_open) {
        if (fds[0].revents != 0) swallow(link);
        return;
    }
    if (link->pair->settings.stall) {
        hold(link, fds);
        return;
    }
    switch (link->state) {
    case LINK_SERVER_NONE:
        return;
    case LINK_SERVER_CONNECTING:
        if ((fds[0].revents & (POLLHUP | POLLERR)) != 0) link->is_over = true;
        finish_connecting(link, fds[1].revents);
        return;
    case LINK_SERVER_OPEN:
        move_bytes(link, fds, now_us);
        return;
    }
    UNREACHABLE("link state out of range");
}
