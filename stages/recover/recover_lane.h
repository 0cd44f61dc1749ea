/*
 * stages/recover/recover_lane.h: recovery of one channel account: due tasks (recover_tasks.c),
 * evidence from the webhook inbox (recover_inbox.c) and fences whose worker is gone
 * (recover_fences.c). All end in the same findings.
 */
#ifndef ONCEPAY_STAGES_RECOVER_RECOVER_LANE_H
#define ONCEPAY_STAGES_RECOVER_RECOVER_LANE_H

#include "stages/command_hand.h"
#include "stages/psp_lane.h"
#include "store/task_store.h"

enum { RECOVER_POLICIES_MAX = 16 };

/* Policies by version: the loaded one, and older ones that tasks were born with. Shared by all
 * lanes. */
struct recover_policies {
    struct recovery_policy *items[RECOVER_POLICIES_MAX];
    size_t count;
};

struct recover_lane {
    struct psp_lane lane;
    struct recover_policies *policies;
    struct recovery_limits limits;
    struct bus_consumer *consumer;
    struct budget lookups;        /* retrieves */
    struct budget creates;        /* replays: they are sends */
    struct command_list evidence; /* commands that wait for their inbox rows */
    bool is_claiming;
    int64_t next_claim_us;
    bool is_reading_inbox;
    int64_t next_sweep_us;
    bool is_reading_fences;
    int64_t next_fences_us;
    bool is_draining;
};

bool recover_lane_open(struct recover_lane *self, struct stage *stage,
                       const struct config_account *account, struct recover_policies *policies,
                       int *out_exit_code) MUST_CHECK;
void recover_lane_close(struct recover_lane *self);
enum status recover_lane_service(struct recover_lane *self) MUST_CHECK;
void recover_lane_drain(struct recover_lane *self);
/* When the lane wants to run again by itself (monotonic). */
int64_t recover_lane_wake_us(const struct recover_lane *self);

/* The parts; each starts what is due and returns at once. */
void recover_tasks_service(struct recover_lane *self, int64_t now_us);
void recover_inbox_service(struct recover_lane *self, int64_t now_us);
void recover_fences_service(struct recover_lane *self, int64_t now_us);

#endif
