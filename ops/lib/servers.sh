# ops/lib/servers.sh: private PostgreSQL, Redis and nats-server under ONCEPAY_STACK_DIR. Sourced.
# Each has its own port and folder and touches nothing of the system's own services.
# Needs common.sh, process.sh and stack.sh (ports, secrets).
# shellcheck shell=bash

PG_BIN=/usr/lib/postgresql/15/bin

# ---- PostgreSQL ---------------------------------------------------------------------------------

# PostgreSQL refuses to run as root. Then it runs as the packaged user, who must be able to reach
# its folder (a checkout under /root is closed to it) and whose socket path must fit into a
# sockaddr_un; otherwise the folder lies in /tmp and $ONCEPAY_STACK_DIR/pg is a link to it.
pg_user() { if id -u postgres >/dev/null 2>&1; then echo postgres; else echo nobody; fi; }

# The words in front of a command that must run as that user, one a line; none if we are not root.
pg_prefix() {
    [ "$(id -u)" = 0 ] || return 0
    local user
    user=$(pg_user)
    printf '%s\n' setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups env -C /
}
pg_as_server() {
    local -a prefix
    mapfile -t prefix < <(pg_prefix)
    "${prefix[@]}" "$@"
}

pg_home() { readlink -f "$ONCEPAY_STACK_DIR/pg"; }

