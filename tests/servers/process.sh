# For the servers' scripts, which source this file: a server's process, from a free port to its end.
#
# A script defines `start_on PORT`, which starts its server in the background, sets $server to the
# process id, writes the output to server.log, and fails if the server does not get ready.

# Starts the server on the first free port of `$@`, or on any free port of 127.0.0.1, and sets
# $chosen. Only an attempt to listen tests a port without a race.
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

# Waits until the command `$2…` succeeds. Fails after `$1` seconds, or when the server has ended.
await() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        if ! kill -0 "$server" 2>/dev/null || [ "$SECONDS" -ge "$end" ]; then return 1; fi
        sleep 0.02
    done
}

# Kills the server, and removes its folder.
stop() {
    trap - EXIT INT TERM HUP
    if [ -n "${server:-}" ]; then
        kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    cd /
    rm -rf "$folder"
}
