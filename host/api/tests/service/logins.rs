//! Logins: the host's handling of the answers of an auth method. The doorman
//! (`tests/guests/doorman`) proves nothing and answers the login wanted by the test.

use crate::bed::{Bed, error, official, request};
use bulkhead_audit::AuditSettings;
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOGIN: &str = "auth/doorman/login";

/// A service with the probe, and the doorman at `auth/doorman`.
pub(crate) async fn open(name: &str) -> Bed {
    let name = format!("bulkhead-core-{name}-{}", std::process::id());
    reopen(std::env::temp_dir().join(name)).await
}

/// The same service on the directory of an earlier service.
pub(crate) async fn reopen(directory: PathBuf) -> Bed {
    let officials = ["probe", "doorman"].map(official);
    Bed::with(directory, officials.into(), AuditSettings::default()).await.unwrap()
}

impl Bed {
    /// A login of a caller without a token.
    pub(crate) async fn login(&self, say: Value) -> (u16, Value) {
        self.call_as("", Verb::Write, LOGIN, json!({ "say": say })).await
    }

    /// Logs in, and returns the `auth` of the answer.
    pub(crate) async fn admit(&self, say: Value) -> Value {
        let (status, answer) = self.login(say.clone()).await;
        assert_eq!(status, 200, "{say}: {answer}");
        answer["auth"].clone()
    }

    async fn lookup(&self, token: &Value) -> (u16, Value) {
        let token = token.as_str().unwrap();
        self.call_as(token, Verb::Read, "auth/token/lookup-self", json!({})).await
    }

    pub(crate) async fn renew(&self, token: &Value) -> (u16, Value) {
        let token = token.as_str().unwrap();
        self.call_as(token, Verb::Write, "auth/token/renew-self", json!({})).await
    }

    async fn accessors(&self) -> Value {
        self.call(Verb::List, "auth/token/accessors", json!({})).await.1["data"]["keys"].clone()
    }
}

#[tokio::test]
async fn login_issues_orphan_token_hiding_internal_data() {
    let bed = open("login").await;
    let amy = json!({
        "policies": ["Readers", "readers"], "metadata": {"username": "amy"}, "ttl": 600,
        "display_name": "amy", "known": {"team": "red"}, "secret": "hunter2",
    });
    let (status, answer) = bed.login(amy.clone()).await;
    assert_eq!((status, &answer["data"]), (200, &Value::Null), "{answer}");
    let auth = &answer["auth"];
    for (member, value) in [
        ("policies", json!(["default", "readers"])),
        ("token_policies", json!(["default", "readers"])),
        ("metadata", json!({"username": "amy"})),
        ("lease_duration", json!(600)),
        ("renewable", json!(true)),
        ("token_type", json!("service")),
        ("orphan", json!(true)),
        ("num_uses", json!(0)),
    ] {
        assert_eq!(auth[member], value, "{member}");
    }
    let (status, shown) = bed.lookup(&auth["client_token"]).await;
    assert_eq!(status, 200, "{shown}");
    for (member, value) in [
        ("path", json!(LOGIN)),
        ("display_name", json!("doorman-amy")),
        ("meta", json!({"username": "amy"})),
        ("entity_id", auth["entity_id"].clone()),
        ("creation_ttl", json!(600)),
        ("policies", json!(["default", "readers"])),
    ] {
        assert_eq!(shown["data"][member], value, "{member}");
    }
    assert!(!shown.to_string().contains("hunter2") && !shown.to_string().contains("internal"));
    let again = bed.admit(amy).await;
    assert_eq!(again["entity_id"], auth["entity_id"], "both logins of an alias have one entity");
    let bob = bed.admit(json!({"alias": "bob", "no_default_policy": true})).await;
    assert_ne!(bob["entity_id"], auth["entity_id"]);
    assert_eq!(bob["policies"], json!([]), "default was declined");
    bed.end().await;
}

#[tokio::test]
async fn login_shows_granted_lifetime_across_second_change() {
    let bed = open("login-lifetime").await;
    // Most changes of the second come between the grant and the answer of a login.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let auth = bed.admit(json!({"alias": "amy", "ttl": 600})).await;
        assert_eq!(auth["lease_duration"], 600);
    }
    bed.end().await;
}

