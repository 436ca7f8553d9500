//! Indexes of the mount's history, as answers show them (decision F3).
//!
//! The host counts the commits of the mount and stamps each record with the index at which it was
//! created and last written. A table's index also grows when a record is deleted, so each write of
//! a table touches a marker of the table in the same commit.

use bulkhead_sdk::Failure;
use bulkhead_sdk::host::Storage;

/// A kind of record with an index of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// ACL policies.
    Policies,
    /// ACL roles.
    Roles,
    /// ACL tokens.
    Tokens,
}

impl Table {
    pub(crate) const ALL: [Self; 3] = [Self::Policies, Self::Roles, Self::Tokens];

    /// The key of the table's marker, which a blocked list watches.
    #[must_use]
    pub(crate) const fn marker(self) -> &'static str {
        match self {
            Self::Policies => "index/policies",
            Self::Roles => "index/roles",
            Self::Tokens => "index/tokens",
        }
    }

    /// Marks the table as changed by the commit of this call.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn touch(self, storage: &dyn Storage) -> Result<(), Failure> {
        storage.put_plain(self.marker(), &true)
    }

    /// Index of the table's last change; 1 before the first one, so that a client never waits for
    /// an index above 0, which would not block.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn index(self, storage: &dyn Storage) -> Result<u64, Failure> {
        let marker = storage.entry_bytes(self.marker())?;
        Ok(marker.map_or(1, |entry| entry.modified.max(1)))
    }
}

/// Index of the mount's last change, for writes that change nothing.
///
/// # Errors
/// Those of the store.
pub(crate) fn latest(storage: &dyn Storage) -> Result<u64, Failure> {
    Table::ALL.iter().try_fold(1, |latest, table| Ok(latest.max(table.index(storage)?)))
}
