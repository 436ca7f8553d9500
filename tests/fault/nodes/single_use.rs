//! Things that happen a limited number of times over all nodes: a wrapped answer is unwrapped once,
//! and a token is used as often as permitted.

use super::journal::Outcome;
use super::tokens::{POLICY, SEED};
use super::{ChaosClient, WorkPlace};
use bulkhead_tests::Client;
use serde_json::{Value, json};

/// Permitted uses of a token.
const USES: usize = 3;

/// A client that wraps values and creates tokens with few uses.
pub struct SingleUseClient;

/// Returns two clients of each node that runs.
fn doubled(roots: Vec<Client>) -> Vec<Client> {
    roots.iter().chain(&roots).cloned().collect()
}

fn count_done(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.done().is_some()).count()
}

/// Wraps a value, and unwraps it on all nodes at the same moment.
fn unwrap_once(place: &mut WorkPlace<'_>) {
    let root = place.root().wrapping("300");
    let request = ("POST", "sys/wrapping/wrap", json!({ "value": 1 }));
    let outcome = place.journal.send("wrappings", &root, request);
    let Some(answer) = outcome.done() else { return };
    let token = json!({ "token": answer.body["wrap_info"]["token"] });
    let clients = doubled(place.roots());
    let request = ("POST", "sys/wrapping/unwrap", &token);
    let outcomes = place.send_at_once("unwrappings", &clients, request);
    let count = count_done(&outcomes);
    place.journal.require(count < 2, || format!("unwrapped {count} times: {outcomes:?}"));
    // Without an unclear outcome, the value is still there, or a client has it.
    let is_clear = outcomes.iter().all(|outcome| outcome.status().is_some());
    if count == 0 && is_clear {
        let last = place.send("unwrappings", ("POST", "sys/wrapping/unwrap", token));
        let is_lost = last.status().is_some_and(|status| status == 400);
        place.journal.require(!is_lost, || {
            format!("I1: a wrapped value is lost: {outcomes:?}, then {last:?}")
        });
    }
}

/// Creates a token of few uses, and uses it on all nodes at the same moment, and once more.
fn use_rarely(place: &mut WorkPlace<'_>) {
    let body = json!({ "policies": [POLICY], "num_uses": USES, "no_default_policy": true });
    let outcome = place.send("limited tokens", ("POST", "auth/token/create", body));
    let Some(answer) = outcome.done() else { return };
    let token = answer.body["auth"]["client_token"].as_str().unwrap_or_default();
    let holders: Vec<_> =
        doubled(place.roots()).iter().map(|root| root.with_token(token)).collect();
    let mut outcomes = place.send_at_once("uses", &holders, ("GET", SEED, &Value::Null));
    outcomes.extend(
        holders
            .iter()
            .take(USES)
            .map(|holder| place.journal.send("uses", holder, ("GET", SEED, Value::Null))),
    );
    let count = count_done(&outcomes);
    place.journal.require(count <= USES, || format!("{count} uses of {USES}: {outcomes:?}"));
}

impl ChaosClient for SingleUseClient {
    fn step(&mut self, place: &mut WorkPlace<'_>) {
        if place.is_once_in(2) {
            unwrap_once(place);
        } else {
            use_rarely(place);
        }
    }

    fn finish(&mut self, place: &mut WorkPlace<'_>) {
        for work in ["unwrappings", "uses"] {
            let count = place.journal.count_done(work);
            place.journal.require(count > 0, || format!("no request of {work} succeeded"));
        }
    }
}