#[tokio::test]
async fn invalid_login_is_component_fault_and_stores_nothing() {
    let bed = open("login-bounds").await;
    let before = bed.accessors().await;
    let long = |bytes: usize| "x".repeat(bytes);
    let many: serde_json::Map<String, Value> =
        (0..65).map(|one| (one.to_string(), json!("x"))).collect();
    for say in [
        json!({"alias": null}),
        json!({"alias": ""}),
        json!({"alias": "  "}),
        json!({"alias": long(513)}),
        json!({"alias": "a\nb"}),
        json!({"groups": ["a", ""]}),
        json!({"groups": vec!["a"; 513]}),
        json!({"policies": vec!["a"; 257]}),
        json!({"metadata": many}),
        json!({"known": {"a": long(1_025)}}),
        json!({"display_name": long(257)}),
        json!({"token_type": "hsm"}),
        json!({"bound_cidrs": ["everywhere"]}),
        json!({"internal_bytes": (64 << 10) + 1}),
    ] {
        let (status, answer) = bed.login(say.clone()).await;
        assert_eq!(status, 500, "{say}: {answer}");
        let why = error(&answer);
        assert!(why.contains("doorman 1.0.0") && why.contains("nothing was stored"), "{why}");
        assert!(why.len() < 400, "the error repeats the whole login: {why}");
    }
    let (status, answer) = bed.write("auth/doorman/unmarked", json!({"say": {}})).await;
    assert_eq!(status, 500, "{answer}");
    assert!(error(&answer).contains("not marked login"), "{answer}");
    assert_eq!(bed.accessors().await, before);
    bed.end().await;
}

#[tokio::test]
async fn logins_never_grant_root_and_refusals_keep_message() {
    let bed = open("login-root").await;
    for policy in ["root", " ROOT ", "response-wrapping"] {
        let (status, answer) = bed.login(json!({"policies": ["readers", policy]})).await;
        assert_eq!(status, 400, "{policy}: {answer}");
    }
    let (status, answer) = bed.login(json!({"refuse": "who are you?"})).await;
    assert_eq!((status, error(&answer)), (403, "who are you?"));
    let (status, _) = bed.call_as("", Verb::Write, "auth/doorman/unmarked", json!({})).await;
    assert_eq!(status, 403, "other rows ask for a token");
    let (status, _) = bed.call_as("", Verb::Read, LOGIN, json!({})).await;
    assert_eq!(status, 403, "an unknown path is refused by policy first");
    let (status, _) = bed.read(LOGIN).await;
    assert_eq!(status, 405);
    bed.end().await;
}

#[tokio::test]
async fn login_and_token_are_bound_to_login_networks() {
    let bed = open("login-cidrs").await;
    let (status, answer) = bed.login(json!({"bound_cidrs": ["10.0.0.0/8"]})).await;
    assert_eq!(status, 403, "{answer}");
    let auth = bed.admit(json!({"bound_cidrs": ["10.0.0.0/8", "127.0.0.1"]})).await;
    let token = auth["client_token"].as_str().unwrap();
    let mut elsewhere = request(token, Verb::Read, "auth/token/lookup-self", json!({}));
    assert_eq!(bed.service.handle(elsewhere.clone()).await.status, 200);
    elsewhere.remote = "192.0.2.1".parse().unwrap();
    assert_eq!(bed.service.handle(elsewhere).await.status, 403);
    bed.end().await;
}

