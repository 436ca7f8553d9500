//! The plan of a group commit: the units that may commit, and their combined writes.
//!
//! This file prevents the overwriting of a change that the writer never saw (lost update), two
//! requests that each keep a rule but break the rule together (write skew), and a record added to a
//! list on which a request relied (phantom). Units with a shared flush are planned one after
//! another, in memory, exactly as if each had committed alone.

use std::collections::BTreeMap;

use crate::change_watch::ChangeWatch;
use crate::database::Database;
use crate::open_data::OpenData;
use crate::revision::{self, RevisionPlan};
use crate::stored::{self, StoredBytes, StoredTotals};
use crate::work::{CommitOutcome, CommitRequest, ListedKeys, ReadSet};
use crate::write_queue::ContendedKey;
use bulkhead_record::committed_state::{AddressState, CommittedState, GroupWrites, StateQuestions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Space, Stamp};
use bulkhead_record::rows::SealedRow;
use bulkhead_record::seal::Seal;

/// A group's write at one address.
enum PlannedWrite<'a> {
    Deleted,
    /// A row sealed by the unit's task.
    Sealed(&'a SealedRow),
    /// A row sealed here, with the new revision.
    Revised(SealedRow),
}

impl PlannedWrite<'_> {
    fn row(&self) -> Option<&SealedRow> {
        match self {
            PlannedWrite::Deleted => None,
            PlannedWrite::Sealed(row) => Some(row),
            PlannedWrite::Revised(row) => Some(row),
        }
    }

    fn present(&self) -> Option<AddressState> {
        self.row().map(|row| AddressState::Stamped(row.stamp))
    }
}

/// Returns the questions about all remembered reads, about counters of revisions, and about the
/// stored bytes of mounts without certain room according to `stored_bytes`. Units that rely on
/// folders also ask for what other nodes wrote after the last read of `changes`.
pub(crate) fn questions_about<'a>(
    works: &'a [CommitRequest],
    (stored_bytes, changes): (&StoredBytes, &ChangeWatch),
) -> StateQuestions<'a> {
    let mut questions = StateQuestions::default();
    works.iter().for_each(|work| ask_reads(&mut questions, &work.reads));
    revision::ask(&mut questions, works.iter().filter_map(|work| work.writes.revised.as_ref()));
    stored::ask(&mut questions, works, stored_bytes);
    if works.iter().any(|work| work.reads.has_folders()) {
        // What other nodes wrote meanwhile counts as written before the group.
        questions.known_commits = changes.known().map(|known| known.numbers);
    }
    questions
}

/// Adds the questions about remembered reads: stamps of records, and keys in ranges.
fn ask_reads<'a>(questions: &mut StateQuestions<'a>, reads: &'a ReadSet) {
    questions.stamps.extend(reads.keys().keys().chain(reads.present()));
    questions.listings.extend(reads.listings().map(|(range, listing)| (range, listing.limit)));
}

/// A plan for units that commit together: the units that may commit, and their combined writes.
#[derive(Default)]
pub(crate) struct CommitPlan<'a> {
    committed: CommittedState<'a>,
    revisions: RevisionPlan<'a>,
    /// The stored bytes of mounts that may reach their limit.
    pub(crate) stored: StoredTotals<'a>,
    /// The writes of the units planned so far.
    written: BTreeMap<&'a Address, PlannedWrite<'a>>,
    /// The result of each unit, in order, once the group is committed.
    pub(crate) outcomes: Vec<CommitOutcome>,
}

impl<'a> CommitPlan<'a> {
    /// Plans the units one after another. `committed` are the answers to [`questions_about`] the
    /// units, from the transaction that will write the units.
    pub(crate) fn make(
        data: &OpenData,
        works: &'a [CommitRequest],
        mut committed: CommittedState<'a>,
    ) -> Self {
        let OpenData { seal, folders, .. } = data;
        let revised = works.iter().filter_map(|work| work.writes.revised.as_ref());
        let mut plan = CommitPlan {
            stored: StoredTotals::of(&mut committed),
            revisions: RevisionPlan::read(revised, &mut committed, seal),
            committed,
            ..CommitPlan::default()
        };
        for work in works {
            let obstacle = match work.give_way() {
                None => {
                    let has =
                        |name: &str, number| folders.has(name, number) && !plan.writes_below(name);
                    match work.reads.changed_folder(has) {
                        None => plan.find_changed(&work.reads),
                        changed => changed,
                    }
                }
                gives_way => gives_way,
            };
            let outcome = match obstacle {
                None => plan.add(seal, work),
                Some(contended) => {
                    data.note_contended(Some(&contended));
                    work.report(contended);
                    Err(StoreFault::Conflict)
                }
            };
            plan.outcomes.push(outcome);
        }
        plan
    }

    /// Returns `true` if any unit may commit.
    pub(crate) fn any_commits(&self) -> bool {
        self.outcomes.iter().any(Result::is_ok)
    }

