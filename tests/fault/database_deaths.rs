//! A server whose data are on PostgreSQL dies at its failpoints, or meets an error there. The next
//! start finds every acknowledged write.

use crate::database_faults::acknowledged::AcknowledgedWork;
use crate::database_faults::place::{StoreDatabase, StoreServer, shared};
use crate::injected::{FaultObserved, InjectedFault};
use crate::points::{at_stride_behind, passed_by_start};
use crate::stage::AT_ONCE;
use bulkhead_tests::paths::fault_binary;

/// One failpoint in so many is tried, unless all are tried.
const SPARSE: u32 = 16;

/// Number of writes of a life.
const STEPS: u32 = 2 * AcknowledgedWork::KINDS;

#[test]
fn server_death_at_failpoints_loses_nothing_on_postgres() {
    lives("abort");
}

#[test]
fn server_error_at_failpoints_loses_nothing_on_postgres() {
    lives("fail");
}

/// An initialised server that was stopped, which each life copies.
struct PreparedStore {
    database: StoreDatabase<'static>,
    store: StoreServer,
    work: AcknowledgedWork,
}

impl PreparedStore {
    fn create(name: &str) -> Self {
        let database = StoreDatabase::create(shared(), name);
        let mut store = StoreServer::start_as(fault_binary(), &url(&database));
        let mut work = AcknowledgedWork::default();
        for _ in 0..AcknowledgedWork::KINDS {
            work.step(&store.root()).expect("an answer");
        }
        assert!(store.server.stop(), "{}", store.server.printed());
        Self { database, store, work }
    }

    /// Returns a server on a copy of the database, which is not started.
    fn copy(&self, name: &str) -> StoreServer {
        self.store.prepared_copy(fault_binary(), &url(&self.database.copy(name)))
    }
}

fn url(database: &StoreDatabase<'_>) -> String {
    database.url(&format!("127.0.0.1:{}", shared().port))
}

fn lives(fault: &str) {
    let prepared = PreparedStore::create(&format!("{fault}_base"));
    let first = passed_by_start(fault, prepared.copy(&format!("{fault}_first")).server);
    at_stride_behind((SPARSE, AT_ONCE), "writes on PostgreSQL", fault, first, |number| {
        live(&prepared, fault, number)
    });
}

/// Runs a life with the fault at failpoint `number`. Returns false if the life ended before.
fn live(prepared: &PreparedStore, fault: &str, number: u32) -> bool {
    let injected = InjectedFault::at(fault, number);
    let mut store = prepared.copy(&format!("{fault}_{number}"));
    assert!(injected.start(&mut store.server), "{}", store.server.printed());
    let (root, mut work) = (store.root(), prepared.work.clone());
    let lived = (0..STEPS).try_for_each(|_| work.step(&root).map(drop).map_err(|_| FaultObserved));
    let has_fired = injected.end(&mut store.server, &lived);
    store.server.start_again();
    store.wait_until_open();
    work.check(&store.root());
    has_fired
}
