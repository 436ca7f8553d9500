//! How several units of work commit as one: which of them may, and what they write together.
//!
//! The faults this file stops: an overwritten change that its writer never saw (lost update), two
//! requests that each keep a rule and break it together (write skew), and a record that appears in
//! a list on which a request relied (phantom). Units that share a flush are planned one after
//! another, in memory, exactly as if each had committed alone.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::sqlite::SqliteConnection;

use crate::fault::StoreFault;
use crate::open_data::OpenData;
use crate::range::KeyRange;
use crate::record::{Address, Space, Stamp};
use crate::revision::Revisions;
use crate::rows::{self, SealedRow};
use crate::seal::Seal;
use crate::sqlite::{self, Database};
use crate::statements::{self, Present};
use crate::turns::Contended;
use crate::work::{Listing, Outcome, Reads, Work, Writes};

/// What a group writes at one address.
enum Written<'a> {
    Deleted,
    /// Sealed by the task of its unit.
    Sealed(&'a SealedRow),
    /// Sealed here, with the revision that it got.
    Revised(SealedRow),
}

impl Written<'_> {
    fn row(&self) -> Option<&SealedRow> {
        match self {
            Written::Deleted => None,
            Written::Sealed(row) => Some(row),
            Written::Revised(row) => Some(row),
        }
    }

    fn present(&self) -> Option<Present> {
        self.row().map(|row| Present::Stamped(row.stamp))
    }
}

/// Units that commit as one: which of them may, and what they write together.
#[derive(Default)]
pub(crate) struct CommitPlan<'a> {
    /// What was there before, of all that was remembered.
    committed: BTreeMap<&'a Address, Present>,
    revisions: Revisions<'a>,
    /// What the units so far write.
    written: BTreeMap<&'a Address, Written<'a>>,
    /// For each unit, in order, how it ends once the group is committed.
    pub(crate) outcomes: Vec<Outcome>,
}

