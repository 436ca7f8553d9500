//! Sealing a server at work: its data, leases and requests in flight, and a key rotation under
//! load.

use crate::initialise::assert_closed;
use crate::world::World;
use bulkhead_tests::operators::{self, Operators, seal_status};
use bulkhead_tests::wait::{until, until_true};
use bulkhead_tests::{Answer, Client, Postgres};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Longest time that an expired lease may remain on a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// A production server, unsealed, with the database engine, the connection `demo` and the role
/// `reader`.
fn world() -> (World, Operators) {
    let (bulkhead, operators) = operators::open();
    let root = operators.root(&bulkhead);
    root.write("sys/mounts/database", &json!({ "type": "database" })).expect(204);
    let world = World { bulkhead, postgres: Postgres::start(), root };
    world.connect("demo");
    world.role("reader", json!({ "default_ttl": "1h", "max_ttl": "4h" }));
    (world, operators)
}

/// Kills and restarts the server. Its address is new, and it is sealed.
fn restart(world: &mut World, operators: &Operators) {
    world.bulkhead.kill();
    world.bulkhead.start_again();
    world.root = operators.root(&world.bulkhead);
}

#[test]
fn a_killed_server_restarts_sealed_and_loses_nothing() {
    let (mut world, operators) = world();
    let credential = world.credential("reader");
    let before = world.configured();
    restart(&mut world, &operators);
    assert_eq!(seal_status(&world.bulkhead)["initialized"], true);
    world.bulkhead.client(None).read("sys/health").expect(503);
    assert_closed(&world.root);
    operators.unseal(&world.bulkhead);
    assert_eq!(world.configured(), before);
    world.root.write("sys/leases/renew", &json!({ "lease_id": credential.lease })).expect(200);
    world.credential("reader");
    world.revoke(&credential.lease);
    assert!(!world.postgres.has_user(&credential.username));
}

#[test]
fn sealing_and_key_rotation_need_a_policy() {
    let (world, operators) = world();
    let update = r#"path "sys/*" { capabilities = ["create", "read", "update"] }"#;
    for client in [world.bulkhead.client(None), world.weak(), world.client_with("no-sudo", update)]
    {
        for path in ["sys/seal", "sys/rotate", "sys/rotate/keyring"] {
            let refused = client.send("PUT", path, b"").expect(403);
            assert!(refused.errors().contains("permission denied"), "{refused:?}");
        }
    }
    assert_eq!(seal_status(&world.bulkhead)["sealed"], false);
    let sudo = r#"path "sys/seal" { capabilities = ["update", "sudo"] }"#;
    world.client_with("sealer", sudo).send("PUT", "sys/seal", b"").expect(204);
    assert_eq!(seal_status(&world.bulkhead)["sealed"], true);
    operators.unseal(&world.bulkhead);
}

/// Writes a note: a policy, because a policy is a single record whose rules contain its name.
fn note(client: &Client, name: &str) -> Answer {
    let rules = format!("path \"note/{name}\" {{ capabilities = [\"read\"] }}");
    client.write(&format!("sys/policies/acl/{name}"), &json!({ "policy": rules }))
}

/// Asserts that the note exists with its content.
#[track_caller]
fn assert_noted(client: &Client, name: &str) {
    let read = client.read(&format!("sys/policies/acl/{name}")).expect(200);
    assert!(read.text("policy").contains(&format!("\"note/{name}\"")), "{read:?}");
}

/// Eight clients write notes and read each back until `during` returns. Returns the acknowledged
/// notes. Each answer must be a success or in `allowed`.
fn under_load(root: &Client, allowed: &[u16], during: impl FnOnce(&AtomicU32)) -> Vec<String> {
    let (over, written) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let work = |client: usize| {
            let (over, written) = (&over, &written);
            move || {
                let mut acknowledged = Vec::new();
                for number in 0.. {
                    let name = format!("note-{client}-{number}");
                    let answer = note(root, &name);
                    assert!(answer.status == 204 || allowed.contains(&answer.status), "{answer:?}");
                    if answer.status == 204 {
                        acknowledged.push(name.clone());
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                    let read = root.read(&format!("sys/policies/acl/{name}"));
                    assert!(read.status == 200 || allowed.contains(&read.status), "{read:?}");
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                acknowledged
            }
        };
        let clients: Vec<_> = (0..8).map(|client| scope.spawn(work(client))).collect();
        during(&written);
        over.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("a client does not panic"))
            .collect()
    })
}

fn after(written: &AtomicU32, more: u32) {
    let goal = written.load(Ordering::Relaxed) + more;
    until_true("the clients write", Duration::from_secs(30), || {
        written.load(Ordering::Relaxed) >= goal
    });
}

#[test]
fn sealing_closes_at_once_and_keeps_answered_writes() {
    let (world, operators) = world();
    for _ in 0..3 {
        let acknowledged = under_load(&world.root, &[503, 404], |written| {
            after(written, 100);
            world.root.send("PUT", "sys/seal", b"").expect(204);
            assert_eq!(seal_status(&world.bulkhead)["sealed"], true);
            let so_far = written.load(Ordering::Relaxed);
            assert_closed(&world.root);
            assert_closed(&world.bulkhead.client(None));
            let since = written.load(Ordering::Relaxed) - so_far;
            assert!(since <= 8, "{since} notes were acknowledged after the seal was closed");
        });
        operators.unseal(&world.bulkhead);
        for name in &acknowledged {
            assert_noted(&world.root, name);
        }
    }
    world.credential("reader");
}

