//! Completeness: compares the endpoints of the program with the tests.
//!
//! `bulkhead plugin inspect` prints the tables that dispatch requests. Every endpoint must have a
//! row in the files of this folder (success, refusals, golden answer). Checks that apply to all
//! endpoints are here: sealed, without a token, with a weak token, without sudo. A new endpoint
//! without a row fails a test here.

use super::{EndpointCall, all_rows};
use crate::world::World;
use bulkhead_tests::operators;
use bulkhead_tests::paths::{binary, repository};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::OnceLock;

/// Mount path of each kind in dev mode, before the plugin's name.
const MOUNTABLE: [(&str, &str); 2] = [("secrets-engine", ""), ("auth-method", "auth/")];

/// Engines with another mount path than their name in dev mode.
const RENAMED: [(&str, &str); 2] = [("scheduler", "acl"), ("kv", "secret")];

/// The endpoints that answer while the server is sealed.
pub(super) const ANSWER_SEALED: [&str; 5] =
    ["sys/health", "sys/seal-status", "sys/init", "sys/unseal", "sys/leader"];

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) verb: String,
    /// The path below its mount, with captures as `{name}`.
    pub(super) path: String,
    pub(super) unauthenticated: bool,
    pub(super) sudo: bool,
    pub(super) about: String,
    pub(super) is_of_host: bool,
    pub(super) fields: Vec<Value>,
}

/// All endpoints of the built program, read once.
pub(super) fn endpoints() -> &'static [Endpoint] {
    static ENDPOINTS: OnceLock<Vec<Endpoint>> = OnceLock::new();
    ENDPOINTS.get_or_init(|| {
        let output =
            Command::new(binary()).args(["plugin", "inspect", "--all", "-format=json"]).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tables: Value = serde_json::from_slice(&output.stdout).expect("inspect prints JSON");
        let mut all = read("", tables["host"].as_array().expect("a table of routes"));
        for plugin in tables["plugins"].as_array().expect("a list of plugins") {
            let kind = MOUNTABLE.iter().find(|(kind, _)| plugin["kind"] == *kind);
            if let Some((_, folder)) = kind {
                let name = plugin["name"].as_str().expect("a plugin has a name");
                let path = RENAMED.iter().find(|(key, _)| *key == name);
                let name = path.map_or(name, |(_, path)| path);
                let older = |route: &&Value| route["api_version"] == 1;
                let rows = plugin["routes"].as_array().expect("a table of routes");
                let (older, rows): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(older);
                all.extend(read(&format!("{folder}{name}/"), rows));
                // Dev mode mounts the latest version of an API.
                all.extend(read(&format!("{folder}{}/", plugin["name"].as_str().unwrap()), older));
            }
        }
        all
    })
}

fn read<'a>(below: &str, routes: impl IntoIterator<Item = &'a Value>) -> Vec<Endpoint> {
    let text =
        |route: &Value, name: &str| route[name].as_str().expect("every row has it").to_owned();
    let endpoint = |route: &Value| Endpoint {
        verb: text(route, "verb"),
        path: format!("{below}{}", text(route, "path")),
        unauthenticated: route["unauthenticated"] == true || route["login"] == true,
        sudo: route["sudo"] == true,
        about: text(route, "about"),
        is_of_host: below.is_empty(),
        fields: route["fields"].as_array().cloned().unwrap_or_default(),
    };
    routes.into_iter().map(endpoint).collect()
}

impl Endpoint {
    pub(super) fn method(&self) -> &'static str {
        match self.verb.as_str() {
            "read" => "GET",
            "write" => "POST",
            "patch" => "PATCH",
            "delete" => "DELETE",
            "list" => "LIST",
            other => panic!("verb {other:?} is new here: say which method asks for it"),
        }
    }

    /// An example path, with a value for each capture.
    pub(super) fn example(&self) -> String {
        let segment = |part: &str| {
            if part.starts_with('{') { "anything".to_owned() } else { part.to_owned() }
        };
        self.path.split('/').map(segment).collect::<Vec<_>>().join("/")
    }

    /// Number of literal segments of the endpoint; `None` if the path does not match.
    fn literals(&self, path: &str) -> Option<usize> {
        // Segments after a capture of several segments are matched from the end.
        let (before, after) = match self.path.split_once("+}") {
            Some((before, after)) => {
                (before.rsplit_once('/').map_or("", |(before, _)| before), Some(after))
            }
            None => (self.path.as_str(), None),
        };
        let (mut segments, mut literals) = (path.split('/'), 0);
        for part in before.split('/') {
            match (part, segments.next()?) {
                (capture, _) if capture.starts_with('{') => {}
                (literal, segment) if literal == segment => literals += 1,
                _ => return None,
            }
        }
        let rest = segments.collect::<Vec<_>>().join("/");
        match after {
            None => rest.is_empty().then_some(literals),
            Some(after) => {
                let captured = rest.strip_suffix(after).filter(|captured| !captured.is_empty())?;
                Some(literals + rest[captured.len()..].matches('/').count())
            }
        }
    }
}

