#!/usr/bin/env bash
# ops/analyze.sh [FILE...]: clang-tidy (.clang-tidy says what and why) and cppcheck over all
# sources, or over the files named. Needs the clang preset built: generated sources are read too.
set -euo pipefail
# shellcheck source=ops/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
cd "$ONCEPAY_ROOT"
database=build/clang
[ -e "$database/compile_commands.json" ] || die "$EXIT_USAGE" "build first: cmake --preset clang && cmake --build --preset clang"

files() { find pipeline config store adapters stages ops tests -name '*.c' | sort; }

clang_tidy() {
    local list
    if [ $# -gt 0 ]; then list=("$@"); else mapfile -t list < <(files); fi
    # The count of suppressed warnings from system headers is no news.
    printf '%s\0' "${list[@]}" |
        xargs -0 -P "$(nproc)" -n 4 clang-tidy-14 -p "$database" --quiet 2> >(grep -v 'warnings\? .*generated\.$' >&2)
}

# ops/cppcheck.cfg tells it that invariant_failed does not come back.
run_cppcheck() {
    mkdir -p build/cppcheck
    cppcheck --project="$database/compile_commands.json" --cppcheck-build-dir=build/cppcheck -j "$(nproc)" \
        --enable=warning,performance,portability --inline-suppr --quiet --error-exitcode=1 \
        --library=ops/cppcheck.cfg --suppressions-list=ops/cppcheck.suppress --template='{file}:{line}: {severity}: {message} [{id}]'
}

failed=0
step "clang-tidy"
clang_tidy "$@" || failed=1
if [ $# -eq 0 ]; then
    step "cppcheck"
    run_cppcheck || failed=1
fi
exit "$failed"
