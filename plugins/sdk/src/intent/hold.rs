//! The hold on an intent: at most one call at a time changes the secret of a key.

use super::{HOLD, IntentRecord, PREFIX};
use crate::host::Host;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::hexadecimal;
use serde_json::Value;

/// Returns the storage key of the intent of `key`.
pub(super) fn name(key: &str) -> String {
    format!("{PREFIX}{key}")
}

/// Returns the mark of a new holder of an intent.
pub(super) fn new_hold(host: &dyn Host) -> String {
    hexadecimal::text(&host.random().bytes(HOLD))
}

/// Reads the intent again, in the segment that is about to be committed: a checkpoint dropped the
/// first read, so that only this read is checked at the commit.
pub(super) fn check_hold(host: &dyn Host, key: &str, hold: &str) -> Result<(), Failure> {
    match host.storage().get::<IntentRecord<Value>>(&name(key))? {
        Some(record) if record.hold == hold => Ok(()),
        _ => {
            let message = format!(
                "another call has resumed or finished the change of {key:?}; read the current \
                 state and try again"
            );
            Err(Failure::new(FailureKind::Unavailable, message))
        }
    }
}

/// Deletes the intent of `key` and cancels its guard.
pub(super) fn forget(host: &dyn Host, key: &str) -> Result<(), Failure> {
    let name = name(key);
    host.storage().delete(&name)?;
    host.clock().cancel(&name)
}
