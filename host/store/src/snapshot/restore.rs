//! Restoring a snapshot: the rows of the file become the database of a store.
//!
//! This file prevents data that are half old and half new, at a process that dies at any moment,
//! and the loss of the present data to a file that is damaged: the file is read to the end before
//! anything is built, a complete database is built beside the present one, and a single rename
//! decides.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;

use super::building::{
    DatabaseContent, MayContinue, NewDatabase, NewPlace, check_continuation, check_space,
    in_thread, size_of_row,
};
use super::check::read_identity;
use super::reading::{SnapshotSummary, open, read_snapshot};
use super::save::IdentityRows;
use crate::data_directory::DataDirectory;
use crate::database::{DatabasePlace, SCHEMA_COUNT, check_unclaimed};
use crate::identity::{StoreIdentity, migration_mark};
use crate::store::Store;
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_record::archive::SUMS_PURPOSE;
use bulkhead_record::archive_reader::damaged;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::row_format::SnapshotRow;
use bulkhead_record::snapshot_manifest::SnapshotManifest;

/// Maximum time by which the time mark of a snapshot may be ahead of the manifest and of the
/// system's clock, in milliseconds. Store time follows the mark and never goes back.
const MAX_MARK_LEAD: u64 = 24 * 3_600 * 1_000;

/// The decision about a snapshot that was read.
type SnapshotDecision<'a> = Box<dyn FnOnce(&CheckedSnapshot) -> Result<(), StoreFault> + Send + 'a>;

/// The conditions under which a restore is prepared.
pub struct RestoreConditions<'a> {
    /// Refuses the snapshot after the first reading, before a database is built.
    accept: SnapshotDecision<'a>,
    may_continue: MayContinue,
}

impl<'a> RestoreConditions<'a> {
    /// Returns conditions that accept the snapshots of all clusters and never end the work.
    #[must_use]
    pub fn any() -> Self {
        RestoreConditions { accept: Box::new(|_| Ok(())), may_continue: Arc::new(|| true) }
    }

    /// Adds a check of the snapshot, after the first reading.
    #[must_use]
    pub fn accepting(
        self,
        accept: impl FnOnce(&CheckedSnapshot) -> Result<(), StoreFault> + Send + 'a,
    ) -> Self {
        RestoreConditions { accept: Box::new(accept), ..self }
    }

    /// Ends the work with [`StoreFault::Unavailable`] once `may_continue` returns false.
    #[must_use]
    pub fn lasting_while(self, may_continue: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        RestoreConditions { may_continue: Arc::new(may_continue), ..self }
    }
}

/// A complete database beside the database in use, made from a snapshot. Dropping the value removes
/// the database.
pub struct PreparedRestore {
    database: NewDatabase,
    checked: CheckedSnapshot,
    restored_at: u64,
    _turn: OwnedMutexGuard<()>,
}

impl PreparedRestore {
    /// Returns the description of the snapshot.
    pub fn manifest(&self) -> &SnapshotManifest {
        self.checked.manifest()
    }

    /// Returns the store time that the restored data note as the time of their restore, in
    /// milliseconds.
    pub fn restored_at(&self) -> u64 {
        self.restored_at
    }
}

/// A snapshot that was read to the end and can be restored.
pub struct CheckedSnapshot {
    summary: SnapshotSummary,
    identity: StoreIdentity,
    schema: usize,
    /// Sum of the sizes of all rows.
    bytes: u64,
}

impl DataDirectory {
    /// Reads the snapshot in `snapshot` twice and builds a new database beside the present one. The
    /// present data stay in use. A single restore at a time.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the file is not a complete snapshot, or of a newer version, or
    /// has a time mark in the future; [`StoreFault::Unavailable`] during another restore, if the
    /// disk has too little space, and if the file cannot be read or the database cannot be written;
    /// and the faults of the conditions.
    pub async fn prepare_restore(
        &self,
        snapshot: &Path,
        conditions: RestoreConditions<'_>,
    ) -> Result<PreparedRestore, StoreFault> {
        let turn = self.take_restore_turn()?;
        let RestoreConditions { accept, may_continue } = conditions;
        if let DatabaseChoice::Postgres(place) = self.choice() {
            // Refused before the copy, and not after the service is closed.
            check_unclaimed(place, &self.unmarked_node()?).await?;
        }
        let checked = CheckedSnapshot::read(snapshot, &may_continue).await?;
        accept(&checked)?;
        checked.check_mark(self.system_time())?;
        let place = self.new_place();
        if let NewPlace::File(path) = &place {
            check_space(path, checked.bytes)?;
        }
        let restored_at = self.now();
        let content = DatabaseContent {
            snapshot,
            summary: &checked.summary,
            schema: checked.schema,
            restored_at,
            may_continue,
        };
        let database = NewDatabase::build(place, content).await?;
        Ok(PreparedRestore { database, checked, restored_at, _turn: turn })
    }

    /// Replaces the closed database, if there is one, by the prepared database. Blocks the thread,
    /// which belongs to a runtime and serves no requests. The replaced file stays as
    /// [`DataDirectory::replaced_data`]. A process killed at any moment leaves the
    /// old data or the new data; the next process that holds the directory completes the
    /// replacement of a file.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the data are open, or a file cannot be replaced. The next
    /// opening then finds the old data, or completes the replacement ([`Store::restored`]).
    pub fn put_restored(&self, prepared: PreparedRestore) -> Result<(), StoreFault> {
        let (is_replaced, name) = match prepared.database.place() {
            NewPlace::File(path) => (self.replace_by(path)?, path.display().to_string()),
            NewPlace::Tables(place) => {
                let replacement = self.replace_by_tables(place);
                (Handle::current().block_on(replacement)?, "the tables of the restore".to_owned())
            }
        };
        if is_replaced {
            return Ok(());
        }
        Err(StoreFault::Unavailable(format!(
            "{name} disappeared before the restore; nothing was changed; \
             restore the snapshot again"
        )))
    }

