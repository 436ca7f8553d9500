//! The data directory as one process holds it: what can be known while its data are sealed, and how
//! they are opened.
//!
//! The faults this file stops: a directory that is half initialised after a kill, two stores on one
//! database, and a server that asks for a key before it knows that the data are its own. While
//! sealed, no key is in memory.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use sqlx::sqlite::SqliteConnection;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::body::Body;
use crate::cipher::SealKey;
use crate::clock::Clock;
use crate::directory::{self, DirectoryLock};
use crate::fault::StoreFault;
use crate::identity::{self, Identity};
use crate::record::{Address, Index, Record};
use crate::rows::{self, SealedRow};
use crate::seal::Hashes;
use crate::shamir::SealConfig;
use crate::sqlite::{Attempt, Database};
use crate::store::{Options, Store};

/// Kept by whoever works on the database; the directory itself stays locked as long as this or a
/// [`DataDirectory`] lives.
pub(crate) type Held = OwnedMutexGuard<DirectoryLock>;

/// A data directory, held by this process alone; its data stay sealed until a key opens them.
pub struct DataDirectory {
    options: Options,
    clock: Clock,
    lock: Arc<Mutex<DirectoryLock>>,
    /// What an initialised directory says of itself. It never changes while the directory is held.
    known: OnceLock<Known>,
}

struct Known {
    config: SealConfig,
    cluster_name: String,
}

impl DataDirectory {
    /// Makes the directory (mode 0700) if it is missing, locks it, and looks at the database
    /// without writing to it.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] when another process has the directory, or the database is not ours,
    /// of another format or has lost a part of its identity; [`StoreFault::Unavailable`] when the
    /// directory cannot be used.
    pub async fn hold(options: Options) -> Result<Arc<DataDirectory>, StoreFault> {
        directory::create(&options.directory)?;
        let lock = Arc::new(Mutex::new(directory::lock(&options.directory)?));
        let held = DataDirectory { options, clock: Clock::default(), lock, known: OnceLock::new() };
        held.look().await?;
        Ok(Arc::new(held))
    }

    /// The time that the store would give, for what is answered while sealed.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// How the unseal key is split; `None` when nothing was initialised yet.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`], when the database has to be looked at.
    pub async fn seal_config(&self) -> Result<Option<SealConfig>, StoreFault> {
        Ok(self.known().await?.map(|known| known.config))
    }

    /// The public name of the cluster, a UUID; `None` when nothing was initialised yet.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`], when the database has to be looked at.
    pub async fn cluster_id(&self) -> Result<Option<String>, StoreFault> {
        Ok(self.known().await?.map(|known| known.cluster_name.clone()))
    }

    /// Makes a new cluster: tables, identity, keys sealed by `key`, and the `first` records, in one
    /// transaction. `first` is given the means to name records by keyed hashes. Killed at any
    /// moment, this leaves a directory in which nothing is initialised, or everything. How `key` is
    /// split is the caller's work ([`crate::split`]).
    ///
    /// # Errors
    /// [`StoreFault::Refused`] when the directory is initialised already, or `config` is none that
    /// [`SealConfig::new`] makes; [`StoreFault::Unavailable`] when it cannot be written or is being
    /// opened; and the fault of `first`.
    pub async fn initialise(
        &self,
        config: SealConfig,
        key: &SealKey,
        first: impl FnOnce(&Hashes) -> Result<Vec<(Address, Vec<u8>, Index)>, StoreFault>,
    ) -> Result<(), StoreFault> {
        let config = config.checked()?;
        let held = self.take()?;
        if self.look().await?.is_some() {
            return Err(StoreFault::Refused(format!(
                "{} is initialised already; unseal it, or choose another data directory",
                self.path().display()
            )));
        }
        let (identity, seal) = Identity::generate(config, key, self.clock.now())?;
        let seal_row = |(address, body, index): (Address, Vec<u8>, Index)| {
            SealedRow::of(
                &seal,
                &address,
                &Record { body: Body::new(body), index, created: 0, modified: 0 },
            )
        };
        let rows: Vec<SealedRow> =
            first(seal.hashes())?.into_iter().map(seal_row).collect::<Result<_, _>>()?;
        directory::ensure_database(self.path())?;
        let database =
            Database::open(&directory::database(self.path()), self.options.flushing).await?;
        let sealed_root = identity.sealed_root().to_vec();
        let known = Known { config, cluster_name: identity.cluster_name() };
        let found = async move |connection: &mut SqliteConnection| {
            found(connection, &identity, &rows).await
        };
        let written = database.write(found).await;
        database.close().await;
        drop(held);
        if let Err(fault) = written {
            // An answer that was lost is looked up: a cluster whose shares nobody was given would
            // stay closed for ever.
            match identity::look(self.path()).await {
                Ok(Some(stored)) if stored.sealed_root() == sealed_root => {}
                _ => return Err(fault),
            }
        }
        self.known.get_or_init(|| known);
        Ok(())
    }

