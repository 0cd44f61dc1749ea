/*
 * stages/relay/relay_main.c: oncepay-relay: events in order, lost commands again, stuck work told.
 */
#include "stages/relay/relay_loop.h"

int main(int argc, char **argv)
{
    struct stage stage;
    int exit_code = 0;
    if (!stage_open(&stage, "relay", argc, argv, &exit_code)) return exit_code;
    exit_code = relay_loop_run(&stage);
    stage_close(&stage);
    return exit_code;
}