/// The endpoint of a row's path: the match with the most literal segments.
pub(super) fn endpoint_of(row: &EndpointCall) -> Option<&'static Endpoint> {
    let path = row.path.split('?').next().unwrap_or_default();
    let matching = endpoints().iter().filter(|endpoint| endpoint.method() == row.method());
    let matching = matching.filter_map(|endpoint| Some((endpoint.literals(path)?, endpoint)));
    matching.max_by_key(|(literals, _)| *literals).map(|(_, endpoint)| endpoint)
}

fn title(endpoint: &Endpoint) -> String {
    format!("{} {}", endpoint.method(), endpoint.path)
}

#[test]
fn every_endpoint_and_every_row_has_counterpart() {
    let rows = all_rows();
    let covered: BTreeSet<String> = rows.iter().filter_map(endpoint_of).map(title).collect();
    let missing: Vec<String> =
        endpoints().iter().map(title).filter(|title| !covered.contains(title)).collect();
    assert_eq!(
        missing,
        Vec::<String>::new(),
        "add a row in tests/e2e/endpoints, then run `make golden` and read it"
    );
    let strays: Vec<&str> =
        rows.iter().filter(|row| endpoint_of(row).is_none()).map(|row| row.golden).collect();
    assert_eq!(strays, Vec::<&str>::new(), "nothing serves these rows any more: remove them");
}

#[test]
fn every_row_and_every_golden_answer_has_counterpart() {
    let rows: BTreeSet<String> = all_rows().iter().map(|row| row.golden.to_owned()).collect();
    let folder =
        std::fs::read_dir(repository().join("tests/golden")).expect("the folder of golden answers");
    let files = folder.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    let files: BTreeSet<String> =
        files.map(|name| name.trim_end_matches(".json").to_owned()).collect();
    assert_eq!(rows, files, "left: rows; right: files of tests/golden");
}

#[test]
fn every_endpoint_and_field_has_a_description() {
    for endpoint in endpoints() {
        assert!(!endpoint.about.is_empty(), "{} has no words", title(endpoint));
        for field in &endpoint.fields {
            assert_ne!(
                field["about"].as_str(),
                Some(""),
                "{} of {} has no words",
                field["name"],
                title(endpoint)
            );
        }
    }
}

/// Words that suggest a secret. A field with such a name must be marked secret, which keeps its
/// value out of logs, errors and audit lines, or be in the list with a reason.
#[test]
fn fields_that_hold_secrets_are_marked() {
    let words = ["password", "secret", "private", "token", "jwt", "credential", "key"];
    let harmless = |name: &str| {
        let settings = [
            "token_",
            "password_policy",
            "password_authentication",
            "credential_type",
            "credential_config",
            "disable_local_ca_jwt",
        ];
        let lists = [
            "audit_non_hmac_",
            "identity_token_",
            "max_jwt_exp",
            "root_password_ttl",
            "bind_secret_id",
            "secret_id_",
            "local_secret_ids",
            "public_key",
            "jwt_validation_pubkeys",
            "pem_keys",
            "jwt_supported_algs",
            "secret_shares",
            "secret_threshold",
        ];
        settings.iter().chain(&lists).any(|prefix| name.starts_with(prefix))
            || name.ends_with("pgp_key")
            || name.ends_with("pgp_keys")
    };
    for endpoint in endpoints() {
        for field in &endpoint.fields {
            let name = field["name"].as_str().expect("a field has a name");
            // The name of a key, which is not secret.
            let is_name = name == "key" && title(endpoint).contains("identity/oidc/role/");
            let suspicious =
                words.iter().any(|word| name.contains(word)) && !harmless(name) && !is_name;
            assert!(
                !suspicious || field["secret"] == true,
                "{name} of {} is not marked secret",
                title(endpoint)
            );
        }
    }
}

#[test]
fn every_endpoint_of_sealed_server_reports_seal() {
    let (server, _operators) = operators::sealed(1, 1);
    let anybody = server.client(Some("bhs.of-nobody"));
    for endpoint in
        endpoints().iter().filter(|endpoint| !ANSWER_SEALED.contains(&endpoint.path.as_str()))
    {
        let answer = anybody.send(endpoint.method(), &endpoint.example(), b"");
        if endpoint.path == "sys/seal" {
            answer.expect(204);
            continue;
        }
        assert_eq!(answer.status, 503, "{}: {answer:?}", title(endpoint));
        assert!(answer.errors().contains("Vault is sealed"), "{}: {answer:?}", title(endpoint));
    }
}

#[test]
fn every_endpoint_refuses_missing_weak_and_sudoless_tokens() {
    let world = World::empty();
    let capabilities =
        r#"path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list"] }"#;
    let (nobody, weak, no_sudo) = (
        world.bulkhead.client(None),
        world.weak(),
        world.client_with("all-but-sudo", capabilities),
    );
    for endpoint in endpoints().iter().filter(|endpoint| !endpoint.unauthenticated) {
        let callers = [("no token", &nobody), ("a weak token", &weak), ("no sudo", &no_sudo)];
        let callers = callers.into_iter().take(if endpoint.sudo { 3 } else { 2 });
        for (who, client) in callers {
            let refused = client.send(endpoint.method(), &endpoint.example(), b"");
            assert_eq!(refused.status, 403, "{} with {who}: {refused:?}", title(endpoint));
            assert!(
                refused.errors().contains("permission denied"),
                "{} with {who}: {refused:?}",
                title(endpoint)
            );
        }
    }
}
