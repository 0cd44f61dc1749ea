#!/usr/bin/env bash
# ops/check_floors.sh [ROOT]: fails when a file includes what its floor may not use (design §9).
#
#   0  pipeline/    itself; libc, msgpack, jansson, libcrypto
#   1  config/ store/ adapters/X/    pipeline/ and itself, plus its own library; never each other
#   2  stages/      0, 1, itself; stages/X/ never another process's folder; X_decide is pure: only
#                   pipeline/, its own folder, and the row structs of config/ and store/X_store.h
#   3  ops/ tests/  everything; nobody below includes them
#
# Includes are written from the root ("store/store.h"), so that the text says what is used.
set -euo pipefail
root=${1:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)}
cd "$root"

folders=()
for folder in pipeline config store adapters stages ops tests; do
    [ ! -d "$folder" ] || folders+=("$folder")
done

# shellcheck disable=SC2016
find "${folders[@]}" \( -name '*.c' -o -name '*.h' \) -print0 |
    xargs -0 -r awk '
function owner(path,   part) { # the floor part that a path belongs to
    split(path, part, "/")
    if (part[1] == "adapters") return "adapters/" part[2]
    if (part[1] == "stages" && split(path, part, "/") == 3) return "stages/" part[2]
    return part[1]
}
function floor_of(part) {
    if (part == "pipeline") return 0
    if (part == "config" || part == "store" || part ~ /^adapters\//) return 1
    if (part ~ /^stages/) return 2
    if (part == "ops" || part == "tests") return 3
    return -1
}
function refuse(why) {
    printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why
    failures++
}
BEGIN { # a foreign library belongs to one part; floor 3 may use any
    library["libpq-fe.h"] = "store"
    library["hiredis/"] = "adapters/redis"
    library["nats/"] = "adapters/nats"
    library["curl/"] = "adapters/http"
    library["yaml.h"] = "config"
    library["microhttpd.h"] = "stages"
}
/^[ \t]*#[ \t]*include[ \t]*</ {
    path = $0
    sub(/^[^<]*</, "", path)
    sub(/>.*/, "", path)
    from = owner(FILENAME)
    for (name in library) {
        if (index(path, name) != 1 || floor_of(from) == 3) continue
        if (library[name] != from && index(from, library[name] "/") != 1)
            refuse("only " library[name] " may use this library")
    }
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    path = $0
    sub(/^[^"]*"/, "", path)
    sub(/".*/, "", path)
    from = owner(FILENAME)
    to = owner(path)
    if (path !~ /\// || path ~ /\.\./) refuse("write the path from the root of the tree")
    else if (floor_of(to) < 0) refuse("no such floor")
    else if (floor_of(to) > floor_of(from)) refuse("a higher floor")
    else if (FILENAME ~ /_decide\.[ch]$/ && to != "pipeline" && to != from && to != "config" &&
             path !~ /^store\/[a-z_]*_store\.h$/)
        refuse("a decision is pure: pipeline/, its own folder, row structs")
    else if (floor_of(from) == 1 && to != from && to != "pipeline") refuse("a sibling")
    else if (from ~ /^stages/ && to ~ /^stages\// && to != from) refuse("another process")
}
END { exit failures > 0 }
' || {
    echo "check_floors: the includes above break the floors" >&2
    exit 1
}
