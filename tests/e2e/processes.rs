//! The server as a process: its start, its end, and its data folder between two starts.

use crate::world::World;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::operators::give;
use bulkhead_tests::paths::binary;
use bulkhead_tests::wait::until;
use serde_json::json;
use std::process::Command;
use std::time::Duration;

#[test]
fn second_process_on_same_data_is_refused() {
    let first = Bulkhead::start();
    let second = Command::new(binary())
        .args([
            "server",
            "--dev",
            "--dev-listen-address",
            "127.0.0.1:0",
            "--dev-root-token-id",
            ROOT,
        ])
        .arg("--data-dir")
        .arg(first.data())
        .output()
        .expect("the server can be started");
    assert!(!second.status.success());
    let why = String::from_utf8_lossy(&second.stderr);
    assert!(
        why.contains(&first.data().display().to_string()),
        "the refusal names the folder: {why}"
    );
    first.root().read("sys/health").expect(200);
}

#[test]
fn answered_writes_survive_a_kill() {
    let mut world = World::new();
    for number in 0..20 {
        world.role(&format!("role-{number}"), json!({ "default_ttl": number }));
    }
    let before = world.configured();
    world.bulkhead.kill();
    world.bulkhead.start_again();
    world.root = world.bulkhead.root();
    assert_eq!(world.configured(), before);
    world.credential("reader");
}

#[test]
fn a_stopped_server_exits_with_success() {
    let mut bulkhead = Bulkhead::start();
    bulkhead.root().read("sys/health").expect(200);
    assert!(bulkhead.stop());
}

#[test]
fn wrong_mode_option_is_refused_naming_right_option() {
    for (arguments, right) in [
        (&["--dev", "--listen-address", "127.0.0.1:0"][..], "--dev-listen-address"),
        (&["--dev-listen-address", "127.0.0.1:0"], "--listen-address"),
        (&["--dev-root-token-id", "c4n4ry"], "operator init"),
        (&["--dev", "--config", "x"], "--config"),
    ] {
        let run = Command::new(binary()).arg("server").args(arguments).env_clear().output();
        let run = run.expect("the server can be started");
        let why = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{why}");
        assert!(why.contains(right) && !why.contains("c4n4ry"), "{why}");
    }
}

#[test]
fn a_dev_server_prints_its_unseal_key() {
    let mut bulkhead = Bulkhead::start();
    let root = bulkhead.root();
    root.write(
        "sys/policies/acl/kept",
        &json!({ "policy": r#"path "a" { capabilities = ["read"] }"# }),
    )
    .expect(204);
    let key = unseal_key(&bulkhead, 0);
    let before = bulkhead.printed().len();
    root.send("PUT", "sys/seal", b"").expect(204);
    root.read("sys/policies/acl/kept").expect(503);
    assert_eq!(give(&bulkhead, &key).expect(200).body["sealed"], false);
    root.read("sys/policies/acl/kept").expect(200);
    bulkhead.kill();
    bulkhead.start_again();
    assert_eq!(unseal_key(&bulkhead, before), key, "the next life has the same key");
    bulkhead.root().read("sys/policies/acl/kept").expect(200);
}

/// Returns the key that a dev server printed after the first `seen` bytes of its output, once the
/// line is complete.
fn unseal_key(bulkhead: &Bulkhead, seen: usize) -> String {
    let line =
        |text: &str| Some(text.split_once("\nunseal key: ")?.1.split_once('\n')?.0.to_owned());
    until("the key is printed", Duration::from_secs(10), || line(&bulkhead.printed()[seen..])).0
}

#[test]
fn health_and_seal_status_need_no_token() {
    let bulkhead = Bulkhead::start();
    let nobody = bulkhead.client(None);
    let health = nobody.read("sys/health").expect(200);
    assert_eq!(health.body["sealed"], false);
    assert_eq!(health.body["initialized"], true);
    let seal = nobody.read("sys/seal-status").expect(200);
    assert_eq!(seal.body["sealed"], false);
    nobody.send("HEAD", "sys/health", b"").expect(200);
}
