//! The data of an open store, shared by the units of work that read and the committer that writes.

mod keyring_reading;

pub(crate) use keyring_reading::keyring_damaged;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use tokio::sync::Mutex;

use crate::activity::ActivityCounters;
use crate::alarm::WorkerAlarm;
use crate::cache::{RecordCache, StampedRecord};
use crate::change_watch::ChangeWatch;
use crate::clock::StoreClock;
use crate::database::Database;
use crate::database_clock::{ClockReading, DatabaseClock};
use crate::folders::FolderNumbers;
use crate::followed_keys::FollowedKeys;
use crate::foreign_changes::ExpiredClaim;
use crate::keyring_watch::KeyringWatch;
use crate::snapshot_places::SnapshotPlaces;
use crate::stored::StoredBytes;
use crate::time_mark::TimeMark;
use crate::watched_keys::WatchedKeys;
use crate::work::ReadSet;
use crate::write_queue::ContendedKey;
use bulkhead_place::directory::HeldDirectory;
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_record::cipher;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::{Address, Stamp};
use bulkhead_record::seal::Seal;
use bulkhead_wire::hexadecimal;

/// The database, the keys that open it, and the state in memory. A unit waiting for its commit has
/// a handle, so that the directory stays locked until the outcome is known.
pub(crate) struct OpenData {
    pub(crate) database: Database,
    pub(crate) seal: Seal,
    pub(crate) cache: RecordCache,
    pub(crate) folders: FolderNumbers,
    pub(crate) watched: Arc<WatchedKeys>,
    pub(crate) alarm: WorkerAlarm,
    pub(crate) activity: ActivityCounters,
    pub(crate) time: TimeMark,
    database_clock: DatabaseClock,
    pub(crate) stored: StoredBytes,
    pub(crate) snapshots: SnapshotPlaces,
    pub(crate) changes: ChangeWatch,
    pub(crate) followed: FollowedKeys,
    keyring: KeyringWatch,
    /// A node of the shared database released the data, or the data never were restored.
    released: AtomicBool,
    /// The name of this opening.
    pub(crate) epoch: String,
    /// `None` once the store is closed.
    directory: Mutex<Option<HeldDirectory>>,
}

impl OpenData {
    /// Creates the data of `database`, whose directory this process holds, with the time of
    /// `clock`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if there is no randomness.
    pub(crate) fn new(
        database: Database,
        seal: Seal,
        directory: HeldDirectory,
        clock: &Arc<StoreClock>,
    ) -> Result<OpenData, StoreFault> {
        let epoch = match database.claim_holder() {
            Some(holder) => holder,
            None => cipher::random()?,
        };
        let changes = ChangeWatch::new(database.shared_row());
        let data = OpenData {
            database,
            epoch: hexadecimal::text(&epoch),
            seal,
            cache: RecordCache::default(),
            folders: FolderNumbers::new()?,
            watched: Arc::default(),
            alarm: WorkerAlarm::default(),
            activity: ActivityCounters::default(),
            time: TimeMark::new(clock),
            database_clock: DatabaseClock::new(clock),
            stored: StoredBytes::new(changes.is_shared()),
            snapshots: SnapshotPlaces::default(),
            changes,
            followed: FollowedKeys::default(),
            keyring: KeyringWatch::default(),
            released: AtomicBool::new(false),
            directory: Mutex::new(Some(directory)),
        };
        data.begin_keyring();
        Ok(data)
    }

    /// Returns the newest committed record at `address`, from memory if cached.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] if the record does not open, [`StoreFault::Unavailable`] if the
    /// database cannot be read, or the claim on the database is lost or in doubt.
    pub(crate) async fn read(&self, address: &Address) -> Result<StampedRecord, StoreFault> {
        self.check_fresh().await?;
        let commits = match self.cache.find(address) {
            Ok(record) => {
                self.activity.cache_hits.increment();
                return Ok(record);
            }
            Err(commits) => commits,
        };
        self.activity.cache_misses.increment();
        // Boxed, like every rarely needed future here: otherwise each awaiting future would be as
        // large, and requests move such futures several times.
        let found = Box::pin(self.fetch(address)).await?;
        self.cache.keep((commits, self.changes.last_begun()), address, &found);
        Ok(found)
    }

    async fn fetch(&self, address: &Address) -> Result<StampedRecord, StoreFault> {
        let row = self.changes.while_followed(self.database.find_row(address)).await?;
        self.know_terms_of(row.iter()).await?;
        row.map(|row| Ok((row.stamp, row.open(&self.seal)?))).transpose()
    }

    /// Returns a read of `reads` that did not hold at the same moment as the others, if any.
    ///
    /// # Errors
    /// As [`Database::find_changed`].
    pub(crate) async fn find_changed(
        &self,
        reads: &ReadSet,
    ) -> Result<Option<ContendedKey>, StoreFault> {
        self.check_fresh().await?;
        let changed = match reads.only_keys() {
            Some(keys) if self.holds_in_memory(reads, keys) => None,
            _ => Box::pin(self.find_changed_in_database(reads)).await?,
        };
        // Checked last: a folder number that holds now also held at the moment of the other checks.
        Ok(changed
            .or_else(|| reads.changed_folder(|name, number| self.folders.holds(name, number))))
    }