    /// Returns the place of the database that a restore builds.
    fn new_place(&self) -> NewPlace {
        match self.choice() {
            DatabaseChoice::SqliteFile => NewPlace::File(self.unfinished_restore()),
            DatabaseChoice::Postgres(place) => NewPlace::Tables(place.clone()),
        }
    }
}

/// Restores the snapshot in `snapshot` into the store of `options`, which no server uses. The
/// directory is created if missing; the database of a server exists, with or without tables.
/// Returns the description of the snapshot.
///
/// # Errors
/// [`StoreFault::Refused`] if a process holds the directory, if another node works on the database,
/// if the store holds data and `overwrite` is not set, and as [`DataDirectory::prepare_restore`].
pub async fn restore_store(
    options: StoreOptions,
    snapshot: &Path,
    overwrite: bool,
) -> Result<SnapshotManifest, StoreFault> {
    let data_directory = Arc::new(DataDirectory::hold_for_restore(options, overwrite).await?);
    let prepared = data_directory.prepare_restore(snapshot, RestoreConditions::any()).await?;
    let manifest = prepared.manifest().clone();
    let owner = Arc::clone(&data_directory);
    in_thread(move || owner.put_restored(prepared)).await?;
    if let DatabaseChoice::SqliteFile = data_directory.choice() {
        // The restored data were not migrated. The mark of tables was replaced with the tables.
        migration_mark::remove_mark(DatabasePlace::SqliteIn(data_directory.path())).await?;
    }
    Ok(manifest)
}

impl CheckedSnapshot {
    /// Returns the description of the snapshot.
    #[must_use]
    pub fn manifest(&self) -> &SnapshotManifest {
        &self.summary.manifest
    }

    /// Returns whether the snapshot is of the cluster of `store`, and was written by this cluster:
    /// only the cluster can compute the keyed hash at the end of the file.
    #[must_use]
    pub fn is_of(&self, store: &Store) -> bool {
        let hash = store.hashes().keyed_hash(SUMS_PURPOSE, self.summary.sums.as_bytes());
        let sealed = self.summary.sealed_sums.as_bytes();
        let is_sealed_here = verify_slices_are_equal(hash.as_bytes(), sealed).is_ok();
        self.identity.is_of(store.seal()) && is_sealed_here
    }

    /// Reads the file to the end, and checks that this version can use the rows.
    async fn read(
        snapshot: &Path,
        may_continue: &MayContinue,
    ) -> Result<CheckedSnapshot, StoreFault> {
        let (path, may_continue) = (snapshot.to_owned(), Arc::clone(may_continue));
        let FirstReading { summary, rows, bytes } =
            in_thread(move || FirstReading::of(path, &may_continue)).await?;
        let schema = schema_of(&summary.manifest, &rows)?;
        let identity = read_identity(&rows, snapshot).map_err(|fault| match fault {
            StoreFault::Refused(_) => {
                damaged("the rows of the store's identity are incomplete, or of another format")
            }
            other => other,
        })?;
        if identity.cluster_name() != summary.manifest.cluster_id {
            return Err(damaged("the manifest names another cluster than the rows"));
        }
        Ok(CheckedSnapshot { summary, identity, schema, bytes })
    }

    /// Checks that the time mark of the rows is not in the future. `system_time` is the system's
    /// clock, in milliseconds since 1970.
    fn check_mark(&self, system_time: u64) -> Result<(), StoreFault> {
        let latest = self.summary.manifest.store_time.max(system_time);
        if self.identity.reached() <= latest.saturating_add(MAX_MARK_LEAD) {
            return Ok(());
        }
        Err(damaged(
            "the time mark of the rows is more than a day ahead of the manifest and of the clock \
             of this machine",
        ))
    }
}

/// The result of the first reading.
struct FirstReading {
    summary: SnapshotSummary,
    rows: IdentityRows,
    bytes: u64,
}

impl FirstReading {
    fn of(snapshot: PathBuf, may_continue: &MayContinue) -> Result<FirstReading, StoreFault> {
        let (mut rows, mut bytes) = (IdentityRows::new(), 0_u64);
        let take = |row: SnapshotRow| {
            check_continuation(may_continue)?;
            bytes = bytes.saturating_add(u64::try_from(size_of_row(&row)).unwrap_or(u64::MAX));
            if let SnapshotRow::Identity(name, value) = row {
                rows.push((name, value));
            }
            Ok(())
        };
        let summary = read_snapshot(open(&snapshot)?, take)?;
        Ok(FirstReading { summary, rows, bytes })
    }
}

/// Returns the number of schema scripts that made the tables of the rows.
fn schema_of(manifest: &SnapshotManifest, rows: &[(String, Vec<u8>)]) -> Result<usize, StoreFault> {
    let row = rows.iter().find(|(name, _)| name == "schema").map(|(_, value)| value.as_slice());
    // The row is absent if only the first script was applied.
    let text = std::str::from_utf8(row.unwrap_or(b"1")).unwrap_or_default();
    let schema = text.parse::<usize>().ok().filter(|schema| *schema > 0);
    let schema = schema.ok_or_else(|| damaged("the number of schema scripts is not a number"))?;
    if schema > SCHEMA_COUNT {
        return Err(StoreFault::Refused(format!(
            "the snapshot has schema {schema}, and this program knows schemas up to {}; nothing \
             was changed; restore with Bulkhead {}, which took the snapshot, or a later version",
            SCHEMA_COUNT, manifest.server_version
        )));
    }
    Ok(schema)
}
