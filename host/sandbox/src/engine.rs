//! The one wasmtime engine of the process, its settings, its epoch, and one linker a world.
//!
//! Settings follow two rules: nothing is on that a component of ours does not need, and a fresh
//! instance costs no system call (pooling allocator, memory wiped in place, small guest stack).

use crate::admission::InstanceSlots;
use crate::bindings::{database_plugin, secrets_engine};
use crate::cache::Caches;
use crate::cpu_permits::CpuPermits;
use crate::instance_cache::InstanceCache;
use crate::limits;
use crate::sql::Pools;
use crate::state::{CallState, Granted, GuestMemory};
use crate::wasi;
use bulkhead_store::Store;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use tokio::sync::Semaphore;
use wasmtime::component::Linker;
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, ModuleVersionStrategy, OptLevel,
    PoolingAllocationConfig, WasmBacktraceDetails,
};

/// What a process has of WebAssembly, whether its store is sealed or open: engine, linkers, and
/// what all calls share: the places of the engine's pool, turns to compute, memory, outbound HTTP
/// connections.
pub struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) secrets_engines: Linker<CallState>,
    pub(crate) database_plugins: Linker<CallState>,
    pub(crate) places: Arc<InstanceSlots>,
    pub(crate) cpu_permits: CpuPermits,
    pub(crate) guest_memory: Arc<GuestMemory>,
    pub(crate) connections: Arc<Semaphore>,
}

impl Runtime {
    /// Makes the engine and starts its epoch. Once a process: mixing types of two engines is a
    /// fault class of its own.
    ///
    /// # Errors
    /// What wasmtime refuses, e.g. an address space too small for the pool.
    pub fn new() -> Result<Arc<Self>, String> {
        let engine = engine()
            .map_err(|error| format!("the WebAssembly engine does not start: {error:#}"))?;
        let linkers =
            linkers(&engine).map_err(|error| format!("the component linker: {error:#}"))?;
        start_epoch(&engine)?;
        let (secrets_engines, database_plugins) = linkers;
        let (places, cpu_permits, guest_memory) =
            (InstanceSlots::new(limits::INSTANCES), CpuPermits::new(), Arc::default());
        let connections = Arc::new(Semaphore::new(limits::CONNECTIONS));
        Ok(Arc::new(Self {
            engine,
            secrets_engines,
            database_plugins,
            places,
            cpu_permits,
            guest_memory,
            connections,
        }))
    }
}

/// The sandbox over one open store: the process's runtime, the pools of outbound sessions, the
/// caches of mounts, and the idle instances. Ends when the store is sealed.
pub struct Sandbox {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) store: Arc<Store>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) shelves: InstanceCache,
    pub(crate) caches: Caches,
    /// Where the server listens: nothing of it is ever dialled by a component.
    pub(crate) own_addresses: Arc<[SocketAddr]>,
}

impl Sandbox {
    /// A sandbox whose calls get store time and units of work from `store`, and never dial
    /// `own_addresses`, on which the server listens.
    #[must_use]
    pub fn new(
        runtime: Arc<Runtime>,
        store: Arc<Store>,
        own_addresses: &[SocketAddr],
    ) -> Arc<Self> {
        let (pools, shelves, caches) =
            (Arc::default(), InstanceCache::default(), Caches::default());
        Arc::new(Self {
            runtime,
            store,
            pools,
            shelves,
            caches,
            own_addresses: own_addresses.into(),
        })
    }

    /// Closes the outbound sessions of a mount that is gone, or is granted other things now, and
    /// forgets what it kept in memory.
    pub fn close_mount(&self, mount: &str) {
        self.pools.close_mount(mount);
        self.caches.forget(mount);
    }

    /// Drops every idle instance and every cache, and closes every outbound session.
    pub async fn close(&self) {
        self.shelves.close();
        self.caches.clear();
        self.pools.close_all().await;
    }
}

/// What compiled code must have been compiled by. wasmtime's own check compares its major version
/// only, so that code of a patch release with a known miscompilation would still load; `build.rs`
/// reads the exact version from the lock file.
pub const BUILD: &str =
    concat!("bulkhead-", env!("CARGO_PKG_VERSION"), "-wasmtime-", env!("WASMTIME_VERSION"));

/// The engine that instances live in.
fn engine() -> wasmtime::Result<Engine> {
    let mut config = settings()?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    Engine::new(&config)
}

/// An engine that only compiles, for the one above: without a pool, whose address space a process
/// that compiles need not have.
pub(crate) fn compiler() -> wasmtime::Result<Engine> {
    let mut config = settings()?;
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
    Engine::new(&config)
}

/// What code is compiled for.
fn settings() -> wasmtime::Result<Config> {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .cranelift_opt_level(OptLevel::Speed)
        .memory_init_cow(true)
        .max_wasm_stack(limits::GUEST_STACK_BYTES)
        .async_stack_size(limits::HOST_STACK_BYTES)
        .wasm_tail_call(false)
        .wasm_relaxed_simd(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16));
    config.module_version(ModuleVersionStrategy::Custom(BUILD.to_owned()))?;
    Ok(config)
}

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(limits::INSTANCES)
        .total_core_instances(limits::INSTANCES * limits::CORE_INSTANCES_PER_INSTANCE)
        .total_memories(limits::INSTANCES)
        .total_tables(limits::INSTANCES * limits::TABLES_PER_INSTANCE)
        .total_stacks(limits::INSTANCES)
        // Whoever has one place has the room of one: these are without bound unless they are set.
        .max_core_instances_per_component(limits::CORE_INSTANCES_PER_INSTANCE)
        .max_memories_per_component(1)
        .max_tables_per_component(limits::TABLES_PER_INSTANCE)
        .table_elements(limits::TABLE_ELEMENTS)
        .max_memory_size(limits::MEMORY_CEILING_BYTES)
        .linear_memory_keep_resident(limits::MEMORY_KEPT_RESIDENT_BYTES)
        .table_keep_resident(limits::TABLE_KEPT_RESIDENT_BYTES);
    pool
}

fn linkers(engine: &Engine) -> wasmtime::Result<(Linker<CallState>, Linker<CallState>)> {
    let mut secrets_engines = Linker::new(engine);
    wasi::add_to_linker(&mut secrets_engines)?;
    secrets_engine::SecretsEngine::add_to_linker::<_, Granted>(&mut secrets_engines, |state| {
        state
    })?;
    let mut database_plugins = Linker::new(engine);
    wasi::add_to_linker(&mut database_plugins)?;
    database_plugin::DatabasePlugin::add_to_linker::<_, Granted>(&mut database_plugins, |state| {
        state
    })?;
    Ok((secrets_engines, database_plugins))
}

/// An ordinary thread, so that it moves on also when every worker of the runtime is busy in a
/// guest.
#[allow(clippy::disallowed_methods, reason = "it blocks this thread only, which does nothing else")]
fn start_epoch(engine: &Engine) -> Result<(), String> {
    let weak = engine.weak();
    let tick = move || {
        while let Some(engine) = weak.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::sleep(limits::EPOCH_TICK);
        }
    };
    let thread = std::thread::Builder::new().name("epoch".into()).spawn(tick);
    thread.map(drop).map_err(|error| format!("the epoch thread does not start: {error}"))
}
