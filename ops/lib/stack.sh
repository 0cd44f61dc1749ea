# ops/lib/stack.sh: a stack = private servers, simulator and stage processes in one folder, on one
# block of ports. Sourced by ops/stack, up, down, demo and test.
#
# Environment (a stack remembers what it was made with in $ONCEPAY_STACK_DIR/settings):
#   ONCEPAY_STACK_DIR   its folder; default build/stack of this checkout
#   ONCEPAY_PORT_BASE   first port of its block; default: the first free block at or after one that
#                       is derived from the folder's name, so that checkouts do not meet. Defaults
#                       lie below 32768: outgoing connections draw their ports above.
#   ONCEPAY_BIN         folder of the programs; default build/dev/bin
#   ONCEPAY_CONFIG      default config/oncepay.yaml
#
# Offsets in the block of 100:
#    0 nats   1 nats monitoring   2 PostgreSQL   3 Redis   4 simulator   5-9 gateway (HTTP) 1-5
#   10 intake 20 route 30 create 40 recover 50 settle 60 relay 70 gateway: metrics of number 1, and
#   so on up to nine of each (five gateways)
# shellcheck shell=bash

# shellcheck source=ops/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=ops/lib/process.sh
source "$ONCEPAY_ROOT/ops/lib/process.sh"
# shellcheck source=ops/lib/servers.sh
source "$ONCEPAY_ROOT/ops/lib/servers.sh"
# shellcheck source=ops/lib/programs.sh
source "$ONCEPAY_ROOT/ops/lib/programs.sh"

SERVERS=(pg nats redis)
MERCHANTS=(m-1001 m-1002) # of config/oncepay.yaml
STAGES=(intake route create recover settle relay gateway)

stack_default_base() {
    local block
    block=$(($(printf '%s' "$ONCEPAY_STACK_DIR" | cksum | cut -d' ' -f1) % 120))
    local tries port base
    for ((tries = 0; tries < 20; tries++)); do
        base=$((20000 + (block + tries) % 120 * 100))
        for port in $(seq "$base" $((base + 79))); do
            port_taken "$port" && continue 2
        done
        printf '%s' "$base"
        return 0
    done
    die "$EXIT_INFRASTRUCTURE" "no free block of ports found; set ONCEPAY_PORT_BASE"
}

# A port out of the range for outgoing connections may be in use by one at any moment.
stack_check_base() {
    local first last
    read -r first last </proc/sys/net/ipv4/ip_local_port_range || return 0
    [ $((ONCEPAY_PORT_BASE + 79)) -lt "$first" ] || [ "$ONCEPAY_PORT_BASE" -gt "$last" ] ||
        say "note: outgoing connections use ports $first to $last; ONCEPAY_PORT_BASE is safer outside"
}

# Takes the environment first, then what the stack remembers, then the defaults.
stack_open() {
    : "${ONCEPAY_STACK_DIR:=$ONCEPAY_ROOT/build/stack}"
    mkdir -p "$ONCEPAY_STACK_DIR"/{run,log,secrets}
    chmod 700 "$ONCEPAY_STACK_DIR/secrets"
    ONCEPAY_STACK_DIR=$(cd "$ONCEPAY_STACK_DIR" && pwd -P)
    local key value
    if [ -e "$ONCEPAY_STACK_DIR/settings" ]; then
        while IFS='=' read -r key value; do
            [ -n "${!key:-}" ] || printf -v "$key" '%s' "$value"
        done <"$ONCEPAY_STACK_DIR/settings"
    fi
    : "${ONCEPAY_PORT_BASE:=$(stack_default_base)}"
    [ -e "$ONCEPAY_STACK_DIR/settings" ] || stack_check_base
    : "${ONCEPAY_BIN:=$ONCEPAY_ROOT/build/dev/bin}"
    : "${ONCEPAY_CONFIG:=$ONCEPAY_ROOT/config/oncepay.yaml}"
    for key in ONCEPAY_PORT_BASE ONCEPAY_BIN ONCEPAY_CONFIG; do
        printf '%s=%s\n' "$key" "${!key}"
    done >"$ONCEPAY_STACK_DIR/settings.$$"
    mv "$ONCEPAY_STACK_DIR/settings.$$" "$ONCEPAY_STACK_DIR/settings"
    export ONCEPAY_STACK_DIR ONCEPAY_PORT_BASE ONCEPAY_BIN ONCEPAY_CONFIG
}

