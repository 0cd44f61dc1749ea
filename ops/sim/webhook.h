/*
 * ops/sim/webhook.h: sends signed events to <url>/<account> until somebody answers 2xx. Several
 * are in flight at once; none ever delays an API answer. Events are in the log from their birth
 * to their acknowledgement, so a restart goes on where a kill stopped.
 */
#ifndef ONCEPAY_SIM_WEBHOOK_H
#define ONCEPAY_SIM_WEBHOOK_H

#include "ops/sim/ledger.h"

#include <curl/curl.h>

enum { WEBHOOK_FLIGHTS_MAX = 32, WEBHOOK_QUEUE_MAX = 1000000 };

struct webhook_sender;

struct webhook_counts {
    size_t waiting; /* copies included, those in flight too */
    size_t in_flight;
    size_t attempts;
    size_t acknowledged;
    size_t dropped; /* the queue was full; a restart finds them in the log */
};

/* url NULL or "": no webhooks, and events are not even noted. */
struct webhook_sender *webhook_create(const char *url, struct ledger *ledger,
                                      struct fault_set *faults, struct deadline_queue *deadlines);
void webhook_destroy(struct webhook_sender *sender);
bool webhook_is_on(const struct webhook_sender *sender);
/* Takes over the ledger's unacknowledged events. */
void webhook_resume(struct webhook_sender *sender);

/* Notes and queues the event that tells of the charge's present state, as the fault rules say. */
void webhook_emit(struct webhook_sender *sender, const struct charge *charge);

/* An event that a test asks for. The fault rules leave it alone. */
struct webhook_order {
    const struct account *account;
    const struct charge *snapshot; /* as the event shall show it; copied */
    const char *type;
    int64_t created_s;
    int64_t timestamp_offset_s;
    int64_t delay_ms;
    bool is_forged;
    unsigned copies; /* besides the first */
};
/* Notes and queues it; out_id gets its event id. */
void webhook_emit_order(struct webhook_sender *sender, const struct webhook_order *order,
                        char out_id[IDENT_SIZE]);

/* The curl handle to poll; then webhook_run. */
CURLM *webhook_multi(const struct webhook_sender *sender);
void webhook_run(struct webhook_sender *sender);

/* Drops all events, those in flight too. */
void webhook_clear(struct webhook_sender *sender);
struct webhook_counts webhook_counts(const struct webhook_sender *sender);

#endif
