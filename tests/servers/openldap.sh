#!/usr/bin/env bash
# A private OpenLDAP with password policies, in a temporary folder, on free ports of 127.0.0.1,
# removed at the end.
#
#   openldap.sh --where         prints the server's path; fails if there is none
#   openldap.sh --until-eof     runs until standard input ends
#
# Below `dc=corp,dc=example` are `ou=people` for accounts, and `cn=keepers`, whose members may write
# passwords with exactly the rights of docs/directory.md. The policy requires 12 characters and
# locks an account after 5 wrong logins. Members of `cn=blind` see nothing, and members of
# `cn=shortsighted` see no account. `cn=admin` may do anything. Both ports offer TLS. The log names
# every operation.
#
#   BULKHEAD_LDAP_PASSWORD  password of `cn=admin`   (default: Hull-8241-Wv)
#   BULKHEAD_LDAP_TLS       a folder with ca.pem, server.pem and server.key
#                           (default: an authority of this run, see certificates.sh)
#   BULKHEAD_LDAP_SETTINGS  further lines for the end of slapd.conf   (default: none)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/certificates.sh"
. "$here/process.sh"

schemas=/etc/ldap/schema
modules=/usr/lib/ldap

binaries() {
    local name
    for name in slapd slapadd ldapsearch ldapmodify ldapwhoami; do
        command -v "$name" || return 1
    done
    [ -e "$schemas/core.schema" ] && [ -e "$modules/ppolicy.so" ]
}

# Prints the engine's rights, copied from the page.
rights() { sed -n '/^```slapd$/,/^```$/{/^```/d;p}' "$here/../../docs/directory.md"; }

configure() {
    cat >slapd.conf <<CONF
include $schemas/core.schema
include $schemas/cosine.schema
include $schemas/inetorgperson.schema
modulepath $modules
moduleload back_mdb
moduleload ppolicy
pidfile $folder/pid
argsfile $folder/args
loglevel stats
TLSCACertificateFile $folder/ca.pem
TLSCertificateFile $folder/server.pem
TLSCertificateKeyFile $folder/server.key
TLSVerifyClient allow

database mdb
maxsize 67108864
suffix "$suffix"
rootdn "cn=admin,$suffix"
rootpw $password
directory $folder/db
dbnosync
index objectClass,cn,uid,entryUUID eq
overlay ppolicy
ppolicy_default "cn=default,ou=policies,$suffix"
ppolicy_hash_cleartext

# For tests of an engine with restricted rights: members of the first group see nothing, and members
# of the second group see no account.
access to * by group.exact="cn=blind,$suffix" none by * break
access to filter="(objectClass=inetOrgPerson)"
    by group.exact="cn=shortsighted,$suffix" none by * break
CONF
    rights >>slapd.conf
    printf '%s\n' "${BULKHEAD_LDAP_SETTINGS:-}" >>slapd.conf
}

# Prints a group. A group must have a member, so it contains itself.
group() {
    printf 'dn: cn=%s\nobjectClass: groupOfNames\ncn: %s\nmember: cn=%s\n\n' \
        "$1,$suffix" "$1" "$1,$suffix"
}

populate() {
    slapadd -q -f slapd.conf >slapadd.log 2>&1 <<LDIF || { cat slapadd.log >&2; return 1; }
dn: $suffix
objectClass: organization
objectClass: dcObject
o: corp
dc: corp

dn: ou=people,$suffix
objectClass: organizationalUnit
ou: people

dn: ou=policies,$suffix
objectClass: organizationalUnit
ou: policies

dn: cn=default,ou=policies,$suffix
objectClass: device
objectClass: pwdPolicy
cn: default
pwdAttribute: userPassword
pwdCheckQuality: 2
pwdMinLength: 12
pwdLockout: TRUE
pwdMaxFailure: 5

$(for name in keepers blind shortsighted; do group "$name"; done)
LDIF
}

# The server listens on the port after `$1` with TLS from the start.
start_on() {
    "${as_user[@]}" slapd -f "$folder/slapd.conf" -d stats \
        -h "ldap://127.0.0.1:$1/ ldaps://127.0.0.1:$(($1 + 1))/" >server.log 2>&1 &
    server=$!
    await 10 answers "$1"
}

# Succeeds if this server answers at port `$1`.
answers() {
    grep -qs 'slapd starting' server.log &&
        ldapsearch -x -H "ldap://127.0.0.1:$1" -b '' -s base -LLL 1.1 >/dev/null 2>&1
}

mode=${1:-}
PATH=$PATH:/usr/sbin
found=$(binaries) ||
    { echo "no OpenLDAP here: slapd with ppolicy, and the ldap-utils are needed" >&2; exit 3; }
suffix=dc=corp,dc=example
password=${BULKHEAD_LDAP_PASSWORD:-Hull-8241-Wv}
case $mode in
    --where) head -n 1 <<<"$found"; exit 0 ;;
    --until-eof) ;;
    *) sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

as_user=()
folder=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-openldap-XXXXXX")
cd "$folder"
trap stop EXIT
trap 'exit 0' INT TERM HUP
# The user's own client settings must not apply.
export LDAPNOINIT=1
mkdir db
if [ -n "${BULKHEAD_LDAP_TLS:-}" ]; then
    cp "$BULKHEAD_LDAP_TLS"/{ca.pem,server.pem,server.key} .
else
    make_certificates
fi
configure
populate
if [ "$(id -u)" = 0 ]; then
    as_user=(setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups)
    chown -R nobody .
    chmod 711 .
fi
start
printf 'ready port=%s tls_port=%s pid=%s log=%s folder=%s\n' \
    "$chosen" "$((chosen + 1))" "$server" "$folder/server.log" "$folder"
cat >/dev/null
