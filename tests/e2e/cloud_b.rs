//! Google Cloud logins of service accounts and instances, through the configured proxy, with a
//! simulated provider that signs real tokens.

mod credentials;
mod google;
mod weaknesses;

use bulkhead_tests::cloud_b::now;
use bulkhead_tests::internet::{Fault, Online};
use bulkhead_tests::signer::Signer;
use bulkhead_tests::{Answer, Client};
use google::{EMAIL, Google, OWN};
use serde_json::{Value, json};

const RULES: &str = r#"path "auth/gcp/role/dev" { capabilities = ["read"] }"#;

/// Starts a server with the method at `auth/gcp` and a role of each type.
fn ready(google: &Google) -> Online {
    configured(google, "")
}

/// Like [`ready`], with additions to the server's configuration.
fn configured(google: &Google, more: &str) -> Online {
    let online = google.internet.server(more);
    let root = &online.root;
    root.write("sys/auth/gcp", &json!({ "type": "gcp" })).expect(204);
    root.write("sys/policies/acl/app", &json!({ "policy": RULES })).expect(204);
    root.write("auth/gcp/config", &json!({ "credentials": google.cloud.credentials(OWN) }))
        .expect(204);
    let dev = json!({
        "type": "iam", "bound_service_accounts": EMAIL, "bound_projects": "p1",
        "token_policies": "app",
    });
    root.write("auth/gcp/role/dev", &dev).expect(204);
    let vm = json!({
        "type": "gce", "bound_projects": "p1", "bound_regions": "us-east1",
        "bound_instance_groups": "web", "bound_labels": "team:blue", "token_policies": "app",
    });
    let shared = root.write("auth/gcp/role/vm", &vm).expect(200);
    assert!(shared.body["warnings"][0].as_str().is_some_and(|text| text.contains("gce_alias")));
    online
}

fn login(online: &Online, role: &str, jwt: &str) -> Answer {
    online.server.client(None).write("auth/gcp/login", &json!({ "role": role, "jwt": jwt }))
}

fn client(online: &Online, answer: &Answer) -> Client {
    online.server.client(answer.body["auth"]["client_token"].as_str())
}

fn renew(client: &Client) -> Answer {
    client.write("auth/token/renew-self", &json!({}))
}

#[test]
fn account_logs_in_and_renews_until_disabled() {
    let google = Google::start();
    let online = ready(&google);
    let answer = login(&online, "dev", &google.of_account(&json!({}))).expect(200);
    let auth = &answer.body["auth"];
    assert_eq!(auth["policies"], json!(["app", "default"]));
    let shown = json!({
        "project_id": "p1", "role": "dev", "service_account_email": EMAIL,
        "service_account_id": google.account.unique_id,
    });
    assert_eq!(auth["metadata"], shown);
    let app = client(&online, &answer);
    let role = app.read("auth/gcp/role/dev").expect(200);
    assert_eq!(role.body["data"]["bound_service_accounts"], json!([EMAIL]));
    let role_id = role.body["data"]["role_id"].clone();
    let entity = format!("identity/entity/id/{}", auth["entity_id"].as_str().expect("an entity"));
    let alias = online.root.read(&entity).expect(200).body["data"]["aliases"][0].clone();
    assert_eq!((&alias["name"], &alias["metadata"]), (&role_id, &shown));
    renew(&app).expect(200);
    google.internet.fail("iam.googleapis.com", "/", Fault::Status(503), 10);
    renew(&app).expect(502);
    google.internet.heal();
    renew(&app).expect(200);
    google.cloud.disable(EMAIL, true);
    assert!(renew(&app).expect(400).errors().contains("is disabled"));
    login(&online, "dev", &google.of_account(&json!({}))).expect(400);
}

