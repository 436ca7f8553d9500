//! Restores of a service without plugins, with Shamir's shares and with a static seal.

use super::*;
use crate::catalog::SignatureRules;
use crate::process::ProcessState;
use crate::restoring::{RestoreCheck, prepare};
use crate::seal::{InitialisationResult, UnsealShare};
use crate::seal_setting::{SealSetting, StaticKey, StaticSeal};
use crate::settings::ServiceSettings;
use bulkhead_access::background::DueWorkSuspension;
use bulkhead_access::log::Log;
use bulkhead_audit::AuditSettings;
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_sandbox::SandboxRuntime;
use bulkhead_store::{
    Address, DataDirectory, IndexColumns, SealConfig, SnapshotOrigin, Space, StoreOptions,
};
use bulkhead_wire::byte_stream::ByteSource as _;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::server_figures::ServerFigures;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Weak};
use std::time::Duration;

/// Longest wait for a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Log for Lines {
    fn line(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
        self.0.lock().unwrap().push(format!("{} {event} {pairs:?}", level.word()));
    }
}

/// An open service, and its first shares.
struct ServiceBed {
    seal: Arc<ServiceSeal>,
    directory: PathBuf,
    first: InitialisationResult,
    log: Arc<Lines>,
}

fn static_seal() -> SealSetting {
    let current = StaticKey::parse("one", &[7; 32]).unwrap();
    SealSetting::Static(StaticSeal { current, previous: None })
}

fn address(key: &str) -> Address {
    Address::new(Space::Data, format!("mount/{key}"))
}

