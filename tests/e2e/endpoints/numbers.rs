//! Numbers out of range, in every numeric field of every endpoint: the answer is 400 with the name
//! of the field, and never a server error.

use super::{EndpointCall, LatestValues, inspected};
use crate::world::World;
use serde_json::{Value, json};

/// Fields that accept negative numbers.
const SIGNED: [&str; 1] = ["max_retries"];

const NUMERIC: [&str; 2] = ["int", "duration"];

/// Sends `row` with each numeric field negative and too large. The server may ignore or refuse such
/// a query.
#[track_caller]
pub(super) fn assert_refused(world: &World, row: &EndpointCall, latest: &LatestValues) {
    let Some(endpoint) = inspected::endpoint_of(row) else { return };
    let is_numeric =
        |field: &&Value| field["kind"].as_str().is_some_and(|kind| NUMERIC.contains(&kind));
    let (path, _) = row.path.split_once('?').unwrap_or((row.path, ""));
    for field in endpoint.fields.iter().filter(is_numeric) {
        let name = field["name"].as_str().expect("a field has a name");
        let huge = serde_json::from_str("1e40").expect("a number");
        for number in [json!(-1), json!(u64::MAX), huge] {
            let may_hold = SIGNED.contains(&name) && number == -1;
            if row.method() != "POST" {
                let target = format!("{}?{name}={number}", latest.fill(path));
                let answer = world.root.send(row.method(), &target, b"");
                assert_ne!(answer.status, 500, "{target}: {answer:?}");
            } else if !may_hold && !row.body.is_string() {
                let mut body = if row.body.is_null() { json!({}) } else { row.body.clone() };
                body[name] = number.clone();
                let body = latest.fill(&body.to_string());
                let answer = world.root.send("POST", &latest.fill(path), body.as_bytes());
                let case = format!("{path} with {name} of {number}: {answer:?}");
                assert_eq!(answer.status, 400, "{case}");
                assert!(answer.errors().contains(name), "{case}");
            }
        }
    }
}
