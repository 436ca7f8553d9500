"""Calls of programs that use hvac, part by part: `python3 hvac_calls.py PART`.

Each part calls the server at VAULT_ADDR through hvac with the token VAULT_TOKEN, checks the
answers, and raises an exception if an answer is wrong.
"""

import io
import json
import os
import sys
import tarfile
import time

import hvac
from hvac import exceptions

READ_NOTES = 'path "notes/*" { capabilities = ["read", "list"] }'


def refused(kind, call, *arguments, **options):
    """Fails unless the call raises exactly this kind of exception, and returns its text."""
    try:
        call(*arguments, **options)
    except exceptions.VaultError as error:
        assert type(error) is kind, repr(error)
        return str(error)
    raise AssertionError(f"{call} was not refused")


def until(holds):
    """Waits until `holds` returns true."""
    limit = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < limit, "it did not end within 30 seconds"
        time.sleep(0.02)


def tokens(client):
    assert client.is_authenticated()
    made = client.auth.token.create(
        policies=["default"], ttl="1h", explicit_max_ttl="2h", meta={"team": "a"}, num_uses=0
    )["auth"]
    token, accessor = made["client_token"], made["accessor"]
    assert made["lease_duration"] == 3600 and made["renewable"] is True, made
    found = client.auth.token.lookup(token)["data"]
    assert found["policies"] == ["default"] and found["meta"] == {"team": "a"}, found
    assert client.auth.token.lookup_accessor(accessor)["data"]["accessor"] == accessor
    assert accessor in client.auth.token.list_accessors()["data"]["keys"]
    renewed = client.auth.token.renew(token, increment="30m")["auth"]
    assert renewed["client_token"] == token and renewed["lease_duration"] == 1800, renewed
    assert client.auth.token.renew_accessor(accessor)["auth"]["accessor"] == accessor

    other = hvac.Client(url=client.url, token=token)
    assert other.is_authenticated()
    assert other.auth.token.lookup_self()["data"]["id"] == token
    assert other.auth.token.renew_self()["auth"]["client_token"] == token
    other.auth.token.revoke_self()
    assert not other.is_authenticated()
    refused(exceptions.Forbidden, client.auth.token.lookup, token)

    parent = client.auth.token.create(policies=["root"])["auth"]["client_token"]
    child = hvac.Client(url=client.url, token=parent).auth.token.create()["auth"]["client_token"]
    client.auth.token.revoke_and_orphan_children(parent)
    assert client.auth.token.lookup(child)["data"]["orphan"] is True
    client.auth.token.revoke(child)
    orphan = client.auth.token.create_orphan(policies=["default"])["auth"]
    assert orphan["orphan"] is True, orphan
    client.auth.token.revoke_accessor(orphan["accessor"])
    batch = client.auth.token.create(policies=["default"], type="batch")["auth"]
    assert batch["token_type"] == "batch" and batch["accessor"] == "", batch
    assert client.auth.token.tidy().status_code == 202


def token_roles(client):
    client.auth.token.create_or_update_role(
        "ci", allowed_policies=["default"], orphan=True, renewable=False, token_period="1h"
    )
    role = client.auth.token.read_role("ci")["data"]
    assert role["allowed_policies"] == ["default"] and role["orphan"] is True, role
    assert role["token_period"] == 3600, role
    assert client.auth.token.list_roles()["data"]["keys"] == ["ci"]
    made = client.auth.token.create(role_name="ci")["auth"]
    assert made["orphan"] is True and made["token_policies"] == ["default"], made
    client.auth.token.delete_role("ci")
    refused(exceptions.InvalidPath, client.auth.token.read_role, "ci")


def policies(client):
    client.sys.create_or_update_policy(name="notes", policy=READ_NOTES)
    assert client.sys.read_policy(name="notes")["data"]["rules"] == READ_NOTES
    assert client.get_policy("notes") == READ_NOTES
    listed = client.sys.list_policies()["data"]
    assert listed["keys"] == listed["policies"] == ["default", "notes", "root"], listed
    as_object = {"path": {"notes/a": {"capabilities": ["update"]}}}
    client.sys.create_or_update_acl_policy(name="writers", policy=as_object)
    assert "notes/a" in client.sys.read_acl_policy(name="writers")["data"]["policy"]
    assert client.sys.list_acl_policies()["data"]["keys"] == ["default", "notes", "root", "writers"]
    token = client.auth.token.create(policies=["notes", "writers"])["auth"]["client_token"]
    asked = client.sys.get_capabilities(paths=["notes/a", "notes/b", "other"], token=token)
    assert asked["data"]["notes/a"] == ["update"], asked
    assert asked["data"]["notes/b"] == ["list", "read"], asked
    assert asked["data"]["other"] == ["deny"], asked
    client.sys.delete_policy(name="notes")
    client.sys.delete_acl_policy(name="writers")
    refused(exceptions.InvalidPath, client.sys.read_policy, name="notes")


