//! The host in memory: storage with a buffer, lease book, passwords, and a script of failures and
//! of deaths.

use super::cache::Kept;
use super::databases::Server;
use super::http::Servers;
use super::timers::{Timer, Timers};
use crate::database_plugin::StoreTime;
use crate::engine::Lease;
use crate::host::{
    Cache, Clock, Databases, Entry, Host, Http, Leases, Level, Log, Passwords, Random, Storage,
};
use bulkhead_wire::failure::{Failure, Kind};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// 2030-01-01T00:00:00Z, so that times in tests are easy to read.
const START: StoreTime = 1_893_456_000_000;

/// A host in memory. Its methods are what a test may arrange and look at.
#[derive(Default)]
pub struct TestHost {
    pub(super) state: RefCell<State>,
}

#[derive(Default)]
pub(super) struct State {
    elapsed: u64,
    records: BTreeMap<String, Entry<Vec<u8>>>,
    /// How many commits wrote something; `None` for an engine that is not indexed.
    index: Option<u64>,
    leases: BTreeMap<String, Booked>,
    pub(super) timers: Timers,
    pub(super) buffer: Buffer,
    pub(super) dead: bool,
    steps: Vec<String>,
    scripted: Vec<Scripted>,
    policies: BTreeMap<String, String>,
    generated: u32,
    pub(super) server: Server,
    pub(super) servers: Servers,
    pub(super) kept: Kept,
}

/// What a call wrote and nothing has committed.
#[derive(Default)]
pub(super) struct Buffer {
    records: BTreeMap<String, Option<Vec<u8>>>,
    pub(super) timers: BTreeMap<String, Option<Timer>>,
    leases: BTreeMap<String, Booked>,
}

#[derive(Clone)]
struct Booked {
    lease: Lease,
    lane: String,
    confirmed: bool,
}

struct Scripted {
    step: String,
    then: Then,
}

/// What a script makes of a step.
enum Then {
    Refuse(Failure),
    LoseReply(Failure),
    Die,
}

impl TestHost {
    /// Lets time pass.
    pub fn advance(&self, seconds: u64) {
        self.state.borrow_mut().elapsed += seconds * 1_000;
    }

    /// Makes the next `step` (its first word, such as `checkpoint` or `get`) fail before it
    /// happens.
    pub fn refuse(&self, step: &str, failure: Failure) {
        self.script(step, Then::Refuse(failure));
    }

    /// Lets the next `step` happen, and then fail: the answer was lost on the way.
    pub fn lose_reply(&self, step: &str, failure: Failure) {
        self.script(step, Then::LoseReply(failure));
    }

    /// Lets the next `step` happen, and then the process die: nothing happens that the call does
    /// afterwards, and what it has not committed is lost. The bed goes on as the process that is
    /// started next.
    pub fn die_after(&self, step: &str) {
        self.script(step, Then::Die);
    }

    fn script(&self, step: &str, then: Then) {
        self.state.borrow_mut().scripted.push(Scripted { step: step.to_owned(), then });
    }

    /// Adds a password policy whose passwords begin with `prefix`.
    pub fn add_policy(&self, name: &str, prefix: &str) {
        self.state.borrow_mut().policies.insert(name.to_owned(), prefix.to_owned());
    }

    /// Reservations, checkpoints, calls of database plugins, HTTP requests, and log events, in
    /// order and since the last look.
    pub fn steps(&self) -> Vec<String> {
        std::mem::take(&mut self.state.borrow_mut().steps)
    }

    /// The committed record under `key`.
    #[must_use]
    pub fn stored(&self, key: &str) -> Option<Value> {
        let state = self.state.borrow();
        state.records.get(key).and_then(|entry| serde_json::from_slice(&entry.value).ok())
    }

    /// Leases in the book, confirmed or waiting to be undone.
    #[must_use]
    pub fn lease_tags(&self) -> Vec<String> {
        self.state.borrow().leases.keys().cloned().collect()
    }

    pub(super) fn write_down(&self, step: String) {
        self.state.borrow_mut().steps.push(step);
    }

