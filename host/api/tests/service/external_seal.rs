//! An automatic seal whose key another server keeps: starts without that server, rotation of its
//! key, and the migration between seals.

use crate::bed::{Bed, PATIENCE};
use async_trait::async_trait;
use bulkhead_api::InitialBlock;
use bulkhead_audit::AuditSettings;
use bulkhead_core::key_wrapper::{ExternalSeal, KeyWrapper, OpenedKey, WrappedKey};
use bulkhead_core::seal_setting::{SealSetting, StaticKey, StaticSeal};
use bulkhead_store::SealKey;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, FailureKind};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A keeper that encrypts by adding the version to each byte.
#[derive(Default)]
struct Keeper(Mutex<KeeperState>);

#[derive(Default)]
struct KeeperState {
    version: u8,
    /// Versions below are lost.
    least: u8,
    /// Failure of every exchange.
    fault: Option<FailureKind>,
    hangs: bool,
    /// The keeper returns another key.
    lies: bool,
    renewals: usize,
}

impl Keeper {
    fn new() -> Arc<Self> {
        let keeper = Self::default();
        keeper.change(|state| state.version = 1);
        Arc::new(keeper)
    }

    fn change(&self, change: impl FnOnce(&mut KeeperState)) {
        change(&mut self.0.lock().unwrap());
    }

    async fn answer<T>(
        &self,
        answer: impl FnOnce(&mut KeeperState) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        if self.0.lock().unwrap().hangs {
            std::future::pending::<()>().await;
        }
        let mut state = self.0.lock().unwrap();
        match state.fault {
            Some(kind) => Err(Failure::new(kind, "the keeper is out of order")),
            None => answer(&mut state),
        }
    }
}

#[async_trait]
impl KeyWrapper for Keeper {
    async fn wrap(&self, key: &SealKey) -> Result<WrappedKey, Failure> {
        self.answer(|state| {
            let version = state.version;
            let body = key.bytes().iter().map(|byte| byte.wrapping_add(version));
            let blob = std::iter::once(version).chain(body).collect();
            Ok(WrappedKey { key_id: format!("v{version}"), blob })
        })
        .await
    }

    async fn unwrap(&self, blob: &[u8]) -> Result<OpenedKey, Failure> {
        self.answer(|state| {
            let version = blob[0];
            if version < state.least {
                return Err(Failure::invalid("the version of the key is gone"));
            }
            let body: Vec<u8> = blob[1..].iter().map(|byte| byte.wrapping_sub(version)).collect();
            let mut bytes: [u8; 32] = body.try_into().unwrap();
            bytes[0] ^= u8::from(state.lies);
            let key = SealKey::from_bytes(bytes);
            Ok(OpenedKey { key, newest_key_id: format!("v{}", state.version) })
        })
        .await
    }

    async fn renew(&self) -> Result<Option<Duration>, Failure> {
        self.answer(|state| {
            state.renewals += 1;
            Ok(Some(Duration::ZERO))
        })
        .await
    }

    async fn check(&self) -> Result<(), Failure> {
        self.answer(|_| Ok(())).await
    }
}

fn external(keeper: &Arc<Keeper>) -> SealSetting {
    SealSetting::External(ExternalSeal::new("transit", Arc::clone(keeper) as Arc<dyn KeyWrapper>))
}

fn fixed() -> SealSetting {
    let current = StaticKey::parse("one", &[7; 32]).unwrap();
    SealSetting::Static(StaticSeal { current, previous: None })
}

fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("bulkhead-seal-{name}-{}", std::process::id()))
}

