//! A static role with a short period: each slot has one rotation at most, each rotation has one
//! password, and the stored password logs in.

use super::journal::Outcome;
use super::{ChaosClient, SOON, WorkPlace, create};
use bulkhead_tests::wait::until_ok;
use bulkhead_tests::{Client, Postgres};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const ACCOUNT: &str = "app";
const PATH: &str = "database/static-creds/app";

/// Time between two rotations, in seconds.
const PERIOD: i64 = 5;

/// Creates the account at the target, and its static role.
pub fn create_role(root: &Client, target: &Postgres) {
    target.query(&format!("CREATE ROLE {ACCOUNT} LOGIN PASSWORD 'Hf6-Tq9-Xs2-Gb7'"));
    let role = json!({ "db_name": "orders", "username": ACCOUNT, "rotation_period": PERIOD });
    create(root, "database/static-roles/app", &role);
}

/// A client that reads the password.
#[derive(Default)]
pub struct RotationClient {
    /// Password of each rotation, by its time in nanoseconds.
    seen: BTreeMap<i128, String>,
}

impl RotationClient {
    /// Reads the password on a node. Returns the time of its rotation in nanoseconds, and the
    /// password.
    fn read(&mut self, root: &Client, place: &WorkPlace<'_>) -> Option<(i128, String)> {
        let answer = match place.journal.send("rotations", root, ("GET", PATH, Value::Null)) {
            Outcome::Done(answer) => answer,
            Outcome::Refused(answer) if answer.status != 503 => {
                place.journal.broken(format!("I3: {answer:?}"));
                return None;
            }
            Outcome::Refused(_) | Outcome::Unclear(_) => return None,
        };
        let text = answer.text("last_vault_rotation");
        let time = OffsetDateTime::parse(text, &Rfc3339).expect("a time");
        let (time, password) = (time.unix_timestamp_nanos(), answer.text("password").to_owned());
        let former = self.seen.insert(time, password.clone());
        let is_same = former.is_none_or(|former| former == password);
        place.journal.require(is_same, || format!("I4: the rotation of {text} has two passwords"));
        Some((time, password))
    }
}

/// Returns the pairs of rotations that are closer than the period, in nanoseconds.
fn crowded(seen: &BTreeMap<i128, String>) -> Vec<(i128, i128)> {
    let period = i128::from(PERIOD) * 1_000_000_000;
    let next = seen.keys().zip(seen.keys().skip(1));
    next.filter(|(one, other)| *other - *one < period).map(|(one, other)| (*one, *other)).collect()
}

impl ChaosClient for RotationClient {
    fn step(&mut self, place: &mut WorkPlace<'_>) {
        let root = place.root();
        self.read(&root, place);
    }

    fn finish(&mut self, place: &mut WorkPlace<'_>) {
        let last = self.seen.last_key_value().map_or(0, |(time, _)| *time);
        for root in place.roots() {
            until_ok("the stored password of a later rotation logs in", SOON, || {
                let (time, password) = self.read(&root, place).ok_or("no answer")?;
                if time <= last {
                    return Err("no rotation after the faults".to_owned());
                }
                place.group.target.login(ACCOUNT, &password, "SELECT 1")
            });
        }
        let crowded = crowded(&self.seen);
        place.journal.require(crowded.is_empty(), || {
            format!("I4: rotations within {PERIOD} s of each other: {crowded:?}")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rotations_of_a_slot_are_found() {
        let seen = |seconds: &[i128]| {
            seconds.iter().map(|second| (second * 1_000_000_000, String::new())).collect()
        };
        assert_eq!(crowded(&seen(&[0, 5, 11])), Vec::new());
        assert_eq!(crowded(&seen(&[0, 5, 9])), [(5_000_000_000, 9_000_000_000)]);
    }
}