    /// Opens the store. Loads no records and writes nothing. May be called again after
    /// [`Store::close`].
    ///
    /// # Errors
    /// [`StoreFault::WrongKey`] when `key` is not the one that sealed the data;
    /// [`StoreFault::Refused`] when nothing is initialised or the data cannot be used;
    /// [`StoreFault::Unavailable`] when the database cannot be read, or is open already.
    pub async fn open(self: &Arc<Self>, key: SealKey) -> Result<Arc<Store>, StoreFault> {
        let held = self.take()?;
        let identity = identity::look(self.path()).await?.ok_or_else(|| {
            StoreFault::Refused(format!(
                "{} is not initialised; initialise it first",
                self.path().display()
            ))
        })?;
        let seal = identity.open(&key, self.path())?;
        let database =
            Database::open(&directory::database(self.path()), self.options.flushing).await?;
        Ok(Store::new(database, seal, held))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.options.directory
    }

    /// Whether data were found when the directory was last looked at.
    pub(crate) fn is_initialised(&self) -> bool {
        self.known.get().is_some()
    }

    /// Looked up again as long as there is nothing: an initialisation that failed may have been
    /// stored all the same.
    async fn known(&self) -> Result<Option<&Known>, StoreFault> {
        match self.known.get() {
            Some(known) => Ok(Some(known)),
            None => self.look().await,
        }
    }

    async fn look(&self) -> Result<Option<&Known>, StoreFault> {
        let Some(identity) = identity::look(self.path()).await? else { return Ok(None) };
        let known = || Known { config: identity.config(), cluster_name: identity.cluster_name() };
        Ok(Some(self.known.get_or_init(known)))
    }

    fn take(&self) -> Result<Held, StoreFault> {
        Arc::clone(&self.lock).try_lock_owned().map_err(|_| {
            StoreFault::Unavailable(format!(
                "the data in {} are open, or being opened or closed, in this process; \
                 seal them first, or try again in a moment",
                self.path().display()
            ))
        })
    }
}