#[tokio::test]
async fn mount_decides_login_token_type_and_lifetime() {
    let bed = open("login-types").await;
    for (of_mount, of_login, token_type) in [
        ("default-service", "", "service"),
        ("default-service", "batch", "batch"),
        ("default-batch", "default", "batch"),
        ("default-batch", "service", "service"),
        ("service", "batch", "service"),
        ("batch", "service", "batch"),
    ] {
        let tuned = bed.write("sys/auth/doorman/tune", json!({"token_type": of_mount})).await;
        assert_eq!(tuned.0, 204, "{tuned:?}");
        let auth = bed.admit(json!({"token_type": of_login})).await;
        assert_eq!(auth["token_type"], token_type, "{of_mount} {of_login}");
        let shown = bed.lookup(&auth["client_token"]).await;
        assert_eq!((shown.0, &shown.1["data"]["type"]), (200, &json!(token_type)));
        let (renewed, answer) = bed.renew(&auth["client_token"]).await;
        assert_eq!(renewed, if token_type == "batch" { 400 } else { 200 }, "{answer}");
    }
    let (status, answer) = bed.login(json!({"num_uses": 2})).await;
    assert_eq!(status, 400, "a batch token is not counted: {answer}");
    let short = json!({"token_type": "default-service", "max_lease_ttl": "10m"});
    assert_eq!(bed.write("sys/auth/doorman/tune", short).await.0, 204);
    let (_, answer) = bed.login(json!({"ttl": 3_600})).await;
    assert_eq!(answer["auth"]["lease_duration"], 600, "{answer}");
    assert!(answer["warnings"][0].as_str().unwrap().contains("10m"), "{answer}");
    bed.end().await;
}

#[tokio::test]
async fn counted_use_login_token_ends_with_last_request() {
    let bed = open("login-uses").await;
    let auth = bed.admit(json!({"num_uses": 2})).await;
    assert_eq!(auth["num_uses"], 2);
    for status in [200, 200, 403] {
        assert_eq!(bed.lookup(&auth["client_token"]).await.0, status);
    }
    bed.end().await;
}

#[tokio::test]
async fn login_renewal_is_reverified_against_current_login() {
    let bed = open("login-renew").await;
    let auth = bed.admit(json!({"policies": ["readers"], "ttl": 600})).await;
    let token = &auth["client_token"];
    let (status, answer) = bed.renew(token).await;
    assert_eq!((status, &answer["auth"]["lease_duration"]), (200, &json!(600)), "{answer}");
    assert_eq!(answer["auth"]["policies"], json!(["default", "readers"]));
    assert_eq!(answer["auth"]["entity_id"], auth["entity_id"]);
    let by_accessor = json!({"accessor": auth["accessor"]});
    let (status, answer) = bed.write("auth/token/renew-accessor", by_accessor).await;
    assert_eq!((status, &answer["auth"]["client_token"]), (200, &json!("")), "{answer}");
    for (now, status, part) in [
        (json!({"ttl": 60}), 200, ""),
        (json!({"ttl": 600, "policies": ["writers"]}), 400, "policies of this login have changed"),
        (json!({"policies": ["readers"], "alias": "bob"}), 500, "another alias"),
        (json!({"alias": null}), 500, "without an alias"),
        (json!({"alias": "amy", "refuse": "amy has left"}), 403, "amy has left"),
    ] {
        assert_eq!(bed.write("auth/doorman/renewals", json!({"say": now})).await.0, 204);
        let (answered, answer) = bed.renew(token).await;
        assert_eq!(answered, status, "{now}: {answer}");
        assert!(error(&answer).contains(part), "{now}: {answer}");
        if status == 200 {
            assert_eq!(answer["auth"]["lease_duration"], 60, "the role's ttl by now");
        }
    }
    let (_, shown) = bed.lookup(token).await;
    assert!(shown["data"]["ttl"].as_u64().unwrap() <= 60, "a refusal prolongs nothing: {shown}");
    let fixed = bed.admit(json!({"renewable": false})).await;
    let (status, answer) = bed.renew(&fixed["client_token"]).await;
    assert_eq!(status, 400);
    assert!(error(&answer).contains("lease is not renewable"), "{answer}");
    bed.end().await;
}

