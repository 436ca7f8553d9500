# Acts on the servers of postgres.sh, which sources this file. A test orders an act with a line of
# standard input, and reads one line of standard output: `done`, with values, or `failed`.
#
#   stop | stop-now | kill | start   ends the primary (modes fast, immediate and SIGKILL), or
#                                    starts the primary again on its port
#   follow                           starts a synchronous standby; the line has `port=`
#   promote                          makes the standby the primary
#   kill-standby | start-standby     as for the primary
#   shrink MEGABYTES                 gives the database a tablespace `small` of this size; needs
#                                    root

standby=
standby_port=

# Runs SQL as superuser at port `$1`.
sql() {
    PGPASSWORD=$password "$psql" -X -q -A -t -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$1" \
        -U bulkhead -d postgres -c "$2"
}

# Kills a server with its sessions: sessions that outlive the server keep its shared memory.
kill_server() {
    local children
    children=$(cat "/proc/$1/task/$1/children" 2>/dev/null) || true
    kill -KILL "$1" $children 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

start_primary() {
    rm -f data/postmaster.pid
    start_on "$chosen"
}

# Starts the standby on `$1`. Its name is the name that the primary waits for.
start_standby_on() {
    local primary=$server
    rm -f standby/postmaster.pid
    "${as_user[@]}" "$bin/postgres" -D "$folder/standby" -p "$1" -c cluster_name=standby \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=50 \
        -c shared_buffers=16MB ${options[@]+"${options[@]}"} >standby.log 2>&1 &
    server=$!
    standby=$server
    standby_port=$1
    await 30 grep -qs '^ready' standby/postmaster.pid || { server=$primary; return 1; }
    server=$primary
}

is_synchronous() {
    [ "$(sql "$chosen" "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")" = 1 ]
}

follow() {
    PGPASSWORD=$password "${as_user[@]}" "$programs/pg_basebackup" -D "$folder/standby" -R \
        -X stream -c fast --no-sync -h 127.0.0.1 -p "$chosen" -U bulkhead || return 1
    local port
    for port in $(shuf -i 20000-32000 -n 10); do
        if start_standby_on "$port"; then break; fi
        grep -qi 'already in use' standby.log || return 1
    done
    sql "$chosen" "ALTER SYSTEM SET synchronous_standby_names = 'standby'" || return 1
    sql "$chosen" "SELECT pg_reload_conf()" >/dev/null || return 1
    await 30 is_synchronous || return 1
    printf 'port=%s ' "$standby_port"
}

shrink() {
    mkdir small || return 1
    mount -t tmpfs -o "size=$1m" bulkhead-small small || return 1
    give_to_user small
    sql "$chosen" "CREATE TABLESPACE small LOCATION '$folder/small'"
}

act() {
    case $1 in
        stop) kill -INT "$server"; wait "$server" || true ;;
        stop-now) kill -QUIT "$server"; wait "$server" || true ;;
        kill) kill_server "$server" ;;
        start) start_primary ;;
        follow) follow ;;
        promote) sql "$standby_port" "SELECT pg_promote(true, 30)" | grep -qx t ;;
        kill-standby) kill_server "$standby" ;;
        start-standby) start_standby_on "$standby_port" ;;
        shrink) shrink "$2" ;;
        *) return 1 ;;
    esac
}

# Serves orders until standard input ends. Each command of an act must be followed by `||` or be
# last, because an act runs where `set -e` has no effect.
serve_acts() {
    local words
    while read -r -a words; do
        if act "${words[@]}" 2>>acts.log; then
            echo done
        else
            cat acts.log server.log >&2
            echo failed
        fi
    done
}
