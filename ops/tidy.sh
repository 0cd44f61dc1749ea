#!/usr/bin/env bash
# ops/tidy.sh [--fix]: format, shell scripts and the rules of the house (ops/lib/tidy.py).
# --fix lets clang-format rewrite the sources; everything else is for a person.
set -euo pipefail
# shellcheck source=ops/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
cd "$ONCEPAY_ROOT"

c_files() { find pipeline config store adapters stages ops tests -name '*.[ch]' -print0; }
shell_files() {
    find ops .ci -type f -print0 | while IFS= read -r -d '' file; do
        read -r first <"$file" || true
        case $file:$first in
        *.sh:* | *'#!/usr/bin/env bash') printf '%s\0' "$file" ;;
        esac
    done
}

if [ "${1:-}" = --fix ]; then
    c_files | xargs -0 -r clang-format-14 -i
    exit 0
fi
[ $# = 0 ] || die "$EXIT_USAGE" "usage: ops/tidy.sh [--fix]"

failed=0
c_files | xargs -0 -r -P "$(nproc)" -n 8 clang-format-14 --dry-run --Werror 2>&1 |
    grep -E '^[^ ].*: error:' >&2 && failed=1
shell_files | xargs -0 -r shellcheck -x --severity=warning >&2 || failed=1
python3 ops/lib/tidy.py . >&2 || failed=1
[ "$failed" = 0 ] || die 1 "not tidy; ops/tidy.sh --fix formats"
