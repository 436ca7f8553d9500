#!/usr/bin/env bash
# A private HAProxy with a configuration of the caller, which has the addresses, stopped at the end.
#
#   haproxy.sh --where       prints the program's path; fails if there is none
#   haproxy.sh --until-eof   runs until standard input ends
#
#   BULKHEAD_HAPROXY_FILE     the configuration file
#   BULKHEAD_HAPROXY_ADDRESS  HOST/PORT of a listener of the file
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/process.sh"

binary() {
    local found
    for found in "$(command -v haproxy || true)" /usr/sbin/haproxy; do
        if [ -n "$found" ] && [ -x "$found" ]; then
            echo "$found"
            return
        fi
    done
    return 1
}

# Succeeds if the listener accepts a connection.
listens() { (exec 3<>"/dev/tcp/$BULKHEAD_HAPROXY_ADDRESS") 2>/dev/null; }

mode=${1:-}
program=$(binary) || { echo "no HAProxy here: the package haproxy is needed" >&2; exit 3; }
case $mode in
    --where) echo "$program"; exit 0 ;;
    --until-eof) ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-haproxy-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
"$program" -db -f "$BULKHEAD_HAPROXY_FILE" >server.log 2>&1 &
server=$!
await 30 listens || { cat server.log >&2; exit 1; }
printf 'ready pid=%s log=%s\n' "$server" "$folder/server.log"
cat >/dev/null
