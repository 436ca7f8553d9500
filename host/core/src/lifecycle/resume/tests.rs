//! Reservations and guards of living and dead processes.

use super::*;
use crate::catalog::SignatureRules;
use crate::leases::{self, LeaseRecord};
use crate::lifecycle::{SEAL_PATIENCE, open, stop};
use crate::process::ProcessState;
use crate::seal_setting::SealSetting;
use crate::settings::ServiceSettings;
use crate::testing::options;
use bulkhead_access::background::Claims;
use bulkhead_access::background::guards::{CallGuards, GuardRequest};
use bulkhead_access::log::Log;
use bulkhead_audit::AuditSettings;
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_sandbox::SandboxRuntime;
use bulkhead_store::{
    Address, DataDirectory, FirstKeys, IndexColumns, Record, SealConfig, Space, Unit, dev_key,
};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::server_figures::ServerFigures;
use bulkhead_wire::stored::Stored;
use std::path::PathBuf;
use std::time::Duration;

/// Time until the undo, in milliseconds: longer than a test.
const LATER: u64 = 3_600_000;

struct NoLog;

impl Log for NoLog {
    fn line(&self, _level: LogLevel, _event: &str, _pairs: &[(&str, String)]) {}
}

/// An open service without plugins, and its data directory.
struct OpenedCore {
    core: Arc<Core>,
    data: Arc<DataDirectory>,
    directory: PathBuf,
}

impl OpenedCore {
    async fn new(name: &str) -> Self {
        let folder = format!("bulkhead-resume-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(folder);
        let data = DataDirectory::hold(options(&directory)).await.unwrap();
        let key = dev_key(&data).unwrap();
        let keys = FirstKeys::of_holders(SealConfig::SINGLE, &key);
        data.initialise(keys, |_| Ok(Vec::new())).await.unwrap();
        let settings = ServiceSettings {
            store: options(&directory),
            seal: SealSetting::Shamir,
            officials: Vec::new(),
            compiler: PathBuf::from("/none"),
            plugin_directory: None,
            plugin_signatures: SignatureRules::default(),
            default_lease_ttl: 3_600,
            max_lease_ttl: 7_200,
            request_timeout: Duration::from_secs(90),
            suspend_due_work: false,
            allow_key_holders: false,
            reported_version: "1.21.0+ent".to_owned(),
            api_address: String::new(),
            configuration: serde_json::Map::new(),
            own_url: String::new(),
            own_addresses: Vec::new(),
            ambient: AmbientSources::default(),
            outbound: OutboundNetwork::default(),
            snapshots: Vec::new(),
            audit: AuditSettings::default(),
            log: Arc::new(NoLog),
            log_threshold: Arc::default(),
            log_monitors: Arc::default(),
            figures: ServerFigures::default(),
            traces: None,
        };
        let runtime = SandboxRuntime::new().unwrap();
        let process = Arc::new(ProcessState::new(settings, runtime, &data));
        let core = open(data.open(key).await.unwrap(), process).await.unwrap();
        Self { core, data, directory }
    }

    /// Closes the store and opens the data again, as after a seal.
    async fn reopened(self) -> Self {
        let Self { core, data, directory } = self;
        stop(&core, SEAL_PATIENCE).await;
        let store = data.open(dev_key(&data).unwrap()).await.unwrap();
        let core = open(store, Arc::clone(&core.process)).await.unwrap();
        Self { core, data, directory }
    }

    /// Stores a reservation and a guard under the name of the epoch, due [`LATER`].
    async fn put(&self, key: &str, epoch: &str) {
        let store = &self.core.store;
        let records = include_str!("../../../fixtures/records/lease.jsonl");
        let first = LeaseRecord::from_bytes(records.lines().next().unwrap().as_bytes()).unwrap();
        let reservation = LeaseRecord { epoch: epoch.to_owned(), ..first };
        let mut unit = store.begin();
        let address = Address::new(Space::Reservation, key);
        leases::put(&mut unit, &address, &reservation, store.now() + LATER).unwrap();
        put_guard(&mut unit, key, &format!("0 mark {epoch}"));
        unit.commit().await.unwrap();
    }

    /// Returns whether both rows are due, and the epoch of the reservation.
    async fn state(&self, key: &str) -> (bool, bool, String) {
        let mut unit = self.core.store.begin();
        let is_due = |row: &Record| row.index.due.unwrap() <= self.core.store.now();
        let guard = unit.get(&Address::new(Space::Timer, key)).await.unwrap().unwrap();
        assert_eq!(guard.index.owner.is_empty(), is_due(&guard), "a due guard is a timer");
        let row = unit.get(&Address::new(Space::Reservation, key)).await.unwrap().unwrap();
        (is_due(&row), is_due(&guard), LeaseRecord::parse(&row).unwrap().epoch)
    }

    async fn end(self) {
        stop(&self.core, SEAL_PATIENCE).await;
        std::fs::remove_dir_all(self.directory).unwrap();
    }
}

fn put_guard(unit: &mut Unit, key: &str, body: &str) {
    let due = Some(unit.now() + LATER);
    let index = IndexColumns { due, lane: "m/lane".to_owned(), owner: "guard".to_owned() };
    unit.put(Address::new(Space::Timer, key), body.as_bytes().to_vec(), index);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_work_of_dead_epochs_is_ended() {
    let bed = OpenedCore::new("epochs").await;
    let own = bed.core.store.epoch().to_owned();
    let dead = "0123456789abcdef".repeat(2);
    for (key, epoch) in [("m/living", own.as_str()), ("m/dead", dead.as_str()), ("m/unnamed", "")] {
        bed.put(key, epoch).await;
    }
    end_work_of_dead_epochs(&bed.core).await.unwrap();
    assert_eq!(bed.state("m/living").await, (false, false, own.clone()));
    assert_eq!(bed.state("m/dead").await, (true, true, own.clone()), "taken over");
    assert_eq!(bed.state("m/unnamed").await, (true, true, own), "of an earlier release");
    let bed = bed.reopened().await;
    let next = bed.core.store.epoch().to_owned();
    assert_eq!(bed.state("m/living").await, (true, true, next.clone()), "of an earlier opening");
    assert_eq!(bed.state("m/dead").await, (true, true, next));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_of_earlier_releases_and_openings_are_released() {
    let bed = OpenedCore::new("guards").await;
    let mut unit = bed.core.store.begin();
    let guards = CallGuards::default();
    let timer = Address::new(Space::Timer, "m/own");
    let deadline = unit.now() + LATER;
    let request = GuardRequest { timer: timer.clone(), lane: "m/lane".to_owned(), deadline };
    guards.set(&Arc::new(Claims::default()), &mut unit, request).unwrap();
    put_guard(&mut unit, "m/old", "2 mark");
    unit.commit().await.unwrap();
    end_work_of_dead_epochs(&bed.core).await.unwrap();
    let own = bed.core.store.begin().get(&timer).await.unwrap().unwrap();
    assert!(guards.is_own_guard(&timer, &own), "the guard of this process stays");
    let old = Address::new(Space::Timer, "m/old");
    let old = bed.core.store.begin().get(&old).await.unwrap().unwrap();
    assert_eq!((&*old.body, old.index.owner.as_str()), (b"2".as_slice(), ""));
    let bed = bed.reopened().await;
    let own = bed.core.store.begin().get(&timer).await.unwrap().unwrap();
    assert_eq!(own.index.owner, "", "of an earlier opening");
    bed.end().await;
}
