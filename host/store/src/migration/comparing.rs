//! The second pass over the records: every record of the destination against the source.

use crate::database::{Database, DatabaseReader};
use bulkhead_record::fault::StoreFault;

use super::copying::read_row;
use super::step_fault::StepFault;
use super::{MigrationEvent, Observer};

/// Number of records between two events.
const EVENT_RECORDS: u64 = 10_000;

/// Reads all records of both databases in the order of their first write, and returns whether all
/// columns are the same and there are `total` records.
///
/// # Errors
/// [`StoreFault::Unavailable`] if a database cannot be read.
pub(super) async fn compare(
    source: &mut DatabaseReader,
    destination: &Database,
    total: u64,
    observe: &mut Observer<'_>,
) -> Result<bool, StepFault> {
    let mut reader = destination.begin_snapshot().await?;
    let outcome = compare_records(source, &mut reader, total, observe).await;
    reader.close().await;
    Ok(outcome?)
}

async fn compare_records(
    source: &mut DatabaseReader,
    destination: &mut DatabaseReader,
    total: u64,
    observe: &mut Observer<'_>,
) -> Result<bool, StoreFault> {
    let (mut expected, mut copied) = (source.records(), destination.records());
    let mut records = 0;
    loop {
        match (read_row(&mut expected).await?, read_row(&mut copied).await?) {
            (None, None) => break,
            (Some(Ok(one)), Some(Ok(other))) if one == other => records += 1,
            _ => return Ok(false),
        }
        if records % EVENT_RECORDS == 0 {
            observe(MigrationEvent::Compared { records, total });
        }
    }
    observe(MigrationEvent::Compared { records, total });
    Ok(records == total)
}
