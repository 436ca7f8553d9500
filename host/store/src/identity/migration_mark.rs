//! The mark of data that were migrated to another database.
//!
//! This file prevents two servers on two copies of the same data: both would end the same leases
//! and rotate the same passwords, and each copy would soon hold passwords that no longer work. The
//! mark of an SQLite database is a file beside the database; the mark of tables on a server is a
//! row of the identity.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::meta::row;
use crate::database::DatabasePlace;
use bulkhead_place::directory::{self, file_failure};
use bulkhead_place::options::FlushPolicy;
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows};

/// Maximum number of characters of a mark that a message shows.
const SHOWN_CHARACTERS: usize = 500;

/// Returns the name of the place to which the data at `place` were migrated; `None` if the data
/// were not migrated, or the mark was removed. `rows` are the rows of the identity.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the file of the mark cannot be read.
pub(crate) fn find_mark(
    place: DatabasePlace<'_>,
    rows: &MetaRows,
) -> Result<Option<String>, StoreFault> {
    let mark = match place {
        DatabasePlace::SqliteIn(directory) => {
            let file = mark_file(directory);
            match fs::read(&file) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(file_failure("read", &file, &error)),
            }
        }
        DatabasePlace::Postgres(_) => rows.get(row::MIGRATED).cloned(),
    };
    Ok(mark.map(|text| {
        let text = String::from_utf8_lossy(&text);
        text.trim_end().chars().take(SHOWN_CHARACTERS).collect()
    }))
}

/// Refuses data that were migrated to another database.
///
/// # Errors
/// [`StoreFault::Refused`], and as [`find_mark`].
pub(super) fn refuse_migrated(place: DatabasePlace<'_>, rows: &MetaRows) -> Result<(), StoreFault> {
    let Some(destination) = find_mark(place, rows)? else { return Ok(()) };
    Err(StoreFault::Refused(format!(
        "the data in {} were migrated to {}, and servers on both copies would end the same leases; \
         start the server on the destination, or run `bulkhead operator migrate -config=FILE \
         -reset` to use the data of the source again",
        place.name().display(),
        destination.escape_debug()
    )))
}

/// Marks the data at `place` as migrated to the place with the name `destination`.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the mark cannot be written.
pub(crate) async fn write_mark(
    place: DatabasePlace<'_>,
    destination: &str,
) -> Result<(), StoreFault> {
    match place {
        DatabasePlace::SqliteIn(directory) => {
            let (file, text) = (mark_file(directory), format!("{destination}\n"));
            let written = directory::write_whole(&file, text.as_bytes());
            written.map_err(|error| file_failure("write", &file, &error))?;
            directory::flush(directory)
        }
        DatabasePlace::Postgres(tables) => {
            change_row(tables, Some(destination.as_bytes().to_vec())).await
        }
    }
}

/// Removes the mark of the data at `place`, if there is one.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the mark cannot be removed.
pub(crate) async fn remove_mark(place: DatabasePlace<'_>) -> Result<(), StoreFault> {
    match place {
        DatabasePlace::SqliteIn(directory) => {
            let file = mark_file(directory);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(file_failure("remove", &file, &error))
                }
                _ => directory::flush(directory),
            }
        }
        DatabasePlace::Postgres(tables) => change_row(tables, None).await,
    }
}

async fn change_row(place: &PostgresPlace, value: Option<Vec<u8>>) -> Result<(), StoreFault> {
    let change: MetaChange = (row::MIGRATED, value);
    let database = DatabasePlace::Postgres(place).open(FlushPolicy::EveryCommit).await?;
    let changed = database.change_identity(vec![change]).await;
    database.close().await;
    Ok(changed?)
}

/// Returns the file with the mark of the database in `directory`.
fn mark_file(directory: &Path) -> PathBuf {
    directory::database(directory).with_extension("db.migrated")
}
