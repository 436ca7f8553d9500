//! Stops that stop: a mount whose component does not come to an end can be disabled and moved, and
//! does not hold up a seal or the end of the process.

use bulkhead_tests::operators::{open, seal_status};
use bulkhead_tests::paths::{guest, with_text};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

const HOSTILE: &str = "sys/plugins/catalog/secret/hostile";
/// Longest time that a stop may take on a busy machine; a call may run for 90 s.
const SOON: Duration = Duration::from_secs(25);
/// Processor time that only an endless migration takes: a request needs a small part of that time.
const COMPUTED: Duration = Duration::from_millis(300);

/// The hostile guest with this version and schema.
fn hostile(version: &str, schema: u32) -> Vec<u8> {
    let other = format!("\"version\":\"{version}\",\"schema\":{schema}");
    with_text(guest("hostile"), "\"version\":\"1.0.0\",\"schema\":2", &other)
}

/// A version whose migration from schema 6 has no last step.
fn endless_in_steps() -> Vec<u8> {
    with_text(hostile("2.0.0", 7), "a-step-fails-at=none.", "a-step-fails-at=never")
}

/// Mounts version 1.0.0 of the hostile guest, with data of `schema`, at `third/`, and uploads the
/// version 2.0.0.
fn stage(root: &Client, schema: u32, next: &[u8]) {
    root.upload(HOSTILE, &hostile("1.0.0", schema)).expect(204);
    let fields = json!({ "type": "hostile", "config": { "plugin_version": "1.0.0" } });
    root.write("sys/mounts/third", &fields).expect(204);
    root.read("third/fill").expect(200);
    root.upload(HOSTILE, next).expect(204);
}

fn swap(root: &Client) -> Answer {
    let body = json!({ "plugin_version": "2.0.0" }).to_string();
    root.attempt("POST", "sys/mounts/third/tune", body.as_bytes()).expect("an answer")
}

/// Waits until a request to a path that contains `part` is being served.
fn await_request(root: &Client, part: &str) {
    until_true("the request is being served", SOON, || {
        root.read("sys/in-flight-req").expect(200).body.to_string().contains(part)
    });
}

/// Waits until the migration of the swap that is being served computes.
fn await_migration(server: &Bulkhead, root: &Client) {
    await_request(root, "third/tune");
    let before = server.processor_time();
    let used = || server.processor_time() - before;
    until_true("the migration computes", SOON, || used() >= COMPUTED);
}

/// Runs `stop` and checks that the stop was quick.
#[track_caller]
fn quickly<T>(stop: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let stopped = stop();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    stopped
}

/// Checks that a request was stopped.
#[track_caller]
fn assert_stopped(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.errors().contains("stop"), "{answer:?}");
}

/// Checks that the component of a swap was stopped while the component migrated, and not a swap
/// that had not begun its migration.
#[track_caller]
fn assert_cut(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    for part in ["plugin hostile 2.0.0", "was stopped before the answer"] {
        assert!(answer.errors().contains(part), "{answer:?}");
    }
}

#[test]
fn removal_cuts_a_migration_that_computes_forever() {
    let server = Bulkhead::start();
    let root = server.root();
    stage(&root, 0, &hostile("2.0.0", 2));
    thread::scope(|scope| {
        let tuned = scope.spawn(|| swap(&root));
        await_migration(&server, &root);
        quickly(|| root.delete("sys/mounts/third").expect(204));
        assert_cut(&tuned.join().expect("an answer"));
    });
    root.read("sys/mounts/third").expect(400);
}

#[test]
fn removal_ends_a_migration_between_its_steps() {
    let server = Bulkhead::start();
    let root = server.root();
    stage(&root, 6, &endless_in_steps());
    thread::scope(|scope| {
        let tuned = scope.spawn(|| swap(&root));
        server.wait_for_print("event=migration-in-steps");
        quickly(|| root.delete("sys/mounts/third").expect(204));
        assert_stopped(&tuned.join().expect("an answer"));
    });
    let fields = json!({ "type": "hostile", "config": { "plugin_version": "1.0.0" } });
    root.write("sys/mounts/third", &fields).expect(204);
    let rows = root.read("third/rows").expect(200);
    assert_eq!(rows.body["data"], json!({ "old": 0, "new": 0 }));
}

