//! Names at auth methods that are locked after too many logins that failed.
//!
//! The attacks this file stops: a password that is guessed from many addresses at once, which the
//! rate of one address does not slow; guesses that were on their way when the name was locked; and
//! an answer that tells a right guess from a wrong one while it is. Names are counted whether they
//! exist or not, because a component says beforehand which alias a login would be for. Never knows
//! what was guessed.
//!
//! Nothing is stored: a restart forgets. The number of names is bounded, those that failed longest
//! ago give way, and a name that is locked gives way last.

use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::sync;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

/// Names that are counted at one mount.
const NAMES_MAX: usize = 4_096;
/// Bytes of a name that is counted; no alias is longer.
const NAME_BYTES: usize = 512;
/// Most failures that may be asked for, and the longest time in seconds.
const MOST: u64 = 1_000_000;
const LONGEST: u64 = 366 * 86_400;

/// When the names of a mount are locked. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LockoutPolicy {
    /// So many failures in a row lock a name.
    pub(crate) threshold: u64,
    /// For so long.
    pub(crate) duration: u64,
    /// Failures are forgotten so long after the last one.
    pub(crate) counter_reset: u64,
    /// No name is locked.
    pub(crate) is_disabled: bool,
}

impl Default for LockoutPolicy {
    fn default() -> Self {
        Self { threshold: 5, duration: 900, counter_reset: 900, is_disabled: false }
    }
}

impl LockoutPolicy {
    /// With the members of `user_lockout_config` that are given.
    ///
    /// # Errors
    /// 400 that names the member.
    pub(crate) fn changed_by(mut self, given: &Value) -> Result<Self, Failure> {
        let Value::Object(given) = given else {
            return Err(refused(
                "",
                "must be an object, e.g. {\"lockout_threshold\": 5, \"lockout_duration\": \"15m\"}",
            ));
        };
        for (name, value) in given {
            if value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty()) {
                continue;
            }
            match name.as_str() {
                "lockout_threshold" => self.threshold = threshold(value)?,
                "lockout_duration" => self.duration = time(name, value)?,
                "lockout_counter_reset" | "lockout_counter_reset_duration" => {
                    self.counter_reset = time(name, value)?;
                }
                "lockout_disable" => self.is_disabled = flag(value)?,
                other => {
                    let why = format!(
                        " has no member {}; there are lockout_threshold, lockout_duration, \
                         lockout_counter_reset_duration and lockout_disable",
                        quoted(other)
                    );
                    return Err(Failure::invalid(format!("user_lockout_config{why}")));
                }
            }
        }
        Ok(self)
    }

    /// The members as a read shows them, the reset of the counter under both of its names.
    pub(crate) fn show(self) -> Map<String, Value> {
        let members = [
            ("lockout_threshold", json!(self.threshold)),
            ("lockout_duration", json!(self.duration)),
            ("lockout_counter_reset", json!(self.counter_reset)),
            ("lockout_counter_reset_duration", json!(self.counter_reset)),
            ("lockout_disable", json!(self.is_disabled)),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn refused(member: &str, why: &str) -> Failure {
    let dot = if member.is_empty() { "" } else { "." };
    Failure::invalid(format!("user_lockout_config{dot}{member} {why}"))
}

/// A number, or its digits as a text: Go's client sends the latter.
fn threshold(value: &Value) -> Result<u64, Failure> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_u64(),
    };
    number.filter(|number| (1..=MOST).contains(number)).ok_or_else(|| {
        refused("lockout_threshold", "must be 1 to 1000000; lockout_disable locks no name")
    })
}

fn time(name: &str, value: &Value) -> Result<u64, Failure> {
    let seconds = duration::seconds(value).map_err(|why| refused(name, &why.to_string()))?;
    if (1..=LONGEST).contains(&seconds) {
        return Ok(seconds);
    }
    Err(refused(name, "must be 1 second to 366 days"))
}

fn flag(value: &Value) -> Result<bool, Failure> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .ok_or_else(|| refused("lockout_disable", "must be true or false"))
}

