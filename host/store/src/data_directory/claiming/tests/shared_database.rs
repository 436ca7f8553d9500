//! Tests of two nodes that share a database.

mod answer_gate;
mod interference;
mod lost_answers;
mod node_upkeep;
mod replaced_server;
mod restored_tables;
mod slow_commits;
mod stored_bytes;

use std::sync::Arc;
use std::time::Duration;

use super::super::DataDirectory;
use super::IDLE;
use crate::clock::StoreClock;
use crate::database::Database;
use crate::testing::{ScratchDirectory, TestDatabase, body, data, edit, numbers, put};
use crate::unit::Unit;
use crate::{Address, IndexColumns, SealKey, Space, Store, StoreFault};
use bulkhead_place::claim_watch::{ClaimTimes, NodeSharing};
use bulkhead_record::committed_state::GroupWrites;

/// Longest wait for records in memory that can be used, on a busy machine.
const MEMORY_TIME: Duration = Duration::from_secs(30);

/// Two nodes on one database.
pub(super) struct Pair {
    pub(super) directories: (ScratchDirectory, ScratchDirectory),
    pub(super) one: Arc<Store>,
    pub(super) other: Arc<Store>,
}

pub(super) async fn open_shared(
    scratch: &ScratchDirectory,
    times: ClaimTimes,
) -> Result<Arc<Store>, StoreFault> {
    hold_shared(scratch, times).await?.open(SealKey::from_bytes([1; 32])).await
}

pub(super) async fn hold_shared(
    scratch: &ScratchDirectory,
    times: ClaimTimes,
) -> Result<Arc<DataDirectory>, StoreFault> {
    hold_shared_by(scratch, times, StoreClock::system()).await
}

pub(super) async fn hold_shared_by(
    scratch: &ScratchDirectory,
    times: ClaimTimes,
    clock: StoreClock,
) -> Result<Arc<DataDirectory>, StoreFault> {
    let mut directory = DataDirectory::hold_uninspected(scratch.options(), clock).unwrap();
    (directory.sharing, directory.claim_times) = (NodeSharing::Shared, times);
    directory.inspect().await?;
    Ok(Arc::new(directory))
}

impl Pair {
    pub(super) async fn open() -> Pair {
        Pair::open_with(ClaimTimes::default(), ClaimTimes::default()).await
    }

    async fn open_with(of_one: ClaimTimes, of_other: ClaimTimes) -> Pair {
        let scratch = ScratchDirectory::on(TestDatabase::Postgres);
        scratch.open().await.close().await;
        let beside = scratch.beside();
        let one = open_shared(&scratch, of_one).await.unwrap();
        let other = open_shared(&beside, of_other).await.unwrap();
        Pair { directories: (scratch, beside), one, other }
    }

    /// Waits until `other` has read everything that is committed so far.
    pub(super) async fn catch_up(&self) {
        self.other.data().changes.await_next().await.unwrap();
    }

    /// Waits until `other` uses its records in memory. On a busy machine, a finished read of the
    /// changes may be too old by the time that a test looks.
    pub(super) async fn until_memory_is_used(&self) {
        let changes = &self.other.data().changes;
        let used = async {
            while changes.check().is_err() {
                changes.await_next().await.ok();
            }
        };
        tokio::time::timeout(MEMORY_TIME, used).await.expect("records in memory are used");
    }
}

#[tokio::test]
async fn changes_of_other_node_replace_records_in_memory() {
    let pair = Pair::open().await;
    let token = Address::new(Space::Token, "t");
    for address in [data("a"), token] {
        for text in ["1", "2"] {
            put(&pair.one, address.clone(), text).await;
            pair.catch_up().await;
            assert_eq!(body(&pair.other, &address).await.unwrap(), text);
        }
        let mut unit = pair.one.begin();
        unit.delete(address.clone());
        unit.commit().await.unwrap();
        pair.catch_up().await;
        assert_eq!(body(&pair.other, &address).await, None);
    }
    // The absence in memory of `one` as well.
    assert_eq!(body(&pair.one, &data("b")).await, None);
    put(&pair.other, data("b"), "3").await;
    pair.one.data().changes.await_next().await.unwrap();
    assert_eq!(body(&pair.one, &data("b")).await.unwrap(), "3");
}

