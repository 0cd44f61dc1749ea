/*
 * ops/faultproxy/pair.h: a port that is listened on, the port it leads to, and the connections
 * between. All on 127.0.0.1. The owner polls: pair_poll says for what, pair_service then moves
 * whatever can move.
 */
#ifndef ONCEPAY_FAULTPROXY_PAIR_H
#define ONCEPAY_FAULTPROXY_PAIR_H

#include <poll.h>

#include "ops/faultproxy/fault.h"

enum { PAIR_NAME_SIZE = 48 };

struct link;

struct pair {
    struct pair *next;
    char name[PAIR_NAME_SIZE];
    uint16_t port;
    uint16_t target_port;
    int fd; /* -1: refusing */
    struct fault_settings settings;
    struct fault_counts counts;
    uint64_t draws;
    struct link *links;
};

/* NULL: the port is taken or the name too long; errno says which (EINVAL). */
struct pair *pair_create(const char *name, uint16_t port, uint16_t target_port, uint64_t seed);
void pair_destroy(struct pair *pair);

/* After a change of settings: opens or closes the port, ends what can no longer go on. */
void pair_settle(struct pair *pair);
/* Ends all connections, with FIN or RST. Returns how many there were. */
size_t pair_cut(struct pair *pair, bool is_reset);

/* How many descriptors pair_poll may want. */
size_t pair_poll_max(const struct pair *pair);
/* Fills in what to poll for; returns how many. *out_due_us: when to come back at the latest. */
size_t pair_poll(struct pair *pair, struct pollfd *fds, int64_t now_us, int64_t *out_due_us);
/* fds as pair_poll has filled them in, polled. */
void pair_service(struct pair *pair, const struct pollfd *fds, int64_t now_us);

#endif
