//! The rules of the transit server, asked over HTTP.

use super::*;
use crate::internet::Fault;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

/// Sends a request with a token, and returns status and body.
fn ask(server: &TransitServer, token: &str, path: &str, body: &Value) -> (u16, Value) {
    let agent: Agent =
        Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let request = agent.post(format!("{}{path}", server.url())).header("x-vault-token", token);
    let mut answer = request.send(body.to_string()).expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a text");
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default())
}

fn encrypt(server: &TransitServer, token: &str) -> String {
    let plain = json!({ "plaintext": STANDARD.encode("a key") });
    let (status, body) = ask(server, token, "/v1/transit/encrypt/unseal", &plain);
    assert_eq!(status, 200, "{body}");
    body["data"]["ciphertext"].as_str().expect("a text").to_owned()
}

fn decrypt(server: &TransitServer, token: &str, text: &str) -> (u16, Value) {
    ask(server, token, "/v1/transit/decrypt/unseal", &json!({ "ciphertext": text }))
}

#[test]
fn versions_decrypt_until_they_are_refused_or_lost() {
    let server = TransitServer::start();
    let token = server.issue(None);
    let first = encrypt(&server, &token);
    assert!(first.starts_with("vault:v1:"), "{first}");
    server.rotate();
    let second = encrypt(&server, &token);
    assert!(second.starts_with("vault:v2:"), "{second}");
    let (status, body) = decrypt(&server, &token, &first);
    assert_eq!((status, &body["data"]["plaintext"]), (200, &json!(STANDARD.encode("a key"))));
    let forged = first.replace("vault:v1:", "vault:v2:");
    assert_eq!(decrypt(&server, &token, &forged).0, 400);
    server.set_min_decryption_version(2);
    let (status, body) = decrypt(&server, &token, &first);
    assert!(status == 400 && body.to_string().contains("too old"), "{body}");
    server.lose_version(2);
    assert_eq!(decrypt(&server, &token, &second).0, 400);
    server.lose_key();
    assert_eq!(decrypt(&server, &token, &second).0, 400);
    let plain = json!({ "plaintext": STANDARD.encode("a key") });
    let (status, _) = ask(&server, &token, "/v1/transit/encrypt/unseal", &plain);
    assert_eq!(status, 403, "the token may not create a key");
}

#[test]
fn tokens_and_namespaces_limit_every_request() {
    let server = TransitServer::start();
    let token = server.issue(Some(Duration::from_secs(60)));
    let other = server.issue_for("other", None);
    let text = encrypt(&server, &token);
    for wrong in ["", "hvs.invented", &other] {
        assert_eq!(decrypt(&server, wrong, &text).0, 403, "{wrong}");
    }
    assert_eq!(ask(&server, &token, "/v1/sys/mounts", &json!({})).0, 403);
    let (status, body) = ask(&server, &token, "/v1/auth/token/renew-self", &json!({}));
    assert_eq!((status, &body["auth"]["lease_duration"]), (200, &json!(60)));
    assert_eq!(server.renewals(&token), 1);
    assert_eq!(ask(&server, &other, "/v1/auth/token/renew-self", &json!({})).0, 400);
    server.want_namespace("team");
    assert_eq!(decrypt(&server, &token, &text).0, 403);
    server.want_namespace("");
    server.set_sealed(true);
    assert_eq!(decrypt(&server, &token, &text).0, 503);
    server.set_sealed(false);
    server.revoke(&token);
    assert_eq!(decrypt(&server, &token, &text).0, 403);
}

#[test]
fn announced_lifetime_is_shorter_than_true_one() {
    let server = TransitServer::start();
    let token = server.issue_announcing(Duration::from_secs(6));
    let (status, body) = ask(&server, &token, "/v1/auth/token/renew-self", &json!({}));
    assert_eq!((status, &body["auth"]["lease_duration"]), (200, &json!(6)));
    assert_eq!(server.renewals(&token), 1);
}

#[test]
fn killed_server_returns_at_same_port() {
    let mut server = TransitServer::start();
    let (token, url) = (server.issue(None), server.url());
    let text = encrypt(&server, &token);
    server.kill();
    let agent: Agent = Agent::config_builder().proxy(None).build().into();
    let refused = agent.get(format!("{url}/v1/sys/health")).call();
    assert!(refused.is_err(), "{refused:?}");
    server.start_again();
    assert_eq!(server.url(), url);
    assert_eq!(decrypt(&server, &token, &text).0, 200);
    server.fail("/v1/transit", Fault::Status(500), 1);
    assert_eq!(decrypt(&server, &token, &text).0, 500);
    assert_eq!(decrypt(&server, &token, &text).0, 200);
    assert_eq!(server.requests().len(), 4);
}
