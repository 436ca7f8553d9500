//! Building a new database from the rows of a snapshot, beside the database in use.
//!
//! This file prevents a database with a part of the rows from being taken for complete: the file is
//! flushed and closed before its path leaves this module, and removed after any error. The rows are
//! read in a thread of their own and passed on in batches, so that a snapshot of any size needs
//! memory for a few batches, and the requests of the server go on.

use std::fs::File;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;

use super::reading::{SnapshotSummary, open, read_snapshot};
use crate::data_directory::{find_beside, remove_database};
use crate::database::DatabaseFiller;
use crate::identity;
use bulkhead_place::directory::{self, file_failure};
use bulkhead_place::disk_space::DiskShortage;
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::archive_reader::damaged;
use bulkhead_record::failpoint;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::raw_record::FillFault;
use bulkhead_record::row_format::SnapshotRow;

/// Maximum number of rows in a batch.
const BATCH_ROWS: usize = 64;
/// Size at which a batch is closed, in bytes. A batch exceeds the size by less than a record.
const BATCH_BYTES: usize = 1 << 20;
/// Number of batches that wait for the database.
const WAITING_BATCHES: usize = 2;
/// Number of batches between two looks at the free space of the disk.
const SPACE_CHECK_BATCHES: u64 = 16;

/// The question whether the work may go on.
pub(super) type MayContinue = Arc<dyn Fn() -> bool + Send + Sync>;

/// The place of a new database.
pub(super) enum NewPlace {
    /// A new file, which only the owner can read.
    File(PathBuf),
    /// New tables beside the tables in use. The next restore replaces the tables.
    Tables(Box<PostgresPlace>),
}

/// A database under construction, or complete and not in use yet. Dropping the value removes the
/// file.
pub(super) struct NewDatabase {
    place: NewPlace,
}

impl Drop for NewDatabase {
    fn drop(&mut self) {
        if let NewPlace::File(path) = &self.place {
            // The next process that holds the directory tries again.
            drop(remove_database(path));
        }
    }
}

/// Content of a new database.
pub(super) struct DatabaseContent<'a> {
    /// The file with the rows.
    pub(super) snapshot: &'a Path,
    /// The result of reading the same file before.
    pub(super) summary: &'a SnapshotSummary,
    /// Number of schema scripts that made the tables of the rows.
    pub(super) schema: usize,
    /// Store time of the restore, in milliseconds.
    pub(super) restored_at: u64,
    pub(super) may_continue: MayContinue,
}

impl NewDatabase {
    /// Builds a database at `place`. The database is complete and flushed on return.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the rows contradict each other, or if the file is not the file
    /// that was read before; [`StoreFault::Unavailable`] if a file cannot be read or written, the
    /// disk has too little space, or the work may not continue.
    pub(super) async fn build(
        place: NewPlace,
        content: DatabaseContent<'_>,
    ) -> Result<NewDatabase, StoreFault> {
        let database = NewDatabase { place };
        match &database.place {
            NewPlace::File(path) => build_file(path, &content).await?,
            NewPlace::Tables(place) => {
                let mut filler = DatabaseFiller::open_beside(place).await?;
                let filled = fill(&mut filler, &content, None).await;
                let closed = filler.close().await;
                filled?;
                closed?;
            }
        }
        Ok(database)
    }

    pub(super) fn place(&self) -> &NewPlace {
        &self.place
    }
}

/// Builds the file `path`.
async fn build_file(path: &Path, content: &DatabaseContent<'_>) -> Result<(), StoreFault> {
    remove_database(path)?;
    directory::create_private(path).map_err(|error| file_failure("create", path, &error))?;
    failpoint::reach("restore.begun").map_err(StoreFault::injected)?;
    let mut filler = DatabaseFiller::open_file(path).await?;
    let filled = fill(&mut filler, content, Some(path)).await;
    let closed = filler.close().await;
    filled?;
    closed?;
    failpoint::reach("restore.built").map_err(StoreFault::injected)?;
    if let Some(file) = find_beside(path) {
        return Err(StoreFault::Unavailable(format!(
            "{} holds changes that are not in the new database; nothing was changed; try again",
            file.display()
        )));
    }
    flush(path.to_owned()).await?;
    failpoint::reach("restore.flushed").map_err(StoreFault::injected)
}

/// Runs blocking work outside of the threads that serve requests.
///
/// # Errors
/// The errors of `work`; [`StoreFault::Unavailable`] if the work was stopped.
pub(super) async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreFault> + Send + 'static,
) -> Result<T, StoreFault> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(interrupted()))
}

