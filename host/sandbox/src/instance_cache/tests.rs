//! Tests of bounded reuse, with the probe component, which counts its instance's calls in memory.

use super::*;
use crate::Publisher;
use crate::contract::{AnswerPayload, Call, Caller, Mount};
use crate::detached;
use crate::identity::ComponentIdentity;
use crate::output::{CallOutput, OutputKind};
use crate::{
    CallPriority, CallScope, CallTree, Compartment, ComponentSource, ConnectionChoice,
    DatabasePlugin, GrantLayers, Grants, HostServices, IdentityToken, MountLimits, MountablePlugin,
    ReservationRequest, Sandbox, SandboxRuntime, SlotRequest, TimerGuard, VisibleEntity, limits,
};
use async_trait::async_trait;
use bulkhead_store::{SealKey, Store, StoreOptions, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::streams::OutputStream as _;

const PASSWORD: &str = "correct-horse-battery";
const TEST_TIMEOUT: Duration = Duration::from_secs(15);
const MOUNT: &str = "mount";

fn under(limits: MountLimits) -> Arc<Compartment> {
    Compartment::new(MOUNT, limits)
}

/// A sandbox with a separate store and the loaded probe.
struct Stage {
    sandbox: Arc<Sandbox>,
    engine: MountablePlugin,
    artefact: ComponentSource<'static>,
    directory: PathBuf,
}

impl Stage {
    async fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("bulkhead-reuse-{name}-{}", std::process::id()));
        let store =
            Store::open(StoreOptions::at(&directory), SealKey::generate().unwrap()).await.unwrap();
        let sandbox = Sandbox::new(
            SandboxRuntime::new().unwrap(),
            store,
            &[],
            &bulkhead_outbound::ambient::AmbientSources::default(),
            &bulkhead_outbound::proxy::OutboundNetwork::default(),
        );
        let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_path_buf();
        let [wasm, compiled] = ["wasm", "cwasm"].map(|kind| {
            let bytes = std::fs::read(target.join(format!("guests/probe.{kind}")));
            bytes.expect("the probe is missing: run `make guests`").leak()
        });
        let artefact = ComponentSource::Official { wasm, compiled: Some(compiled) };
        let engine = MountablePlugin::load(&sandbox, artefact, None).await.unwrap();
        Self { sandbox, engine, artefact, directory }
    }

    fn scope(&self, reuse: &InstanceReuse, time: Duration) -> CallScope {
        let rights = GrantLayers {
            mount: "probe/",
            maker: Publisher::Uploaded,
            asked: &[],
            ceiling: None,
            granted: None,
        };
        CallScope {
            compartment: Compartment::new(MOUNT, MountLimits::default()),
            grants: Arc::new(Grants::of(&rights)),
            reuse: reuse.clone(),
            deadline: Instant::now() + time,
            slots: 1,
            services: Arc::new(Passwords),
            tree: Arc::new(CallTree::default()),
        }
    }

    async fn read(&self, reuse: &InstanceReuse, path: &str) -> Result<Value, Failure> {
        self.read_in(self.scope(reuse, TEST_TIMEOUT), &self.engine, path).await
    }

    async fn read_in(
        &self,
        scope: CallScope,
        engine: &MountablePlugin,
        path: &str,
    ) -> Result<Value, Failure> {
        let done = engine.handle(scope, self.sandbox.store.begin(), &call(path)).await;
        match done.result?.outcome {
            AnswerPayload::Data(text) => Ok(serde_json::from_str(&text).unwrap()),
            _ => Ok(Value::Null),
        }
    }

    /// Returns the number of this call among its instance's calls.
    async fn tally(&self, reuse: &InstanceReuse) -> u64 {
        self.read(reuse, "tally").await.unwrap()["calls"].as_u64().unwrap()
    }

    /// Reads in a fresh instance. The call may be cut, because the sandbox is closing.
    async fn read_while_closing(&self, reuse: &InstanceReuse) {
        match self.read(reuse, "tally").await {
            Ok(answer) => assert_eq!(answer["calls"], 1),
            Err(cut) => assert_eq!(cut.kind, FailureKind::Unavailable, "{}", cut.message),
        }
    }

    /// Returns the number of free slots of the pool.
    fn free(&self) -> usize {
        self.sandbox.resources.process.slots.free()
    }

    async fn end(self) {
        self.sandbox.store.close().await;
        std::fs::remove_dir_all(self.directory).unwrap();
    }
}

