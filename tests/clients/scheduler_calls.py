"""Calls of programs that use python-nomad and its Ansible module, part by part:
`python3 scheduler_calls.py PART`.

Each part calls the server at NOMAD_ADDR, checks the answers, and raises an exception if an answer
is wrong. NOMAD_TOKEN is a management token; the parts about bootstrapping have none.
"""

import io
import json
import os
import runpy
import sys
from contextlib import redirect_stdout
from urllib.parse import urlsplit

import nomad
from nomad.api import exceptions

ADDRESS = urlsplit(os.environ["NOMAD_ADDR"])
TOKEN = os.environ.get("NOMAD_TOKEN")
RULES = 'namespace "default" { policy = "read" }'
MODULE = "ansible_collections.community.general.plugins.modules.nomad_token"


def client(token=TOKEN):
    return nomad.Nomad(host=ADDRESS.hostname, port=ADDRESS.port, token=token, timeout=30)


def refused(kind, text, call, *arguments, **options):
    """Fails unless the call raises exactly this kind of exception with this text."""
    try:
        call(*arguments, **options)
    except exceptions.BaseNomadException as error:
        assert type(error) is kind, repr(error)
        answer = error.nomad_resp.text
        assert text in answer, answer
        return
    raise AssertionError(f"{call} was not refused")


def read(acl, *path, **options):
    return acl.request(*path, method="get", **options)


def roles():
    acl = client().acl
    acl.create_policy("readonly", {"Name": "readonly", "Rules": RULES})
    asked = {"Name": "dev", "Policies": [{"Name": "readonly"}]}
    made = acl.request("role", json=asked, method="post").json()
    assert made["CreateIndex"] == made["ModifyIndex"] and made["Hash"], made
    assert read(acl, "role", made["ID"]).json() == made
    assert read(acl, "role", "name", "dev").json() == made
    changed = {**made, "Description": "developers"}
    changed = acl.request("role", made["ID"], json=changed, method="put").json()
    assert changed["Description"] == "developers", changed
    assert changed["ModifyIndex"] > made["ModifyIndex"], changed
    assert read(acl, "roles").json() == [changed]
    assert read(acl, "roles", params={"prefix": made["ID"][:8]}).json() == [changed]
    taken = {"json": asked, "method": "post"}
    refused(exceptions.BadRequestNomadException, "already exists", acl.request, "role", **taken)
    nothing = {"json": {"Name": "x", "Policies": [{"Name": "none"}]}, "method": "post"}
    refused(exceptions.BadRequestNomadException, "find policy", acl.request, "role", **nothing)
    answer = acl.request("role", made["ID"], method="delete")
    assert answer.status_code == 200 and answer.content == b"", answer
    refused(exceptions.URLNotFoundNomadException, "not found", read, acl, "role", made["ID"])
    refused(
        exceptions.URLNotAuthorizedNomadException, "denied",
        read, client("3e9a5c0e-0000-4000-8000-000000000000").acl, "roles",
    )
    assert read(client(None).acl, "roles").json() == []


def waiting():
    acl = client().acl
    first = read(acl, "roles")
    index = int(first.headers["X-Nomad-Index"])
    params = {"index": index, "wait": "200ms"}
    later = read(acl, "roles", params=params)
    assert later.elapsed.total_seconds() >= 0.2, later.elapsed
    assert later.json() == [] and int(later.headers["X-Nomad-Index"]) == index, later.headers


def tokens():
    one = client()
    acl = one.acl
    acl.create_policy("readonly", {"Name": "readonly", "Rules": RULES})
    assert acl.get_policy("readonly")["Rules"] == RULES
    assert [policy["Name"] for policy in acl.get_policies()] == ["readonly"]
    acl.update_policy("readonly", {"Name": "readonly", "Description": "x", "Rules": RULES})
    assert acl.get_policy("readonly")["Description"] == "x"
    made = acl.create_token({"Name": "ci", "Type": "client", "Policies": ["readonly"]})
    accessor = made["AccessorID"]
    assert acl.get_token(accessor) == made, made
    assert client(made["SecretID"]).acl.get_self_token() == made
    assert {token["Name"] for token in acl.get_tokens()} == {"Bootstrap Token", "ci"}
    changed = {"AccessorID": accessor, "Name": "ci-2", "Type": "client", "Policies": ["readonly"]}
    assert acl.update_token(accessor, changed)["Name"] == "ci-2"
    weak = client(made["SecretID"]).acl
    refused(exceptions.URLNotAuthorizedNomadException, "denied", weak.get_tokens)
    assert acl.delete_token(accessor) is True
    refused(exceptions.URLNotFoundNomadException, "not found", acl.get_token, accessor)
    acl.delete_policy("readonly")
    assert acl.get_policies() == []
    assert one.regions.get_regions() == ["global"]


def bootstrap():
    acl = client(None).acl
    made = acl.generate_bootstrap()
    assert made["Type"] == "management" and made["Name"] == "Bootstrap Token", made
    assert client(made["SecretID"]).acl.get_self_token() == made
    refused(exceptions.BadRequestNomadException, "already done", acl.generate_bootstrap)


def module(**given):
    """Runs the module like Ansible, and returns its result."""
    from ansible.module_utils import basic

    given = {"host": ADDRESS.hostname, "port": ADDRESS.port, "use_ssl": False, **given}
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode()
    basic._ANSIBLE_PROFILE = "legacy"
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            runpy.run_module(MODULE, run_name="__main__")
    except SystemExit as end:
        assert end.code == 0, printed.getvalue()
    return json.loads(printed.getvalue())


def ansible():
    made = module(state="present", token_type="bootstrap")
    assert made["changed"], made
    token = made["result"]["secret_id"]
    again = module(state="present", token_type="bootstrap", token=token)
    assert not again["changed"], again
    client(token).acl.create_policy("readonly", {"Name": "readonly", "Rules": RULES})
    given = {"state": "present", "name": "ci", "token": token, "policies": ["readonly"]}
    created = module(**given)
    assert created["changed"] and created["msg"] == "ACL token Created.", created
    assert created["result"]["policies"] == ["readonly"] and created["result"]["hash"], created
    updated = module(**{**given, "policies": ["readonly", "other"]})
    assert updated["msg"] == "ACL token updated.", updated
    assert updated["result"]["accessor_id"] == created["result"]["accessor_id"], updated
    assert updated["result"]["policies"] == ["readonly", "other"], updated
    deleted = module(state="absent", name="ci", token=token)
    assert deleted["changed"] and deleted["msg"] == "ACL token deleted.", deleted
    gone = module(state="absent", name="ci", token=token)
    assert not gone["changed"], gone


part = sys.argv[1]
globals()[part]()
print(f"{part}: done")