    /// Returns whether the reads held at one moment, as far as the memory of this process shows. A
    /// value of a folder may be newer than the records in memory if other nodes write.
    fn holds_in_memory(&self, reads: &ReadSet, keys: &BTreeMap<Address, Option<Stamp>>) -> bool {
        let ended = self.changes.last_ended();
        !(ended.is_shared() && reads.has_folders()) && self.cache.holds(keys, ended)
    }

    async fn find_changed_in_database(
        &self,
        reads: &ReadSet,
    ) -> Result<Option<ContendedKey>, StoreFault> {
        let changed = self.changes.while_followed(self.database.find_changed(reads)).await?;
        self.note_contended(changed.as_ref());
        if changed.is_none() && reads.has_folders() {
            // A folder that another node changed before the check has another number by then.
            self.changes.await_next().await?;
        }
        Ok(changed)
    }

    /// Evicts a record that another node changed, so that a repetition does not find the record
    /// again.
    pub(crate) fn note_contended(&self, contended: Option<&ContendedKey>) {
        if let Some(ContendedKey::Record(address)) = contended
            && self.changes.is_shared()
        {
            self.cache.evict(std::iter::once(address));
        }
    }

    /// Checks that records in memory may be used. Waits for a read of changes that is late.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the claim on the database is lost or in doubt, or the changes
    /// of other nodes cannot be read.
    pub(crate) async fn check_fresh(&self) -> Result<(), StoreFault> {
        self.database.check_claim()?;
        match self.changes.check() {
            Ok(()) => Ok(()),
            Err(_) => Box::pin(self.changes.await_fresh()).await,
        }
    }

    /// Waits until the commits of this process up to `commit` are in force on every node.
    pub(crate) async fn await_others(&self, commit: i64) {
        self.changes.await_others(commit, || self.database.other_nodes().boxed()).await;
    }

    /// Reads what other nodes committed, evicts what they changed, reads the keyring if another
    /// node replaced the keyring, lets store time follow the clock of the database, and writes the
    /// progress of this node. Returns the claims to be ended.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn read_changes(&self) -> Result<Vec<ExpiredClaim>, StoreFault> {
        let Some(mut silent) = self.changes.hold_reading().await else { return Ok(Vec::new()) };
        let Some((number, begun, known)) = self.changes.begin() else { return Ok(Vec::new()) };
        let before = self.database_clock.steady_time();
        let found = self.database.read_changes(&known).await?;
        if let Some(database) = found.database_time {
            let after = self.database_clock.steady_time();
            self.database_clock.follow(&ClockReading { asked: (before, after), database });
        }
        if found.has_gap {
            self.cache.clear();
            self.folders.forget();
            self.followed.note_gap();
            self.watched.ring_all();
        } else if !found.addresses.is_empty() {
            let changed = || found.addresses.iter();
            self.cache.evict(changed());
            self.folders.note_changes(changed());
            self.followed.note_changes(&found.addresses);
            self.watched.ring(changed());
        }
        // One of several nodes writes the mark.
        found.time_mark.into_iter().for_each(|mark| self.time.note(mark));
        if !found.is_restored {
            self.released.store(true, Ordering::Relaxed);
        }
        let is_keyring_new = self.follow_keyring(found.keyring_bytes).await?;
        self.changes.end((number, begun), found.known.clone(), found.own_proof);
        if found.is_awaited || is_keyring_new || self.changes.is_progress_due() {
            let begun = steady_milliseconds();
            if self.database.write_progress(&found.known).await? {
                self.changes.note_progress(begun);
            }
        }
        Ok(silent.note(&found.expired, (begun, self.database.claim_silence())))
    }

    /// Proves that the database takes writes: stores a proof, and waits for the flush and for a
    /// synchronous standby.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database does not take the write.
    pub(crate) async fn prove_writes(&self) -> Result<(), StoreFault> {
        let Some(proof) = self.changes.begin_proof() else { return Ok(()) };
        let is_stored = tokio::select! {
            stored = self.database.write_proof(&proof) => stored?,
            // A proof may wait for a standby, and the close of the store must not.
            () = self.changes.closed() => false,
        };
        if is_stored {
            self.changes.end_proof(proof);
        }
        Ok(())
    }

    /// Moves store time away from the clock of the database.
    #[cfg(test)]
    pub(crate) fn correct_clock(&self, by: i64) {
        self.database_clock.correct(by);
    }

    /// Returns whether a read of changes found no note of a restore.
    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }

    /// Returns the number of the folder `name`, which changes with each commit that writes in the
    /// folder.
    pub(crate) fn folder(&self, name: &str) -> u64 {
        self.folders.number(name, || self.cache.writes_below(name))
    }

    /// Ends the snapshots in progress, waits for the current commit, closes the database and
    /// releases the directory.
    pub(crate) async fn close(&self) {
        self.snapshots.close().await;
        self.changes.close();
        self.database.close().await;
        self.cache.clear();
        self.directory.lock().await.take();
    }
}
