#!/usr/bin/env bash
# A private MariaDB: a fresh copy of an empty server in a temporary folder, on a free port of
# 127.0.0.1, removed at the end.
#
#   mariadb.sh --where              prints the server's path; fails if there is none
#   mariadb.sh --until-eof [OPT…]   runs until standard input ends; OPT… are options of the server
#
# The administrator is `bulkhead`@`%`; there is a database `demo` with a table `orders`. TLS is on,
# with certificates of an authority of this run, whose key is in the same folder (see
# certificates.sh).
#
#   BULKHEAD_DB_PASSWORD  password of the administrator   (default: hull-8241)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/certificates.sh"
. "$here/process.sh"

binaries() {
    local name
    for name in mariadbd mariadb-install-db mariadb; do command -v "$name" || return 1; done
}

# A small log, because each run copies the server's files.
log_size=--innodb-log-file-size=4M

# Creates an empty server's files once for each recipe and version; each run copies them.
template() {
    local stamp cache made
    stamp=$({ cat "$here/"{mariadb,certificates,process}.sh; mariadbd --version; } |
        sha256sum | cut -c 1-16)
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/servers/mariadb
    mkdir -p "$cache"
    (
        flock 9
        if [ ! -e "$cache/$stamp" ]; then
            made=$(mktemp -d "$cache/making-XXXXXX")
            mariadb-install-db --no-defaults --datadir="$made/data" --skip-test-db \
                --auth-root-authentication-method=normal --skip-name-resolve "$log_size" \
                >"$made/log" 2>&1 ||
                { cat "$made/log" >&2; exit 1; }
            rm "$made/log"
            mv "$made" "$cache/$stamp"
        fi
    ) 9>"$cache/lock"
    cp -a "$cache/$stamp/data" data
}

# One statement per line: the server reads the file before it listens.
populate() {
    cat >init.sql <<SQL
CREATE USER 'bulkhead'@'%' IDENTIFIED BY '$password';
GRANT ALL PRIVILEGES ON *.* TO 'bulkhead'@'%' WITH GRANT OPTION;
DROP USER 'root'@'localhost';
CREATE DATABASE demo;
CREATE TABLE demo.orders (id INT PRIMARY KEY, item VARCHAR(30) NOT NULL);
INSERT INTO demo.orders VALUES (1, 'rope'), (2, 'lantern');
SQL
}

start_on() {
    "${as_user[@]}" mariadbd --no-defaults --datadir="$folder/data" --tmpdir="$folder/tmp" \
        --bind-address=127.0.0.1 --port="$1" --socket= --unix-socket=OFF --pid-file="$folder/pid" \
        --ssl-ca="$folder/ca.pem" --ssl-cert="$folder/server.pem" --ssl-key="$folder/server.key" \
        --tls-version=TLSv1.2,TLSv1.3 --skip-name-resolve --skip-log-bin \
        --innodb-buffer-pool-size=8M --innodb-flush-log-at-trx-commit=0 --performance-schema=OFF \
        "$log_size" --init-file="$folder/init.sql" ${options[@]+"${options[@]}"} >server.log 2>&1 &
    server=$!
    await 30 grep -qs 'ready for connections' server.log
}

mode=${1:-}
shift || true
PATH=$PATH:/usr/sbin
found=$(binaries) ||
    { echo "no MariaDB here: mariadbd, mariadb and mariadb-install-db are needed" >&2; exit 3; }
options=("$@")
password=${BULKHEAD_DB_PASSWORD:-hull-8241}
case $mode in
    --where) head -n 1 <<<"$found"; exit 0 ;;
    --until-eof) ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

as_user=()
folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-mariadb-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
mkdir tmp
template
make_certificates
populate
# The server refuses to run as root.
if [ "$(id -u)" = 0 ]; then
    as_user=(setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups)
    chown -R nobody .
fi
start
printf 'ready port=%s pid=%s log=%s folder=%s\n' "$chosen" "$server" "$folder/server.log" "$folder"
cat >/dev/null
