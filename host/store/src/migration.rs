//! Migration of a store from one database to another, while no server uses either database.
//!
//! This file prevents a destination that looks complete and lacks a record: until every record was
//! compared with the source, the destination has no identity, only the row `migration` with the
//! position of the copy, and no server starts on such data. The last transaction replaces this row
//! by the identity.
//!
//! Records are copied sealed, in the order of their first write, and no key is needed. Each batch
//! is a transaction that also moves the position: number and digest of the copied records. A
//! migration that was interrupted reads the source again up to the position and compares the
//! digest. If the digests differ, or the destination has another number of records, the copy begins
//! again.
//!
//! - `position`: the row, and the digest of records;
//! - `source`, `destination`: the checks and operations of both ends;
//! - `copying`, `comparing`: the two passes over the records.

mod comparing;
mod copying;
mod destination;
mod position;
mod source;
mod step_fault;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::copying::{CopyOutcome, RecordCopy};
use self::destination::{DestinationState, MigrationDestination};
use self::position::MigrationPosition;
use self::source::MigrationSource;
use self::step_fault::StepFault;
use crate::database::Database;
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::MetaRows;

/// Maximum number of attempts in a row that copy no further record.
const MAX_ATTEMPTS: u32 = 6;
/// Maximum number of records in a batch.
const BATCH_RECORDS: usize = 1_000;
/// Pause before the second attempt; the pause doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A step of a migration, for the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationEvent {
    /// The copy continues after this number of records, which an earlier run copied.
    Resumed {
        /// Number of records.
        records: u64,
    },
    /// The records of an earlier run are not those of the source. The copy begins again.
    StartedOver,
    /// Records were copied.
    Copied {
        /// Number of copied records.
        records: u64,
        /// Number of records of the source.
        total: u64,
    },
    /// Records of the destination were compared with the source.
    Compared {
        /// Number of compared records.
        records: u64,
        /// Number of records of the source.
        total: u64,
    },
    /// A database failed. The migration waits and tries again.
    Retrying {
        /// The error.
        fault: String,
        /// Time until the attempt.
        pause: Duration,
    },
}

/// The result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// Number of records, all compared.
    pub records: u64,
    /// Public name of the cluster.
    pub cluster: String,
    /// Name of the source in messages.
    pub source: String,
    /// Name of the destination in messages.
    pub destination: String,
    /// The reason why the source could not be marked as migrated: a server would start there.
    pub unmarked: Option<String>,
}

/// The receiver of the steps.
type Observer<'a> = dyn FnMut(MigrationEvent) + 'a;

/// The size of batches and the time between attempts.
struct MigrationPace {
    batch_records: usize,
    first_pause: Duration,
}

/// A migration in progress.
struct Migration<'a> {
    source: MigrationSource<'a>,
    destination: MigrationDestination<'a>,
    pace: MigrationPace,
    /// The destination was opened for writing by this run.
    is_begun: bool,
    /// The records of an earlier run were removed by this run.
    is_started_over: bool,
    /// All records were compared by this run, so that the last transaction may be stored.
    compared: Option<u64>,
    unmarked: Option<String>,
    position: u64,
}

/// Copies all data of the store at `source` to the store at `destination`, and compares every
/// record. No server may use either store. The source is only read; at the end, the source is
/// marked, so that no server starts on the source. If the migration was interrupted, another call
/// continues.
///
/// # Errors
/// [`StoreFault::Refused`] if a store is in use, both are the same, the source is not initialised,
/// damaged or of another version, or the destination holds other data;
/// [`StoreFault::Unavailable`] if a database cannot be read or written. In both cases no server
/// starts on the destination.
pub async fn migrate(
    source: &StoreOptions,
    destination: &StoreOptions,
    observe: &mut Observer<'_>,
) -> Result<MigrationReport, StoreFault> {
    let pace = MigrationPace { batch_records: BATCH_RECORDS, first_pause: FIRST_PAUSE };
    Migration::prepare(source, destination, pace).await?.run(observe).await
}

