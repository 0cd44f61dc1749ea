#!/usr/bin/env bash
# ops/lib/stack_test.sh: ops/stack with real servers: start, kill, restart, two stacks side by side,
# limits of the merchants' users, and that nothing foreign is ever signalled. Run by ctest.
set -euo pipefail
stack="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)/stack"
work=$(mktemp -d /tmp/oncepay-stack-test.XXXXXX)
chmod 755 "$work"
unset ONCEPAY_PORT_BASE
failures=0

first() { ONCEPAY_STACK_DIR="$work/first" "$stack" "$@"; }
second() { ONCEPAY_STACK_DIR="$work/second" "$stack" "$@"; }
finish() {
    first stop-all || failures=1
    second stop-all || failures=1
    rm -rf "$work"
}
trap finish EXIT

check() {
    local what=$1
    shift
    if "$@"; then
        echo "ok: $what"
    else
        echo "NOT ok: $what"
        failures=$((failures + 1))
    fi
}
fails() { ! "$@" 2>/dev/null; }
state() { "$1" status --json | jq -r --arg name "$2" '.[] | select(.name == $name) | .state'; }
state_is() { [ "$(state "$1" "$2")" = "$3" ]; }
variable() { sed -n "s/^export $2=//p" "$work/$1.env" | tr -d '\\'; }
one() { [ "$(psql -X -At "$(variable "$1" ONCEPAY_PG_URL)" -c "$2")" = "$3" ]; }

# Speaks NATS as a user and prints what the server says to one line; ends at its PONG or error.
nats_says() {
    local user=$1 word=$2 line url host port password
    url=$(variable first "ONCEPAY_NATS_URL_${user//-/_}")
    password=${url#*:*:}
    password=${password%@*}
    host=${url#*@}
    port=${host#*:}
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'CONNECT {"user":"%s","pass":"%s","verbose":false}\r\n%s\r\nPING\r\n' "$user" "$password" "$word" >&3
    while IFS= read -r -t 5 line <&3; do
        case $line in
        -ERR* | PONG*)
            printf '%s\n' "$line"
            [[ $line == -ERR* ]] || break
            ;;
        esac
    done
    exec 3>&-
}
may() { ! nats_says "$1" "$2" | grep Permissions >/dev/null; }
may_not() { nats_says "$1" "$2" | grep Permissions >/dev/null; }

first start pg nats redis
second start pg redis
check "two stacks have ports of their own" \
    [ "$(variable first ONCEPAY_PORT_BASE)" != "$(variable second ONCEPAY_PORT_BASE)" ]
check "PostgreSQL keeps what is committed" one first 'SHOW fsync' on
one first 'CREATE TABLE t AS SELECT 1 AS n' '' || true

first kill pg
check "a killed server is stopped" state_is first pg stopped
check "its neighbour is not touched" state_is second pg running
first start pg
check "after a kill the data is there" one first 'SELECT n FROM t' 1
first restart pg nats redis
check "after a restart the data is there" one first 'SELECT n FROM t' 1
check "nats-server runs again" state_is first nats running

first stop-signal redis
check "SIGSTOP suspends" state_is first redis suspended
first cont redis
check "SIGCONT resumes" state_is first redis running
first stop-signal redis
first stop redis
check "a suspended process can be stopped" state_is first redis stopped

check "a merchant may publish requests" may m-1001 'PUB pay.intake.m-1001.pay 0'$'\r\n'
check "a merchant may read its answers" may m-1001 'SUB reply.m-1001.x 1'
check "a merchant may not publish for another" may_not m-1001 'PUB pay.intake.m-1002.pay 0'$'\r\n'
check "a merchant may not publish to a stage" may_not m-1001 'PUB pay.route.1 0'$'\r\n'
check "a merchant may not manage streams" may_not m-1002 'PUB $JS.API.STREAM.LIST 0'$'\r\n'
check "a merchant may listen below its own inbox" may m-1001 'SUB _INBOX.m-1001.x 1'
check "a merchant may not listen below another's" may_not m-1001 'SUB _INBOX.m-1002.> 1'
check "a merchant may not listen to all inboxes" may_not m-1001 'SUB _INBOX.> 1'
check "a merchant may read its events" may m-1002 'SUB pay.event.m-1002.> 1'
check "a merchant may not read another's" may_not m-1001 'SUB pay.event.m-1002.> 1'
check "a merchant may not read events of all" may_not m-1002 'SUB pay.event.> 1'

# A pid that was given out again: same number, other birth.
sleep 600 &
foreign=$!
printf '%s 1\n' "$foreign" >"$work/first/run/redis.pid"
first kill redis
check "a foreign process with our pid lives on" kill -0 "$foreign"
kill "$foreign"

check "an unknown name is refused" fails first start bogus
check "a second PostgreSQL is refused" fails first start 'pg#2'
check "a number out of range is refused" fails first start 'create#10'
first stop-all
check "stop-all stops all" [ "$(first status --json | jq '[.[] | select(.state != "stopped")] | length')" = 0 ]
[ "$failures" = 0 ] && echo "ops/stack: all checks passed"
