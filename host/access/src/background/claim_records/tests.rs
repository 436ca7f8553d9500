//! Claims of two nodes on one store, which has the epochs of both.

mod doubt;

use super::*;
use crate::background::claims::{Claim, Claims};
use crate::testing::TemporaryStore;
use bulkhead_wire::sync;
use std::sync::Mutex;

/// Two nodes on one store.
struct TwoNodes {
    store: TemporaryStore,
    living: Arc<Mutex<BTreeSet<String>>>,
    one: Arc<Claims>,
    other: Arc<Claims>,
}

impl TwoNodes {
    async fn new(name: &str) -> Self {
        Self::on(TemporaryStore::new(&format!("claims-{name}")).await)
    }

    fn on(store: TemporaryStore) -> Self {
        let living = Arc::new(Mutex::new(BTreeSet::from(["one".to_owned(), "other".to_owned()])));
        let node = |epoch: &str| node(&store.store, epoch, &living);
        let (one, other) = (node("one"), node("other"));
        Self { store, living, one, other }
    }

    /// Ends the process of a node without the removal of its records.
    fn kill(&self, epoch: &str) {
        sync::lock(&self.living).remove(epoch);
    }

    async fn put_lease(&self, key: &str) {
        let mut unit = self.store.store.begin();
        unit.put(lease(key), b"issued".to_vec(), IndexColumns::default());
        unit.commit().await.unwrap();
    }

    /// Returns the holder in the record of the claim of a lease.
    async fn holder(&self, key: &str) -> Option<String> {
        let found = self.store.store.begin().get(&record_of(&lease(key))).await.unwrap();
        found.map(|record| String::from_utf8(record.body.to_vec()).unwrap())
    }

    /// Waits until nobody holds the claim of the lease.
    async fn wait_until_free(&self, key: &str) {
        while self.holder(key).await.is_some() {
            tokio::task::yield_now().await;
        }
    }

    async fn count_records(&self) -> u32 {
        self.store.store.count(Space::Claim, "", 999).await.unwrap()
    }
}

fn node(store: &Arc<Store>, epoch: &str, living: &Arc<Mutex<BTreeSet<String>>>) -> Arc<Claims> {
    Claims::with_records(ClaimRecords::simulated(store, epoch, living))
}

fn lease(key: &str) -> Address {
    Address::new(Space::Lease, key)
}

fn leases(keys: std::ops::Range<u32>) -> Vec<Address> {
    keys.map(|key| lease(&format!("{key:03}"))).collect()
}

async fn claim(node: &Arc<Claims>, key: &str) -> Option<Claim> {
    node.claim(&lease(key)).await.unwrap()
}

/// Removes the records of dead epochs, as a node does.
async fn remove_dead(node: &Claims) -> Result<(), StoreFault> {
    node.records().unwrap().remove_dead().await
}

/// Claims due leases of a lane, and returns the claims and the number of leases of other nodes.
async fn claim_due(node: &Arc<Claims>, keys: std::ops::Range<u32>) -> (Vec<Claim>, usize) {
    let due = node.claim_due((Space::Lease, "m/lane"), &leases(keys)).await.unwrap();
    (due.taken, due.elsewhere.len())
}

#[tokio::test]
async fn claim_excludes_other_nodes_until_dropped() {
    let nodes = TwoNodes::new("excludes").await;
    let first = claim(&nodes.one, "a").await.unwrap();
    assert_eq!(nodes.holder("a").await.as_deref(), Some("one"));
    assert!(claim(&nodes.other, "a").await.is_none());
    assert!(claim(&nodes.one, "a").await.is_none(), "the work goes on");
    assert!(claim(&nodes.other, "b").await.is_some(), "another address is free");
    drop(first);
    nodes.wait_until_free("a").await;
    let second = claim(&nodes.other, "a").await.unwrap();
    assert_eq!(nodes.holder("a").await.as_deref(), Some("other"));
    drop(second);
    nodes.wait_until_free("a").await;
    nodes.store.end().await;
}

#[tokio::test]
async fn claim_right_after_release_waits_for_removal() {
    let nodes = TwoNodes::new("handover").await;
    // However slow the removal is.
    let patient = |epoch: &str| {
        let patience = Duration::from_secs(3_600);
        let records = ClaimRecords::simulated(&nodes.store.store, epoch, &nodes.living);
        Claims::with_records(ClaimRecords { patience, ..records })
    };
    let (one, other) = (patient("one"), patient("other"));
    for node in [&one, &one, &other, &one] {
        drop(claim(node, "a").await.expect("the holder before has ended"));
    }
    nodes.wait_until_free("a").await;
    nodes.store.end().await;
}