# stack_port NAME [NUMBER]; a stage's is its metrics port.
stack_port() {
    local offset number=${2:-1}
    case $1 in
    nats) offset=0 ;;
    nats-monitor) offset=1 ;;
    pg) offset=2 ;;
    redis) offset=3 ;;
    sim) offset=4 ;;
    gateway-http) offset=$((4 + number)) ;;
    intake) offset=$((9 + number)) ;;
    route) offset=$((19 + number)) ;;
    create) offset=$((29 + number)) ;;
    recover) offset=$((39 + number)) ;;
    settle) offset=$((49 + number)) ;;
    relay) offset=$((59 + number)) ;;
    gateway) offset=$((69 + number)) ;;
    *) die "$EXIT_USAGE" "no port for: $1" ;;
    esac
    printf '%s' $((ONCEPAY_PORT_BASE + offset))
}

# A random word per name, made at first use and kept with the stack.
stack_secret() {
    local file="$ONCEPAY_STACK_DIR/secrets/$1"
    [ -s "$file" ] || (umask 077 && random_word >"$file")
    cat "$file"
}

# The variables of design §8, one export a line.
stack_environment() {
    local merchant
    printf 'export %s=%q\n' \
        ONCEPAY_NATS_URL "$(nats_url)" \
        ONCEPAY_PG_URL "$(pg_url)" \
        ONCEPAY_PG_TCP_URL "$(pg_tcp_url)" \
        ONCEPAY_REDIS_URL "$(redis_url)" \
        ONCEPAY_GATEWAY_URL "http://127.0.0.1:$(stack_port gateway-http)" \
        ONCEPAY_SIM_URL "http://127.0.0.1:$(stack_port sim)" \
        ONCEPAY_CONFIG "$ONCEPAY_CONFIG" \
        ONCEPAY_STACK_DIR "$ONCEPAY_STACK_DIR" \
        ONCEPAY_PORT_BASE "$ONCEPAY_PORT_BASE" \
        ONCEPAY_BIN "$ONCEPAY_BIN"
    for merchant in "${MERCHANTS[@]}"; do
        printf 'export %s=%q\n' "ONCEPAY_NATS_URL_${merchant//[^0-9a-zA-Z]/_}" "$(nats_url "$merchant")"
    done
    # shellcheck disable=SC2016
    printf 'export PATH=%q:"$PATH"\n' "$ONCEPAY_BIN"
}

# Writes it where a shell can source it, and exports it here.
stack_write_environment() {
    local file="$ONCEPAY_STACK_DIR.env"
    pg_make_home
    (
        umask 077
        printf '*:*:*:oncepay:%s\n' "$(stack_secret pg)" >"$ONCEPAY_STACK_DIR/secrets/pgpass"
        stack_environment >"$file.$$"
        mv "$file.$$" "$file"
    )
    # shellcheck disable=SC1090
    source "$file"
}

# "create#2" -> NAME=create NUMBER=2 LABEL=create-2; dies on what is no part of a stack.
stack_parse() {
    NAME=${1%%#*} NUMBER=1
    [[ $1 != *'#'* ]] || NUMBER=${1#*#}
    case " ${SERVERS[*]} sim ${STAGES[*]} " in
    *" $NAME "*) ;;
    *) die "$EXIT_USAGE" "unknown process: $1; there are ${SERVERS[*]} sim ${STAGES[*]} (and create#2 …)" ;;
    esac
    [[ $NUMBER =~ ^[1-9]$ ]] || die "$EXIT_USAGE" "$1: the number is 1 to 9"
    if [ "$NUMBER" != 1 ]; then
        case " ${STAGES[*]} " in
        *" $NAME "*) ;;
        *) die "$EXIT_USAGE" "there is only one $NAME" ;;
        esac
        [ "$NAME" != gateway ] || [ "$NUMBER" -le 5 ] || die "$EXIT_USAGE" "at most five gateways"
    fi
    LABEL=$NAME
    [ "$NUMBER" = 1 ] || LABEL="$NAME-$NUMBER"
}

