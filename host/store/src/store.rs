//! The open store of a data directory: units of work, and queries over the committed state.

mod activity_reading;
mod claim_upkeep;
mod counters;
mod restored;
mod rotation;
#[cfg(test)]
mod tests;

use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use zeroize::Zeroizing;

use crate::alarm::WorkerAlarm;
#[cfg(test)]
use crate::cache::RecordCache;
use crate::cache::StampedRecord;
use crate::clock::{ClockBehind, ClockJump, StoreClock};
use crate::committer::Committer;
use crate::database::Database;
use crate::followed_keys::ForeignChangeCount;
use crate::identity;
use crate::open_data::OpenData;
use crate::revision;
use crate::watched_keys::KeyWatch;
use crate::work::{CommitOutcome, CommitRequest, ReadSet};
use crate::write_queue::{ContendedKey, DUE_TURN_TIME, QueueTicket, TURN_TIME, WriteQueue};
use bulkhead_place::former_epochs::FormerEpochs;
use bulkhead_place::write_condition::WriteCondition;
use bulkhead_record::due::{DueLanes, DueRecord};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Space};
use bulkhead_record::seal::{Seal, SecretHasher};

/// An open store.
///
/// Units of work ([`Store::begin`]) read and write records. Every other query sees the committed
/// state at the moment of the query; no commit checks the result again.
pub struct Store {
    data: Arc<OpenData>,
    committer: Committer,
    turns: Arc<WriteQueue>,
    clock: Arc<StoreClock>,
    /// Lock held from the creation of a new term until the term is in use, so that two rotations
    /// never create the same term.
    rotating: Mutex<()>,
    /// Store time of the restore, until the data are released.
    restored: RwLock<Option<u64>>,
    /// Earlier openings of the directory; `None` if this process works alone.
    former: Option<FormerEpochs>,
}

impl Store {
    /// Creates the store of `data`. `clock` is the clock of the data directory.
    pub(crate) fn new(
        data: OpenData,
        (clock, restored): (Arc<StoreClock>, Option<u64>),
        former: Option<FormerEpochs>,
    ) -> Arc<Store> {
        let data = Arc::new(data);
        claim_upkeep::begin(&data);
        Arc::new(Store {
            data,
            committer: Committer::start(),
            turns: Arc::default(),
            clock,
            rotating: Mutex::default(),
            restored: RwLock::new(restored),
            former,
        })
    }

    /// Returns the revision of `mount`: the number of commits that changed the mount's data.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the counter cannot be read, [`StoreFault::Damaged`] if the
    /// counter does not open.
    pub async fn revision(&self, mount: &str) -> Result<u64, StoreFault> {
        let counter = revision::counter(mount);
        let found = self.read(&counter).await?;
        revision::parse(&counter, found.as_ref().map(|(_, record)| record))
    }

    /// Returns store time: milliseconds since 1970. Store time advances evenly while the process
    /// lives, even if the system's clock is set. All due times and expiries are computed from this
    /// clock and compared with this clock only.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns the amount by which the system's clock was set since the last call that returned a
    /// jump. The caller tells the operator. `None`: the clock was not set.
    pub fn clock_jump(&self) -> Option<ClockJump> {
        self.clock.jump()
    }

    /// Returns, once, the finding that the system's clock was behind the time of the data when a
    /// process opened the data. The caller tells the operator.
    pub fn take_clock_behind(&self) -> Option<ClockBehind> {
        self.clock.take_behind()
    }

    /// Returns the milliseconds by which the system's clock is behind store time; 0 if the clock is
    /// not behind. Unlike the findings above, the answer lasts until the clock is set right.
    pub fn clock_lag(&self) -> u64 {
        self.clock.lag()
    }

    /// Writes the mark of store time, from which the next process continues if the clock of the
    /// machine is behind. Commits write the mark as well; this call is for a store that is idle or
    /// about to be closed. Does nothing if the mark is younger than `age`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the mark cannot be written.
    pub async fn mark_time(&self, age: Duration) -> Result<(), StoreFault> {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let Some(time) = self.data.time.due_after(age) else { return Ok(()) };
        self.database().change_identity(vec![identity::time_row(time)]).await?;
        self.data.time.note(time);
        Ok(())
    }

