//! The stage of these tests: a service on a separate directory, with the probe mounted.

use bulkhead_access::log::Log;
use bulkhead_api::Service;
use bulkhead_audit::AuditSettings;
use bulkhead_core::seal_setting::SealSetting;
use bulkhead_core::snapshots::ScheduledSnapshot;
use bulkhead_core::{OfficialComponent, ServiceSettings, SignatureRules};
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_sandbox::SandboxRuntime;
use bulkhead_store::{DatabaseChoice, StoreOptions};
use bulkhead_trace::Tracer;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::request::{MetricsTerms, Request};
use bulkhead_wire::secret::Secret;
use bulkhead_wire::server_figures::ServerFigures;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest that anything here may take, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Lines(pub(crate) Mutex<Vec<String>>);

impl Log for Lines {
    fn line(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
        self.0.lock().unwrap().push(format!("{} {event} {pairs:?}", level.word()));
    }
}

/// A core with the probe mounted at `probe/`, on a separate directory.
pub(crate) struct Bed {
    pub(crate) service: Arc<Service>,
    pub(crate) directory: PathBuf,
    pub(crate) log: Arc<Lines>,
}

/// Returns the options of a store on the database of the environment.
pub(crate) fn store_options(directory: &Path) -> StoreOptions {
    let url = bulkhead_test_database::url_of(directory);
    let database = DatabaseChoice::of_url(url.as_deref()).unwrap();
    StoreOptions { database, ..StoreOptions::at(directory) }
}