#[tokio::test]
async fn removed_mount_revokes_tokens_of_its_logins() {
    let bed = open("login-disable").await;
    assert_eq!(bed.write("sys/policies/acl/makers", json!({"policy": MAKERS})).await.0, 204);
    let mine = bed.admit(json!({"policies": ["makers"]})).await;
    let batch = bed.admit(json!({"token_type": "batch"})).await;
    let token = mine["client_token"].as_str().unwrap();
    let (status, child) = bed
        .call_as(token, Verb::Write, "auth/token/create", json!({"policies": ["default"]}))
        .await;
    assert_eq!(status, 200, "{child}");
    let own = bed.write("auth/token/create", json!({"policies": ["default"]})).await.1;
    let (all, others) = (
        [&mine["client_token"], &batch["client_token"], &child["auth"]["client_token"]],
        &own["auth"]["client_token"],
    );
    for token in all {
        assert_eq!(bed.lookup(token).await.0, 200);
    }
    assert_eq!(bed.call(Verb::Delete, "sys/auth/doorman", json!({})).await.0, 204);
    for token in all {
        assert_eq!(bed.lookup(token).await.0, 403, "{token}");
    }
    assert_eq!(bed.lookup(others).await.0, 200, "other tokens stay valid");
    let (status, _) = bed.login(json!({})).await;
    assert_eq!(status, 403, "there is no login any more");
    bed.end().await;
}

/// The policy of callers that may create tokens.
const MAKERS: &str = r#"path "auth/token/create" { capabilities = ["update"] }"#;

#[tokio::test]
async fn moved_mount_revokes_tokens_leased_under_old_path() {
    let bed = open("login-move").await;
    let mine = bed.admit(json!({})).await;
    let move_it = json!({"from": "auth/doorman", "to": "auth/gate"});
    let (status, answer) = bed.write("sys/remount", move_it).await;
    assert_eq!(status, 200, "{answer}");
    bed.line("mount-moved").await;
    assert_eq!(bed.lookup(&mine["client_token"]).await.0, 403);
    let say = json!({"say": {}});
    let (status, answer) = bed.call_as("", Verb::Write, "auth/gate/login", say).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["auth"]["entity_id"], mine["entity_id"], "identities go with the mount");
    let (_, shown) = bed.lookup(&answer["auth"]["client_token"]).await;
    assert_eq!(shown["data"]["display_name"], "gate");
    bed.end().await;
}

#[tokio::test]
async fn concurrent_first_logins_of_identity_create_one_entity() {
    let bed = Arc::new(open("login-crowd").await);
    let all: Vec<_> = (0..50)
        .map(|_| {
            let bed = Arc::clone(&bed);
            tokio::spawn(async move { bed.admit(json!({"alias": "zoe"})).await })
        })
        .collect();
    let mut entities = std::collections::BTreeSet::new();
    for one in all {
        entities.insert(one.await.unwrap()["entity_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(entities.len(), 1, "{entities:?}");
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test]
async fn plugin_mounts_only_as_its_own_type() {
    let bed = open("login-worlds").await;
    for (path, kind, part) in [
        ("sys/mounts/door", "doorman", "auth method"),
        ("sys/auth/door", "probe", "secrets engine"),
        ("sys/auth/door", "nothing", "there is no auth method \"nothing\""),
        ("sys/auth/door", "oidc", "a browser are not part of this version: use jwt, which lets in"),
    ] {
        let (status, answer) = bed.write(path, json!({"type": kind})).await;
        assert_eq!(status, 400, "{answer}");
        let why = error(&answer);
        assert!(why.contains("plugin not found in the catalog") && why.contains(part), "{why}");
    }
    let (status, info) = bed.read("sys/auth/doorman").await;
    assert_eq!((status, &info["data"]["type"]), (200, &json!("doorman")), "{info}");
    assert!(info["data"]["accessor"].as_str().unwrap().starts_with("auth_doorman_"), "{info}");
    assert_eq!(bed.write("sys/auth/second", json!({"type": "doorman"})).await.0, 204);
    let (_, listed) = bed.read("sys/auth").await;
    assert!(listed["data"]["second/"].is_object(), "{listed}");
    bed.end().await;
}

#[tokio::test]
async fn only_refused_logins_are_rate_limited() {
    let bed = open("login-flood").await;
    for _ in 0..200 {
        bed.admit(json!({})).await;
    }
    let mut refused = 0;
    loop {
        match bed.login(json!({"refuse": "no"})).await.0 {
            403 if refused < 10_000 => refused += 1,
            status => {
                assert_eq!(status, 429, "after {refused}");
                break;
            }
        }
    }
    assert!(refused >= 1_000, "only {refused} refused logins were admitted");
    bed.end().await;
}
