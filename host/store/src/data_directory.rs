//! The data directory as held by a process: the properties known while the data are sealed, and the
//! opening of the data.
//!
//! This file prevents a directory that is half initialised after a kill, two stores on the same
//! database, and a server asking for a key before it has checked that the data are Bulkhead's.
//! While the data are sealed, no key of the data is in memory; the key of a static seal is in the
//! settings of the service.

mod beginning_time;
mod claiming;
mod copies;
mod examining;
mod present_seals;
mod properties;
mod rekey;
mod restoring;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use bulkhead_wire::sync;
use tokio::sync::Mutex;

use crate::clock::StoreClock;
use crate::database::{Database, DatabasePlace};
use crate::identity::{self, StoreIdentity};
use crate::open_data::OpenData;
use crate::store::Store;
use bulkhead_place::claim_watch::{ClaimTimes, NodeSharing};
use bulkhead_place::directory::{self, DirectoryLock, HeldDirectory};
use bulkhead_place::former_epochs::FormerEpochs;
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_record::body::RecordBody;
use bulkhead_record::cipher::SealKey;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::{Address, IndexColumns, Record};
use bulkhead_record::root_seals::FirstKeys;
use bulkhead_record::rows::SealedRow;
use bulkhead_record::seal::{Seal, SecretHasher};
use bulkhead_record::shamir::SealConfig;

pub(crate) use copies::{find_beside, remove_database};
use properties::DirectoryProperties;
pub use rekey::RekeyOutcome;

/// A record that is written when the store is created.
type FirstRecord = (Address, Vec<u8>, IndexColumns);

/// A data directory, held by this process alone. The data stay sealed until a key opens them.
pub struct DataDirectory {
    options: StoreOptions,
    /// The clock of all stores of this process, so that store time continues when the data are
    /// sealed and opened again.
    clock: Arc<StoreClock>,
    lock: Arc<Mutex<DirectoryLock>>,
    /// The properties of an initialised directory; `None` as long as nothing was found, and after
    /// the database was replaced.
    known: RwLock<Option<Arc<DirectoryProperties>>>,
    /// Lock held while a restore is prepared and put in place.
    restoring: Arc<Mutex<()>>,
    claim_times: ClaimTimes,
    sharing: NodeSharing,
}

/// Returns the place of the database with the records.
pub(crate) fn place_of(options: &StoreOptions) -> DatabasePlace<'_> {
    match &options.database {
        DatabaseChoice::SqliteFile => DatabasePlace::SqliteIn(&options.directory),
        DatabaseChoice::Postgres(place) => DatabasePlace::Postgres(place),
    }
}

impl DataDirectory {
    /// Creates the directory (mode 0700) if missing, locks it, and reads the database's identity
    /// without writing.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another process holds the directory, another node holds the
    /// database, or the database is not ours, lacks a part of the identity or lost acknowledged
    /// writes; [`StoreFault::OtherFormat`]; [`StoreFault::Unavailable`] if the directory cannot be
    /// used.
    pub async fn hold(options: StoreOptions) -> Result<Arc<DataDirectory>, StoreFault> {
        DataDirectory::hold_by(options, StoreClock::system()).await
    }

    /// Returns whether a process holds the directory. Nothing is created.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the lock file cannot be read.
    pub fn is_held(directory: &Path) -> Result<bool, StoreFault> {
        directory::is_locked(directory)
    }

    /// Holds the directory like [`DataDirectory::hold`], with this clock.
    pub(crate) async fn hold_by(
        options: StoreOptions,
        clock: StoreClock,
    ) -> Result<Arc<DataDirectory>, StoreFault> {
        let data_directory = DataDirectory::hold_uninspected(options, clock)?;
        data_directory.inspect().await?;
        data_directory.check_claim().await?;
        Ok(Arc::new(data_directory))
    }

    fn hold_uninspected(
        options: StoreOptions,
        clock: StoreClock,
    ) -> Result<DataDirectory, StoreFault> {
        directory::create(&options.directory)?;
        let lock = Arc::new(Mutex::new(directory::lock(&options.directory)?));
        copies::remove_unfinished_restore(&options.directory)?;
        directory::remove_unfinished_restores(&options.directory)?;
        copies::finish_put_back(&options.directory)?;
        let (known, restoring, clock) = (RwLock::default(), Arc::default(), Arc::new(clock));
        let (claim_times, sharing) = (ClaimTimes::default(), options.sharing);
        Ok(DataDirectory { options, clock, lock, known, restoring, claim_times, sharing })
    }

