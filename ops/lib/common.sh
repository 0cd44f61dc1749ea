# ops/lib/common.sh: where things are, how scripts speak, and how they wait. Sourced, never run.
# shellcheck shell=bash

ONCEPAY_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
export ONCEPAY_ROOT

# Exit codes of design §8: 0 ok, 1 refused or failed, 2 usage, 3 infrastructure.
export EXIT_USAGE=2
export EXIT_INFRASTRUCTURE=3

# Talk goes to stderr, data to stdout.
say() { printf '%s\n' "$*" >&2; }

step() { if [ -t 2 ] && [ -z "${NO_COLOR:-}" ]; then say $'\e[1m'"== $*"$'\e[0m'; else say "== $*"; fi; }

die() {
    local code=$1
    shift
    say "${0##*/}: $*"
    exit "$code"
}

# wait_until SECONDS WHAT COMMAND...: polls the condition; says what did not come true.
wait_until() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            say "gave up waiting: $what"
            return 1
        fi
        sleep 0.03
    done
}

# Somebody accepts connections on this port of the loopback address.
port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

random_word() { head -c 18 /dev/urandom | base64 | tr '+/' '-_'; }

# Configures and builds a preset; output only when it fails. One at a time: whoever comes second waits
# and finds it built.
build_preset() {
    local preset=$1 log="$ONCEPAY_ROOT/build/$1.log"
    mkdir -p "$ONCEPAY_ROOT/build"
    step "build: $preset"
    if ! (
        cd "$ONCEPAY_ROOT"
        flock 9
        { cmake --preset "$preset" && cmake --build --preset "$preset"; } >"$log" 2>&1 9>&-
    ) 9>"$ONCEPAY_ROOT/build/$preset.lock"; then
        tail -n 60 "$log" >&2
        say "the build failed; all of it is in $log"
        return 1
    fi
}
