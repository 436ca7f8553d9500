#!/usr/bin/env bash
# Makes sure that the servers the tests talk to can be started: installs what is missing where it
# may.
#
#   install.sh             every server and client program
#   install.sh postgres    PostgreSQL alone, for `make demo-postgres`
#
# Exit 0: everything is here. Exit 3: something is missing and may not be installed; one line says
# what. It never starts, stops or configures a service: the tests run private instances (see
# postgres.sh).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)

have_postgres() { "$here/postgres.sh" --where >/dev/null 2>&1; }
have_directories() {
    "$here/openldap.sh" --where >/dev/null 2>&1 && "$here/samba.sh" --where >/dev/null 2>&1
}
have_mariadb() { "$here/mariadb.sh" --where >/dev/null 2>&1; }

# Runs a command as root, or says that it cannot.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# Debian's package creates and starts a cluster of its own unless it is told beforehand not to.
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
    echo "PostgreSQL is not installed; installing it without a cluster of its own" >&2
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

# These packages hold programs alone, and start nothing.
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

# Both packages start a service once they are unpacked, unless the machine's policy says no: where
# it has none, it says no for as long as this takes.
install_directories() {
    local policy=/usr/sbin/policy-rc.d installed=0 was_there=1
    command -v apt-get >/dev/null || return 1
    if [ ! -e "$policy" ]; then
        was_there=0
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null || return 1
        as_root chmod 755 "$policy"
    fi
    as_root apt-get update -q >&2 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
            slapd ldap-utils samba-ad-dc samba-ad-provision >&2 || installed=1
    if [ "$was_there" = 0 ]; then as_root rm -f "$policy"; fi
    return "$installed"
}

if ! have_directories; then
    echo "OpenLDAP or Samba is not installed; installing them without services" >&2
    if ! install_directories || ! have_directories; then
        echo "OpenLDAP or Samba is missing and could not be installed here; install the packages" \
            "slapd, ldap-utils, samba-ad-dc and samba-ad-provision; Samba also needs root, or" \
            "sudo without a password" >&2
        exit 3
    fi
fi

# Clients that are nobody's library: the suite asks them what they make of our TLS.
for client in curl openssl; do
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

# Built once, kept in the user's cache folder.
if ! "$here/kubernetes.sh" --where >/dev/null; then
    echo "Kubernetes is missing and could not be built here, see tests/servers/kubernetes.sh" >&2
    exit 3
fi