/// Writes a new cluster, in the transaction open on `connection`.
async fn found(
    connection: &mut SqliteConnection,
    identity: &Identity,
    rows: &[SealedRow],
) -> Result<Attempt, sqlx::Error> {
    identity.write(connection).await?;
    for row in rows {
        rows::insert(connection, row).await?;
    }
    Ok(Attempt::Committed)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sqlx::ConnectOptions as _;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;
    use crate::shamir::{Progress, ShareCollector, split};
    use crate::testing::{Scratch, body, data, edit, put};
    use crate::{Flushing, Space};

    const TWO_OF_THREE: SealConfig = SealConfig { shares: 3, threshold: 2 };
    /// Bytes of the log's header, and of each page in it with its own header.
    const LOG_HEADER: usize = 32;
    const LOG_PAGE: usize = 24 + 4096;

    fn key(byte: u8) -> SealKey {
        SealKey::from_bytes([byte; 32])
    }

    type First = Result<Vec<(Address, Vec<u8>, Index)>, StoreFault>;

    fn nothing(_: &Hashes) -> First {
        Ok(Vec::new())
    }

    fn refusal<T>(outcome: Result<T, StoreFault>) -> String {
        match outcome {
            Err(StoreFault::Refused(text)) => text,
            Err(other) => panic!("not a refusal: {other}"),
            Ok(_) => panic!("not refused"),
        }
    }

    fn database_bytes(scratch: &Scratch) -> Vec<u8> {
        fs::read(directory::database(scratch.path())).unwrap()
    }

    #[tokio::test]
    async fn an_empty_directory_is_held_uninitialised_and_holding_it_makes_no_database() {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        assert_eq!(held.seal_config().await, Ok(None));
        assert_eq!(held.cluster_id().await, Ok(None));
        assert!(refusal(held.open(key(1)).await).contains("not initialised"));
        assert_eq!(scratch.files().keys().collect::<Vec<_>>(), ["lock"]);
    }

    #[tokio::test]
    async fn what_is_initialised_is_known_while_sealed_and_opens_with_enough_shares() {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        let key = SealKey::generate().unwrap();
        let first = |hashes: &Hashes| {
            let name = hashes.keyed_hash("token", b"root");
            Ok(vec![(Address::new(Space::Token, name), b"root token".to_vec(), Index::default())])
        };
        held.initialise(TWO_OF_THREE, &key, first).await.unwrap();
        let name = held.cluster_id().await.unwrap().unwrap();
        drop(held);
        let held = scratch.hold().await;
        assert_eq!(held.seal_config().await, Ok(Some(TWO_OF_THREE)));
        assert_eq!(held.cluster_id().await, Ok(Some(name)));
        let mut collector = ShareCollector::new(TWO_OF_THREE);
        for share in split(&key, TWO_OF_THREE).unwrap().drain(1..) {
            if let Progress::Enough(key) = collector.add(share).unwrap() {
                let store = held.open(key).await.unwrap();
                let token = Address::new(Space::Token, store.keyed_hash("token", b"root"));
                assert_eq!(body(&store, &token).await.unwrap(), "root token");
                return store.close().await;
            }
        }
        panic!("two shares were not enough");
    }

    #[tokio::test]
    async fn the_name_of_a_cluster_is_a_uuid_of_its_own_and_not_its_id() {
        let names = async || {
            let scratch = Scratch::new();
            let store = scratch.open().await;
            let id: Vec<u8> = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'cluster'")
                .fetch_one(store.database().readers())
                .await
                .unwrap();
            store.close().await;
            (
                scratch.hold().await.cluster_id().await.unwrap().unwrap(),
                bulkhead_wire::hexadecimal::text(&id),
            )
        };
        let (name, id) = names().await;
        let lengths: Vec<usize> = name.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{name}");
        assert!(
            name[14..].starts_with('8') && matches!(&name[19..20], "8" | "9" | "a" | "b"),
            "{name}"
        );
        assert_ne!(name.replace('-', ""), id);
        assert_ne!(names().await.0, name);
    }

    #[tokio::test]
    async fn a_directory_is_initialised_once() {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        held.initialise(TWO_OF_THREE, &key(1), nothing).await.unwrap();
        let before = database_bytes(&scratch);
        assert!(
            refusal(held.initialise(SealConfig::SINGLE, &key(2), nothing).await)
                .contains("already")
        );
        assert_eq!(database_bytes(&scratch), before);
        assert_eq!(held.seal_config().await, Ok(Some(TWO_OF_THREE)));
    }

    #[tokio::test]
    async fn of_two_initialisations_at_once_one_is_told_no() {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        let (key_one, key_two) = (key(1), key(2));
        let (one, two) = tokio::join!(
            held.initialise(SealConfig::SINGLE, &key_one, nothing),
            held.initialise(SealConfig::SINGLE, &key_two, nothing)
        );
        assert_eq!(one, Ok(()));
        assert!(matches!(two, Err(StoreFault::Unavailable(_))));
        assert_eq!(held.open(key(2)).await.err(), Some(StoreFault::WrongKey));
        held.open(key(1)).await.unwrap();
    }

    #[tokio::test]
    async fn a_configuration_that_was_put_together_wrongly_initialises_nothing() {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        for (shares, threshold) in [(0, 0), (3, 0), (3, 1), (3, 4)] {
            let config = SealConfig { shares, threshold };
            refusal(held.initialise(config, &key(1), nothing).await);
        }
        assert_eq!(held.seal_config().await, Ok(None));
    }

    #[tokio::test]
    async fn first_records_that_cannot_be_stored_leave_nothing_initialised() {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        let twice =
            |_: &Hashes| -> First { Ok(vec![(data("a"), b"1".to_vec(), Index::default()); 2]) };
        let unmade =
            |_: &Hashes| -> First { Err(StoreFault::Unavailable("no randomness".to_owned())) };
        assert!(matches!(
            held.initialise(SealConfig::SINGLE, &key(1), twice).await,
            Err(StoreFault::Unavailable(_))
        ));
        assert!(matches!(
            held.initialise(SealConfig::SINGLE, &key(1), unmade).await,
            Err(StoreFault::Unavailable(_))
        ));
        assert_eq!(held.seal_config().await, Ok(None));
        held.initialise(SealConfig::SINGLE, &key(1), nothing).await.unwrap();
        held.open(key(1)).await.unwrap();
    }

    /// Each place where a kill can cut the log of the one transaction, and the end.
    #[tokio::test]
    async fn a_kill_amid_initialising_leaves_nothing_or_everything() {
        let scratch = Scratch::new();
        directory::ensure_database(scratch.path()).unwrap();
        let (identity, seal) = Identity::generate(TWO_OF_THREE, &key(1), 1).unwrap();
        let record = Record {
            body: Body::new(b"1".to_vec()),
            index: Index::default(),
            created: 0,
            modified: 0,
        };
        let row = SealedRow::of(&seal, &data("first"), &record).unwrap();
        let database = Database::open(&directory::database(scratch.path()), Flushing::EveryCommit)
            .await
            .unwrap();
        let found = async move |connection: &mut SqliteConnection| {
            found(connection, &identity, &[row]).await
        };
        database.write(found).await.unwrap();
        let whole = scratch.files()["bulkhead.db-wal"].len();
        let boundaries =
            (0..).map(|pages| LOG_HEADER + pages * LOG_PAGE).take_while(|length| *length <= whole);
        let cuts: Vec<usize> =
            boundaries.flat_map(|length| [length, length + 1, length + LOG_PAGE / 2]).collect();
        assert!(cuts.len() > 9, "{cuts:?}");
        for cut in cuts.into_iter().chain([0]) {
            let killed = scratch.crashed();
            let log = fs::OpenOptions::new()
                .write(true)
                .open(killed.path().join("bulkhead.db-wal"))
                .unwrap();
            log.set_len(u64::try_from(cut.min(whole)).unwrap()).unwrap();
            let held = killed.hold().await;
            if cut < whole {
                assert_eq!(held.seal_config().await, Ok(None), "cut at {cut}");
                held.initialise(SealConfig::SINGLE, &key(2), nothing).await.unwrap();
                held.open(key(2)).await.unwrap().close().await;
            } else {
                assert_eq!(held.seal_config().await, Ok(Some(TWO_OF_THREE)));
                assert_eq!(
                    body(&held.open(key(1)).await.unwrap(), &data("first")).await.unwrap(),
                    "1"
                );
            }
        }
        database.close().await;
    }

    /// The one write that SQLite makes without its log is the one with which the log begins.
    #[tokio::test]
    async fn a_kill_amid_the_first_write_of_all_is_undone_at_the_next_start() {
        let (scratch, killed) = (Scratch::new(), Scratch::new());
        let options = SqliteConnectOptions::new()
            .filename(directory::database(scratch.path()))
            .create_if_missing(true);
        let mut connection = options.pragma("cache_size", "1").connect().await.unwrap();
        let half = "BEGIN; CREATE TABLE half (body); INSERT INTO half VALUES (zeroblob(1000000))";
        sqlx::raw_sql(half).execute(&mut connection).await.unwrap();
        for (name, bytes) in scratch.files() {
            assert!(bytes.len() > 500, "{name} is not written yet");
            fs::write(killed.path().join(name), bytes).unwrap();
        }
        assert_eq!(killed.files().len(), 2, "a database and its journal");
        let held = killed.hold().await;
        assert_eq!(held.seal_config().await, Ok(None));
        held.initialise(TWO_OF_THREE, &key(1), nothing).await.unwrap();
        held.open(key(1)).await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_stays_locked_while_it_is_sealed_and_after_its_store_is_closed() {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        assert!(
            refusal(DataDirectory::hold(scratch.options()).await).contains("in use by another")
        );
        held.initialise(SealConfig::SINGLE, &key(1), nothing).await.unwrap();
        let store = held.open(key(1)).await.unwrap();
        store.close().await;
        assert!(
            refusal(DataDirectory::hold(scratch.options()).await).contains("in use by another")
        );
        drop(held);
        scratch.hold().await;
    }

    #[tokio::test]
    async fn a_store_keeps_the_directory_although_nobody_else_holds_it() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        assert!(
            refusal(DataDirectory::hold(scratch.options()).await).contains("in use by another")
        );
        drop(store);
        scratch.hold().await;
    }

    #[tokio::test]
    async fn data_are_sealed_and_opened_again_in_one_process_but_never_opened_twice() {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        held.initialise(SealConfig::SINGLE, &key(1), nothing).await.unwrap();
        for round in 0..3 {
            let store = held.open(key(1)).await.unwrap();
            assert!(matches!(held.open(key(1)).await, Err(StoreFault::Unavailable(_))));
            assert_eq!(held.seal_config().await, Ok(Some(SealConfig::SINGLE)));
            if round > 0 {
                assert_eq!(body(&store, &data("a")).await.unwrap(), (round - 1).to_string());
            }
            put(&store, data("a"), &round.to_string()).await;
            store.close().await;
            assert!(matches!(
                store.begin().keys(Space::Data, "", "", 1).await,
                Err(StoreFault::Unavailable(_))
            ));
        }
    }

    #[tokio::test]
    async fn a_wrong_key_and_another_clusters_key_are_told_apart_from_damage_and_write_nothing() {
        let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
        let held = scratch.hold().await;
        held.initialise(TWO_OF_THREE, &key(1), nothing).await.unwrap();
        elsewhere.hold().await.initialise(TWO_OF_THREE, &key(2), nothing).await.unwrap();
        let before = database_bytes(&scratch);
        for wrong in [key(2), key(0), SealKey::generate().unwrap()] {
            assert_eq!(held.open(wrong).await.err(), Some(StoreFault::WrongKey));
        }
        assert_eq!(database_bytes(&scratch), before);
        held.open(key(1)).await.unwrap();
    }

    /// A directory of two of three shares, closed, whose identity was edited.
    async fn edited(statement: &'static str) -> Scratch {
        let scratch = Scratch::new();
        let held = scratch.hold().await;
        held.initialise(TWO_OF_THREE, &key(1), nothing).await.unwrap();
        let store = held.open(key(1)).await.unwrap();
        edit(&store, statement).await;
        store.close().await;
        scratch
    }

    #[tokio::test]
    async fn an_identity_that_lost_a_part_or_is_of_another_format_is_refused_before_a_key_is_asked_for()
     {
        for (statement, said) in [
            ("UPDATE meta SET value = CAST('1' AS BLOB) WHERE name = 'format'", "format \"1\""),
            ("UPDATE meta SET value = CAST('20' AS BLOB) WHERE name = 'format'", "format \"20\""),
            ("DELETE FROM meta WHERE name = 'format'", "format \"unknown\""),
            ("DELETE FROM meta WHERE name = 'cluster'", "\"cluster\""),
            ("UPDATE meta SET value = randomblob(15) WHERE name = 'cluster'", "\"cluster\""),
            ("DELETE FROM meta WHERE name = 'shares'", "\"shares\""),
            ("UPDATE meta SET value = randomblob(9) WHERE name = 'shares'", "\"shares\""),
            ("DELETE FROM meta WHERE name = 'threshold'", "\"threshold\""),
            ("UPDATE meta SET value = CAST('4' AS BLOB) WHERE name = 'threshold'", "\"threshold\""),
            ("DELETE FROM meta WHERE name = 'root'", "\"root\""),
            ("DELETE FROM meta WHERE name = 'keyring'", "\"keyring\""),
            ("DROP TABLE record", "some other program"),
        ] {
            let scratch = edited(statement).await;
            let before = database_bytes(&scratch);
            let text = refusal(DataDirectory::hold(scratch.options()).await);
            assert!(text.contains(said), "{statement}: {text}");
            assert_eq!(database_bytes(&scratch), before, "{statement}");
        }
    }

    #[tokio::test]
    async fn an_identity_that_was_edited_does_not_open_with_the_right_key() {
        for statement in [
            "UPDATE meta SET value = randomblob(16) WHERE name = 'cluster'",
            "UPDATE meta SET value = CAST('4' AS BLOB) WHERE name = 'shares'",
            "UPDATE meta SET value = CAST('3' AS BLOB) WHERE name = 'threshold'",
            "UPDATE meta SET value = CAST('1' AS BLOB) WHERE name IN ('shares', 'threshold')",
            "UPDATE meta SET value = zeroblob(77) WHERE name = 'root'",
            "UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'keyring') WHERE name = 'root'",
        ] {
            let scratch = edited(statement).await;
            let before = database_bytes(&scratch);
            let outcome = scratch.hold().await.open(key(1)).await;
            assert_eq!(outcome.err(), Some(StoreFault::WrongKey), "{statement}");
            assert_eq!(database_bytes(&scratch), before, "{statement}");
        }
        let scratch = edited("UPDATE meta SET value = zeroblob(137) WHERE name = 'keyring'").await;
        let text = refusal(scratch.hold().await.open(key(1)).await);
        assert!(text.contains("the key is the right one"), "{text}");
    }
}
