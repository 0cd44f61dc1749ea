# ops/lib/process.sh: long-running processes by label, each with a pid file and a log. Sourced.
# A pid alone is not an identity: the file also holds the process's birth (clock ticks since boot),
# so that nothing but what we started is ever signalled, even after the pid was given out again.
# shellcheck shell=bash
# Needs common.sh and ONCEPAY_STACK_DIR.

process_file() { printf '%s/run/%s.pid' "$ONCEPAY_STACK_DIR" "$1"; }
process_log() { printf '%s/log/%s.log' "$ONCEPAY_STACK_DIR" "$1"; }

# State letter and birth of a pid; fails when there is none.
process_stat() {
    local stat
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    local -a fields
    read -ra fields <<<"${stat##*) }"
    printf '%s %s\n' "${fields[0]}" "${fields[19]}"
}

# Prints the pid if the labelled process lives; a zombie is dead.
process_pid() {
    local pid birth state born
    read -r pid birth 2>/dev/null <"$(process_file "$1")" || return 1
    read -r state born < <(process_stat "$pid") || return 1
    [ "$born" = "$birth" ] && [ "$state" != Z ] && [ "$state" != X ] || return 1
    printf '%s' "$pid"
}

# None of the pids runs; a zombie that nobody has reaped yet counts as gone.
process_pids_gone() {
    local pid stat
    for pid in $1; do
        stat=$(process_stat "$pid") || continue
        [[ $stat == [ZX]* ]] || return 1
    done
}

process_alive() { process_pid "$1" >/dev/null; }
process_gone() { ! process_alive "$1"; }

# process_launch LABEL COMMAND...: starts it in a session of its own, so that Ctrl-C in a terminal
# reaches only the script, which then stops things in order.
process_launch() {
    local label=$1 state birth
    shift
    mkdir -p "$ONCEPAY_STACK_DIR/run" "$ONCEPAY_STACK_DIR/log"
    setsid "$@" </dev/null >>"$(process_log "$label")" 2>&1 8>&- & # 8: the lock of ops/demo
    local pid=$!
    read -r state birth < <(process_stat "$pid") || birth=0
    : "$state"
    printf '%s %s\n' "$pid" "$birth" >"$(process_file "$label")"
}

process_signal() {
    local pid
    pid=$(process_pid "$1") || return 1
    kill -s "$2" "$pid"
}

# process_stop LABEL [SIGNAL] [SECONDS]: asks, waits, and only then kills.
process_stop() {
    local label=$1 signal=${2:-TERM} seconds=${3:-30}
    process_signal "$label" "$signal" || return 0
    process_signal "$label" CONT || true # a stopped process could not hear the first one
    wait_until "$seconds" "$label ends after SIG$signal" process_gone "$label" && return 0
    process_kill "$label"
    return 1
}

process_kill() {
    process_signal "$1" KILL || return 0
    wait_until 10 "$1 ends after SIGKILL" process_gone "$1"
}

process_log_tail() { tail -n "${2:-15}" "$(process_log "$1")" 2>/dev/null | sed 's/^/    /' >&2; }
