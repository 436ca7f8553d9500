//! Names of mounts by the prefixes of their rows, read from opened records without a running
//! service.

use super::record::{MountRecord, PREFIX};
use bulkhead_store::{Address, Space};
use bulkhead_wire::stored::Stored as _;
use std::collections::BTreeMap;

/// The paths of mounts by their uuids.
#[derive(Default)]
pub struct StoredMountNames(BTreeMap<String, String>);

impl StoredMountNames {
    /// Learns the name of a mount if the record describes a mount, and ignores other records.
    pub fn learn(&mut self, address: &Address, body: &[u8]) {
        if address.space == Space::Core
            && address.key.starts_with(PREFIX)
            && let Ok(record) = MountRecord::from_bytes(body)
        {
            self.0.insert(record.uuid, record.path.to_string());
        }
    }

    /// Returns the path of the mount to which a record belongs, and the record's name below the
    /// mount. `place` is an address as text. `None` if the record belongs to no known mount.
    pub fn split_place(&self, place: &str) -> Option<(&str, String)> {
        let (space, key) = place.split_once(':')?;
        let (uuid, rest) = key.split_once('/')?;
        Some((self.0.get(uuid)?, format!("{space}:{rest}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &str = include_str!("../../fixtures/records/mount.jsonl");

    #[test]
    fn record_of_mount_is_named_by_its_path() {
        let mut names = StoredMountNames::default();
        let first = RECORDS.lines().next().unwrap();
        names.learn(&Address::new(Space::Data, "mount/database/"), first.as_bytes());
        names.learn(&Address::new(Space::Core, "plugin/database/"), first.as_bytes());
        names.learn(&Address::new(Space::Core, "mount/other/"), b"{}");
        let place = "lease:6f1c1a52-7d0b-4f6e-9a51-3c1d2e4f5a6b/creds/a/1";
        assert_eq!(names.split_place(place), None);
        names.learn(&Address::new(Space::Core, "mount/database/"), first.as_bytes());
        assert_eq!(names.split_place(place), Some(("database/", "lease:creds/a/1".to_owned())));
        assert_eq!(names.split_place("the database file"), None);
        assert_eq!(names.split_place("core:mount/database/"), None);
    }
}
