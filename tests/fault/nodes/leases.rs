//! Users of the database engine: each user at the target belongs to a lease, and each lease ends
//! once, by its revocation on any node or by itself.

use super::journal::Outcome;
use super::{ChaosClient, SOON, WorkPlace, create};
use bulkhead_tests::Client;
use bulkhead_tests::wait::until;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Role whose leases outlive the test, and role whose leases end by themselves.
const LASTING: &str = "lasting";
const BRIEF: &str = "brief";

/// Number of lasting leases above which a lease is revoked.
const MOST_LIVING: usize = 40;

/// Creates the roles of the clients.
pub fn create_roles(root: &Client) {
    let creation = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}'";
    for (name, ttl) in [(LASTING, "2h"), (BRIEF, "4s")] {
        let role = json!({
            "db_name": "orders",
            "creation_statements": [creation],
            "default_ttl": ttl,
            "max_ttl": "3h",
        });
        create(root, &format!("database/roles/{name}"), &role);
    }
}

/// A user at the target, and its lease.
struct LeasedUser {
    name: String,
    lease: String,
}

/// A client that creates users and revokes their leases.
#[derive(Default)]
pub struct LeaseClient {
    living: Vec<LeasedUser>,
    revoked: Vec<LeasedUser>,
    /// Users of leases that end by themselves.
    brief: Vec<String>,
}

impl LeaseClient {
    fn create(&mut self, role: &str, place: &mut WorkPlace<'_>) {
        let path = format!("database/creds/{role}");
        match place.send("leases", ("GET", &path, Value::Null)) {
            Outcome::Done(answer) => {
                let name = answer.text("username").to_owned();
                if role == BRIEF {
                    self.brief.push(name);
                } else {
                    self.living.push(LeasedUser { name, lease: answer.lease().to_owned() });
                }
            }
            Outcome::Refused(answer) => {
                let is_expected = [502, 503].contains(&answer.status);
                place.journal.require(is_expected, || format!("a new user: {answer:?}"));
            }
            Outcome::Unclear(_) => {}
        }
    }

    /// Revokes the lease of a random user. After the answer, the user is gone.
    fn revoke(&mut self, place: &mut WorkPlace<'_>) {
        let user = self.living.swap_remove(place.random.below(self.living.len()));
        let body = json!({ "lease_id": user.lease });
        match place.send("leases", ("POST", "sys/leases/revoke", body)) {
            Outcome::Done(_) => {
                let is_there = place.group.target.has_user(&user.name);
                place.journal.require(!is_there, || format!("I2: {} is still there", user.name));
                self.revoked.push(user);
            }
            Outcome::Refused(answer) => {
                let is_expected = [502, 503].contains(&answer.status);
                place.journal.require(is_expected, || format!("a revocation: {answer:?}"));
            }
            Outcome::Unclear(_) => {}
        }
    }
}

/// Returns whether a node has the lease; `None` if the node does not answer.
fn has_lease(lease: &str, place: &mut WorkPlace<'_>) -> Option<bool> {
    let body = json!({ "lease_id": lease });
    match place.send("leases", ("POST", "sys/leases/lookup", body)).status() {
        Some(200) => Some(true),
        Some(400) => Some(false),
        _ => None,
    }
}

/// Requires that a node has the lease, or has not, if it answers.
fn require_lease(user: &LeasedUser, is_expected: bool, place: &mut WorkPlace<'_>) {
    let found = has_lease(&user.lease, place);
    place.journal.require(found.is_none_or(|found| found == is_expected), || {
        let state = if is_expected { "is lost" } else { "was revoked and is there" };
        format!("I1: the lease of {} {state}", user.name)
    });
}

impl ChaosClient for LeaseClient {
    fn step(&mut self, place: &mut WorkPlace<'_>) {
        match place.random.below(4) {
            0 => self.create(BRIEF, place),
            1 if !self.living.is_empty() => self.revoke(place),
            _ if self.living.len() > MOST_LIVING => self.revoke(place),
            _ => self.create(LASTING, place),
        }
        for (users, is_expected) in [(&self.living, true), (&self.revoked, false)] {
            if !users.is_empty() {
                let user = &users[place.random.below(users.len())];
                require_lease(user, is_expected, place);
            }
        }
    }

    fn finish(&mut self, place: &mut WorkPlace<'_>) {
        let users: BTreeSet<String> = place.group.target.users().into_iter().collect();
        for (leased, is_expected) in [(&self.living, true), (&self.revoked, false)] {
            for user in leased {
                require_lease(user, is_expected, place);
                let is_right = users.contains(&user.name) == is_expected;
                place.journal.require(is_right, || {
                    format!("I2: the lease of {} is {is_expected}, and the user not", user.name)
                });
            }
        }
        let journal = place.journal;
        let is_brief = |user: &String| self.brief.contains(user);
        until("users of leases that are over end", SOON, || {
            (!place.group.target.users().iter().any(is_brief)).then_some(())
        });
        // A reservation of a killed node is due later by itself; a revocation makes it due at once.
        let root = place.root().waiting_for(SOON);
        let all = ("POST", "sys/leases/revoke-prefix/database", json!({}));
        let outcome = journal.send("leases", &root, all);
        journal.require(outcome.done().is_some(), || format!("all leases: {outcome:?}"));
        until("every user without a lease ends", SOON, || {
            place.group.target.users().is_empty().then_some(())
        });
    }
}
