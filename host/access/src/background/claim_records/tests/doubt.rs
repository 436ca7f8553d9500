//! Claims whose records are in doubt: a commit with an unknown outcome, and records that do not
//! open.

use super::*;
use crate::testing::folder_of;
use bulkhead_store::{DatabaseChoice, StoreOptions};
use bulkhead_test_database::{CommitCut, CommitRelay, new_schema, psql};

/// Creates an empty store on the database at `url`.
async fn store_at(name: &str, url: &str) -> TemporaryStore {
    let directory = folder_of(name);
    let database = DatabaseChoice::of_url(Some(url)).unwrap();
    let options = StoreOptions { database, ..StoreOptions::at(&directory) };
    TemporaryStore::with(directory, options).await
}

/// Two nodes on a store whose commits may end with an unknown outcome.
async fn nodes_behind(relay: &CommitRelay, name: &str) -> TwoNodes {
    TwoNodes::on(store_at(name, &relay.new_schema()).await)
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Claims the lease, until the database has decided over earlier records.
async fn claim_at_last(node: &Arc<Claims>, key: &str) -> Claim {
    loop {
        if let Ok(claim) = node.claim_in_turn(&lease(key)).await {
            return claim;
        }
    }
}

async fn unknown_outcome_ends(cut: CommitCut, name: &str) {
    let relay = CommitRelay::start();
    let nodes = nodes_behind(&relay, name).await;
    relay.cut_next(cut);
    let fault = nodes.one.claim(&lease("a")).await.err().unwrap();
    assert!(fault.to_string().contains("not known"), "{fault}");
    let tasks = alive_tasks();
    for key in 0..20 {
        assert!(nodes.one.claim_in_turn(&lease(&key.to_string())).await.is_err());
    }
    assert_eq!(nodes.one.count_doubtful(), 21);
    // The store has a few tasks of its own.
    assert!(alive_tasks() < tasks + 10, "{} tasks after {tasks}", alive_tasks());
    for fault in
        [nodes.one.claim(&lease("a")).await.err(), nodes.one.claim_in_turn(&lease("a")).await.err()]
    {
        let fault = fault.unwrap().to_string();
        assert!(fault.contains("earlier work on the same record"), "{fault}");
    }
    relay.decide();
    drop(claim_at_last(&nodes.one, "a").await);
    drop(claim_at_last(&nodes.one, "7").await);
    drop(claim_at_last(&nodes.other, "a").await);
    while nodes.one.count_doubtful() > 0 || nodes.count_records().await > 0 {
        tokio::task::yield_now().await;
    }
    nodes.store.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_claims_in_doubt_share_one_task() {
    unknown_outcome_ends(CommitCut::BeforeServer, "doubt-lost").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_claims_in_doubt_share_one_task() {
    unknown_outcome_ends(CommitCut::AfterServer, "doubt-stored").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn address_in_doubt_is_free_for_other_node() {
    let relay = CommitRelay::start();
    let nodes = nodes_behind(&relay, "doubt-other").await;
    relay.cut_next(CommitCut::AfterServer);
    assert!(claim_due_of(&nodes.one, 0..3).await.is_err());
    assert_eq!(nodes.one.room(Space::Lease, "m/lane"), 4, "work in doubt takes no place");
    assert!(claim_due_of(&nodes.one, 3..4).await.is_err());
    let woken = nodes.one.room_notice();
    tokio::pin!(woken);
    woken.as_mut().enable();
    let (skipped, _) = claim_due(&nodes.one, 0..3).await;
    assert!(skipped.is_empty());
    relay.decide();
    woken.await;
    let (taken, elsewhere) = claim_due(&nodes.other, 0..4).await;
    assert_eq!((taken.len(), elsewhere), (4, 0));
    drop(taken);
    for key in ["000", "001", "002", "003"] {
        nodes.wait_until_free(key).await;
    }
    nodes.store.end().await;
}

async fn claim_due_of(
    node: &Arc<Claims>,
    keys: std::ops::Range<u32>,
) -> Result<Vec<Claim>, StoreFault> {
    Ok(node.claim_due((Space::Lease, "m/lane"), &leases(keys)).await?.taken)
}

/// Two nodes on a store, and a record of a claim that does not open, at the lease `b`.
async fn nodes_with_damage(name: &str) -> TwoNodes {
    let url = new_schema("");
    let nodes = TwoNodes::on(store_at(name, &url).await);
    let claim = claim(&nodes.one, "a").await.unwrap();
    let (_, schema) = url.rsplit_once('=').unwrap();
    let path = format!("SET search_path = {schema}");
    // A record is bound to its place.
    let [from, to] = ["a", "b"].map(|key| record_of(&lease(key)).key);
    let output =
        psql(&[&path, &format!("UPDATE bulkhead_record SET key = '{to}' WHERE key = '{from}'")]);
    assert!(output.status.success(), "{output:?}");
    drop(claim);
    nodes
}

#[tokio::test]
async fn unreadable_record_is_held_beside_other_node() {
    let nodes = nodes_with_damage("unreadable").await;
    assert!(claim(&nodes.one, "b").await.is_none());
    assert!(claim(&nodes.other, "b").await.is_none());
    remove_dead(&nodes.other).await.unwrap();
    assert!(claim(&nodes.other, "b").await.is_none());
    nodes.kill("one");
    let taken = claim(&nodes.other, "b").await.unwrap();
    assert_eq!(nodes.holder("b").await.as_deref(), Some("other"));
    drop(taken);
    nodes.wait_until_free("b").await;
    nodes.store.end().await;
}

#[tokio::test]
async fn unreadable_record_is_removed_by_only_node() {
    let nodes = nodes_with_damage("unreadable-alone").await;
    nodes.kill("one");
    remove_dead(&nodes.other).await.unwrap();
    assert_eq!(nodes.store.store.count(Space::Claim, &record_of(&lease("b")).key, 9).await, Ok(0));
    nodes.store.end().await;
}
