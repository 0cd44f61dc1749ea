/* stages/recover/recover_main.c: oncepay-recover: finds out how unknown attempts ended. */
#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/psp_loop.h"
#include "stages/recover/recover_lane.h"

enum { TIMERS_US = 1000 * 1000, TIMERS_MAX = 100 };

struct recover {
    struct stage stage;
    struct recover_policies policies;
    struct recover_lane *lanes;
    size_t count;
    bool is_lifting;
    int64_t next_timers_us;
};

static void report_lag(struct recover *self)
{
    int64_t waiting = 0;
    for (size_t i = 0; i < self->count; i++) {
        struct bus_lag lag;
        bus_consumer_lag(self->lanes[i].consumer, &lag);
        waiting += (int64_t)(lag.pending + lag.ack_pending);
    }
    metrics_set(METRIC_STAGE_LAG, waiting, METRICS_LABELS(self->stage.name));
}

/* What the age of an open task is compared with: the policy's own limit. */
static void show_limits(const struct recover *self)
{
    const struct config *config = &self->stage.config;
    for (size_t i = 0; i < config->account_count; i++) {
        const struct config_account *account = &config->accounts[i];
        for (size_t k = 0; k < account->methods.count; k++) {
            const char *method = account->methods.items[k];
            const struct recovery_rule *rule = recovery_policy_rule(
                self->policies.items[0], account->psp, account->id, method, OPERATION_CREATE);
            if (rule == NULL) continue;
            metrics_set(METRIC_RECOVERY_SLA, rule->unknown_age_max_s * CLOCK_SECOND_US,
                        METRICS_LABELS(account->id, method));
        }
    }
}

static void on_lifted(struct store_job *job, enum status status, struct store_result *results)
{
    struct recover *self = job->owner;
    self->is_lifting = false;
    self->next_timers_us = clock_monotonic_us() + TIMERS_US;
    if (status == STATUS_OK && result_rows(&results[0]) > 0) {
        LOG_INFO("holds lifted: the late-arrival window has passed",
                 LOG_NUMBER("count", (int64_t)result_rows(&results[0])));
    }
}

/* Timers belong to no account: the first lane's connection carries them. */
static void lift_holds(struct recover *self, int64_t now_us)
{
    if (self->is_lifting || now_us < self->next_timers_us) return;
    struct store_job *job = store_job_create(on_lifted, self);
    struct sql_call *call = store_job_call(job);
    sql_call_begin(call, STMT_TIMER_LIFT_HOLD, &job->arena);
    sql_bind_int4(call, TIMERS_MAX);
    self->is_lifting = true;
    store_queue_push(&self->lanes[0].lane.queue, job);
}

static void drain(struct recover *self, struct psp_loop *loop)
{
    const int64_t until_us =
        clock_monotonic_us() + self->stage.config.timers.drain_s * CLOCK_SECOND_US;
    for (size_t i = 0; i < self->count; i++) recover_lane_drain(&self->lanes[i]);
    bool is_idle = false;
    while (!is_idle && clock_monotonic_us() < until_us) {
        is_idle = true;
        psp_loop_begin(loop, &self->stage);
        for (size_t i = 0; i < self->count; i++) {
            (void)!recover_lane_service(&self->lanes[i]);
            psp_loop_add(loop, &self->lanes[i].lane);
            is_idle = is_idle && psp_lane_is_idle(&self->lanes[i].lane);
        }
        if (!is_idle) psp_loop_wait(loop, &self->stage);
    }
    (void)!bus_publish_flush(self->stage.bus, 2000);
}

static int run(struct recover *self)
{
    int exit_code = 0;
    struct psp_loop loop = { 0 };
    while (!stage_stop && exit_code == 0) {
        psp_loop_begin(&loop, &self->stage);
        lift_holds(self, clock_monotonic_us());
        for (size_t i = 0; i < self->count; i++) {
            if (recover_lane_service(&self->lanes[i]) == STATUS_STOP) exit_code = 3;
            psp_loop_add(&loop, &self->lanes[i].lane);
            psp_loop_wake(&loop, recover_lane_wake_us(&self->lanes[i]));
        }
        report_lag(self);
        psp_loop_wait(&loop, &self->stage);
    }
    drain(self, &loop);
    psp_loop_finish(&loop);
    return exit_code;
}

static void close_all(struct recover *self, size_t opened)
{
    for (size_t i = 0; i < opened; i++) recover_lane_close(&self->lanes[i]);
    free(self->lanes);
    for (size_t i = 0; i < self->policies.count; i++) {
        recovery_policy_finish(self->policies.items[i]);
        free(self->policies.items[i]);
    }
    stage_close(&self->stage);
}

int main(int argc, char **argv)
{
    struct recover self = { .count = 0 };
    int exit_code = 0;
    if (!stage_open(&self.stage, "recover", argc, argv, &exit_code)) return exit_code;
    self.count = self.stage.config.account_count;
    self.lanes = memory_allocate(self.count * sizeof *self.lanes);
    self.policies.items[self.policies.count++] = memory_allocate(sizeof(struct recovery_policy));
    bool is_open = psp_policy_open(&self.stage, self.policies.items[0]);
    if (!is_open && !stage_stop) exit_code = 2;
    size_t opened = 0;
    for (; is_open && opened < self.count; opened++) {
        is_open =
            recover_lane_open(&self.lanes[opened], &self.stage, &self.stage.config.accounts[opened],
                              &self.policies, &exit_code);
    }
    if (is_open) {
        show_limits(&self);
        exit_code = run(&self);
    }
    close_all(&self, opened);
    LOG_INFO("stopped", LOG_NUMBER("exit_code", exit_code));
    return exit_code;
}
