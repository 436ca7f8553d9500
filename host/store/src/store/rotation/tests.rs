//! Rotations of the sealing key.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::task::JoinSet;

use super::*;
use crate::testing::{ScratchDirectory, body, bytes, data, edit, put, put_indexed};
use crate::{Address, IndexColumns, Space};
use bulkhead_wire::hexadecimal;

const WRITERS: usize = 8;

fn lease(writer: usize, number: usize) -> Address {
    Address::new(Space::Lease, format!("{writer}/{number:04}"))
}

/// Returns the terms under which the stored rows are sealed.
async fn terms(store: &Arc<Store>) -> BTreeSet<u32> {
    let terms = bytes(store, "SELECT DISTINCT substr(sealed, 2, 4) FROM record").await;
    terms.into_iter().map(|term| u32::from_be_bytes(term.try_into().unwrap())).collect()
}

#[tokio::test]
async fn rotation_reports_term_and_time_and_resets_count() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let before = store.key_status();
    assert_eq!((before.term, before.sealed), (1, 0));
    put(&store, data("a"), "1").await;
    put(&store, data("b"), "2").await;
    assert_eq!(store.key_status().sealed, 2);
    let rotated = store.rotate().await.unwrap();
    assert_eq!((rotated.term, rotated.sealed), (2, 0));
    assert!((before.installed..=store.now()).contains(&rotated.installed));
    assert_eq!(store.key_status(), rotated);
    store.close().await;
    assert_eq!(scratch.open().await.key_status(), rotated);
}

#[tokio::test]
async fn keyed_hash_names_stay_same_over_rotations() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let name = store.keyed_hash("token", b"t");
    store.rotate().await.unwrap();
    assert_eq!(store.keyed_hash("token", b"t"), name);
    store.close().await;
    assert_eq!(scratch.open().await.keyed_hash("token", b"t"), name);
}

#[tokio::test]
async fn row_moves_to_newest_term_only_when_written() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    store.rotate().await.unwrap();
    assert_eq!(terms(&store).await, [1].into());
    put(&store, data("b"), "1").await;
    assert_eq!(terms(&store).await, [1, 2].into());
    put(&store, data("a"), "2").await;
    assert_eq!(terms(&store).await, [2].into());
}

#[tokio::test]
async fn rotation_that_cannot_be_stored_keeps_current_key() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    edit(
        &store,
        "CREATE TRIGGER no BEFORE UPDATE ON meta WHEN new.name = 'keyring' \
         BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .await;
    let before = store.key_status();
    assert!(matches!(store.rotate().await, Err(StoreFault::Unavailable(_))));
    assert_eq!(store.key_status(), before);
    put(&store, data("a"), "1").await;
    edit(&store, "DROP TRIGGER no").await;
    assert_eq!(store.rotate().await.unwrap().term, 2);
    store.close().await;
    assert_eq!(body(&scratch.open().await, &data("a")).await.unwrap(), "1");
    let refused = store.rotate().await.unwrap_err();
    assert!(refused.to_string().contains("closed"), "{refused}");
}

#[tokio::test]
async fn rotation_continues_after_caller_leaves() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    {
        let mut rotation = Box::pin(store.rotate());
        assert!(rotation.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(store.rotate().await.unwrap().term, 3, "the first one was waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_at_once_make_one_term_each() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut rotations = JoinSet::new();
    for _ in 0..20 {
        let store = Arc::clone(&store);
        rotations.spawn(async move { store.rotate().await.unwrap().term });
    }
    let terms: BTreeSet<u32> = rotations.join_all().await.into_iter().collect();
    assert_eq!(terms, (2..=21).collect());
    store.close().await;
    assert_eq!(scratch.open().await.key_status().term, 21);
}

/// Starts writers that store and read back records until told to stop; `done` counts
/// acknowledged records by writer.
fn start_writers(
    store: &Arc<Store>,
    (stop, done): (&Arc<AtomicBool>, &Arc<[AtomicUsize; WRITERS]>),
) -> JoinSet<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, stop, done) = (Arc::clone(store), Arc::clone(stop), Arc::clone(done));
        writers.spawn(async move {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                let text = format!("{writer} wrote {number}");
                put_indexed(&store, lease(writer, number), &text, IndexColumns::default()).await;
                assert_eq!(body(&store, &lease(writer, number)).await.unwrap(), text);
                number += 1;
                done[writer].store(number, Ordering::SeqCst);
            }
        });
    }
    writers
}

fn acknowledged(done: &[AtomicUsize; WRITERS]) -> [usize; WRITERS] {
    std::array::from_fn(|writer| done[writer].load(Ordering::SeqCst))
}

