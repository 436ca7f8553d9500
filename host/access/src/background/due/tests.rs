//! Due work of two nodes on one store.

use super::*;
use crate::background::claim_records::ClaimRecords;
use crate::testing::TemporaryStore;
use bulkhead_store::{Address, IndexColumns, Space};
use bulkhead_wire::sync;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

struct SilentLog;

impl Log for SilentLog {
    fn line(&self, _: LogLevel, _: &str, _: &[(&str, String)]) {}
}

/// Work that waits for the gate, removes its row, and counts its runs on a row.
struct RowRemoval {
    store: Arc<Store>,
    gate: Arc<tokio::sync::RwLock<()>>,
    starts: watch::Sender<u32>,
    runs: Arc<Mutex<BTreeMap<Address, u32>>>,
}

impl DueWork for RowRemoval {
    async fn do_due_work(self: Arc<Self>, claim: Arc<Claim>) -> Result<DueOutcome, Failure> {
        self.starts.send_modify(|starts| *starts += 1);
        drop(self.gate.read().await);
        let mut unit = self.store.begin();
        // The other node may have removed the row since the search.
        if claim.fence(&mut unit).await?.is_none() {
            return Ok(DueOutcome::Moot);
        }
        *sync::lock(&self.runs).entry(claim.address().clone()).or_default() += 1;
        unit.delete(claim.address().clone());
        unit.commit().await?;
        Ok(DueOutcome::Done)
    }
}

/// Nodes on one store.
struct SimulatedNodes {
    store: TemporaryStore,
    living: Arc<Mutex<BTreeSet<String>>>,
    /// Closed while a test holds the lock.
    gate: Arc<tokio::sync::RwLock<()>>,
    starts: watch::Sender<u32>,
    runs: Arc<Mutex<BTreeMap<Address, u32>>>,
    workers: Vec<(SealSignal, JoinHandle<()>)>,
}

impl SimulatedNodes {
    /// Creates a store with due rows in one lane.
    async fn with_rows(name: &str, rows: u32) -> Self {
        Self::with_lanes(name, 1, rows).await
    }

    /// Creates a store with due rows in each lane. Each lane has its own mount, except for the
    /// first.
    async fn with_lanes(name: &str, lanes: u32, rows: u32) -> Self {
        let store = TemporaryStore::new(&format!("due-{name}")).await;
        let mut unit = store.store.begin();
        for lane in 0..lanes {
            let mount = if lane == 0 { "m".to_owned() } else { format!("m{lane}") };
            for row in 0..rows {
                let due = Some(u64::from(row) + 1);
                let index =
                    IndexColumns { due, lane: format!("{mount}/lane"), owner: String::new() };
                let row = Address::new(Space::Timer, format!("{mount}/{row:03}"));
                unit.put(row, b"0".to_vec(), index);
            }
        }
        unit.commit().await.unwrap();
        let living = Arc::new(Mutex::new(BTreeSet::from(["one".to_owned(), "other".to_owned()])));
        let (gate, runs) = (Arc::default(), Arc::default());
        Self { store, living, gate, starts: watch::Sender::new(0), runs, workers: Vec::new() }
    }

    fn claims(&self, epoch: &str) -> Arc<Claims> {
        Claims::with_records(ClaimRecords::simulated(&self.store.store, epoch, &self.living))
    }

    /// Starts the due work of a node.
    fn start(&mut self, epoch: &str) {
        let sealing = SealSignal::new(&Arc::default());
        let log: Arc<dyn Log> = Arc::new(SilentLog);
        let state = BackgroundState::new(&self.store.store, sealing.clone(), &log, false);
        let state =
            BackgroundState { claims: self.claims(epoch), ..Arc::into_inner(state).unwrap() };
        let (store, runs) = (Arc::clone(&self.store.store), Arc::clone(&self.runs));
        let (gate, starts) = (Arc::clone(&self.gate), self.starts.clone());
        let work = RowRemoval { store, gate, starts, runs };
        let worker = tokio::spawn(run(Arc::new(state), Arc::new(work)));
        self.workers.push((sealing, worker));
    }

