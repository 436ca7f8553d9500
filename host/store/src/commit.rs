//! What a commit checks and writes: the reads and writes of one unit of work, and how several units
//! commit as one.
//!
//! The faults this file stops: an overwritten change that nobody saw (lost update), two requests
//! that each keep a rule and break it together (write skew), and a record that appears in a list
//! somebody relied on (phantom). Units that share a flush are plan one after another, in memory,
//! exactly as if each had committed alone.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::sqlite::SqliteConnection;

use crate::fault::StoreFault;
use crate::indexed::{IndexedWrites, Numbers};
use crate::range::KeyRange;
use crate::record::{Address, Record};
use crate::rows::{self, SealedRow, Stamp};
use crate::seal::Seal;
use crate::sqlite::{self, Database};
use crate::statements::{self, Present};

/// What a unit of work read since its last checkpoint.
#[derive(Clone, Default)]
pub(crate) struct Reads {
    keys: BTreeMap<Address, Option<Stamp>>,
    ranges: Vec<Listing>,
}

/// A listed range: reading it again must give the same keys.
#[derive(Clone)]
struct Listing {
    range: KeyRange,
    limit: u32,
    keys: Vec<String>,
}

impl Reads {
    /// Remembers that the record had this stamp, or was absent.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when it was read before and has changed since: such a unit can
    /// never commit.
    pub(crate) fn remember(
        &mut self,
        address: &Address,
        stamp: Option<Stamp>,
    ) -> Result<(), StoreFault> {
        let before = self.keys.insert(address.clone(), stamp);
        if before.is_some_and(|before| before != stamp) {
            Err(StoreFault::Conflict)
        } else {
            Ok(())
        }
    }

    /// Remembers that the first `limit` keys of `range` were these.
    pub(crate) fn remember_range(&mut self, range: KeyRange, limit: u32, keys: Vec<String>) {
        self.ranges.push(Listing { range, limit, keys });
    }

    /// These reads and `others` too.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when a key was read by both and had changed in between.
    pub(crate) fn and(mut self, others: &Reads) -> Result<Reads, StoreFault> {
        others.keys.iter().try_for_each(|(address, stamp)| self.remember(address, *stamp))?;
        self.ranges.extend(others.ranges.iter().cloned());
        Ok(self)
    }

    /// How many separate reads there were. A single one is consistent by itself.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() + self.ranges.len()
    }

    /// The remembered keys, if no range was listed.
    pub(crate) fn only_keys(&self) -> Option<&BTreeMap<Address, Option<Stamp>>> {
        self.ranges.is_empty().then_some(&self.keys)
    }
}

/// What a unit of work asks to have written.
#[derive(Default)]
pub(crate) struct Writes {
    /// Sealed already, by the task that asks.
    pub(crate) puts: Vec<SealedRow>,
    pub(crate) deletes: Vec<Address>,
    /// The change to the data of the mount for whose index the unit counts. Its deletes are among
    /// the others.
    pub(crate) indexed: Option<IndexedWrites>,
}

impl Writes {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty() && self.indexed.is_none()
    }
}

/// One unit of work, as it asks to be committed.
pub(crate) struct Work {
    pub(crate) reads: Reads,
    pub(crate) writes: Writes,
}

impl Work {
    /// Bytes of bodies to be written.
    pub(crate) fn bytes(&self) -> usize {
        let sealed: usize = self.writes.puts.iter().map(|row| row.sealed.len()).sum();
        sealed + self.indexed_puts().map(|(_, record)| record.body.len()).sum::<usize>()
    }

    /// Every address that it puts or deletes.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Address> {
        let indexed = self.indexed_puts().map(|(address, _)| address);
        let counter = self.writes.indexed.iter().map(|indexed| &indexed.counter);
        self.writes
            .puts
            .iter()
            .map(|row| &row.address)
            .chain(&self.writes.deletes)
            .chain(indexed)
            .chain(counter)
    }

    /// When the first of the records that it puts is due, in store time.
    pub(crate) fn earliest_due(&self) -> Option<u64> {
        let sealed = self
            .writes
            .puts
            .iter()
            .filter_map(|row| row.due)
            .map(|due| u64::try_from(due).unwrap_or_default());
        sealed.chain(self.indexed_puts().filter_map(|(_, record)| record.index.due)).min()
    }

    fn indexed_puts(&self) -> impl Iterator<Item = &(Address, Record)> {
        self.writes.indexed.iter().flat_map(|indexed| &indexed.puts)
    }
}

/// How the commit of one unit ended: the index committed at, if it counts for one, or why nothing
/// of it was written.
pub(crate) type Outcome = Result<Option<u64>, StoreFault>;

/// What a group leaves at one address.
enum Left<'a> {
    Nothing,
    Sealed(&'a SealedRow),
    Numbered(SealedRow),
}

