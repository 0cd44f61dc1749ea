/*
 * ops/sim/event.h: one webhook event, from the change that it tells of until the receiver
 * acknowledged it. Its body is rendered from the charge and the state it had, so that a
 * delivery after a restart sends the same bytes again.
 */
#ifndef ONCEPAY_SIM_EVENT_H
#define ONCEPAY_SIM_EVENT_H

#include "ops/sim/charge.h"
#include "ops/sim/deadline.h"

struct event {
    struct event *previous; /* list of all that wait */
    struct event *next;
    struct event *next_ready;
    const struct account *account;
    const struct charge *charge; /* NULL: body is set */
    char id[IDENT_SIZE];
    char type[64];
    enum charge_state state; /* the charge's when this happened */
    char decline_code[CHARGE_CODE_SIZE];
    int64_t created_s;
    char *body;           /* NULL: rendered from the charge */
    bool is_acknowledged; /* only while the log is read */

    /* Delivery. */
    struct deadline deadline;
    void *sender;
    int64_t timestamp_offset_s;
    bool is_forged;
    bool is_copy; /* sent once, whatever the answer; never acknowledged in the log */
    unsigned tries;
};

#endif
