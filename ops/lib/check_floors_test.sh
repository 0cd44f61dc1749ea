#!/usr/bin/env bash
# ops/lib/check_floors_test.sh: check_floors.sh accepts what is allowed and refuses each planted
# breach. Run by ctest.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failures=0

plant() { mkdir -p "$copy/$(dirname "$1")" && printf '#include %s\n' "$2" >"$copy/$1"; }

# expect ACCEPTED|REFUSED FILE INCLUDE
expect() {
    local found=ACCEPTED
    rm -rf "${copy:?}"/*
    plant "$2" "$3"
    "$here/check_floors.sh" "$copy" >/dev/null 2>&1 || found=REFUSED
    if [ "$found" != "$1" ]; then
        echo "$2 with #include $3: $found, should be $1"
        failures=$((failures + 1))
    fi
}

expect ACCEPTED pipeline/a.c '"pipeline/base.h"'
expect ACCEPTED pipeline/a.c '<msgpack.h>'
expect REFUSED pipeline/a.c '"store/store.h"'
expect REFUSED pipeline/a.c '<libpq-fe.h>'
expect REFUSED pipeline/a.h '"base.h"'
expect REFUSED pipeline/a.c '"../ops/a.h"'
expect ACCEPTED store/a.c '<libpq-fe.h>'
expect ACCEPTED store/a.c '"pipeline/base.h"'
expect REFUSED store/a.c '"config/config.h"'
expect REFUSED config/a.c '"stages/stage.h"'
expect ACCEPTED adapters/nats/a.c '<nats/nats.h>'
expect ACCEPTED adapters/nats/a.c '"adapters/nats/bus_nats.h"'
expect REFUSED adapters/stripe/a.c '"adapters/http/transport.h"'
expect REFUSED adapters/stripe/a.c '<curl/curl.h>'
expect ACCEPTED stages/stage.c '"store/store.h"'
expect ACCEPTED stages/create/create_main.c '"stages/stage.h"'
expect ACCEPTED stages/create/create_main.c '"stages/create/create_decide.h"'
expect ACCEPTED stages/gateway/gateway_http.c '<microhttpd.h>'
expect REFUSED stages/create/create_main.c '"stages/route/route_decide.h"'
expect REFUSED stages/create/create_main.c '"ops/cli/cli.h"'
expect REFUSED stages/create/create_main.c '<libpq-fe.h>'
expect REFUSED stages/create/create_decide.c '"store/store.h"'
expect REFUSED stages/create/create_decide.c '"adapters/redis/cache_redis.h"'
expect ACCEPTED stages/create/create_decide.c '"pipeline/judge.h"'
expect ACCEPTED stages/create/create_decide.h '"store/create_store.h"'
expect ACCEPTED ops/cli/a.c '"store/store.h"'
expect ACCEPTED tests/unit/a.c '"stages/create/create_decide.h"'
expect REFUSED stages/a.c '"tests/support/a.h"'

[ "$failures" = 0 ] && echo "check_floors: all breaches refused, all else accepted"
