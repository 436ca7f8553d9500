#!/usr/bin/env bash
# A private PgBouncer before a PostgreSQL of postgres.sh: a temporary folder and a free port of
# 127.0.0.1, removed at the end.
#
#   pgbouncer.sh --where           prints the program's path; fails if there is none
#   pgbouncer.sh --until-eof MODE  runs until standard input ends; MODE is pool_mode: session,
#                                  transaction or statement
#
#   BULKHEAD_PG_PORT      port of the PostgreSQL on 127.0.0.1
#   BULKHEAD_PG_PASSWORD  password of its superuser `bulkhead`   (default: hull-8241)
#
# PgBouncer refuses to run as root, so root switches to `postgres` or `nobody`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/process.sh"

binary() {
    local found
    for found in "$(command -v pgbouncer || true)" /usr/sbin/pgbouncer; do
        if [ -n "$found" ] && [ -x "$found" ]; then
            echo "$found"
            return
        fi
    done
    return 1
}

start_on() {
    cat >pgbouncer.ini <<CONF
[databases]
* = host=127.0.0.1 port=$BULKHEAD_PG_PORT

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $1
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $folder/users
pool_mode = $mode
CONF
    "${as_user[@]}" "$program" pgbouncer.ini >server.log 2>&1 &
    server=$!
    await 30 grep -qs 'process up' server.log
}

mode=${1:-}
program=$(binary) || { echo "no PgBouncer here: the package pgbouncer is needed" >&2; exit 3; }
case $mode in
    --where) echo "$program"; exit 0 ;;
    --until-eof) mode=${2:?pool_mode is missing} ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

as_user=()
user=$(id -un)
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-pgbouncer-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
printf '"bulkhead" "%s"\n' "${BULKHEAD_PG_PASSWORD:-hull-8241}" >users
if [ "$(id -u)" = 0 ]; then chown -R "$user" .; fi
start
printf 'ready port=%s pid=%s log=%s\n' "$chosen" "$server" "$folder/server.log"
cat >/dev/null
