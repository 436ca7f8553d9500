#!/usr/bin/env bash
# Runs every check of the project and ends with one line: `N passed, N failed`.
#
# The exit status is 0 only if at least one test ran, nothing failed and every step succeeded. With
# CI=true a missing server or client is a failure; otherwise the suite skips the tests that need it,
# and names them.
#
# Everything is built first, then test programs run one after the other. A table of durations
# precedes the last line.
set -uo pipefail
cd "$(dirname "$0")/.."

case "${BULKHEAD_TEST_STORAGE:-}" in
    '' | sqlite | postgresql) ;;
    *)
        echo "BULKHEAD_TEST_STORAGE is $BULKHEAD_TEST_STORAGE; give sqlite or postgresql" >&2
        exit 2
        ;;
esac

# A machine of CI builds once, so data for the next build would cost time and disk alone.
if [ "${CI:-}" = true ]; then export CARGO_INCREMENTAL=0; fi

work=$(mktemp -d)
memory=
trap 'rm -rf "$work" ${memory:+"$memory"}' EXIT
mkdir "$work/out"
export SUITE_TIMES=$work/times
: >"$SUITE_TIMES"
left_out=
missing() { left_out+="LEFT OUT: $1"$'\n'; if [ "${CI:-}" = true ]; then touch "$work/broken"; fi; }

# Runs a step, shows its output and records its duration.
step() {
    local label=$1
    shift
    printf '\n== %s\n' "$label"
    tests/step.sh "$label" "$@" 2>&1 || fail "$label"
}

fail() {
    printf 'FAILED: %s\n' "$1"
    echo "$1" >>"$work/broken"
}

# Moves the temporary folders of tests into memory if 8 GiB are free and programs may run there:
# each test copies the files of its servers, and on a disk the copies and the flushes take longer
# than most tests. The tests of power cuts and full disks have a simulated disk in any folder.
data_in_memory() {
    local room=$((8 << 20)) free available
    free=$(df -kP /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    available=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null)
    if [ "${free:-0}" -lt "$room" ] || [ "${available:-0}" -lt "$room" ] ||
        ! memory=$(mktemp -d /dev/shm/bulkhead-suite-XXXXXX); then
        return
    fi
    # Some servers run as other users.
    chmod 711 "$memory"
    printf '#!/bin/sh\n' >"$memory/program"
    chmod 755 "$memory/program"
    # Containers often forbid programs in shared memory.
    if "$memory/program" 2>/dev/null; then export TMPDIR=$memory; fi
}

# Tests of whole servers that `make test` also runs with the data on PostgreSQL. The tests of nodes
# and of PostgreSQL itself have their data there in the first round. With
# BULKHEAD_TEST_STORAGE=postgresql, every test has.
ON_POSTGRES='leases:: tokens:: wrapping:: due_work:: mounts:: restores::'

# Maximum seconds of a test program. The longest takes a third of it. A test that never ends must
# fail with its name while there is time for the rest of the suite.
MOST_SECONDS=1800

# Runs the listed programs, one after the other, with `$1` tests at a time. Further arguments choose
# tests.
#
# The duration of each test is an unstable option of libtest, which RUSTC_BOOTSTRAP allows.
run_programs() {
    local threads=$1 folder name program out on=${BULKHEAD_TEST_STORAGE:-}
    shift
    while IFS=$'\t' read -r folder name program; do
        out="$work/out/$(basename "$program")${on:+.$on}"
        name="${folder#"$PWD/"} $name${on:+ on $on}"
        printf '\n== %s\n' "$name"
        (cd "$folder" && RUSTC_BOOTSTRAP=1 "$OLDPWD/tests/step.sh" "tests: $name" \
            timeout --verbose --kill-after=10 "$MOST_SECONDS" \
            "$program" -Zunstable-options --report-time --test-threads="$threads" "$@") \
            2>&1 </dev/null | tee "$out" || fail "$name"
    done
}

