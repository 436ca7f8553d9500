//! The tables in memory of a node, and the changes by other nodes that each table includes.
//!
//! This file prevents a table that misses a change: the number of changes is taken before a table
//! is read, so that a change during the reading is read again.

use bulkhead_store::{ForeignChangeCount, Store};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{Mutex, MutexGuard};

/// A table in memory, and the changes by other nodes that the table includes.
pub(crate) struct FollowedTable {
    counts: [ForeignChangeCount; 2],
    included: AtomicU64,
}

impl FollowedTable {
    /// Follows the records whose keys begin with one of the prefixes. The table is read afterwards.
    fn begin(store: &Store, prefixes: [&'static str; 2]) -> Self {
        let counts = prefixes.map(|prefix| store.follow(prefix));
        let table = Self { counts, included: AtomicU64::new(0) };
        table.included.store(table.changes(), Ordering::SeqCst);
        table
    }

    /// Returns the number of changes by other nodes. Never falls.
    pub(crate) fn changes(&self) -> u64 {
        self.counts.iter().map(ForeignChangeCount::get).fold(0, u64::wrapping_add)
    }

    /// Returns true if the table includes every change that this node has read.
    pub(crate) fn is_current(&self) -> bool {
        self.included.load(Ordering::SeqCst) == self.changes()
    }

    /// Notes that the table was read after `changes` changes.
    pub(crate) fn include(&self, changes: u64) {
        self.included.store(changes, Ordering::SeqCst);
    }
}

/// The tables in memory that follow the commits of other nodes. Policies follow in the crate
/// `access`.
pub(crate) struct FollowedTables {
    pub(crate) catalog: FollowedTable,
    pub(crate) mounts: FollowedTable,
    pub(crate) quotas: FollowedTable,
    pub(crate) audit: FollowedTable,
    /// Held while a table is read, or takes over a change of this node: a reading that began before
    /// a commit of this node must not replace the change.
    turn: Mutex<()>,
    /// The last look at the claim of a mount whose data another node migrates.
    pub(crate) claim_look: Mutex<Option<ClaimLook>>,
}

/// A look at the claim of a mount, for all requests that wait for the mount.
pub(crate) struct ClaimLook {
    pub(crate) uuid: String,
    pub(crate) moment: Instant,
    pub(crate) is_claimed: bool,
}

impl FollowedTables {
    /// Begins to follow. The caller reads the tables afterwards.
    pub(crate) fn begin(store: &Store) -> Self {
        Self {
            catalog: FollowedTable::begin(store, ["plugin/", "pin/"]),
            mounts: FollowedTable::begin(store, ["mount/", "builtin-mount/"]),
            quotas: FollowedTable::begin(store, ["quota/", "quota-config"]),
            audit: FollowedTable::begin(store, ["audit/", "audit-header/"]),
            turn: Mutex::default(),
            claim_look: Mutex::default(),
        }
    }

    /// Returns true if the tables include every change by other nodes that this node has read.
    pub(crate) fn are_current(&self) -> bool {
        [&self.catalog, &self.mounts, &self.quotas, &self.audit]
            .iter()
            .all(|table| table.is_current())
    }

    /// Waits for the end of a reading, and keeps the next from beginning.
    pub(crate) async fn hold(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}
