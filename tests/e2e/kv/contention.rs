//! Writes of one record at once. The presence of the record at the commit decides if a policy with
//! `create` alone, or with `update` alone, allows a write.
//!
//! These tests prevent a caller without the right to update from overwriting a secret that another
//! caller created meanwhile.

use super::WRITERS;
use crate::world::World;
use bulkhead_tests::concurrent_requests::at_once;
use bulkhead_tests::{Answer, Client};
use serde_json::json;
use std::slice;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Longest wait for the first of the updates.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rounds in which a deletion may miss the updates: all of them were earlier, or all later.
const ROUNDS: usize = 50;

/// Mounts `old/` with version 1 of the API. Returns a client that may do one act on `old/app`.
fn mount_for(world: &World, capability: &str) -> Client {
    let rules = json!({ "path": { "old/app": { "capabilities": [capability] } } });
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    let policy = json!({ "policy": rules.to_string() });
    world.root.write("sys/policies/acl/writer", &policy).expect(204);
    let created = world.root.write("auth/token/create", &json!({ "policies": ["writer"] }));
    world.bulkhead.client(created.expect(200).body["auth"]["client_token"].as_str())
}

fn write(client: &Client, number: usize) -> Answer {
    client.write("old/app", &json!({ "n": number }))
}

/// Returns the numbers of the successful writes. Fails if a write was refused for another reason
/// than its policy.
#[track_caller]
fn successes(answers: Vec<Answer>) -> Vec<usize> {
    let (done, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().enumerate().partition(|(_, answer)| answer.status == 204);
    refused.into_iter().for_each(|(_, answer)| drop(answer.refused(403, "permission denied")));
    done.into_iter().map(|(number, _)| number).collect()
}

#[test]
fn creators_without_update_create_one_record_once() {
    let world = World::empty();
    let creator = mount_for(&world, "create");
    for _ in 0..5 {
        let created = successes(at_once(slice::from_ref(&creator), WRITERS, write));
        let [winner] = created[..] else { panic!("several writes created: {created:?}") };
        let stored = world.root.read("old/app").expect(200);
        assert_eq!(stored.body["data"], json!({ "n": winner }));
        world.root.delete("old/app").expect(204);
    }
}

/// Deletes the record while updates run. Returns whether some of the updates came too late.
fn deletion_meets_updates(world: &World, updater: &Client) -> bool {
    world.root.write("old/app", &json!({ "n": 0 })).expect(204);
    let (updated, first_update) = mpsc::channel();
    let update = |client: &Client, number| {
        let answer = write(client, number);
        if answer.status == 204 {
            updated.send(()).expect("the test receives");
        }
        answer
    };
    let answers = thread::scope(|scope| {
        let updates = scope.spawn(|| at_once(slice::from_ref(updater), WRITERS, update));
        first_update.recv_timeout(PATIENCE).expect("an update of a present record");
        world.root.delete("old/app").expect(204);
        updates.join().expect("the updates")
    });
    world.root.read("old/app").expect(404);
    successes(answers).len() < WRITERS
}

#[test]
fn updates_never_restore_a_deleted_record() {
    let world = World::empty();
    let updater = mount_for(&world, "update");
    let met = (0..ROUNDS).filter(|_| deletion_meets_updates(&world, &updater)).take(3).count();
    assert_eq!(met, 3, "deletions that met updates");
}
