//! Tests of holding, initialising and opening a directory, interrupted at each point.

use std::fs;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;

use super::*;
use crate::DatabaseChoice;
use crate::clock::tests::TestClock;
use crate::testing::{ScratchDirectory, body, data, edit, postgres_dump, put};
use crate::{FlushPolicy, Space};
use bulkhead_record::shamir::{ShareCollector, ShareProgress, split};

const TWO_OF_THREE: SealConfig = SealConfig { shares: 3, threshold: 2 };
/// Bytes of the log's header, and of each page in the log including its own header.
const LOG_HEADER: usize = 32;
const LOG_PAGE: usize = 24 + 4096;

fn key(byte: u8) -> SealKey {
    SealKey::from_bytes([byte; 32])
}

type First = Result<Vec<(Address, Vec<u8>, IndexColumns)>, StoreFault>;

fn nothing(_: &SecretHasher) -> First {
    Ok(Vec::new())
}

fn refusal<T>(outcome: Result<T, StoreFault>) -> String {
    match outcome {
        Err(StoreFault::Refused(text)) => text,
        Err(fault @ StoreFault::OtherFormat { .. }) => fault.to_string(),
        Err(other) => panic!("expected a refusal, got {other}"),
        Ok(_) => panic!("expected a refusal, got success"),
    }
}

/// Returns the content of the database.
fn database_bytes(scratch: &ScratchDirectory) -> Vec<u8> {
    match scratch.options().database {
        DatabaseChoice::SqliteFile => fs::read(directory::database(scratch.path())).unwrap(),
        DatabaseChoice::Postgres(place) => postgres_dump(&place),
    }
}

#[tokio::test]
async fn held_empty_directory_is_uninitialised_without_database() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    assert_eq!(directory.seal_config().await, Ok(None));
    assert_eq!(directory.cluster_id().await, Ok(None));
    assert!(refusal(directory.open(key(1)).await).contains("not initialised"));
    assert_eq!(scratch.files().keys().collect::<Vec<_>>(), ["lock"]);
}

#[tokio::test]
async fn unfinished_restore_of_killed_process_is_removed() {
    let scratch = ScratchDirectory::new();
    fs::create_dir_all(scratch.path()).unwrap();
    for name in ["restore-17.unfinished", "restore-17", "other.unfinished"] {
        fs::write(scratch.path().join(name), "a snapshot").unwrap();
    }
    let _directory = scratch.hold().await;
    let files = scratch.files();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["lock", "other.unfinished", "restore-17"]);
}

#[tokio::test]
async fn sealed_store_is_known_and_opens_with_shares() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    let key = SealKey::generate().unwrap();
    let first = |hashes: &SecretHasher| {
        let name = hashes.keyed_hash("token", b"root");
        Ok(vec![(
            Address::new(Space::Token, name),
            b"root token".to_vec(),
            IndexColumns::default(),
        )])
    };
    directory.initialise(FirstKeys::of_holders(TWO_OF_THREE, &key), first).await.unwrap();
    let name = directory.cluster_id().await.unwrap().unwrap();
    drop(directory);
    let directory = scratch.hold().await;
    assert_eq!(directory.seal_config().await, Ok(Some(TWO_OF_THREE)));
    assert_eq!(directory.cluster_id().await, Ok(Some(name)));
    let mut collector = ShareCollector::new(TWO_OF_THREE);
    for share in split(&key, TWO_OF_THREE).unwrap().drain(1..) {
        if let ShareProgress::Enough(key) = collector.add(share).unwrap() {
            let store = directory.open(key).await.unwrap();
            let token = Address::new(Space::Token, store.keyed_hash("token", b"root"));
            assert_eq!(body(&store, &token).await.unwrap(), "root token");
            return store.close().await;
        }
    }
    panic!("two shares were not enough");
}

#[tokio::test]
async fn cluster_name_is_uuid_different_from_cluster_id() {
    let names = async || {
        let scratch = ScratchDirectory::new();
        let store = scratch.open().await;
        let id = store.database().identity_rows().await.unwrap()["cluster"].clone();
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
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    directory.initialise(FirstKeys::of_holders(TWO_OF_THREE, &key(1)), nothing).await.unwrap();
    let before = database_bytes(&scratch);
    assert!(
        refusal(
            directory.initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(2)), nothing).await
        )
        .contains("already")
    );
    assert_eq!(database_bytes(&scratch), before);
    assert_eq!(directory.seal_config().await, Ok(Some(TWO_OF_THREE)));
}

