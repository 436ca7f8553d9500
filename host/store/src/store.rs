//! The store of one data directory: opened with a key, asked for units of work and for what is due.

mod rotation;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::alarm::Alarm;
use crate::cache::{Cache, Found};
use crate::cipher::SealKey;
use crate::clock::Clock;
use crate::commit::{Outcome, Reads, Work, Writes};
use crate::data_directory::{DataDirectory, Held};
use crate::due::{Due, DueAsk};
use crate::fault::StoreFault;
use crate::group::Committer;
use crate::indexed;
use crate::range::KeyRange;
use crate::record::{Address, Space};
use crate::rows::{self, Unread};
use crate::seal::{Hashes, Seal};
use crate::shamir::SealConfig;
use crate::sqlite::{self, Database, Flushing};
use crate::unit::Unit;

/// Where a store is.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory. Made with mode 0700 if missing; held by one process at a time.
    pub directory: PathBuf,
    /// When commits are flushed.
    pub flushing: Flushing,
}

impl Options {
    /// The store in `directory`, every commit flushed.
    pub fn at(directory: impl Into<PathBuf>) -> Options {
        Options { directory: directory.into(), flushing: Flushing::EveryCommit }
    }
}

/// An open store. Reads and writes go through units of work ([`Store::begin`]); the other questions
/// are about the committed state at that moment and are not remembered.
pub struct Store {
    database: Database,
    committer: Committer,
    seal: Seal,
    clock: Clock,
    alarm: Alarm,
    cache: Cache,
    held: Mutex<Option<Held>>,
    /// Held from making a new term until it is in use, so that no two rotations make the same one.
    rotating: Mutex<()>,
}

impl Store {
    /// Opens the store, or makes a new one where there is none, with `key` as its only share. Loads
    /// no records.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] when another process has the directory or the data has another
    /// format, and [`StoreFault::WrongKey`] when `key` is not the one that sealed it; in each case
    /// nothing was written. [`StoreFault::Unavailable`] when the directory cannot be used.
    pub async fn open(options: Options, key: SealKey) -> Result<Arc<Store>, StoreFault> {
        let directory = DataDirectory::hold(options).await?;
        if directory.seal_config().await?.is_none() {
            directory.initialise(SealConfig::SINGLE, &key, |_| Ok(Vec::new())).await?;
        }
        directory.open(key).await
    }

    pub(crate) fn new(database: Database, seal: Seal, held: Held) -> Arc<Store> {
        Arc::new(Store {
            database,
            committer: Committer::start(),
            seal,
            clock: Clock::default(),
            alarm: Alarm::default(),
            cache: Cache::default(),
            held: Mutex::new(Some(held)),
            rotating: Mutex::default(),
        })
    }

    /// Begins a unit of work. Costs nothing until it reads.
    pub fn begin(self: &Arc<Self>) -> Unit {
        Unit::new(Arc::clone(self))
    }

    /// Begins a unit of work of a mount that has an index: each of its commits that changes data of
    /// the mount (records of [`Space::Data`] below `<mount>/`) counts, and numbers what it puts.
    pub fn begin_indexed(self: &Arc<Self>, mount: &str) -> Unit {
        Unit::indexed(Arc::clone(self), mount)
    }

    /// The index of `mount`: how many commits have changed its data.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when it cannot be read, [`StoreFault::Damaged`] when it does not
    /// open.
    pub async fn index(&self, mount: &str) -> Result<u64, StoreFault> {
        let counter = indexed::counter(mount);
        let found = self.read(&counter).await?;
        indexed::count(&counter, found.as_ref().map(|(_, record)| record))
    }

