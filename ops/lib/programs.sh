# ops/lib/programs.sh: how the simulator and the stage processes are started. Sourced by stack.sh.
# shellcheck shell=bash

# program_start NAME NUMBER LABEL: returns when it says that it is ready.
program_start() {
    local name=$1 number=$2 label=$3 port
    port=$(stack_port "$name" "$number")
    if [ "$name" = sim ]; then
        program_sim "$port"
    else
        program_stage "$name" "$number" "$label" "$port"
    fi
}
