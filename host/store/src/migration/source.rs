//! The source of a migration: checked, locked if its files have a lock, and only read until the
//! mark of the end.

use crate::data_directory::place_of;
use crate::database::{DatabasePlace, DatabaseReader, SCHEMA_COUNT};
use crate::identity::{self, migration_mark};
use bulkhead_place::claim_watch::{ClaimTimes, ClaimingNode};
use bulkhead_place::directory::{self, DirectoryLock};
use bulkhead_place::node_files::{self, MarkFile};
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows};

/// The source of a migration.
pub(super) struct MigrationSource<'a> {
    options: &'a StoreOptions,
    cluster: String,
    /// Name of the place to which the data were migrated before.
    mark: Option<String>,
    /// Held until the end of the migration.
    _lock: Option<DirectoryLock>,
}

impl<'a> MigrationSource<'a> {
    /// Checks that the source holds complete data of this version and is not in use.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] or [`StoreFault::OtherFormat`] if not; [`StoreFault::Unavailable`]
    /// if the database cannot be read.
    pub(super) async fn open(options: &'a StoreOptions) -> Result<MigrationSource<'a>, StoreFault> {
        let lock = lock_unused(options)?;
        let place = place_of(options);
        let rows = place.read_identity().await?.ok_or_else(|| empty(place))?;
        let identity = identity::of_own_format(&rows, &place.name())?;
        check_schema(place, &rows)?;
        let mark = migration_mark::find_mark(place, &rows)?;
        let cluster = identity.cluster_name();
        let source = MigrationSource { options, cluster, mark, _lock: lock };
        source.copied_rows(&rows)?;
        source.check_unclaimed().await?;
        Ok(source)
    }

    /// Refuses a source while another node holds its claim.
    ///
    /// # Errors
    /// [`StoreFault::Refused`]; [`StoreFault::Unavailable`] if the database cannot be read.
    pub(super) async fn check_unclaimed(&self) -> Result<(), StoreFault> {
        let directory = self.options.directory.as_path();
        let mark = MarkFile::open(directory, &self.cluster)?;
        let node = node_files::read_node(directory)?;
        let node = ClaimingNode::of_process(node, mark, ClaimTimes::default())?;
        self.place().check_claim(&node).await
    }

    /// Returns the public name of the cluster.
    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the name of the source in messages.
    pub(super) fn name(&self) -> String {
        self.place().name().display().to_string()
    }

    /// Returns the name of the place to which the data were migrated, as found at the beginning.
    pub(super) fn mark_found(&self) -> Option<&str> {
        self.mark.as_deref()
    }

    /// Refuses a source that was migrated to another place than `destination`.
    ///
    /// # Errors
    /// [`StoreFault::Refused`].
    pub(super) fn check_mark(&self, destination: &str) -> Result<(), StoreFault> {
        match &self.mark {
            Some(mark) if mark != destination => Err(StoreFault::Refused(format!(
                "the data in {} were migrated to {} already; nothing was changed; migrate that \
                 copy, or run `bulkhead operator migrate -config=FILE -reset` to use the data of \
                 the source again",
                self.name(),
                mark.escape_debug()
            ))),
            _ => Ok(()),
        }
    }

    /// Opens a reader of one state of the source.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be opened.
    pub(super) async fn read(&self) -> Result<DatabaseReader, StoreFault> {
        self.place().open_for_check().await
    }

    /// Returns the rows of the identity that the destination receives.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] for a row that this version does not write.
    pub(super) fn copied_rows(&self, rows: &MetaRows) -> Result<Vec<MetaChange>, StoreFault> {
        identity::copied_rows(rows).map_err(|name| {
            StoreFault::Refused(format!(
                "the identity in {} has the row {name:?}, which this version does not write; \
                 migrate with the version that wrote the data",
                self.name()
            ))
        })
    }

    /// Marks the source as migrated to `destination`.
    ///
    /// # Errors
    /// The reason why the mark cannot be written.
    pub(super) async fn mark(&self, destination: &str) -> Result<(), String> {
        let marked = migration_mark::write_mark(self.place(), destination).await;
        marked.map_err(|fault| fault.to_string())
    }

    /// Removes a mark of this run after `fault`. Returns the fault, with the remedy if the mark
    /// stays.
    pub(super) async fn take_mark_back(&self, fault: StoreFault) -> StoreFault {
        if self.mark.is_some() {
            return fault;
        }
        match migration_mark::remove_mark(self.place()).await {
            Ok(()) => fault,
            Err(failure) => StoreFault::Unavailable(format!(
                "{fault}; and the mark of the source as migrated could not be removed ({failure}): \
                 run `bulkhead operator migrate -config=FILE -reset` before the next start of a \
                 server on the source"
            )),
        }
    }

    /// Removes the mark, and returns the mark.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the mark cannot be removed.
    pub(super) async fn remove_mark(&self) -> Result<Option<String>, StoreFault> {
        if self.mark.is_some() {
            migration_mark::remove_mark(self.place()).await?;
        }
        Ok(self.mark.clone())
    }

    fn place(&self) -> DatabasePlace<'a> {
        place_of(self.options)
    }
}

/// Refuses a source that a server uses, and locks the directory of a database file.
fn lock_unused(options: &StoreOptions) -> Result<Option<DirectoryLock>, StoreFault> {
    let directory = options.directory.as_path();
    let in_use = || {
        StoreFault::Refused(format!(
            "the source is in use by a Bulkhead process with the data directory {}; nothing was \
             changed; stop that process first",
            directory.display()
        ))
    };
    match &options.database {
        DatabaseChoice::SqliteFile => {
            if !directory::holds_database(directory)? {
                return Err(empty(place_of(options)));
            }
            if directory::is_locked(directory)? {
                return Err(in_use());
            }
            let lock = directory::lock_existing(directory)?;
            match directory::find_unfinished_change(directory) {
                None => Ok(lock),
                Some(file) => Err(StoreFault::Refused(format!(
                    "{} is left of an interrupted initialisation or restore, and a migration \
                     changes nothing in its source; start the server once, then migrate again",
                    file.display()
                ))),
            }
        }
        // The lock is of this machine alone. The directory may be the destination's, too.
        DatabaseChoice::Postgres(_) if directory::is_locked(directory)? => Err(in_use()),
        DatabaseChoice::Postgres(_) => Ok(None),
    }
}

/// Refuses tables of a later version.
fn check_schema(place: DatabasePlace<'_>, rows: &MetaRows) -> Result<(), StoreFault> {
    // The row is absent if only the first version of the schema was applied.
    let schema = rows.get("schema").map_or(b"1".as_slice(), Vec::as_slice);
    let schema = std::str::from_utf8(schema).ok().and_then(|text| text.parse::<usize>().ok());
    match schema {
        Some(1..=SCHEMA_COUNT) => Ok(()),
        _ => Err(StoreFault::Refused(format!(
            "{} has a schema that this version does not read; nothing was changed; migrate with \
             the version that wrote the data, or a later version",
            place.name().display()
        ))),
    }
}

fn empty(place: DatabasePlace<'_>) -> StoreFault {
    StoreFault::Refused(format!(
        "the source {} holds no data; name the place of an initialised server",
        place.name().display()
    ))
}
