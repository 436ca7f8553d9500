//! Tests of the counters of stored bytes on a shared database.

use super::*;
use crate::RecordBody;
use bulkhead_record::record::Record;
use bulkhead_record::rows::SealedRow;

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
    let scratch = &pair._directories.0;
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
