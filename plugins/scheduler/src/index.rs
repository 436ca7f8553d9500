//! Indexes of the mount's history, as shown in answers (decision F3).
//!
//! The host counts the commits of the mount and stamps each record with the indexes of its creation
//! and last write. A table's index must also grow when a record is deleted, so each write of a
//! table touches a marker of the table in the same commit.

use bulkhead_sdk::Failure;
use bulkhead_sdk::host::Storage;

/// A kind of record with its own index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordTable {
    /// ACL policies.
    Policies,
    /// ACL roles.
    Roles,
    /// ACL tokens.
    Tokens,
}

impl RecordTable {
    pub(crate) const ALL: [Self; 3] = [Self::Policies, Self::Roles, Self::Tokens];

    /// Returns the name of the table, in paths of lists and in labels.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Policies => "policies",
            Self::Roles => "roles",
            Self::Tokens => "tokens",
        }
    }

    /// Returns the word of a record, in paths of single records.
    #[must_use]
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Policies => "policy",
            Self::Roles => "role",
            Self::Tokens => "token",
        }
    }

    /// Returns the key of the table's marker. Blocking lists wait for a change of the marker.
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
    /// Failures of the store.
    pub(crate) fn touch(self, storage: &dyn Storage) -> Result<(), Failure> {
        storage.put_plain(self.marker(), &true)
    }

    /// Returns the index of the table's last change. Before the first change the index is 1,
    /// because a client that waits with index 0 would not block.
    ///
    /// # Errors
    /// Failures of the store.
    pub(crate) fn index(self, storage: &dyn Storage) -> Result<u64, Failure> {
        let marker = storage.entry_bytes(self.marker())?;
        Ok(marker.map_or(1, |entry| entry.modified.max(1)))
    }
}

/// Returns the highest index of all tables, for answers to writes that change nothing.
///
/// # Errors
/// Failures of the store.
pub(crate) fn latest(storage: &dyn Storage) -> Result<u64, Failure> {
    RecordTable::ALL.iter().try_fold(1, |latest, table| Ok(latest.max(table.index(storage)?)))
}