    /// Returns store time, also while the data are sealed.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns the public name of the cluster, a UUID; `None` if nothing is initialised yet.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`], if the database has to be read.
    pub async fn cluster_id(&self) -> Result<Option<String>, StoreFault> {
        Ok(self.known().await?.map(|properties| properties.cluster_name.clone()))
    }

    /// Creates a new cluster: tables, identity, keys sealed by `keys`, and the `first` records, in
    /// a single transaction. `first` receives the hasher for record names. A process killed at any
    /// moment leaves a directory that is initialised completely or not at all. The caller splits
    /// the key of the holders ([`crate::split`]).
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the directory is initialised already, or the split breaks the
    /// rules of [`SealConfig::new`]; [`StoreFault::Unavailable`] if the database cannot be written
    /// or is being opened; and the fault of `first`.
    pub async fn initialise(
        &self,
        keys: FirstKeys<'_>,
        first: impl FnOnce(&SecretHasher) -> Result<Vec<FirstRecord>, StoreFault>,
    ) -> Result<(), StoreFault> {
        if let Some((config, _)) = &keys.holders {
            config.validate()?;
        }
        let lock = self.take_lock()?;
        // A chosen replacement stands, also if there is no database yet.
        self.complete_replacement_locked()?;
        if self.inspect().await?.is_some() {
            return Err(StoreFault::Refused(format!(
                "{} is initialised already; unseal the server, or choose another data directory",
                self.name().display()
            )));
        }
        self.check_unmarked()?;
        let (identity, seal) = StoreIdentity::generate(keys, self.clock.now())?;
        let seal_row = |(address, body, index): (Address, Vec<u8>, IndexColumns)| {
            SealedRow::of(&seal, &address, &Record::unwritten(RecordBody::new(body), index))
        };
        let rows: Vec<SealedRow> =
            first(seal.hashes())?.into_iter().map(seal_row).collect::<Result<_, _>>()?;
        self.place().create()?;
        let database = self.open_database().await?;
        let sealed_keyring = identity.sealed_keyring().to_vec();
        let properties = DirectoryProperties::of(&identity);
        let written = database.initialise(identity.rows(), &rows).await;
        database.close().await;
        drop(lock);
        if let Err(fault) = written {
            // If the answer was lost, the result is looked up: a cluster whose shares no operator
            // received would stay sealed for ever.
            match identity::read(self.place()).await {
                Ok(Some(stored)) if stored.sealed_keyring() == sealed_keyring => {}
                _ => return Err(fault),
            }
        }
        self.note(properties);
        Ok(())
    }

    /// Opens the store with the key of the holders. Loads no records; writes only the additions to
    /// the schema of an earlier release. May be called again after [`Store::close`].
    ///
    /// # Errors
    /// [`StoreFault::WrongKey`] if `key` is not the key that sealed the data;
    /// [`StoreFault::Refused`] if nothing is initialised or the data cannot be used;
    /// [`StoreFault::Unavailable`] if the database cannot be read, or is open already.
    pub async fn open(self: &Arc<Self>, key: SealKey) -> Result<Arc<Store>, StoreFault> {
        self.open_by(|identity| identity.open(&key, &self.name())).await
    }

    /// Opens the store with the key of the automatic seal (`DataSeals::automatic`), like
    /// [`DataDirectory::open`].
    ///
    /// # Errors
    /// As [`DataDirectory::open`].
    pub async fn open_automatically(
        self: &Arc<Self>,
        key: &SealKey,
    ) -> Result<Arc<Store>, StoreFault> {
        self.open_by(|identity| identity.open_automatically(key, &self.name())).await
    }

    async fn open_by(
        self: &Arc<Self>,
        open: impl Fn(&StoreIdentity) -> Result<Seal, StoreFault>,
    ) -> Result<Arc<Store>, StoreFault> {
        let lock = self.take_lock()?;
        // A chosen replacement stands: records written before its end would be lost.
        self.complete_replacement_locked()?;
        let found = identity::read_for_start(self.place()).await?.ok_or_else(|| {
            StoreFault::Refused(format!(
                "{} is not initialised; initialise the server first",
                self.name().display()
            ))
        })?;
        // Another node may have changed the seals since the start of this process.
        self.replace_properties(&found);
        // A wrong key takes no claim.
        open(&found)?;
        let (database, identity) = self.open_claimed(found).await?;
        let seal = match open(&identity) {
            Ok(seal) => database.migrate().await.map(|()| seal),
            Err(fault) => Err(fault),
        };
        let seal = match seal {
            Ok(seal) => seal,
            Err(fault) => {
                database.close().await;
                return Err(fault);
            }
        };
        self.replace_properties(&identity);
        self.clock.advance_to(identity.reached());
        database.begin_service();
        let row = database.shared_row();
        let data = OpenData::new(database, seal, lock, &self.clock)?;
        let former = row.map(|row| FormerEpochs::begin(self.path(), &row, &data.epoch));
        Ok(Store::new(data, (Arc::clone(&self.clock), identity.restored()), former))
    }