/// Starts a service as a server does. The task of an earlier service may hold the directory for a
/// moment.
async fn start(directory: &Path, seal: impl Fn() -> SealSetting) -> Bed {
    let began = Instant::now();
    let bed = loop {
        let audit = AuditSettings::default();
        match Bed::closed_by(seal(), directory.to_path_buf(), Vec::new(), audit).await {
            Ok(bed) => break bed,
            Err(failure) => assert!(began.elapsed() < PATIENCE, "{failure}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    bed.service.open_at_start().await.unwrap();
    bed
}

impl Bed {
    async fn stop_as_process(self) {
        self.service.end_waiting();
        self.stop().await;
    }

    async fn end_as_process(self) {
        let directory = self.directory.clone();
        self.stop_as_process().await;
        std::fs::remove_dir_all(directory).unwrap();
    }

    async fn seal_status(&self) -> Value {
        self.call_as("", Verb::Read, "sys/seal-status", json!({})).await.1
    }

    async fn is_sealed(&self) -> bool {
        self.seal_status().await["sealed"] == true
    }

    async fn wait_until_open(&self) {
        let began = Instant::now();
        while self.is_sealed().await {
            assert!(began.elapsed() < PATIENCE, "{:?}", self.log.0.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Initialises with two of three recovery keys or unseal keys, and returns the keys.
    async fn initialise(&self, kind: &str) -> Vec<String> {
        let (shares, threshold) = (format!("{kind}_shares"), format!("{kind}_threshold"));
        let (status, answer) =
            self.call_as("", Verb::Write, "sys/init", json!({ shares: 3, threshold: 2 })).await;
        assert_eq!(status, 200, "{answer}");
        let name = if kind == "recovery" { "recovery_keys" } else { "keys" };
        let keys = answer[name].as_array().unwrap().iter();
        keys.map(|key| key.as_str().unwrap().to_owned()).collect()
    }

    async fn migrate(&self, keys: &[String]) -> Vec<u16> {
        let mut statuses = Vec::new();
        for key in keys {
            let share = json!({ "key": key, "migrate": true });
            statuses.push(self.call_as("", Verb::Write, "sys/unseal", share).await.0);
        }
        statuses
    }

    fn count_lines(&self, part: &str) -> usize {
        self.log.0.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn external_seal_opens_after_init_and_restart() {
    let (keeper, directory) = (Keeper::new(), directory("restart"));
    let bed = start(&directory, || external(&keeper)).await;
    bed.initialise("recovery").await;
    let status = bed.seal_status().await;
    assert_eq!((&status["type"], &status["sealed"]), (&json!("transit"), &json!(false)));
    assert_eq!((&status["recovery_seal"], &status["n"]), (&json!(true), &json!(3)));
    bed.stop_as_process().await;
    let bed = start(&directory, || external(&keeper)).await;
    assert!(!bed.is_sealed().await);
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn initialisation_without_keeper_changes_nothing() {
    let (keeper, directory) = (Keeper::new(), directory("init"));
    let bed = start(&directory, || external(&keeper)).await;
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    for (fault, lies, expected) in [
        (Some(FailureKind::Unreachable), false, 502),
        (Some(FailureKind::PermissionDenied), false, 400),
        (None, true, 400),
    ] {
        keeper.change(|state| (state.fault, state.lies) = (fault, lies));
        let (status, answer) = bed.call_as("", Verb::Write, "sys/init", body.clone()).await;
        assert_eq!(status, expected, "{answer}");
        assert!(answer.to_string().contains("seal \\\"transit\\\": the "), "{answer}");
        assert_eq!(bed.seal_status().await["initialized"], false);
    }
    keeper.change(|state| state.lies = false);
    bed.initialise("recovery").await;
    assert!(!bed.is_sealed().await);
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_service_opens_when_keeper_returns() {
    let (keeper, directory) = (Keeper::new(), directory("outage"));
    let bed = start(&directory, || external(&keeper)).await;
    bed.initialise("recovery").await;
    bed.stop_as_process().await;
    keeper.change(|state| state.fault = Some(FailureKind::Unreachable));
    let bed = start(&directory, || external(&keeper)).await;
    assert!(bed.is_sealed().await);
    let line = bed.line("seal-key-awaited").await;
    assert!(line.starts_with("warn") && line.contains("out of order"), "{line}");
    let (status, health) = bed.call_as("", Verb::Read, "sys/health", json!({})).await;
    assert_eq!(status, 503, "{health}");
    keeper.change(|state| state.fault = None);
    bed.wait_until_open().await;
    assert_eq!(bed.count_lines("seal-key-awaited"), 1);
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_of_keeper_is_an_error_with_remedy() {
    let (keeper, directory) = (Keeper::new(), directory("refusal"));
    let bed = start(&directory, || external(&keeper)).await;
    bed.initialise("recovery").await;
    bed.stop_as_process().await;
    for change in [
        (|state: &mut KeeperState| state.fault = Some(FailureKind::PermissionDenied))
            as fn(&mut KeeperState),
        |state| (state.fault, state.lies) = (None, true),
        |state| (state.lies, state.least) = (false, 2),
    ] {
        keeper.change(change);
        let bed = start(&directory, || external(&keeper)).await;
        let line = bed.line("not-unsealed").await;
        assert!(line.starts_with("error") && line.contains("operator unseal -migrate"), "{line}");
        assert!(bed.is_sealed().await);
        bed.stop_as_process().await;
    }
    keeper.change(|state| state.least = 0);
    let bed = start(&directory, || external(&keeper)).await;
    assert!(!bed.is_sealed().await);
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_keeper_delays_neither_start_nor_end() {
    let (keeper, directory) = (Keeper::new(), directory("hang"));
    let bed = start(&directory, || external(&keeper)).await;
    bed.initialise("recovery").await;
    bed.stop_as_process().await;
    keeper.change(|state| state.hangs = true);
    let bed = start(&directory, || external(&keeper)).await;
    bed.line("has not answered yet").await;
    assert!(bed.is_sealed().await);
    bed.stop_as_process().await;
    keeper.change(|state| state.hangs = false);
    let bed = start(&directory, || external(&keeper)).await;
    assert!(!bed.is_sealed().await);
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_key_of_keeper_replaces_seal_key() {
    let (keeper, directory) = (Keeper::new(), directory("rotation"));
    let bed = start(&directory, || external(&keeper)).await;
    bed.initialise("recovery").await;
    bed.stop_as_process().await;
    keeper.change(|state| state.version = 2);
    let bed = start(&directory, || external(&keeper)).await;
    let line = bed.line("seal-key-replaced").await;
    assert!(line.contains("\"v1\"") && line.contains("\"v2\""), "{line}");
    bed.stop_as_process().await;
    keeper.change(|state| state.least = 2);
    let bed = start(&directory, || external(&keeper)).await;
    assert!(!bed.is_sealed().await);
    assert_eq!(bed.count_lines("seal-key-replaced"), 0);
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_migrate_between_external_and_other_seals() {
    let (keeper, directory) = (Keeper::new(), directory("migration"));
    let bed = start(&directory, || SealSetting::Shamir).await;
    let keys = bed.initialise("secret").await;
    bed.stop_as_process().await;

    let bed = start(&directory, || external(&keeper)).await;
    keeper.change(|state| state.fault = Some(FailureKind::Unreachable));
    assert_eq!(bed.migrate(&keys[..2]).await, [200, 502]);
    let status = bed.seal_status().await;
    assert_eq!((&status["type"], &status["sealed"]), (&json!("shamir"), &json!(true)));
    keeper.change(|state| state.fault = None);
    assert_eq!(bed.migrate(&keys[1..2]).await, [200]);
    assert_eq!(bed.seal_status().await["type"], "transit");
    assert!(!bed.is_sealed().await);
    bed.stop_as_process().await;

    let bed = start(&directory, fixed).await;
    assert_eq!(bed.seal_status().await["migration"], true);
    assert_eq!(bed.migrate(&keys[1..]).await, [200, 200]);
    assert_eq!(bed.seal_status().await["type"], "static");
    bed.stop_as_process().await;
    let bed = start(&directory, || external(&keeper)).await;
    assert_eq!(bed.migrate(&keys[..2]).await, [200, 200]);
    bed.stop_as_process().await;

    // The keeper is lost for ever: the recovery keys open the data.
    keeper.change(|state| state.fault = Some(FailureKind::Unreachable));
    let bed = start(&directory, || SealSetting::Shamir).await;
    assert_eq!(bed.migrate(&keys[..2]).await, [200, 200]);
    let status = bed.seal_status().await;
    assert_eq!((&status["type"], &status["sealed"]), (&json!("shamir"), &json!(false)));
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_service_reports_failing_keeper_and_renews() {
    let (keeper, directory) = (Keeper::new(), directory("health"));
    let bed = start(&directory, || external(&keeper)).await;
    bed.initialise("recovery").await;
    let began = Instant::now();
    while keeper.0.lock().unwrap().renewals < 2 {
        assert!(began.elapsed() < PATIENCE, "the credentials are renewed once a second");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The failed renewal brings the check forward.
    keeper.change(|state| state.fault = Some(FailureKind::Unreachable));
    bed.line("seal-unreachable").await;
    let line = bed.line("seal-check-failed").await;
    assert!(line.starts_with("warn") && line.contains("out of order"), "{line}");
    let (status, health) = bed.call_as("", Verb::Read, "sys/health", json!({})).await;
    assert_eq!((status, &health["degraded"][0]["code"]), (200, &json!("seal-unreachable")));
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn self_initialisation_waits_for_keeper_once() {
    // The copy of an interrupted block is a file here.
    let _files = bulkhead_test_database::on_files();
    let (keeper, directory) = (Keeper::new(), directory("unattended"));
    keeper.change(|state| state.fault = Some(FailureKind::Unreachable));
    let bed = start(&directory, || external(&keeper)).await;
    assert!(bed.service.awaits_self_initialisation().await.unwrap());
    let blocks = [InitialBlock::default(), InitialBlock::default()];
    let initialised = bed.service.initialise_unattended(&blocks);
    let returned = async {
        let line = bed.line("seal-key-awaited").await;
        assert!(line.contains("out of order"), "{line}");
        keeper.change(|state| state.fault = None);
    };
    let (initialised, ()) = tokio::join!(initialised, returned);
    initialised.unwrap();
    assert_eq!(bed.count_lines("self-initialised"), 1);
    assert!(!bed.service.awaits_self_initialisation().await.unwrap());
    keeper.change(|state| state.fault = Some(FailureKind::Unreachable));
    let copy = directory.join("bulkhead.db.copy-7");
    for is_interrupted in [false, true] {
        if is_interrupted {
            std::fs::write(&copy, "left by a killed process").unwrap();
        }
        let awaits = bed.service.awaits_self_initialisation().await.unwrap();
        assert_eq!(awaits, is_interrupted);
    }
    std::fs::remove_file(&copy).unwrap();
    keeper.change(|state| state.fault = None);
    bed.service.open_at_start().await.unwrap();
    assert!(!bed.is_sealed().await);
    bed.end_as_process().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_self_initialisation_ends_start() {
    let (keeper, directory) = (Keeper::new(), directory("refused"));
    keeper.change(|state| state.fault = Some(FailureKind::PermissionDenied));
    let bed = start(&directory, || external(&keeper)).await;
    let refused = bed.service.initialise_unattended(&[InitialBlock::default()]).await.unwrap_err();
    assert!(refused.message.contains("out of order"), "{}", refused.message);
    assert_eq!(bed.seal_status().await["initialized"], false);
    bed.end_as_process().await;
}
