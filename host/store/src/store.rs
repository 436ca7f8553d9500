//! The open store of one data directory, asked for units of work and for what is due.

mod rotation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use zeroize::Zeroizing;

use sqlx::sqlite::SqliteConnection;

use crate::alarm::Alarm;
#[cfg(test)]
use crate::cache::Cache;
use crate::cache::Found;
use crate::clock::{Clock, ClockBehind, ClockJump};
use crate::committer::Committer;
use crate::due::{Due, DueLanes};
use crate::fault::StoreFault;
use crate::identity;
use crate::open_data::OpenData;
use crate::range::KeyRange;
use crate::record::{Address, Space};
use crate::revision;
use crate::rows;
use crate::script::{Answers, Script};
use crate::seal::{Hashes, Seal};
use crate::sqlite::{Database, Ending};
use crate::turns::{Contended, DUE_TURN_TIME, TURN_TIME, Turn, Turns};
use crate::watched::Watch;
use crate::work::{Outcome, Reads, Work};

/// An open store. Reads and writes go through units of work ([`Store::begin`]); the other questions
/// are about the committed state at that moment and are not remembered.
pub struct Store {
    data: Arc<OpenData>,
    committer: Committer,
    turns: Arc<Turns>,
    clock: Arc<Clock>,
    /// Held from making a new term until it is in use, so that no two rotations make the same one.
    rotating: Mutex<()>,
}

impl Store {
    /// The store of these data, by the clock of their directory.
    pub(crate) fn new(data: OpenData, clock: Arc<Clock>) -> Arc<Store> {
        Arc::new(Store {
            data: Arc::new(data),
            committer: Committer::start(),
            turns: Arc::default(),
            clock,
            rotating: Mutex::default(),
        })
    }

    /// The revision of `mount`: how many commits have changed its data.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when it cannot be read, [`StoreFault::Damaged`] when it does not
    /// open.
    pub async fn revision(&self, mount: &str) -> Result<u64, StoreFault> {
        let counter = revision::counter(mount);
        let found = self.read(&counter).await?;
        revision::parse(&counter, found.as_ref().map(|(_, record)| record))
    }

    /// Store time: milliseconds since 1970, going on evenly while the process lives, also when the
    /// system's clock is set. All due times and expiries are computed from and compared with this
    /// clock only.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// By how much the system's clock was set since the last call that gave something, to be
    /// told to the operator; `None` when it was not.
    pub fn clock_jump(&self) -> Option<ClockJump> {
        self.clock.jump()
    }

    /// Returns once that the system's clock was behind the time of the data when a process opened
    /// the data, for the operator.
    pub fn take_clock_behind(&self) -> Option<ClockBehind> {
        self.clock.take_behind()
    }

    /// Writes the mark of store time, from which the next process goes on if its clock is behind.
    /// Commits write the mark as well; this call is for a store that is idle or about to be closed.
    /// Does nothing if the mark is younger than `age`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when it cannot be written.
    pub async fn mark_time(&self, age: Duration) -> Result<(), StoreFault> {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let Some(time) = self.data.time.due_after(age) else { return Ok(()) };
        let mut writes = Script::default();
        identity::put_time(&mut writes, time)?;
        let plan = |_: Answers| Ok(Ending::Commit(writes));
        self.database().transact(Script::default(), plan).await.map_err(StoreFault::from)?;
        self.data.time.note(time);
        Ok(())
    }