impl ServiceBed {
    async fn new(name: &str, seal: SealSetting, suspend_due_work: bool) -> Self {
        let folder = format!("bulkhead-restoring-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(folder);
        let log = Arc::new(Lines::default());
        let seal = Self::closed(&directory, (seal, suspend_due_work), &log).await;
        let is_automatic = seal.settings().seal.is_automatic();
        let split = (!is_automatic).then_some(SealConfig::SINGLE);
        let first = seal.initialise(split).await.unwrap();
        let bed = Self { seal, directory, first, log };
        if !is_automatic {
            bed.unseal(&bed.first).await;
        }
        bed
    }

    /// Returns the same data in a new process with another seal in the configuration. The log goes
    /// on.
    async fn with_seal(self, seal: SealSetting) -> Self {
        let Self { seal: old, directory, first, log } = self;
        drop(old);
        let released = async {
            while DataDirectory::is_held(&directory).unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, released).await.expect("nothing keeps the old process");
        let seal = Self::closed(&directory, (seal, false), &log).await;
        Self { seal, directory, first, log }
    }

    async fn closed(
        directory: &Path,
        (seal, suspend_due_work): (SealSetting, bool),
        log: &Arc<Lines>,
    ) -> Arc<ServiceSeal> {
        let settings = ServiceSettings {
            store: StoreOptions::at(directory),
            seal,
            officials: Vec::new(),
            compiler: PathBuf::from("/none"),
            plugin_directory: None,
            plugin_signatures: SignatureRules::default(),
            default_lease_ttl: 3_600,
            max_lease_ttl: 7_200,
            request_timeout: Duration::from_secs(90),
            suspend_due_work,
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
            log: Arc::clone(log) as Arc<dyn Log>,
            log_threshold: Arc::default(),
            log_monitors: Arc::default(),
            figures: ServerFigures::default(),
            traces: None,
        };
        let data = DataDirectory::hold(StoreOptions::at(directory)).await.unwrap();
        let process = ProcessState::new(settings, SandboxRuntime::new().unwrap(), &data);
        Arc::new(ServiceSeal::new(Arc::new(process), data))
    }

    async fn unseal(&self, first: &InitialisationResult) {
        let share = first.shares[0].base64();
        let remote = "127.0.0.1".parse().unwrap();
        let share = UnsealShare { share: share.as_str(), migrate: false, remote };
        self.seal.unseal(share).await.unwrap();
    }

    fn core(&self) -> Arc<Core> {
        self.seal.core().unwrap()
    }

    async fn put(&self, key: &str) {
        let mut unit = self.core().store.begin();
        unit.put(address(key), b"1".to_vec(), IndexColumns::default());
        unit.commit().await.unwrap();
    }

    async fn has(&self, key: &str) -> bool {
        self.core().store.begin().get(&address(key)).await.unwrap().is_some()
    }

    /// Takes a snapshot into a file.
    async fn save(&self) -> PathBuf {
        let origin = SnapshotOrigin {
            server_version: "0.1.0".to_owned(),
            store_time: 1_800_000_000_000,
            taken_at: "2027-01-15T08:00:00Z".to_owned(),
        };
        let mut stream = self.core().store.snapshot(origin).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = poll_fn(|context| stream.poll_chunk(context)).await {
            bytes.extend(piece.unwrap());
        }
        let path = self.directory.with_extension("snap");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn lines(&self, event: &str) -> Vec<String> {
        let lines = self.log.0.lock().unwrap();
        let is_event = |line: &&String| line.split(' ').nth(1) == Some(event);
        lines.iter().filter(is_event).cloned().collect()
    }

    async fn end(self) {
        self.seal.close_if(|_| true).await;
        std::fs::remove_dir_all(&self.directory).unwrap();
        drop(std::fs::remove_file(self.directory.with_extension("snap")));
    }
}

async fn gone(core: &Weak<Core>) {
    let gone = async {
        while core.upgrade().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("nothing keeps the old core");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_snapshot_reopens_and_waits_for_release() {
    let bed = ServiceBed::new("own", SealSetting::Shamir, false).await;
    bed.put("before").await;
    let snapshot = bed.save().await;
    bed.put("after").await;
    let old = bed.core();
    let prepared = prepare(&old, &snapshot, RestoreCheck::SameCluster).await.unwrap();
    let outcome = bed.seal.restore(&old, prepared).await.unwrap();
    assert!(matches!(outcome, RestoreOutcome::Open(None)), "{outcome:?}");
    assert!(bed.has("before").await && !bed.has("after").await);
    let old = Arc::downgrade(&{ old });
    gone(&old).await;
    let core = bed.core();
    assert_eq!(core.due_work_suspension(), Some(DueWorkSuspension::Restored));
    let codes: Vec<&str> = core.review_health().iter().map(|health| health.code()).collect();
    assert_eq!(codes, ["due-work-suspended"]);
    let refused = core.leases.assert_ends_work().unwrap_err();
    assert!(refused.message.contains("operator release"), "{}", refused.message);
    assert!(bed.lines("due-work-suspended")[0].contains("operator release"));
    assert_eq!(bed.lines("restored").len(), 1, "{:?}", bed.lines("restored"));
    for _ in 0..2 {
        lifecycle::release(&core).await.unwrap();
        assert!(core.due_work_suspension().is_none() && core.review_health().is_empty());
        core.leases.assert_ends_work().unwrap();
    }
    assert_eq!(bed.lines("due-work-released").len(), 1);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_cluster_is_refused_unless_any_is_accepted() {
    let bed = ServiceBed::new("here", SealSetting::Shamir, false).await;
    let other = ServiceBed::new("there", SealSetting::Shamir, false).await;
    other.put("there").await;
    let snapshot = other.save().await;
    let core = bed.core();
    let refused = prepare(&core, &snapshot, RestoreCheck::SameCluster).await.err().unwrap();
    let (ids, mut named) = ([&bed, &other], Vec::new());
    for bed in ids {
        named.push(bed.seal.status().await.unwrap().cluster_id.unwrap());
    }
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    for part in [named[0].as_str(), named[1].as_str(), "snapshot-force", "nothing was changed"] {
        assert!(refused.message.contains(part), "{part}: {}", refused.message);
    }
    let prepared = prepare(&core, &snapshot, RestoreCheck::AnyCluster).await.unwrap();
    let RestoreOutcome::Sealed(reason) = bed.seal.restore(&core, prepared).await.unwrap() else {
        panic!("the keys are elsewhere")
    };
    assert!(reason.contains("keys of the snapshot"), "{reason}");
    assert!(bed.lines("restored")[0].starts_with("warn "), "{:?}", bed.lines("restored"));
    let status = bed.seal.status().await.unwrap();
    assert!(status.sealed && status.cluster_id.as_ref() == Some(&named[1]));
    bed.unseal(&other.first).await;
    assert!(bed.has("there").await);
    bed.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_seal_opens_restored_data_of_other_cluster() {
    let bed = ServiceBed::new("static-here", static_seal(), true).await;
    let other = ServiceBed::new("static-there", static_seal(), false).await;
    other.put("there").await;
    let snapshot = other.save().await;
    let core = bed.core();
    let prepared = prepare(&core, &snapshot, RestoreCheck::AnyCluster).await.unwrap();
    let outcome = bed.seal.restore(&core, prepared).await.unwrap();
    assert!(matches!(outcome, RestoreOutcome::Open(None)), "{outcome:?}");
    assert!(bed.has("there").await);
    let core = bed.core();
    assert_eq!(core.due_work_suspension(), Some(DueWorkSuspension::ConfiguredAndRestored));
    let refused = lifecycle::release(&core).await.unwrap_err();
    assert!(refused.message.contains("without suspend_due_work"), "{}", refused.message);
    assert!(core.store.restored().is_some(), "nothing was changed");
    bed.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_sealed_meanwhile_keeps_its_data() {
    let bed = ServiceBed::new("sealed", SealSetting::Shamir, false).await;
    let snapshot = bed.save().await;
    bed.put("after").await;
    let core = bed.core();
    let prepared = prepare(&core, &snapshot, RestoreCheck::SameCluster).await.unwrap();
    core.ask_restore("first", prepared).unwrap();
    assert!(core.take_restore("second").is_none(), "another request");
    let second = prepare(&core, &snapshot, RestoreCheck::SameCluster).await.err().unwrap();
    assert!(second.message.contains("another restore"), "{}", second.message);
    let prepared = core.take_restore("first").unwrap();
    assert!(core.take_restore("first").is_none());
    bed.seal.close_if(|_| true).await;
    let refused = bed.seal.restore(&core, prepared).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    assert_eq!(bed.lines("not-restored").len(), 1);
    bed.unseal(&bed.first).await;
    assert!(bed.has("after").await && bed.core().due_work_suspension().is_none());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_replacement_serves_old_data_again() {
    let bed = ServiceBed::new("failed", SealSetting::Shamir, false).await;
    let snapshot = bed.save().await;
    bed.put("after").await;
    let core = bed.core();
    let prepared = prepare(&core, &snapshot, RestoreCheck::SameCluster).await.unwrap();
    std::fs::remove_file(bed.directory.join("bulkhead.db.restored")).unwrap();
    let refused = bed.seal.restore(&core, prepared).await.unwrap_err();
    assert!(refused.message.contains("nothing was changed"), "{}", refused.message);
    assert!(bed.has("after").await && bed.core().due_work_suspension().is_none());
    assert!(bed.lines("not-restored").len() == 1 && bed.lines("not-unsealed").is_empty());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_snapshot_is_callers_mistake() {
    let bed = ServiceBed::new("unreadable", SealSetting::Shamir, false).await;
    let path = bed.directory.with_extension("snap");
    std::fs::write(&path, "no snapshot").unwrap();
    let refused = prepare(&bed.core(), &path, RestoreCheck::AnyCluster).await.err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("not a complete snapshot"), "{}", refused.message);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seal_during_replacement_stands() {
    let bed = ServiceBed::new("asked", SealSetting::Shamir, false).await;
    bed.put("before").await;
    let snapshot = bed.save().await;
    let core = bed.core();
    let prepared = prepare(&core, &snapshot, RestoreCheck::SameCluster).await.unwrap();
    // A request that is in flight until the new core is built, and asks for a seal.
    let (entered, in_flight) = bed.seal.enter().await.unwrap();
    let (seal, old) = (Arc::clone(&bed.seal), Arc::clone(&core));
    let restored = tokio::spawn(async move { seal.restore(&old, prepared).await });
    let closed = async {
        while bed.seal.core().is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.unwrap();
    assert!(bed.seal.is_restoring());
    entered.ask_to_seal();
    drop(in_flight);
    let RestoreOutcome::Sealed(reason) = restored.await.unwrap().unwrap() else {
        panic!("a seal was asked")
    };
    assert!(reason.contains("sealed the server meanwhile"), "{reason}");
    assert!(!bed.seal.is_restoring() && bed.seal.status().await.unwrap().sealed);
    bed.unseal(&bed.first).await;
    assert!(bed.has("before").await && bed.core().store.restored().is_some());
    drop((entered, core));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preparation_ends_when_service_is_sealed() {
    let bed = ServiceBed::new("ends", SealSetting::Shamir, false).await;
    let snapshot = bed.save().await;
    let core = bed.core();
    bed.seal.close_if(|_| true).await;
    let ended = prepare(&core, &snapshot, RestoreCheck::AnyCluster).await.err().unwrap();
    assert_eq!(ended.kind, FailureKind::Unavailable);
    assert!(ended.message.contains("interrupted"), "{}", ended.message);
    assert!(!bed.directory.join("bulkhead.db.restored").exists());
    drop(core);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seal_from_before_migration_is_warned_of() {
    let mut bed = ServiceBed::new("migrated", SealSetting::Shamir, false).await;
    let snapshot = bed.save().await;
    bed.seal.close_if(|_| true).await;
    bed = bed.with_seal(static_seal()).await;
    let share = bed.first.shares[0].base64();
    let remote = "127.0.0.1".parse().unwrap();
    let share = UnsealShare { share: share.as_str(), migrate: true, remote };
    bed.seal.unseal(share).await.unwrap();
    let core = bed.core();
    let prepared = prepare(&core, &snapshot, RestoreCheck::SameCluster).await.unwrap();
    let outcome = bed.seal.restore(&core, prepared).await.unwrap();
    let RestoreOutcome::Open(Some(warning)) = outcome else { panic!("{outcome:?}") };
    assert!(warning.contains("unseal -migrate"), "{warning}");
    assert_eq!(bed.lines("seal-migration-awaited").len(), 1);
    assert!(bed.seal.core().is_some());
    drop(core);
    bed.end().await;
}