#[tokio::test]
async fn both_nodes_commit_and_neither_loses_an_update() {
    let pair = Pair::open().await;
    put(&pair.one, data("n"), "0").await;
    let add = async |store: &Arc<Store>| {
        let mut added = 0;
        while added < 25 {
            let mut unit = store.begin();
            let record = unit.get(&data("n")).await.unwrap().unwrap();
            let number: u64 = String::from_utf8(record.body.to_vec()).unwrap().parse().unwrap();
            let next = (number + 1).to_string().into_bytes();
            unit.put(data("n"), next, IndexColumns::default());
            match unit.commit().await {
                Ok(_) => added += 1,
                Err(StoreFault::Conflict) => {}
                Err(other) => panic!("{other}"),
            }
        }
    };
    tokio::join!(add(&pair.one), add(&pair.other));
    pair.catch_up().await;
    assert_eq!(body(&pair.other, &data("n")).await.unwrap(), "50");
}

/// Reads a folder and a record, and relies on both.
async fn unit_with_folder(store: &Arc<Store>) -> Unit {
    let mut unit = store.begin();
    unit.get(&data("m/other")).await.unwrap();
    unit.folder_revision("m/f/").unwrap();
    unit
}

#[tokio::test]
async fn folder_changed_by_other_node_is_conflict() {
    let pair = Pair::open().await;
    put(&pair.one, data("m/other"), "1").await;
    pair.catch_up().await;
    for writes in [false, true] {
        let mut unit = unit_with_folder(&pair.other).await;
        if writes {
            unit.put(data("m/result"), b"1".to_vec(), IndexColumns::default());
        }
        put(&pair.one, data("m/f/new"), if writes { "1" } else { "2" }).await;
        if !writes {
            pair.catch_up().await;
        }
        assert_eq!(unit.commit().await.map(drop), Err(StoreFault::Conflict), "{writes}");
        pair.catch_up().await;
        unit_with_folder(&pair.other).await.commit().await.unwrap();
    }
}

#[tokio::test]
async fn watch_rings_for_change_of_other_node() {
    let pair = Pair::open().await;
    let watch = pair.other.watch(vec!["m/key".to_owned()]);
    let before = pair.other.change_count("m");
    put(&pair.one, data("m/key"), "1").await;
    watch.changed().await;
    assert_ne!(pair.other.change_count("m"), before);
}

#[tokio::test]
async fn followed_prefix_counts_before_change_is_answered() {
    let pair = Pair::open().await;
    let (policies, mounts) = (pair.other.follow("policy/"), pair.other.follow("mount/"));
    pair.catch_up().await;
    let (before, own) = ((policies.get(), mounts.get()), pair.one.follow("policy/"));
    put(&pair.one, Address::new(Space::Core, "policy/a"), "1").await;
    assert_eq!((policies.get(), mounts.get()), (before.0 + 1, before.1));
    assert_eq!(own.get(), 1, "the node of the commit follows, too");
    let last = pair.one.data().database.own_commits();
    put(&pair.one, data("a"), "1").await;
    assert!(pair.one.data().database.forget_changes(last + 9).await.is_ok());
    pair.catch_up().await;
    assert!(policies.get() > before.0 + 1 && mounts.get() > before.1, "a gap");
}

#[tokio::test]
async fn forgotten_changes_empty_the_memory() {
    let pair = Pair::open().await;
    put(&pair.one, data("a"), "1").await;
    pair.catch_up().await;
    assert_eq!(body(&pair.other, &data("a")).await.unwrap(), "1");
    // The changes were removed before `other` read them.
    edit(&pair.one, "UPDATE record SET sealed = x'00' WHERE key = 'a'").await;
    let last = pair.one.data().database.own_commits();
    let forgotten = pair.one.data().database.forget_changes(last + 1).await;
    assert!(forgotten.is_ok());
    pair.catch_up().await;
    let found = pair.other.begin().get(&data("a")).await;
    assert!(matches!(found, Err(StoreFault::Damaged(_))), "read from the database");
    let left = numbers(&pair.one, "SELECT count(*) FROM change").await;
    assert_eq!(left, [0]);
}

