//! The server as a process: its start, its end, and its data folder between two lives.

use crate::world::World;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::binary;
use serde_json::json;
use std::process::Command;

#[test]
fn a_second_process_on_the_same_data_is_refused() {
    let first = Bulkhead::start();
    let second = Command::new(binary())
        .args(["server", "--dev", "--dev-listen-address", "127.0.0.1:0", "--dev-root-token-id", ROOT])
        .arg("--data-dir")
        .arg(first.data())
        .output()
        .expect("the server can be started");
    assert!(!second.status.success());
    let why = String::from_utf8_lossy(&second.stderr);
    assert!(why.contains(&first.data().display().to_string()), "the refusal names the folder: {why}");
    first.root().read("sys/health").expect(200);
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
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
fn a_server_that_is_asked_to_stop_says_that_all_is_well() {
    let mut bulkhead = Bulkhead::start();
    bulkhead.root().read("sys/health").expect(200);
    assert!(bulkhead.stop());
}

#[test]
fn a_server_without_dev_says_what_there_is() {
    let run = Command::new(binary()).arg("server").env_clear().output().expect("the server can be started");
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("--dev"));
}

#[test]
fn health_and_seal_status_need_no_token_and_tell_no_secret() {
    let bulkhead = Bulkhead::start();
    let nobody = bulkhead.client(None);
    let health = nobody.read("sys/health").expect(200);
    assert_eq!(health.body["sealed"], false);
    assert_eq!(health.body["initialized"], true);
    let seal = nobody.read("sys/seal-status").expect(200);
    assert_eq!(seal.body["sealed"], false);
    nobody.send("HEAD", "sys/health", b"").expect(200);
}
