//! Tests of the count and the limit of stored bytes.

use std::sync::Arc;

use super::*;
use crate::testing::{ScratchDirectory, body, data, edit, numbers, put, put_indexed};
use crate::{IndexColumns, Space, Store, Unit};
use bulkhead_record::stored_limit::StoredLimit;

fn limit(mount: &str, most: u64) -> Arc<StoredLimit> {
    let remedy = format!("to allow more: grant {mount} more");
    let name = format!("mount {mount}/");
    Arc::new(StoredLimit { counter: mount.to_owned(), most, name, remedy })
}

/// Puts `bytes` bytes within a limit.
async fn store_within(
    store: &Arc<Store>,
    limit: &Arc<StoredLimit>,
    (key, bytes): (&str, usize),
) -> Result<(), StoreFault> {
    let mut unit = store.begin().with_limit(limit);
    unit.put(data(key), vec![b'x'; bytes], IndexColumns::default());
    unit.commit().await.map(drop)
}

async fn stored(store: &Store, mount: &str) -> u64 {
    store.stored_bytes().await.unwrap().get(mount).copied().unwrap_or_default()
}

/// Returns the same count, computed from the rows.
async fn summed(store: &Store, mount: &str) -> u64 {
    let query = format!(
        "SELECT coalesce(sum(2 * octet_length(key) + 2 * octet_length(lane) \
             + 2 * octet_length(owner) + length(sealed) + 64), 0) FROM record \
         WHERE space IN (2, 4, 5, 6) AND key LIKE '{mount}/%'"
    );
    u64::try_from(numbers(store, &query).await[0]).unwrap()
}

#[tokio::test]
async fn stored_byte_count_matches_rows_after_every_change() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let index = IndexColumns { due: Some(1), lane: "m/lane".into(), owner: "someone".into() };
    put(&store, data("m/a"), "some").await;
    put(&store, data("m/a"), "some more, and in bytes: äöü").await;
    put_indexed(&store, Address::new(Space::Lease, "m/ä"), "lease", index.clone()).await;
    put_indexed(&store, Address::new(Space::Lease, "m/ä"), "lease", IndexColumns::default()).await;
    put_indexed(&store, Address::new(Space::Timer, "m/t"), "0", index).await;
    put(&store, data("other/b"), "x").await;
    for uncounted in [data("m"), data("/m"), Address::new(Space::Token, "m/a")] {
        put(&store, uncounted, "x").await;
    }
    let counted = stored(&store, "m").await;
    assert_eq!((counted, counted > 300), (summed(&store, "m").await, true));
    assert_eq!(store.stored_bytes().await.unwrap().len(), 2);
    let mut unit = store.begin();
    unit.delete(data("m/a"));
    unit.delete(Address::new(Space::Lease, "m/ä"));
    unit.commit().await.unwrap();
    assert_eq!(stored(&store, "m").await, summed(&store, "m").await);
    let mut unit = store.begin();
    unit.delete(Address::new(Space::Timer, "m/t"));
    unit.commit().await.unwrap();
    let left = store.stored_bytes().await.unwrap();
    assert_eq!(
        left.keys().collect::<Vec<_>>(),
        ["other"],
        "a mount without stored bytes has no row"
    );
}

#[tokio::test]
async fn commit_over_limit_is_refused_alone_with_remedy() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let (small, other) = (limit("m", 10_000), limit("other", 10_000));
    store_within(&store, &small, ("m/a", 6_000)).await.unwrap();
    let before = stored(&store, "m").await;
    let (refused, others) = tokio::join!(
        store_within(&store, &small, ("m/b", 6_000)),
        store_within(&store, &other, ("other/b", 6_000)),
    );
    assert_eq!(others, Ok(()));
    let Err(StoreFault::OverLimit(said)) = refused else { panic!("{refused:?}") };
    let expected = format!("mount m/ stores {before} bytes and may store 10000");
    assert!(said.contains(&expected) && said.ends_with("grant m more"), "{said}");
    assert_eq!((stored(&store, "m").await, body(&store, &data("m/b")).await), (before, None));
    let raised = limit("m", 20_000);
    store_within(&store, &raised, ("m/b", 6_000)).await.unwrap();
    assert_eq!(stored(&store, "m").await, summed(&store, "m").await);
}