#[test]
fn credential_requested_during_seal_is_issued_or_revoked() {
    let (world, operators) = world();
    let given = std::thread::scope(|scope| {
        let askers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| world.root.read("database/creds/reader"))).collect();
        until_true("a user is being made", SOON, || !world.postgres.users().is_empty());
        world.root.send("PUT", "sys/seal", b"").expect(204);
        askers
            .into_iter()
            .map(|asker| asker.join().expect("an asker does not panic"))
            .collect::<Vec<_>>()
    });
    assert!(given.iter().all(|answer| [200, 502, 503].contains(&answer.status)), "{given:?}");
    operators.unseal(&world.bulkhead);
    let mut promised: Vec<String> = given
        .iter()
        .filter(|answer| answer.status == 200)
        .map(|answer| answer.text("username").to_owned())
        .collect();
    promised.sort();
    until_true("users that nobody was given are gone", SOON, || world.postgres.users() == promised);
    for answer in given.iter().filter(|answer| answer.status == 200) {
        let session =
            world.postgres.login(answer.text("username"), answer.text("password"), "SELECT 1");
        assert_eq!(session.as_deref(), Ok("1"));
        world.revoke(answer.lease());
    }
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn lease_expired_while_sealed_ends_after_unsealing() {
    let (mut world, operators) = world();
    world.role("brief", json!({ "default_ttl": "2s", "max_ttl": "2s" }));
    for restarts in [false, true] {
        let lasting = world.credential("reader");
        let brief = world.credential("brief");
        world.root.send("PUT", "sys/seal", b"").expect(204);
        if restarts {
            restart(&mut world, &operators);
        }
        let over = format!(
            "SELECT now() > rolvaliduntil FROM pg_roles WHERE rolname = '{}'",
            brief.username
        );
        until_true("the lease's time is over", SOON, || world.postgres.query(&over) == "t");
        assert!(world.postgres.has_user(&brief.username), "a sealed server ends nothing");
        operators.unseal(&world.bulkhead);
        until_true("the user is gone", SOON, || !world.postgres.has_user(&brief.username));
        assert!(world.postgres.has_user(&lasting.username));
        world.revoke(&lasting.lease);
    }
}

fn term(root: &Client) -> u64 {
    root.read("sys/key-status").expect(200).body["data"]["term"].as_u64().expect("a number")
}

#[test]
fn a_key_rotation_under_load_loses_nothing() {
    let (mut world, operators) = world();
    let first = term(&world.root);
    note(&world.root, "first").expect(204);
    let acknowledged = under_load(&world.root, &[], |written| {
        for path in ["sys/rotate", "sys/rotate/keyring", "sys/rotate"] {
            after(written, 50);
            world.root.send("PUT", path, b"").expect(204);
        }
        after(written, 50);
    });
    assert_eq!(term(&world.root), first + 3);
    restart(&mut world, &operators);
    operators.unseal(&world.bulkhead);
    assert_eq!(term(&world.root), first + 3);
    for name in acknowledged.iter().map(String::as_str).chain(["first"]) {
        assert_noted(&world.root, name);
    }
    world.credential("reader");
}

#[test]
fn kill_during_key_change_leaves_every_record_readable() {
    let (mut world, operators) = world();
    for round in 0..5 {
        let name = format!("round-{round}");
        note(&world.root, &name).expect(204);
        let client = world.root.clone();
        let rotation = std::thread::spawn(move || {
            client.attempt("PUT", "sys/rotate", b"").map(|answer| answer.status)
        });
        std::thread::sleep(Duration::from_millis(round));
        restart(&mut world, &operators);
        let rotated = rotation.join().expect("the asker does not panic");
        assert!(!matches!(rotated, Ok(status) if status != 204), "{rotated:?}");
        operators.unseal(&world.bulkhead);
        (0..=round).for_each(|round| assert_noted(&world.root, &format!("round-{round}")));
        world.root.read("database/config/demo").expect(200);
    }
}

#[test]
fn a_server_is_sealed_and_unsealed_repeatedly() {
    let (world, operators) = world();
    for round in 0..5 {
        note(&world.root, &format!("round-{round}")).expect(204);
        world.root.send("PUT", "sys/seal", b"").expect(204);
        assert_closed(&world.root);
        operators.unseal(&world.bulkhead);
    }
    (0..5).for_each(|round| assert_noted(&world.root, &format!("round-{round}")));
    let credential = world.credential("reader");
    world.revoke(&credential.lease);
}

#[test]
fn server_is_own_leader_and_ignores_step_down() {
    let (world, _) = world();
    let leader = world.bulkhead.client(None).read("sys/leader").expect(200).body;
    assert_eq!(leader["is_self"], Value::Bool(true), "{leader}");
    world.root.send("PUT", "sys/step-down", b"").expect(204);
    let (answer, _) = until("it still serves", SOON, || Some(world.root.read("sys/mounts")));
    answer.expect(200);
}
