/* stages/gateway/gateway_main.c: oncepay-gateway: webhooks in, each committed before its 2xx. */
#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "stages/gateway/gateway_server.h"
#include "stages/stage.h"

enum { TICK_MS = 50, QUEUE_MAX = 4096 };

/* Everything but the work itself: overdue answers, the bus's upkeep, what is waited for. */
static void tick(struct stage *stage, struct gateway_inbox *inbox)
{
    gateway_inbox_expire(inbox, clock_monotonic_us());
    health_set(stage->health, "nats", bus_is_connected(stage->bus) ? NULL : "not connected");
    bus_wait(stage->bus, TICK_MS);
}

static int serve(struct stage *stage)
{
    const struct gateway_inbox_options inbox_options = {
        .store = stage->store,
        .bus = stage->bus,
        .health = stage->health,
        .queue_max = QUEUE_MAX,
        .wait_ms = stage->config.gateway.answer_wait_ms,
    };
    struct gateway_inbox *inbox = gateway_inbox_open(&inbox_options);
    const struct gateway_server_options server_options = {
        .config = &stage->config,
        .inbox = inbox,
        .health = stage->health,
        .port_file = getenv("ONCEPAY_GATEWAY_PORT_FILE"),
    };
    struct gateway_server *server = gateway_server_open(&server_options);
    while (server != NULL && !stage_stop) tick(stage, inbox);
    if (server != NULL) {
        const int64_t until_us =
            clock_monotonic_us() + stage->config.timers.drain_s * CLOCK_SECOND_US;
        gateway_server_quiesce(server);
        while (gateway_server_waiting(server) > 0 && clock_monotonic_us() < until_us) {
            tick(stage, inbox);
        }
    }
    gateway_inbox_close(inbox); /* answers whoever still waits, so that the server can stop */
    const int exit_code = server == NULL ? 2 : 0;
    gateway_server_close(server);
    return exit_code;
}

int main(int argc, char **argv)
{
    struct stage stage;
    int exit_code = 0;
    if (!stage_open(&stage, "gateway", argc, argv, &exit_code)) return exit_code;
    exit_code = serve(&stage);
    stage_close(&stage);
    return exit_code;
}
