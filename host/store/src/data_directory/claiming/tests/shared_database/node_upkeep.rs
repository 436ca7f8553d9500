//! Tests of a node whose connections are occupied.

use super::*;

#[tokio::test]
async fn occupied_readers_do_not_delay_reads_of_changes() {
    let pair = Pair::open().await;
    let policy = Address::new(Space::Core, "policy");
    put(&pair.one, policy.clone(), "1").await;
    assert_eq!(body(&pair.other, &policy).await.unwrap(), "1");
    let busy = pair.other.data();
    let Database::Postgres(database) = &busy.database else { panic!("no server") };
    let slow_requests = database.readers().occupy().await;
    let last = pair.one.data().database.own_commits();
    put(&pair.one, policy.clone(), "2").await;
    pair.catch_up().await;
    assert_eq!(busy.changes.check(), Ok(()), "records in memory are used");
    assert!(pair.one.data().database.seen_by_all().await.unwrap() > last);
    assert!(database.connection_usage().in_use >= database.connection_usage().maximum);
    drop(slow_requests);
    assert_eq!(body(&pair.other, &policy).await.unwrap(), "2");
}
