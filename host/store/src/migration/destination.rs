//! The destination of a migration: empty, or with an unfinished migration of the same cluster.
//!
//! This file prevents a migration that overwrites data: nothing is written to a database with an
//! identity, and only a database with the row of an unfinished migration is ever removed.

use crate::data_directory::{place_of, remove_database};
use crate::database::{Database, DatabasePlace, remove_tables};
use crate::identity::{self, migration_mark};
use bulkhead_place::directory::{self, DirectoryLock};
use bulkhead_place::disk_space::DiskShortage;
use bulkhead_place::node_files::MarkFile;
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows};

use super::position::MigrationPosition;
use super::step_fault::StepFault;

/// The destination of a migration.
pub(super) struct MigrationDestination<'a> {
    options: &'a StoreOptions,
    /// Held until the end of the migration.
    _lock: Option<DirectoryLock>,
}

/// The content of the destination.
pub(super) enum DestinationState {
    Empty,
    Unfinished(MigrationPosition),
    Initialised(MetaRows),
}

impl<'a> MigrationDestination<'a> {
    /// Creates and locks the directory of a database file.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if a process holds the directory, or a restore was interrupted
    /// there; [`StoreFault::Unavailable`] if the directory cannot be used.
    pub(super) fn hold(options: &'a StoreOptions) -> Result<MigrationDestination<'a>, StoreFault> {
        let directory = options.directory.as_path();
        let lock = match &options.database {
            DatabaseChoice::Postgres(_) => None,
            DatabaseChoice::SqliteFile => {
                directory::create(directory)?;
                Some(directory::lock(directory)?)
            }
        };
        if lock.is_some() && directory.join("bulkhead.db.put-back").exists() {
            return Err(StoreFault::Refused(format!(
                "a restore into {} was interrupted; start the server once, or choose an empty \
                 directory as the destination",
                directory.display()
            )));
        }
        Ok(MigrationDestination { options, _lock: lock })
    }

    /// Returns the name of the destination in messages.
    pub(super) fn name(&self) -> String {
        self.place().name().display().to_string()
    }

    /// Removes the note of the data directory about an earlier database on a server.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the file cannot be removed.
    pub(super) fn forget_database(&self) -> Result<(), StoreFault> {
        match &self.options.database {
            DatabaseChoice::SqliteFile => Ok(()),
            DatabaseChoice::Postgres(_) => MarkFile::unread(&self.options.directory).remove(),
        }
    }

    /// Reads the content.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] for the migration of another cluster, or data of another program;
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(super) async fn read_state(&self, cluster: &str) -> Result<DestinationState, StoreFault> {
        let Some(rows) = self.place().read_identity().await? else {
            return Ok(DestinationState::Empty);
        };
        let Some(row) = identity::migration_position(&rows) else {
            return Ok(DestinationState::Initialised(rows));
        };
        let position = MigrationPosition::parse(row)?;
        if position.cluster == cluster {
            return Ok(DestinationState::Unfinished(position));
        }
        Err(StoreFault::Refused(format!(
            "{} holds an unfinished migration of the cluster {}, and the source is the cluster \
             {cluster}; nothing was changed; name the source of that migration, or choose an empty \
             destination",
            self.name(),
            position.cluster.escape_debug()
        )))
    }

    /// Opens the database, with new tables and the position if there are none.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be written.
    pub(super) async fn open(&self, position: &MigrationPosition) -> Result<Database, StoreFault> {
        let place = self.place();
        let is_new = place.read_identity().await?.is_none();
        if is_new && let DatabasePlace::SqliteIn(_) = place {
            // A mark without its database is of no use.
            migration_mark::remove_mark(place).await?;
        }
        place.create()?;
        let database = place.open(self.options.flushing).await?;
        let prepared = if is_new {
            database.initialise(vec![position.row()], &[]).await
        } else {
            database.migrate().await
        };
        match prepared {
            Ok(()) => Ok(database),
            Err(fault) => {
                database.close().await;
                Err(fault)
            }
        }
    }

    /// Removes the records of an unfinished migration. The database is closed.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be removed.
    pub(super) async fn remove(&self) -> Result<(), StoreFault> {
        match &self.options.database {
            DatabaseChoice::SqliteFile => {
                remove_database(&directory::database(&self.options.directory))
            }
            DatabaseChoice::Postgres(place) => remove_tables(place).await,
        }
    }

    /// Checks that the disk of a database file has space for more records.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the space does not suffice.
    pub(super) fn check_space(&self) -> Result<(), StoreFault> {
        let DatabaseChoice::SqliteFile = &self.options.database else { return Ok(()) };
        let Some(shortage) = DiskShortage::find(&self.options.directory, 0) else { return Ok(()) };
        Err(StoreFault::Refused(format!(
            "the disk of {} has {} MiB free, and {} MiB stay free for the store; no server starts \
             on the destination; free some space, then run the same command again to continue",
            self.options.directory.display(),
            shortage.free >> 20,
            shortage.reserve >> 20
        )))
    }

    /// Returns the refusal of a destination with data. `mark` is the mark of the source.
    pub(super) fn refuse_data(&self, mark: Option<&str>) -> StoreFault {
        let name = self.name();
        StoreFault::Refused(match mark {
            Some(_) => format!(
                "the migration to {name} is complete already; nothing was changed; start the \
                 server there"
            ),
            None => format!(
                "the destination {name} holds data already; nothing was changed; choose an empty \
                 directory, or an empty schema of a database"
            ),
        })
    }

    fn place(&self) -> DatabasePlace<'a> {
        place_of(self.options)
    }
}

/// Notes that the copied records cannot be used: the next run copies everything again.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be written.
pub(super) async fn forget_position(database: &Database, cluster: &str) -> Result<(), StoreFault> {
    Ok(database.change_identity(vec![MigrationPosition::of(cluster).row()]).await?)
}

/// Replaces the position by the identity, which makes the destination valid, and reads the identity
/// again.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the outcome is not known to be stored.
pub(super) async fn finish(
    database: &Database,
    identity: Vec<MetaChange>,
) -> Result<(), StepFault> {
    let mut changes = identity.clone();
    changes.push(identity::migration_row(None));
    database.change_identity(changes).await.map_err(StoreFault::from)?;
    let rows = database.identity_rows().await?;
    if identity::copied_rows(&rows).is_ok_and(|written| written == identity) {
        return Ok(());
    }
    Err(StepFault::Final(StoreFault::Refused(
        "the destination does not hold the identity that was written; do not start a server there; \
         empty the destination, then migrate again"
            .to_owned(),
    )))
}
