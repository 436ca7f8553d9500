//! The lockout policy of a mount, as an operator tunes it.

use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum threshold of failures, followed by the maximum time in seconds.
const MAX_THRESHOLD: u64 = 1_000_000;
const MAX_SECONDS: u64 = 366 * 86_400;

/// The lockout policy of a mount. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LockoutPolicy {
    /// Number of failures in a row that lock a name.
    pub threshold: u64,
    /// Duration of a lock.
    pub duration: u64,
    /// Time after the last failure at which the failures are forgotten.
    pub(crate) counter_reset: u64,
    /// True if no name is locked.
    pub is_disabled: bool,
}

impl Default for LockoutPolicy {
    fn default() -> Self {
        Self { threshold: 5, duration: 900, counter_reset: 900, is_disabled: false }
    }
}

impl LockoutPolicy {
    /// Returns the policy with the given members of `user_lockout_config` changed.
    ///
    /// # Errors
    /// 400 that names the member.
    pub fn changed_by(mut self, settings: &Value) -> Result<Self, Failure> {
        let Value::Object(settings) = settings else {
            return Err(policy_refusal(
                "",
                "must be an object, e.g. {\"lockout_threshold\": 5, \"lockout_duration\": \"15m\"}",
            ));
        };
        for (name, value) in settings {
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

    /// Returns the members for a read. The counter reset appears under both of its names.
    pub fn show(self) -> Map<String, Value> {
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

fn policy_refusal(member: &str, why: &str) -> Failure {
    let dot = if member.is_empty() { "" } else { "." };
    Failure::invalid(format!("user_lockout_config{dot}{member} {why}"))
}

/// Parses a number, or its digits as a text, which Go's client sends.
fn threshold(value: &Value) -> Result<u64, Failure> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_u64(),
    };
    number.filter(|number| (1..=MAX_THRESHOLD).contains(number)).ok_or_else(|| {
        policy_refusal("lockout_threshold", "must be 1 to 1000000; lockout_disable locks no name")
    })
}

fn time(name: &str, value: &Value) -> Result<u64, Failure> {
    let seconds = duration::seconds(value).map_err(|why| policy_refusal(name, &why.to_string()))?;
    if (1..=MAX_SECONDS).contains(&seconds) {
        return Ok(seconds);
    }
    Err(policy_refusal(name, "must be 1 second to 366 days"))
}

fn flag(value: &Value) -> Result<bool, Failure> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .ok_or_else(|| policy_refusal("lockout_disable", "must be true or false"))
}