fn call(path: &str) -> Call {
    let (route, name) = match path.split_once('/') {
        Some((route, name)) => (format!("{route}/{{name}}"), name),
        None => (path.to_owned(), ""),
    };
    let caller = Caller {
        entity: String::new(),
        display_name: "token".to_owned(),
        id: "caller".to_owned(),
        capabilities: Vec::new(),
        remote_address: "127.0.0.1".to_owned(),
        ext: Vec::new(),
    };
    let mount = Mount {
        path: "probe/".to_owned(),
        accessor: "probe_1".to_owned(),
        kind: "probe".to_owned(),
        default_ttl: 60,
        max_ttl: 60,
        longest_lease: 60,
        options: Vec::new(),
        ext: Vec::new(),
    };
    Call {
        id: "test".to_owned(),
        operation: "read".to_owned(),
        route,
        captures: vec![("name".to_owned(), name.to_owned())],
        fields: serde_json::json!({ "name": name }).to_string(),
        deadline: u64::MAX,
        caller,
        mount,
        ext: Vec::new(),
    }
}

/// Host services that only give a password, which is always the same.
struct Passwords;

#[async_trait]
impl HostServices for Passwords {
    async fn password(&self, _unit: &mut Unit, _policy: &str) -> Result<String, Failure> {
        Ok(PASSWORD.to_owned())
    }

    fn password_from(&self, _length: u32, _alphabet: &str) -> Result<String, Failure> {
        Ok(PASSWORD.to_owned())
    }

    async fn identity_token(&self, _audience: &str, _ttl: u64) -> Result<IdentityToken, Failure> {
        Err(Failure::absent())
    }

    async fn entity(&self, _id: &str) -> Result<Option<VisibleEntity>, Failure> {
        Ok(None)
    }

    fn database_plugin(&self, _name: &str, _version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(Failure::absent())
    }

    async fn serving_plugin(
        &self,
        _connection: &str,
        _name: &str,
        _version: &str,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(Failure::absent())
    }

    async fn choose_plugin(
        &self,
        _unit: &mut Unit,
        _connection: &str,
        _choice: ConnectionChoice<'_>,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(Failure::absent())
    }

    fn release_plugin(&self, _unit: &mut Unit, _connection: &str) {}

    async fn load_database_plugin(&self, _plugin: &Arc<DatabasePlugin>) -> Result<(), Failure> {
        Err(Failure::absent())
    }

    fn reserve(
        &self,
        _unit: &mut Unit,
        _reservation: ReservationRequest,
    ) -> Result<String, Failure> {
        Err(Failure::absent())
    }

    async fn amend(&self, _unit: &mut Unit, _tag: &str, _internal: String) -> Result<(), Failure> {
        Err(Failure::absent())
    }

    fn end_issued(&self, _unit: &mut Unit, _handle: &str) -> Result<(), Failure> {
        Err(Failure::absent())
    }

    fn withdraw(&self, _tag: &str) -> Result<(), Failure> {
        Err(Failure::absent())
    }

    fn guard(&self, _unit: &mut Unit, _guard: TimerGuard) -> Result<(), Failure> {
        Err(Failure::absent())
    }

    fn earliest_wake(&self) -> u64 {
        0
    }

    fn widen_lane(&self, _lane: &str, _places: u32) {}

    fn rest_of_lane(&self, _lane: &str) -> Option<std::time::Duration> {
        None
    }

    async fn lease_count(&self, _lane: &str) -> Result<u32, Failure> {
        Err(Failure::absent())
    }

    fn migration_cursor(&self) -> Result<Option<String>, Failure> {
        Err(Failure::absent())
    }

    fn continue_migration(&self, _cursor: String) -> Result<(), Failure> {
        Err(Failure::absent())
    }

    fn log(
        &self,
        _level: LogLevel,
        _plugin: &ComponentIdentity,
        _event: &str,
        _pairs: &[(String, String)],
    ) {
    }
}

fn cache(reuse: &InstanceReuse) -> &Arc<InstanceCache> {
    match reuse {
        InstanceReuse::Bounded(cache) => cache,
        InstanceReuse::Fresh => panic!("no cache"),
    }
}

fn bounded(stage: &Stage, bounds: ReuseBounds) -> InstanceReuse {
    stage.engine.reuse(MOUNT, bounds)
}

#[tokio::test]
async fn memory_survives_call_only_if_mount_asks() {
    let stage = Stage::new("fresh").await;
    for _ in 0..3 {
        assert_eq!(stage.tally(&InstanceReuse::Fresh).await, 1);
    }
    assert_eq!(stage.free(), limits::INSTANCES as usize);
    let reuse = bounded(&stage, ReuseBounds::default());
    for count in 1..=3 {
        assert_eq!(stage.tally(&reuse).await, count);
    }
    assert_eq!(cache(&reuse).idle(), 1);
    stage.end().await;
}

