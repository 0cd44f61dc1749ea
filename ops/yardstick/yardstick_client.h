/*
 * ops/yardstick/yardstick_client.h: one connection that writes payments, batch after batch, each
 * transaction committed before the next one begins. A thread of its own runs it.
 */
#ifndef ONCEPAY_OPS_YARDSTICK_CLIENT_H
#define ONCEPAY_OPS_YARDSTICK_CLIENT_H

#include <stdatomic.h>

#include "ops/yardstick/yardstick_script.h"

/* What the clients of one run share. */
struct yardstick_run {
    const char *url;
    const struct script *script;
    struct yardstick_names names;
    size_t batch;    /* payments a transaction */
    size_t payments; /* stop there; 0: go on until told to stop */
    atomic_size_t started;
    atomic_size_t written; /* to the end, committed */
    atomic_bool is_stopped;
    atomic_bool is_failed;
};

/* Thread function: argument is the struct yardstick_run. A failure is said on stderr. */
void *yardstick_client_main(void *argument);

#endif