pg_make_home() {
    local link="$ONCEPAY_STACK_DIR/pg" home
    [ ! -d "$link/data" ] || return 0
    home=$link
    if [ "${#link}" -gt 75 ] || ! pg_as_server test -x "$ONCEPAY_STACK_DIR"; then
        home="/tmp/oncepay-$(id -u)-$(printf '%s' "$link" | cksum | cut -d' ' -f1)"
        mkdir -p "$home"
        [ -O "$home" ] || die "$EXIT_INFRASTRUCTURE" "$home belongs to somebody else"
        rm -rf "${home:?}"/* # of an earlier stack here, whose folder somebody deleted
        ln -sfn "$home" "$link"
    fi
    mkdir -p "$home/data" "$home/socket"
    chmod 711 "$home"
    chmod 700 "$home/data" "$home/socket"
    [ "$(id -u)" != 0 ] || chown "$(pg_user)" "$home/data" "$home/socket"
}

# ONCEPAY_PG_CONF: further lines of postgresql.conf, for a cluster that is made now.
# The socket lies in a folder of mode 700, so whoever reaches it is trusted; TCP wants the password.
pg_init() {
    pg_make_home
    local home
    home=$(pg_home)
    [ ! -e "$home/data/PG_VERSION" ] || return 0
    pg_as_server "$PG_BIN/initdb" -D "$home/data" -U oncepay --encoding=UTF8 --locale=C.UTF-8 \
        --auth-local=trust --auth-host=scram-sha-256 >>"$(process_log pg)" 2>&1 || return
    pg_as_server tee -a "$home/data/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
max_connections = 200
shared_buffers = 256MB
max_wal_size = 4GB
fsync = on
synchronous_commit = on
wal_compression = lz4
jit = off
cluster_name = 'oncepay'
log_line_prefix = '%m [%p] '
${ONCEPAY_PG_CONF:-}
CONF
}

pg_url() { printf 'postgresql://oncepay@/oncepay?host=%s/socket&port=%s' "$(pg_home)" "$(stack_port pg)"; }
pg_tcp_url() {
    printf 'postgresql://oncepay@127.0.0.1:%s/oncepay?passfile=%s' \
        "$(stack_port pg)" "$ONCEPAY_STACK_DIR/secrets/pgpass"
}
pg_sql() { psql -X -q -v ON_ERROR_STOP=1 -At "$(pg_url)" "$@"; }

pg_ready() {
    process_alive pg &&
        "$PG_BIN/pg_isready" -q -h "$(pg_home)/socket" -p "$(stack_port pg)" -U oncepay -d postgres
}
pg_ready_or_gone() { pg_ready || process_gone pg; }

pg_start() {
    mkdir -p "$ONCEPAY_STACK_DIR/log"
    pg_init || return
    local home
    local -a prefix
    home=$(pg_home)
    mapfile -t prefix < <(pg_prefix)
    process_launch pg "${prefix[@]}" "$PG_BIN/postgres" -D "$home/data" \
        -p "$(stack_port pg)" -k "$home/socket"
    wait_until 60 "PostgreSQL accepts connections" pg_ready_or_gone && pg_ready || return
    pg_sql -c 'SELECT 1' >/dev/null 2>&1 || pg_make_database
}

pg_make_database() {
    "$PG_BIN/createdb" -h "$(pg_home)/socket" -p "$(stack_port pg)" -U oncepay oncepay &&
        pg_sql -c "ALTER ROLE oncepay PASSWORD '$(stack_secret pg)'"
}

pg_stop() { process_stop pg INT 60; }

# Backends notice the postmaster's death by themselves. Stopped first, it cannot start another one
# while we count. Its lock files go when all are gone: where nobody reaps the dead postmaster, the
# next one would take it for alive.
pg_kill() {
    local pid children home
    pid=$(process_pid pg) || return 0
    home=$(pg_home)
    process_signal pg STOP
    children=$(pgrep -P "$pid" || true)
    process_kill pg
    wait_until 30 "PostgreSQL's backends end" process_pids_gone "$children" || return
    rm -f "$home/data/postmaster.pid" "$home/socket"/.s.PGSQL.*.lock
}

# ---- Redis --------------------------------------------------------------------------------------

redis_url() { printf 'redis://127.0.0.1:%s' "$(stack_port redis)"; }

redis_start() {
    local home="$ONCEPAY_STACK_DIR/redis"
    mkdir -p "$home"
    cat >"$home/redis.conf" <<CONF
bind 127.0.0.1
port $(stack_port redis)
dir $home
daemonize no
save ""
appendonly no
CONF
    process_launch redis redis-server "$home/redis.conf"
    wait_until 20 "Redis answers" redis_ready_or_gone && redis_ready
}
redis_ready() { [ "$(redis-cli -p "$(stack_port redis)" ping 2>/dev/null)" = PONG ]; }
redis_ready_or_gone() { redis_ready || process_gone redis; }
redis_stop() { process_stop redis TERM 20; }
redis_kill() { process_kill redis; }

# ---- nats-server --------------------------------------------------------------------------------

# nats_url [USER]: oncepay's own, or a merchant's.
nats_url() {
    local user=${1:-oncepay}
    printf 'nats://%s:%s@127.0.0.1:%s' "$user" "$(stack_secret "nats-$user")" "$(stack_port nats)"
}

# config/nats-users.conf.in filled in: its last user stands for each merchant.
nats_users() {
    local template first='{ user: "@MERCHANT@"' last='} }' user merchant
    template=$(<"$ONCEPAY_ROOT/config/nats-users.conf.in")
    user=${template#*"$first"}
    user="$first${user%%"$last"*}$last"
    printf '%s' "${template%%"$first"*}" | sed "s/@ONCEPAY_PASSWORD@/$(stack_secret nats-oncepay)/"
    for merchant in "${MERCHANTS[@]}"; do
        sed "s/@MERCHANT@/$merchant/g; s/@MERCHANT_PASSWORD@/$(stack_secret "nats-$merchant")/" <<<"$user"
    done
    printf '%s\n' "${template##*"$last"}"
}

nats_start() {
    local home="$ONCEPAY_STACK_DIR/nats"
    mkdir -p "$home/store"
    (
        umask 077
        cat >"$home/nats.conf" <<CONF
server_name: oncepay
listen: "127.0.0.1:$(stack_port nats)"
http: "127.0.0.1:$(stack_port nats-monitor)"
jetstream { store_dir: "$home/store" }
$(nats_users)
CONF
    )
    process_launch nats nats-server -c "$home/nats.conf"
    wait_until 60 "nats-server is healthy" nats_ready_or_gone && nats_ready
}
nats_ready() { curl -fs -o /dev/null "http://127.0.0.1:$(stack_port nats-monitor)/healthz"; }
nats_ready_or_gone() { nats_ready || process_gone nats; }
nats_stop() { process_stop nats TERM 30; }
nats_kill() { process_kill nats; }