# Prints package folder, name and path of each test program that cargo built.
list_programs() {
    local text='"\([^"]*\)"'
    local manifest='"manifest_path":"\([^"]*\)\/Cargo.toml"' program="\"executable\":$text"
    local profile='"profile":{[^}]*"test":true}'
    cargo test --workspace --no-run --message-format=json-render-diagnostics --quiet |
        sed -n "s/.*$manifest.*\"name\":$text.*$profile.*$program.*/\1\t\2\t\3/p"
}

# The installation waits for the network, so it runs beside the build. Both scripts may call
# apt-get, which refuses to run twice at a time, so they run one after the other.
{
    tests/servers/install.sh >"$work/servers" 2>&1
    echo $? >"$work/servers.status"
    tests/clients/install.sh >"$work/clients" 2>&1
    echo $? >"$work/clients.status"
} &
installing=$!

# The build installs a missing toolchain, which `cargo fmt` needs.
step 'build' make --no-print-directory build build-fault build-tests
step 'format' cargo fmt --all --check
list_programs >"$work/programs" || fail 'list of test programs'
# A suite that lists nothing must not pass.
for name in budget clients e2e fault tidy; do
    grep -q $'\t'"$name"$'\t' "$work/programs" || fail "no test program $name was built"
done
wait "$installing"
cat "$work/servers" "$work/clients"

skipped=none
if [ "$(cat "$work/servers.status")" != 0 ]; then
    missing 'the end-to-end tests: a server is missing, see above'
    skipped+='|e2e|fault'
fi
if [ "$(cat "$work/clients.status")" != 0 ]; then
    missing 'the tests of clients: hvac or node-vault is missing'
    skipped+='|clients'
fi
grep -vE $'\t'"($skipped)"$'\t' "$work/programs" >"$work/chosen"
programs() { grep "${@:2}" -E $'\t'"($1)"$'\t' "$work/chosen"; }

step 'clippy' cargo clippy --workspace --all-targets --quiet -- -D warnings
# Only the SDK has examples in its comments. `--doc` for the workspace would link the components'
# libraries natively, which is impossible.
step 'examples in comments' cargo test -p bulkhead-sdk --doc | tee "$work/out/examples"

data_in_memory

# One program after the other with three tests at a time uses most of two processors. With more
# tests, or beside a compiler, some tests exceed real-time limits, above all the 30 s for the
# compilation of an uploaded component.
programs e2e -v | run_programs 2
programs e2e | run_programs 3

# The same tests with the data on PostgreSQL: all tests of the store and of the two layers above,
# and a part of the tests of whole servers. With BULKHEAD_TEST_STORAGE, everything ran on that
# database above, and there is no second round.
if [ -z "${BULKHEAD_TEST_STORAGE:-}" ]; then
    export BULKHEAD_TEST_STORAGE=postgresql
    programs 'bulkhead_store|bulkhead_access|bulkhead_core' | run_programs 2
    # The words are beginnings of names of tests.
    programs e2e | run_programs 3 $ON_POSTGRES
fi

printf '\n== where the time went, in seconds\n'
sort -rn "$SUITE_TIMES"
printf '\n== the 30 slowest tests, in seconds\n'
sed -nE 's/^test (.*) \.\.\. .*<([0-9.]+)s>$/\2\t\1/p' "$work"/out/* | sort -rn | head -n 30

# A machine that keeps the end of the output alone then still has the name and the reason.
if grep -qE '^test .* FAILED' "$work"/out/*; then
    printf '\n== what failed\n'
    sed -n '/^failures:$/,/^failures:$/p' "$work"/out/* | head -c 20000
    sed -nE 's/^test (.*) \.\.\. FAILED.*/FAILED: \1/p' "$work"/out/*
fi

printf '\n%s' "$left_out"
if [ -e "$work/broken" ]; then
    printf 'a step did not succeed: %s\n' "$(paste -sd ';' "$work/broken")"
fi
cat "$work"/out/* | awk -v broken="$([ -e "$work/broken" ] && echo 1)" '
    /^test result: / {
        for (i = 1; i < NF; i++) {
            if ($(i + 1) == "passed;") passed += $i
            if ($(i + 1) == "failed;") failed += $i
        }
    }
    END {
        printf "%d passed, %d failed\n", passed, failed
        exit (broken == 1 || failed > 0 || passed == 0)
    }'
