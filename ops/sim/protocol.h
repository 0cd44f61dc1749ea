/*
 * ops/sim/protocol.h: one PSP's way of speaking, as the rest of the simulator needs it. A new PSP
 * is one more of these, in files of its own, and a line in protocol.c.
 */
#ifndef ONCEPAY_SIM_PROTOCOL_H
#define ONCEPAY_SIM_PROTOCOL_H

#include "ops/sim/event.h"
#include "ops/sim/server.h"

struct sim;

/* All mandatory. */
struct protocol {
    const char *name;        /* "stripe" */
    const char *path_prefix; /* what follows /<account>: "/v1/" */
    const char *object_prefix;
    const char *charge_prefix;

    /* Answers a request; path starts with path_prefix. */
    void (*handle)(struct sim *sim, const char *account, const char *path,
                   struct exchange *exchange);
    /* The event that tells of a charge's new state; NULL if none does. */
    const char *(*event_type)(enum charge_state state);
    /* The state that an event of this type shows. False: it shows the present one. */
    bool (*event_state)(const char *type, enum charge_state *out);
    /* The body of a webhook. charge is a snapshot and may be nobody's. */
    void (*render_event)(const struct event *event, const struct charge *charge,
                         struct textbuf *out);
    /* The signature header line over body at that time; forged signs with another secret. */
    void (*sign)(const char *account, bool is_forged, int64_t now_s, struct span body,
                 struct textbuf *out);
};

const struct protocol *protocol_of_account(const struct account *account);
/* By the path behind the account; NULL if nobody speaks like this. */
const struct protocol *protocol_of_path(const char *path);
const struct protocol *protocol_default(void);

#endif