def mounts(client):
    client.sys.enable_secrets_engine(
        backend_type="database", path="orders", description="orders", config={"max_lease_ttl": "4h"}
    )
    listed = client.sys.list_mounted_secrets_engines()["data"]
    assert listed["orders/"]["type"] == "database", listed
    assert listed["orders/"]["description"] == "orders", listed
    assert client.sys.retrieve_mount_option("orders", "version", "none") == "none"
    client.sys.tune_mount_configuration(path="orders", default_lease_ttl="30m")
    tuned = client.sys.read_mount_configuration(path="orders")["data"]
    assert (tuned["default_lease_ttl"], tuned["max_lease_ttl"]) == (1800, 14400), tuned
    assert client.list("orders/roles") is None
    assert client.read("orders/roles/none") is None
    refused(exceptions.InvalidPath, client.secrets.database.list_roles, mount_point="orders")
    move = client.sys.move_backend(from_path="orders", to_path="sales")["data"]["migration_id"]
    status = f"sys/remount/status/{move}"
    until(lambda: client.read(status)["data"]["migration_info"]["status"] == "success")
    assert "sales/" in client.sys.list_mounted_secrets_engines()["data"]
    client.sys.revoke_prefix("sales/")
    client.sys.disable_secrets_engine(path="sales")
    assert "sales/" not in client.sys.list_mounted_secrets_engines()["data"]


def auth_methods(client):
    listed = client.sys.list_auth_methods()["data"]
    assert listed["token/"]["type"] == "token", listed
    tuned = client.sys.read_auth_method_tuning(path="token")["data"]
    assert tuned["max_lease_ttl"] > 0, tuned
    client.sys.tune_auth_method(path="token", description="tokens")
    assert client.sys.list_auth_methods()["data"]["token/"]["description"] == "tokens"


def kubernetes(client):
    about = json.loads(os.environ["ABOUT"])
    method = client.auth.kubernetes
    method.configure(
        kubernetes_host=about["host"],
        kubernetes_ca_cert=about["authority"],
        token_reviewer_jwt=about["reviewer"],
    )
    config = method.read_config()
    assert config["kubernetes_host"] == about["host"], config
    assert config["token_reviewer_jwt_set"] is True, config
    assert "token_reviewer_jwt" not in config, config
    method.create_role(
        name="web",
        bound_service_account_names=["app"],
        bound_service_account_namespaces=[about["namespace"]],
        policies=["default"],
        ttl="10m",
        max_ttl="1h",
    )
    role = method.read_role("web")
    assert role["bound_service_account_names"] == ["app"], role
    assert role["token_ttl"] == 600 and role["policies"] == ["default"], role
    assert method.list_roles()["keys"] == ["web"]

    pod = hvac.Client(url=client.url)
    auth = pod.auth.kubernetes.login(role="web", jwt=about["jwt"])["auth"]
    assert auth["metadata"]["service_account_name"] == "app", auth
    assert auth["lease_duration"] == 600 and pod.is_authenticated(), auth
    login = hvac.Client(url=client.url).auth.kubernetes.login
    refused(exceptions.Forbidden, login, role="web", jwt=about["other"])
    refused(exceptions.InvalidRequest, login, role="nobody", jwt=about["jwt"])
    method.delete_role("web")
    refused(exceptions.InvalidPath, method.read_role, "web")


def password_policies(client):
    path = "sys/policies/password/letters"
    text = 'length = 12\nrule "charset" {\n  charset = "abcdef"\n  min-chars = 3\n}\n'
    assert client.list("sys/policies/password") is None
    assert client.read(path) is None
    client.write_data(path, data={"policy": text})
    assert client.read(path)["data"] == {"policy": text}
    assert client.list("sys/policies/password")["data"]["keys"] == ["letters"]
    password = client.read(f"{path}/generate")["data"]["password"]
    assert len(password) == 12 and set(password) <= set("abcdef"), password
    words = refused(exceptions.InvalidRequest, client.write_data, path, data={"policy": "length"})
    assert "password policy" in words, words
    client.delete(path)
    assert client.read(path) is None


def entities(client):
    identity = client.secrets.identity
    made = identity.create_or_update_entity(
        name="amy", metadata={"team": "a"}, policies=["default"]
    )["data"]
    found = identity.read_entity(entity_id=made["id"])["data"]
    assert found["name"] == "amy" and found["metadata"] == {"team": "a"}, found
    assert identity.read_entity_by_name("amy")["data"]["id"] == made["id"]
    assert identity.update_entity(entity_id=made["id"], disabled=True).status_code == 204
    assert identity.read_entity_by_name("amy")["data"]["disabled"] is True
    assert identity.list_entities()["data"]["keys"] == [made["id"]]
    assert identity.list_entities(method="GET")["data"]["keys"] == [made["id"]]
    assert identity.list_entities_by_name()["data"]["keys"] == ["amy"]
    assert identity.lookup_entity(name="amy")["data"]["id"] == made["id"]
    assert identity.lookup_entity(name="none").status_code == 204

    accessor = client.sys.list_auth_methods()["data"]["token/"]["accessor"]
    alias = identity.create_or_update_entity_alias(
        name="amy@example.com", canonical_id=made["id"], mount_accessor=accessor
    )["data"]
    shown = identity.read_entity_alias(alias["id"])["data"]
    assert shown["name"] == "amy@example.com" and shown["canonical_id"] == made["id"], shown
    assert identity.list_entity_aliases()["data"]["keys"] == [alias["id"]]
    found = identity.lookup_entity(
        alias_name="amy@example.com", alias_mount_accessor=accessor
    )["data"]
    assert found["id"] == made["id"], found
    identity.delete_entity_alias(alias["id"])

    other = identity.create_or_update_entity(name="amy-too")["data"]["id"]
    identity.merge_entities(from_entity_ids=[other], to_entity_id=made["id"])
    assert identity.read_entity(made["id"])["data"]["merged_entity_ids"] == [other]
    identity.delete_entity_by_name("amy")
    refused(exceptions.InvalidPath, identity.read_entity, made["id"])


