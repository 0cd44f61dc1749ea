/*
 * stages/intake/intake_main.c: oncepay-intake: producers' requests become payments, or answers that
 * say why not.
 */
#include "stages/intake/intake_handle.h"

int main(int argc, char **argv)
{
    struct stage stage;
    struct intake_memory memory = { .looks_due = 0 };
    int exit_code = 0;
    if (!stage_open(&stage, "intake", argc, argv, &exit_code)) return exit_code;
    const struct stage_work work = {
        .stream = INTAKE_STREAM,
        .durable = INTAKE_DURABLE,
        .limits = &stage.config.stages.intake,
        .handle = intake_handle,
        .self = &memory,
    };
    exit_code = stage_run(&stage, &work);
    stage_close(&stage);
    return exit_code;
}
