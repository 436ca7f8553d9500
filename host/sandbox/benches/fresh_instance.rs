//! What a plugin call costs: one read of a role by the official database engine, in a fresh
//! instance, and in one that served other calls (decision T4).
//!
//! Counted: store, instance, the call with its host calls, drop. The role stands in the unit of
//! work's own buffer, so that no disk is measured. Results go to the terminal and, as JSON, to
//! `target/bench.json`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops by panicking and reports by printing"
)]

#[path = "../../benches/figures.rs"]
mod figures;

use async_trait::async_trait;
use bulkhead_sandbox::contract::{Call, Caller, Mount, Outcome};
use bulkhead_sandbox::{
    Artefact, CallTree, Compartment, DatabasePlugin, Engine, Entity, Grants, Guard, HostServices,
    IdentityToken, Level, Limits, Maker, Reservation, Reuse, ReuseBounds, Rights, Runtime, Sandbox,
    Scope,
};
use bulkhead_store::{Address, Index, Options, SealKey, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WARM_UP: usize = 5_000;
const CALLS: usize = 50_000;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let target = figures::target();
    let directory = target.join(format!("bench-store-{}", std::process::id()));
    let bench = runtime.block_on(Bench::prepare(&target, &directory));
    let bench = Arc::new(bench);
    let bounded = bench.engine.reuse("mount", ReuseBounds::default());
    let figures = [Reuse::Fresh, bounded].map(|reuse| {
        runtime.block_on(calls(Arc::clone(&bench), reuse.clone(), WARM_UP));
        let mut times = runtime.block_on(calls(Arc::clone(&bench), reuse, CALLS));
        times.sort_unstable();
        [50, 99].map(|share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6)
    });
    let [[p50, p99], [reused_p50, reused_p99]] = figures;
    // Interleaved, because the machine is shared: one, two, one, two …
    let (mut one, mut two) = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        one = one.max(throughput(&runtime, &bench, 1));
        two = two.max(throughput(&runtime, &bench, 2));
    }
    println!("fresh instance, role read: p50 {p50:.1} µs (target 25), p99 {p99:.1} µs (target 60)");
    println!("reused instance, role read: p50 {reused_p50:.1} µs, p99 {reused_p99:.1} µs");
    println!("throughput: {one:.0} calls/s on one thread, {two:.0} on two: {:.2} times", two / one);
    figures::write(
        "fresh_instance",
        serde_json::json!({
            "p50_us": p50, "p99_us": p99, "reused_p50_us": reused_p50, "reused_p99_us": reused_p99,
            "one_thread_per_s": one, "two_threads_per_s": two,
        }),
    );
    drop(bench);
    std::fs::remove_dir_all(directory).unwrap();
}

fn throughput(runtime: &tokio::runtime::Runtime, bench: &Arc<Bench>, tasks: usize) -> f64 {
    let began = Instant::now();
    runtime.block_on(async {
        let running: Vec<_> = (0..tasks)
            .map(|_| tokio::spawn(calls(Arc::clone(bench), Reuse::Fresh, CALLS / 2)))
            .collect();
        for task in running {
            task.await.unwrap();
        }
    });
    (tasks * (CALLS / 2)) as f64 / began.elapsed().as_secs_f64()
}

async fn calls(bench: Arc<Bench>, reuse: Reuse, count: usize) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let (scope, unit) = (bench.scope(&reuse), bench.unit());
        let began = Instant::now();
        let done = bench.engine.handle(scope, unit, &bench.call).await;
        times.push(began.elapsed());
        assert!(matches!(done.result.unwrap().outcome, Outcome::Data(_)));
    }
    times
}

struct Bench {
    store: Arc<Store>,
    engine: Engine,
    call: Call,
    services: Arc<NoServices>,
    compartment: Arc<Compartment>,
}

