//! Tests of the counters and limits of stored bytes on a shared database.

use super::*;
use crate::RecordBody;
use bulkhead_record::record::Record;
use bulkhead_record::rows::SealedRow;
use bulkhead_record::stored_limit::StoredLimit;

async fn counted(store: &Arc<Store>) -> u64 {
    store.stored_bytes().await.unwrap().get("m").copied().unwrap_or_default()
}

/// Returns the bytes of mount `m`, computed from the rows.
async fn summed(store: &Arc<Store>) -> u64 {
    let query = "SELECT sum(2 * octet_length(key) + octet_length(sealed) + 64)::bigint \
                 FROM record WHERE key LIKE 'm/%'";
    u64::try_from(numbers(store, query).await[0]).unwrap()
}

async fn delete(store: &Arc<Store>, key: &str) {
    let mut unit = store.begin();
    unit.delete(data(key));
    unit.commit().await.unwrap();
}

/// Each node counts a mount in a row of its own: a common row would let one of the commits fail.
#[tokio::test]
async fn overlapping_commits_of_one_mount_do_not_conflict() {
    let pair = Pair::open().await;
    // Present records: new keys beside each other would meet in the index.
    for key in ["m/a", "m/b"] {
        put(&pair.one, data(key), "1").await;
    }
    put(&pair.other, data("m/b"), "1").await;
    let under_way = pair.one.data();
    let Database::Postgres(database) = &under_way.database else { panic!("no server") };
    let record = Record::unwritten(RecordBody::new(vec![0; 99]), IndexColumns::default());
    let row = SealedRow::of(pair.one.seal(), &data("m/a"), &record).unwrap();
    let writes = GroupWrites { puts: vec![&row], ..GroupWrites::default() };
    database.commit_around(writes, put(&pair.other, data("m/b"), "longer")).await;
    assert_eq!(counted(&pair.one).await, summed(&pair.one).await);
}

#[tokio::test]
async fn sum_of_nodes_holds_after_foreign_deletions() {
    let pair = Pair::open().await;
    for key in ["m/a", "m/b", "m/c"] {
        put(&pair.one, data(key), "1").await;
    }
    pair.catch_up().await;
    for key in ["m/a", "m/b"] {
        delete(&pair.other, key).await;
    }
    assert_eq!(counted(&pair.other).await, summed(&pair.other).await);
    let rows = "SELECT count(*) FROM stored";
    assert_eq!(numbers(&pair.one, rows).await, [2], "one row is negative");
    pair.one.close().await;
    pair.other.close().await;
    let scratch = &pair.directories.0;
    let alone = scratch.open().await;
    assert_eq!(counted(&alone).await, summed(&alone).await);
    assert_eq!(numbers(&alone, rows).await, [1], "taken over");
    delete(&alone, "m/c").await;
    assert_eq!((counted(&alone).await, numbers(&alone, rows).await), (0, vec![0]));
    alone.close().await;
    let shared = open_shared(scratch, ClaimTimes::default()).await.unwrap();
    put(&shared, data("m/d"), "1").await;
    assert_eq!(counted(&shared).await, summed(&shared).await);
}

/// Waits until the node reads the bytes of mount `m` again.
async fn await_end_of_bound(store: &Arc<Store>, most: u64) {
    for _ in 0..400 {
        if !store.data().stored.has_room("m", 1, most) {
            return;
        }
        store.data().changes.await_next().await.unwrap();
    }
    panic!("the bytes of the mount are never read again");
}

#[tokio::test]
async fn opening_removes_counters_of_removed_mounts() {
    let pair = Pair::open().await;
    for key in ["m/a", "kept/a"] {
        put(&pair.one, data(key), "1").await;
    }
    pair.catch_up().await;
    delete(&pair.other, "m/a").await;
    let of_mount = "SELECT count(*) FROM stored WHERE mount = 'm'";
    assert_eq!(numbers(&pair.one, of_mount).await, [2]);
    let beside = pair.directories.0.beside();
    let third = open_shared(&beside, ClaimTimes::default()).await.unwrap();
    assert_eq!(numbers(&third, of_mount).await, [0]);
    assert_eq!(numbers(&third, "SELECT count(*) FROM stored WHERE mount = 'kept'").await, [1]);
    put(&pair.other, data("m/b"), "1").await;
    assert_eq!(counted(&third).await, summed(&third).await);
}

#[tokio::test]
async fn limit_counts_bytes_of_other_nodes() {
    const MOST: u64 = 100_000;
    let pair = Pair::open().await;
    let limit = Arc::new(StoredLimit {
        counter: "m".to_owned(),
        most: MOST,
        name: "mount m/".to_owned(),
        remedy: "delete records".to_owned(),
    });
    let store_within = async |store: &Arc<Store>, key: &str, bytes: usize| {
        let mut unit = store.begin().with_limit(&limit);
        unit.put(data(key), vec![0; bytes], IndexColumns::default());
        unit.commit().await.map(drop)
    };
    store_within(&pair.one, "m/a", 1_000).await.unwrap();
    store_within(&pair.other, "m/b", 90_000).await.unwrap();
    await_end_of_bound(&pair.one, MOST).await;
    let refused = store_within(&pair.one, "m/c", 20_000).await;
    assert!(matches!(refused, Err(StoreFault::OverLimit(_))), "{refused:?}");
    store_within(&pair.one, "m/c", 5_000).await.unwrap();
    await_end_of_bound(&pair.other, MOST).await;
    // The rest is in reserve, and each node asks at each commit.
    let mut number = 0;
    while store_within(&pair.other, &format!("m/d{number}"), 500).await.is_ok() {
        store_within(&pair.one, &format!("m/e{number}"), 500).await.ok();
        number += 1;
    }
    assert!(counted(&pair.one).await <= MOST);
    assert_eq!(counted(&pair.one).await, summed(&pair.one).await);
}
