/* stages/recover/recover_lane.c: see recover_lane.h. */
#include "stages/recover/recover_lane.h"

#include "pipeline/clock.h"
#include "pipeline/log.h"

enum { MESSAGES_WANTED = 16 };

bool recover_lane_open(struct recover_lane *self, struct stage *stage,
                       const struct config_account *account, struct recover_policies *policies,
                       int *out_exit_code)
{
    *self = (struct recover_lane){ .policies = policies };
    const struct config_limits *limits = &account->limits;
    const struct config_timers *timers = &stage->config.timers;
    const size_t calls_max = (size_t)(limits->lookups_concurrent + limits->creates_concurrent);
    if (!psp_lane_open(&self->lane, stage, account, policies->items[0], calls_max,
                       (size_t)stage->config.stages.recover.batch_max)) {
        *out_exit_code = 2;
        return false;
    }
    self->limits = recovery_limits_of(timers, &self->lane.psp->capability);
    const int64_t now_us = clock_monotonic_us();
    budget_init(&self->lookups, limits->lookups_per_s, limits->lookups_concurrent, now_us);
    budget_init(&self->creates, limits->creates_per_s, limits->creates_concurrent, now_us);
    self->consumer = stage_consumer_open(stage, "PAY_RECOVER", account->id, out_exit_code);
    return self->consumer != NULL;
}

void recover_lane_close(struct recover_lane *self)
{
    bus_consumer_close(self->consumer);
    psp_lane_close(&self->lane);
}

enum status recover_lane_service(struct recover_lane *self)
{
    struct stage *stage = self->lane.stage;
    enum status status = STATUS_OK;
    if (!self->is_draining) {
        const int64_t now_us = clock_monotonic_us();
        const bool is_away = !store_is_connected(self->lane.store);
        health_set(stage->health, self->lane.health_part, is_away ? "PostgreSQL is away" : NULL);
        bus_consumer_pause(self->consumer, is_away);
        status = bus_consumer_want(self->consumer, MESSAGES_WANTED);
        health_set(stage->health, self->lane.account->id,
                   status == STATUS_OK ? NULL : bus_consumer_problem(self->consumer));
        recover_inbox_service(self, now_us);
        recover_fences_service(self, now_us);
        recover_tasks_service(self, now_us);
    }
    psp_lane_service(&self->lane);
    return status == STATUS_STOP ? STATUS_STOP : STATUS_OK;
}

void recover_lane_drain(struct recover_lane *self)
{
    self->is_draining = true;
    struct command_work *waiting = command_list_take(&self->evidence);
    while (waiting != NULL) {
        struct command_work *command = waiting;
        waiting = waiting->next;
        command_work_finish(self->lane.stage, command, 100, "hand_back");
    }
    bus_consumer_drain(self->consumer, 1000);
}

int64_t recover_lane_wake_us(const struct recover_lane *self)
{
    int64_t wake_us = INT64_MAX;
    if (!self->is_claiming && self->next_claim_us < wake_us) wake_us = self->next_claim_us;
    if (!self->is_reading_inbox && self->next_sweep_us < wake_us) wake_us = self->next_sweep_us;
    if (!self->is_reading_fences && self->next_fences_us < wake_us) wake_us = self->next_fences_us;
    return wake_us;
}