def groups(client):
    identity = client.secrets.identity
    amy = identity.create_or_update_entity(name="amy")["data"]["id"]
    team = identity.create_or_update_group(
        name="team", policies=["default"], member_entity_ids=[amy], metadata={"floor": "2"}
    )["data"]["id"]
    found = identity.read_group(team)["data"]
    assert found["member_entity_ids"] == [amy] and found["type"] == "internal", found
    assert identity.read_group_by_name("team")["data"]["id"] == team
    assert identity.read_entity(amy)["data"]["direct_group_ids"] == [team]
    assert identity.lookup_group(name="team")["data"]["id"] == team
    assert identity.list_groups()["data"]["keys"] == [team]
    assert identity.list_groups_by_name()["data"]["keys"] == ["team"]

    accessor = client.sys.list_auth_methods()["data"]["token/"]["accessor"]
    outside = identity.create_or_update_group(name="outside", group_type="external")["data"]["id"]
    alias = identity.create_or_update_group_alias(
        name="project-1", mount_accessor=accessor, canonical_id=outside
    )["data"]["id"]
    assert identity.read_group_alias(alias)["data"]["canonical_id"] == outside
    assert identity.list_group_aliases()["data"]["keys"] == [alias]
    identity.delete_group_alias(alias)
    identity.delete_group(outside)
    identity.delete_group_by_name("team")
    refused(exceptions.InvalidPath, identity.read_group, team)


def logins(client):
    client.sys.enable_auth_method(method_type="passphrase", path="door", description="a door")
    client.sys.create_or_update_policy(name="notes", policy=READ_NOTES)
    user = {"passphrase": "open sesame", "token_policies": ["notes"], "token_ttl": "1h"}
    client.write_data("auth/door/users/amy", data=user)
    amy = hvac.Client(url=client.url, token="")
    refused(
        exceptions.InvalidRequest,
        amy.adapter.login,
        "/v1/auth/door/login/amy",
        json={"passphrase": "open barley"},
    )
    assert not amy.is_authenticated()
    login = amy.adapter.login("/v1/auth/door/login/amy", json={"passphrase": "open sesame"})["auth"]
    assert amy.token == login["client_token"] and amy.is_authenticated()
    assert "notes" in login["token_policies"] and login["lease_duration"] == 3600, login
    entity = client.secrets.identity.read_entity(login["entity_id"])["data"]
    assert [alias["name"] for alias in entity["aliases"]] == ["amy"], entity
    refused(exceptions.Forbidden, amy.sys.list_policies)
    client.secrets.identity.update_entity(entity_id=entity["id"], disabled=True)
    assert not amy.is_authenticated()
    client.sys.disable_auth_method(path="door")
    assert "door/" not in client.sys.list_auth_methods()["data"]


def gcp(client):
    """The requests of hvac's own tests of this method, without a provider."""
    client.sys.enable_auth_method("gcp")
    calls = client.auth.gcp
    assert calls.read_config()["iam_alias"] == "role_id"
    words = refused(exceptions.InvalidRequest, calls.configure, credentials="not json")
    assert "credentials" in words and "not json" not in words, words
    calls.configure(google_certs_endpoint="https://www.googleapis.com/oauth2/v3/certs")
    refused(exceptions.UnexpectedError, calls.delete_config)

    refused(exceptions.InvalidPath, calls.list_roles)
    refused(exceptions.InvalidPath, calls.read_role, name="app")
    words = refused(
        exceptions.InvalidRequest, calls.create_role, name="app", role_type="iam", project_id="p1"
    )
    assert "IAM role type must have at least one service account" in words, words
    accounts = ["a@p1.iam.gserviceaccount.com"]
    calls.create_role(
        name="app", role_type="iam", project_id="p1", bound_service_accounts=accounts
    )
    read = calls.read_role(name="app")
    assert read["bound_projects"] == ["p1"] and read["type"] == "iam", read
    assert read["bound_service_accounts"] == accounts, read
    other = "b@p1.iam.gserviceaccount.com"
    calls.edit_service_accounts_on_iam_role(name="app", add=[other], remove=accounts)
    assert calls.read_role(name="app")["bound_service_accounts"] == [other]
    nothing = "must provide at least one value to add or remove"
    edits = calls.edit_service_accounts_on_iam_role
    assert nothing in refused(exceptions.InvalidRequest, edits, name="app")

    calls.create_role(
        name="vm", role_type="gce", project_id="p1", bound_zones=["us-east1-b"],
        bound_labels=["team:blue"], bound_service_accounts="",
    )
    calls.edit_labels_on_gce_role(name="vm", add=["tier:web"], remove=["team", "none"])
    assert calls.read_role(name="vm")["bound_labels"] == {"tier": "web"}
    assert calls.list_roles()["keys"] == ["app", "vm"]
    login = {"role": "app", "jwt": "x.y.z", "use_token": False}
    words = refused(exceptions.InvalidRequest, calls.login, **login)
    assert "unable to parse signed JWT" in words, words
    for role in ["app", "vm"]:
        calls.delete_role(role)
    refused(exceptions.InvalidPath, calls.list_roles)