    /// Does `act` under the name of a step, unless the script says otherwise. `detail` goes into
    /// the record of steps; without it, the step is too common to be worth writing down.
    pub(super) fn step<T>(
        &self,
        word: &str,
        detail: Option<&str>,
        act: impl FnOnce(&mut State) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.alive()?;
        let mut state = self.state.borrow_mut();
        let then = state.take_scripted(word);
        if let Some(Then::Refuse(failure)) = then {
            return Err(failure);
        }
        if let Some(detail) = detail {
            state.steps.push(format!("{word} {detail}").trim_end().to_owned());
        }
        let done = act(&mut state)?;
        match then {
            Some(Then::LoseReply(failure)) => Err(failure),
            Some(Then::Die) => {
                state.dead = true;
                Err(died())
            }
            _ => Ok(done),
        }
    }

    /// A process that has died does nothing and answers nothing.
    pub(super) fn alive(&self) -> Result<(), Failure> {
        if self.state.borrow().dead { Err(died()) } else { Ok(()) }
    }

    pub(super) fn commit(&self) {
        self.state.borrow_mut().commit();
    }

    /// Numbers commits from now on.
    pub(super) fn number_commits(&self) {
        self.state.borrow_mut().index = Some(0);
    }

    pub(super) fn roll_back(&self) {
        self.state.borrow_mut().buffer = Buffer::default();
    }

    /// Leases that were committed by a checkpoint and that no answer has confirmed.
    pub(super) fn unconfirmed(&self) -> Vec<Lease> {
        let state = self.state.borrow();
        state
            .leases
            .values()
            .filter(|entry| !entry.confirmed)
            .map(|entry| entry.lease.clone())
            .collect()
    }

    pub(super) fn confirm(&self, tag: &str, ttl: u64) -> Result<(), Failure> {
        let mut state = self.state.borrow_mut();
        let expires = state.now().saturating_add(ttl.saturating_mul(1_000));
        let Some(entry) = state.leases.get_mut(tag) else {
            return Err(Failure::internal(format!(
                "the answer names {tag:?}, which this call did not reserve"
            )));
        };
        entry.confirmed = true;
        entry.lease.expires = expires;
        Ok(())
    }

    pub(super) fn prolong(&self, tag: &str, ttl: u64) {
        let mut state = self.state.borrow_mut();
        let expires = state.now().saturating_add(ttl.saturating_mul(1_000));
        if let Some(entry) = state.leases.get_mut(tag) {
            entry.lease.expires = expires;
        }
    }

    pub(super) fn lease(&self, tag: &str) -> Option<Lease> {
        self.state.borrow().leases.get(tag).map(|entry| entry.lease.clone())
    }

    pub(super) fn forget_lease(&self, tag: &str) {
        self.state.borrow_mut().leases.remove(tag);
    }
}

fn died() -> Failure {
    Failure::new(Kind::Unavailable, "the process died")
}

impl State {
    pub(super) fn now(&self) -> StoreTime {
        START.saturating_add(self.elapsed)
    }

    fn take_scripted(&mut self, word: &str) -> Option<Then> {
        let at = self.scripted.iter().position(|scripted| scripted.step == word)?;
        Some(self.scripted.remove(at).then)
    }

    /// Commits, and gives the index of the commit, as [`Storage::checkpoint`] does.
    fn commit(&mut self) -> u64 {
        let buffer = std::mem::take(&mut self.buffer);
        let modified = self.next_index(&buffer);
        for (key, value) in buffer.records {
            match value {
                Some(value) => {
                    let created = self.records.get(&key).map_or(modified, |before| before.created);
                    self.records.insert(key, Entry { value, created, modified })
                }
                None => self.records.remove(&key),
            };
        }
        self.timers.commit(buffer.timers);
        self.leases.extend(buffer.leases);
        modified
    }

    fn next_index(&mut self, buffer: &Buffer) -> u64 {
        match &mut self.index {
            Some(index) if !buffer.records.is_empty() => {
                *index += 1;
                *index
            }
            _ => 0,
        }
    }

    /// Records as the call sees them: what is committed, and its own writes over it.
    fn visible(&self) -> BTreeMap<&str, Entry<&Vec<u8>>> {
        let mut seen: BTreeMap<&str, Entry<&Vec<u8>>> = BTreeMap::new();
        for (key, entry) in &self.records {
            seen.insert(
                key,
                Entry { value: &entry.value, created: entry.created, modified: entry.modified },
            );
        }
        for (key, value) in &self.buffer.records {
            match value {
                Some(value) => seen.insert(key, Entry { value, created: 0, modified: 0 }),
                None => seen.remove(key.as_str()),
            };
        }
        seen
    }
}

impl Host for TestHost {
    fn storage(&self) -> &dyn Storage {
        self
    }

