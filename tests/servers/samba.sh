#!/usr/bin/env bash
# A private Active Directory (Samba): a fresh copy of a new domain in a temporary folder, on its own
# address in 127.0.0.0/8, removed at the end.
#
#   samba.sh --where         prints the server's path; fails if there is none
#   samba.sh --until-eof     runs until standard input ends
#
# The domain is `corp.example.net` (`CORP`). `administrator` may do anything; members of `keepers`
# may reset passwords below `OU=people`, with exactly the rights of docs/directory.md. Five wrong
# logins lock an account. A replaced password is refused at once; Windows accepts it for another
# hour. Samba listens only on the ports of Active Directory (389, 636), so the script runs as root.
#
#   BULKHEAD_LDAP_PASSWORD  password of `administrator`   (default: Hull-8241-Wv)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/certificates.sh"
. "$here/process.sh"

setup=/usr/share/samba/setup

binaries() {
    local name
    for name in samba samba-tool ldapsearch ldapmodify ldapwhoami; do
        command -v "$name" || return 1
    done
    [ -e "$setup/provision_basedn.ldif" ]
}

# Prints the settings of a server with files in `$1` and the address `$2`.
settings() {
    cat <<CONF
[global]
    netbios name = DC1
    realm = CORP.EXAMPLE.NET
    workgroup = CORP
    server role = active directory domain controller
    server services = ldap
    interfaces = $2/8
    bind interfaces only = yes
    private dir = $1/private
    state directory = $1/state
    lock directory = $1/state
    cache directory = $1/cache
    binddns dir = $1/bind-dns
    pid directory = $1
    ncalrpc dir = $1/ncalrpc
    log file = $1/samba.log
    old password allowed period = 0
    tls enabled = yes
    tls cafile = $1/ca.pem
    tls certfile = $1/server.pem
    tls keyfile = $1/server.key
CONF
}

# Creates a new domain once for each recipe and version; each run copies it.
template() {
    local stamp cache made
    stamp=$( (cat "$here/samba.sh"; samba --version; echo "$password") | sha256sum | cut -c 1-16)
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/servers/samba
    mkdir -p "$cache"
    (
        flock 9
        if [ ! -e "$cache/$stamp" ]; then
            made=$(mktemp -d "$cache/making-XXXXXX")
            make_domain "$made" >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
            rm "$made/log"
            mv "$made" "$cache/$stamp"
        fi
    ) 9>"$cache/lock"
    cp -a "$cache/$stamp/." .
}

make_domain() {
    local made=$1 tool
    samba-tool domain provision --realm=CORP.EXAMPLE.NET --domain=CORP --server-role=dc \
        --dns-backend=NONE --adminpass="$password" --host-name=dc1 --host-ip=127.0.0.1 \
        --targetdir="$made" --option='interfaces=lo' --option='bind interfaces only=yes' || return 1
    settings "$made" 127.0.0.1 >"$made/smb.conf"
    mkdir -p "$made/cache" "$made/ncalrpc"
    tool=(--configfile="$made/smb.conf" -H "$made/private/sam.ldb")
    samba-tool ou create "OU=people" "${tool[@]}" &&
        samba-tool group add keepers "${tool[@]}" &&
        samba-tool domain passwordsettings set --min-pwd-age=0 --account-lockout-threshold=5 \
            "${tool[@]}" &&
        grant_keepers "${tool[@]}"
}

# Grants the rights of docs/directory.md: to reset passwords of users below `OU=people`.
grant_keepers() {
    local sid
    sid=$(samba-tool group show keepers --attributes=objectSid "$@" | sed -n 's/^objectSid: //p')
    samba-tool dsacl set "$@" --objectdn="$people" --action=allow \
        --sddl="(OA;CIIO;CR;$reset_password;$users;$sid)"
}

start_on() {
    samba -i -M single --configfile="$folder/smb.conf" >server.log 2>&1 &
    server=$!
    await 10 answers "$1"
}

answers() { ldapsearch -x -H "ldap://$1" -b '' -s base -LLL 1.1 >/dev/null 2>&1; }

mode=${1:-}
PATH=$PATH:/usr/sbin
found=$(binaries) || {
    echo "no Samba here: samba, samba-tool, their setup files and the ldap-utils are needed" >&2
    exit 3
}
if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    echo "Samba takes the ports 389 and 636 only: be root, or have sudo without a password" >&2
    exit 3
fi
people=OU=people,DC=corp,DC=example,DC=net
# The extended right "Reset Password", and the class of users.
reset_password=00299570-246d-11d0-a768-00aa006e0529
users=bf967aba-0de6-11d0-a285-00aa003049e2
password=${BULKHEAD_LDAP_PASSWORD:-Hull-8241-Wv}
case $mode in
    --where) head -n 1 <<<"$found"; exit 0 ;;
    --until-eof) ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
if [ "$(id -u)" != 0 ]; then exec sudo -n --preserve-env "$0" "$@"; fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-samba-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
export LDAPNOINIT=1
address=127.$(shuf -i 1-250 -n 3 | paste -sd .)
template
settings "$folder" "$address" >smb.conf
make_certificates "IP:$address"
chmod 711 .
start_on "$address" || { cat server.log samba.log >&2; exit 1; }
printf 'ready address=%s pid=%s log=%s folder=%s\n' \
    "$address" "$server" "$folder/samba.log" "$folder"
cat >/dev/null
