#!/usr/bin/env bash
# A private PostgreSQL: a fresh cluster in a temporary folder, on a free port of 127.0.0.1, removed
# at the end.
#
#   postgres.sh --where            prints the folder of initdb and postgres; fails if there is none
#   postgres.sh --until-eof [OPT…] for the tests: runs until standard input ends, and acts on its
#                                  lines (postgres_acts.sh); OPT… are options of the server
#   postgres.sh --demo             for people: runs until Ctrl-C, and prints the README's commands
#
# TLS is on, with certificates of an authority of this run, whose key is in the same folder (see
# certificates.sh). Members of the group `certified` log in with a certificate of this authority for
# their name, and without a password.
#
# An existing PostgreSQL is neither used nor changed: separate folder and port, no socket file.
# PostgreSQL refuses to run as root, so root switches to `postgres` or `nobody`.
#
#   BULKHEAD_PG_PASSWORD  password of the superuser `bulkhead`   (default: hull-8241)
#   BULKHEAD_PG_PORT      port to try first, then random ports   (default: 15432 with --demo, else
#                         random)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/certificates.sh"
. "$here/process.sh"
. "$here/postgres_acts.sh"

# The caller's own PostgreSQL settings must not apply.
unset "${!PG@}"

binaries() {
    local found
    for found in "$(dirname "$(command -v postgres 2>/dev/null || echo /none/x)")" \
        $(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
            /opt/homebrew/opt/postgresql*/bin 2>/dev/null | sort -rV); do
        if [ -x "$found/initdb" ] && [ -x "$found/postgres" ] && command -v psql >/dev/null; then
            echo "$found"
            return
        fi
    done
    return 1
}

# Segments of 1 MB for the log, because each start copies the cluster's files.
initialise() {
    printf '%s\n' "$password" >password
    give_to_user password
    "${as_user[@]}" "$bin/initdb" --pgdata="$folder/data" --username=bulkhead --auth=scram-sha-256 \
        --pwfile=password --encoding=UTF8 --locale=C --wal-segsize=1 --no-sync >initdb.log 2>&1 ||
        { cat initdb.log >&2; return 1; }
    # The first matching line decides a login.
    { echo "hostssl all +certified 127.0.0.1/32 cert"; cat data/pg_hba.conf; } >pg_hba.conf
    cat pg_hba.conf >data/pg_hba.conf
    rm password
}

give_to_user() { if [ "$(id -u)" = 0 ]; then chown -R "$user" "$@"; fi; }

# Creates a populated cluster's files once for each version and password; each run copies them,
# because initdb takes longer than most tests.
template() {
    local stamp cache made
    stamp=$({
        cat "$here/"{postgres,process}.sh
        "$bin/postgres" --version
        echo "$user:$password"
    } | sha256sum | cut -c 1-16)
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/servers/postgres
    mkdir -p "$cache"
    (
        flock 9
        if [ ! -e "$cache/$stamp" ]; then
            # Stops the server if a step below fails.
            trap 'if [ -n "${server:-}" ]; then kill -QUIT "$server" || true; fi' EXIT
            options=()
            initialise
            start
            populate
            # A clean shutdown, so that a copy needs no recovery.
            kill -INT "$server"
            wait "$server"
            server=
            made=$(mktemp -d "$cache/making-XXXXXX")
            cp -a data "$made/data"
            mv "$made" "$cache/$stamp"
            rm -rf data
        fi
    ) 9>"$cache/lock"
    cp -a "$cache/$stamp/data" data
}

start_on() {
    "${as_user[@]}" "$bin/postgres" -D "$folder/data" -p "$1" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= -c max_connections=50 -c shared_buffers=16MB \
        -c ssl=on -c ssl_ca_file="$folder/ca.pem" -c ssl_cert_file="$folder/server.pem" \
        -c ssl_key_file="$folder/server.key" \
        ${options[@]+"${options[@]}"} >server.log 2>&1 &
    server=$!
    await 30 grep -qs '^ready' data/postmaster.pid
}

# Creates a typical deployment: a database with a table, and a group whose members may read the
# table.
populate() {
    PGPASSWORD=$password "$psql" -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$chosen" \
        -U bulkhead -d postgres <<'SQL'
CREATE DATABASE demo;
\connect demo
CREATE TABLE orders (id int PRIMARY KEY, item text NOT NULL);
INSERT INTO orders VALUES (1, 'rope'), (2, 'lantern');
CREATE ROLE readers NOLOGIN;
CREATE ROLE certified NOLOGIN;
GRANT SELECT ON orders TO readers;
SQL
}

# Overrides `stop` of process.sh, which kills the server and would leave shared memory behind.
stop() {
    trap - EXIT INT TERM HUP
    if [ -n "${server:-}" ] && kill -0 "$server" 2>/dev/null; then
        # A paused server cannot react to SIGQUIT. Tests pause the server with SIGSTOP to make the
        # database slow.
        children=$(cat "/proc/$server/task/$server/children" 2>/dev/null) || true
        kill -CONT "$server" $children 2>/dev/null || true
        kill -QUIT "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    if [ -n "$standby" ]; then kill_server "$standby"; fi
    if mountpoint -q "$folder/small" 2>/dev/null; then umount "$folder/small" || true; fi
    cd /
    rm -rf "$folder"
}

# Prints the README's commands with the port of this server.
commands() {
    sed -n '/<!-- commands:begin -->/,/<!-- commands:end -->/p' "$here/../../README.md" |
        sed -e '/^<!--/d' -e '/^```/d' -e "s/15432/$chosen/g"
}

mode=${1:-}
shift || true
bin=$(binaries) || { echo "no PostgreSQL here: initdb, postgres and psql are needed" >&2; exit 3; }
options=("$@")
password=${BULKHEAD_PG_PASSWORD:-hull-8241}
case $mode in
    --where) echo "$bin"; exit 0 ;;
    --demo) BULKHEAD_PG_PORT=${BULKHEAD_PG_PORT:-15432} ;;
    --until-eof) ;;
    *) sed -n '2,19s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

# Debian's `psql` is a Perl script that starts the real program, which is beside the server.
programs=$(dirname "$(readlink -f "$bin/initdb")")
psql=$programs/psql
if [ ! -x "$psql" ]; then psql=$(command -v psql); fi

as_user=()
user=$(id -un)
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-postgres-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
make_certificates
give_to_user .
template
start ${BULKHEAD_PG_PORT:-}

if [ "$mode" = --demo ]; then
    printf 'PostgreSQL runs on 127.0.0.1:%s until Ctrl-C. In another terminal, type:\n\n' "$chosen"
    commands
    printf '\nServer log: %s\n' "$folder/server.log"
    wait "$server"
else
    printf 'ready port=%s pid=%s log=%s folder=%s psql=%s\n' \
        "$chosen" "$server" "$folder/server.log" "$folder" "$psql"
    serve_acts
fi