/// Failures of late, by mount and name.
#[derive(Default)]
pub(crate) struct Lockouts(Mutex<HashMap<String, OfMount>>);

#[derive(Default)]
struct OfMount {
    names: BTreeMap<String, Failures>,
    /// When the last of them may be forgotten.
    quiet_at: u64,
}

/// In milliseconds of store time.
#[derive(Clone, Copy)]
struct Failures {
    number: u64,
    last: u64,
    forgotten_at: u64,
    is_locked: bool,
}

/// What a failure did to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It was counted, or there is nothing to count.
    Noted,
    /// It was the last that the name had.
    NowLocked,
    /// The name was locked when it came.
    WasLocked,
}

impl Lockouts {
    /// Is there a name at that mount for which a login must be asked beforehand?
    pub(crate) fn are_counted(&self, mount: &str, now: u64) -> bool {
        let mut mounts = sync::lock(&self.0);
        match mounts.get(mount) {
            Some(of_mount) if of_mount.quiet_at > now => true,
            Some(_) => {
                mounts.remove(mount);
                false
            }
            None => false,
        }
    }

    /// Is that name locked?
    pub(crate) fn is_locked(&self, mount: &str, name: &str, now: u64) -> bool {
        let mounts = sync::lock(&self.0);
        let failures = mounts.get(mount).and_then(|of_mount| of_mount.names.get(name));
        failures.is_some_and(|failures| failures.is_locked && failures.forgotten_at > now)
    }

    /// Counts a login for that name that failed.
    pub(crate) fn count(
        &self,
        mount: &str,
        name: &str,
        policy: LockoutPolicy,
        now: u64,
    ) -> Counted {
        if policy.is_disabled || name.len() > NAME_BYTES {
            return Counted::Noted;
        }
        let mut mounts = sync::lock(&self.0);
        mounts.entry(mount.to_owned()).or_default().count(name, policy, now)
    }

    /// Forgets the failures of a name: it proved itself, or an operator says so. Whether there were
    /// any.
    pub(crate) fn forget(&self, mount: &str, name: &str) -> bool {
        let mut mounts = sync::lock(&self.0);
        mounts.get_mut(mount).is_some_and(|of_mount| of_mount.names.remove(name).is_some())
    }

    /// The names of a mount that are locked, in order.
    pub(crate) fn locked(&self, mount: &str, now: u64) -> Vec<String> {
        let mounts = sync::lock(&self.0);
        let names = mounts.get(mount).into_iter().flat_map(|of_mount| &of_mount.names);
        let locked =
            names.filter(|(_, failures)| failures.is_locked && failures.forgotten_at > now);
        locked.map(|(name, _)| name.clone()).collect()
    }
}

impl OfMount {
    fn count(&mut self, name: &str, policy: LockoutPolicy, now: u64) -> Counted {
        let known = self.names.get(name).copied().filter(|known| known.forgotten_at > now);
        if known.is_some_and(|known| known.is_locked) {
            return Counted::WasLocked;
        }
        let number = known.map_or(0, |known| known.number).saturating_add(1);
        let is_locked = number >= policy.threshold;
        let time = if is_locked { policy.duration } else { policy.counter_reset };
        let forgotten_at = now.saturating_add(time.saturating_mul(1_000));
        if !self.names.contains_key(name) {
            self.make_room(now);
        }
        let failures = Failures { number, last: now, forgotten_at, is_locked };
        self.names.insert(name.to_owned(), failures);
        self.quiet_at = self.quiet_at.max(forgotten_at);
        if is_locked { Counted::NowLocked } else { Counted::Noted }
    }

    fn make_room(&mut self, now: u64) {
        if self.names.len() < NAMES_MAX {
            return;
        }
        self.names.retain(|_, failures| failures.forgotten_at > now);
        if self.names.len() >= NAMES_MAX {
            let oldest = self.names.iter().min_by_key(|(_, known)| (known.is_locked, known.last));
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.names.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
