"""The validator of OpenAPI documents, with the documents of a server: one part at a time.

Usage: openapi_calls.py PART. Reads VAULT_ADDR, VAULT_TOKEN. Prints "PART: done" at the end.
"""

import json
import os
import sys
import urllib.parse
import urllib.request

from openapi_spec_validator import OpenAPIV30SpecValidator


def ask(path, token=True, body=None):
    """Returns the JSON of an answer; sends PUT with a body."""
    request = urllib.request.Request(os.environ["VAULT_ADDR"] + "/v1/" + path)
    if token:
        request.add_header("X-Vault-Token", os.environ["VAULT_TOKEN"])
    if body is not None:
        request.method, request.data = "PUT", json.dumps(body).encode()
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def document(query="", token=True):
    return ask("sys/internal/specs/openapi" + query, token)


def expect_valid(found):
    """Fails with the place of each fault. Each operation has a name of its own."""
    faults = [
        f"{'/'.join(map(str, fault.absolute_path))}: {fault.message}"
        for fault in OpenAPIV30SpecValidator(found).iter_errors()
    ]
    assert not faults, "\n".join(faults[:20])
    operations = [
        operation["operationId"]
        for item in found["paths"].values()
        for name, operation in item.items()
        if name != "parameters"
    ]
    assert len(operations) == len(set(operations))


def every_plugin():
    """The documents of a server with every plugin mounted are valid, for all callers."""
    whole = document()
    for path in ["/secret/data/{path}", "/database/creds/{name}", "/auth/approle/login"]:
        assert path in whole["paths"], path
    # A caller without a token gets the placeholders, too.
    generic = document("?generic_mount_paths=true")
    assert generic["paths"] == document(token=False)["paths"]
    for found in [whole, generic]:
        expect_valid(found)
    for mount in ["secret/", "auth/approle/"]:
        found = document("?mount=" + urllib.parse.quote(mount))
        assert all(path.startswith("/" + mount) for path in found["paths"]), mount


def many_mounts():
    """Mounts with equal rows are described once, and their names are listed once."""
    for number in range(60):
        ask(f"sys/mounts/many-{number}", body={"type": "kv"})
        ask(f"sys/mounts/team-{number}/kv", body={"type": "kv"})
    found = document()
    expect_valid(found)
    assert "/{kv_mount_path}/{path}" in found["paths"]
    assert "/secret/data/{path}" in found["paths"], "another version stays apart"
    names = found["components"]["parameters"]["kv_mount_path"]["schema"]["enum"]
    assert "many-59" in names and len(names) == 60, names
    assert "mounts are left out" in found["info"]["description"]
    apart = document("?mount=team-39/kv/")
    expect_valid(apart)
    assert "/team-39/kv/{path}" in apart["paths"]
    assert all(path.startswith("/team-39/kv/") for path in apart["paths"])


PARTS = {"every_plugin": every_plugin, "many_mounts": many_mounts}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
    print(sys.argv[1] + ": done")
