/*
 * ops/faultproxy/control.h: the proxy's commands, a line each, each answered by one line that
 * begins with "ok" or "error". NAME may be a shell pattern ("*-pg").
 *
 *   listen NAME PORT TARGET_PORT   a new pair
 *   set NAME SETTING=NUMBER…       see fault.h
 *   clear NAME                     all its settings are off
 *   cut NAME, reset NAME           ends its connections, with FIN or RST; "ok COUNT"
 *   stats                          "ok {…}": per pair what really happened
 */
#ifndef ONCEPAY_FAULTPROXY_CONTROL_H
#define ONCEPAY_FAULTPROXY_CONTROL_H

#include "ops/faultproxy/pair.h"

struct control {
    struct pair *pairs;
    uint64_t seed;
};

/* Carries out one line (without its newline, which is cut up) and writes the answer. */
void control_execute(struct control *control, char *line, FILE *out);

#endif
