//! Logins through the example auth method `plugins/examples/passphrase`, which an operator uploads,
//! mounts and fills with users.

use crate::world::World;
use bulkhead_tests::operators::open;
use bulkhead_tests::paths::guest;
use bulkhead_tests::{Answer, Client};
use serde_json::{Value, json};

/// Registers the example and mounts the method at `auth/up`.
#[track_caller]
fn mount(root: &Client) {
    root.upload("sys/plugins/catalog/auth/passphrase", &guest("passphrase")).expect(204);
    let people = json!({ "type": "passphrase", "description": "people" });
    root.write("sys/auth/up", &people).expect(204);
}

#[track_caller]
fn user(root: &Client, name: &str, more: &Value) {
    let mut user = json!({ "passphrase": format!("{name} knows this") });
    user.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    root.write(&format!("auth/up/users/{name}"), &user).expect(204);
}

fn login(stranger: &Client, name: &str, passphrase: &str) -> Answer {
    stranger.write(&format!("auth/up/login/{name}"), &json!({ "passphrase": passphrase }))
}

fn token(answer: &Answer) -> String {
    answer.body["auth"]["client_token"].as_str().expect("a token").to_owned()
}

#[test]
fn user_logs_in_and_renews_until_mount_removal() {
    let world = World::empty();
    let stranger = world.bulkhead.client(None);
    mount(&world.root);
    let rules = r#"path "database/config/demo" { capabilities = ["read"] }"#;
    world.root.write("sys/policies/acl/p1", &json!({ "policy": rules })).expect(204);
    // Like published clients: deprecated field names, and a duration as text.
    user(&world.root, "amy", &json!({ "policies": "p1", "ttl": "1h" }));
    let answer = login(&stranger, "amy", "amy knows this").expect(200);
    assert_eq!(answer.body["data"], Value::Null);
    let auth = &answer.body["auth"];
    assert_eq!(auth["policies"], json!(["default", "p1"]));
    assert_eq!(auth["metadata"], json!({ "username": "amy" }));
    let lives = auth["lease_duration"].as_u64().expect("a token has a duration");
    // Hashing a passphrase takes seconds on a busy machine.
    assert!((3_590..=3_600).contains(&lives), "{lives}");
    assert_eq!(auth["orphan"], json!(true));
    let amy = world.bulkhead.client(Some(&token(&answer)));
    let shown = amy.read("auth/token/lookup-self").expect(200).body["data"].clone();
    assert_eq!(
        (&shown["path"], &shown["display_name"], &shown["entity_id"]),
        (&json!("auth/up/login/amy"), &json!("up-amy"), &auth["entity_id"])
    );
    amy.read("database/config/demo").expect(404);
    amy.read("database/config/other").expect(403);
    let renewed = amy.write("auth/token/renew-self", &json!({ "increment": 120 })).expect(200);
    assert_eq!(renewed.body["auth"]["lease_duration"], json!(120));
    user(&world.root, "amy", &json!({ "token_policies": ["p2"] }));
    let refused = amy.write("auth/token/renew-self", &json!({})).expect(400);
    assert!(refused.errors().contains("policies of this login have changed"), "{refused:?}");
    world.root.delete("sys/auth/up").expect(204);
    amy.read("auth/token/lookup-self").expect(403);
    login(&stranger, "amy", "amy knows this").expect(403);
    world.root.delete("sys/plugins/catalog/auth/passphrase").expect(204);
}

#[test]
fn failed_login_reveals_no_reason_or_passphrase() {
    let world = World::empty();
    let stranger = world.bulkhead.client(None);
    mount(&world.root);
    user(&world.root, "amy", &json!({}));
    let wrong = login(&stranger, "amy", "hunter-canary").expect(400);
    let unknown = login(&stranger, "nobody", "hunter-canary").expect(400);
    assert_eq!(wrong.errors(), unknown.errors());
    stranger.write("auth/up/login/amy", &json!({})).expect(400);
    stranger.write("auth/up/login/amy", &json!({ "passphrase": "x".repeat(70_000) })).expect(413);
    stranger.write("auth/up/users/amy", &json!({ "passphrase": "mine" })).expect(403);
    stranger.read("auth/up/login/amy").expect(403);
    world.root.read("auth/up/login/amy").expect(405);
    login(&stranger, "amy", "amy knows this").expect(200);
    assert!(!world.bulkhead.printed().contains("hunter-canary"));
    let audit = std::fs::read_to_string(world.bulkhead.data().join("audit.log"));
    let audit = audit.expect("dev mode audits to its folder");
    assert!(audit.contains("auth/up/login/amy") && !audit.contains("hunter-canary"));
    assert!(!audit.contains("amy knows this"));
}