    /// Returns some of the lanes of `space`, from the first name of `bounds` up to but not
    /// including the second, in which a record was due at `until` (store time, milliseconds). The
    /// cost does not depend on the number of records in the lanes, and lanes outside of the bounds
    /// cost nothing.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn due_lanes(
        &self,
        space: Space,
        bounds: (&str, &str),
        until: u64,
    ) -> Result<DueLanes, StoreFault> {
        let heads = self.database().lane_heads(space, bounds).await?;
        Ok(DueLanes::of_heads(heads, until))
    }

    /// Returns the first `limit` records of a lane that were due at `until`, oldest first. The
    /// empty lane holds the records without a lane. Another call may return the same records until
    /// they are changed.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn due_in_lane(
        &self,
        lane: (Space, &str),
        until: u64,
        limit: u32,
    ) -> Result<Vec<DueRecord>, StoreFault> {
        self.database().due_in_lane(lane, until, limit).await
    }

    /// Returns the earliest due time of all records of all kinds, past or future; `None` if no
    /// record will ever be due.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn next_due(&self) -> Result<Option<u64>, StoreFault> {
        self.database().next_due(None).await
    }

    /// Returns the earliest due time later than `moment`. A worker that has asked for all records
    /// due at `moment` sleeps until then; records that are due already but busy do not keep the
    /// worker awake.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn next_due_after(&self, moment: u64) -> Result<Option<u64>, StoreFault> {
        self.database().next_due(Some(moment)).await
    }

    /// Returns a turn for a request that retries after conflicts. The request passes the turn to
    /// its units: [`Unit::in_turn`](crate::Unit::in_turn).
    pub fn queue_ticket(&self) -> QueueTicket {
        QueueTicket::new(&self.turns, TURN_TIME)
    }

    /// Returns a turn for due work, for which no caller waits.
    pub fn due_work_ticket(&self) -> QueueTicket {
        QueueTicket::new(&self.turns, DUE_TURN_TIME)
    }

    /// Watches records of [`Space::Data`] by their full keys. The watch reports each commit from
    /// now on that puts or deletes a watched record.
    pub fn watch(&self, keys: Vec<String>) -> KeyWatch {
        self.data.watched.watch(keys)
    }

    /// Returns the count of the changes by any node to records of [`Space::Core`] whose keys
    /// begin with `prefix`. The count stays 0 while this process works alone.
    pub fn follow(&self, prefix: &'static str) -> ForeignChangeCount {
        self.data.followed.follow(prefix)
    }

    /// Returns a number that changes with each commit that puts or deletes data of `mount`. If the
    /// number before a read equals the number after the start of a watch, the watch misses no
    /// change.
    pub fn change_count(&self, mount: &str) -> u64 {
        self.data.folder(&format!("{mount}/"))
    }

    /// Returns the alarm that wakes the worker for due records.
    pub fn alarm(&self) -> &WorkerAlarm {
        &self.data.alarm
    }

    /// Counts the records of `space` whose keys begin with `prefix`. Counting stops at `at_most`,
    /// so that a caller can check a limit without reading everything.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn count(&self, space: Space, prefix: &str, at_most: u32) -> Result<u32, StoreFault> {
        self.database().count(&KeyRange::new(space, prefix, ""), at_most).await
    }

    /// Counts the records of `space` whose owners begin with `prefix`. Counting stops at `at_most`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn count_owned(
        &self,
        space: Space,
        prefix: &str,
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        self.database().count_owned(&KeyRange::new(space, prefix, ""), at_most).await
    }

    /// Counts the records of a lane with a due time. Counting stops at `at_most`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn count_in_lane(
        &self,
        lane: (Space, &str),
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        self.database().count_in_lane(lane, at_most).await
    }

    /// Returns the empty pages of the database file to the file system, a few at a time between
    /// other commits.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be written.
    pub async fn give_back_space(&self) -> Result<(), StoreFault> {
        self.database().give_back_space().await
    }

    /// Returns a name for a secret text. The name can be looked up but not turned back into the
    /// text: 64 hexadecimal digits of HMAC-SHA256 under a key specific to this cluster and this
    /// `purpose`. Tokens and lease ids become record keys this way.
    pub fn keyed_hash(&self, purpose: &str, text: &[u8]) -> String {
        self.seal().hashes().keyed_hash(purpose, text)
    }

    /// Returns the hasher behind [`Store::keyed_hash`], for a caller that computes several names.
    pub fn hashes(&self) -> &SecretHasher {
        self.seal().hashes()
    }

    /// Seals `body` into a text that only this cluster opens, and only for this `purpose`. The text
    /// is sealed like a record, but the holder keeps it instead of the store. The text consists of
    /// letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if there is no randomness, or `body` is too long to be sealed.
    pub fn seal_text(&self, purpose: &str, body: &[u8]) -> Result<String, StoreFault> {
        self.seal().seal_text(purpose, body)
    }

    /// Opens a text sealed by [`Store::seal_text`], even before rotations, and on any node of a
    /// shared database; `None` for any other text.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the text is of a term that this node has to read from the
    /// database, and the database cannot be read.
    pub async fn open_text(
        &self,
        purpose: &str,
        text: &str,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, StoreFault> {
        self.data.know_term_of_text(text).await?;
        Ok(self.seal().open_text(purpose, text))
    }

    /// Returns the reason that stopped all writes, if there was one: an I/O error, after which the
    /// content of the disk is unknown and reads continue, or the loss of the claim on the database
    /// ([`Store::claim_loss`]).
    pub fn stopped(&self) -> Option<&str> {
        self.database().stopped()
    }

    /// Returns a sentence for each setting of the database server that can lose an acknowledged
    /// commit. The caller tells the operator.
    pub fn durability_doubts(&self) -> &[String] {
        self.database().durability_doubts()
    }

    /// Returns the ability to write, as the last write showed. Writes nothing.
    pub fn write_condition(&self) -> WriteCondition {
        self.database().write_condition()
    }

    /// Returns the cause of [`WriteCondition::Refused`]; `None` in another condition.
    pub fn write_refusal(&self) -> Option<StoreFault> {
        self.database().write_refusal()
    }

    /// Returns a receiver of the changes of [`Store::write_condition`].
    pub fn write_changes(&self) -> watch::Receiver<WriteCondition> {
        self.database().write_changes()
    }

    /// Waits for the current commit, closes the database and releases the directory. Later calls
    /// fail as unavailable. The keys and the records in memory are wiped when the last handle of
    /// the store is dropped.
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
    pub(crate) fn cache(&self) -> &RecordCache {
        &self.data.cache
    }

    /// Returns the newest committed record at `address`, with the stamp that identifies its last
    /// write.
    ///
    /// # Errors
    /// As [`OpenData::read`].
    pub(crate) async fn read(&self, address: &Address) -> Result<StampedRecord, StoreFault> {
        self.data.read(address).await
    }

    /// Returns the first `limit` committed keys of `range`, in order.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn list(
        &self,
        range: &KeyRange,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        self.data.changes.while_followed(self.database().list_keys(range, limit)).await
    }

    /// Returns the first `limit` rows of a kind that belong to an owner and come after the row
    /// `after`, with their keys, in the order of their first write.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn owned(
        &self,
        owner: (Space, &str),
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, String)>, StoreFault> {
        self.data.changes.while_followed(self.database().list_owned(owner, after, limit)).await
    }

    /// Returns a read of `reads` that did not hold at the same moment as the others, if any.
    ///
    /// # Errors
    /// As [`OpenData::find_changed`].
    pub(crate) async fn find_changed(
        &self,
        reads: &ReadSet,
    ) -> Result<Option<ContendedKey>, StoreFault> {
        self.data.find_changed(reads).await
    }

    /// Commits a unit. From the first poll on, the committer owns the unit and completes the commit
    /// even if the caller goes away.
    pub(crate) async fn commit(self: Arc<Self>, work: CommitRequest) -> CommitOutcome {
        self.committer.commit(Arc::clone(&self.data), work).await
    }
}
