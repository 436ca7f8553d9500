#!/usr/bin/env bash
# A private MySQL: a fresh copy of an empty server in a temporary folder, on a free port of
# 127.0.0.1, removed at the end. Only `make test-mysql` uses the script, because no archive keeps
# one version.
#
#   mysql.sh --where              prints the server's path; fetches the server if it is missing
#   mysql.sh --until-eof [OPT…]   runs until standard input ends; OPT… are options of the server
#
# The administrator is `bulkhead`@`%`; there is a database `demo` with a table `orders`. TLS is on,
# with certificates of an authority of this run, whose key is in the same folder (see
# certificates.sh).
#
# The programs are from Debian's unstable suite. They are unpacked into the user's cache folder and
# run with their own loader; nothing is installed.
#
#   BULKHEAD_DB_PASSWORD  password of the administrator   (default: hull-8241)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/certificates.sh"
. "$here/process.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/servers/mysql
root=$cache/root

# Prints the address from which this machine installs packages.
mirror() {
    { cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
        sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] *\)\?\([^ ]*\).*/\2/p' |
        grep '/debian/\?$' | head -n 1
}

# Runs a separate apt with an archive in a folder and an empty list of installed packages.
fetch() {
    local apt archive keys=/usr/share/keyrings/debian-archive-keyring.gpg
    archive=$(mirror)
    if [ -z "$archive" ] || ! command -v apt-get >/dev/null || ! [ -e "$keys" ]; then
        echo "MySQL is missing, and there is no archive of Debian's to fetch it from" >&2
        exit 3
    fi
    apt=$(mktemp -d "$cache/apt-XXXXXX")
    mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,parts} "$apt/root"
    : >"$apt/status"
    echo "deb [signed-by=$keys] $archive sid main" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONF
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
CONF
    APT_CONFIG=$apt/apt.conf apt-get update -q >&2
    APT_CONFIG=$apt/apt.conf apt-get install -q -y --download-only mysql-server-core >&2
    for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$apt/root"; done
    rm -rf "$root"
    mv "$apt/root" "$root"
    rm -rf "$apt"
}

# Runs the server with the loader and libraries of its packages.
server_program() {
    printf '%s\n' "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path \
        "$root/usr/lib/x86_64-linux-gnu:$root/usr/lib" "$root/usr/sbin/mysqld" --no-defaults \
        --basedir="$root/usr" --lc-messages-dir="$root/usr/share/mysql" \
        --character-sets-dir="$root/usr/share/mysql/charsets" \
        --plugin-dir="$root/usr/lib/mysql/plugin" --secure-file-priv=NULL
}

# Fetches the programs and creates an empty server's files once; each run copies them.
provide() {
    mkdir -p "$cache"
    (
        flock 9
        if [ ! -x "$root/usr/sbin/mysqld" ]; then fetch; fi
        if [ ! -e "$cache/template" ]; then
            made=$(mktemp -d "$cache/making-XXXXXX")
            mapfile -t program < <(server_program)
            "${program[@]}" --user="$(id -un)" --initialize-insecure --datadir="$made/data" \
                >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
            rm "$made/log"
            mv "$made" "$cache/template"
        fi
    ) 9>"$cache/lock"
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
    mapfile -t program < <(server_program)
    "${program[@]}" --user="$(id -un)" --datadir="$folder/data" --tmpdir="$folder/tmp" \
        --mysqlx=OFF --bind-address=127.0.0.1 --port="$1" --socket="$folder/socket" \
        --pid-file="$folder/pid" --ssl-ca="$folder/ca.pem" --ssl-cert="$folder/server.pem" \
        --ssl-key="$folder/server.key" --skip-name-resolve --skip-log-bin \
        --innodb-buffer-pool-size=16M --innodb-flush-log-at-trx-commit=0 \
        --performance-schema=OFF --init-file="$folder/init.sql" \
        ${options[@]+"${options[@]}"} >server.log 2>&1 &
    server=$!
    await 60 grep -qs 'ready for connections' server.log
}

mode=${1:-}
shift || true
options=("$@")
password=${BULKHEAD_DB_PASSWORD:-hull-8241}
case $mode in
    --where | --until-eof) provide ;;
    *) sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
if [ "$mode" = --where ]; then
    echo "$root/usr/sbin/mysqld"
    exit 0
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-mysql-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
mkdir tmp
cp -a "$cache/template/data" data
make_certificates
populate
start
printf 'ready port=%s pid=%s log=%s folder=%s\n' "$chosen" "$server" "$folder/server.log" "$folder"
cat >/dev/null