def azure(client):
    """The requests of hvac's own tests of this method, without a provider."""
    client.sys.enable_auth_method("azure")
    calls = client.auth.azure
    refused(exceptions.InvalidPath, calls.read_config)
    words = refused(
        exceptions.InvalidRequest, calls.configure, tenant_id="../x", resource="https://r.example"
    )
    assert "tenant_id" in words, words
    tenant = "7a1f0f3e-9b7c-4f35-8d1e-000000000001"
    calls.configure(
        tenant_id=tenant, resource="https://r.example", environment="AzureUSGovernmentCloud",
        client_id="c", client_secret="not shown",
    )
    read = calls.read_config()
    assert read["tenant_id"] == tenant and read["resource"] == "https://r.example", read
    assert read["environment"] == "AzureUSGovernmentCloud", read

    refused(exceptions.InvalidPath, calls.list_roles)
    refused(exceptions.InvalidPath, calls.read_role, name="app")
    words = refused(exceptions.InvalidRequest, calls.create_role, name="app", policies=["a"])
    assert "must have at least one bound constraint when creating/updating a role" in words, words
    calls.create_role(
        name="app", policies=["a", "b"], ttl="1h", max_ttl="2h", num_uses=3,
        bound_service_principal_ids=["p"], bound_group_ids=["g"], bound_locations=["westus2"],
        bound_subscription_ids=["s"], bound_resource_groups=["r"], bound_scale_sets=["v"],
    )
    read = calls.read_role(name="app")
    assert read["policies"] == read["token_policies"] == ["a", "b"], read
    assert (read["token_ttl"], read["token_max_ttl"], read["token_num_uses"]) == (3600, 7200, 3)
    assert read["bound_locations"] == ["westus2"] and read["bound_scale_sets"] == ["v"], read
    assert calls.list_roles()["keys"] == ["app"]
    calls.delete_role("app")
    refused(exceptions.InvalidPath, calls.list_roles)
    calls.delete_config()
    refused(exceptions.InvalidPath, calls.read_config)


def logged_in(client, login, **arguments):
    """Logs in without a token, and returns the `auth` part of the answer."""
    one = hvac.Client(url=client.url, token="")
    auth = login(one)(**arguments)["auth"]
    assert one.token == auth["client_token"] and one.is_authenticated(), auth
    one.auth.token.renew_self()
    return auth


def explained(client, path, **fields):
    """Returns the constraints of a role that a login with these fields does not meet."""
    listed = client.write_data(path, data=fields)["data"]["constraints"]
    assert listed and all(one["why"] for one in listed), listed
    return [one["name"] for one in listed if not one["held"]]


def azure_logins(client):
    login = lambda one: one.auth.azure.login
    calls, jwt = client.auth.azure, os.environ["AZURE_JWT"]
    machine = {
        "subscription_id": os.environ["AZURE_SUBSCRIPTION"],
        "resource_group_name": "apps",
        "vm_name": "vm1",
    }
    calls.create_role(name="app", bound_locations=["westus2"], policies=["app"])
    auth = logged_in(client, login, role="app", jwt=jwt, **machine)
    assert auth["metadata"]["vm_name"] == "vm1" and "app" in auth["policies"], auth
    other = hvac.Client(url=client.url, token="")
    asked = {"role": "app", "jwt": jwt, **machine, "vm_name": "vm2"}
    words = refused(exceptions.InvalidRequest, other.auth.azure.login, **asked)
    assert "vm_name" in words, words
    path = "auth/azure/role/app/explain"
    assert explained(client, path, jwt=jwt, **machine) == []
    assert explained(client, path, jwt=jwt, vm_name="vm2") != []
    client.write_data("auth/azure/rotate-root", data={})
    again = "a root rotation is already in progress"
    words = refused(exceptions.InvalidRequest, client.write_data, "auth/azure/rotate-root", data={})
    assert again in words, words
    logged_in(client, login, role="app", jwt=jwt, **machine)


def gcp_logins(client):
    login = lambda one: one.auth.gcp.login
    account, instance = os.environ["GOOGLE_ACCOUNT_JWT"], os.environ["GOOGLE_INSTANCE_JWT"]
    auth = logged_in(client, login, role="app", jwt=account)
    assert auth["metadata"]["service_account_email"] == os.environ["GOOGLE_ACCOUNT"], auth
    auth = logged_in(client, login, role="vm", jwt=instance)
    assert auth["metadata"]["instance_name"] == "i1", auth
    other = hvac.Client(url=client.url, token="")
    words = refused(exceptions.InvalidRequest, other.auth.gcp.login, role="vm", jwt=account)
    assert "aud" in words or "public key" in words, words
    assert explained(client, "auth/gcp/role/vm/explain", jwt=instance) == []
    assert explained(client, "auth/gcp/role/vm/explain", jwt=account) != []
    before = client.auth.gcp.read_config()["private_key_id"]
    made = client.write_data("auth/gcp/config/rotate-root", data={})["data"]["private_key_id"]
    assert made != before
    assert client.auth.gcp.read_config()["private_key_id"] == made
    logged_in(client, login, role="app", jwt=account)


