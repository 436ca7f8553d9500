//! Imports without a grant.

use crate::bulkhead::plugin::crypto::{self, CertificateRequest, Chain};
use crate::bulkhead::plugin::database::{self, Connection, VersionChoice};
use crate::bulkhead::plugin::database_types::{CreatedUser, Credential, NewUser, Purpose};
use crate::bulkhead::plugin::types::{Call, Failure};
use crate::bulkhead::plugin::{ambient, clock, identity, leases, migration, passwords, storage};
use crate::{Ending, answers};

type Tried = (&'static str, Result<(), Failure>);

fn tried<T>(name: &'static str, answer: Result<T, Failure>) -> Tried {
    (name, answer.map(|_| ()))
}

fn connection() -> Connection {
    Connection {
        plugin: "postgresql-database-plugin".into(),
        version: String::new(),
        name: "any".into(),
        generation: 1,
        settings: "{}".into(),
        ext: Vec::new(),
    }
}

/// Calls every function of the `database` import that can refuse.
fn of_databases() -> Vec<Tried> {
    let connection = connection();
    let credential = Credential::Password("correct-horse".into());
    let user = NewUser {
        username: "user".into(),
        credential: credential.clone(),
        expires: 0,
        ext: Vec::new(),
    };
    let purpose = Purpose {
        act: "creation".into(),
        credential_type: "password".into(),
        passwords: Vec::new(),
        ext: Vec::new(),
    };
    let choice = VersionChoice {
        plugin: connection.plugin.clone(),
        version: String::new(),
        overrides_pin: false,
        keeps: false,
        ext: Vec::new(),
    };
    let created = CreatedUser { username: "user".into(), accounts: Vec::new(), ext: Vec::new() };
    vec![
        tried("resolve", database::resolve(&connection.plugin, "")),
        tried("choose", database::choose("orders", &choice)),
        tried("running", database::running("orders", &connection.plugin, "")),
        tried("configure", database::configure(&connection)),
        tried("check-statements", database::check_statements(&connection, &[], &purpose)),
        tried("verify", database::verify(&connection)),
        tried("plan-username", database::plan_username(&connection, "display", "role")),
        tried("create-user", database::create_user(&connection, &user, &[], &[])),
        tried(
            "change-credential",
            database::change_credential(&connection, "user", &credential, None, &[]),
        ),
        tried("set-expiration", database::set_expiration(&connection, "user", 0, &[])),
        tried("delete-user", database::delete_user(&connection, "user", &[])),
        tried("check-credential", database::check_credential(&connection, "user", &credential)),
        tried("plan-accounts", database::plan_accounts(&connection, "display", "role", &[])),
        tried("create-accounts", database::create_accounts(&connection, &user, &[], &[])),
        tried("prolong-accounts", database::prolong_accounts(&connection, &created, 0, &[])),
        tried("remove-accounts", database::remove_accounts(&connection, &created, &[])),
    ]
}

/// Fails with the first refusal. Names the functions that answered, if there are any.
pub(crate) fn every_function(_call: &Call) -> Ending {
    let tried = of_databases();
    let answered: Vec<String> = tried
        .iter()
        .filter(|(_, answer)| answer.is_ok())
        .map(|(name, _)| format!("{name:?}"))
        .collect();
    if !answered.is_empty() {
        return Ok(answers::data(format!("{{\"answered\":[{}]}}", answered.join(","))));
    }
    tried
        .into_iter()
        .find_map(|(_, answer)| answer.err())
        .map_or_else(|| Ok(answers::nothing()), Err)
}

/// Calls the functions of the `crypto` import that need a grant each.
fn with_private_keys() -> Vec<Tried> {
    let request = CertificateRequest {
        authority: String::new(),
        authority_key: String::new(),
        public_key: String::new(),
        common_name: "any".into(),
        names: Vec::new(),
        usages: Vec::new(),
        not_before: 0,
        not_after: 1,
        signature_bits: 0,
        ext: Vec::new(),
    };
    vec![
        tried("sign", crypto::sign("RS256", "", b"")),
        tried("generate-key", crypto::generate_key("ec", 0, "pkcs8")),
        tried("issue-certificate", crypto::issue_certificate(&request)),
    ]
}

/// Calls the functions of the `crypto` import that need no grant, and are refused only during
/// `describe`.
fn with_public_keys() -> Vec<Tried> {
    let chain = Chain {
        certificates: String::new(),
        roots: String::new(),
        usage: "client-auth".into(),
        name: String::new(),
        ext: Vec::new(),
    };
    vec![
        tried("digest", crypto::digest("sha256", b"")),
        tried("hmac", crypto::hmac("sha256", b"", b"")),
        tried("verify", crypto::verify("RS256", "", b"", b"")),
        tried("read-key", crypto::read_key("")),
        tried("read-certificate", crypto::read_certificate("")),
        tried("verify-chain", crypto::verify_chain(&chain)),
        tried("hash-password", crypto::hash_password("password")),
        tried("verify-password", crypto::verify_password("password", "")),
    ]
}

/// Fails with all refusals. Names the functions that answered, if there are any.
pub(crate) fn every_private_key(_call: &Call) -> Ending {
    let mut message = String::new();
    for (name, answer) in with_private_keys() {
        match answer {
            Ok(()) => return Ok(answers::data(format!("{{\"answered\":[\"{name}\"]}}"))),
            Err(failure) => message.extend([failure.message.as_str(), "\n"]),
        }
    }
    Err(Failure { code: "permission-denied".into(), message, retry_after: None, ext: Vec::new() })
}

/// Calls database plugins from a route that does not declare the call.
pub(crate) fn unmarked_nested(_call: &Call) -> Ending {
    database::verify(&connection())?;
    Ok(answers::nothing())
}

/// Returns the name of an import that answers during `describe`, without grants. Imports that
/// cannot refuse would trap.
pub(crate) fn answered_without_grants() -> Option<&'static str> {
    let others = [
        tried("get", storage::get("key")),
        tried("put", storage::put("key", b"value")),
        tried("delete", storage::delete("key")),
        tried("keys", storage::keys("", "", 1)),
        tried("scan", storage::scan("", "", 1)),
        tried("revision", storage::revision("")),
        tried("checkpoint", storage::checkpoint()),
        tried("reserve", leases::reserve("tag", "lane", "{}")),
        tried("amend", leases::amend("tag", "{}")),
        tried("end", leases::end("tag")),
        tried("end-issued", leases::end_issued("handle")),
        tried("count", leases::count("lane")),
        tried("schedule", clock::schedule("timer", 0, "lane")),
        tried("guard", clock::guard("timer", "lane")),
        tried("widen", clock::widen("lane", 1)),
        tried("rest", clock::rest("lane")),
        tried("cancel", clock::cancel("timer")),
        tried("generate", passwords::generate("")),
        tried("generate-from", passwords::generate_from(20, "ab")),
        tried("token", identity::token("anyone", 0)),
        tried("find-entity", identity::find_entity("anyone")),
        tried("environment", ambient::environment("PATH")),
        tried("cloud-token", ambient::cloud_token("azure", "https://vault.example")),
        tried("find-pod", ambient::find_pod()),
        tried("cursor", migration::cursor()),
        tried("continue-at", migration::continue_at("0/")),
    ];
    of_databases()
        .into_iter()
        .chain(others)
        .chain(with_private_keys())
        .chain(with_public_keys())
        .find(|(_, answer)| answer.is_ok())
        .map(|(name, _)| name)
}