#[tokio::test]
async fn full_mount_allows_replacement_and_deletion_frees_space() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let most = limit("m", 10_000);
    store_within(&store, &most, ("m/a", 6_000)).await.unwrap();
    store_within(&store, &most, ("m/b", 3_000)).await.unwrap();
    for _ in 0..3 {
        store_within(&store, &most, ("m/a", 6_000)).await.unwrap();
    }
    let least = limit("m", 1);
    store_within(&store, &least, ("m/a", 5_999)).await.unwrap();
    assert!(store_within(&store, &least, ("m/a", 6_000)).await.is_err());
    let mut unit = store.begin().with_limit(&least);
    unit.delete(data("m/b"));
    unit.put(data("m/c"), vec![b'x'; 2_999], IndexColumns::default());
    unit.commit().await.unwrap();
    let mut unit = store.begin().with_limit(&least);
    unit.delete(data("m/a"));
    unit.commit().await.unwrap();
    store_within(&store, &most, ("m/d", 6_000)).await.unwrap();
    assert_eq!(stored(&store, "m").await, summed(&store, "m").await);
}

#[tokio::test]
async fn group_commit_stores_units_within_limit() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let most = limit("m", 10_000);
    store_within(&store, &most, ("m/0", 1_000)).await.unwrap();
    let keys: Vec<String> = (1..=20).map(|number| format!("m/{number}")).collect();
    let all = keys.iter().map(|key| store_within(&store, &most, (key, 1_000)));
    let done = futures_util::future::join_all(all).await;
    let fit = done.iter().filter(|done| done.is_ok()).count();
    let bytes = stored(&store, "m").await;
    assert!((7..=8).contains(&fit) && bytes <= 10_000, "{fit} in {bytes}");
    assert_eq!(bytes, summed(&store, "m").await);
}

#[tokio::test]
async fn numbered_records_count_as_others_do() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let most = limit("m", 5_000);
    let put = async |key: &str, bytes: usize| {
        let mut unit = store.begin_revised("m").with_limit(&most);
        unit.put(data(key), vec![b'x'; bytes], IndexColumns::default());
        unit.commit().await
    };
    put("m/a", 4_000).await.unwrap();
    put("m/a", 4_000).await.unwrap();
    assert!(matches!(put("m/b", 4_000).await, Err(StoreFault::OverLimit(_))));
    assert_eq!(stored(&store, "m").await, summed(&store, "m").await);
}

#[tokio::test]
async fn count_survives_crash_and_includes_earlier_release_data() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let most = limit("m", 10_000);
    store_within(&store, &most, ("m/a", 6_000)).await.unwrap();
    put(&store, data("m/b"), "x").await;
    put(&store, of_caller("cubbyhole/ä/b"), "x").await;
    let bytes = stored(&store, "m").await;
    let of_caller = held(&store, "cubbyhole/ä").await;
    assert!(of_caller > 100, "{of_caller}");
    let crashed = scratch.crashed();
    let after = crashed.open().await;
    assert_eq!((stored(&after, "m").await, summed(&after, "m").await), (bytes, bytes));
    assert!(store_within(&after, &most, ("m/c", 6_000)).await.is_err());
    for statement in [
        "DROP TRIGGER stored_more",
        "DROP TRIGGER stored_otherwise",
        "DROP TRIGGER stored_less",
        "DROP TRIGGER held_more",
        "DROP TRIGGER held_otherwise",
        "DROP TRIGGER held_less",
        "DROP TABLE stored",
        "UPDATE meta SET value = CAST('3' AS BLOB) WHERE name = 'schema'",
    ] {
        edit(&store, statement).await;
    }
    store.close().await;
    let store = scratch.open().await;
    assert_eq!(stored(&store, "m").await, bytes);
    assert_eq!(held(&store, "cubbyhole/ä").await, of_caller);
}

/// Returns an address of bytes that the host stores for a caller.
fn of_caller(key: &str) -> Address {
    Address::new(Space::Core, key)
}

/// Returns the bytes of a counter of callers.
async fn held(store: &Store, counter: &str) -> u64 {
    let mut questions = StateQuestions::default();
    questions.counters.insert(counter);
    store.database().read_state(questions).await.unwrap().counters[counter]
}

/// Puts `bytes` bytes for a caller within the limits of the caller and of all callers.
async fn hold_within(
    store: &Arc<Store>,
    most: [u64; 2],
    (key, bytes): (&str, usize),
) -> Result<(), StoreFault> {
    let caller = key.rsplit_once('/').unwrap().0;
    let limits = [limit(caller, most[0]), limit("cubbyhole/", most[1])];
    let mut unit = limits.iter().fold(store.begin(), Unit::with_limit);
    unit.put(of_caller(key), vec![b'x'; bytes], IndexColumns::default());
    unit.commit().await.map(drop)
}

