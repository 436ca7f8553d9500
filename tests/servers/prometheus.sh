#!/usr/bin/env bash
# A private Prometheus that scrapes one Bulkhead each second and evaluates the alerts of
# `packaging/prometheus`, in a temporary folder, on a free port of 127.0.0.1, removed at the end.
#
#   prometheus.sh --where              prints the server's path; fails if there is none
#   prometheus.sh --until-eof          runs until standard input ends
#
#   BULKHEAD_ADDRESS  host and port of the scraped server
#   BULKHEAD_TOKEN    token of the scrape; empty for a listener that asks for none
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/process.sh"

binaries() {
    local name
    for name in prometheus promtool; do command -v "$name" || return 1; done
}

configure() {
    cat >prometheus.yml <<CONF
global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: ["$here/../../packaging/prometheus/alerts.yaml"]
scrape_configs:
  - job_name: bulkhead
    metrics_path: /v1/sys/metrics
    params: { format: [prometheus] }
    static_configs: [{ targets: ["$BULKHEAD_ADDRESS"] }]
CONF
    if [ -n "${BULKHEAD_TOKEN:-}" ]; then
        printf '%s' "$BULKHEAD_TOKEN" >token
        chmod 600 token
        printf '    authorization: { credentials_file: token }\n' >>prometheus.yml
    fi
}

start_on() {
    prometheus --config.file=prometheus.yml --storage.tsdb.path="$folder/data" \
        --web.listen-address="127.0.0.1:$1" >server.log 2>&1 &
    server=$!
    await 30 is_ready "$1"
}

# Succeeds if this server answers at port `$1`. Another Prometheus may have the port: only this
# server has the file of its configuration and its folder.
is_ready() {
    curl -fs -o ready "http://127.0.0.1:$1/-/ready" &&
        curl -fs -o flags "http://127.0.0.1:$1/api/v1/status/flags" &&
        grep -qF "\"storage.tsdb.path\":\"$folder/data\"" flags
}

mode=${1:-}
found=$(binaries) || { echo "no Prometheus here: the package prometheus is needed" >&2; exit 3; }
case $mode in
    --where) head -n 1 <<<"$found"; exit 0 ;;
    --until-eof) ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-prometheus-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
configure
start
echo "ready port=$chosen folder=$folder"
cat >/dev/null