impl Bench {
    async fn prepare(target: &Path, directory: &Path) -> Self {
        let store =
            Store::open(Options::at(directory), SealKey::generate().unwrap()).await.unwrap();
        let sandbox = Sandbox::new(Runtime::new().unwrap(), Arc::clone(&store), &[]);
        let wasm =
            std::fs::read(target.join("plugins/database.wasm")).expect("run `make build` first");
        let artefact = Artefact::Official { wasm: wasm.leak(), compiled: None };
        let engine = Engine::load(&sandbox, artefact, None).await.unwrap();
        let compartment = Compartment::new("mount", Limits::default());
        Self { store, engine, call: call(), services: Arc::new(NoServices), compartment }
    }

    fn unit(&self) -> Unit {
        let role = serde_json::json!({
            "db_name": "orders",
            "creation_statements": [
                "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL \
                 '{{expiration}}'",
            ],
            "revocation_statements": [], "renew_statements": [], "rollback_statements": [],
            "default_ttl": 3600, "max_ttl": 86400,
            "credential_type": "password", "credential_config": {},
        });
        let mut unit = self.store.begin();
        unit.put(
            Address::new(Space::Data, "mount/role/reader"),
            role.to_string().into_bytes(),
            Index::default(),
        );
        unit
    }

    fn scope(&self, reuse: &Reuse) -> Scope {
        let rights = Rights {
            mount: "database/",
            maker: Maker::Official,
            asked: &[],
            ceiling: None,
            granted: None,
        };
        Scope {
            compartment: Arc::clone(&self.compartment),
            grants: Arc::new(Grants::of(&rights)),
            reuse: reuse.clone(),
            deadline: tokio::time::Instant::now() + Duration::from_secs(90),
            slots: 1,
            services: Arc::clone(&self.services) as Arc<dyn HostServices>,
            tree: Arc::new(CallTree::default()),
        }
    }
}

fn call() -> Call {
    Call {
        id: "bench".into(),
        operation: "read".into(),
        route: "roles/{name}".into(),
        captures: vec![("name".into(), "reader".into())],
        fields: r#"{"name":"reader"}"#.into(),
        resumed: false,
        deadline: u64::MAX,
        caller: Caller {
            entity: String::new(),
            display_name: "token".into(),
            id: "caller".into(),
            capabilities: vec!["read".into()],
            remote_address: "127.0.0.1".into(),
            ext: Vec::new(),
        },
        mount: Mount {
            path: "database/".into(),
            accessor: "database_1".into(),
            kind: "database".into(),
            default_ttl: 3600,
            max_ttl: 86400,
            longest_lease: 86400,
            options: Vec::new(),
            ext: Vec::new(),
        },
        ext: Vec::new(),
    }
}

struct NoServices;

#[async_trait]
impl HostServices for NoServices {
    async fn password(&self, _unit: &mut Unit, _policy: &str) -> Result<String, Failure> {
        Err(Failure::internal("not measured"))
    }

    fn password_from(&self, _length: u32, _alphabet: &str) -> Result<String, Failure> {
        Err(Failure::internal("not measured"))
    }

    async fn identity_token(&self, _audience: &str, _ttl: u64) -> Result<IdentityToken, Failure> {
        Err(Failure::absent())
    }

    async fn entity(&self, _id: &str) -> Result<Option<Entity>, Failure> {
        Ok(None)
    }

    fn database_plugin(&self, _name: &str, _version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(Failure::internal("not measured"))
    }

    fn reserve(&self, _unit: &mut Unit, _reservation: Reservation) -> Result<(), Failure> {
        Err(Failure::internal("not measured"))
    }

    fn withdraw(&self, _tag: &str) -> Result<(), Failure> {
        Err(Failure::internal("not measured"))
    }

    fn guard(&self, _unit: &mut Unit, _guard: Guard) -> Result<(), Failure> {
        Err(Failure::internal("not measured"))
    }

    async fn lease_count(&self, _lane: &str) -> Result<u32, Failure> {
        Err(Failure::internal("not measured"))
    }

    fn log(&self, _level: Level, plugin: &str, event: &str, pairs: &[(String, String)]) {
        panic!("{plugin} logs {event}: {pairs:?}");
    }
}
