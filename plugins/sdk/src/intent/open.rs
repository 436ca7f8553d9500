//! Unfinished intents from the view of handlers, which may query an intent or make it due, but
//! never take over the intent.
//!
//! The fault this file stops: two concurrent calls for the same change, so that the later call
//! forgets the candidate that the earlier call is about to put in force.

use super::IntentRecord;
use super::hold::name;
use crate::database_plugin::StoreTime;
use crate::host::Host;
use bulkhead_wire::failure::Failure;
use serde_json::Value;

/// Milliseconds for which a timer steps aside.
const STEP_ASIDE_MS: StoreTime = 60_000;

/// Returns true if a change of `key` is not finished.
///
/// # Errors
/// Unavailable if the store cannot be read.
pub fn is_open(host: &dyn Host, key: &str) -> Result<bool, Failure> {
    Ok(host.storage().get_bytes(&name(key))?.is_some())
}

/// Wakes the engine for an unfinished change as soon as this call ends, instead of after the
/// back-off, and commits that together with the buffered writes of the call. For handlers: only
/// `wake`, which runs once at a time, may take over the intent. Returns true if there was an
/// unfinished change.
///
/// # Errors
/// Failures of storage, clock or checkpoint.
pub fn make_due(host: &dyn Host, key: &str) -> Result<bool, Failure> {
    let name = name(key);
    let Some(record) = host.storage().get::<IntentRecord<Value>>(&name)? else { return Ok(false) };
    host.clock().guard(&name, &record.lane)?;
    host.storage().checkpoint()?;
    Ok(true)
}

/// Sets the timer `timer` again, a minute from now, because an unfinished change of the same
/// credential stands before the timer's own work. The timer must be set here: the unfinished change
/// may end without a result, and a timer that nobody sets again ends an automatic rotation for
/// good. The end of the change may set an earlier or a later time. The timer gets a lane of its own
/// meanwhile: the target did not answer, so the rest of its lane must go on.
///
/// # Errors
/// The refusal of the clock.
pub fn step_aside(host: &dyn Host, timer: &str) -> Result<(), Failure> {
    host.clock().schedule(timer, host.clock().now().saturating_add(STEP_ASIDE_MS), timer)
}