impl Bed {
    pub(crate) async fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("bulkhead-core-{name}-{}", std::process::id()));
        Self::open(directory).await
    }

    pub(crate) async fn open(directory: PathBuf) -> Self {
        Self::try_open(directory).await.unwrap()
    }

    pub(crate) async fn try_open(directory: PathBuf) -> Result<Self, Failure> {
        Self::audited(directory, AuditSettings::default()).await
    }

    /// With those audit devices.
    pub(crate) async fn audited(directory: PathBuf, audit: AuditSettings) -> Result<Self, Failure> {
        Self::with(directory, vec![official("probe")], audit).await
    }

    /// A service with the given official plugins and audit devices.
    pub(crate) async fn with(
        directory: PathBuf,
        officials: Vec<OfficialComponent>,
        audit: AuditSettings,
    ) -> Result<Self, Failure> {
        let bed = Self::closed(directory, officials, audit).await?;
        bed.service.open_dev(&Secret::new("root")).await?;
        Ok(bed)
    }

    /// A service on an empty directory, which nothing has opened yet.
    pub(crate) async fn sealed(directory: PathBuf) -> Self {
        Self::closed(directory, Vec::new(), AuditSettings::default()).await.unwrap()
    }

    async fn closed(
        directory: PathBuf,
        officials: Vec<OfficialComponent>,
        audit: AuditSettings,
    ) -> Result<Self, Failure> {
        Self::started(directory, |settings| ServiceSettings { officials, audit, ..settings }).await
    }

    /// A service with the given seal, which nothing has opened yet.
    pub(crate) async fn closed_by(
        seal: SealSetting,
        directory: PathBuf,
        officials: Vec<OfficialComponent>,
        audit: AuditSettings,
    ) -> Result<Self, Failure> {
        Self::started(directory, |settings| ServiceSettings { seal, officials, audit, ..settings })
            .await
    }

    /// A service without plugins that takes snapshots by itself.
    pub(crate) async fn scheduled(directory: PathBuf, snapshots: Vec<ScheduledSnapshot>) -> Self {
        let started =
            Self::started(directory, |settings| ServiceSettings { snapshots, ..settings }).await;
        let bed = started.unwrap();
        bed.service.open_dev(&Secret::new("root")).await.unwrap();
        bed
    }

    /// With the probe, and spans in this tracer.
    pub(crate) async fn traced(name: &str, tracer: &Arc<Tracer>) -> Self {
        let name = format!("bulkhead-core-{name}-{}", std::process::id());
        let (traces, officials) = (Some(Arc::clone(tracer)), vec![official("probe")]);
        let change = |settings| ServiceSettings { traces, officials, ..settings };
        let bed = Self::started(std::env::temp_dir().join(name), change).await.unwrap();
        bed.service.open_dev(&Secret::new("root")).await.unwrap();
        bed
    }

    async fn started(
        directory: PathBuf,
        change: impl FnOnce(ServiceSettings) -> ServiceSettings,
    ) -> Result<Self, Failure> {
        let log = Arc::new(Lines::default());
        let settings = ServiceSettings {
            store: store_options(&directory),
            seal: SealSetting::Shamir,
            officials: Vec::new(),
            compiler: profile().join("bulkhead"),
            plugin_directory: None,
            plugin_signatures: SignatureRules::default(),
            default_lease_ttl: 3_600,
            max_lease_ttl: 7_200,
            request_timeout: Duration::from_secs(90),
            suspend_due_work: false,
            allow_key_holders: true,
            reported_version: "1.21.0+ent".to_owned(),
            api_address: String::new(),
            configuration: serde_json::Map::new(),
            own_url: String::new(),
            own_addresses: Vec::new(),
            ambient: AmbientSources::default(),
            outbound: OutboundNetwork::default(),
            snapshots: Vec::new(),
            audit: AuditSettings::default(),
            log: Arc::clone(&log) as Arc<dyn Log>,
            log_threshold: Arc::default(),
            log_monitors: Arc::default(),
            figures: ServerFigures::default(),
            traces: None,
        };
        let service = Service::start(SandboxRuntime::new().unwrap(), change(settings)).await?;
        Ok(Self { service, directory, log })
    }

    pub(crate) async fn call(&self, verb: Verb, path: &str, fields: Value) -> (u16, Value) {
        self.call_as("root", verb, path, fields).await
    }

    pub(crate) async fn call_as(
        &self,
        token: &str,
        verb: Verb,
        path: &str,
        fields: Value,
    ) -> (u16, Value) {
        let request = request(token, verb, path, fields);
        let (status, _, body) = self.service.handle(request).await.into_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    pub(crate) async fn write(&self, path: &str, fields: Value) -> (u16, Value) {
        self.call(Verb::Write, path, fields).await
    }

    pub(crate) async fn read(&self, path: &str) -> (u16, Value) {
        self.call(Verb::Read, path, json!({})).await
    }

    /// Waits until the probe noted something under `name`.
    pub(crate) async fn noted(&self, name: &str) -> Value {
        self.noted_of("probe", name).await
    }

    /// As [`Bed::noted`], of another mount of the probe.
    pub(crate) async fn noted_of(&self, mount: &str, name: &str) -> Value {
        let began = Instant::now();
        loop {
            let (status, answer) = self.read(&format!("{mount}/note/{name}")).await;
            if status == 200 {
                return answer["data"]["note"].clone();
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{name} was never noted; {:?}",
                self.log.0.lock().unwrap()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the probe's note under `name` is this.
    pub(crate) async fn noted_as(&self, mount: &str, name: &str, expected: &Value) {
        let began = Instant::now();
        loop {
            let note = self.noted_of(mount, name).await;
            if note == *expected {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{name} stayed at {note}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for a line of the log that contains `part`.
    pub(crate) async fn line(&self, part: &str) -> String {
        let began = Instant::now();
        loop {
            if let Some(line) = self.log.0.lock().unwrap().iter().find(|line| line.contains(part)) {
                return line.clone();
            }
            assert!(
                began.elapsed() < PATIENCE,
                "no line with {part}; {:?}",
                self.log.0.lock().unwrap()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stops the service, and returns the directory of the service.
    pub(crate) async fn stop(self) -> PathBuf {
        self.service.stop().await;
        self.directory
    }

    pub(crate) async fn end(self) {
        std::fs::remove_dir_all(self.stop().await).unwrap();
    }
}

pub(crate) fn request(token: &str, verb: Verb, path: &str, fields: Value) -> Request {
    let fields: Map<String, Value> = fields.as_object().unwrap().clone();
    let (id, path) = ("test".to_owned(), path.to_owned());
    let remote = "127.0.0.1".parse().unwrap();
    Request {
        id,
        verb,
        path,
        token: Some(Secret::new(token)),
        fields,
        raw: None,
        file: None,
        body_bytes: 0,
        is_unread: false,
        refusal: None,
        audited_headers: Vec::new(),
        wrap_ttl: None,
        remote,
        remote_port: 40_112,
        metrics: MetricsTerms::default(),
        trace_parent: None,
        required_states: Vec::new(),
    }
}

/// Returns the folder of all built files.
pub(crate) fn target() -> PathBuf {
    profile().parent().unwrap().to_path_buf()
}

/// The folder of this program's build profile, with the server's binary.
fn profile() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_path_buf()
}

pub(crate) fn probe() -> &'static [u8] {
    guest("probe")
}

/// A component of `tests/guests`.
pub(crate) fn guest(name: &str) -> &'static [u8] {
    built(&format!("{name}.wasm"))
}

/// The guest as a plugin of the build, with the machine code from `make guests`: compiling a guest
/// takes longer than most tests.
pub(crate) fn official(name: &str) -> OfficialComponent {
    OfficialComponent { wasm: guest(name), compiled: built(&format!("{name}.cwasm")) }
}

fn built(name: &str) -> &'static [u8] {
    let bytes = std::fs::read(target().join("guests").join(name));
    bytes.unwrap_or_else(|_| panic!("the guest {name} is missing: run `make guests`")).leak()
}

pub(crate) fn error(answer: &Value) -> &str {
    answer["errors"][0].as_str().unwrap_or_default()
}