#[tokio::test]
async fn only_claims_of_dead_epochs_are_taken_over() {
    let nodes = TwoNodes::new("dead").await;
    let lost = claim(&nodes.one, "a").await.unwrap();
    let due = nodes.other.claim_due((Space::Lease, "m/lane"), &[lease("a")]).await.unwrap();
    assert_eq!((due.taken.len(), due.elsewhere), (0, [lease("a")].into()));
    nodes.kill("one");
    let taken = claim(&nodes.other, "a").await.unwrap();
    assert_eq!(nodes.holder("a").await.as_deref(), Some("other"));
    let mut unit = nodes.store.store.begin();
    nodes.put_lease("a").await;
    assert!(lost.fence(&mut unit).await.unwrap().is_none(), "the work stores nothing");
    assert!(!unit.wrote());
    drop(lost);
    // The task of the drop leaves the record of the other node.
    assert!(nodes.one.claim_here_in_turn(&lease("a")).await.unwrap().address() == &lease("a"));
    assert_eq!(nodes.holder("a").await.as_deref(), Some("other"));
    drop(taken);
    nodes.wait_until_free("a").await;
    nodes.store.end().await;
}

#[tokio::test]
async fn records_of_dead_epochs_are_removed() {
    let nodes = TwoNodes::new("sweep").await;
    let (first, _) = claim_due(&nodes.one, 0..3).await;
    let second = claim(&nodes.other, "b").await.unwrap();
    remove_dead(&nodes.other).await.unwrap();
    assert_eq!(nodes.count_records().await, 4);
    nodes.kill("one");
    remove_dead(&nodes.other).await.unwrap();
    assert_eq!(nodes.count_records().await, 1);
    assert_eq!(nodes.holder("b").await.as_deref(), Some("other"));
    drop((first, second));
    nodes.wait_until_free("b").await;
    nodes.store.end().await;
}

#[tokio::test]
async fn own_record_without_claim_is_taken_over() {
    let nodes = TwoNodes::new("own").await;
    let left = claim(&nodes.one, "a").await.unwrap();
    let restarted = node(&nodes.store.store, "one", &nodes.living);
    assert!(claim(&restarted, "a").await.is_some());
    drop(left);
    nodes.wait_until_free("a").await;
    nodes.store.end().await;
}

#[tokio::test]
async fn outcome_and_release_are_one_commit() {
    let nodes = TwoNodes::new("outcome").await;
    nodes.put_lease("a").await;
    let current = claim(&nodes.one, "a").await.unwrap();
    let mut dropped = nodes.store.store.begin();
    assert!(current.fence(&mut dropped).await.unwrap().is_some());
    drop(dropped);
    assert_eq!(nodes.holder("a").await.as_deref(), Some("one"), "nothing was committed");
    let mut unit = nodes.store.store.begin();
    assert!(current.fence(&mut unit).await.unwrap().is_some());
    unit.delete(lease("a"));
    unit.commit().await.unwrap();
    assert_eq!(nodes.holder("a").await, None);
    let next = claim(&nodes.other, "a").await.expect("the outcome is stored");
    let mut late = nodes.store.store.begin();
    assert!(current.fence(&mut late).await.unwrap().is_none(), "another node holds the address");
    drop(late);
    drop(current);
    drop(nodes.one.claim_here_in_turn(&lease("a")).await.unwrap());
    assert_eq!(nodes.holder("a").await.as_deref(), Some("other"));
    drop(next);
    nodes.wait_until_free("a").await;
    nodes.store.end().await;
}

