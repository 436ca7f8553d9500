//! The mount option `instance_reuse`, which allows an instance to serve several calls of the mount
//! (decision T4).
//!
//! `fresh`, the default, is the safest: a component can carry data from call to call only through
//! storage. `bounded` is faster, and trusts the component not to keep a caller's data in memory;
//! see `ReuseBounds` for the bounds. The operator chooses for each mount.

use super::record::MountRecord;
use crate::catalog::EnginePlugin;
use bulkhead_sandbox::{InstanceReuse, ReuseBounds};
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::BTreeMap;

/// Name of the option.
pub const OPTION: &str = "instance_reuse";

/// Refuses an unknown value of the option; for the endpoints that store a mount's options.
///
/// # Errors
/// 400 that names the value.
pub fn check(options: &BTreeMap<String, String>) -> Result<(), Failure> {
    match options.get(OPTION).map(String::as_str) {
        None | Some("fresh" | "bounded") => Ok(()),
        Some(other) => {
            let other = quoted(other);
            Err(Failure::invalid(format!(
                "options.{OPTION} {other} is unknown; use \"fresh\" or \"bounded\""
            )))
        }
    }
}

/// Returns the source of the instances for the mount's calls. An unknown value, stored by another
/// version, means the safest source.
pub(crate) fn of(record: &MountRecord, plugin: &EnginePlugin) -> InstanceReuse {
    match record.settings.options.get(OPTION).map(String::as_str) {
        Some("bounded") => plugin.reuse(&record.uuid, ReuseBounds::default()),
        _ => InstanceReuse::Fresh,
    }
}