#[test]
fn instance_logs_in_by_zone_labels_and_group() {
    let google = Google::start();
    let online = ready(&google);
    let answer = login(&online, "vm", &google.of_instance(&json!({}))).expect(200);
    assert_eq!(answer.body["auth"]["metadata"]["instance_id"], google.instance.id.to_string());
    let app = client(&online, &answer);
    renew(&app).expect(200);
    google.label("red");
    assert!(renew(&app).expect(400).errors().contains("missing bound label"));
    google.label("blue");
    google.group(&[]);
    let refused = login(&online, "vm", &google.of_instance(&json!({}))).expect(400);
    assert!(refused.errors().contains("not part of instance groups"), "{refused:?}");
    let inferred = google.of_instance(&json!({ "aud": "vault/dev" }));
    login(&online, "dev", &inferred).expect(200);
    online.root.write("auth/gcp/role/dev", &json!({ "allow_gce_inference": false })).expect(204);
    login(&online, "dev", &inferred).expect(400);
}

#[test]
fn other_role_spelling_does_not_bypass_policy() {
    let google = Google::start();
    let online = ready(&google);
    let rules = r#"path "auth/gcp/role/*" { capabilities = ["create", "read", "update", "delete"] }
        path "auth/gcp/role/vm" { capabilities = ["deny"] }"#;
    online.root.write("sys/policies/acl/most", &json!({ "policy": rules })).expect(204);
    let body = json!({ "policies": ["most"] });
    let token = online.root.write("auth/token/create", &body).expect(200);
    let most = online.server.client(token.body["auth"]["client_token"].as_str());
    let before = online.root.read("auth/gcp/role/vm").expect(200).body["data"].clone();
    for (spelled, status) in [("vm", 403), ("VM", 400), ("Vm", 400), ("v%4D", 400)] {
        let path = format!("auth/gcp/role/{spelled}");
        most.read(&path).expect(status);
        most.write(&path, &json!({ "bound_projects": "p2" })).expect(status);
        most.attempt("DELETE", &path, b"").expect("an answer").expect(status);
    }
    assert_eq!(online.root.read("auth/gcp/role/vm").expect(200).body["data"], before);
}