#[tokio::test]
async fn second_simultaneous_initialisation_is_refused() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    let (key_one, key_two) = (key(1), key(2));
    let (one, two) = tokio::join!(
        directory.initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key_one), nothing),
        directory.initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key_two), nothing)
    );
    assert_eq!(one, Ok(()));
    assert!(matches!(two, Err(StoreFault::Unavailable(_))));
    assert_eq!(directory.open(key(2)).await.err(), Some(StoreFault::WrongKey));
    directory.open(key(1)).await.unwrap();
}

#[tokio::test]
async fn inconsistent_configuration_initialises_nothing() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    for (shares, threshold) in [(0, 0), (3, 0), (3, 1), (3, 4)] {
        let config = SealConfig { shares, threshold };
        refusal(directory.initialise(FirstKeys::of_holders(config, &key(1)), nothing).await);
    }
    assert_eq!(directory.seal_config().await, Ok(None));
}

#[tokio::test]
async fn unstorable_first_records_leave_nothing_initialised() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    let twice = |_: &SecretHasher| -> First {
        Ok(vec![(data("a"), b"1".to_vec(), IndexColumns::default()); 2])
    };
    let unmade =
        |_: &SecretHasher| -> First { Err(StoreFault::Unavailable("no randomness".to_owned())) };
    assert!(matches!(
        directory.initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(1)), twice).await,
        Err(StoreFault::Unavailable(_))
    ));
    assert!(matches!(
        directory.initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(1)), unmade).await,
        Err(StoreFault::Unavailable(_))
    ));
    assert_eq!(directory.seal_config().await, Ok(None));
    directory
        .initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(1)), nothing)
        .await
        .unwrap();
    directory.open(key(1)).await.unwrap();
}

/// Cuts the log of the single transaction at each point where a kill can cut it, and at its end.
#[tokio::test]
async fn a_kill_amid_initialising_leaves_nothing_or_everything() {
    let scratch = ScratchDirectory::new();
    directory::ensure_database(scratch.path()).unwrap();
    let (identity, seal) =
        StoreIdentity::generate(FirstKeys::of_holders(TWO_OF_THREE, &key(1)), 1).unwrap();
    let record = Record::unwritten(RecordBody::new(b"1".to_vec()), IndexColumns::default());
    let row = SealedRow::of(&seal, &data("first"), &record).unwrap();
    let place = DatabasePlace::SqliteIn(scratch.path());
    let database = place.open(FlushPolicy::EveryCommit).await.unwrap();
    database.initialise(identity.rows(), &[row]).await.unwrap();
    let log_length = scratch.files()["bulkhead.db-wal"].len();
    let boundaries =
        (0..).map(|pages| LOG_HEADER + pages * LOG_PAGE).take_while(|length| *length <= log_length);
    let cuts: Vec<usize> =
        boundaries.flat_map(|length| [length, length + 1, length + LOG_PAGE / 2]).collect();
    assert!(cuts.len() > 9, "{cuts:?}");
    for cut in cuts.into_iter().chain([0]) {
        let killed = scratch.crashed();
        let log =
            fs::OpenOptions::new().write(true).open(killed.path().join("bulkhead.db-wal")).unwrap();
        log.set_len(u64::try_from(cut.min(log_length)).unwrap()).unwrap();
        let directory = killed.hold().await;
        if cut < log_length {
            assert_eq!(directory.seal_config().await, Ok(None), "cut at {cut}");
            directory
                .initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(2)), nothing)
                .await
                .unwrap();
            directory.open(key(2)).await.unwrap().close().await;
        } else {
            assert_eq!(directory.seal_config().await, Ok(Some(TWO_OF_THREE)));
            assert_eq!(
                body(&directory.open(key(1)).await.unwrap(), &data("first")).await.unwrap(),
                "1"
            );
        }
    }
    database.close().await;
}

/// The write that starts the log is the only write that SQLite makes without the log.
#[tokio::test]
async fn kill_during_first_write_is_undone_at_start() {
    let (scratch, killed) = (ScratchDirectory::new(), ScratchDirectory::new());
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
    let directory = killed.hold().await;
    assert_eq!(directory.seal_config().await, Ok(None));
    directory.initialise(FirstKeys::of_holders(TWO_OF_THREE, &key(1)), nothing).await.unwrap();
    directory.open(key(1)).await.unwrap();
}

#[tokio::test]
async fn directory_stays_locked_while_sealed_and_after_close() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    assert!(refusal(DataDirectory::hold(scratch.options()).await).contains("in use by another"));
    directory
        .initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(1)), nothing)
        .await
        .unwrap();
    let store = directory.open(key(1)).await.unwrap();
    store.close().await;
    assert!(refusal(DataDirectory::hold(scratch.options()).await).contains("in use by another"));
    drop(directory);
    scratch.hold().await;
}