#[tokio::test]
async fn calls_per_instance_are_bounded() {
    let stage = Stage::new("calls").await;
    let reuse = bounded(&stage, ReuseBounds { calls: 3, ..ReuseBounds::default() });
    let mut counted = Vec::new();
    for _ in 0..7 {
        counted.push(stage.tally(&reuse).await);
    }
    assert_eq!(counted, [1, 2, 3, 1, 2, 3, 1]);
    stage.end().await;
}

#[tokio::test]
async fn expired_instance_serves_no_call_and_is_dropped() {
    let stage = Stage::new("age").await;
    let reuse = bounded(&stage, ReuseBounds { age: Duration::ZERO, ..ReuseBounds::default() });
    for _ in 0..3 {
        assert_eq!(stage.tally(&reuse).await, 1);
    }
    let reuse =
        bounded(&stage, ReuseBounds { age: Duration::from_millis(200), ..ReuseBounds::default() });
    let began = Instant::now();
    stage.tally(&reuse).await;
    // On a machine that stalled for longer than the age, the instance is dropped by now.
    assert!(cache(&reuse).idle() == 1 || began.elapsed() >= Duration::from_millis(200));
    while cache(&reuse).idle() > 0 || stage.free() < limits::INSTANCES as usize {
        assert!(began.elapsed() < TEST_TIMEOUT, "an old instance is still kept");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(stage.tally(&reuse).await, 1);
    stage.end().await;
}

#[tokio::test]
async fn no_more_instances_are_kept_than_the_bound() {
    let stage = Stage::new("idle").await;
    let reuse = bounded(&stage, ReuseBounds { idle: 2, ..ReuseBounds::default() });
    let lent: Vec<LiveInstance> = (0..5).map(|_| empty(&stage)).collect();
    lent.into_iter().for_each(|live| drop(cache(&reuse).keep(live)));
    assert_eq!((cache(&reuse).idle(), stage.free()), (2, limits::INSTANCES as usize - 2));
    stage.end().await;
}

/// Makes an instance that looks to its cache as if a call were in it.
fn empty(stage: &Stage) -> LiveInstance {
    let identity = Arc::clone(&stage.engine.identity);
    let unit = Some(stage.sandbox.store.begin());
    let context = detached::context("in a call", Instant::now() + TEST_TIMEOUT);
    LiveInstance::new(CallState::new(&stage.sandbox.resources, context, identity, unit))
}

#[tokio::test]
async fn only_answered_call_leaves_instance_reusable() {
    let stage = Stage::new("failed").await;
    let reuse = bounded(&stage, ReuseBounds::default());
    let refused = stage.read(&reuse, "say/no").await.unwrap_err();
    assert_eq!((refused.kind, refused.message.as_str()), (FailureKind::InvalidRequest, "no"));
    assert_eq!(stage.tally(&reuse).await, 1);
    assert_eq!(cache(&reuse).idle(), 1, "a refusal is an answer");
    for fatal in ["panic", "stack", "memory"] {
        stage.tally(&reuse).await;
        assert_eq!(
            stage.read(&reuse, fatal).await.unwrap_err().kind,
            FailureKind::Internal,
            "{fatal}"
        );
        assert_eq!(cache(&reuse).idle(), 0, "{fatal}");
        assert_eq!(stage.tally(&reuse).await, 1, "after {fatal}");
    }
    let scope = stage.scope(&reuse, Duration::from_millis(50));
    assert_eq!(
        stage.read_in(scope, &stage.engine, "loop").await.unwrap_err().kind,
        FailureKind::TimedOut
    );
    assert_eq!(stage.tally(&reuse).await, 1, "after the deadline");
    let few = CallScope {
        compartment: under(MountLimits { host_calls: 0, ..MountLimits::default() }),
        ..stage.scope(&reuse, TEST_TIMEOUT)
    };
    assert_eq!(
        stage.read_in(few, &stage.engine, "tell").await.unwrap_err().kind,
        FailureKind::Internal
    );
    assert_eq!(stage.tally(&reuse).await, 1, "after too many host calls");
    stage.end().await;
}

#[tokio::test]
async fn grown_starved_or_handle_holding_instance_is_dropped() {
    let stage = Stage::new("grown").await;
    let reuse = bounded(&stage, ReuseBounds::default());
    for (path, got, idle) in
        [("reserve/64", true, 1), ("reserve/4096", true, 0), ("reserve/100000", false, 0)]
    {
        assert_eq!(stage.read(&reuse, path).await.unwrap()["got"], got, "{path}");
        assert_eq!(cache(&reuse).idle(), idle, "{path}");
    }
    assert_eq!(stage.read(&reuse, "input").await.unwrap()["bytes"], 0);
    assert_eq!(cache(&reuse).idle(), 0, "an instance with an open stream is not reused");
    stage.end().await;
}

#[tokio::test]
async fn instance_that_wrote_output_is_dropped() {
    let stage = Stage::new("wrote").await;
    let reuse = bounded(&stage, ReuseBounds::default());
    for (text, idle) in [("", 1), ("part of a line", 0)] {
        let mut live = empty(&stage);
        let output = CallOutput::default();
        let mut sink = output.sink(OutputKind::Stderr);
        sink.write(Bytes::from_static(text.as_bytes())).unwrap();
        live.store.data_mut().output = Some(output);
        let before = cache(&reuse).idle();
        drop(cache(&reuse).keep(live));
        assert_eq!(cache(&reuse).idle() - before, idle, "{text:?}");
    }
    stage.end().await;
}

#[tokio::test]
async fn memory_counts_over_all_calls_of_instance() {
    let stage = Stage::new("counted").await;
    let reuse = bounded(&stage, ReuseBounds::default());
    let narrow = |bytes| CallScope {
        compartment: under(MountLimits { memory_bytes: bytes, ..MountLimits::default() }),
        ..stage.scope(&reuse, TEST_TIMEOUT)
    };
    let reserve = |path: &'static str| stage.read_in(narrow(1 << 20), &stage.engine, path);
    assert_eq!(reserve("reserve/512").await.unwrap()["got"], true);
    assert_eq!(cache(&reuse).idle(), 1);
    assert_eq!(
        reserve("reserve/900").await.unwrap()["got"],
        false,
        "memory of earlier calls counts"
    );
    stage.end().await;
}

#[tokio::test]
async fn dropped_call_drops_its_instance() {
    let stage = Stage::new("cancelled").await;
    let reuse = bounded(&stage, ReuseBounds::default());
    stage.tally(&reuse).await;
    let dropped = tokio::time::timeout(Duration::from_millis(50), stage.read(&reuse, "loop")).await;
    assert!(dropped.is_err(), "the call never ends without the drop");
    assert_eq!((cache(&reuse).idle(), stage.free()), (0, limits::INSTANCES as usize));
    assert_eq!(stage.tally(&reuse).await, 1);
    stage.end().await;
}

#[tokio::test]
async fn instance_serves_only_own_mount_and_component() {
    let stage = Stage::new("others").await;
    let reuse = bounded(&stage, ReuseBounds::default());
    stage.tally(&reuse).await;
    let elsewhere = CallScope {
        compartment: Compartment::new("another", MountLimits::default()),
        ..stage.scope(&reuse, TEST_TIMEOUT)
    };
    assert_eq!(stage.read_in(elsewhere, &stage.engine, "tally").await.unwrap()["calls"], 1);
    let anew = MountablePlugin::load(&stage.sandbox, stage.artefact, None).await.unwrap();
    let anew = stage.read_in(stage.scope(&reuse, TEST_TIMEOUT), &anew, "tally").await.unwrap();
    assert_eq!(anew["calls"], 1, "the same bytes loaded again are another version");
    let neighbour = stage.engine.reuse("another", ReuseBounds::default());
    assert!(neighbour.cache(&stage.engine.identity, MOUNT).is_none());
    assert_eq!(stage.tally(&reuse).await, 2, "the idle instance serves again");
    stage.end().await;
}

#[tokio::test]
async fn secret_of_call_is_unknown_to_next_call() {
    let stage = Stage::new("secrets").await;
    let reuse = bounded(&stage, ReuseBounds::default());
    let failure = stage.read(&reuse, "tell").await.unwrap_err();
    assert_eq!(failure.message, "unrecognised option [secret]");
    assert_eq!(cache(&reuse).idle(), 1);
    let said = stage.read(&reuse, &format!("say/{PASSWORD}")).await.unwrap_err();
    assert_eq!(said.message, PASSWORD, "the next call was never given it as a secret");
    let live = cache(&reuse).take().unwrap();
    let between = live.store.data();
    assert!(between.unit.is_none() && between.mount().is_empty(), "no call's");
    stage.end().await;
}

#[tokio::test]
async fn each_call_of_instance_has_own_deadline() {
    let stage = Stage::new("deadline").await;
    let reuse = bounded(&stage, ReuseBounds::default());
    let first = stage.scope(&reuse, Duration::from_millis(100));
    let ended = first.deadline;
    stage.read_in(first, &stage.engine, "tally").await.unwrap();
    tokio::time::sleep_until(ended).await;
    let (began, time) = (Instant::now(), Duration::from_millis(300));
    let stopped =
        stage.read_in(stage.scope(&reuse, time), &stage.engine, "loop").await.unwrap_err();
    assert_eq!(stopped.kind, FailureKind::TimedOut);
    assert!((time..TEST_TIMEOUT).contains(&began.elapsed()), "stopped after {:?}", began.elapsed());
    stage.end().await;
}

#[tokio::test]
async fn idle_instances_end_with_mount_and_seal() {
    let stage = Stage::new("ends").await;
    let all = limits::INSTANCES as usize;
    let reuse = bounded(&stage, ReuseBounds::default());
    stage.tally(&reuse).await;
    assert_eq!(stage.free(), all - 1);
    drop(reuse);
    assert_eq!(stage.free(), all, "the mount is gone, or serves another version");

    let (open, late) =
        (bounded(&stage, ReuseBounds::default()), bounded(&stage, ReuseBounds::default()));
    stage.tally(&open).await;
    let lent = empty(&stage);
    stage.sandbox.close().await;
    assert_eq!((cache(&open).idle(), stage.free()), (0, all));
    drop(cache(&late).keep(lent));
    stage.read_while_closing(&open).await;
    assert_eq!((cache(&open).idle(), cache(&late).idle()), (0, 0), "a late call keeps nothing");
    let new = bounded(&stage, ReuseBounds::default());
    stage.read_while_closing(&new).await;
    assert_eq!((cache(&new).idle(), stage.free()), (0, all));
    stage.end().await;
}

#[tokio::test]
async fn idle_instances_yield_to_other_mounts_when_full() {
    let stage = Stage::new("full").await;
    let (many, one) =
        (bounded(&stage, ReuseBounds::default()), bounded(&stage, ReuseBounds::default()));
    let lent: Vec<LiveInstance> = (0..4).map(|_| empty(&stage)).collect();
    lent.into_iter().for_each(|live| drop(cache(&many).keep(live)));
    stage.tally(&one).await;
    // Due work, because it may take every slot.
    let compartment = Compartment::new(MOUNT, MountLimits::default());
    let admit = |slots| {
        let deadline = Instant::now() + TEST_TIMEOUT;
        stage.sandbox.admit(SlotRequest {
            compartment: &compartment,
            slots,
            priority: CallPriority::Background,
            caller: None,
            deadline,
        })
    };
    let busy = admit(limits::INSTANCES - 5).await.unwrap();
    assert_eq!(
        (stage.free(), cache(&many).idle()),
        (0, 4),
        "room was free, so nothing was dropped"
    );

    let _first = admit(1).await.unwrap();
    assert_eq!(
        (cache(&many).idle(), cache(&one).idle()),
        (3, 1),
        "the mount that keeps most gives way"
    );
    let _nested = admit(2).await.unwrap();
    assert_eq!((cache(&many).idle(), cache(&one).idle()), (1, 1));

    let waiting = admit(3);
    let ending = async {
        tokio::task::yield_now().await;
        assert_eq!((cache(&many).idle(), cache(&one).idle()), (0, 0));
        let live = empty(&stage);
        drop(cache(&many).keep(live));
        assert_eq!(cache(&many).idle(), 0, "no instance is kept while a call waits");
        drop(busy);
    };
    assert!(tokio::join!(waiting, ending).0.is_ok());
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_never_share_an_instance() {
    let stage = Arc::new(Stage::new("at-once").await);
    let reuse = bounded(&stage, ReuseBounds { calls: u32::MAX, ..ReuseBounds::default() });
    let calls = |_| {
        let (stage, reuse) = (Arc::clone(&stage), reuse.clone());
        tokio::spawn(async move {
            let mut served = 0;
            for _ in 0..200 {
                served += u64::from(stage.tally(&reuse).await == 1);
            }
            served
        })
    };
    let callers: Vec<_> = (0..8).map(calls).collect();
    let mut instances = 0;
    for caller in callers {
        instances += caller.await.unwrap();
    }
    assert!((1..=8).contains(&instances), "{instances} instances for 8 callers");
    let idle = cache(&reuse).idle();
    assert_eq!((stage.free(), idle as u64), (limits::INSTANCES as usize - idle, instances));
    drop(reuse);
    Arc::into_inner(stage).unwrap().end().await;
}
