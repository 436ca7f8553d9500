//! The state that a server may have after a restart, derived from its answers alone.
//!
//! The model knows no storage and no transaction. After an answered write, an object has one state;
//! after a call with an unknown outcome, an object has several possible states.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// All possible effects of the calls of one life.
#[derive(Clone, Default)]
pub struct Model {
    registers: BTreeMap<String, Register>,
    credentials: Vec<Credential>,
    tokens: BTreeMap<String, RevocationState>,
    /// Number of calls for a credential with an unknown outcome: each may have left a lease and a
    /// user that no client knows.
    pub unanswered: usize,
}

/// The object at one API path: all its possible states. `None`: the object does not exist.
#[derive(Clone)]
pub struct Register(Vec<Option<Value>>);

/// A credential whose answer arrived.
#[derive(Clone)]
pub struct Credential {
    pub username: String,
    pub password: String,
    pub lease: String,
    /// The token that requested the credential; its end also ends the credential.
    pub token: String,
    /// Earliest and latest end of the lease: the server's clock started between request and answer.
    pub end: (Instant, Instant),
    pub revoked: RevocationState,
}

/// State of a revocation by a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RevocationState {
    No,
    Perhaps,
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialFate {
    /// Lease and user exist.
    There,
    /// A call to end the lease has an unknown outcome, or the expiry is near.
    Either,
    /// The lease expired or its token ended: lease and user go within seconds.
    Soon,
    /// The revocation was answered: lease and user are gone.
    Gone,
}

impl Register {
    /// Returns true if `seen` matches a possible state. `seen` may have more members than the
    /// written value.
    pub fn admits(&self, seen: Option<&Value>) -> bool {
        self.0.iter().any(|possible| match (possible, seen) {
            (None, None) => true,
            (Some(written), Some(seen)) => shows(seen, written),
            _ => false,
        })
    }