def jwt(client):
    """Every call of hvac for the method except those of browser logins, with a written key."""
    client.sys.enable_auth_method("jwt", path="tokens")
    about, at = json.loads(os.environ["ABOUT"]), {"path": "tokens"}
    calls = client.auth.jwt
    refused(exceptions.InvalidPath, calls.read_config, **at)
    words = refused(exceptions.InvalidRequest, calls.configure, oidc_client_id="app", **at)
    assert "oidc_client_id" in words, words
    calls.configure(jwt_validation_pubkeys=[about["key"]], jwt_supported_algs=["RS256"], **at)
    calls.configure(bound_issuer=about["issuer"], default_role="app", **at)
    read = calls.read_config(**at)["data"]
    assert read["jwt_validation_pubkeys"] == [about["key"].strip()], read
    assert read["bound_issuer"] == about["issuer"] and read["default_role"] == "app", read

    refused(exceptions.InvalidPath, calls.list_roles, **at)
    refused(exceptions.InvalidPath, calls.read_role, name="app", **at)
    usual = {"name": "app", "user_claim": "sub", "allowed_redirect_uris": [], **at}
    words = refused(exceptions.InvalidRequest, calls.create_role, **usual)
    assert "must have at least one bound constraint when creating/updating a role" in words, words
    calls.create_role(
        bound_audiences=["bulkhead"], bound_claims={"project": ["web", "ops"]}, groups_claim="groups",
        claim_mappings={"project": "project"}, clock_skew_leeway=30, expiration_leeway=-1,
        token_policies=["app"], token_ttl="1h", **usual,
    )
    read = calls.read_role(name="app", **at)["data"]
    assert read["role_type"] == "jwt" and read["user_claim"] == "sub", read
    assert read["bound_claims"] == {"project": ["web", "ops"]}, read
    assert (read["clock_skew_leeway"], read["expiration_leeway"], read["token_ttl"]) == (30, -1, 3600)
    assert calls.list_roles(**at)["data"]["keys"] == ["app"]
    for fields in [{"role": "app"}, {"role": ""}]:
        login = lambda one: one.auth.jwt.jwt_login
        auth = logged_in(client, login, jwt=about["jwt"], **fields, **at)
        assert auth["metadata"] == {"project": "web", "role": "app"}, auth
        assert auth["policies"] == ["app", "default"], auth
    other = hvac.Client(url=client.url, token="")
    words = refused(
        exceptions.InvalidRequest, other.auth.jwt.jwt_login, role="app", jwt=about["foreign"], **at
    )
    assert "signature" in words, words
    calls.delete_role(name="app", **at)
    refused(exceptions.InvalidPath, calls.read_role, name="app", **at)


def active_directory(client):
    """Calls every endpoint of the engine: with hvac's functions, and with generic requests where
    hvac has no function."""
    about = json.loads(os.environ["ABOUT"])
    account, lent = about["account"], about["lent"]
    client.sys.enable_secrets_engine("ad")
    calls = client.secrets.activedirectory
    refused(exceptions.InvalidPath, calls.read_config)
    assert calls.configure(ttl=3600, max_ttl="2h", **about["config"]).status_code == 204
    read = calls.read_config()["data"]
    assert read["ttl"] == 3600 and read["max_ttl"] == 7200 and "bindpass" not in read, read
    words = refused(exceptions.InvalidRequest, calls.configure, ttl="3h")
    assert "max_ttl" in words, words

    refused(exceptions.InvalidPath, calls.list_roles)
    role = {"name": "build", "service_account_name": account}
    words = refused(exceptions.InvalidRequest, calls.create_or_update_role, ttl="3h", **role)
    assert "longer than" in words, words
    assert calls.create_or_update_role(ttl="1h", **role).status_code == 204
    assert calls.list_roles()["data"]["keys"] == ["build"]
    assert client.read("ad/roles")["data"]["keys"] == ["build"]
    read = calls.read_role("build")["data"]
    assert read["service_account_name"] == account and read["ttl"] == 3600, read
    first = calls.generate_credentials("build")
    assert first["lease_id"] == "" and sorted(first["data"]) == ["current_password", "username"]
    assert first["data"]["username"] == account.split("@")[0], first["data"]["username"]
    client.secrets.ldap.rotate_static_credentials("build", mount_point="ad")
    second = calls.generate_credentials("build")["data"]
    assert second["last_password"] == first["data"]["current_password"]
    assert calls.read_role("build")["data"]["last_vault_rotation"]
    client.secrets.ldap.rotate_root(mount_point="ad")
    client.read("ad/rotate-root")
    assert calls.read_config()["data"]["last_bind_password_rotation"]
    calls.delete_role("build")
    refused(exceptions.InvalidPath, calls.read_role, "build")
    refused(exceptions.InvalidPath, calls.generate_credentials, "build")

    client.write("ad/library/team", service_account_names=[lent], ttl="30m", max_ttl="1h")
    assert client.list("ad/library")["data"]["keys"] == ["team"]
    assert client.read("ad/library/team")["data"] == {
        "service_account_names": [lent], "ttl": 1800, "max_ttl": 3600,
        "disable_check_in_enforcement": False,
    }
    loan = client.write("ad/library/team/check-out", ttl="10m")
    assert loan["renewable"] is True and loan["lease_duration"] == 600, loan["lease_duration"]
    assert loan["data"]["service_account_name"] == lent and loan["data"]["password"]
    words = refused(exceptions.InvalidRequest, client.write, "ad/library/team/check-out")
    assert "available" in words, words
    assert client.read("ad/library/team/status")["data"][lent]["available"] is False
    renewed = client.sys.renew_lease(loan["lease_id"], increment=1200)
    assert renewed["lease_duration"] == 1200, renewed
    refused(exceptions.InvalidRequest, client.delete, "ad/library/team")
    home = client.write("ad/library/team/check-in", service_account_names=[lent])
    assert home["data"]["check_ins"] == [lent], home["data"]
    refused(exceptions.InvalidRequest, client.sys.renew_lease, loan["lease_id"])
    again = client.write("ad/library/team/check-out")
    assert again["data"]["password"] != loan["data"]["password"]
    home = client.write("ad/library/manage/team/check-in")
    assert home["data"]["check_ins"] == [lent], home["data"]
    client.delete("ad/library/team")
    assert client.read("ad/library/team") is None
    words = refused(exceptions.InvalidRequest, client.delete, "ad/config")
    assert "force=true" in words, words
    client.delete("ad/config?force=true")
    refused(exceptions.InvalidPath, calls.read_config)
    client.sys.disable_secrets_engine("ad")