#[test]
fn failed_logins_lock_user_until_operator_unlocks() {
    let world = World::empty();
    let stranger = world.bulkhead.client(None);
    mount(&world.root);
    user(&world.root, "amy", &json!({}));
    for name in ["amy", "nobody"] {
        (0..5).for_each(|_| drop(login(&stranger, name, "open barley").expect(400)));
    }
    let locked = login(&stranger, "amy", "amy knows this").expect(403);
    assert_eq!(login(&stranger, "nobody", "open barley").expect(403).errors(), locked.errors());
    let errors = locked.errors();
    assert!(errors.contains("the lock ends 15m after") && !errors.contains("log in"), "{errors}");
    let listed = world.root.read("sys/locked-users").expect(200).body["data"].clone();
    let of_mount = &listed["by_namespace"][0]["mount_accessors"][0];
    assert_eq!(of_mount["alias_identifiers"], json!(["amy", "nobody"]));
    let accessor = of_mount["mount_accessor"].as_str().expect("an accessor");
    world.root.write(&format!("sys/locked-users/{accessor}/unlock/amy"), &json!({})).expect(204);
    login(&stranger, "amy", "amy knows this").expect(200);
}

#[test]
fn batch_tokens_follow_configuration_and_end_with_mount() {
    let world = World::empty();
    let stranger = world.bulkhead.client(None);
    mount(&world.root);
    user(&world.root, "amy", &json!({ "token_type": "batch", "token_ttl": "10m" }));
    let answer = login(&stranger, "amy", "amy knows this").expect(200);
    assert_eq!(answer.body["auth"]["token_type"], "batch");
    assert_eq!(answer.body["auth"]["renewable"], json!(false));
    let amy = world.bulkhead.client(Some(&token(&answer)));
    amy.read("auth/token/lookup-self").expect(200);
    world.root.write("sys/auth/up/tune", &json!({ "token_type": "service" })).expect(204);
    let service = login(&stranger, "amy", "amy knows this").expect(200);
    assert_eq!(service.body["auth"]["token_type"], "service", "the mount's word is final");
    world.root.delete("sys/auth/up").expect(204);
    amy.read("auth/token/lookup-self").expect(403);
}

#[test]
fn a_login_and_its_entity_survive_a_restart() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    mount(&root);
    user(&root, "amy", &json!({ "token_ttl": "1h" }));
    let answer = login(&server.client(None), "amy", "amy knows this").expect(200);
    server.kill();
    server.start_again();
    operators.unseal(&server);
    let amy = server.client(Some(&token(&answer)));
    let renewed = amy.write("auth/token/renew-self", &json!({})).expect(200);
    assert_eq!(renewed.body["auth"]["entity_id"], answer.body["auth"]["entity_id"]);
    let again = login(&server.client(None), "amy", "amy knows this").expect(200);
    assert_eq!(again.body["auth"]["entity_id"], answer.body["auth"]["entity_id"]);
}

#[test]
fn the_engine_on_the_sdks_first_page_works() {
    let world = World::empty();
    world.root.upload("sys/plugins/catalog/secret/notes", &guest("notes")).expect(204);
    world.root.write("sys/mounts/notes", &json!({ "type": "notes" })).expect(204);
    world.root.write("notes/notes/milk", &json!({ "text": "two bottles" })).expect(204);
    assert_eq!(world.root.read("notes/notes/milk").expect(200).text("text"), "two bottles");
    assert_eq!(world.root.list("notes/notes").expect(200).body["data"]["keys"], json!(["milk"]));
    world.root.delete("notes/notes/milk").expect(204);
    world.root.read("notes/notes/milk").expect(404);
    let refused = world.root.write("sys/auth/notes", &json!({ "type": "notes" })).expect(400);
    assert!(refused.errors().contains("secrets engine"), "{refused:?}");
}