impl<'a> CommitPlan<'a> {
    /// Plans the units one after another, in the transaction open on `connection`.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn make(
        connection: &mut SqliteConnection,
        data: &OpenData,
        works: &'a [Work],
    ) -> Result<Self, sqlx::Error> {
        let OpenData { seal, folders, .. } = data;
        let reads = works.iter().map(|work| &work.reads);
        let mut plan = CommitPlan::of_committed(connection, reads).await?;
        let revised = works.iter().filter_map(|work| work.writes.revised.as_ref());
        plan.revisions = Revisions::read(connection, seal, revised).await?;
        for work in works {
            let obstacle = match work.give_way() {
                None => {
                    let has =
                        |name: &str, number| folders.has(name, number) && !plan.writes_below(name);
                    match work.reads.changed_folder(has) {
                        None => plan.find_changed(connection, &work.reads).await?,
                        changed => changed,
                    }
                }
                gives_way => gives_way,
            };
            let outcome = match obstacle {
                None => plan.add(seal, &work.writes),
                Some(contended) => {
                    work.report(contended);
                    Err(StoreFault::Conflict)
                }
            };
            plan.outcomes.push(outcome);
        }
        Ok(plan)
    }

    /// A plan without units, and what is committed of all that `reads` remember.
    async fn of_committed(
        connection: &mut SqliteConnection,
        reads: impl Iterator<Item = &'a Reads>,
    ) -> Result<Self, sqlx::Error> {
        let asked: BTreeSet<&Address> = reads.flat_map(|reads| reads.keys().keys()).collect();
        let asked: Vec<&Address> = asked.into_iter().collect();
        let committed = statements::stamps(connection, &asked).await?;
        Ok(CommitPlan { committed, ..CommitPlan::default() })
    }

    /// Whether any unit may commit.
    pub(crate) fn any_commits(&self) -> bool {
        self.outcomes.iter().any(Result::is_ok)
    }

    /// Writes what is planned: of two writes of one key, the later.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn write(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let puts: Vec<&SealedRow> = self.written.values().filter_map(Written::row).collect();
        let deleted = self.written.iter().filter(|(_, written)| written.row().is_none());
        let deletes: Vec<&Address> = deleted.map(|(address, _)| *address).collect();
        statements::put(connection, &puts).await?;
        statements::delete(connection, &deletes).await
    }

    /// Whether the committed state is what [`CommitPlan::write`] leaves behind. A stamp is new at
    /// each write, so a row that carries it proves the commit; keys that were to be deleted and are
    /// absent are as the commit would have left them. If nothing was planned, nothing was written.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn is_stored(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<bool, sqlx::Error> {
        let addresses: Vec<&Address> = self.written.keys().copied().collect();
        let present = statements::stamps(connection, &addresses).await?;
        let is_there = |(address, written): (&&Address, &Written<'_>)| {
            present.get(*address).copied() == written.present()
        };
        Ok(!self.written.is_empty() && self.written.iter().all(is_there))
    }

    /// Adds what one unit writes.
    fn add(&mut self, seal: &Seal, writes: &'a Writes) -> Outcome {
        let revised = match &writes.revised {
            Some(revised) => Some((revised, self.revisions.number(seal, revised)?)),
            None => None,
        };
        for row in &writes.puts {
            self.revisions.forget(&row.address);
            self.written.insert(&row.address, Written::Sealed(row));
        }
        for address in &writes.deletes {
            self.revisions.forget(address);
            self.written.insert(address, Written::Deleted);
        }
        let Some((revised, numbered)) = revised else { return Ok(None) };
        self.revisions.remember(revised, &numbered);
        let rows = numbered.rows.into_iter();
        self.written.extend(rows.map(|(address, row)| (address, Written::Revised(row))));
        Ok(Some(numbered.revision))
    }

    /// The first of `reads` that no longer holds, after the units so far.
    async fn find_changed(
        &self,
        connection: &mut SqliteConnection,
        reads: &Reads,
    ) -> Result<Option<Contended>, sqlx::Error> {
        let is_changed = |(address, stamp): &(&Address, &Option<Stamp>)| {
            self.present(address) != stamp.map(Present::Stamped)
        };
        match reads.keys().iter().find(is_changed) {
            Some((address, _)) => Ok(Some(Contended::Record(address.clone()))),
            None => self.find_changed_listing(connection, reads.listings()).await,
        }
    }

    /// Whether the units so far write data of which the keys begin with `folder`.
    fn writes_below(&self, folder: &str) -> bool {
        let range = KeyRange::new(Space::Data, folder, "");
        self.written.keys().any(|address| range.contains(address))
    }

    fn present(&self, address: &Address) -> Option<Present> {
        match self.written.get(address) {
            Some(written) => written.present(),
            None => self.committed.get(address).copied(),
        }
    }

    async fn find_changed_listing(
        &self,
        connection: &mut SqliteConnection,
        listings: impl Iterator<Item = (&KeyRange, &Listing)>,
    ) -> Result<Option<Contended>, sqlx::Error> {
        for (range, listing) in listings {
            let committed = rows::list(&mut *connection, range, listing.limit).await?;
            if committed != listing.keys || self.changes(range, listing) {
                return Ok(Some(Contended::Listing(range.clone())));
            }
        }
        Ok(None)
    }

    /// Whether the units so far add a key to the listed page or take one from it.
    fn changes(&self, range: &KeyRange, listing: &Listing) -> bool {
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
    /// What of `reads` was not true at one moment with the others. Takes no write lock.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when that cannot be read.
    pub(crate) async fn find_changed(
        &self,
        reads: &Reads,
    ) -> Result<Option<Contended>, StoreFault> {
        let mut snapshot = self.snapshot().await.map_err(sqlite::fault)?;
        let plan = CommitPlan::of_committed(&mut snapshot, [reads].into_iter())
            .await
            .map_err(sqlite::fault)?;
        let changed = plan.find_changed(&mut snapshot, reads).await.map_err(sqlite::fault)?;
        snapshot.rollback().await.map_err(sqlite::fault)?;
        Ok(changed)
    }
}
