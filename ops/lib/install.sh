#!/usr/bin/env bash
# ops/lib/install.sh: installs what is missing of ops/packages.txt, and starts nothing by it.
# On a machine that has everything it neither needs root nor touches the network.
set -euo pipefail

LIST="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)/packages.txt"
POLICY=/usr/sbin/policy-rc.d
NO_CLUSTER=/etc/postgresql-common/createcluster.d/zz-oncepay-install.conf

missing_packages() {
    local package
    while read -r package; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] ||
            printf '%s\n' "$package"
    done < <(grep -v -e '^#' -e '^$' "$LIST")
}

# Debian starts a server's service when its package arrives, and makes a PostgreSQL cluster. We run
# private servers only, so both are held back while apt runs. What the administrator has set stays.
hold_services() {
    if [ ! -e "$POLICY" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$POLICY"
        chmod 755 "$POLICY"
        policy_is_ours=yes
    fi
    mkdir -p "$(dirname "$NO_CLUSTER")"
    printf 'create_main_cluster = false\n' >"$NO_CLUSTER"
}

release_services() {
    [ -z "${policy_is_ours:-}" ] || rm -f "$POLICY"
    rm -f "$NO_CLUSTER"
    rmdir --ignore-fail-on-non-empty "$(dirname "$NO_CLUSTER")" 2>/dev/null || true
}

# A fresh package also enables its unit for the next boot; only units that we brought are disabled.
disable_new_units() {
    command -v systemctl >/dev/null || return 0
    local package
    for package in "$@"; do
        case $package in
        nats-server | redis-server) systemctl --quiet disable "$package.service" || true ;;
        postgresql-15) ;; # without a cluster its unit has nothing to start
        esac
    done
}

install_as_root() {
    # One at a time: two checkouts may be set up side by side, and the second finds nothing to do.
    exec 9</var/lib/dpkg
    flock 9
    mapfile -t missing < <(missing_packages)
    [ "${#missing[@]}" -gt 0 ] || return 0
    trap release_services EXIT
    hold_services
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install "${missing[@]}" >&2
    disable_new_units "${missing[@]}"
}

command -v dpkg-query >/dev/null || {
    echo "install: this is no Debian; install what ops/packages.txt names yourself" >&2
    exit 3
}
mapfile -t missing < <(missing_packages)
[ "${#missing[@]}" -gt 0 ] || exit 0
echo "install: missing packages: ${missing[*]}" >&2
if [ "$(id -u)" = 0 ]; then
    install_as_root
elif command -v sudo >/dev/null; then
    exec sudo bash "${BASH_SOURCE[0]}"
else
    echo "install: neither root nor sudo; as root run: $(dirname "$LIST")/lib/install.sh" >&2
    exit 3
fi