    /// Returns the first of `keys` that opens the data; `None` if no key does.
    ///
    /// # Errors
    /// As [`DataDirectory::open`], except for a wrong key.
    pub async fn find_key(&self, keys: Vec<SealKey>) -> Result<Option<SealKey>, StoreFault> {
        if keys.is_empty() {
            return Ok(None);
        }
        let Some(identity) = identity::read(self.place()).await? else { return Ok(None) };
        // Another node may have given the holders another number of shares.
        self.replace_properties(&identity);
        for key in keys {
            match identity.open(&key, &self.name()) {
                Ok(_) => return Ok(Some(key)),
                Err(StoreFault::WrongKey) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(None)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.options.directory
    }

    /// Returns the name of the data in messages: the directory, or the place on a server.
    fn name(&self) -> PathBuf {
        match &self.options.database {
            DatabaseChoice::SqliteFile => self.path().to_owned(),
            DatabaseChoice::Postgres(_) => self.place().name(),
        }
    }

    /// Returns the place of the database with the records.
    fn place(&self) -> DatabasePlace<'_> {
        place_of(&self.options)
    }

    async fn open_database(&self) -> Result<Database, StoreFault> {
        self.place().open(self.options.flushing).await
    }

    /// Returns `true` if data were found when the directory was last inspected.
    pub(crate) fn is_initialised(&self) -> bool {
        self.properties().is_some()
    }

    /// Returns the properties of the directory. Inspects the directory again as long as nothing was
    /// found: an initialisation that failed may have been stored all the same, and a replacement
    /// may be incomplete.
    async fn known(&self) -> Result<Option<Arc<DirectoryProperties>>, StoreFault> {
        match self.properties() {
            Some(properties) => Ok(Some(properties)),
            None => {
                self.complete_replacement()?;
                self.inspect().await
            }
        }
    }

    async fn inspect(&self) -> Result<Option<Arc<DirectoryProperties>>, StoreFault> {
        let Some(identity) = identity::read_for_start(self.place()).await? else { return Ok(None) };
        self.clock.advance_to(identity.reached());
        Ok(Some(self.note(DirectoryProperties::of(&identity))))
    }

    fn properties(&self) -> Option<Arc<DirectoryProperties>> {
        sync::read(&self.known).clone()
    }

    /// Notes the properties, unless there are some already.
    fn note(&self, properties: DirectoryProperties) -> Arc<DirectoryProperties> {
        let mut noted = sync::write(&self.known);
        Arc::clone(noted.get_or_insert_with(|| Arc::new(properties)))
    }

    /// Notes the properties of the data that an opening found.
    fn replace_properties(&self, identity: &StoreIdentity) {
        *sync::write(&self.known) = Some(Arc::new(DirectoryProperties::of(identity)));
    }

    /// Forgets the properties of a database that was replaced.
    fn forget_properties(&self) {
        *sync::write(&self.known) = None;
    }

    fn take_lock(&self) -> Result<HeldDirectory, StoreFault> {
        Arc::clone(&self.lock).try_lock_owned().map_err(|_| {
            StoreFault::Unavailable(format!(
                "the data in {} are open, or being opened or closed, in this process; seal the \
                 server first, or try again in a moment",
                self.name().display()
            ))
        })
    }
}

impl Store {
    /// Opens the store, or creates a new store with `key` as its single share. Loads no records.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another process holds the directory, [`StoreFault::OtherFormat`],
    /// and [`StoreFault::WrongKey`] if `key` is not the key that sealed the data; in these cases
    /// nothing was written. [`StoreFault::Unavailable`] if the directory cannot be used.
    pub async fn open(options: StoreOptions, key: SealKey) -> Result<Arc<Store>, StoreFault> {
        let directory = DataDirectory::hold(options).await?;
        if directory.seals().await?.is_none() {
            let keys = FirstKeys::of_holders(SealConfig::SINGLE, &key);
            directory.initialise(keys, |_| Ok(Vec::new())).await?;
        }
        directory.open(key).await
    }
}