/// Forged tokens and tokens of somebody else: the role, the token, and words of the refusal.
fn forged_tokens(google: &Google) -> Vec<(&'static str, String, &'static str)> {
    let (provider, account) = (google.cloud.signer(), google.cloud.key_of(EMAIL));
    let other = Signer::new(&account.kid);
    let identity = |change: &Value| google.identity(change);
    let of_account = |change: Value| google.of_account(&change);
    let of_instance = |change: Value| google.of_instance(&change);
    let header = |alg: &str| json!({"alg": alg, "kid": "g1"});
    let twice =
        format!(r#"{{"sub":"{EMAIL}","sub":"{OWN}","aud":"vault/dev","exp":{}}}"#, now() + 60);
    let of_key = format!(r#"{{"alg":"RS256","kid":"{}"}}"#, account.kid);
    let folded = identity(&json!({"google": null, "Google": {"compute_engine": {}}}));
    let not_the_key = "the token's signature is not by the issuer's key";
    let not_allowed = "an algorithm that is not allowed";
    let (no_metadata, other_audience) = ("claims with GCE metadata", "must end in \"vault/dev\"");
    let foreign = "the token's issuer or email is not that of service account";
    vec![
        (
            "dev",
            other.token(&json!({"sub": EMAIL, "aud": "vault/dev", "exp": now() + 60})),
            not_the_key,
        ),
        ("vm", account.token(&identity(&json!({}))), "no Google OAuth2 provider key found"),
        ("vm", account.named("g1").token(&identity(&json!({}))), not_the_key),
        ("vm", provider.token_with(&header("none"), &identity(&json!({}))), not_allowed),
        ("vm", provider.token_with(&header("HS256"), &identity(&json!({}))), not_allowed),
        (
            "vm",
            provider.token_with(&json!({"alg": "RS256"}), &identity(&json!({}))),
            "the JWT has no kid",
        ),
        (
            "vm",
            provider.token_with(&json!({"alg": "RS256", "kid": "g1", "crit": ["x"]}), &folded),
            "the header has crit",
        ),
        ("dev", account.token_of(&of_key, &twice), "a part is not JSON with each key once"),
        ("vm", provider.token(&folded), no_metadata),
        ("dev", of_account(json!({ "aud": "notvault/dev" })), other_audience),
        ("dev", of_account(json!({ "aud": null })), "aud is neither a text nor a list"),
        ("dev", of_account(json!({ "aud": ["vault/dev", "x"] })), other_audience),
        ("dev", of_account(json!({ "exp": now() - 120 })), "JWT is expired"),
        ("dev", of_account(json!({ "exp": now() + 3_000 })), "service account JWTs expire within"),
        (
            "dev",
            of_account(json!({ "exp": (now() + 60).to_string() })),
            "exp is not a number of seconds",
        ),
        ("dev", of_account(json!({ "nbf": now() + 600 })), "the token does not hold before"),
        ("dev", of_account(json!({ "iss": "https://accounts.google.com" })), foreign),
        ("dev", of_account(json!({ "sub": "../../../oauth2/v1/certs" })), "'sub' claim"),
        ("dev", of_account(json!({ "sub": OWN })), "the JWT's subject has no such key"),
        ("vm", of_instance(json!({ "iss": "https://evil.example" })), "tokens of the provider"),
        ("vm", of_instance(json!({ "email": "x@p1.iam.gserviceaccount.com" })), foreign),
        ("vm", of_instance(json!({ "google": {} })), no_metadata),
        ("vm", ".".repeat(40_000), "it has more than 16 KiB"),
    ]
}

#[test]
fn forged_and_borrowed_identities_are_refused() {
    let google = Google::start();
    let online = ready(&google);
    for (number, (role, jwt, words)) in forged_tokens(&google).iter().enumerate() {
        let answer = login(&online, role, jwt);
        assert_eq!(answer.status, 400, "{number}: {answer:?}");
        assert!(answer.errors().contains(words), "{number}: {answer:?}");
        assert!(answer.body["auth"].is_null());
    }
    let hosts = ["www", "oauth2", "iam", "compute"].map(|name| format!("{name}.googleapis.com"));
    assert!(google.internet.requests().iter().all(|request| hosts.contains(&request.host)));
    let certs = google.internet.asked("www.googleapis.com");
    let certs = certs.iter().filter(|request| request.path == "/oauth2/v1/certs").count();
    assert!(certs <= 2, "unknown keys cost one request a minute, and not {certs}");
    login(&online, "vm", &google.of_instance(&json!({}))).expect(200);
}

#[test]
fn logins_continue_after_root_key_rotation() {
    let google = Google::start();
    let online = ready(&google);
    login(&online, "dev", &google.of_account(&json!({}))).expect(200);
    let before = google.cloud.keys(OWN);
    let rotated = online.root.write("auth/gcp/config/rotate-root", &json!({})).expect(200);
    let key_id = rotated.body["data"]["private_key_id"].as_str().expect("the new key").to_owned();
    assert_eq!(google.cloud.keys(OWN), [before.clone(), vec![key_id.clone()]].concat());
    let config = online.root.read("auth/gcp/config").expect(200);
    assert_eq!(config.body["data"]["private_key_id"], key_id.as_str());
    google.cloud.end_key(OWN, &before[0]);
    login(&online, "dev", &google.of_account(&json!({}))).expect(200);
    assert!(!online.server.printed().contains("PRIVATE KEY"));
}

#[test]
fn explanation_names_unmet_bound_without_issuing_token() {
    let google = Google::start();
    let online = ready(&google);
    google.label("red");
    let body = json!({ "jwt": google.of_instance(&json!({})) });
    let answer = online.root.write("auth/gcp/role/vm/explain", &body).expect(200);
    assert!(answer.body["auth"].is_null());
    let list = answer.body["data"]["constraints"].as_array().expect("a list").clone();
    let unmet: Vec<&Value> = list.iter().filter(|it| it["held"] == false).collect();
    assert_eq!(unmet.len(), 1, "{list:?}");
    assert_eq!(unmet[0]["name"], "bound_labels");
    assert_eq!(unmet[0]["why"], "instance missing bound label \"team:blue\"");
}