    fn leases(&self) -> &dyn Leases {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn databases(&self) -> &dyn Databases {
        self
    }

    fn passwords(&self) -> &dyn Passwords {
        self
    }

    fn http(&self) -> &dyn Http {
        self
    }

    fn cache(&self) -> &dyn Cache {
        self
    }

    fn random(&self) -> &dyn Random {
        self
    }

    fn log(&self) -> &dyn Log {
        self
    }
}

impl Storage for TestHost {
    fn entry_bytes(&self, key: &str) -> Result<Option<Entry<Vec<u8>>>, Failure> {
        self.step("get", None, |state| {
            let seen = state.visible();
            let owned = |entry: &Entry<&Vec<u8>>| Entry {
                value: entry.value.clone(),
                created: entry.created,
                modified: entry.modified,
            };
            Ok(seen.get(key).map(owned))
        })
    }

    fn put_bytes(&self, key: &str, value: Vec<u8>) -> Result<(), Failure> {
        self.step("put", None, |state| {
            state.buffer.records.insert(key.to_owned(), Some(value));
            Ok(())
        })
    }

    fn delete(&self, key: &str) -> Result<(), Failure> {
        self.step("delete", None, |state| {
            state.buffer.records.insert(key.to_owned(), None);
            Ok(())
        })
    }

    fn keys(&self, prefix: &str, after: &str, limit: u32) -> Result<Vec<String>, Failure> {
        self.step("keys", None, |state| {
            let seen = state.visible();
            let names =
                seen.keys().filter_map(|key| key.strip_prefix(prefix)).filter(|name| *name > after);
            Ok(names.take(limit as usize).map(str::to_owned).collect())
        })
    }

    fn checkpoint(&self) -> Result<u64, Failure> {
        self.step("checkpoint", Some(""), |state| Ok(state.commit()))
    }
}

impl Leases for TestHost {
    fn reserve(&self, tag: &str, lane: &str, internal: &Value) -> Result<(), Failure> {
        self.step("reserve", Some(&format!("{tag} in {lane}")), |state| {
            if tag.is_empty()
                || state.buffer.leases.contains_key(tag)
                || state.leases.contains_key(tag)
            {
                return Err(Failure::invalid(format!("the tag {tag:?} is empty or taken")));
            }
            let now = state.now();
            let lease = Lease {
                tag: tag.to_owned(),
                internal: internal.clone(),
                issued: now,
                expires: now,
            };
            state
                .buffer
                .leases
                .insert(tag.to_owned(), Booked { lease, lane: lane.to_owned(), confirmed: false });
            Ok(())
        })
    }

    fn end(&self, tag: &str) -> Result<(), Failure> {
        self.step("end", Some(tag), |state| {
            match state.leases.remove(tag).or(state.buffer.leases.remove(tag)) {
                Some(_) => Ok(()),
                None => {
                    Err(Failure::new(Kind::NotFound, format!("this call did not reserve {tag:?}")))
                }
            }
        })
    }

    fn count(&self, lane: &str) -> Result<u32, Failure> {
        self.step("count", None, |state| {
            let live = state.leases.values().filter(|entry| entry.lane == lane).count();
            Ok(u32::try_from(live).unwrap_or(u32::MAX).min(10_000))
        })
    }
}

impl Passwords for TestHost {
    /// Numbered, so that tests can name the password they expect.
    fn generate(&self, policy: &str) -> Result<String, Failure> {
        self.step("generate", None, |state| {
            let prefix = match policy {
                "" => "Generated",
                named => state.policies.get(named).map(String::as_str).ok_or_else(|| {
                    Failure::new(Kind::NotFound, format!("there is no password policy {named:?}"))
                })?,
            };
            let password = format!("{prefix}-Password-{}", state.generated + 1);
            state.generated += 1;
            Ok(password)
        })
    }
}

impl Random for TestHost {
    /// Counts instead of being random, so that tests repeat.
    fn bytes(&self, length: u32) -> Vec<u8> {
        let mut state = self.state.borrow_mut();
        state.generated += 1;
        let start = state.generated;
        (0..length)
            .map(|offset| {
                start.wrapping_add(offset).to_le_bytes().first().copied().unwrap_or_default()
            })
            .collect()
    }
}

impl Log for TestHost {
    fn write(&self, _level: Level, event: &str, pairs: &[(&str, &str)]) {
        let pairs: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.write_down(format!("log {event} {}", pairs.join(" ")).trim_end().to_owned());
    }
}
