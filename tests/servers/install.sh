#!/usr/bin/env bash
# Installs the servers that the tests need, if this is permitted.
#
#   install.sh             every server and client program
#   install.sh postgres    PostgreSQL alone, for `make demo-postgres`
#
# Exit 0: everything is installed. Exit 3: something is missing and may not be installed; one line
# names it. The script never starts, stops or configures a service: the tests run private instances
# (see postgres.sh).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)

have_postgres() { "$here/postgres.sh" --where >/dev/null 2>&1; }
have_directories() {
    "$here/openldap.sh" --where >/dev/null 2>&1 && "$here/samba.sh" --where >/dev/null 2>&1
}
have_mariadb() { "$here/mariadb.sh" --where >/dev/null 2>&1; }
have_pgbouncer() { "$here/pgbouncer.sh" --where >/dev/null 2>&1; }
have_haproxy() { "$here/haproxy.sh" --where >/dev/null 2>&1; }
have_prometheus() { "$here/prometheus.sh" --where >/dev/null 2>&1; }

# Runs a command as root, or returns 1.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# Debian's package creates and starts a cluster unless this setting forbids it before the
# installation.
install_postgres() {
    local folder=/etc/postgresql-common/createcluster.d
    command -v apt-get >/dev/null || return 1
    as_root mkdir -p "$folder" || return 1
    echo 'create_main_cluster = false' | as_root tee "$folder/bulkhead-tests.conf" >/dev/null
    as_root apt-get update -q >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        postgresql postgresql-client >&2
}

if ! have_postgres; then
    echo "PostgreSQL is not installed; installing it without a cluster" >&2
    if ! install_postgres || ! have_postgres; then
        echo "PostgreSQL is missing and could not be installed here; install the packages" \
            "postgresql and postgresql-client (initdb, postgres, psql)" >&2
        exit 3
    fi
fi

case ${1:-} in
    "") ;;
    postgres) exit 0 ;;
    *) echo "usage: install.sh [postgres]" >&2; exit 2 ;;
esac

# These packages contain only programs, and start nothing.
install_mariadb() {
    command -v apt-get >/dev/null || return 1
    as_root apt-get update -q >&2 || return 1
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        mariadb-server-core mariadb-client-core >&2
}

if ! have_mariadb; then
    echo "MariaDB is not installed; installing its programs" >&2
    if ! install_mariadb || ! have_mariadb; then
        echo "MariaDB is missing and could not be installed here; install the packages" \
            "mariadb-server-core and mariadb-client-core" >&2
        exit 3
    fi
fi

# Installs packages that start a service after the installation unless the machine's policy forbids
# it. If the machine has no policy, a temporary policy forbids it.
install_without_services() {
    local policy=/usr/sbin/policy-rc.d installed=0 was_there=1
    command -v apt-get >/dev/null || return 1
    if [ ! -e "$policy" ]; then
        was_there=0
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null || return 1
        as_root chmod 755 "$policy"
    fi
    as_root apt-get update -q >&2 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
            "$@" >&2 || installed=1
    if [ "$was_there" = 0 ]; then as_root rm -f "$policy"; fi
    return "$installed"
}

if ! have_directories; then
    echo "OpenLDAP or Samba is not installed; installing them without services" >&2
    if ! install_without_services slapd ldap-utils samba-ad-dc samba-ad-provision ||
        ! have_directories; then
        echo "OpenLDAP or Samba is missing and could not be installed here; install the packages" \
            "slapd, ldap-utils, samba-ad-dc and samba-ad-provision; Samba also needs root, or" \
            "sudo without a password" >&2
        exit 3
    fi
fi

if ! have_pgbouncer; then
    echo "PgBouncer is not installed; installing it without a service" >&2
    if ! install_without_services pgbouncer || ! have_pgbouncer; then
        echo "PgBouncer is missing and could not be installed here; install the package" \
            "pgbouncer" >&2
        exit 3
    fi
fi

if ! have_haproxy; then
    echo "HAProxy is not installed; installing it without a service" >&2
    if ! install_without_services haproxy || ! have_haproxy; then
        echo "HAProxy is missing and could not be installed here; install the package haproxy" >&2
        exit 3
    fi
fi

if ! have_prometheus; then
    echo "Prometheus is not installed; installing it without a service" >&2
    if ! install_without_services prometheus || ! have_prometheus; then
        echo "Prometheus is missing and could not be installed here; install the package" \
            "prometheus (prometheus, promtool)" >&2
        exit 3
    fi
fi

# TLS clients that share no library with Bulkhead, and the program of SQLite.
for client in curl openssl sqlite3; do
    if ! command -v "$client" >/dev/null; then
        echo "$client is not installed; installing it" >&2
        if ! command -v apt-get >/dev/null || ! as_root apt-get update -q >&2 ||
            ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
                --no-install-recommends "$client" >&2; then
            echo "$client is missing and could not be installed here; install it" >&2
            exit 3
        fi
    fi
done

# Built once and kept in the user's cache folder.
if ! "$here/kubernetes.sh" --where >/dev/null; then
    echo "Kubernetes is missing and could not be built here, see tests/servers/kubernetes.sh" >&2
    exit 3
fi
