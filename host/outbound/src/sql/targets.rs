//! Cache of the servers that connections name. The plugin's pure `configure` names the servers; the
//! host asks the plugin only once for the same settings, and not at every call.
//!
//! This file prevents a component from filling the memory of the server with its answers: the size
//! of an answer and the number of answers per mount are bounded, and the answers go with the mount.

use crate::fingerprint::Fingerprint;
use crate::least_used::LeastUsed;
use crate::limits;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Servers named by a connection, as targets of grants.
pub type ConnectionTargets = Arc<[String]>;

/// The targets of the connections of all mounts, by mount.
#[derive(Default)]
pub struct KnownTargets {
    by_mount: Mutex<BTreeMap<String, LeastUsed<ConnectionTargets>>>,
}

impl KnownTargets {
    /// Returns the targets of these settings of a plugin, if the mount has asked before.
    pub fn find(&self, mount: &str, settings: &Fingerprint) -> Option<ConnectionTargets> {
        sync::lock(&self.by_mount).get_mut(mount)?.get(settings)
    }

    /// Stores the targets for the mount. A full mount drops its least recently used entry.
    pub fn remember(&self, mount: &str, settings: Fingerprint, targets: &ConnectionTargets) {
        let mut by_mount = sync::lock(&self.by_mount);
        let mount_targets = by_mount
            .entry(mount.to_owned())
            .or_insert_with(|| LeastUsed::of(limits::KNOWN_TARGETS));
        mount_targets.insert(settings, Arc::clone(targets));
    }

    /// Forgets the targets of a mount.
    pub fn forget(&self, mount: &str) {
        sync::lock(&self.by_mount).remove(mount);
    }
}

/// Checks the targets of an answer against their bounds.
///
/// # Errors
/// `invalid-request`, with the size of the answer and the bounds.
pub fn check_targets(connection: &str, targets: &[String]) -> Result<(), Failure> {
    let bytes = targets.iter().map(String::len).fold(0, usize::saturating_add);
    let (count, most) = (targets.len(), limits::TARGETS);
    if count <= most && bytes <= limits::TARGETS_BYTES {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "connection {connection:?} names {count} servers in {bytes} bytes; a connection names at \
         most {most} in {} bytes",
        limits::TARGETS_BYTES
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(number: usize) -> Fingerprint {
        Fingerprint::begin().bytes(number.to_string()).end()
    }

    fn targets(count: usize, bytes: usize) -> Vec<String> {
        vec!["x".repeat(bytes); count]
    }

    #[test]
    fn excess_or_long_targets_are_refused_with_maximum() {
        assert_eq!(check_targets("c", &targets(limits::TARGETS, 64)), Ok(()));
        for (count, bytes) in [(limits::TARGETS + 1, 1), (1, 6 << 20), (limits::TARGETS, 65)] {
            let refused = check_targets("c", &targets(count, bytes)).unwrap_err();
            let said = [format!("{count} servers"), format!("at most {}", limits::TARGETS)];
            assert!(said.iter().all(|said| refused.message.contains(said)), "{}", refused.message);
        }
    }

    #[test]
    fn known_targets_are_bounded_and_forgotten_per_mount() {
        let known_targets = KnownTargets::default();
        let one: ConnectionTargets = targets(1, 64).into();
        known_targets.remember("other", settings(0), &one);
        for number in 0..2 * limits::KNOWN_TARGETS {
            known_targets.remember("m", settings(number), &one);
        }
        assert_eq!(sync::lock(&known_targets.by_mount)["m"].count(), limits::KNOWN_TARGETS);
        assert_eq!(known_targets.find("m", &settings(0)), None);
        assert_eq!(known_targets.find("other", &settings(0)), Some(Arc::clone(&one)));
        assert_eq!(known_targets.find("another", &settings(0)), None);
        known_targets.forget("other");
        assert_eq!(known_targets.find("other", &settings(0)), None);
        assert_eq!(known_targets.find("m", &settings(2 * limits::KNOWN_TARGETS - 1)), Some(one));
    }
}