#[test]
fn a_repaired_version_replaces_an_endless_migration() {
    let server = Bulkhead::start();
    let root = server.root();
    stage(&root, 6, &endless_in_steps());
    root.upload(HOSTILE, &hostile("2.0.1", 7)).expect(204);
    let tune =
        |version: &str| root.write("sys/mounts/third/tune", &json!({ "plugin_version": version }));
    thread::scope(|scope| {
        let tuned = scope.spawn(|| swap(&root));
        server.wait_for_print("event=migration-in-steps");
        let refused = tune("1.0.0").expect(400);
        assert!(refused.errors().contains("between schema 6 and schema 7"), "{refused:?}");
        quickly(|| tune("2.0.1").expect(204));
        assert_stopped(&tuned.join().expect("an answer"));
    });
    let mount = root.read("sys/mounts/third").expect(200);
    assert_eq!(mount.text("running_plugin_version"), "2.0.1");
    root.read("third/rows").expect(200);
}

#[test]
fn mount_move_cuts_migration_and_keeps_previous_version() {
    let server = Bulkhead::start();
    let root = server.root();
    stage(&root, 0, &hostile("2.0.0", 2));
    thread::scope(|scope| {
        let tuned = scope.spawn(|| swap(&root));
        await_migration(&server, &root);
        let begun = root.write("sys/remount", &json!({ "from": "third", "to": "fourth" }));
        let id = begun.expect(200).text("migration_id").to_owned();
        until_true("the mount has moved", SOON, || {
            let shown = root.read(&format!("sys/remount/status/{id}")).expect(200);
            shown.body["data"]["migration_info"]["status"] == "success"
        });
        assert_cut(&tuned.join().expect("an answer"));
    });
    let rows = root.read("fourth/rows").expect(200);
    assert_eq!(rows.body["data"], json!({ "old": 1_000, "new": 0 }));
}

#[test]
fn seal_ends_a_migration_and_unsealing_resumes_it() {
    let (server, operators) = open();
    let root = operators.root(&server);
    stage(&root, 6, &endless_in_steps());
    thread::scope(|scope| {
        let tuned = scope.spawn(|| swap(&root));
        server.wait_for_print("event=migration-in-steps");
        quickly(|| root.send("PUT", "sys/seal", b"").expect(204));
        assert_eq!(tuned.join().expect("an answer").status, 503);
    });
    assert_eq!(seal_status(&server)["sealed"], json!(true));
    assert!(!server.printed().contains("event=sealed-during-requests"), "{}", server.printed());
    operators.unseal(&server);
    let reason = |root: &Client| {
        let mount = root.read("sys/mounts/third").expect(200);
        mount.text("unavailable_reason").to_owned()
    };
    until_true("the migration goes on", SOON, || reason(&root).contains("being migrated"));
    quickly(|| root.delete("sys/mounts/third").expect(204));
}

#[test]
fn sigterm_ends_a_migration_and_answers_its_caller() {
    let mut server = Bulkhead::start();
    let root = server.root();
    stage(&root, 0, &hostile("2.0.0", 2));
    let tuned = thread::spawn({
        let root = server.root();
        move || swap(&root)
    });
    await_migration(&server, &root);
    assert!(quickly(|| server.stop()), "{}", server.printed());
    assert_cut(&tuned.join().expect("an answer"));
    assert!(server.printed().contains("all-requests-answered=true"), "{}", server.printed());
}

#[test]
fn removal_cuts_requests_and_timers_that_compute_forever() {
    let server = Bulkhead::start();
    let root = server.root();
    // The act would otherwise end at its deadline before the removal stops it.
    let patient = with_text(hostile("1.0.0", 2), r#","deadline":1"#, r#","deadline":9"#);
    root.upload(HOSTILE, &patient).expect(204);
    root.write("sys/mounts/third", &json!({ "type": "hostile" })).expect(204);
    root.attempt("GET", "third/endless-wake", b"").expect("an answer");
    thread::scope(|scope| {
        let looped = scope.spawn(|| root.attempt("GET", "third/endless-loop", b""));
        await_request(&root, "third/endless-loop");
        quickly(|| root.delete("sys/mounts/third").expect(204));
        assert_stopped(&looped.join().expect("no panic").expect("an answer"));
    });
    let gone = root.attempt("GET", "third/rows", b"").expect("an answer");
    assert_eq!((gone.status, gone.body["data"].clone()), (404, Value::Null));
}