    /// Some of the lanes of `space` from the name `first` on and before the name `end` in which a
    /// record was due at `until` (store time, milliseconds). It costs the same however much waits
    /// in the lanes, and nothing for lanes elsewhere.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn due_lanes(
        &self,
        space: Space,
        (first, end): (&str, &str),
        until: u64,
    ) -> Result<DueLanes, StoreFault> {
        self.database().due_lanes(space, (first, end), until).await.map_err(StoreFault::from)
    }

    /// The first `limit` records of one lane of a kind that were due at `until`, oldest first. An
    /// empty lane is that of the records without one. Another call may return the same ones until
    /// they are changed.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn due_in_lane(
        &self,
        lane: (Space, &str),
        until: u64,
        limit: u32,
    ) -> Result<Vec<Due>, StoreFault> {
        self.database().due_in_lane(lane, until, limit).await.map_err(StoreFault::from)
    }

    /// The earliest due time of all records of all kinds, past or to come; `None` when nothing will
    /// be due.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn next_due(&self) -> Result<Option<u64>, StoreFault> {
        self.database().next_due(None).await.map_err(StoreFault::from)
    }

    /// The earliest due time later than `moment`. A worker that has asked for what is due until
    /// `moment` sleeps until then; records that are due already but busy do not keep it awake.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn next_due_after(&self, moment: u64) -> Result<Option<u64>, StoreFault> {
        self.database().next_due(Some(moment)).await.map_err(StoreFault::from)
    }

    /// A place for a request that goes on after conflicts, for its units:
    /// [`Unit::in_turn`](crate::Unit::in_turn).
    pub fn turn(&self) -> Turn {
        Turn::new(&self.turns, TURN_TIME)
    }

    /// The same for due work, for which no caller waits.
    pub fn turn_of_due_work(&self) -> Turn {
        Turn::new(&self.turns, DUE_TURN_TIME)
    }

    /// Watches records of [`Space::Data`] by their full keys: the watch tells of each commit from
    /// now on that puts or deletes one of them.
    pub fn watch(&self, keys: Vec<String>) -> Watch {
        self.data.watched.watch(keys)
    }

    /// A number of all data of `mount`: another one after each commit that puts or deletes any.
    /// Equal numbers before a read and after the beginning of a watch say that the watch misses
    /// nothing.
    pub fn changes_of(&self, mount: &str) -> u64 {
        self.data.folder(&format!("{mount}/"))
    }

    /// Rings for the worker on due records.
    pub fn alarm(&self) -> &Alarm {
        &self.data.alarm
    }

    /// How many records of `space` have keys that begin with `prefix`. Counting stops at `at_most`,
    /// so that a limit can be checked without reading everything.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn count(&self, space: Space, prefix: &str, at_most: u32) -> Result<u32, StoreFault> {
        let range = KeyRange::new(space, prefix, "");
        let count = async |connection: &mut SqliteConnection| {
            rows::count(connection, &range, at_most).await
        };
        self.database().readers().read(count).await.map_err(StoreFault::from)
    }

    /// How many records of `space` belong to owners that begin with `prefix`. Counting stops at
    /// `at_most`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn count_owned(
        &self,
        space: Space,
        prefix: &str,
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        let owners = KeyRange::new(space, prefix, "");
        let count = async |connection: &mut SqliteConnection| {
            rows::count_owned(connection, &owners, at_most).await
        };
        self.database().readers().read(count).await.map_err(StoreFault::from)
    }

    /// How many records of one lane of a kind will be due at some time. Counting stops at
    /// `at_most`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn count_in_lane(
        &self,
        lane: (Space, &str),
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        self.database().count_in_lane(lane, at_most).await.map_err(StoreFault::from)
    }

    /// Returns the bytes that each mount stores, by the first segment of the mount's keys: rows of
    /// data, leases, reservations and timers. Mounts without a row are left out.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn stored_bytes(&self) -> Result<BTreeMap<String, u64>, StoreFault> {
        let query = sqlx::query_as("SELECT mount, bytes FROM stored");
        let read = async |connection: &mut SqliteConnection| query.fetch_all(connection).await;
        let counted: Vec<(String, i64)> = self.database().readers().read(read).await?;
        let bytes = |(mount, bytes)| Some((mount, u64::try_from(bytes).ok()?));
        Ok(counted.into_iter().filter_map(bytes).collect())
    }

    /// Returns the empty pages of the database file to the file system, a few at a time between
    /// other commits.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be written.
    pub async fn give_back_space(&self) -> Result<(), StoreFault> {
        let mut left = u64::MAX;
        loop {
            let now = self.database().give_back_pages().await?;
            // A file that an earlier release made keeps its pages, for what is stored next.
            if now == 0 || now >= left {
                break;
            }
            left = now;
        }
        self.database().empty_log().await
    }

    /// A name for a secret text that can be looked up but not turned back: 64 hexadecimal digits of
    /// HMAC-SHA256 under a key that only this cluster and this `purpose` have. Tokens and lease ids
    /// become keys of records by it.
    pub fn keyed_hash(&self, purpose: &str, text: &[u8]) -> String {
        self.seal().hashes().keyed_hash(purpose, text)
    }

    /// The means by which [`Store::keyed_hash`] names, to name more than one thing by them.
    pub fn hashes(&self) -> &Hashes {
        self.seal().hashes()
    }

    /// `body` as a text that only this cluster opens, and only for this `purpose`: sealed like a
    /// record, and kept by its holder instead of in the store. Letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when there is no randomness.
    pub fn seal_text(&self, purpose: &str, body: &[u8]) -> Result<String, StoreFault> {
        self.seal().seal_text(purpose, body)
    }

    /// What [`Store::seal_text`] sealed, also before rotations; `None` for anything else.
    pub fn open_text(&self, purpose: &str, text: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.seal().open_text(purpose, text)
    }

    /// Why nothing is written any more, if that is so: an I/O error, after which what the disk
    /// holds is not known. Reads go on until the server is restarted.
    pub fn stopped(&self) -> Option<&str> {
        self.database().stopped()
    }

    /// How many commits were flushed to the disk since the store was opened.
    pub fn flushes(&self) -> u64 {
        self.database().flushes()
    }

    /// How many units of work were committed since the store was opened; those that are committed
    /// together share a flush.
    pub fn commits(&self) -> u64 {
        self.committer.commits()
    }

    /// Waits for the commit under way, closes the database and gives the directory back. What is
    /// called afterwards fails as unavailable. The keys and the records in memory are wiped when
    /// the last handle of the store is dropped.
    pub async fn close(&self) {
        self.data.close().await;
    }

    pub(crate) fn seal(&self) -> &Seal {
        &self.data.seal
    }

    pub(crate) fn data(&self) -> Arc<OpenData> {
        Arc::clone(&self.data)
    }

    pub(crate) fn database(&self) -> &Database {
        &self.data.database
    }

    #[cfg(test)]
    pub(crate) fn cache(&self) -> &Cache {
        &self.data.cache
    }

    /// The newest committed record at `address`, with the stamp by which a commit knows it.
    ///
    /// # Errors
    /// As [`OpenData::read`].
    pub(crate) async fn read(&self, address: &Address) -> Result<Found, StoreFault> {
        self.data.read(address).await
    }

    /// The first `limit` committed keys of `range`, in order.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub(crate) async fn list(
        &self,
        range: &KeyRange,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        let list =
            async |connection: &mut SqliteConnection| rows::list(connection, range, limit).await;
        self.database().readers().read(list).await.map_err(StoreFault::from)
    }

    /// The first `limit` rows of a kind behind the row `after` that belong to an owner, with their
    /// keys, in the order of their first write.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub(crate) async fn owned(
        &self,
        owner: (Space, &str),
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, String)>, StoreFault> {
        let list = async |connection: &mut SqliteConnection| {
            rows::list_owned(connection, owner, after, limit).await
        };
        self.database().readers().read(list).await.map_err(StoreFault::from)
    }

    /// What of `reads` was not true at one moment with the others.
    ///
    /// # Errors
    /// As [`OpenData::find_changed`].
    pub(crate) async fn find_changed(
        &self,
        reads: &Reads,
    ) -> Result<Option<Contended>, StoreFault> {
        self.data.find_changed(reads).await
    }

    /// Commits one unit. From the first poll on it is the committer's, and goes on when the caller
    /// goes away.
    pub(crate) async fn commit(self: Arc<Self>, work: Work) -> Outcome {
        self.committer.commit(Arc::clone(&self.data), work).await
    }
}
