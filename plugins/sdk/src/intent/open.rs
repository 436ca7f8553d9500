//! Intents that are not finished, as handlers see them: they may ask and hasten, and never take one
//! up.
//!
//! The fault this file stops: two calls at work on one change, of which the later one forgets the
//! candidate that the earlier one is about to put in force.

use super::{Record, name};
use crate::host::Host;
use bulkhead_wire::failure::Failure;
use serde_json::Value;

/// Whether a change of `key` is not finished.
///
/// # Errors
/// Unavailable when the store cannot be read.
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