    /// Store time: milliseconds since 1970, never running backwards while the process lives. All
    /// due times and expiries are computed from and compared with this clock only.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The records that are due and not busy, oldest first, found by index. Another call may return
    /// the same ones until they are named as busy or changed.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn due(&self, ask: &DueAsk) -> Result<Vec<Due>, StoreFault> {
        self.database.due(ask).await.map_err(sqlite::fault)
    }

    /// The earliest due time of all records of all kinds, past or to come; `None` when nothing will
    /// be due.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn next_due(&self) -> Result<Option<u64>, StoreFault> {
        self.database.next_due(None).await.map_err(sqlite::fault)
    }

    /// The earliest due time later than `moment`. A worker that has asked for what is due until
    /// `moment` sleeps until then; records that are due already but busy do not keep it awake.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn next_due_after(&self, moment: u64) -> Result<Option<u64>, StoreFault> {
        self.database.next_due(Some(moment)).await.map_err(sqlite::fault)
    }

    /// Rings for the worker on due records.
    pub fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// The keys of `space` after `after` (empty: from the first) that belong to `owner`, in order,
    /// at most `limit`; found by index. Nobody (an empty owner) owns nothing.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn owned(
        &self,
        space: Space,
        owner: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        rows::owned(self.database.readers(), (space, owner), after, limit)
            .await
            .map_err(sqlite::fault)
    }

    /// How many records of `space` have keys that begin with `prefix`, in one lane or in all.
    /// Counting stops at `at_most`, so that a limit can be checked without walking everything.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub async fn count(
        &self,
        space: Space,
        prefix: &str,
        lane: Option<&str>,
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        let range = KeyRange::new(space, prefix, "");
        rows::count(self.database.readers(), &range, lane, at_most).await.map_err(sqlite::fault)
    }

    /// A name for a secret text that can be looked up but not turned back: 64 hexadecimal digits of
    /// HMAC-SHA256 under a key that only this cluster and this `purpose` have. Tokens and lease ids
    /// become keys of records by it.
    pub fn keyed_hash(&self, purpose: &str, text: &[u8]) -> String {
        self.seal.hashes().keyed_hash(purpose, text)
    }

    /// The means by which [`Store::keyed_hash`] names, for those who name more than one thing by
    /// them.
    pub fn hashes(&self) -> &Hashes {
        self.seal.hashes()
    }

    /// `body` as a text that only this cluster opens, and only for this `purpose`: sealed like a
    /// record, and kept by whoever gets it instead of in the store. Letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when there is no randomness.
    pub fn seal_text(&self, purpose: &str, body: &[u8]) -> Result<String, StoreFault> {
        self.seal.seal_text(purpose, body)
    }

    /// What [`Store::seal_text`] sealed, also before rotations; `None` for anything else.
    pub fn open_text(&self, purpose: &str, text: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.seal.open_text(purpose, text)
    }

    /// Why nothing is written any more, if that is so: an I/O error, after which what the disk
    /// holds is not known. Reads go on until the server is restarted.
    pub fn stopped(&self) -> Option<&str> {
        self.database.stopped()
    }

    /// How many commits were flushed to the disk since the store was opened.
    pub fn flushes(&self) -> u64 {
        self.database.flushes()
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
        self.database.close().await;
        self.cache.clear();
        self.held.lock().await.take();
    }

    pub(crate) fn seal(&self) -> &Seal {
        &self.seal
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn committer(&self) -> &Committer {
        &self.committer
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) async fn read(&self, address: &Address) -> Result<Found, StoreFault> {
        let commits = match self.cache.look(address) {
            Ok(known) => return Ok(known),
            Err(commits) => commits,
        };
        // On the heap, as every future here that a request seldom needs: it would make each one that
        // waits for it as large, and those are moved several times a request.
        let found = Box::pin(self.fetch(address)).await?;
        self.cache.keep(commits, address, &found);
        Ok(found)
    }

    async fn fetch(&self, address: &Address) -> Result<Found, StoreFault> {
        let row =
            rows::find(self.database.readers(), address).await.map_err(|unread| match unread {
                Unread::Sql(error) => sqlite::fault(error),
                Unread::Damaged(address) => StoreFault::Damaged(address),
            })?;
        row.map(|row| Ok((row.stamp, row.open(&self.seal)?))).transpose()
    }

    pub(crate) async fn list(
        &self,
        range: &KeyRange,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        rows::list(self.database.readers(), range, limit).await.map_err(sqlite::fault)
    }

    /// Checks that all of `reads` were true at one moment.
    pub(crate) async fn validate(&self, reads: &Reads) -> Result<(), StoreFault> {
        match reads.only_keys() {
            Some(keys) if self.cache.holds(keys) => Ok(()),
            _ => self.database.validate(reads).await,
        }
    }

    /// Commits one unit. From the first poll on it is the committer's, and goes on when the caller
    /// goes away.
    pub(crate) async fn commit(self: Arc<Self>, reads: Reads, writes: Writes) -> Outcome {
        Committer::commit(self, Work { reads, writes }).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::task::{Context, Waker};

    use super::*;
    use crate::testing::{Scratch, body, data, edit, put, put_indexed};
    use crate::{Index, directory};

    fn refusal<T>(outcome: Result<T, StoreFault>) -> String {
        match outcome {
            Err(StoreFault::Refused(text)) => text,
            Err(other) => panic!("not a refusal: {other}"),
            Ok(_) => panic!("not refused"),
        }
    }

    fn unavailable<T>(outcome: Result<T, StoreFault>) -> String {
        match outcome {
            Err(StoreFault::Unavailable(text)) => text,
            Err(other) => panic!("not unavailable: {other}"),
            Ok(_) => panic!("not unavailable"),
        }
    }

    fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        files.sort();
        files
    }

    #[tokio::test]
    async fn what_was_committed_is_there_when_the_store_is_opened_again() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("role"), "readonly").await;
        let hash = store.keyed_hash("token", b"t");
        store.close().await;
        let store = scratch.open().await;
        assert_eq!(body(&store, &data("role")).await.unwrap(), "readonly");
        assert_eq!(store.keyed_hash("token", b"t"), hash);
    }

    #[tokio::test]
    async fn what_was_committed_survives_a_crash_that_leaves_only_the_files() {
        let (scratch, after) = (Scratch::new(), Scratch::new());
        let store = scratch.open().await;
        put(&store, data("role"), "readonly").await;
        for (path, content) in files(scratch.path()) {
            fs::write(after.path().join(path.file_name().unwrap()), content).unwrap();
        }
        assert_eq!(body(&after.open().await, &data("role")).await.unwrap(), "readonly");
    }

    #[tokio::test]
    async fn a_crash_before_the_first_commit_leaves_a_directory_that_opens() {
        let (empty, without_tables) = (Scratch::new(), Scratch::new());
        for scratch in [&empty, &without_tables] {
            fs::write(directory::database(scratch.path()), b"").unwrap();
        }
        let path = directory::database(without_tables.path());
        Database::open(&path, Flushing::EveryCommit).await.unwrap().close().await;
        assert!(fs::metadata(directory::database(without_tables.path())).unwrap().len() > 0);
        for scratch in [&empty, &without_tables] {
            let store = scratch.open().await;
            put(&store, data("a"), "1").await;
            assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
        }
    }

    #[tokio::test]
    async fn a_second_opening_of_the_directory_is_refused_until_the_first_is_closed() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        assert!(refusal(scratch.open_with(1).await).contains("in use by another"));
        store.close().await;
        scratch.open_with(1).await.unwrap();
    }

    #[tokio::test]
    async fn another_key_is_refused_and_nothing_is_written() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        store.close().await;
        let before = fs::read(directory::database(scratch.path())).unwrap();
        assert_eq!(scratch.open_with(2).await.err(), Some(StoreFault::WrongKey));
        assert_eq!(fs::read(directory::database(scratch.path())).unwrap(), before);
        assert_eq!(body(&scratch.open().await, &data("a")).await.unwrap(), "1");
    }

    #[tokio::test]
    async fn a_file_that_is_not_ours_is_refused_and_left_as_it_was() {
        let garbage = Scratch::new();
        let path = directory::database(garbage.path());
        fs::write(&path, [b'x'; 8192]).unwrap();
        assert!(refusal(garbage.open_with(1).await).contains("not a database"));
        assert_eq!(fs::read(&path).unwrap(), [b'x'; 8192]);

        let other = Scratch::new();
        let store = other.open().await;
        edit(&store, "DROP TABLE record").await;
        store.close().await;
        assert!(refusal(other.open_with(1).await).contains("some other program"));
    }

    #[tokio::test]
    async fn no_body_is_readable_in_any_file_and_only_the_owner_may_read_them() {
        let scratch = Scratch::new();
        let below = Options::at(scratch.path().join("data"));
        let store = Store::open(below.clone(), SealKey::from_bytes([1; 32])).await.unwrap();
        put(&store, data("role"), "canary-5up3r-s3cr3t").await;
        let while_open = files(&below.directory);
        assert!(while_open.iter().any(|(path, _)| path.ends_with("bulkhead.db-wal")));
        store.close().await;
        for (path, content) in while_open.into_iter().chain(files(&below.directory)) {
            assert!(!content.windows(6).any(|window| window == b"5up3r-"), "{}", path.display());
            assert!(
                !content.windows(8).any(|window| window == [1; 8]),
                "the key is in {}",
                path.display()
            );
        }
        for (path, _) in files(&below.directory) {
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600,
                "{}",
                path.display()
            );
        }
        assert_eq!(fs::metadata(&below.directory).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn side_files_are_as_private_as_the_database() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        let modes: Vec<u32> = files(scratch.path())
            .iter()
            .map(|(path, _)| fs::metadata(path).unwrap().permissions().mode() & 0o777)
            .collect();
        assert_eq!(modes, [0o600; 4], "database, log, its index and lock");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_tasks_that_retry_on_conflict_count_exactly() {
        const TASKS: usize = 32;
        const EACH: usize = 5;
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("counter"), "0").await;
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for _ in 0..EACH {
                        while increment(&store).await == Err(StoreFault::Conflict) {
                            tokio::task::yield_now().await;
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(body(&store, &data("counter")).await.unwrap(), (TASKS * EACH).to_string());
    }

    async fn increment(store: &Arc<Store>) -> Result<(), StoreFault> {
        let mut unit = store.begin();
        let record = unit.get(&data("counter")).await?.unwrap();
        let count: usize = std::str::from_utf8(&record.body).unwrap().parse().unwrap();
        unit.put(data("counter"), (count + 1).to_string().into_bytes(), Index::default());
        unit.commit().await.map(drop)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_commit_whose_caller_goes_away_is_whole_and_leaves_the_store_usable() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        for round in 0..50 {
            let mut unit = store.begin();
            for half in ["left", "right"] {
                unit.put(data(half), round.to_string().into_bytes(), Index::default());
            }
            let mut commit = Box::pin(unit.commit());
            let mut context = Context::from_waker(Waker::noop());
            assert!(commit.as_mut().poll(&mut context).is_pending());
            drop(commit);
        }
        put(&store, data("after"), "x").await;
        assert_eq!(body(&store, &data("left")).await, body(&store, &data("right")).await);
        assert_eq!(body(&store, &data("after")).await.unwrap(), "x");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_write_that_is_cut_off_half_way_is_rolled_back_and_the_store_goes_on() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        let (started, has_started) = tokio::sync::oneshot::channel();
        let cut_off = {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let work = async move |connection: &mut sqlx::sqlite::SqliteConnection| {
                    sqlx::query("DELETE FROM record").execute(connection).await?;
                    started.send(()).unwrap();
                    std::future::pending().await
                };
                store.database.write(work).await
            })
        };
        has_started.await.unwrap();
        cut_off.abort();
        assert!(cut_off.await.unwrap_err().is_cancelled());
        put(&store, data("b"), "2").await;
        assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    }

    #[tokio::test]
    async fn a_full_disk_fails_the_commit_whole_and_later_commits_go_through() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        edit(&store, "PRAGMA max_page_count = 1").await;
        let flushes = store.flushes();
        let mut unit = store.begin();
        unit.put(data("a"), b"2".to_vec(), Index::default());
        unit.put(data("big"), vec![0; 1 << 20], Index::default());
        assert!(unavailable(unit.commit().await).contains("full"));
        assert_eq!(store.flushes(), flushes);
        assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
        put(&store, data("a"), "3").await;
        assert_eq!(body(&store, &data("a")).await.unwrap(), "3");
    }

    #[tokio::test]
    async fn a_failing_statement_in_a_commit_acknowledges_nothing() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        edit(
            &store,
            "CREATE TRIGGER no BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .await;
        let mut unit = store.begin();
        unit.put(data("a"), b"1".to_vec(), Index::default());
        assert!(unavailable(unit.commit().await).contains("nothing was acknowledged"));
        edit(&store, "DROP TRIGGER no").await;
        assert_eq!(body(&store, &data("a")).await, None);
    }

    #[tokio::test]
    async fn a_closed_store_refuses_reads_and_writes() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut unit = store.begin();
        store.close().await;
        assert!(unavailable(unit.get(&data("a")).await).contains("closed"));
        unit.put(data("a"), b"1".to_vec(), Index::default());
        assert!(unavailable(unit.commit().await).contains("closed"));
        assert!(unavailable(store.next_due().await).contains("closed"));
        store.close().await;
    }

    #[tokio::test]
    async fn only_a_commit_of_something_due_earlier_than_set_rings() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let has_rung = |store: &Store| {
            let mut rung = std::pin::pin!(store.alarm().rung());
            rung.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        let timer = |key: &str, due| {
            (Address::new(Space::Timer, key), Index { due: Some(due), ..Index::default() })
        };
        put(&store, data("a"), "1").await;
        assert!(!has_rung(&store), "nothing is due");
        let (address, index) = timer("first", 50);
        put_indexed(&store, address, "x", index).await;
        assert!(has_rung(&store), "the worker listens until it sets a time");
        store.alarm().set(40);
        let (address, index) = timer("later", 40);
        put_indexed(&store, address, "x", index).await;
        assert!(!has_rung(&store));
        let (address, index) = timer("earlier", 39);
        put_indexed(&store, address, "x", index).await;
        assert!(has_rung(&store));
        assert!(!has_rung(&store), "once");
    }

    #[tokio::test]
    async fn records_are_found_by_owner_page_by_page() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        for (key, owner) in [("c", "t1"), ("a", "t1"), ("b", "t2"), ("d", "t1"), ("e", "")] {
            let index = Index { owner: owner.into(), ..Index::default() };
            put_indexed(&store, Address::new(Space::Lease, key), "x", index).await;
        }
        assert_eq!(store.owned(Space::Lease, "t1", "", 2).await.unwrap(), ["a", "c"]);
        assert_eq!(store.owned(Space::Lease, "t1", "c", 2).await.unwrap(), ["d"]);
        assert!(store.owned(Space::Token, "t1", "", 9).await.unwrap().is_empty());
        assert!(store.owned(Space::Lease, "", "", 9).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn counting_looks_at_prefix_and_lane_and_stops_at_the_limit() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        for (key, lane) in [("m/1", "x"), ("m/2", "x"), ("m/3", "y"), ("m/4", ""), ("n/1", "x")] {
            let index = Index { lane: lane.into(), ..Index::default() };
            put_indexed(&store, Address::new(Space::Reservation, key), "x", index).await;
        }
        let count = async |lane, at_most| {
            store.count(Space::Reservation, "m/", lane, at_most).await.unwrap()
        };
        assert_eq!(count(None, 99).await, 4);
        assert_eq!(count(Some("x"), 99).await, 2);
        assert_eq!(count(Some(""), 99).await, 1);
        assert_eq!(count(Some("z"), 99).await, 0);
        assert_eq!(count(None, 3).await, 3);
        assert_eq!(count(None, 0).await, 0);
    }
}
