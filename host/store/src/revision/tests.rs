//! Tests of revisions: each commit counts 1, and records keep their revisions.

use std::sync::Arc;

use super::*;
use crate::testing::{ScratchDirectory, data, edit, put};
use crate::{Store, Unit};

fn write(unit: &mut Unit, key: &str) {
    unit.put(data(key), b"x".to_vec(), IndexColumns::default());
}

/// Puts these keys in one commit of the mount `m`, and returns the revision.
async fn put_in_m(store: &Arc<Store>, keys: &[&str]) -> Option<u64> {
    let mut unit = store.begin_revised("m");
    keys.iter().for_each(|key| write(&mut unit, key));
    unit.commit().await.unwrap()
}

/// Returns the revisions at which the record was created and last changed.
async fn numbers(store: &Arc<Store>, key: &str) -> (u64, u64) {
    let record = store.begin().get(&data(key)).await.unwrap().unwrap();
    (record.created, record.modified)
}

#[tokio::test]
async fn index_counts_each_commit_changing_mount_data_only() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    assert_eq!(store.revision("m").await.unwrap(), 0);
    assert_eq!(put_in_m(&store, &["m/a", "m/b"]).await, Some(1));
    let mut unit = store.begin_revised("m");
    unit.get(&data("m/a")).await.unwrap();
    assert_eq!(unit.checkpoint().await.unwrap(), None);
    write(&mut unit, "m/c");
    assert_eq!(unit.checkpoint().await.unwrap(), Some(2));
    write(&mut unit, "another/a");
    write(&mut unit, "ma");
    unit.put(Address::new(Space::Timer, "m/a"), b"x".to_vec(), IndexColumns::default());
    assert_eq!(unit.checkpoint().await.unwrap(), None);
    unit.delete(data("m/never there"));
    assert_eq!(unit.commit().await.unwrap(), Some(3));
    assert_eq!(store.revision("m").await.unwrap(), 3);
    store.close().await;
    let store = scratch.open().await;
    assert_eq!(put_in_m(&store, &["m/a"]).await, Some(4));
}

#[tokio::test]
async fn record_keeps_creation_index_until_deleted() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put_in_m(&store, &["m/a", "m/b"]).await;
    put_in_m(&store, &["m/b"]).await;
    assert_eq!((numbers(&store, "m/a").await, numbers(&store, "m/b").await), ((1, 1), (1, 2)));
    let mut removal = store.begin_revised("m");
    removal.delete(data("m/b"));
    assert_eq!(removal.commit().await.unwrap(), Some(3));
    put_in_m(&store, &["m/b"]).await;
    assert_eq!((numbers(&store, "m/a").await, numbers(&store, "m/b").await), ((1, 1), (4, 4)));
}

#[tokio::test]
async fn mounts_count_apart_and_unindexed_records_lack_numbers() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("m/plain"), "x").await;
    for index in 1..=3 {
        assert_eq!(put_in_m(&store, &["m/a"]).await, Some(index));
    }
    let mut other = store.begin_revised("m2");
    write(&mut other, "m2/a");
    assert_eq!(other.commit().await.unwrap(), Some(1));
    assert_eq!((store.revision("m").await.unwrap(), store.revision("m2").await.unwrap()), (3, 1));
    assert_eq!(numbers(&store, "m/plain").await, (0, 0));
    assert_eq!(put_in_m(&store, &["m/plain"]).await, Some(4));
    assert_eq!(numbers(&store, "m/plain").await, (4, 4));
    put(&store, data("m/plain"), "x").await;
    assert_eq!(numbers(&store, "m/plain").await, (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_get_each_index_once_on_records() {
    const WRITERS: u64 = 32;
    const EACH: u64 = 10;
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut indexes = Vec::new();
                for number in 0..EACH {
                    let (own, all) = (format!("m/{writer}/{number}"), "m/all");
                    let index = put_in_m(&store, &[&own, all]).await.unwrap();
                    assert_eq!(numbers(&store, &own).await, (index, index));
                    indexes.push(index);
                }
                assert!(indexes.is_sorted());
                indexes
            })
        })
        .collect();
    let mut indexes = Vec::new();
    for task in tasks {
        indexes.extend(task.await.unwrap());
    }
    indexes.sort_unstable();
    assert_eq!(indexes, Vec::from_iter(1..=WRITERS * EACH));
    assert_eq!(numbers(&store, "m/all").await, (1, WRITERS * EACH));
    assert_eq!(store.revision("m").await.unwrap(), WRITERS * EACH);
}

#[tokio::test]
async fn edited_record_or_counter_passes_no_number_on() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put_in_m(&store, &["m/a", "m/b"]).await;
    edit(&store, "UPDATE record SET created = 7 WHERE key = 'm/a'").await;
    let fault = |unit: Unit| async move { unit.commit().await.unwrap_err() };
    let mut unit = store.begin_revised("m");
    write(&mut unit, "m/a");
    assert_eq!(fault(unit).await, StoreFault::Damaged(data("m/a")));
    assert_eq!(put_in_m(&store, &["m/b"]).await, Some(2));
    let mut removal = store.begin_revised("m");
    removal.delete(data("m/a"));
    assert_eq!(removal.commit().await.unwrap(), Some(3));
    assert_eq!(put_in_m(&store, &["m/a"]).await, Some(4));

    edit(&store, "UPDATE record SET stamp = zeroblob(16) WHERE key = 'index/m'").await;
    let mut unit = store.begin_revised("m");
    write(&mut unit, "m/b");
    assert_eq!(fault(unit).await, StoreFault::Damaged(counter("m")));
    assert_eq!(numbers(&store, "m/b").await, (1, 2));
}

#[test]
fn a_counter_of_another_shape_is_damaged() {
    let record =
        |body: &[u8]| Record::unwritten(RecordBody::new(body.to_vec()), IndexColumns::default());
    let counter = counter("m");
    assert_eq!(parse(&counter, None), Ok(0));
    assert_eq!(parse(&counter, Some(&record(&[0, 0, 0, 0, 0, 0, 1, 2]))), Ok(258));
    for wrong in [&b""[..], b"1", b"123456789"] {
        assert_eq!(
            parse(&counter, Some(&record(wrong))),
            Err(StoreFault::Damaged(counter.clone()))
        );
    }
}
