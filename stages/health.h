/*
 * stages/health.h: /livez, /readyz and /metrics of one process, on a thread of its own. A process
 * that waits for infrastructure is alive and says in /readyz what it waits for; it never
 * crash-loops. Gauges that need the database are read at scrape time, at most every few seconds,
 * over a connection of their own and from small tables only.
 */
#ifndef ONCEPAY_STAGES_HEALTH_H
#define ONCEPAY_STAGES_HEALTH_H

#include "pipeline/base.h"

struct health;
struct store;

struct health_options {
    const char *program;   /* "oncepay-intake" */
    const char *address;   /* where to listen */
    int port;              /* 0: ephemeral */
    const char *port_file; /* where the port is written; NULL or "": nowhere */
    struct store *gauges;  /* taken over; NULL: no gauges from the database */
    int64_t stuck_after_s;
};

/* NULL if the port cannot be had (logged). */
struct health *health_open(const struct health_options *options);
void health_close(struct health *health);

/*
 * The part ("postgres", "nats", "consumer") is well (problem NULL or "") or is waited for. Copied;
 * any thread.
 */
void health_set(struct health *health, const char *part, const char *problem);
bool health_is_ready(struct health *health);
/* The port it listens on. */
int health_port(struct health *health);

struct health_answer {
    int status;               /* HTTP */
    const char *content_type; /* static */
    char *body;               /* the caller frees */
    size_t length;
};
/*
 * What GET of "/livez", "/readyz" or "/metrics" answers; false for any other path. For a server of
 * the process's own (the gateway). Any thread; waits at most a second for fresh gauges.
 */
bool health_answer_make(struct health *health, const char *path,
                        struct health_answer *out) MUST_CHECK;

#endif
