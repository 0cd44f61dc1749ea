/*
 * ops/faultproxy/link.h: one connection through a pair: the client's socket, the server's, and a
 * flow each way. A link that is over says so and is destroyed by its pair.
 */
#ifndef ONCEPAY_FAULTPROXY_LINK_H
#define ONCEPAY_FAULTPROXY_LINK_H

#include <poll.h>

#include "ops/faultproxy/flow.h"
#include "ops/faultproxy/pair.h"

enum { LINK_FDS = 2 };

enum link_server {
    LINK_SERVER_NONE = 0,   /* not connected yet (stall), or gone (half-open) */
    LINK_SERVER_CONNECTING, /* connect is under way */
    LINK_SERVER_OPEN,
};

struct link {
    struct link *next;
    struct pair *pair;
    int client;
    int server; /* -1 in LINK_SERVER_NONE */
    enum link_server state;
    struct flow up;    /* client to server */
    struct flow down;  /* server to client */
    uint64_t break_at; /* it is reset when so many bytes have gone through; 0: never */
    uint64_t through;
    bool is_half_open; /* once so, for ever: its bytes are lost */
    bool is_counted_stalled;
    bool is_over;
};

/* Takes the client's socket over. */
struct link *link_create(struct pair *pair, int client);
/* is_reset: RST to both, else FIN. */
void link_destroy(struct link *link, bool is_reset);

/* After a change of the pair's settings. */
void link_settle(struct link *link);
void link_poll(struct link *link, struct pollfd fds[LINK_FDS], int64_t now_us, int64_t *out_due_us);
void link_service(struct link *link, const struct pollfd fds[LINK_FDS], int64_t now_us);

#endif
