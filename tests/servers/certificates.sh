# Sourced by the servers' scripts: an authority of this run, and a server's certificate by it.

# Makes ca.pem, ca.key, server.pem and server.key in the current folder, for 127.0.0.1 and, where it
# is given, another name (`IP:127.0.0.9`). The authority is the test's to use as well: what it signs
# with ca.key is a client that the server trusts.
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
