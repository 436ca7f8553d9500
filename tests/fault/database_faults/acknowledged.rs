//! Writes of several kinds, one after another, with a model of all states that their answers
//! allow: key values, tokens and their revocations, leases of the component `probe`.

use crate::model::{Model, RevocationState};
use crate::recovery::{has_lease, store_holds};
use bulkhead_tests::{Answer, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Number of keys that the key values alternate between.
const KEYS: u32 = 5;

/// The beginning of an answer's promise that a failed write changed nothing.
const UNCHANGED: &str = "nothing was stored";

/// A sequence of writes, and the states that their answers allow.
#[derive(Clone, Default)]
pub struct AcknowledgedWork {
    /// Beginning of all names, which tells concurrent work apart.
    name: String,
    model: Model,
    leases: BTreeMap<String, RevocationState>,
    number: u32,
    /// Number of answers with an error.
    pub refused: u32,
}

/// A write, and the object that it ends or changes.
enum WorkStep {
    Put(String, Value),
    Remove(String),
    CreateToken,
    RevokeToken(String),
    Lend(String),
    EndLease(String),
}

impl WorkStep {
    fn request(&self) -> (&'static str, String, Value) {
        let text = |text: &str| text.to_owned();
        match self {
            Self::Put(path, value) => ("POST", path.clone(), value.clone()),
            Self::Remove(path) => ("DELETE", path.clone(), Value::Null),
            Self::CreateToken => ("POST", text("auth/token/create"), json!({ "ttl": "1h" })),
            Self::RevokeToken(token) => {
                ("POST", text("auth/token/revoke"), json!({ "token": token }))
            }
            Self::Lend(name) => {
                ("POST", format!("probe/lease/{name}"), json!({ "how": "ok", "ttl": 3600 }))
            }
            Self::EndLease(lease) => {
                ("POST", text("sys/leases/revoke"), json!({ "lease_id": lease }))
            }
        }
    }
}

impl AcknowledgedWork {
    /// Number of steps after which each kind of write was sent at least once.
    pub const KINDS: u32 = 6;

    /// Work whose names begin with `name`.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Sends the next write.
    ///
    /// # Errors
    /// The reason, if no complete answer arrives.
    ///
    /// # Panics
    /// If the answer is neither a success nor 503.
    pub fn step(&mut self, root: &Client) -> Result<Answer, String> {
        let step = self.next_step();
        let before = (self.model.clone(), self.leases.clone());
        self.may_have_done(&step);
        let (method, path, body) = step.request();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = root.attempt(method, &path, body.as_bytes()).inspect_err(|_| {
            self.refused += 1;
        })?;
        match answer.status {
            200..300 => self.has_done(step, &answer),
            503 if answer.errors().contains(UNCHANGED) => {
                self.refused += 1;
                (self.model, self.leases) = before;
            }
            503 => self.refused += 1,
            status => panic!("{method} {path} answered {status}: {answer:?}"),
        }
        Ok(answer)
    }

    /// Asserts that the server has a state that the answers allow, and no half of a unit.
    #[track_caller]
    pub fn check(&self, root: &Client) {
        store_holds(root, &self.model);
        for (lease, ended) in &self.leases {
            let is_there = has_lease(root, lease);
            match ended {
                RevocationState::No => assert!(is_there, "I1: {lease} is not there"),
                RevocationState::Yes => assert!(!is_there, "I1: {lease} is still there"),
                RevocationState::Perhaps => {}
            }
        }
        self.check_accessors(root);
    }

    /// Asserts that each accessor has its token: a creation writes both in one unit, and a
    /// revocation removes both.
    #[track_caller]
    fn check_accessors(&self, root: &Client) {
        let listed = root.list("auth/token/accessors").expect(200).body;
        let accessors = listed["data"]["keys"].as_array().cloned().unwrap_or_default();
        for accessor in accessors {
            root.write("auth/token/lookup-accessor", &json!({ "accessor": accessor })).expect(200);
        }
    }

    fn next_step(&mut self) -> WorkStep {
        self.number += 1;
        let (number, name) = (self.number, &self.name);
        let path = format!("kv/{name}{}", number % KEYS);
        match number % Self::KINDS {
            1 => WorkStep::Put(path, json!({ "value": number })),
            2 => WorkStep::CreateToken,
            3 => WorkStep::Lend(format!("{name}{number}")),
            4 => self.token().map_or(WorkStep::CreateToken, WorkStep::RevokeToken),
            5 => {
                let lease = first_in(&self.leases);
                lease.map_or(WorkStep::Lend(format!("{name}{number}")), WorkStep::EndLease)
            }
            _ if number.is_multiple_of(4) => WorkStep::Remove(path),
            _ => WorkStep::Put(path, json!({ "value": format!("text {number}") })),
        }
    }

    /// Returns a token that was not revoked.
    fn token(&self) -> Option<String> {
        let mut tokens = self.model.tokens();
        tokens.find(|(_, ended)| *ended == RevocationState::No).map(|(token, _)| token.clone())
    }

    fn may_have_done(&mut self, step: &WorkStep) {
        match step {
            WorkStep::Put(path, value) => self.model.may_write(path, Some(value.clone())),
            WorkStep::Remove(path) => self.model.may_write(path, None),
            WorkStep::RevokeToken(token) => self.model.token(token, RevocationState::Perhaps),
            WorkStep::EndLease(lease) => {
                self.leases.insert(lease.clone(), RevocationState::Perhaps);
            }
            WorkStep::CreateToken | WorkStep::Lend(_) => {}
        }
    }

    fn has_done(&mut self, step: WorkStep, answer: &Answer) {
        match step {
            WorkStep::Put(path, value) => self.model.wrote(&path, Some(value)),
            WorkStep::Remove(path) => self.model.wrote(&path, None),
            WorkStep::CreateToken => {
                let token = answer.body["auth"]["client_token"].as_str().unwrap_or_default();
                self.model.token(token, RevocationState::No);
            }
            WorkStep::RevokeToken(token) => self.model.token(&token, RevocationState::Yes),
            WorkStep::Lend(_) => {
                self.leases.insert(answer.lease().to_owned(), RevocationState::No);
            }
            WorkStep::EndLease(lease) => {
                self.leases.insert(lease, RevocationState::Yes);
            }
        }
    }
}

/// Returns a lease that was not revoked.
fn first_in(leases: &BTreeMap<String, RevocationState>) -> Option<String> {
    let mut leases = leases.iter();
    leases.find(|(_, ended)| **ended == RevocationState::No).map(|(lease, _)| lease.clone())
}
