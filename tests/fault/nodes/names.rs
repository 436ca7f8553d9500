//! Names that several nodes give at the same moment: one mount of a path, one entity of a name.

use super::journal::Outcome;
use super::{ChaosClient, WorkPlace};
use bulkhead_tests::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A client that sends the same creation to several nodes.
#[derive(Default)]
pub struct NameClient {
    number: u32,
    /// Names of entities whose creation was acknowledged, with their ids.
    entities: Vec<(String, String)>,
}

impl NameClient {
    /// Enables an engine at one path on all nodes, and removes the mount.
    fn mount(&mut self, place: &mut WorkPlace<'_>) {
        let path = format!("sys/mounts/race-{}", self.number);
        let request = ("POST", path.as_str(), &json!({ "type": "kv" }));
        let outcomes = place.send_at_once("mounts", &place.group.roots(), request);
        let count = outcomes.iter().filter(|outcome| outcome.done().is_some()).count();
        place.journal.require(count < 2, || format!("{path} enabled {count} times: {outcomes:?}"));
        if count == 1 {
            let found = self.seen_ids(&path, "accessor", place);
            let is_one = found.len() < 2 && !found.contains("none");
            place.journal.require(is_one, || format!("mounts of {path}: {found:?}"));
            let outcome = place.send("mounts", ("DELETE", &path, Value::Null));
            if outcome.done().is_some() {
                let found = self.seen_ids(&path, "accessor", place);
                let is_gone = found.iter().all(|id| id == "none");
                place.journal.require(is_gone, || format!("I1: {path} is removed: {found:?}"));
            }
        }
    }

    /// Creates an entity of one name on all nodes.
    fn name_entity(&mut self, place: &mut WorkPlace<'_>) {
        let name = format!("entity-{}", self.number);
        let request = ("POST", "identity/entity", &json!({ "name": name }));
        let outcomes = place.send_at_once("entities", &place.group.roots(), request);
        let id = |outcome: &Outcome| outcome.done().map(|answer| answer.text("id").to_owned());
        let ids = outcomes.iter().filter_map(id).filter(|id| !id.is_empty());
        let ids: BTreeSet<String> = ids.collect();
        place.journal.require(ids.len() < 2, || format!("ids of {name}: {outcomes:?}"));
        if let Some(id) = ids.first() {
            self.require_entity(&name, id, place);
            self.entities.push((name, id.clone()));
        }
    }

    fn require_entity(&self, name: &str, id: &str, place: &WorkPlace<'_>) {
        let path = format!("identity/entity/name/{name}");
        let found = self.seen_ids(&path, "id", place);
        let is_right = found.iter().all(|found| found == id);
        place.journal.require(is_right, || format!("I1: {name} is {id}, read {found:?}"));
    }

    /// Returns the ids that the nodes answer at `path`; `none` for 404, and for 400 of a mount.
    fn seen_ids(&self, path: &str, member: &str, place: &WorkPlace<'_>) -> BTreeSet<String> {
        let read = |root: &Client| {
            let outcome = place.journal.send("names", root, ("GET", path, Value::Null));
            match (outcome.done(), outcome.status()) {
                (Some(answer), _) => Some(answer.text(member).to_owned()),
                (None, Some(400 | 404)) => Some("none".to_owned()),
                _ => None,
            }
        };
        place.group.roots().iter().filter_map(read).collect()
    }
}

impl ChaosClient for NameClient {
    fn step(&mut self, place: &mut WorkPlace<'_>) {
        self.number += 1;
        if place.is_once_in(3) {
            self.mount(place);
        } else {
            self.name_entity(place);
        }
    }

    fn finish(&mut self, place: &mut WorkPlace<'_>) {
        for (name, id) in &self.entities {
            self.require_entity(name, id, place);
        }
    }
}