#[tokio::test]
async fn bytes_of_callers_count_for_one_and_all() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let most = [5_000, 8_000];
    hold_within(&store, most, ("cubbyhole/ä/a", 4_000)).await.unwrap();
    hold_within(&store, most, ("cubbyhole/ä/a", 4_001)).await.unwrap();
    let Err(StoreFault::OverLimit(said)) =
        hold_within(&store, most, ("cubbyhole/ä/b", 1_000)).await
    else {
        panic!("the caller has no room");
    };
    assert!(said.contains("mount cubbyhole/ä/ stores 4"), "{said}");
    hold_within(&store, most, ("cubbyhole/c/a", 3_000)).await.unwrap();
    let Err(StoreFault::OverLimit(said)) =
        hold_within(&store, most, ("cubbyhole/d/a", 1_000)).await
    else {
        panic!("all callers together have no room");
    };
    assert!(said.contains("mount cubbyhole// stores 7"), "{said}");
    assert!(store.assert_room(&limit("cubbyhole/", 7_000)).await.is_err());
    assert_eq!(store.assert_room(&limit("cubbyhole/", 8_000)).await, Ok(()));
    for uncounted in ["cubbyhole", "cubbyhole/", "cubbyhole//a", "cubbyhole/e", "policy/ä/a"] {
        put(&store, of_caller(uncounted), "x").await;
    }
    put(&store, of_caller("wrapped-content/ä/a"), "x").await;
    let each = [held(&store, "cubbyhole/ä").await, held(&store, "cubbyhole/c").await];
    assert_eq!(held(&store, "cubbyhole/").await, each.iter().sum::<u64>());
    assert_eq!(store.stored_bytes().await.unwrap(), BTreeMap::new(), "no mount stores anything");
    let mut unit = store.begin();
    unit.delete(of_caller("cubbyhole/ä/a"));
    unit.commit().await.unwrap();
    assert_eq!(held(&store, "cubbyhole/ä").await, 0);
    hold_within(&store, most, ("cubbyhole/d/a", 1_000)).await.unwrap();
}

#[tokio::test]
async fn mount_bytes_are_recounted_only_near_limit() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let most = limit("m", 100_000);
    let cached_bytes = || sync::lock(&store.data().stored.at_most).get("m").map(|it| it.bytes);
    assert_eq!(cached_bytes(), None);
    for _ in 0..15 {
        store_within(&store, &most, ("m/a", 6_000)).await.unwrap();
    }
    let at_most = cached_bytes().unwrap();
    assert!(at_most > 90_000 && stored(&store, "m").await < 7_000, "{at_most}");
    store_within(&store, &most, ("m/a", 6_000)).await.unwrap();
    store_within(&store, &most, ("m/a", 6_000)).await.unwrap();
    assert_eq!(
        cached_bytes(),
        Some(stored(&store, "m").await),
        "the bytes of the mount were counted again"
    );
}

#[test]
fn shared_bound_expires_and_keeps_reserve() {
    let now = steady_milliseconds();
    let has_room = |(is_shared, asked), more| {
        let stored = StoredBytes::new(is_shared);
        sync::lock(&stored.at_most).insert("m".to_owned(), StoredBound { bytes: 0, asked });
        stored.has_room("m", more, 1_600)
    };
    assert!(has_room((false, 0), 1_600) && !has_room((false, 0), 1_601));
    assert!(has_room((true, now), 1_500) && !has_room((true, now), 1_501), "the reserve");
    let expired = now.saturating_sub(SHARED_TIME_MS);
    assert!(!has_room((true, expired), 1), "other nodes wrote meanwhile");
}

/// Returns the size of the database file in bytes.
fn file_bytes(scratch: &ScratchDirectory) -> u64 {
    std::fs::metadata(scratch.path().join("bulkhead.db")).unwrap().len()
}

#[tokio::test]
async fn deleted_space_is_returned_to_file_system() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let unbounded = limit("m", u64::MAX);
    let keys: Vec<String> = (0..40).map(|number| format!("m/{number}")).collect();
    for key in &keys {
        store_within(&store, &unbounded, (key, 500_000)).await.unwrap();
    }
    put(&store, data("other/a"), "stays").await;
    store.give_back_space().await.unwrap();
    let full = file_bytes(&scratch);
    assert!(full > 20_000_000, "{full}");
    let mut unit = store.begin();
    keys.iter().for_each(|key| unit.delete(data(key)));
    unit.commit().await.unwrap();
    store.give_back_space().await.unwrap();
    let left = file_bytes(&scratch);
    assert!(left < 1_000_000, "{left} of {full}");
    assert_eq!(body(&store, &data("other/a")).await.unwrap(), "stays");
    store.close().await;
    assert_eq!(body(&scratch.open().await, &data("other/a")).await.unwrap(), "stays");
}