/// Flushes a closed database and its directory entry.
async fn flush(path: PathBuf) -> Result<(), StoreFault> {
    in_thread(move || {
        let flushed = File::open(&path).and_then(|file| file.sync_all());
        flushed.map_err(|error| file_failure("flush", &path, &error))?;
        path.parent().map_or(Ok(()), directory::flush)
    })
    .await
}

/// Creates the tables and copies all rows, in a single transaction. `file` is the new file, if the
/// database is a file.
async fn fill(
    filler: &mut DatabaseFiller,
    content: &DatabaseContent<'_>,
    file: Option<&Path>,
) -> Result<(), StoreFault> {
    filler.begin(content.schema).await?;
    let (sender, mut batches) = mpsc::channel(WAITING_BATCHES);
    let snapshot = content.snapshot.to_owned();
    let may_continue = Arc::clone(&content.may_continue);
    let reading =
        tokio::task::spawn_blocking(move || read_batches(&snapshot, &may_continue, &sender));
    let mut number = 0_u64;
    while let Some(batch) = batches.recv().await {
        check_continuation(&content.may_continue)?;
        if let Some(file) = file
            && number.is_multiple_of(SPACE_CHECK_BATCHES)
        {
            check_space(file, 0)?;
        }
        number = number.saturating_add(1);
        insert(filler, batch).await?;
    }
    let summary = reading.map(|read| read.unwrap_or_else(|_| Err(interrupted()))).await?;
    if summary != *content.summary {
        return Err(damaged("the file was replaced while the file was read"));
    }
    let rows = filler.identity_rows().await?;
    filler.commit(identity::restore_rows(&rows, content.restored_at)).await
}

/// Reads the rows of the file, and sends the rows in batches.
fn read_batches(
    snapshot: &Path,
    may_continue: &MayContinue,
    batches: &mpsc::Sender<Vec<SnapshotRow>>,
) -> Result<SnapshotSummary, StoreFault> {
    let (mut batch, mut size) = (Vec::new(), 0_usize);
    let mut take = |row: SnapshotRow| {
        check_continuation(may_continue)?;
        size = size.saturating_add(size_of_row(&row));
        batch.push(row);
        if batch.len() >= BATCH_ROWS || size >= BATCH_BYTES {
            size = 0;
            // The other end is gone after an error of the database.
            return batches.blocking_send(mem::take(&mut batch)).map_err(|_| interrupted());
        }
        Ok(())
    };
    let summary = read_snapshot(open(snapshot)?, &mut take)?;
    batches.blocking_send(batch).map_err(|_| interrupted())?;
    Ok(summary)
}

/// Checks that the work may go on.
///
/// # Errors
/// [`StoreFault::Unavailable`] if `may_continue` returns false.
pub(super) fn check_continuation(may_continue: &MayContinue) -> Result<(), StoreFault> {
    may_continue().then_some(()).ok_or_else(interrupted)
}

/// Checks that the disk of `file` has space for `more` bytes and the reserve.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the space does not suffice.
pub(super) fn check_space(file: &Path, more: u64) -> Result<(), StoreFault> {
    let directory = file.parent().unwrap_or(file);
    let Some(shortage) = DiskShortage::find(directory, more) else { return Ok(()) };
    Err(StoreFault::Unavailable(format!(
        "the disk of {} has {} MiB free, and the restore needs {} MiB: the new database, and {} \
         MiB that stay free for the store; nothing was changed; free some space, then restore the \
         snapshot again",
        directory.display(),
        shortage.free >> 20,
        shortage.needed >> 20,
        shortage.reserve >> 20
    )))
}

/// Returns the size of the fields of a row, in bytes.
pub(super) fn size_of_row(row: &SnapshotRow) -> usize {
    match row {
        SnapshotRow::Identity(name, value) => name.len().saturating_add(value.len()),
        SnapshotRow::Record(record) => record.size(),
    }
}

async fn insert(filler: &mut DatabaseFiller, batch: Vec<SnapshotRow>) -> Result<(), StoreFault> {
    let (mut identity, mut records) = (Vec::new(), Vec::new());
    for row in batch {
        match row {
            SnapshotRow::Identity(name, value) => identity.push((name, value)),
            SnapshotRow::Record(record) => records.push(record),
        }
    }
    filler.insert(identity, records).await.map_err(|fault| match fault {
        FillFault::SameName => damaged("two rows have the same name"),
        FillFault::Failed(fault) => fault,
    })
}

fn interrupted() -> StoreFault {
    StoreFault::Unavailable(
        "the restore was interrupted; nothing was changed; try again".to_owned(),
    )
}
