//! Counts of a mount's faults: traps by plugin and version, and exceeded limits.
//!
//! Only a fault takes the locks. The labels are names of components and of limits, so that a caller
//! cannot add a series.

use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The faults of a mount since the mount was made in this process.
#[derive(Default)]
pub(crate) struct FaultCounts {
    /// By plugin and version.
    traps: Mutex<BTreeMap<(String, String), u64>>,
    /// By the name of the limit in grant lines.
    limits: Mutex<BTreeMap<&'static str, u64>>,
}

/// Traps of one version of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrapReading {
    /// Name of the plugin: the mount's, or a database plugin that the mount called.
    pub plugin: String,
    /// Version of the plugin.
    pub version: String,
    /// Number of calls that ended with a trap.
    pub count: u64,
}

impl FaultCounts {
    /// Counts a trap.
    pub(crate) fn note_trap(&self, plugin: &str, version: &str) {
        let key = (plugin.to_owned(), version.to_owned());
        *sync::lock(&self.traps).entry(key).or_default() += 1;
    }

    /// Counts a call that was stopped or refused at a limit.
    pub(crate) fn note_limit(&self, limit: &'static str) {
        *sync::lock(&self.limits).entry(limit).or_default() += 1;
    }

    /// Returns the traps.
    pub(crate) fn traps(&self) -> Vec<TrapReading> {
        let traps = sync::lock(&self.traps);
        let reading = |((plugin, version), count): (&(String, String), &u64)| TrapReading {
            plugin: plugin.clone(),
            version: version.clone(),
            count: *count,
        };
        traps.iter().map(reading).collect()
    }

    /// Returns the names of limits, each with the number of calls that reached the limit.
    pub(crate) fn limits(&self) -> Vec<(&'static str, u64)> {
        sync::lock(&self.limits).iter().map(|(limit, count)| (*limit, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_count_by_version_and_limit() {
        let faults = FaultCounts::default();
        for version in ["1.0.0", "2.0.0", "2.0.0"] {
            faults.note_trap("kv", version);
        }
        faults.note_limit("memory");
        let trap = |version: &str, count| TrapReading {
            plugin: "kv".to_owned(),
            version: version.to_owned(),
            count,
        };
        assert_eq!(faults.traps(), [trap("1.0.0", 1), trap("2.0.0", 2)]);
        assert_eq!(faults.limits(), [("memory", 1)]);
    }
}
