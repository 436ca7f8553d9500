#!/usr/bin/env bash
# Every check of the project, in order, and at the end one line: `N passed, N failed`.
#
# The exit status is 0 only when something ran, nothing failed and every step succeeded. With
# CI=true a server or client that cannot be had is a failure; on a person's machine the part that
# needs it is left out, by name.
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
broken=0
left_out=
missing() { left_out+="LEFT OUT: $1"$'\n'; if [ "${CI:-}" = true ]; then broken=1; fi; }

step() {
    printf '\n== %s\n' "$*"
    "$@" 2>&1 | tee -a "$log" || broken=1
}

tests() { step cargo test --release --no-fail-fast "$@"; }

# Of the programs that talk to the built binary, those whose other side is there.
programs=()
if tests/servers/install.sh; then
    programs+=(--test e2e --test fault)
else
    missing 'the end-to-end tests: a server is missing, see above'
fi
if tests/clients/install.sh; then
    programs+=(--test clients)
else
    missing 'the tests of clients: hvac or node-vault is missing'
fi

step cargo fmt --all --check
step cargo clippy --release --workspace --all-targets -- -D warnings
if [ -z "$left_out" ]; then
    tests --workspace
else
    tests --workspace --exclude bulkhead-tests
    tests -p bulkhead-tests --lib --test tidy "${programs[@]}"
fi

printf '\n'
printf '%s' "$left_out"
if [ "$broken" = 1 ]; then printf 'a step did not succeed, see above\n'; fi
awk -v broken="$broken" '
    /^test result: / {
        for (i = 1; i < NF; i++) {
            if ($(i + 1) == "passed;") passed += $i
            if ($(i + 1) == "failed;") failed += $i
        }
    }
    END {
        printf "%d passed, %d failed\n", passed, failed
        exit (broken == 1 || failed > 0 || passed == 0)
    }' "$log"