def kv_version_2(client):
    kv = client.secrets.kv.v2
    client.secrets.kv.default_kv_version = 2
    kv.configure(max_versions=4, cas_required=False, delete_version_after="768h")
    config = kv.read_configuration()["data"]
    assert config["max_versions"] == 4 and config["delete_version_after"] == "768h0m0s", config
    made = kv.create_or_update_secret("team/app", secret={"user": "app", "n": 1}, cas=0)["data"]
    assert made["version"] == 1 and made["destroyed"] is False, made
    words = refused(
        exceptions.InvalidRequest, kv.create_or_update_secret, "team/app", secret={}, cas=0
    )
    assert "current version is 1" in words, words
    read = kv.read_secret("team/app", raise_on_deleted_version=True)["data"]
    assert read["data"] == {"user": "app", "n": 1} and read["metadata"]["version"] == 1, read
    assert kv.patch("team/app", secret={"n": 2})["data"]["version"] == 2
    patched = kv.read_secret_version("team/app", version=2, raise_on_deleted_version=True)
    assert patched["data"]["data"] == {"user": "app", "n": 2}, patched
    kv.update_metadata(
        "team/app", max_versions=3, cas_required=True, custom_metadata={"owner": "blue"}
    )
    metadata = kv.read_secret_metadata("team/app")["data"]
    assert metadata["current_version"] == 2 and set(metadata["versions"]) == {"1", "2"}, metadata
    assert metadata["custom_metadata"] == {"owner": "blue"}, metadata
    assert metadata["cas_required"] is True and metadata["max_versions"] == 3, metadata
    assert kv.list_secrets("")["data"]["keys"] == ["team/"]
    assert kv.list_secrets("team")["data"]["keys"] == ["app"]

    kv.delete_latest_version_of_secret("team/app")
    gone = kv.read_secret_version("team/app", raise_on_deleted_version=False)["data"]
    assert gone["data"] is None and gone["metadata"]["deletion_time"] != "", gone
    refused(
        exceptions.InvalidPath, kv.read_secret_version, "team/app", raise_on_deleted_version=True
    )
    kv.undelete_secret_versions("team/app", versions=[2])
    kv.delete_secret_versions("team/app", versions=[1, 2])
    kv.undelete_secret_versions("team/app", versions=[1, 2])
    kv.destroy_secret_versions("team/app", versions=[1])
    words = refused(
        exceptions.InvalidPath,
        kv.read_secret_version,
        "team/app",
        version=1,
        raise_on_deleted_version=False,
    )
    assert '"destroyed":true' in words, words
    kv.delete_metadata_and_all_versions("team/app")
    refused(exceptions.InvalidPath, kv.read_secret_metadata, "team/app")
    refused(exceptions.InvalidPath, kv.list_secrets, "")


def kv_version_1(client):
    client.sys.enable_secrets_engine("kv", path="old", options={"version": "1"})
    kv = client.secrets.kv.v1
    kv.create_or_update_secret("team/app", secret={"user": "app", "ttl": "1h"}, mount_point="old")
    read = kv.read_secret("team/app", mount_point="old")
    assert read["data"] == {"user": "app", "ttl": "1h"}, read
    assert read["lease_duration"] == 3600 and read["lease_id"] == "", read
    kv.create_or_update_secret(
        "team/app", secret={"path": "x", "none": None}, method="PUT", mount_point="old"
    )
    read = kv.read_secret("team/app", mount_point="old")
    assert read["data"] == {"path": "x", "none": None}, read
    assert kv.list_secrets("", mount_point="old")["data"]["keys"] == ["team/"]
    assert kv.list_secrets("team", mount_point="old")["data"]["keys"] == ["app"]
    kv.delete_secret("team/app", mount_point="old")
    refused(exceptions.InvalidPath, kv.read_secret, "team/app", mount_point="old")

    # Generic calls of older programs.
    client.write_data("old/of-before", data={"n": 1})
    assert client.read("old/of-before")["data"] == {"n": 1}
    assert client.list("old")["data"]["keys"] == ["of-before"]
    client.delete("old/of-before")
    assert client.read("old/of-before") is None