/// Removes the mark of a migration from the store at `source`, so that a server starts on the store
/// again. Returns the name of the place to which the data were migrated; `None` if there was no
/// mark.
///
/// # Errors
/// As [`migrate`], for the source.
pub async fn remove_migration_mark(source: &StoreOptions) -> Result<Option<String>, StoreFault> {
    MigrationSource::open(source).await?.remove_mark().await
}

impl<'a> Migration<'a> {
    /// Checks and locks both ends. Nothing is written to a database.
    async fn prepare(
        source: &'a StoreOptions,
        destination: &'a StoreOptions,
        pace: MigrationPace,
    ) -> Result<Migration<'a>, StoreFault> {
        if are_same(source, destination) {
            return Err(StoreFault::Refused(
                "source and destination are the same place; nothing was changed; name two \
                 different places"
                    .to_owned(),
            ));
        }
        let source = MigrationSource::open(source).await?;
        let destination = MigrationDestination::hold(destination)?;
        source.check_mark(&destination.name())?;
        Ok(Migration {
            source,
            destination,
            pace,
            is_begun: false,
            is_started_over: false,
            compared: None,
            unmarked: None,
            position: 0,
        })
    }

    /// Runs attempts until one succeeds, or several in a row copy nothing.
    async fn run(mut self, observe: &mut Observer<'_>) -> Result<MigrationReport, StoreFault> {
        let (mut attempt, mut pause) = (1, self.pace.first_pause);
        loop {
            let before = self.position;
            let fault = match self.attempt(observe).await {
                Ok(records) => return Ok(self.report(records)),
                Err(StepFault::Final(fault @ StoreFault::Unavailable(_))) if self.is_begun => {
                    return Err(self.end_attempts(&fault));
                }
                Err(StepFault::Final(fault)) => return Err(fault),
                Err(StepFault::Transient(fault)) if !self.is_begun => return Err(fault),
                Err(StepFault::Transient(fault)) => fault,
            };
            if self.position > before {
                (attempt, pause) = (1, self.pace.first_pause);
            }
            if attempt >= MAX_ATTEMPTS {
                return Err(self.end_attempts(&fault));
            }
            observe(MigrationEvent::Retrying { fault: fault.to_string(), pause });
            tokio::time::sleep(pause).await;
            (attempt, pause) = (attempt + 1, pause * 2);
        }
    }

    /// Returns the error of a migration that ends here, with the way to go on.
    fn end_attempts(&self, fault: &StoreFault) -> StoreFault {
        StoreFault::Unavailable(format!(
            "{fault}; the migration gave up after {} records, and no server starts on the \
             destination; run the same command again to continue",
            self.position
        ))
    }

    /// Opens the destination, and continues the migration from its position to the end. Returns the
    /// number of records.
    async fn attempt(&mut self, observe: &mut Observer<'_>) -> Result<u64, StepFault> {
        let start = match self.destination.read_state(self.source.cluster()).await? {
            DestinationState::Empty => MigrationPosition::of(self.source.cluster()),
            DestinationState::Unfinished(position) => position,
            DestinationState::Initialised(rows) => return self.find_end(&rows).await,
        };
        let database = self.destination.open(&start).await?;
        self.is_begun = true;
        let outcome = self.fill(&database, start, observe).await;
        database.close().await;
        match outcome? {
            Some(records) => Ok(records),
            None if self.is_started_over => Err(StepFault::Final(StoreFault::Refused(
                "the records of the source change during the migration; stop each process that \
                 uses the source, then run the same command again"
                    .to_owned(),
            ))),
            None => {
                self.destination.remove().await?;
                (self.is_started_over, self.position) = (true, 0);
                observe(MigrationEvent::StartedOver);
                Box::pin(self.attempt(observe)).await
            }
        }
    }

    /// Copies and compares the records, marks the source, and makes the destination valid. Returns
    /// the number of records; `None` if the copy has to begin again.
    async fn fill(
        &mut self,
        database: &Database,
        start: MigrationPosition,
        observe: &mut Observer<'_>,
    ) -> Result<Option<u64>, StepFault> {
        let mut reader = self.source.read().await?;
        let copy = RecordCopy { database, batch_records: self.pace.batch_records };
        let copied = copy
            .run(&mut reader, start, &mut |event| {
                if let MigrationEvent::Copied { records, .. }
                | MigrationEvent::Resumed { records } = event
                {
                    self.position = records;
                }
                self.destination.check_space()?;
                observe(event);
                Ok(())
            })
            .await;
        reader.close().await;
        let CopyOutcome::Complete(position) = copied? else { return Ok(None) };
        // The second look at the source would also see a write that the first look missed.
        let mut reader = self.source.read().await?;
        let compared = comparing::compare(&mut reader, database, position.records, observe).await;
        let rows = reader.identity_rows().await;
        reader.close().await;
        if compared? {
            let rows = rows?;
            self.finish(database, &rows).await?;
            return Ok(Some(position.records));
        }
        // Another run copies everything again.
        destination::forget_position(database, self.source.cluster()).await?;
        Err(StepFault::Final(StoreFault::Refused(format!(
            "the records in {} differ from the records in {}: one of the two was changed during \
             the migration; no server starts on the destination; stop each process that uses one \
             of the databases, then run the same command again, which copies everything again",
            self.destination.name(),
            self.source.name()
        ))))
    }

    /// Marks the source, and writes the identity of the source to the destination.
    async fn finish(&mut self, database: &Database, rows: &MetaRows) -> Result<(), StepFault> {
        let identity = self.source.copied_rows(rows)?;
        self.destination.forget_database()?;
        self.source.check_unclaimed().await?;
        self.unmarked = self.source.mark(&self.destination.name()).await.err();
        // A server reads the mark after it took the claim: a server that missed the mark holds the
        // claim now, and the migration is refused. The mark would then be untrue.
        if let Err(fault) = self.source.check_unclaimed().await {
            let is_marked = self.unmarked.is_none();
            return Err(match is_marked {
                true => self.source.take_mark_back(fault).await.into(),
                false => fault.into(),
            });
        }
        self.compared = Some(self.position);
        destination::finish(database, identity).await
    }

    /// Decides about a destination that is complete: by the last transaction of this run, if its
    /// answer was lost.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] for data of another origin.
    async fn find_end(&self, rows: &MetaRows) -> Result<u64, StepFault> {
        if let Some(records) = self.compared {
            let mut reader = self.source.read().await?;
            let of_source = reader.identity_rows().await;
            reader.close().await;
            if self.source.copied_rows(&of_source?)? == self.source.copied_rows(rows)? {
                return Ok(records);
            }
        }
        Err(StepFault::Final(self.destination.refuse_data(self.source.mark_found())))
    }

    fn report(self, records: u64) -> MigrationReport {
        MigrationReport {
            records,
            cluster: self.source.cluster().to_owned(),
            source: self.source.name(),
            destination: self.destination.name(),
            unmarked: self.unmarked,
        }
    }
}

/// Returns whether both options name the same place.
fn are_same(one: &StoreOptions, other: &StoreOptions) -> bool {
    match (&one.database, &other.database) {
        (DatabaseChoice::SqliteFile, DatabaseChoice::SqliteFile) => {
            let found = |options: &StoreOptions| options.directory.canonicalize().ok();
            let (first, second) = (found(one), found(other));
            one.directory == other.directory || first.is_some() && first == second
        }
        (DatabaseChoice::Postgres(one), DatabaseChoice::Postgres(other)) => {
            one.to_string() == other.to_string()
        }
        _ => false,
    }
}
