//! Tests of a node whose connections are occupied, or whose writes wait, and of busy nodes.

use tokio::sync::oneshot;

use super::*;
use crate::testing::hold_writer;
use bulkhead_place::write_failure::WriteFailure;
use bulkhead_record::committed_state::{CommittedState, StateQuestions};

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
    pair.until_memory_is_used().await;
    let others = pair.one.data().database.other_nodes().await.unwrap();
    assert!(others.iter().all(|other| other.seen > last), "{others:?}");
    assert!(database.connection_usage().in_use >= database.connection_usage().maximum);
    drop(slow_requests);
    assert_eq!(body(&pair.other, &policy).await.unwrap(), "2");
}

#[tokio::test]
async fn waiting_upkeep_does_not_delay_reads_of_changes() {
    let hasty = ClaimTimes { renewal: Duration::from_millis(30), ..IDLE };
    let pair = Pair::open_with(hasty, IDLE).await;
    let (begun, has_begun) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let writing = tokio::spawn(hold_writer(Arc::clone(&pair.one), begun, ended));
    has_begun.await.unwrap();
    let expired = "UPDATE node SET until = CURRENT_TIMESTAMP - INTERVAL '1 hour' \
         WHERE shares AND since = (SELECT max(since) FROM node WHERE shares)";
    edit(&pair.other, expired).await;
    // The end of the claim waits for the writing connection from the first of these reads on.
    for _ in 0..20 {
        pair.one.data().changes.await_next().await.unwrap();
    }
    assert_eq!(pair.one.living_epochs().await.unwrap().len(), 2);
    end.send(()).unwrap();
    writing.await.unwrap();
    while pair.one.living_epochs().await.unwrap().len() > 1 {
        pair.one.data().changes.await_next().await.unwrap();
    }
}

/// Commits and reads the rows of all nodes, as a unit that relies on a folder.
async fn write_for_ever(store: Arc<Store>) {
    loop {
        let known_commits = store.data().changes.known().map(|known| known.numbers);
        let questions = StateQuestions { known_commits, ..StateQuestions::default() };
        let writes = |_: CommittedState<'_>| Some(GroupWrites::default());
        match store.database().commit_group(questions, writes).await {
            Ok(_) | Err(WriteFailure::Interfered) => {}
            Err(other) => panic!("{}", StoreFault::from(other)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_joins_beside_busy_nodes() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    let busy = [&pair.one, &pair.other].map(|store| tokio::spawn(write_for_ever(store.clone())));
    for _ in 0..5 {
        let scratch = pair.directories.0.beside();
        let third = open_shared(&scratch, IDLE).await.unwrap();
        assert!(third.living_epochs().await.unwrap().len() > 2);
        third.close().await;
    }
    for writing in busy {
        writing.abort();
        assert!(writing.await.unwrap_err().is_cancelled());
    }
}
