/*
 * stages/relay/relay_loop.h: the relay's own loop. One relay works per payment shard; further ones
 * stand by and take over when its session is gone. Each round: what became of publishes, what is
 * new, what may go out, and now and then lost commands, stuck work, streams, marks, partitions.
 */
#ifndef ONCEPAY_STAGES_RELAY_RELAY_LOOP_H
#define ONCEPAY_STAGES_RELAY_RELAY_LOOP_H

#include "stages/stage.h"

/* Runs until stopped. Returns main's exit code. */
int relay_loop_run(struct stage *stage);

#endif