#[tokio::test]
async fn open_store_alone_keeps_directory_locked() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    assert!(refusal(DataDirectory::hold(scratch.options()).await).contains("in use by another"));
    drop(store);
    scratch.hold().await;
}

#[tokio::test]
async fn sealed_data_reopens_in_process_but_never_twice() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    directory
        .initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(1)), nothing)
        .await
        .unwrap();
    for round in 0..3 {
        let store = directory.open(key(1)).await.unwrap();
        assert!(matches!(directory.open(key(1)).await, Err(StoreFault::Unavailable(_))));
        assert_eq!(directory.seal_config().await, Ok(Some(SealConfig::SINGLE)));
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
async fn wrong_key_is_no_damage_and_writes_nothing() {
    let (scratch, elsewhere) = (ScratchDirectory::new(), ScratchDirectory::new());
    let directory = scratch.hold().await;
    directory.initialise(FirstKeys::of_holders(TWO_OF_THREE, &key(1)), nothing).await.unwrap();
    elsewhere
        .hold()
        .await
        .initialise(FirstKeys::of_holders(TWO_OF_THREE, &key(2)), nothing)
        .await
        .unwrap();
    let before = database_bytes(&scratch);
    for wrong in [key(2), key(0), SealKey::generate().unwrap()] {
        assert_eq!(directory.open(wrong).await.err(), Some(StoreFault::WrongKey));
    }
    assert_eq!(database_bytes(&scratch), before);
    directory.open(key(1)).await.unwrap();
}

/// Returns a closed directory with a 2-of-3 split and an edited identity.
async fn edited(statement: &'static str) -> ScratchDirectory {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    directory.initialise(FirstKeys::of_holders(TWO_OF_THREE, &key(1)), nothing).await.unwrap();
    let store = directory.open(key(1)).await.unwrap();
    edit(&store, statement).await;
    store.close().await;
    scratch
}

#[tokio::test]
async fn incomplete_or_foreign_identity_is_refused_without_key() {
    for (statement, said) in [
        ("UPDATE meta SET value = CAST('1' AS BLOB) WHERE name = 'format'", "have format 1, and"),
        ("UPDATE meta SET value = CAST('20' AS BLOB) WHERE name = 'format'", "have format 20, and"),
        ("DELETE FROM meta WHERE name = 'format'", "do not say their format"),
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
async fn edited_identity_does_not_open_with_right_key() {
    for statement in [
        "UPDATE meta SET value = randomblob(16) WHERE name = 'cluster'",
        "UPDATE meta SET value = CAST('4' AS BLOB) WHERE name = 'shares'",
        "UPDATE meta SET value = CAST('3' AS BLOB) WHERE name = 'threshold'",
        "UPDATE meta SET value = CAST('1' AS BLOB) WHERE name IN ('shares', 'threshold')",
        "UPDATE meta SET value = zeroblob(77) WHERE name = 'root'",
        "UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'keyring') \
         WHERE name = 'root'",
    ] {
        let scratch = edited(statement).await;
        bulkhead_place::node_files::MarkFile::unread(scratch.path()).remove().unwrap();
        let before = database_bytes(&scratch);
        let outcome = scratch.hold().await.open(key(1)).await;
        assert_eq!(outcome.err(), Some(StoreFault::WrongKey), "{statement}");
        assert_eq!(database_bytes(&scratch), before, "{statement}");
    }
    let scratch = edited("UPDATE meta SET value = zeroblob(137) WHERE name = 'keyring'").await;
    let text = refusal(scratch.hold().await.open(key(1)).await);
    assert!(text.contains("the key is right"), "{text}");
}

#[tokio::test]
async fn reopened_data_keep_time_while_clock_is_wrong() {
    let (scratch, hands) = (ScratchDirectory::new(), TestClock::new());
    let directory = DataDirectory::hold_by(scratch.options(), hands.clock()).await.unwrap();
    directory
        .initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(1)), nothing)
        .await
        .unwrap();
    let store = directory.open(key(1)).await.unwrap();
    let began = store.now();
    hands.pass(1_000);
    hands.set(3_600_000);
    store.close().await;
    drop(store);
    let store = directory.open(key(1)).await.unwrap();
    assert_eq!((store.now(), directory.now()), (began + 1_000, began + 1_000));
    assert_eq!(store.clock_jump().unwrap().by, 3_600_000);
    hands.set(-7_200_000);
    hands.pass(1_000);
    assert_eq!((store.now(), directory.now()), (began + 2_000, began + 2_000));
}
