//! Logins of users with passwords, with the requests of published clients.

use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A dev server with the method at `auth/userpass`.
struct UserpassStage {
    server: Bulkhead,
    root: Client,
    stranger: Client,
}

impl UserpassStage {
    fn new() -> Self {
        let server = Bulkhead::start();
        let (root, stranger) = (server.root(), server.client(None));
        Self { server, root, stranger }
    }

    #[track_caller]
    fn user(&self, name: &str, fields: &Value) {
        let answer = self.root.write(&format!("auth/userpass/users/{name}"), fields);
        assert!(answer.status < 300, "{answer:?}");
    }

    fn login(&self, name: &str, password: &str) -> Answer {
        let body = json!({ "password": password });
        self.stranger.write(&format!("auth/userpass/login/{name}"), &body)
    }

    #[track_caller]
    fn client(&self, login: &Answer) -> Client {
        let token = login.body["auth"]["client_token"].as_str().expect("a token");
        self.server.client(Some(token))
    }
}

#[test]
fn user_logs_in_and_token_follows_user() {
    let stage = UserpassStage::new();
    let bob = json!({ "password": "open sesame", "policies": "dev", "ttl": "1h" });
    stage.user("bob", &bob);
    let login = stage.login("Bob", "open sesame").expect(200);
    let auth = &login.body["auth"];
    assert_eq!(auth["policies"], json!(["default", "dev"]));
    assert_eq!(auth["metadata"], json!({ "username": "bob" }));
    assert_eq!((&auth["renewable"], &auth["token_type"]), (&json!(true), &json!("service")));
    let bob = stage.client(&login);
    let shown = bob.read("auth/token/lookup-self").expect(200).body["data"].clone();
    assert_eq!(shown["display_name"], "userpass-bob");
    assert_eq!(stage.login("bob", "open sesame").body["auth"]["entity_id"], auth["entity_id"]);
    bob.write("auth/token/renew-self", &json!({})).expect(200);
    stage.user("bob/policies", &json!({ "token_policies": "ops" }));
    bob.write("auth/token/renew-self", &json!({})).expect(400);
    stage.user("bob/policies", &json!({ "token_policies": "dev" }));
    bob.write("auth/token/renew-self", &json!({})).expect(200);
    stage.user("bob/password", &json!({ "password": "open wheat" }));
    stage.login("bob", "open sesame").expect(400);
    stage.login("bob", "open wheat").expect(200);
    stage.root.delete("auth/userpass/users/bob").expect(204);
    bob.write("auth/token/renew-self", &json!({})).expect(400);
    stage.login("bob", "open wheat").expect(400);
}

#[test]
fn narrowed_user_binds_earlier_tokens_at_renewal() {
    let stage = UserpassStage::new();
    stage.user("bob", &json!({ "password": "open sesame" }));
    let bob = stage.client(&stage.login("bob", "open sesame").expect(200));
    stage.user("bob", &json!({ "token_bound_cidrs": "127.0.0.0/8" }));
    bob.write("auth/token/renew-self", &json!({})).expect(200);
    let shown = bob.read("auth/token/lookup-self").expect(200);
    assert_eq!(shown.body["data"]["bound_cidrs"], json!(["127.0.0.0/8"]));
    stage.user("bob", &json!({ "token_bound_cidrs": "192.0.2.0/24" }));
    let refused = bob.write("auth/token/renew-self", &json!({})).expect(400);
    assert!(refused.errors().contains("192.0.2.0/24 by now"), "{refused:?}");
    stage.login("bob", "open sesame").expect(403);
}

#[test]
fn guesses_do_not_reveal_existing_names() {
    let stage = UserpassStage::new();
    stage.user("bob", &json!({ "password": "open sesame" }));
    stage.user("carol", &json!({ "password": "open sesame", "token_bound_cidrs": "10.0.0.0/8" }));
    let wrong = stage.login("bob", "hunter-canary").expect(400).errors();
    for name in ["eve", "carol"] {
        assert_eq!(stage.login(name, "hunter-canary").expect(400).errors(), wrong);
    }
    let unproven = stage.stranger.write("auth/userpass/login/bob", &json!({})).expect(400);
    let unknown = stage.stranger.write("auth/userpass/login/eve", &json!({})).expect(400);
    assert_eq!(unproven.errors(), unknown.errors());
    // All spellings of a name count as the same name.
    for name in ["bob", "eve"] {
        let spellings = [
            name.to_owned(),
            name.to_uppercase(),
            format!("{}{}", &name[..1].to_uppercase(), &name[1..]),
        ];
        let answers =
            spellings.iter().cycle().take(9).map(|spelling| stage.login(spelling, "x").status);
        let answers: Vec<u16> = answers.collect();
        assert_eq!(
            answers.iter().filter(|status| **status == 400).count(),
            4,
            "{name} {answers:?}"
        );
        assert_eq!(answers.last(), Some(&403), "{name} is locked");
    }
    assert_eq!(stage.login("BoB", "open sesame").status, 403, "no spelling bypasses the lock");
    assert!(!stage.server.printed().contains("hunter-canary"));
}

#[test]
fn unknown_user_takes_time_of_wrong_password() {
    let stage = UserpassStage::new();
    stage.user("bob", &json!({ "password": "open sesame" }));
    let unlocked = json!({ "user_lockout_config": { "lockout_disable": true } });
    stage.root.write("sys/auth/userpass/tune", &unlocked).expect(204);
    let mut times: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..15 {
        for (name, times) in ["bob", "eve"].into_iter().zip(&mut times) {
            let began = Instant::now();
            stage.login(name, "open barley").expect(400);
            times.push(began.elapsed());
        }
    }
    let [known_time, unknown_time] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    println!("median of a known name {known_time:?}, of an unknown name {unknown_time:?}");
    assert!(
        unknown_time * 2 > known_time && known_time * 2 > unknown_time,
        "{known_time:?} {unknown_time:?}"
    );
}

pub(super) fn bad_user_settings_are_refused_and_not_stored() {
    let stage = UserpassStage::new();
    for (path, body, status, says) in [
        ("users/bob", json!({}), 400, "password is required"),
        ("users/bob", json!({ "password": "" }), 400, "password is empty"),
        ("users/bob", json!({ "password": ["a"] }), 400, "password"),
        ("users/bob", json!({ "password": "a".repeat(5_000) }), 400, "the most is 4096"),
        ("users/bob", json!({ "password_hash": "$2a$10$abc" }), 400, "bcrypt"),
        ("users/bob", json!({ "password": "a", "ttl": "soon" }), 400, "ttl"),
        ("users/bob", json!({ "password": "a", "token_type": "some" }), 400, "token_type"),
        ("users/BOB", json!({ "password": "a" }), 400, "lower case"),
        ("users/b%20b", json!({ "password": "a" }), 404, "no such path"),
        ("users/bob/password", json!({ "password": "a" }), 400, "there is no user"),
        ("users/bob/policies", json!({ "policies": "a" }), 400, "there is no user"),
        ("login/bob", json!({ "password": { "a": 1 } }), 400, "password"),
        ("login/%0abob", json!({ "password": "a" }), 400, ""),
    ] {
        let answer = stage.root.write(&format!("auth/userpass/{path}"), &body);
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        assert!(answer.errors().contains(says), "{path} {body}: {answer:?}");
    }
    stage.root.list("auth/userpass/users").expect(404);
}