    /// The possible states, for messages.
    pub fn possible(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Returns true if every member of `written` is in `seen` with its value.
fn shows(seen: &Value, written: &Value) -> bool {
    match written {
        Value::Object(members) => members.iter().all(|(name, value)| shows(&seen[name], value)),
        _ => seen == written,
    }
}

impl Model {
    /// Records a write of the object at `path` before its answer; `None` is a deletion.
    pub fn may_write(&mut self, path: &str, value: Option<Value>) {
        let register =
            self.registers.entry(path.to_owned()).or_insert_with(|| Register(vec![None]));
        register.0.push(value);
    }

    /// Records an answered write or deletion of the object at `path`.
    pub fn wrote(&mut self, path: &str, value: Option<Value>) {
        self.registers.insert(path.to_owned(), Register(vec![value]));
    }

    pub fn granted(&mut self, credential: Credential) {
        self.credentials.push(credential);
    }

    /// Records a requested renewal by `increment`, which may move the end.
    pub fn may_renew(&mut self, lease: &str, increment: Duration) {
        let end = Instant::now() + increment;
        self.change(lease, |credential| credential.end.1 = credential.end.1.max(end));
    }

    /// Records an answered renewal, sent at `asked` and left the lease `left`.
    pub fn renewed(&mut self, lease: &str, asked: Instant, left: Duration) {
        self.change(lease, |credential| credential.end = (asked + left, Instant::now() + left));
    }

    pub fn revoke(&mut self, lease: &str, ended: RevocationState) {
        self.change(lease, |credential| credential.revoked = ended);
    }

    pub fn token(&mut self, token: &str, ended: RevocationState) {
        self.tokens.insert(token.to_owned(), ended);
    }

    fn change(&mut self, lease: &str, how: impl Fn(&mut Credential)) {
        self.credentials.iter_mut().filter(|credential| credential.lease == lease).for_each(how);
    }

    /// All objects by path.
    pub fn registers(&self) -> impl Iterator<Item = (&String, &Register)> {
        self.registers.iter()
    }

    /// All tokens that a client received.
    pub fn tokens(&self) -> impl Iterator<Item = (&String, RevocationState)> {
        self.tokens.iter().map(|(token, ended)| (token, *ended))
    }

    /// All credentials that a client received, with their expected state at `now`.
    pub fn credentials(&self, now: Instant) -> impl Iterator<Item = (&Credential, CredentialFate)> {
        self.credentials.iter().map(move |credential| (credential, self.fate(credential, now)))
    }

    fn fate(&self, credential: &Credential, now: Instant) -> CredentialFate {
        let token = self.tokens.get(&credential.token).copied().unwrap_or(RevocationState::Perhaps);
        match (credential.revoked, token) {
            (RevocationState::Yes, _) => CredentialFate::Gone,
            (_, RevocationState::Yes) => CredentialFate::Soon,
            _ if now > credential.end.1 => CredentialFate::Soon,
            (RevocationState::No, RevocationState::No) if now + ABOUT < credential.end.0 => {
                CredentialFate::There
            }
            _ => CredentialFate::Either,
        }
    }
}

/// A lease this close to its expiry may expire during a check.
const ABOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn credential(seconds: u64) -> Credential {
        let end = Instant::now() + Duration::from_secs(seconds);
        let text = |text: &str| text.to_owned();
        Credential {
            username: text("u"),
            password: text("p"),
            lease: text("l"),
            token: text("t"),
            end: (end, end),
            revoked: RevocationState::No,
        }
    }

    fn fate(seconds: u64, change: impl Fn(&mut Model)) -> CredentialFate {
        let mut model = Model::default();
        model.token("t", RevocationState::No);
        model.granted(credential(seconds));
        change(&mut model);
        model.credentials(Instant::now()).next().expect("a credential was granted").1
    }

    #[test]
    fn answered_write_has_one_state_unanswered_has_two() {
        let mut model = Model::default();
        model.wrote("role", Some(json!({ "ttl": 1 })));
        model.may_write("role", Some(json!({ "ttl": 2 })));
        let register = &model.registers["role"];
        for (seen, admitted) in [(Some(1), true), (Some(2), true), (Some(3), false), (None, false)]
        {
            let seen = seen.map(|ttl| json!({ "ttl": ttl, "max": 9 }));
            assert_eq!(register.admits(seen.as_ref()), admitted, "{seen:?}");
        }
        model.wrote("role", None);
        assert!(model.registers["role"].admits(None));
        assert!(!model.registers["role"].admits(Some(&json!({ "ttl": 2 }))));
    }

    #[test]
    fn unanswered_first_write_may_be_absent() {
        let mut model = Model::default();
        model.may_write("role", Some(json!({})));
        assert!(
            model.registers["role"].admits(None)
                && model.registers["role"].admits(Some(&json!({})))
        );
    }

    #[test]
    fn only_an_answered_revocation_must_hold() {
        assert_eq!(fate(60, |_| ()), CredentialFate::There);
        assert_eq!(
            fate(60, |model| model.revoke("l", RevocationState::Perhaps)),
            CredentialFate::Either
        );
        assert_eq!(fate(60, |model| model.revoke("l", RevocationState::Yes)), CredentialFate::Gone);
        assert_eq!(
            fate(60, |model| model.token("t", RevocationState::Perhaps)),
            CredentialFate::Either
        );
        assert_eq!(fate(60, |model| model.token("t", RevocationState::Yes)), CredentialFate::Soon);
    }

    #[test]
    fn lease_is_expected_until_near_its_end() {
        assert_eq!(fate(1, |_| ()), CredentialFate::Either);
        assert_eq!(fate(0, |_| std::thread::sleep(Duration::from_millis(1))), CredentialFate::Soon);
        assert_eq!(
            fate(1, |model| model.renewed("l", Instant::now(), Duration::from_secs(60))),
            CredentialFate::There
        );
        let renewal = |model: &mut Model| model.may_renew("l", Duration::from_secs(60));
        assert_eq!(fate(1, renewal), CredentialFate::Either, "the renewal was not confirmed");
        assert_eq!(fate(60, renewal), CredentialFate::There, "a renewal never shortens");
    }
}