async fn assert_readable(store: &Arc<Store>, acknowledged: [usize; WRITERS]) {
    for (writer, count) in acknowledged.into_iter().enumerate() {
        for number in 0..count {
            assert_eq!(
                body(store, &lease(writer, number)).await.unwrap(),
                format!("{writer} wrote {number}")
            );
        }
    }
    let mut all = store.begin();
    for key in all.keys(Space::Lease, "", "", u32::MAX).await.unwrap() {
        all.get(&Address::new(Space::Lease, key)).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_changes_under_eight_writers_lose_nothing() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let (stop, done) = (Arc::default(), Arc::default());
    let writers = start_writers(&store, (&stop, &done));
    let mut passed = 0;
    for _ in 0..10 {
        store.rotate().await.unwrap();
        // Some writes under each term.
        while acknowledged(&done).iter().sum::<usize>() < passed + 2 * WRITERS {
            tokio::task::yield_now().await;
        }
        passed = acknowledged(&done).iter().sum();
    }
    stop.store(true, Ordering::Relaxed);
    writers.join_all().await;
    assert!(terms(&store).await.len() >= 10, "{:?}", terms(&store).await);
    store.close().await;
    let store = scratch.open().await;
    assert_eq!(store.key_status().term, 11);
    assert_readable(&store, acknowledged(&done)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_amid_rotations_loses_no_acknowledged_write() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let (stop, done) = (Arc::default(), Arc::default());
    // Files copied one after the other match the state of a crash only while nothing but the
    // log grows.
    edit(&store, "PRAGMA wal_autocheckpoint = 0").await;
    let mut running = start_writers(&store, (&stop, &done));
    let (rotator, until) = (Arc::clone(&store), Arc::clone(&stop));
    running.spawn(async move {
        while !until.load(Ordering::Relaxed) {
            rotator.rotate().await.unwrap();
        }
    });
    let mut crashes = Vec::new();
    for _ in 0..8 {
        let (term, promised) = (store.key_status().term, acknowledged(&done));
        crashes.push((scratch.crashed(), term, promised));
        while store.key_status().term < term + 2 {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    running.join_all().await;
    for (crash, term, promised) in crashes {
        let store = crash.open().await;
        assert!(store.key_status().term >= term);
        assert_readable(&store, promised).await;
        store.rotate().await.unwrap();
        put(&store, data("after"), "1").await;
        store.close().await;
        assert_eq!(body(&crash.open().await, &data("after")).await.unwrap(), "1");
    }
}

#[tokio::test]
async fn restored_older_keyring_opens_known_terms_only() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("old"), "1").await;
    edit(&store, "CREATE TABLE kept AS SELECT * FROM meta").await;
    store.rotate().await.unwrap();
    put(&store, data("new"), "2").await;
    edit(
        &store,
        "UPDATE meta SET value = (SELECT value FROM kept WHERE name = 'keyring') \
         WHERE name = 'keyring'",
    )
    .await;
    store.close().await;
    let store = scratch.open().await;
    assert_eq!(body(&store, &data("old")).await.unwrap(), "1");
    assert_eq!(store.begin().get(&data("new")).await.err(), Some(StoreFault::Damaged(data("new"))));
}

/// Returns whether a key stands in the content: as bytes, in hexadecimal or in base64.
fn has_key(content: &[u8], is_key: impl Fn(&[u8]) -> bool) -> bool {
    let digits = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    let hexadecimal = |window: &[u8]| {
        let bytes: Option<Vec<u8>> = window.chunks(2).map(digits).collect();
        bytes.is_some_and(|bytes| is_key(&bytes))
    };
    let base64 = |window: &[u8]| STANDARD.decode(window).is_ok_and(|bytes| is_key(&bytes));
    content.windows(32).any(&is_key)
        || content.windows(64).any(hexadecimal)
        || content.windows(44).any(base64)
}

#[test]
fn search_finds_key_in_each_spelling() {
    let key = [0xa7; 32];
    let text = hexadecimal::text(&key);
    for content in [key.to_vec(), text.to_uppercase().into(), STANDARD.encode(key).into()] {
        assert!(
            has_key(&[b"before ", content.as_slice(), b" after"].concat(), |found| found == key)
        );
    }
    assert!(!has_key(&[0xa7; 31], |found| found == key));
}

#[tokio::test]
async fn neither_bodies_nor_keys_stand_in_any_file() {
    const CANARY: &str = "canary-d41d8cd98f00b204";
    let scratch = ScratchDirectory::of_files();
    let key = crate::SealKey::generate().unwrap();
    let directory = scratch.hold().await;
    let first = |_: &crate::SecretHasher| {
        Ok(vec![(data("first"), CANARY.as_bytes().to_vec(), IndexColumns::default())])
    };
    directory
        .initialise(crate::FirstKeys::of_holders(crate::SealConfig::SINGLE, &key), first)
        .await
        .unwrap();
    let unseal = *key.bytes();
    let store = directory.open(key).await.unwrap();
    put(&store, data("a"), CANARY).await;
    store.rotate().await.unwrap();
    put(&store, data("b"), CANARY).await;
    let find = |stage: &str| {
        for (name, content) in scratch.files() {
            let is_key = |bytes: &[u8]| bytes == unseal || store.seal().has_key(bytes);
            assert!(!has_key(&content, is_key), "a key stands in {name} {stage}");
            let canary = CANARY.as_bytes();
            assert!(!content.windows(canary.len()).any(|window| window == canary), "{name}");
        }
    };
    find("while open");
    store.close().await;
    find("after the close");
    assert_eq!(scratch.files().keys().collect::<Vec<_>>(), ["bulkhead.db", "lock"]);
}
