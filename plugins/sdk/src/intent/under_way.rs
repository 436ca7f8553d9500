//! What handlers ask of a change that another call began: is there one, and does it go on now.

use super::{PREFIX, Record, name};
use crate::host::Host;
use bulkhead_wire::failure::Failure;
use serde_json::Value;

/// The key of the intent that the timer `timer` is about; `None` for an engine's own timers, whose
/// keys must not begin with `intent/`.
#[must_use]
pub fn key_of(timer: &str) -> Option<&str> {
    timer.strip_prefix(PREFIX)
}

/// Whether a change of `key` is under way, or was left and goes on by itself.
///
/// # Errors
/// What storage refused.
pub fn is_open(host: &dyn Host, key: &str) -> Result<bool, Failure> {
    Ok(host.storage().get_bytes(&name(key))?.is_some())
}

/// Lets the engine be woken for a change that is not finished as soon as this call ends, instead of
/// at the end of its pause, and commits that with what the call buffered. For handlers: to take the
/// intent up is for the wake alone, of which there is one at a time. Tells whether there was any.
///
/// # Errors
/// What storage, clock or checkpoint refused.
pub fn hasten(host: &dyn Host, key: &str) -> Result<bool, Failure> {
    let name = name(key);
    let Some(record) = host.storage().get::<Record<Value>>(&name)? else { return Ok(false) };
    host.clock().guard(&name, &record.lane)?;
    host.storage().checkpoint()?;
    Ok(true)
}
