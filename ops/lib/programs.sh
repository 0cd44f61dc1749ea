# ops/lib/programs.sh: how the simulator and the stage processes are started. Sourced by stack.sh.
# What they are told stands here; the rest of their environment is the caller's
# (ONCEPAY_CRASH_AT, ONCEPAY_FAULTS, …).
# shellcheck shell=bash

# program_start NAME NUMBER LABEL: returns when it says that it is ready, or, with
# STACK_NO_WAIT=yes, at once.
program_start() {
    local name=$1 number=$2 label=$3 port
    port=$(stack_port "$name" "$number")
    if [ "$name" = sim ]; then
        program_launch_sim "$port"
        program_wait "$label" "http://127.0.0.1:$port/_sim/ledger"
    else
        ONCEPAY_METRICS_PORT=$port ONCEPAY_GATEWAY_PORT=$(stack_port gateway-http "$number") \
            process_launch "$label" "$ONCEPAY_BIN/oncepay-$name"
        program_wait "$label" "http://127.0.0.1:$port/readyz"
    fi
}

# ONCEPAY_FAULTS: a preset of the simulator (none, lost) or a file of fault rules; ONCEPAY_SIM_SEED
# and ONCEPAY_SIM_LATENCY_MS likewise. ONCEPAY_SIM_WEBHOOKS=off: it sends none.
program_launch_sim() {
    local port=$1
    local -a webhooks=(--webhook-url "$ONCEPAY_GATEWAY_URL/webhooks")
    [ "${ONCEPAY_SIM_WEBHOOKS:-on}" = on ] || webhooks=()
    process_launch sim "$ONCEPAY_BIN/oncepay-psp-sim" --port "$port" \
        --data "$ONCEPAY_STACK_DIR/sim" "${webhooks[@]}" \
        --faults "${ONCEPAY_FAULTS:-none}" --seed "${ONCEPAY_SIM_SEED:-1}" \
        --latency-ms "${ONCEPAY_SIM_LATENCY_MS:-0}"
}

program_wait() {
    local label=$1 url=$2
    [ "${STACK_NO_WAIT:-no}" = no ] || return 0
    wait_until 60 "$label is ready" program_ready_or_gone "$label" "$url" && process_alive "$label"
}
program_ready_or_gone() { curl -fs -o /dev/null --max-time 5 "$2" || process_gone "$1"; }

# Everything from nothing, in the order in which it is needed. The environment has the programs'
# variables (stack_write_environment). stack_bring_up [STAGE#n ...]: further instances.
stack_bring_up() {
    local what
    step "servers: PostgreSQL, Redis, nats-server"
    for what in "${SERVERS[@]}"; do stack_start "$what"; done
    step "schema and topology"
    "$ONCEPAY_BIN/oncepay" migrate >"$ONCEPAY_STACK_DIR/log/migrate.log" 2>&1 ||
        die "$EXIT_INFRASTRUCTURE" "oncepay migrate failed; see $ONCEPAY_STACK_DIR/log/migrate.log"
    "$ONCEPAY_BIN/oncepay" topology apply >"$ONCEPAY_STACK_DIR/log/topology.log" 2>&1 ||
        die "$EXIT_INFRASTRUCTURE" "oncepay topology apply failed; see $ONCEPAY_STACK_DIR/log/topology.log"
    step "simulator and stages"
    for what in sim "${STAGES[@]}" "$@"; do stack_start "$what"; done
}
