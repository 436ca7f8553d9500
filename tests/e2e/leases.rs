//! Revocation of many credentials below a path, also with failures during the revocation.

use crate::world::World;
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::time::Duration;

/// Longest time to revoke a few dozen users on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A world with a second role whose name begins like the first role's name.
fn world() -> World {
    let world = World::new();
    world.role("reader2", json!({ "default_ttl": "1h" }));
    world
}

#[test]
fn prefix_revocation_removes_only_its_users() {
    let world = world();
    for _ in 0..30 {
        world.credential("reader");
    }
    let other = world.credential("reader2");
    world.root.write("sys/leases/revoke-prefix/database/creds/read", &json!({})).expect(204);
    assert_eq!(world.postgres.users().len(), 31, "half a segment reaches nothing");
    world.root.send("PUT", "sys/revoke-prefix/database/creds/reader", b"").expect(204);
    assert_eq!(world.postgres.users(), [other.username]);
    world.root.list("sys/leases/lookup/database/creds/reader").expect(404);
    let left = world.root.list("sys/leases/lookup/database/creds").expect(200);
    assert_eq!(left.body["data"]["keys"], json!(["reader2/"]));
    world.root.write("sys/leases/revoke-prefix/database", &json!({})).expect(204);
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn lease_listing_gives_revocable_ids() {
    let world = world();
    let credential = world.credential("reader");
    let listed = world.root.list("sys/leases/lookup/database/creds/reader").expect(200);
    let id = format!(
        "database/creds/reader/{}",
        listed.body["data"]["keys"][0].as_str().unwrap_or_default()
    );
    assert_eq!(id, credential.lease);
    world.root.write(&format!("sys/leases/revoke/{id}"), &json!({ "sync": false })).expect(202);
    until_true("the user goes", PATIENCE, || !world.postgres.has_user(&credential.username));
}

#[test]
fn a_prefix_revocation_continues_after_a_kill() {
    let mut world = world();
    for _ in 0..12 {
        world.credential("reader");
    }
    let paused = world.postgres.pause();
    world.root.write("sys/leases/revoke-prefix/database", &json!({ "sync": false })).expect(202);
    world.bulkhead.kill();
    drop(paused);
    assert!(!world.postgres.users().is_empty(), "the database was not there to drop them all");
    world.bulkhead.start_again();
    until_true("every user goes", PATIENCE, || world.postgres.users().is_empty());
}

#[test]
fn missing_database_leases_stay_until_forced_revocation() {
    let mut world = world();
    let credential = world.credential("reader");
    world.postgres.stop();
    let lookup = json!({ "lease_id": credential.lease });
    let refused = world.root.write("sys/leases/revoke-prefix/database", &json!({})).expect(502);
    assert!(refused.errors().contains("leases that could not be ended: 1"), "{}", refused.errors());
    let lease = world.root.write("sys/leases/lookup", &lookup).expect(200);
    assert_ne!(lease.text("last_error"), "");
    world.root.write("sys/leases/revoke-force/database", &json!({})).expect(204);
    world.root.write("sys/leases/lookup", &lookup).expect(400);
}

#[test]
fn hostile_prefixes_are_refused_and_end_nothing() {
    let world = world();
    let credential = world.credential("reader");
    for base in [
        "sys/leases/revoke-prefix",
        "sys/leases/revoke-force",
        "sys/revoke-prefix",
        "sys/revoke-force",
    ] {
        for (below, status) in [
            ("", 404),
            ("/", 400),
            ("//", 400),
            ("/..", 400),
            ("/database/../database", 400),
            ("/%2e%2e/database", 400),
            ("/database%2fcreds", 400),
            ("//database", 400),
            ("/database/creds/", 400),
            ("/database/creds/reader%00", 400),
            ("/database/creds/%F0%9F%94%91", 204),
            ("/d%C3%A4tabase", 204),
            ("/database/creds/%25", 204),
            ("/database/creds/reader/0123456789abcdefghijklmn", 204),
        ] {
            let path = format!("{base}{below}");
            let answer = world.root.send("PUT", &path, b"");
            assert_eq!(answer.status, status, "{path}: {answer:?}");
        }
    }
    assert!(world.postgres.has_user(&credential.username));
}

#[test]
fn prefix_reveals_nothing_to_token_without_sudo() {
    let world = world();
    let credential = world.credential("reader");
    let rules = r#"path "sys/leases/*" { capabilities = ["update", "read", "list"] }
                   path "sys/revoke-prefix/*" { capabilities = ["update"] }"#;
    let client = world.client_with("without-sudo", rules);
    for path in ["sys/leases/revoke-prefix", "sys/leases/revoke-force", "sys/revoke-prefix"] {
        let [there, nowhere] = ["database/creds/reader", "nowhere/at/all"]
            .map(|below| client.write(&format!("{path}/{below}"), &json!({})));
        assert_eq!((there.status, nowhere.status), (403, 403), "{path}");
        assert_eq!(
            there.errors().replace("database/creds/reader", "nowhere/at/all"),
            nowhere.errors()
        );
    }
    for below in ["", "/database", "/nowhere"] {
        client.list(&format!("sys/leases/lookup{below}")).expect(403);
    }
    client.read("sys/leases?type=irrevocable").expect(403);
    let count = client.read("sys/leases/count?type=irrevocable").expect(200);
    assert_eq!(count.body["data"], json!({ "lease_count": 0, "counts": {} }));
    assert_eq!(count.body["warnings"], Value::Null);
    assert!(world.postgres.has_user(&credential.username));
}
