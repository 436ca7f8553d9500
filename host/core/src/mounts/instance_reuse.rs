//! The mount option `instance_reuse`: whether one instance may serve several calls of the mount
//! (decision T4).
//!
//! `fresh`, the default, is the safest: nothing that a component does can outlive its call but
//! through storage. `bounded` is quicker, and trusts the component not to keep in memory what it
//! was told; see `ReuseBounds` for the bounds. It is the operator's choice, mount by mount.

use super::record::MountRecord;
use bulkhead_sandbox::{Engine, Reuse, ReuseBounds};
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::BTreeMap;

/// Its name.
pub(crate) const OPTION: &str = "instance_reuse";

/// Refuses a value that is neither of the two; for the endpoints that store a mount's options.
///
/// # Errors
/// 400 that names the value.
pub(crate) fn check(options: &BTreeMap<String, String>) -> Result<(), Failure> {
    match options.get(OPTION).map(String::as_str) {
        None | Some("fresh" | "bounded") => Ok(()),
        Some(other) => {
            let other = quoted(other);
            Err(Failure::invalid(format!(
                "options.{OPTION} {other} is neither \"fresh\" nor \"bounded\"; use one of them"
            )))
        }
    }
}

/// How the calls of the mount get their instances. A value that only another version can have
/// stored means the safest.
pub(crate) fn of(record: &MountRecord, engine: &Engine) -> Reuse {
    match record.settings.options.get(OPTION).map(String::as_str) {
        Some("bounded") => engine.reuse(&record.uuid, ReuseBounds::default()),
        _ => Reuse::Fresh,
    }
}
