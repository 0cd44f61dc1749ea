/* stages/route/route_main.c: oncepay-route: accepted payments get their first attempt. */
#include "pipeline/log.h"
#include "stages/route/route_batch.h"
#include "stages/route/route_handle.h"

int main(int argc, char **argv)
{
    struct stage stage;
    struct route_desk desk;
    const char *account = NULL;
    int exit_code = 0;
    if (!stage_open(&stage, "route", argc, argv, &exit_code)) return exit_code;
    if (route_desk_open(&desk, &stage.config, &account) != STATUS_OK) {
        LOG_ERROR("an account's PSP is not built in", LOG_TEXT("account", account));
        stage_close(&stage);
        return 2;
    }
    const struct stage_work work = {
        .stream = "PAY_ROUTE",
        .durable = "route",
        .has_commands = true,
        .limits = &stage.config.stages.route,
        .handle = route_handle,
        .self = &desk,
    };
    exit_code = stage_run(&stage, &work);
    route_desk_close(&desk);
    stage_close(&stage);
    return exit_code;
}
