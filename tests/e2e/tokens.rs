//! Child tokens: rights, lifetime and end.

use crate::world::World;
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::time::Duration;

const MAKER: &str = r#"path "auth/token/create" { capabilities = ["update"] }
                       path "auth/token/lookup-self" { capabilities = ["read"] }"#;

#[test]
fn child_cannot_exceed_parent_policies() {
    let world = World::empty();
    let maker = world.client_with("maker", MAKER);
    world
        .root
        .write(
            "sys/policies/acl/more",
            &json!({ "policy": r#"path "*" { capabilities = ["read"] }"# }),
        )
        .expect(204);
    for (policies, lacks) in
        [(json!(["more"]), "more"), (json!(["maker", "more"]), "more"), (json!(["root"]), "root")]
    {
        let body = json!({ "policies": policies });
        let refused = maker.write("auth/token/create", &body).expect(400).errors();
        let words = format!("this token does not have policy \"{lacks}\"");
        assert!(refused.contains(&words), "{policies}: {refused}");
    }
    let child = maker.write("auth/token/create", &json!({ "policies": ["maker"] })).expect(200);
    assert_eq!(child.body["auth"]["policies"], json!(["maker"]));
    let inherited = maker.write("auth/token/create", &json!({})).expect(200);
    assert_eq!(inherited.body["auth"]["policies"], json!(["maker"]));
}

#[test]
fn token_looks_up_own_policies_and_ttl() {
    let world = World::empty();
    let body = json!({
        "policies": ["none-yet"], "ttl": "30m", "display_name": "Łukasz; drop",
        "meta": { "team": "db" },
    });
    let answer = world.root.write("auth/token/create", &body).expect(200);
    let client = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    let seen = client.read("auth/token/lookup-self").expect(200);
    assert_eq!(seen.body["data"]["policies"], json!(["default", "none-yet"]));
    assert_eq!(seen.body["data"]["meta"], json!({ "team": "db" }));
    let name = seen.text("display_name");
    assert!(
        name.starts_with("token-") && name.chars().all(|c| c == '-' || c.is_ascii_alphanumeric()),
        "{name}"
    );
    let left = seen.body["data"]["ttl"].as_u64().expect("seconds");
    assert!((1700..=1800).contains(&left), "{left}");
    assert!(
        answer.warnings().contains("none-yet"),
        "a policy that does not exist is worth a warning"
    );
}

#[test]
fn expired_token_is_refused_with_its_children() {
    let world = World::empty();
    world.root.write("sys/policies/acl/maker", &json!({ "policy": MAKER })).expect(204);
    let answer = world
        .root
        .write("auth/token/create", &json!({ "policies": ["maker"], "ttl": "2s" }))
        .expect(200);
    let parent = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    let answer = parent
        .write("auth/token/create", &json!({ "policies": ["maker"], "ttl": "1h" }))
        .expect(200);
    let child = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    child.read("auth/token/lookup-self").expect(200);
    let limit = Duration::from_secs(4);
    until_true("the parent ends", limit, || parent.read("auth/token/lookup-self").status == 403);
    until_true("the child ends with it", limit, || {
        child.read("auth/token/lookup-self").status == 403
    });
}

#[test]
fn a_revoked_token_revokes_its_children() {
    let world = World::empty();
    let maker = world.client_with("maker", MAKER);
    let answer = maker.write("auth/token/create", &json!({ "policies": ["maker"] })).expect(200);
    let child = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    let parent = maker.read("auth/token/lookup-self").expect(200).text("id").to_owned();
    world.root.write("auth/token/revoke", &json!({ "token": parent })).expect(204);
    maker.read("auth/token/lookup-self").expect(403);
    until_true("the child ends with it", Duration::from_secs(2), || {
        child.read("auth/token/lookup-self").status == 403
    });
}

#[test]
fn unsupported_token_restrictions_are_refused() {
    let world = World::empty();
    for restriction in
        [json!({ "entity_alias": "somebody" }), json!({ "bound_cidrs": ["10.0.0.0/8"] })]
    {
        let name = restriction
            .as_object()
            .and_then(|one| one.keys().next())
            .expect("each row has a restriction");
        let answer = world.root.write("auth/token/create", &restriction);
        assert!(answer.status == 400 && answer.errors().contains(name), "{name}: {answer:?}");
    }
}

const READER: &str = r#"path "database/creds/*" { capabilities = ["read"] }
                        path "auth/token/lookup-self" { capabilities = ["read"] }"#;

#[test]
fn token_with_three_uses_ends_with_its_credential() {
    let world = World::new();
    world.root.write("sys/policies/acl/reader", &json!({ "policy": READER })).expect(204);
    let answer = world
        .root
        .write("auth/token/create", &json!({ "policies": ["reader"], "num_uses": 3 }))
        .expect(200);
    let client = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    let credential = world.credential_for(&client, "reader");
    assert_eq!(client.read("auth/token/lookup-self").expect(200).body["data"]["num_uses"], 1);
    let last = client.read("database/creds/reader").expect(400);
    assert!(last.errors().contains("token had one use left"), "{last:?}");
    client.read("auth/token/lookup-self").expect(403);
    until_true("the credential ends with its token", Duration::from_secs(5), || {
        !world.postgres.has_user(&credential.username)
    });
    assert_eq!(world.postgres.users(), Vec::<String>::new(), "the refused one made none");
}

#[test]
fn batch_token_credentials_end_with_token() {
    let world = World::new();
    world.root.write("sys/policies/acl/reader", &json!({ "policy": READER })).expect(204);
    let body = json!({ "policies": ["reader"], "type": "batch", "ttl": "5s" });
    let answer = world.root.write("auth/token/create", &body).expect(200);
    let token = answer.body["auth"]["client_token"].as_str().expect("a token is text").to_owned();
    assert!(token.starts_with("bhb.") && answer.body["auth"]["accessor"] == "", "{answer:?}");
    let client = world.bulkhead.client(Some(&token));
    let credential = world.credential_for(&client, "reader");
    assert!(credential.seconds <= 5, "{credential:?}");
    until_true("the token ends", Duration::from_secs(8), || {
        client.read("auth/token/lookup-self").status == 403
    });
    until_true("its credential, too", Duration::from_secs(5), || {
        !world.postgres.has_user(&credential.username)
    });
    bulkhead_tests::leaks::assert_sealed(world.bulkhead.data(), &token);
}

pub(super) fn a_forged_or_overlong_token_is_refused_as_any_unknown_one() {
    let world = World::empty();
    let answer = world
        .root
        .write("auth/token/create", &json!({ "policies": ["default"], "type": "batch" }))
        .expect(200);
    let batch = answer.body["auth"]["client_token"].as_str().expect("a token is text");
    let unknown = world
        .bulkhead
        .client(Some("bhs.nobody"))
        .read("auth/token/lookup-self")
        .expect(403)
        .errors();
    let cut = &batch[..batch.len() - 4];
    let others = World::empty()
        .root
        .write("auth/token/create", &json!({ "policies": ["root"] }))
        .expect(200);
    let foreign = others.body["auth"]["client_token"].as_str().expect("a token is text");
    for token in [
        cut,
        foreign,
        "bhb.AAAA",
        "x",
        &"x".repeat(8 << 10),
        &format!("bhb.{}", "A".repeat(8 << 10)),
    ] {
        let refused = world.bulkhead.client(Some(token)).read("auth/token/lookup-self").expect(403);
        assert_eq!(refused.errors(), unknown, "{} characters", token.len());
    }
    world.bulkhead.client(Some(batch)).read("auth/token/lookup-self").expect(200);
}

#[test]
fn put_creates_token_and_get_lists_token_roles() {
    let world = World::empty();
    world.root.send("PUT", "auth/token/roles/worker", br#"{"orphan":true}"#).expect(204);
    let answer = world
        .root
        .send("PUT", "auth/token/create/worker", br#"{"policies":"default"}"#)
        .expect(200);
    assert_eq!(answer.body["auth"]["orphan"], true);
    let listed = world.root.read("auth/token/roles?list=true").expect(200);
    assert_eq!(listed.body["data"], json!({ "keys": ["worker"] }));
    assert_eq!(
        world.root.read("auth/token/roles/nobody").expect(404).body,
        json!({ "errors": [] })
    );
}

#[test]
fn renewal_is_capped_at_explicit_token_maximum() {
    let world = World::empty();
    let body = json!({ "ttl": "1m", "explicit_max_ttl": "5m" });
    let answer = world.root.write("auth/token/create", &body).expect(200);
    let client = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    let renewed = client.write("auth/token/renew-self", &json!({ "increment": "1h" })).expect(200);
    let seconds = renewed.body["auth"]["lease_duration"].as_u64().expect("seconds");
    assert!((290..=300).contains(&seconds), "{seconds} s with a maximum of five minutes");
}

#[test]
fn tokens_survive_restart_and_are_never_in_clear() {
    let mut world = World::empty();
    let answer = world.root.write("auth/token/create", &json!({ "ttl": "1h" })).expect(200);
    let token = answer.body["auth"]["client_token"].as_str().expect("a token is text").to_owned();
    assert!(token.starts_with("bhs."), "service tokens bear the prefix that scanners look for");
    world.bulkhead.kill();
    bulkhead_tests::leaks::assert_sealed(world.bulkhead.data(), &token);
    assert!(!world.bulkhead.printed().contains(&token));
    world.bulkhead.start_again();
    world.bulkhead.client(Some(&token)).read("auth/token/lookup-self").expect(200);
}

#[test]
fn a_renewal_increment_counts_from_now() {
    let world = World::empty();
    let answer = world.root.write("auth/token/create", &json!({ "ttl": "1m" })).expect(200);
    assert_eq!(answer.body["auth"]["renewable"], true);
    assert_eq!(answer.body["data"], Value::Null);
    let client = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    let renewed = client.write("auth/token/renew-self", &json!({ "increment": 600 })).expect(200);
    assert_eq!(renewed.body["auth"]["lease_duration"], 600);
}
