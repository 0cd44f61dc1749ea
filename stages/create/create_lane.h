/*
 * stages/create/create_lane.h: the creates of one channel account: commands that wait, the fence,
 * the call. Protocol C in order: budget first, fence second, send at once; the message is acked
 * after the fence, and what becomes of the call is the findings' business.
 */
#ifndef ONCEPAY_STAGES_CREATE_CREATE_LANE_H
#define ONCEPAY_STAGES_CREATE_CREATE_LANE_H

#include "stages/command_hand.h"
#include "stages/psp_lane.h"

struct create_lane {
    struct psp_lane lane;
    struct bus_consumer *consumer;
    char durable[SUBJECT_TOKEN_LENGTH_MAX + 8];
    struct budget budget;
    struct command_list waiting; /* for the fence */
    bool is_fencing;
    bool is_draining;
};

/* False: logged; *out_exit_code says how to leave. */
bool create_lane_open(struct create_lane *self, struct stage *stage,
                      const struct config_account *account, const struct recovery_policy *policy,
                      int *out_exit_code) MUST_CHECK;
void create_lane_close(struct create_lane *self);

/* Takes what waits, fences what the budget allows, moves calls and results on. STATUS_STOP: the
 * topology differs. */
enum status create_lane_service(struct create_lane *self) MUST_CHECK;
/* Stops taking and hands back what is not fenced. */
void create_lane_drain(struct create_lane *self);

#endif