impl Left<'_> {
    fn row(&self) -> Option<&SealedRow> {
        match self {
            Left::Nothing => None,
            Left::Sealed(row) => Some(row),
            Left::Numbered(row) => Some(row),
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
    numbers: Numbers<'a>,
    /// What the units so far leave behind.
    written: BTreeMap<&'a Address, Left<'a>>,
    /// For each unit, in order, how it ends once the group is committed.
    pub(crate) outcomes: Vec<Outcome>,
}

impl<'a> CommitPlan<'a> {
    /// Judges the units one after another, in the transaction open on `connection`.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn judge(
        connection: &mut SqliteConnection,
        seal: &Seal,
        works: &'a [Work],
    ) -> Result<Self, sqlx::Error> {
        let mut plan = CommitPlan::before(connection, works.iter().map(|work| &work.reads)).await?;
        plan.numbers = Numbers::read(connection, seal, works).await?;
        for work in works {
            let outcome = if plan.hold(connection, &work.reads).await? {
                plan.take_in(seal, &work.writes)
            } else {
                Err(StoreFault::Conflict)
            };
            plan.outcomes.push(outcome);
        }
        Ok(plan)
    }

    /// What is committed of all that `reads` remember, and nothing plan yet.
    async fn before(
        connection: &mut SqliteConnection,
        reads: impl Iterator<Item = &'a Reads>,
    ) -> Result<Self, sqlx::Error> {
        let asked: BTreeSet<&Address> = reads.flat_map(|reads| reads.keys.keys()).collect();
        let asked: Vec<&Address> = asked.into_iter().collect();
        Ok(CommitPlan {
            committed: statements::stamps(connection, &asked).await?,
            ..CommitPlan::default()
        })
    }

    /// Whether any unit may commit.
    pub(crate) fn any_commits(&self) -> bool {
        self.outcomes.iter().any(Result::is_ok)
    }

    /// Writes what the units leave behind: of two writes of one key, the later.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn write(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let puts: Vec<&SealedRow> = self.written.values().filter_map(Left::row).collect();
        let gone = self.written.iter().filter(|(_, left)| left.row().is_none());
        let deletes: Vec<&Address> = gone.map(|(address, _)| *address).collect();
        statements::put(connection, &puts).await?;
        statements::delete(connection, &deletes).await
    }

    /// Whether the committed state is what [`CommitPlan::write`] leaves behind. A stamp is new at
    /// each write, so a row that carries it proves the commit; keys that were to be deleted and are
    /// absent are as the commit would have left them. If nothing was plan, nothing was written.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn is_stored(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<bool, sqlx::Error> {
        let written: Vec<&Address> = self.written.keys().copied().collect();
        let present = statements::stamps(connection, &written).await?;
        let as_left = |(address, left): (&&Address, &Left<'_>)| {
            present.get(*address).copied() == left.present()
        };
        Ok(!self.written.is_empty() && self.written.iter().all(as_left))
    }

    fn take_in(&mut self, seal: &Seal, writes: &'a Writes) -> Outcome {
        let numbered = match &writes.indexed {
            Some(indexed) => Some((indexed, self.numbers.number(seal, indexed)?)),
            None => None,
        };
        for row in &writes.puts {
            self.numbers.gone(&row.address);
            self.written.insert(&row.address, Left::Sealed(row));
        }
        for address in &writes.deletes {
            self.numbers.gone(address);
            self.written.insert(address, Left::Nothing);
        }
        let Some((indexed, numbered)) = numbered else { return Ok(None) };
        self.numbers.counted(indexed, &numbered);
        self.written
            .extend(numbered.rows.into_iter().map(|(address, row)| (address, Left::Numbered(row))));
        Ok(Some(numbered.index))
    }

    /// Whether all of `reads` still holds, after the units so far.
    async fn hold(
        &self,
        connection: &mut SqliteConnection,
        reads: &Reads,
    ) -> Result<bool, sqlx::Error> {
        let remembered = |(address, stamp): (&Address, &Option<Stamp>)| {
            self.present(address) == stamp.map(Present::Stamped)
        };
        Ok(reads.keys.iter().all(remembered) && self.ranges_hold(connection, &reads.ranges).await?)
    }

    fn present(&self, address: &Address) -> Option<Present> {
        match self.written.get(address) {
            Some(left) => left.present(),
            None => self.committed.get(address).copied(),
        }
    }

    async fn ranges_hold(
        &self,
        connection: &mut SqliteConnection,
        ranges: &[Listing],
    ) -> Result<bool, sqlx::Error> {
        for listing in ranges {
            let committed = rows::list(&mut *connection, &listing.range, listing.limit).await?;
            if committed != listing.keys || !self.leaves(listing) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the units so far neither add a key to the listed page nor take one from it.
    fn leaves(&self, listing: &Listing) -> bool {
        let full = u32::try_from(listing.keys.len()).is_ok_and(|listed| listed >= listing.limit);
        let end = listing.keys.last().filter(|_| full);
        self.written.iter().filter(|(address, _)| listing.range.contains(address)).all(
            |(address, left)| {
                let listed = listing.keys.binary_search(&address.key).is_ok();
                let beyond = end.is_some_and(|end| address.key > *end);
                beyond || listed == left.row().is_some()
            },
        )
    }
}

impl Database {
    /// Checks that all of `reads` were true at one moment. Takes no write lock.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when they were not; [`StoreFault::Unavailable`] when that cannot be
    /// read.
    pub(crate) async fn validate(&self, reads: &Reads) -> Result<(), StoreFault> {
        let mut snapshot = self.snapshot().await.map_err(sqlite::fault)?;
        let before =
            CommitPlan::before(&mut snapshot, [reads].into_iter()).await.map_err(sqlite::fault)?;
        let held = before.hold(&mut snapshot, reads).await.map_err(sqlite::fault)?;
        snapshot.rollback().await.map_err(sqlite::fault)?;
        if held { Ok(()) } else { Err(StoreFault::Conflict) }
    }
}