def server(client):
    assert client.sys.is_initialized() is True and client.sys.is_sealed() is False
    assert client.sys.read_seal_status()["sealed"] is False
    health = client.sys.read_health_status(method="GET")
    assert health["initialized"] is True and health["sealed"] is False, health
    assert client.sys.read_health_status().status_code == 200
    assert client.sys.read_leader_status()["is_self"] is True
    assert client.key_status["term"] >= 1
    client.sys.rotate_encryption_key()
    assert "file" not in client.sys.list_enabled_audit_devices()["data"]
    snapshot = client.sys.take_raft_snapshot()
    assert snapshot.status_code == 200, snapshot
    with tarfile.open(fileobj=io.BytesIO(snapshot.content)) as archive:
        names = archive.getnames()
    assert names[0] == "meta.json" and names[-1] == "SHA256SUMS.sealed", names
    for restore in [client.sys.restore_raft_snapshot, client.sys.force_restore_raft_snapshot]:
        client.sys.create_or_update_policy("late", 'path "a" {}')
        restored = restore(snapshot.content)
        assert restored.status_code == 204, restored
        assert "late" not in client.sys.list_policies()["data"]["policies"]
        assert "snapshot" in refused(exceptions.InvalidRequest, restore, b"no snapshot")
        assert "empty" in refused(exceptions.InvalidRequest, restore, b"")
    # The body may also be a file.
    restored = client.sys.restore_raft_snapshot(io.BytesIO(snapshot.content))
    assert restored.status_code == 204, restored
    client.write_data("sys/release", data={})


def userpass(client):
    client.sys.enable_auth_method("userpass", path="people")
    at, calls = {"mount_point": "people"}, client.auth.userpass
    refused(exceptions.InvalidPath, calls.list_user, **at)
    calls.create_or_update_user("amy", password="Qd7-Vm3-Wx5", policies=["app"], **at)
    assert calls.list_user(**at)["data"]["keys"] == ["amy"]
    assert calls.read_user("amy", **at)["data"]["policies"] == ["app"]
    calls.update_password_on_user("amy", "Zr4-Kt8-Lp2", **at)
    login = hvac.Client(url=client.url, token="").auth.userpass.login
    refused(exceptions.InvalidRequest, login, "amy", "Qd7-Vm3-Wx5", **at)
    entry = lambda one: one.auth.userpass.login
    auth = logged_in(client, entry, username="amy", password="Zr4-Kt8-Lp2", **at)
    assert auth["policies"] == ["app", "default"], auth
    calls.delete_user("amy", **at)
    refused(exceptions.InvalidPath, calls.read_user, "amy", **at)


def approle(client):
    client.sys.enable_auth_method("approle", path="machines")
    at, calls = {"mount_point": "machines"}, client.auth.approle
    calls.create_or_update_approle("web", token_policies=["app"], token_ttl="20m", **at)
    assert calls.list_roles(**at)["data"]["keys"] == ["web"]
    assert calls.read_role("web", **at)["data"]["token_ttl"] == 1200
    calls.update_role_id("web", "web-of-team-a", **at)
    role = calls.read_role_id("web", **at)["data"]["role_id"]
    made = calls.generate_secret_id("web", metadata={"team": "a"}, **at)["data"]
    secret, accessor = made["secret_id"], made["secret_id_accessor"]
    assert calls.read_secret_id("web", secret, **at)["data"]["metadata"] == {"team": "a"}
    assert calls.list_secret_id_accessors("web", **at)["data"]["keys"] == [accessor]
    found = calls.read_secret_id_accessor("web", accessor, **at)["data"]
    assert found["secret_id_accessor"] == accessor, found
    entry = lambda one: one.auth.approle.login
    auth = logged_in(client, entry, role_id=role, secret_id=secret, **at)
    assert auth["metadata"] == {"role_name": "web", "team": "a"}, auth
    calls.destroy_secret_id_accessor("web", accessor, **at)
    login = hvac.Client(url=client.url, token="").auth.approle.login
    refused(exceptions.InvalidRequest, login, role, secret, **at)
    calls.create_custom_secret_id("web", "8c1e6a30-made-elsewhere", **at)
    calls.destroy_secret_id("web", "8c1e6a30-made-elsewhere", **at)
    wrapped = calls.generate_secret_id("web", wrap_ttl="1m", **at)["wrap_info"]["token"]
    opened = hvac.Client(url=client.url, token=wrapped).sys.unwrap()["data"]
    logged_in(client, entry, role_id=role, secret_id=opened["secret_id"], **at)
    refused(exceptions.InvalidRequest, client.sys.unwrap, wrapped)
    calls.delete_role("web", **at)
    refused(exceptions.InvalidPath, calls.list_roles, **at)