#[tokio::test]
async fn node_alone_and_sharing_node_refuse_each_other() {
    let pair = Pair::open().await;
    let alone = pair.directories.0.beside();
    let Err(StoreFault::Refused(why)) = DataDirectory::hold(alone.options()).await else {
        panic!("a node that knows nothing of the others works beside them");
    };
    assert!(why.contains("in use by another node"), "{why}");
    pair.one.close().await;
    pair.other.close().await;
    let store = alone.open().await;
    let beside = alone.beside();
    let why = open_shared(&beside, ClaimTimes::default()).await.err().unwrap().to_string();
    assert!(why.contains("in use by another node"), "{why}");
    put(&store, data("a"), "1").await;
    assert_eq!(numbers(&store, "SELECT count(*) FROM change").await, [0]);
}

#[tokio::test]
async fn silent_node_is_counted_as_dead_and_fenced() {
    let hasty = ClaimTimes { renewal: Duration::from_millis(30), ..IDLE };
    let pair = Pair::open_with(hasty, IDLE).await;
    let epochs = [&pair.one, &pair.other].map(|store| store.epoch().to_owned());
    assert_eq!(pair.one.living_epochs().await.unwrap(), epochs.clone().into());
    put(&pair.one, data("a"), "1").await;
    let silent = "UPDATE node SET until = CURRENT_TIMESTAMP - INTERVAL '1 hour' \
         WHERE shares AND since = (SELECT max(since) FROM node WHERE shares)";
    edit(&pair.one, silent).await;
    while pair.one.living_epochs().await.unwrap().len() > 1 {
        pair.one.data().changes.await_next().await.unwrap();
    }
    assert_eq!(pair.one.living_epochs().await.unwrap(), [epochs[0].clone()].into());
    let mut unit = pair.other.begin();
    unit.put(data("b"), b"1".to_vec(), IndexColumns::default());
    assert!(unit.commit().await.is_err());
    let why = pair.other.claim_loss().unwrap().to_owned();
    let (ended, _) = why.split_once(" s without a sign of life: process ").unwrap();
    let (who, silence) = ended.rsplit_once(' ').unwrap();
    assert!(who.starts_with("another node ended the claim of this node on "), "{why}");
    let hours = 7_200..7_260;
    assert!(hours.contains(&silence.parse().unwrap()), "the claim and the time after it: {why}");
    assert_eq!(body(&pair.one, &data("b")).await, None);
}

/// A sequential scan would make each transaction depend on the rows of all nodes.
#[tokio::test]
async fn overlapping_commits_of_two_nodes_do_not_conflict() {
    let pair = Pair::open().await;
    edit(&pair.one, "ANALYZE node").await;
    let under_way = pair.one.data();
    let Database::Postgres(database) = &under_way.database else { panic!("no server") };
    database.commit_around(GroupWrites::default(), put(&pair.other, data("a"), "1")).await;
}

#[tokio::test]
async fn answered_change_is_in_force_on_other_node() {
    let pair = Pair::open().await;
    let (policy, token) = (Address::new(Space::Core, "policy"), Address::new(Space::Token, "t"));
    put(&pair.one, token.clone(), "0").await;
    for round in 0..40_u64 {
        let (writer, reader) = match round % 2 {
            0 => (&pair.one, &pair.other),
            _ => (&pair.other, &pair.one),
        };
        // Both are in memory of the reader.
        for address in [&policy, &token] {
            body(reader, address).await;
        }
        let mut unit = writer.begin();
        unit.put(policy.clone(), round.to_string().into_bytes(), IndexColumns::default());
        unit.get(&token).await.unwrap();
        unit.delete(token.clone());
        unit.commit().await.unwrap();
        assert_eq!(body(reader, &policy).await.unwrap(), round.to_string());
        assert_eq!(body(reader, &token).await, None, "a revoked token");
        put(writer, token.clone(), "1").await;
    }
}

#[tokio::test]
async fn change_is_answered_although_other_node_is_paused() {
    let pair = Pair::open().await;
    let address = Address::new(Space::Core, "policy");
    put(&pair.one, address.clone(), "1").await;
    assert_eq!(body(&pair.other, &address).await.unwrap(), "1");
    // The other node reads no changes while the lock is held.
    let paused = pair.other.data();
    let reading = paused.changes.hold_reading().await;
    put(&pair.one, address.clone(), "2").await;
    assert!(paused.changes.check().is_err(), "nothing from memory");
    drop(reading);
    assert_eq!(body(&pair.other, &address).await.unwrap(), "2");
}
