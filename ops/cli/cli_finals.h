/*
 * ops/cli/cli_finals.h: counts the payments that end, by listening to their events as they are
 * published: nothing is asked of the database.
 */
#ifndef ONCEPAY_OPS_CLI_CLI_FINALS_H
#define ONCEPAY_OPS_CLI_CLI_FINALS_H

#include "adapters/nats/bus_nats.h"
#include "pipeline/id.h"

struct cli_finals {
    struct bus_subscription *events;
    uint64_t count;
    bool is_unique; /* each payment counts once, however often its event is published */
    struct uuid *seen;
    size_t seen_count;
    size_t seen_size; /* a power of two; 0: none yet */
};

enum status cli_finals_open(struct cli_finals *finals, struct bus *bus, bool is_unique) MUST_CHECK;
void cli_finals_close(struct cli_finals *finals);
/* Takes what has arrived. */
void cli_finals_take(struct cli_finals *finals);

/* One event, by its subject and payment ("" when it names none). */
void cli_finals_count(struct cli_finals *finals, const char *subject, const char *payment);

#endif
