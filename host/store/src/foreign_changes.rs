//! The changes that other nodes of a shared database committed, as a read finds them.
//!
//! This file prevents a change that a reader misses: the commits of one node have numbers in order
//! and without gaps, so that a reader needs the last known number of each node, and no guess about
//! the order of commits.

use std::collections::BTreeMap;

use bulkhead_record::record::{Address, Space};

/// A number after every commit.
pub(crate) const AFTER_ALL: i64 = i64::MAX - 1;

/// The last known commits of nodes, by the names of the nodes' rows. No change is read of the own
/// row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownCommits {
    pub(crate) numbers: BTreeMap<String, i64>,
    /// The claims of the nodes that had one at the last read. Rows of other nodes do not change
    /// before an opening.
    pub(crate) holders: BTreeMap<String, Vec<u8>>,
}

impl KnownCommits {
    /// Returns the knowledge of a process with the row `own` before its first read.
    pub(crate) fn of_node(own: String) -> KnownCommits {
        let numbers = BTreeMap::from([(own, AFTER_ALL)]);
        KnownCommits { numbers, holders: BTreeMap::new() }
    }

    /// Returns the numbers of the nodes that may commit, and of the own row.
    pub(crate) fn followed(&self) -> BTreeMap<String, i64> {
        let may_commit =
            |name: &str, number| number == AFTER_ALL || self.holders.contains_key(name);
        let followed = self.numbers.iter().filter(|(name, number)| may_commit(name, **number));
        followed.map(|(name, number)| (name.clone(), *number)).collect()
    }

    /// Adds the numbers of nodes that had ended before the last read, and of which nothing is new.
    pub(crate) fn complete_from(&mut self, earlier: &KnownCommits) {
        for (name, number) in &earlier.numbers {
            self.numbers.entry(name.clone()).or_insert(*number);
        }
    }
}

/// The result of a read of changes.
#[derive(Debug, Default)]
pub(crate) struct ForeignChanges {
    /// Addresses of the records that other nodes put or deleted since the known commits.
    pub(crate) addresses: Vec<Address>,
    /// Changes since the known commits are stored no longer: any record may have changed.
    pub(crate) has_gap: bool,
    /// A node waits until its changes are read.
    pub(crate) is_awaited: bool,
    /// Length of the sealed keyring in bytes. The keyring grows with each term.
    pub(crate) keyring_bytes: i64,
    /// The stored mark of the time that the data have reached, in milliseconds since 1970.
    pub(crate) time_mark: Option<u64>,
    /// The clock of the database during the read, in milliseconds since 1970.
    pub(crate) database_time: Option<u64>,
    /// The data were restored, and wait for a release.
    pub(crate) is_restored: bool,
    /// The claims of nodes that have ended by the clock of the database.
    pub(crate) expired: Vec<ExpiredClaim>,
    /// The number of the last proof of this process that the database shows.
    pub(crate) own_proof: Option<u64>,
    /// The commits that this read has seen.
    pub(crate) known: KnownCommits,
}

/// The claim of a node that shares the database, after its end by the clock of the database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExpiredClaim {
    /// Name of the row of the node.
    pub(crate) node: String,
    /// End of the claim, in the words of the database: a renewed claim has another end.
    pub(crate) until: String,
}

/// Returns whether nodes have records of this kind in memory. Others are many, and are read once or
/// twice.
pub(crate) fn is_followed(space: Space) -> bool {
    matches!(space, Space::Core | Space::Data | Space::Token)
}