stack_ports_of() {
    case $1 in
    nats) stack_port nats; echo; stack_port nats-monitor ;;
    gateway) stack_port gateway "$2"; echo; stack_port gateway-http "$2" ;;
    *) stack_port "$1" "$2" ;;
    esac
}

stack_start() {
    stack_parse "$1"
    ! process_alive "$LABEL" || return 0
    local port
    for port in $(stack_ports_of "$NAME" "$NUMBER"); do
        ! port_taken "$port" ||
            die "$EXIT_INFRASTRUCTURE" "port $port for $1 is taken by somebody else; set ONCEPAY_PORT_BASE"
    done
    case " ${SERVERS[*]} " in
    *" $NAME "*) "${NAME}_start" ;;
    *) program_start "$NAME" "$NUMBER" "$LABEL" ;;
    esac || {
        process_log_tail "$LABEL"
        die "$EXIT_INFRASTRUCTURE" "$1 did not start; its log is $(process_log "$LABEL")"
    }
}

stack_stop() {
    stack_parse "$1"
    case " ${SERVERS[*]} " in
    *" $NAME "*) "${NAME}_stop" ;;
    *) process_stop "$LABEL" TERM 45 ;;
    esac
}

stack_kill() {
    stack_parse "$1"
    case " ${SERVERS[*]} " in
    *" $NAME "*) "${NAME}_kill" ;;
    *) process_kill "$LABEL" ;;
    esac
}

# Every process that was ever started here, in the order in which they must be stopped: work stops
# coming in before those who do it leave.
stack_known() {
    local name file label
    for name in gateway "${STAGES[@]/gateway/}" sim nats redis pg; do
        [ -n "$name" ] || continue
        for file in "$ONCEPAY_STACK_DIR/run/$name.pid" "$ONCEPAY_STACK_DIR/run/$name"-?.pid; do
            [ -e "$file" ] || continue
            label=$(basename "$file" .pid)
            printf '%s\n' "${label/-/#}"
        done
    done
}

stack_stop_all() {
    local what failed=0
    local -a stages=()
    while read -r what; do
        case $what in
        pg | nats | redis | sim) ;;
        *) stages+=("$what") ;;
        esac
    done < <(stack_known)
    # Stages drain side by side, and each may take its time; the servers follow.
    for what in "${stages[@]}"; do stack_parse "$what" && { process_signal "$LABEL" TERM || true; }; done
    for what in "${stages[@]}" $(stack_known); do stack_stop "$what" || failed=1; done
    return "$failed"
}

# Deletes the data of a stopped stack; its ports and secrets are drawn anew next time.
stack_wipe() {
    local home
    home=$(pg_home)
    case $home in
    "$ONCEPAY_STACK_DIR"/*) ;;
    /tmp/oncepay-*) rm -rf "$home" ;;
    esac
    rm -rf "${ONCEPAY_STACK_DIR:?}"/{pg,nats,redis,sim,run,log,secrets,result,settings}
    rm -f "$ONCEPAY_STACK_DIR.env"
}

stack_status_json() {
    local what pid state
    while read -r what; do
        stack_parse "$what"
        state=stopped
        if pid=$(process_pid "$LABEL"); then
            state=running
            [[ $(process_stat "$pid") != T* ]] || state=suspended
        fi
        jq -n --arg name "$what" --arg state "$state" --argjson pid "${pid:-null}" \
            --argjson port "$(stack_port "$NAME" "$NUMBER")" --arg log "$(process_log "$LABEL")" \
            '{name: $name, state: $state, pid: $pid, port: $port, log: $log}'
    done < <(stack_known) | jq -s .
}
