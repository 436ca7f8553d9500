# Sourced by the servers' scripts: a server's process, from a free port to its end.
#
# A script gives `start_on PORT`, which starts its server in the background, with the process in
# $server and its output in server.log, and fails where that does not get ready.

# Starts the server on a free port of 127.0.0.1, which is then $chosen: the first of `$@` that is
# free, or any. Trying is the only test of a port without a race.
start() {
    local port
    for port in "$@" $(shuf -i 20000-32000 -n 10); do
        if start_on "$port"; then
            chosen=$port
            return 0
        fi
        grep -qi 'already in use' server.log || break
    done
    cat server.log >&2
    return 1
}

# Waits until the command `$2…` holds. Fails after `$1` seconds, and as soon as the server ended.
await() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        if ! kill -0 "$server" 2>/dev/null || [ "$SECONDS" -ge "$end" ]; then return 1; fi
        sleep 0.02
    done
}

# Ends the server at once, and removes its folder.
stop() {
    trap - EXIT INT TERM HUP
    if [ -n "${server:-}" ]; then
        kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    cd /
    rm -rf "$folder"
}
