//! hvac, the client library of Python programs, with the calls of `hvac_calls.py`.

use crate::clouds::{Azure, Google, OWN};
use crate::program::Program;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::cloud_b::now;
use bulkhead_tests::paths::{Folder, binary, guest};
use bulkhead_tests::signer::Signer;
use bulkhead_tests::{Bulkhead, DirectoryKind, DirectoryServer, Kubernetes, Postgres};
use serde_json::json;

const PROGRAM: Program =
    Program { interpreter: "python3", file: "hvac_calls.py", client: "hvac", path: "PYTHONPATH" };

/// Runs one part of the program against a new server.
#[track_caller]
fn call(part: &str) {
    call_at(&Bulkhead::start(), part);
}

/// Runs one part of the program against this server, over TLS if the server uses TLS.
#[track_caller]
fn call_at(server: &Bulkhead, part: &str) {
    call_with(server, part, &[("VAULT_TOKEN", ROOT)]);
}

/// Runs one part of the program against this server, with these additional variables.
#[track_caller]
fn call_with(server: &Bulkhead, part: &str, environment: &[(&str, &str)]) {
    let authority = server.authority().display().to_string();
    let over_tls = server.url().starts_with("https").then_some(("VAULT_CACERT", &*authority));
    let always = [("PYTHONDONTWRITEBYTECODE", "1")];
    let environment: Vec<_> =
        always.into_iter().chain(over_tls).chain(environment.iter().copied()).collect();
    PROGRAM.call(server, part, &environment);
}

#[test]
fn hvac_token_calls_are_answered_as_expected() {
    call("tokens");
}

#[test]
fn hvac_token_calls_are_answered_over_tls() {
    let mut server = Bulkhead::prepared(binary(), Folder::new("hvac-tls")).over_tls();
    server.start_again();
    call_at(&server, "tokens");
}

#[test]
fn hvac_token_role_calls_are_answered_as_expected() {
    call("token_roles");
}

#[test]
fn client_policy_calls_are_answered_as_expected() {
    call("policies");
}

#[test]
fn hvac_kv_v1_calls_are_answered_as_expected() {
    call("kv_version_1");
}

#[test]
fn hvac_kv_v2_calls_are_answered_as_expected() {
    call("kv_version_2");
}

#[test]
fn hvac_mount_calls_are_answered_as_expected() {
    call("mounts");
}

#[test]
fn hvac_auth_method_calls_are_answered_as_expected() {
    call("auth_methods");
}

#[test]
fn hvac_gcp_calls_are_answered_as_expected() {
    call("gcp");
}

/// Uses a real API server.
#[test]
fn service_accounts_log_in_by_it() {
    let namespace = Kubernetes::shared().namespace(json!({}));
    for account in ["app", "other"] {
        namespace.make("serviceaccounts", &json!({ "metadata": { "name": account } }));
    }
    let about = json!({
        "host": namespace.kubernetes.url, "authority": namespace.kubernetes.authority,
        "reviewer": namespace.reviewer(), "namespace": namespace.name,
        "jwt": namespace.token("app"), "other": namespace.token("other"),
    });
    let about = about.to_string();
    let environment = [("VAULT_TOKEN", ROOT), ("ABOUT", about.as_str())];
    call_with(&Bulkhead::start(), "kubernetes", &environment);
}

/// A real Active Directory, with the engine mounted at the usual path.
#[test]
fn hvac_active_directory_calls_are_answered_as_expected() {
    let branch = DirectoryServer::shared(DirectoryKind::Samba).branch();
    let accounts = ["svc1", "svc2"];
    branch.add_all(&accounts.map(|name| (name.to_owned(), "Qd7-Vm3-Wx5-Bn8")));
    let [one, other] = accounts.map(|name| branch.upn_of(name));
    let about = json!({ "config": branch.config(), "account": one, "lent": other }).to_string();
    let environment = [("VAULT_TOKEN", ROOT), ("ABOUT", about.as_str())];
    call_with(&Bulkhead::start(), "active_directory", &environment);
}

#[test]
fn hvac_azure_calls_are_answered_as_expected() {
    call("azure");
}

#[test]
fn machines_of_azure_log_in_by_it() {
    let azure = Azure::start();
    call_with(&azure.online.server, "azure_logins", &azure.environment());
    assert_eq!(
        azure.cloud.secrets(&azure.application.client_id).len(),
        2,
        "the rotation created a credential"
    );
}

#[test]
fn google_accounts_and_instances_log_in_by_client() {
    let google = Google::start();
    let before = google.cloud.keys(OWN);
    call_with(&google.online.server, "gcp_logins", &google.environment());
    assert_eq!(google.cloud.keys(OWN).len(), before.len() + 1, "the rotation created a credential");
}

#[test]
fn hvac_jwt_calls_are_answered_as_expected() {
    let signer = Signer::new("k1");
    let claims = json!({
        "iss": "https://issuer.example", "sub": "web", "aud": "bulkhead", "exp": now() + 600,
        "iat": now(), "project": "web", "groups": ["builders"],
    });
    let about = json!({
        "key": signer.certificate(), "issuer": claims["iss"], "jwt": signer.token(&claims),
        "foreign": Signer::new("k1").token(&claims),
    });
    let about = about.to_string();
    let environment = [("VAULT_TOKEN", ROOT), ("ABOUT", about.as_str())];
    call_with(&Bulkhead::start(), "jwt", &environment);
}

#[test]
fn hvac_userpass_calls_are_answered_as_expected() {
    call("userpass");
}

#[test]
fn hvac_approle_calls_are_answered_as_expected() {
    call("approle");
}

#[test]
fn hvac_identity_token_calls_are_answered_as_expected() {
    call("identity_tokens");
}

#[test]
fn hvac_quota_calls_are_answered_as_expected() {
    call("quotas");
}

/// Uses a real PostgreSQL, which has no user left at the end.
#[test]
fn hvac_database_and_lease_calls_are_answered() {
    let postgres = Postgres::start();
    let about = json!({
        "connection_url": postgres.url(), "username": "bulkhead", "password": postgres.password,
        "creation": "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \
                     VALID UNTIL '{{expiration}}' IN ROLE readers",
    });
    let about = about.to_string();
    let before = postgres.users();
    let environment = [("VAULT_TOKEN", ROOT), ("ABOUT", about.as_str())];
    call_with(&Bulkhead::start(), "database", &environment);
    assert_eq!(postgres.users(), before, "all users are removed");
}

#[test]
fn hvac_password_policy_calls_are_answered_as_expected() {
    call("password_policies");
}

#[test]
fn hvac_entity_calls_are_answered_as_expected() {
    call("entities");
}

#[test]
fn hvac_group_calls_are_answered_as_expected() {
    call("groups");
}

#[test]
fn hvac_logins_by_third_party_component_are_answered() {
    let server = Bulkhead::start();
    let component = guest("passphrase");
    server.root().upload("sys/plugins/catalog/auth/passphrase", &component).expect(204);
    call_at(&server, "logins");
}

#[test]
fn client_server_queries_are_answered_as_expected() {
    call("server");
}

#[test]
fn refusals_and_missing_paths_raise_hvac_exceptions() {
    call("refusals");
}