#[tokio::test]
async fn holder_on_another_node_is_waited_for() {
    let nodes = TwoNodes::new("turn").await;
    let first = claim(&nodes.one, "a").await.unwrap();
    let waiting = tokio::spawn({
        let other = Arc::clone(&nodes.other);
        async move { other.claim_in_turn(&lease("a")).await.unwrap() }
    });
    while claim_here(&nodes.other, "a").is_some() {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    assert_eq!(nodes.holder("a").await.as_deref(), Some("one"));
    drop(first);
    drop(waiting.await.unwrap());
    nodes.wait_until_free("a").await;
    nodes.store.end().await;
}

fn claim_here(node: &Arc<Claims>, key: &str) -> Option<Claim> {
    node.claim_here(&lease(key))
}

#[tokio::test]
async fn dead_holder_ends_the_wait() {
    let nodes = TwoNodes::new("wait").await;
    let lost = claim(&nodes.one, "a").await.unwrap();
    let waiting = tokio::spawn({
        let other = Arc::clone(&nodes.other);
        async move { other.claim_in_turn(&lease("a")).await.unwrap() }
    });
    nodes.kill("one");
    let taken = waiting.await.unwrap();
    assert_eq!(nodes.holder("a").await.as_deref(), Some("other"));
    drop((lost, taken));
    nodes.wait_until_free("a").await;
    nodes.store.end().await;
}

#[tokio::test]
async fn due_work_is_claimed_in_one_commit() {
    let nodes = TwoNodes::new("batch").await;
    let before = nodes.store.store.commits();
    let (first, elsewhere) = claim_due(&nodes.one, 0..9).await;
    assert_eq!((first.len(), elsewhere), (4, 0), "as many as the lane has places");
    assert_eq!(nodes.store.store.commits(), before + 1);
    assert_eq!(nodes.count_records().await, 4);
    let (second, elsewhere) = claim_due(&nodes.other, 2..9).await;
    assert_eq!((second.len(), elsewhere), (2, 2), "two of the first four belong to the other node");
    assert!(nodes.other.take_passed_over_node() && !nodes.other.take_passed_over_node());
    assert!(!nodes.one.take_passed_over_node());
    let (third, elsewhere) = claim_due(&nodes.other, 6..9).await;
    assert_eq!((third.len(), elsewhere), (2, 0), "the places of passed leases are free again");
    drop((first, second, third));
    for key in ["000", "003", "005", "007"] {
        nodes.wait_until_free(key).await;
    }
    nodes.store.end().await;
}

#[tokio::test]
async fn passed_leases_do_not_wake_worker() {
    let nodes = TwoNodes::new("quiet").await;
    let (first, _) = claim_due(&nodes.one, 0..4).await;
    let woken = nodes.other.room_notice();
    tokio::pin!(woken);
    woken.as_mut().enable();
    let (none, elsewhere) = claim_due(&nodes.other, 0..4).await;
    assert_eq!((none.len(), elsewhere), (0, 4));
    assert!(!woken.as_mut().enable(), "the worker would search in vain");
    drop(first);
    nodes.wait_until_free("003").await;
    nodes.store.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_claims_have_exactly_one_winner() {
    let nodes = TwoNodes::new("race").await;
    for round in 0..40 {
        let key = format!("{round:03}");
        let race = |node: &Arc<Claims>| {
            let (node, key) = (Arc::clone(node), key.clone());
            tokio::spawn(async move { node.claim_due((Space::Token, ""), &[lease(&key)]).await })
        };
        let both = [race(&nodes.one), race(&nodes.other)];
        let mut winners = Vec::new();
        for claimed in both {
            winners.extend(claimed.await.unwrap().unwrap().taken);
        }
        assert_eq!(winners.len(), 1, "round {round}");
        drop(winners);
    }
    nodes.wait_until_free("039").await;
    nodes.store.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_of_two_nodes_never_overlap() {
    let nodes = TwoNodes::new("overlap").await;
    let race = |node: &Arc<Claims>, lane: &'static str| {
        let node = Arc::clone(node);
        tokio::spawn(async move { node.claim_due((Space::Lease, lane), &leases(0..8)).await })
    };
    for round in 0..20 {
        let both = [race(&nodes.one, "m/lane"), race(&nodes.other, "m/lane")];
        let mut taken = Vec::new();
        for claimed in both {
            taken.extend(claimed.await.unwrap().unwrap().taken);
        }
        let addresses: BTreeSet<&Address> = taken.iter().map(Claim::address).collect();
        assert_eq!(addresses.len(), taken.len(), "round {round}");
        assert!(!taken.is_empty(), "round {round}");
        drop(taken);
        for key in 0..8 {
            nodes.wait_until_free(&format!("{key:03}")).await;
        }
    }
    nodes.store.end().await;
}

#[tokio::test]
async fn caller_gone_during_commit_leaves_no_record() {
    let nodes = TwoNodes::new("gone").await;
    for _ in 0..20 {
        let address = lease("a");
        let claiming = nodes.one.claim_in_turn(&address);
        tokio::pin!(claiming);
        // The first look begins the commit; the caller goes away meanwhile.
        assert!(poll_once(claiming.as_mut()).is_none());
    }
    drop(nodes.one.claim_here_in_turn(&lease("a")).await.unwrap());
    assert_eq!(nodes.holder("a").await, None);
    nodes.store.end().await;
}

/// Polls a future once.
fn poll_once<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(done) => Some(done),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn unreachable_database_is_a_fault_of_store() {
    let nodes = TwoNodes::new("closed").await;
    nodes.store.store.close().await;
    let fault = nodes.one.claim_in_turn(&lease("a")).await.err().unwrap();
    assert!(matches!(fault, StoreFault::Unavailable(_)), "{fault}");
    assert!(claim_here(&nodes.one, "a").is_some(), "nothing is claimed in memory");
    assert!(nodes.other.claim_due((Space::Lease, "m/lane"), &leases(0..3)).await.is_err());
    assert_eq!(nodes.other.room(Space::Lease, "m/lane"), 4);
    nodes.store.end().await;
}
