# For the servers' scripts, which source this file: a certificate authority for this run, and a
# server certificate.

# Makes ca.pem, ca.key, server.pem and server.key in the current folder, for 127.0.0.1 and
# optionally another name (`IP:127.0.0.9`). Tests can use the authority too: the server trusts
# client certificates signed with ca.key.
make_certificates() {
    local short=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2)
    openssl req -x509 "${short[@]}" -subj "/CN=authority of this run" -keyout ca.key -out ca.pem \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign \
        2>openssl.log || { cat openssl.log >&2; return 1; }
    openssl req -x509 "${short[@]}" -CA ca.pem -CAkey ca.key -subj "/CN=server" \
        -addext basicConstraints=critical,CA:FALSE \
        -addext "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:db.example${1:+,$1}" \
        -addext extendedKeyUsage=serverAuth -keyout server.key -out server.pem \
        2>openssl.log || { cat openssl.log >&2; return 1; }
    chmod 600 ca.key server.key
}
