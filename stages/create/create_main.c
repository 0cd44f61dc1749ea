/* stages/create/create_main.c: oncepay-create: sends each attempt once, and stores what came of it.
 */
#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/create/create_lane.h"
#include "stages/psp_loop.h"

static void report_lag(const struct stage *stage, struct create_lane *lanes, size_t count)
{
    int64_t waiting = 0;
    for (size_t i = 0; i < count; i++) {
        struct bus_lag lag;
        bus_consumer_lag(lanes[i].consumer, &lag);
        waiting += (int64_t)(lag.pending + lag.ack_pending);
    }
    metrics_set(METRIC_STAGE_LAG, waiting, METRICS_LABELS(stage->name));
}

/* Finishes what is in flight, within the limit; what is not done by then is recovery's. */
static void drain(struct stage *stage, struct create_lane *lanes, size_t count,
                  struct psp_loop *loop)
{
    const int64_t until_us = clock_monotonic_us() + stage->config.timers.drain_s * CLOCK_SECOND_US;
    for (size_t i = 0; i < count; i++) create_lane_drain(&lanes[i]);
    bool is_idle = false;
    while (!is_idle && clock_monotonic_us() < until_us) {
        is_idle = true;
        psp_loop_begin(loop, stage);
        for (size_t i = 0; i < count; i++) {
            (void)!create_lane_service(&lanes[i]);
            psp_loop_add(loop, &lanes[i].lane);
            is_idle = is_idle && psp_lane_is_idle(&lanes[i].lane);
        }
        if (!is_idle) psp_loop_wait(loop, stage);
    }
    (void)!bus_publish_flush(stage->bus, 2000);
}

/* Where the rate is the limit, a timer wakes us; where the slots are, an answer does. */
static void wake_for_budget(struct psp_loop *loop, struct create_lane *lane)
{
    const int64_t now_us = clock_monotonic_us();
    const int64_t next_us = budget_next_us(&lane->budget, now_us);
    if (lane->waiting.first != NULL && next_us > now_us) psp_loop_wake(loop, next_us);
}

static int run(struct stage *stage, struct create_lane *lanes, size_t count)
{
    int exit_code = 0;
    struct psp_loop loop = { 0 };
    while (!stage_stop && exit_code == 0) {
        psp_loop_begin(&loop, stage);
        for (size_t i = 0; i < count; i++) {
            if (create_lane_service(&lanes[i]) == STATUS_STOP) exit_code = 3;
            psp_loop_add(&loop, &lanes[i].lane);
            wake_for_budget(&loop, &lanes[i]);
        }
        report_lag(stage, lanes, count);
        psp_loop_wait(&loop, stage);
    }
    drain(stage, lanes, count, &loop);
    psp_loop_finish(&loop);
    return exit_code;
}

int main(int argc, char **argv)
{
    struct stage stage;
    struct recovery_policy policy = { 0 };
    int exit_code = 0;
    if (!stage_open(&stage, "create", argc, argv, &exit_code)) return exit_code;
    const size_t account_count = stage.config.account_count;
    struct create_lane *lanes = memory_allocate(account_count * sizeof *lanes);
    size_t opened = 0;
    bool is_open = psp_policy_open(&stage, &policy);
    if (!is_open && !stage_stop) exit_code = 2;
    for (; is_open && opened < account_count; opened++) {
        is_open = create_lane_open(&lanes[opened], &stage, &stage.config.accounts[opened], &policy,
                                   &exit_code);
    }
    if (is_open) exit_code = run(&stage, lanes, account_count);
    for (size_t i = 0; i < opened; i++) create_lane_close(&lanes[i]);
    free(lanes);
    recovery_policy_finish(&policy);
    stage_close(&stage);
    LOG_INFO("stopped", LOG_NUMBER("exit_code", exit_code));
    return exit_code;
}
