#!/usr/bin/env bash
# Runs a command and records its duration for the table that `make test` prints at the end.
#
#   step.sh LABEL COMMAND...
#
# Appends the line `seconds<TAB>label` to the file SUITE_TIMES, if set. Exits with the command's
# status.
set -uo pipefail

label=$1
shift
began=$EPOCHREALTIME
"$@"
status=$?
if [ -n "${SUITE_TIMES:-}" ]; then
    awk -v from="$began" -v to="$EPOCHREALTIME" -v label="$label" \
        'BEGIN { printf "%.1f\t%s\n", to - from, label }' >>"$SUITE_TIMES"
fi
exit "$status"
