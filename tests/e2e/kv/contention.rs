//! Writes of one record at once: a policy that allows to create or to update alone decides by the
//! presence of the record at the commit.
//!
//! These tests prevent a caller without the right to update from overwriting a secret that another
//! caller created meanwhile.

use super::WRITERS;
use crate::world::World;
use bulkhead_tests::{Answer, Client};
use serde_json::json;
use std::thread;

/// Returns a client that may do these acts on `old/app`, a record of version 1 of the API.
fn client_with(world: &World, capabilities: &[&str]) -> Client {
    let rules = json!({ "path": { "old/app": { "capabilities": capabilities } } });
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    let policy = json!({ "policy": rules.to_string() });
    world.root.write("sys/policies/acl/writer", &policy).expect(204);
    let created = world.root.write("auth/token/create", &json!({ "policies": ["writer"] }));
    world.bulkhead.client(created.expect(200).body["auth"]["client_token"].as_str())
}

/// Writes the record once for each writer, at once.
fn write_at_once(client: &Client) -> Vec<Answer> {
    thread::scope(|scope| {
        let write = |n: usize| move || client.write("old/app", &json!({ "n": n }));
        let writers: Vec<_> = (0..WRITERS).map(|n| scope.spawn(write(n))).collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
    })
}

#[test]
fn creators_without_update_create_one_record_once() {
    let world = World::empty();
    let creator = client_with(&world, &["create"]);
    for _ in 0..5 {
        let answers = write_at_once(&creator);
        let (created, refused): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.status == 204);
        assert_eq!((created.len(), refused.len()), (1, WRITERS - 1));
        refused.into_iter().for_each(|answer| drop(answer.refused(403, "permission denied")));
        world.root.delete("old/app").expect(204);
    }
}

#[test]
fn updates_never_restore_a_deleted_record() {
    let world = World::empty();
    let updater = client_with(&world, &["update"]);
    for _ in 0..5 {
        world.root.write("old/app", &json!({ "n": 0 })).expect(204);
        let answers = thread::scope(|scope| {
            let writers = scope.spawn(|| write_at_once(&updater));
            world.root.delete("old/app").expect(204);
            writers.join().expect("the writers")
        });
        for answer in answers.into_iter().filter(|answer| answer.status != 204) {
            answer.refused(403, "permission denied");
        }
        world.root.read("old/app").expect(404);
    }
}
