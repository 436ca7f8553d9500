//! Tokens: a token serves on every node from the answer to its creation on, and on none from the
//! answer to its revocation on.

use super::journal::Outcome;
use super::{ChaosClient, WorkPlace};
use serde_json::{Value, json};

/// Policy of the tokens, which may read [`SEED`].
pub const POLICY: &str = "reader";

/// A secret that never changes.
pub const SEED: &str = "kv/seed";

/// Number of tokens above which a token is revoked.
const MOST_ALIVE: usize = 12;

/// A client that creates, uses and revokes tokens.
#[derive(Default)]
pub struct TokenClient {
    alive: Vec<String>,
    revoked: Vec<String>,
}

impl TokenClient {
    fn create(&mut self, place: &mut WorkPlace<'_>) {
        let body = json!({ "policies": [POLICY], "ttl": "2h", "no_default_policy": true });
        match place.send("tokens", ("POST", "auth/token/create", body)) {
            Outcome::Done(answer) => {
                let token = answer.body["auth"]["client_token"].as_str().unwrap_or_default();
                require_status(token, 200, usize::MAX, place);
                self.alive.push(token.to_owned());
            }
            Outcome::Refused(answer) => {
                let is_expected = answer.status == 503;
                place.journal.require(is_expected, || format!("a new token: {answer:?}"));
            }
            Outcome::Unclear(_) => {}
        }
    }

    fn revoke(&mut self, place: &mut WorkPlace<'_>) {
        let token = self.alive.swap_remove(place.random.below(self.alive.len()));
        let body = json!({ "token": token });
        match place.send("tokens", ("POST", "auth/token/revoke", body)) {
            Outcome::Done(_) => {
                require_status(&token, 403, usize::MAX, place);
                self.revoked.push(token);
            }
            Outcome::Refused(answer) => {
                let is_expected = answer.status == 503;
                place.journal.require(is_expected, || format!("a revocation: {answer:?}"));
                self.alive.push(token);
            }
            Outcome::Unclear(_) => {}
        }
    }
}

/// Uses the token on some nodes, each of which must answer with this status, or refuse to answer.
fn require_status(token: &str, status: u16, nodes: usize, place: &mut WorkPlace<'_>) {
    for root in place.roots().iter().take(nodes) {
        let holder = root.with_token(token);
        let outcome = place.journal.send("tokens", &holder, ("GET", SEED, Value::Null));
        let found = outcome.status().filter(|found| ![status, 503].contains(found));
        if let Some(found) = found {
            place.journal.broken(format!("I5: a token is answered {found}, not {status}"));
        }
    }
}

impl ChaosClient for TokenClient {
    fn step(&mut self, place: &mut WorkPlace<'_>) {
        if self.alive.len() > MOST_ALIVE || (!self.alive.is_empty() && place.is_once_in(3)) {
            self.revoke(place);
        } else if place.is_once_in(2) {
            self.create(place);
        }
        for (tokens, status) in [(&self.alive, 200), (&self.revoked, 403)] {
            if !tokens.is_empty() {
                let token = &tokens[place.random.below(tokens.len())];
                require_status(token, status, 1, place);
            }
        }
    }

    fn finish(&mut self, place: &mut WorkPlace<'_>) {
        for (tokens, status) in [(&self.alive, 200), (&self.revoked, 403)] {
            for token in tokens {
                require_status(token, status, usize::MAX, place);
            }
        }
    }
}
