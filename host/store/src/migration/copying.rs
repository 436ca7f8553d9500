//! The first pass over the records: the copy, batch by batch.
//!
//! This file prevents a copy that continues after other records: before the first batch, all
//! records up to the position are read again, and their digest is compared with the position.

use std::mem;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;

use crate::database::{Database, DatabaseReader};
use bulkhead_place::write_failure::TransactionOutcome;
use bulkhead_record::committed_state::{CommittedState, GroupWrites, StateQuestions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::raw_record::{RawRecord, RawRecordResult};
use bulkhead_record::rows::SealedRow;

use super::MigrationEvent;
use super::position::MigrationPosition;
use super::step_fault::StepFault;

/// Size at which a batch is closed, in bytes. A batch exceeds the size by less than a record.
const BATCH_BYTES: usize = 2 << 20;
/// Maximum time for the next record. A server may sort all records before the first.
const READ_TIMEOUT: Duration = Duration::from_secs(600);

/// The copy of all records to an open database.
pub(super) struct RecordCopy<'a> {
    pub(super) database: &'a Database,
    /// Maximum number of records in a batch.
    pub(super) batch_records: usize,
}

/// The end of a copy.
pub(super) enum CopyOutcome {
    /// All records are copied.
    Complete(MigrationPosition),
    /// The records of an earlier run are not the first records of the source.
    OtherRecords,
}

/// The receiver of the steps, which may end the copy.
pub(super) type CopyObserver<'a> = dyn FnMut(MigrationEvent) -> Result<(), StoreFault> + 'a;

impl RecordCopy<'_> {
    /// Copies the records after the position `start`.
    pub(super) async fn run(
        &self,
        reader: &mut DatabaseReader,
        start: MigrationPosition,
        observe: &mut CopyObserver<'_>,
    ) -> Result<CopyOutcome, StepFault> {
        let total = reader.count_records().await?;
        if self.count_copied().await? != start.records {
            return Ok(CopyOutcome::OtherRecords);
        }
        let mut records = reader.records();
        if !passes_same_records(&mut records, &start).await? {
            return Ok(CopyOutcome::OtherRecords);
        }
        if start.records > 0 {
            observe(MigrationEvent::Resumed { records: start.records })?;
        }
        let mut position = start;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(record) = next(&mut records).await? {
            position.pass(&record)?;
            bytes += record.size();
            batch.push(record.into_sealed().map_err(never_written)?);
            if batch.len() >= self.batch_records || bytes >= BATCH_BYTES {
                bytes = 0;
                self.commit(mem::take(&mut batch), &position).await?;
                observe(MigrationEvent::Copied { records: position.records, total })?;
            }
        }
        if !batch.is_empty() {
            self.commit(batch, &position).await?;
        }
        observe(MigrationEvent::Copied { records: position.records, total })?;
        Ok(CopyOutcome::Complete(position))
    }

    /// Returns the number of records of the destination.
    async fn count_copied(&self) -> Result<u64, StoreFault> {
        let mut reader = self.database.begin_snapshot().await?;
        let counted = reader.count_records().await;
        reader.close().await;
        counted
    }

    /// Writes the records and the position behind them in one transaction, if no record is there.
    async fn commit(
        &self,
        rows: Vec<SealedRow>,
        position: &MigrationPosition,
    ) -> Result<(), StepFault> {
        let mut questions = StateQuestions::default();
        questions.stamps.extend(rows.iter().map(|row| &row.address));
        let identity = vec![position.row()];
        let puts = rows.iter().collect();
        let writes = GroupWrites { puts, identity, ..GroupWrites::default() };
        let plan = |found: CommittedState<'_>| found.stamps.is_empty().then_some(writes);
        match self.database.commit_group(questions, plan).await? {
            TransactionOutcome::Committed => Ok(()),
            // The look at the position decides.
            TransactionOutcome::Conflict => Err(StepFault::Transient(StoreFault::Unavailable(
                "another process writes to the destination, or an earlier transaction of this \
                     process was stored late"
                    .to_owned(),
            ))),
        }
    }
}

/// The records of a reader.
pub(super) type RecordStream<'r> = BoxStream<'r, Result<RawRecordResult, StoreFault>>;

/// Reads the records up to `position`, and returns whether they are the copied records.
async fn passes_same_records(
    records: &mut RecordStream<'_>,
    position: &MigrationPosition,
) -> Result<bool, StepFault> {
    let mut passed = MigrationPosition::of(&position.cluster);
    while passed.records < position.records {
        let Some(record) = next(records).await? else { return Ok(false) };
        passed.pass(&record)?;
    }
    Ok(passed == *position)
}

/// Reads the next row.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be read, or does not answer.
pub(super) async fn read_row(
    records: &mut RecordStream<'_>,
) -> Result<Option<RawRecordResult>, StoreFault> {
    let read = tokio::time::timeout(READ_TIMEOUT, records.try_next()).await;
    read.unwrap_or_else(|_| {
        Err(StoreFault::Unavailable(format!(
            "a database sent no record within {} s",
            READ_TIMEOUT.as_secs()
        )))
    })
}

/// Returns the next record.
///
/// # Errors
/// [`StoreFault::Refused`] for a record with a column of another type, and as [`read_row`].
async fn next(records: &mut RecordStream<'_>) -> Result<Option<RawRecord>, StepFault> {
    match read_row(records).await? {
        None => Ok(None),
        Some(Ok(record)) => Ok(Some(record)),
        Some(Err(_)) => Err(StepFault::Final(StoreFault::Refused(
            "a record of the source has a column of another type; find the damage with `bulkhead \
             operator check`, and restore a snapshot"
                .to_owned(),
        ))),
    }
}

fn never_written(place: String) -> StepFault {
    StepFault::Final(StoreFault::Refused(format!(
        "the record {} of the source has a kind or a stamp that was never written; find the damage \
         with `bulkhead operator check`, and restore a snapshot",
        place.escape_debug()
    )))
}