    /// Waits until at most `rows` rows and `claims` claims are left.
    async fn wait_for_rows(&self, rows: u32, claims: u32) {
        let store = &self.store.store;
        while store.count(Space::Timer, "", 999).await.unwrap() > rows
            || store.count(Space::Claim, "", 999).await.unwrap() > claims
        {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until both nodes have begun the work on as many rows.
    async fn wait_for_starts(&self, rows: u32) {
        self.starts.subscribe().wait_for(|starts| *starts >= rows).await.unwrap();
    }

    async fn end(self) {
        for (sealing, worker) in self.workers {
            sealing.begin();
            worker.await.unwrap();
        }
        self.store.end().await;
    }
}

fn timer(row: u32) -> Address {
    Address::new(Space::Timer, format!("m/{row:03}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_nodes_run_each_row_once() {
    let mut nodes = SimulatedNodes::with_rows("once", 60).await;
    nodes.start("one");
    nodes.start("other");
    nodes.wait_for_rows(0, 0).await;
    let runs = sync::lock(&nodes.runs).clone();
    assert_eq!(runs.len(), 60);
    assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    nodes.end().await;
}

#[tokio::test]
async fn rows_of_another_node_block_no_lane() {
    let mut nodes = SimulatedNodes::with_rows("skip", 12).await;
    let one = nodes.claims("one");
    let rows: Vec<Address> = (0..4).map(timer).collect();
    let first = one.claim_due((Space::Timer, "m/lane"), &rows).await.unwrap();
    assert_eq!(first.taken.len(), 4);
    nodes.start("other");
    nodes.wait_for_rows(4, 4).await;
    assert!(sync::lock(&nodes.runs).keys().all(|row| *row > timer(3)));
    sync::lock(&nodes.living).remove("one");
    // The next search takes the rows of the dead node over.
    nodes.wait_for_rows(0, 0).await;
    assert_eq!(sync::lock(&nodes.runs).len(), 12);
    drop(first);
    nodes.end().await;
}

#[tokio::test]
async fn claims_of_process_that_dies_are_removed() {
    let mut nodes = SimulatedNodes::with_rows("death", 0).await;
    nodes.start("other");
    let one = nodes.claims("one");
    // Nobody claims these addresses again.
    let rows: Vec<Address> = (0..3).map(timer).collect();
    let claims = one.claim_due((Space::Timer, "m/lane"), &rows).await.unwrap();
    assert_eq!(nodes.store.store.count(Space::Claim, "", 9).await, Ok(3));
    sync::lock(&nodes.living).remove("one");
    nodes.wait_for_rows(0, 0).await;
    drop(claims);
    nodes.end().await;
}

#[tokio::test]
async fn claims_of_many_lanes_are_one_commit() {
    let mut nodes = SimulatedNodes::with_lanes("batch", 64, 8).await;
    let before = nodes.store.store.commits();
    let closed = Arc::clone(&nodes.gate).write_owned().await;
    nodes.start("one");
    nodes.wait_for_starts(64).await;
    assert_eq!(nodes.store.store.commits(), before + 1);
    // Each lane that the other node visits has rows of the first node.
    nodes.start("other");
    nodes.wait_for_starts(128).await;
    assert!(nodes.store.store.commits() <= before + 5, "{}", nodes.store.store.commits());
    drop(closed);
    nodes.wait_for_rows(0, 0).await;
    nodes.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_run_rows_of_many_lanes() {
    let mut nodes = SimulatedNodes::with_lanes("lanes", 64, 16).await;
    nodes.start("one");
    nodes.start("other");
    nodes.wait_for_rows(0, 0).await;
    let runs = sync::lock(&nodes.runs).clone();
    assert_eq!((runs.len(), runs.values().max()), (1024, Some(&1)));
    nodes.end().await;
}
