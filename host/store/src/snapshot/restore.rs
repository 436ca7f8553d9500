//! Restoring a snapshot: the rows of the file become the database of a data directory.
//!
//! This file prevents data that are half old and half new, at a process that dies at any moment,
//! and the loss of the present data to a file that is damaged: the file is read to the end before
//! anything is built, a complete database is built beside the present one, and a single rename
//! decides.

use std::path::{Path, PathBuf};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use tokio::sync::OwnedMutexGuard;

use super::SUMS_PURPOSE;
use super::archive_reader::damaged;
use super::building::{DatabaseContent, NewDatabase, in_thread};
use super::check::read_identity;
use super::manifest::SnapshotManifest;
use super::reading::{SnapshotSummary, open, read_snapshot};
use super::row_format::SnapshotRow;
use super::save::IdentityRows;
use crate::data_directory::DataDirectory;
use crate::fault::StoreFault;
use crate::identity::{self, StoreIdentity};
use crate::options::StoreOptions;
use crate::store::Store;

/// Maximum number of rows of the store's identity in a snapshot. A server writes about a dozen.
const MAX_IDENTITY_ROWS: usize = 256;

/// A complete database beside the database in use, made from a snapshot. Dropping the value removes
/// the database.
pub struct PreparedRestore {
    database: NewDatabase,
    summary: SnapshotSummary,
    identity: StoreIdentity,
    restored_at: u64,
    _turn: OwnedMutexGuard<()>,
}

impl PreparedRestore {
    /// Returns the description of the snapshot.
    pub fn manifest(&self) -> &SnapshotManifest {
        &self.summary.manifest
    }

    /// Returns whether the snapshot is of the cluster of `store`, and was written by this cluster:
    /// only the cluster can compute the keyed hash at the end of the file.
    pub fn is_of(&self, store: &Store) -> bool {
        let hash = store.hashes().keyed_hash(SUMS_PURPOSE, self.summary.sums.as_bytes());
        let sealed = self.summary.sealed_sums.as_bytes();
        let is_sealed_here = verify_slices_are_equal(hash.as_bytes(), sealed).is_ok();
        self.identity.is_of(store.seal()) && is_sealed_here
    }

    /// Returns the store time that the restored data note as the time of their restore, in
    /// milliseconds.
    pub fn restored_at(&self) -> u64 {
        self.restored_at
    }
}

/// A snapshot that was read to the end and can be restored.
struct CheckedSnapshot {
    summary: SnapshotSummary,
    identity: StoreIdentity,
    schema: usize,
}

impl DataDirectory {
    /// Reads the snapshot in `snapshot` twice and builds a new database beside the present one. The
    /// present data stay in use. A single restore at a time.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the file is not a complete snapshot, or of a newer version;
    /// [`StoreFault::Unavailable`] during another restore, and if the file cannot be read or the
    /// database cannot be written.
    pub async fn prepare_restore(&self, snapshot: &Path) -> Result<PreparedRestore, StoreFault> {
        let turn = self.take_restore_turn()?;
        let checked = CheckedSnapshot::read(snapshot).await?;
        let restored_at = self.now();
        let content = DatabaseContent {
            snapshot,
            summary: &checked.summary,
            schema: checked.schema,
            restored_at,
        };
        let database = NewDatabase::build(self.unfinished_restore(), content).await?;
        let CheckedSnapshot { summary, identity, .. } = checked;
        Ok(PreparedRestore { database, summary, identity, restored_at, _turn: turn })
    }

    /// Replaces the closed database, if there is one, by the prepared database. The replaced
    /// database stays as `bulkhead.db.undone`. A process killed at any moment leaves the old data
    /// or the new data; the next process that holds the directory completes the replacement.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the data are open, or a file cannot be replaced. The next
    /// opening then finds the old data, or completes the replacement ([`Store::restored`]).
    pub fn put_restored(&self, prepared: PreparedRestore) -> Result<(), StoreFault> {
        if self.replace_by(prepared.database.path())? {
            return Ok(());
        }
        Err(StoreFault::Unavailable(format!(
            "{} was removed by another process before the restore; nothing was changed; restore \
             the snapshot again",
            prepared.database.path().display()
        )))
    }
}

/// Restores the snapshot in `snapshot` into `directory`, which no server uses. The directory is
/// created if missing. Returns the description of the snapshot.
///
/// # Errors
/// [`StoreFault::Refused`] if a process holds the directory, if the directory holds data and
/// `overwrite` is not set, and as [`DataDirectory::prepare_restore`].
pub async fn restore_directory(
    directory: &Path,
    snapshot: &Path,
    overwrite: bool,
) -> Result<SnapshotManifest, StoreFault> {
    let options = StoreOptions::at(directory);
    let data_directory = DataDirectory::hold_for_restore(options, overwrite).await?;
    let prepared = data_directory.prepare_restore(snapshot).await?;
    let manifest = prepared.manifest().clone();
    data_directory.put_restored(prepared)?;
    Ok(manifest)
}

impl CheckedSnapshot {
    /// Reads the file to the end, and checks that this version can use the rows.
    async fn read(snapshot: &Path) -> Result<CheckedSnapshot, StoreFault> {
        let path = snapshot.to_owned();
        let (summary, rows) = in_thread(move || read_identity_rows(path)).await?;
        let schema = schema_of(&summary.manifest, &rows)?;
        let identity = read_identity(&rows, snapshot).await.map_err(|fault| match fault {
            StoreFault::Refused(_) => {
                damaged("the rows of the store's identity are incomplete, or of another format")
            }
            other => other,
        })?;
        if identity.cluster_name() != summary.manifest.cluster_id {
            return Err(damaged("the manifest names another cluster than the rows"));
        }
        Ok(CheckedSnapshot { summary, identity, schema })
    }
}

fn read_identity_rows(snapshot: PathBuf) -> Result<(SnapshotSummary, IdentityRows), StoreFault> {
    let mut rows = IdentityRows::new();
    let take = |row| {
        if let SnapshotRow::Identity(name, value) = row {
            rows.push((name, value));
        }
        if rows.len() > MAX_IDENTITY_ROWS {
            return Err(damaged("the rows of the store's identity are too many"));
        }
        Ok(())
    };
    let summary = read_snapshot(open(&snapshot)?, take)?;
    Ok((summary, rows))
}

/// Returns the number of schema scripts that made the tables of the rows.
fn schema_of(manifest: &SnapshotManifest, rows: &[(String, Vec<u8>)]) -> Result<usize, StoreFault> {
    let row = rows.iter().find(|(name, _)| name == "schema").map(|(_, value)| value.as_slice());
    // The row is absent if only the first script was applied.
    let text = std::str::from_utf8(row.unwrap_or(b"1")).unwrap_or_default();
    let schema = text.parse::<usize>().ok().filter(|schema| *schema > 0);
    let schema = schema.ok_or_else(|| damaged("the number of schema scripts is not a number"))?;
    if schema > identity::SCHEMA_COUNT {
        return Err(StoreFault::Refused(format!(
            "the snapshot has schema {schema}, and this program knows schemas up to {}; nothing \
             was changed; restore with Bulkhead {}, which took the snapshot, or a later version",
            identity::SCHEMA_COUNT,
            manifest.server_version
        )));
    }
    Ok(schema)
}