    /// Returns the number of rows that the planned writes put or delete.
    pub(crate) fn rows_written(&self) -> u64 {
        self.written.len() as u64
    }

    /// Returns the planned writes; if a key is written twice, only the later write.
    pub(crate) fn writes(&self) -> GroupWrites<'_> {
        let deleted = self.written.iter().filter(|(_, written)| written.row().is_none());
        GroupWrites {
            puts: self.written.values().filter_map(PlannedWrite::row).collect(),
            deletes: deleted.map(|(address, _)| *address).collect(),
            ..GroupWrites::default()
        }
    }

    /// Returns `true` if the committed state is the state that [`CommitPlan::writes`] leaves
    /// behind. A stamp is new at each write, so a row with the planned stamp proves the commit; an
    /// absent key among the planned deletions matches the commit as well. If nothing was planned,
    /// nothing was written.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn is_stored(&self, database: &Database) -> Result<bool, StoreFault> {
        let present = database.look_up_stamps(self.written.keys().copied()).await?;
        let is_there = |(address, written): (&&Address, &PlannedWrite<'_>)| {
            present.get(*address).copied() == written.present()
        };
        Ok(!self.written.is_empty() && self.written.iter().all(is_there))
    }

    /// Adds the writes of a unit.
    fn add(&mut self, seal: &Seal, work: &'a CommitRequest) -> CommitOutcome {
        let writes = &work.writes;
        let revised = match &writes.revised {
            Some(revised) => Some((revised, self.revisions.number(seal, revised)?)),
            None => None,
        };
        self.stored.admit(work)?;
        for row in &writes.puts {
            self.revisions.forget(&row.address);
            self.written.insert(&row.address, PlannedWrite::Sealed(row));
        }
        for address in &writes.deletes {
            self.revisions.forget(address);
            self.written.insert(address, PlannedWrite::Deleted);
        }
        let Some((revised, numbered)) = revised else { return Ok(None) };
        self.revisions.remember(revised, &numbered);
        let rows = numbered.rows.into_iter();
        self.written.extend(rows.map(|(address, row)| (address, PlannedWrite::Revised(row))));
        Ok(Some(numbered.revision))
    }

    /// Returns a read that no longer holds after the units planned so far.
    fn find_changed(&self, reads: &ReadSet) -> Option<ContendedKey> {
        let is_changed = |(address, stamp): &(&Address, &Option<Stamp>)| {
            self.present(address) != stamp.map(AddressState::Stamped)
        };
        if let Some((address, _)) = reads.keys().iter().find(is_changed) {
            return Some(ContendedKey::Record(address.clone()));
        }
        if let Some(gone) = reads.present().iter().find(|one| self.present(one).is_none()) {
            return Some(ContendedKey::Record(gone.clone()));
        }
        let is_changed = |(range, listing): &(&KeyRange, &ListedKeys)| {
            let committed = self.committed.listings.get(&(*range, listing.limit));
            committed != Some(&listing.keys) || self.changes(range, listing)
        };
        let changed = reads.listings().find(is_changed);
        changed.map(|(range, _)| ContendedKey::Listing(range.clone()))
    }

    /// Returns `true` if the units so far, or other nodes after the last read of changes, write
    /// data whose keys begin with `folder`.
    fn writes_below(&self, folder: &str) -> bool {
        let range = KeyRange::new(Space::Data, folder, "");
        let CommittedState { changed, has_gap, .. } = &self.committed;
        let mut written = self.written.keys().copied().chain(changed);
        *has_gap || written.any(|address| range.contains(address))
    }

    fn present(&self, address: &Address) -> Option<AddressState> {
        match self.written.get(address) {
            Some(written) => written.present(),
            None => self.committed.stamps.get(address).copied(),
        }
    }

    /// Returns `true` if the units so far add a key to the listed page or remove a key from it.
    fn changes(&self, range: &KeyRange, listing: &ListedKeys) -> bool {
        let is_full = u32::try_from(listing.keys.len()).is_ok_and(|found| found >= listing.limit);
        let end = listing.keys.last().filter(|_| is_full);
        let mut within = self.written.iter().filter(|(address, _)| range.contains(address));
        within.any(|(address, written)| {
            let is_listed = listing.keys.binary_search(&address.key).is_ok();
            let is_beyond = end.is_some_and(|end| address.key > *end);
            !is_beyond && is_listed != written.row().is_some()
        })
    }
}

impl Database {
    /// Returns a read that did not hold at the same moment as the others, if any. Takes no write
    /// lock.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn find_changed(
        &self,
        reads: &ReadSet,
    ) -> Result<Option<ContendedKey>, StoreFault> {
        let mut questions = StateQuestions::default();
        ask_reads(&mut questions, reads);
        let committed = self.read_state(questions).await?;
        let plan = CommitPlan { committed, ..CommitPlan::default() };
        Ok(plan.find_changed(reads))
    }
}
