/* ops/sim/ledger_load.h: reads the log's lines back into the ledger at start. */
#ifndef ONCEPAY_SIM_LEDGER_LOAD_H
#define ONCEPAY_SIM_LEDGER_LOAD_H

#include "ops/sim/ledger.h"

struct ledger_load {
    struct ledger *ledger;
    struct event **events; /* in order */
    size_t event_count;
    size_t event_capacity;
    struct table events_by_id;
};

/* A logfile_reader; self is a struct ledger_load. */
const char *ledger_load_line(void *self, const char *line, size_t length);
/* Hands the events that nobody acknowledged to the ledger and frees the rest. */
void ledger_load_finish(struct ledger_load *load);

#endif