def identity_tokens(client):
    calls = client.secrets.identity
    calls.configure_tokens_backend(issuer="https://bulkhead.example:8200")
    issuer = calls.read_tokens_backend_configuration()["data"]["issuer"]
    assert issuer == "https://bulkhead.example:8200", issuer
    calls.create_named_key("main", allowed_client_ids=["*"])
    assert calls.read_named_key("main")["data"]["rotation_period"] == 86400
    assert "main" in calls.list_named_keys()["data"]["keys"]
    calls.create_or_update_role("web", "main", ttl="10m")
    assert calls.read_role("web")["data"]["key"] == "main"
    assert calls.list_roles()["data"]["keys"] == ["web"]
    text = 'path "identity/oidc/token/web" { capabilities = ["read"] }'
    client.sys.create_or_update_policy("web", text)
    client.sys.enable_auth_method("userpass", path="people")
    user = {"username": "amy", "password": "Qd7-Vm3-Wx5", "mount_point": "people"}
    client.auth.userpass.create_or_update_user(policies=["web"], **user)
    amy = hvac.Client(url=client.url, token="")
    amy.auth.userpass.login(**user)
    token = amy.secrets.identity.generate_signed_id_token("web")["data"]["token"]
    assert calls.introspect_signed_id_token(token)["active"] is True
    assert len(calls.read_active_public_keys()["keys"]) >= 1
    assert calls.read_well_known_configurations()["jwks_uri"].startswith(issuer)
    calls.rotate_named_key("main", "1h")
    calls.delete_role("web")
    calls.delete_named_key("main")
    refused(exceptions.InvalidPath, calls.read_named_key, "main")


def quotas(client):
    client.sys.create_or_update_quota("all", rate=1000.0, interval="1s")
    assert client.sys.read_quota("all")["data"]["rate"] == 1000
    assert client.sys.list_quotas()["data"]["keys"] == ["all"]
    refused(exceptions.InvalidRequest, client.sys.create_or_update_quota, "none", rate=0)
    client.sys.delete_quota("all")
    refused(exceptions.InvalidPath, client.sys.read_quota, "all")


def database(client):
    about = json.loads(os.environ["ABOUT"])
    calls, creation = client.secrets.database, [about.pop("creation")]
    calls.configure("main", "postgresql-database-plugin", allowed_roles=["*"], **about)
    assert calls.list_connections()["data"]["keys"] == ["main"]
    details = calls.read_connection("main")["data"]["connection_details"]
    assert details["username"] == about["username"] and "password" not in details, details
    calls.reset_connection("main")
    calls.create_role("app", "main", creation, default_ttl="1h", max_ttl="4h")
    assert calls.read_role("app")["data"]["default_ttl"] == 3600
    assert calls.list_roles()["data"]["keys"] == ["app"]
    first, second = calls.generate_credentials("app"), calls.generate_credentials("app")
    lease = first["lease_id"]
    assert client.sys.read_lease(lease)["data"]["renewable"] is True
    assert len(client.sys.list_leases("database/creds/app")["data"]["keys"]) == 2
    assert client.sys.renew_lease(lease, increment=600)["lease_duration"] == 600
    client.sys.revoke_lease(lease)
    refused(exceptions.InvalidRequest, client.sys.renew_lease, lease)
    username = second["data"]["username"]
    client.sys.revoke_prefix("database/creds/app")
    client.sys.revoke_force("database/creds/app")
    refused(exceptions.InvalidRequest, client.sys.renew_lease, second["lease_id"])
    assert username != first["data"]["username"]
    calls.delete_role("app")
    refused(exceptions.InvalidPath, calls.read_role, "app")
    calls.delete_connection("main")


def refusals(client):
    client.sys.create_or_update_policy(name="notes", policy=READ_NOTES)
    token = client.auth.token.create(policies=["notes"], no_default_policy=True)["auth"]
    weak = hvac.Client(url=client.url, token=token["client_token"])
    words = refused(exceptions.Forbidden, weak.sys.list_policies)
    assert "permission denied" in words, words
    refused(exceptions.Forbidden, hvac.Client(url=client.url, token="none").sys.list_policies)
    refused(exceptions.InvalidPath, client.sys.read_acl_policy, name="nowhere")
    refused(exceptions.InvalidRequest, client.sys.create_or_update_policy, "bad", "no policy")
    refused(exceptions.InvalidRequest, client.sys.enable_secrets_engine, backend_type="nothing")
    refused(exceptions.UnexpectedError, client.adapter.request, "PATCH", "/v1/sys/mounts")


PARTS = {
    part.__name__: part
    for part in [
        tokens,
        token_roles,
        policies,
        mounts,
        auth_methods,
        kubernetes,
        password_policies,
        entities,
        groups,
        logins,
        azure,
        azure_logins,
        gcp,
        gcp_logins,
        jwt,
        active_directory,
        kv_version_1,
        kv_version_2,
        server,
        userpass,
        approle,
        identity_tokens,
        quotas,
        database,
        refusals,
    ]
}

if __name__ == "__main__":
    [name] = sys.argv[1:]
    PARTS[name](hvac.Client())
    print(f"{name}: done")
