//! The questions about the committed state on which a group of units depends, the answers, and the
//! writes of the group.
//!
//! A commit asks and writes in a single transaction, so that no other commit changes an answer
//! before the writes. The three types are values: a database turns questions and writes into its
//! own statements, and everything else of a commit is decided in memory (`crate::plan`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::fault::StoreFault;
use crate::meta_rows::MetaChange;
use crate::range::KeyRange;
use crate::record::{Address, Stamp};
use crate::rows::SealedRow;

/// A range and the requested number of keys.
pub type RequestedRange<'a> = (&'a KeyRange, u32);

/// The questions of a group. All answers are of one state.
#[derive(Default)]
pub struct StateQuestions<'a> {
    /// Addresses of which the stamps are needed.
    pub stamps: BTreeSet<&'a Address>,
    /// Ranges of which the first keys are needed.
    pub listings: HashSet<RequestedRange<'a>>,
    /// Addresses of which the rows are needed.
    pub rows: BTreeSet<&'a Address>,
    /// Counters of which the bytes are needed (`crate::stored_limit`).
    pub counters: BTreeSet<&'a str>,
    /// Addresses of which the counted bytes of the rows are needed.
    pub sizes: BTreeSet<&'a Address>,
    /// Numbers of commits of nodes, by name, after which the changed addresses are needed.
    pub known_commits: Option<BTreeMap<String, i64>>,
}

/// The answers to [`StateQuestions`]. An address without a row has no entry.
#[derive(Default)]
pub struct CommittedState<'a> {
    /// The states of the addresses.
    pub stamps: BTreeMap<&'a Address, AddressState>,
    /// The first committed keys of each range, in order.
    pub listings: HashMap<RequestedRange<'a>, Vec<String>>,
    /// [`StoreFault::Damaged`] for a row with a shape that was never written.
    pub rows: BTreeMap<&'a Address, Result<SealedRow, StoreFault>>,
    /// The bytes of every requested counter; 0 for a counter without a row.
    pub counters: BTreeMap<&'a str, u64>,
    /// The counted bytes of the rows.
    pub sizes: BTreeMap<&'a Address, u64>,
    /// The addresses that changed after the known commits.
    pub changed: BTreeSet<Address>,
    /// Any address may have changed after the known commits.
    pub has_gap: bool,
}

/// The state of an address, reduced to the part needed for comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// A row with this stamp.
    Stamped(Stamp),
    /// A row whose stamp has a shape that was never written.
    Unreadable,
}

/// The writes of a group. No address is both put and deleted.
#[derive(Default)]
pub struct GroupWrites<'a> {
    /// Rows to insert, or to put in place of the row at the same address.
    pub puts: Vec<&'a SealedRow>,
    /// Addresses to delete; an address without a row changes nothing.
    pub deletes: Vec<&'a Address>,
    /// Changes to the rows of the store's identity.
    pub identity: Vec<MetaChange>,
    /// The writing node waits until other nodes have read the changes.
    pub is_awaited: bool,
}
