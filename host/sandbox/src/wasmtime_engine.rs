//! The process's wasmtime engine: its settings, its pool of instances and its epoch.
//!
//! Settings follow two rules: a feature that our components do not need is off, and a fresh
//! instance costs at most one system call (pooling allocator, memory wiped in place, small guest
//! stack).

use crate::limits;
use std::num::NonZeroUsize;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, ModuleVersionStrategy, OptLevel,
    PoolingAllocationConfig, WasmBacktraceDetails,
};

/// Version tag that compiled code must have. wasmtime's own check compares only the major version,
/// so code of a patch release with a known miscompilation would still load. Code generator and
/// register allocator have versions of their own. `build.rs` reads the exact versions from the lock
/// file.
pub const BUILD: &str = concat!(
    "bulkhead-",
    env!("CARGO_PKG_VERSION"),
    "-wasmtime-",
    env!("WASMTIME_VERSION"),
    "-cranelift-",
    env!("CRANELIFT_VERSION"),
    "-regalloc-",
    env!("REGALLOC_VERSION")
);

/// Makes the engine of the instances. Once a process: mixing types of two engines is a class of
/// faults.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    let mut config = settings()?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    Engine::new(&config)
}

/// Makes an engine that only compiles, with the same settings but without a pool: a compiling
/// process may lack the pool's address space.
pub(crate) fn compiler() -> wasmtime::Result<Engine> {
    let mut config = settings()?;
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
    Engine::new(&config)
}

/// Makes an engine that compiles on the calling thread alone, for the check of executable memory.
pub(crate) fn prober() -> wasmtime::Result<Engine> {
    let mut config = settings()?;
    // No pool, and no threads that would stay.
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand).parallel_compilation(false);
    Engine::new(&config)
}

/// Returns the settings that decide the compiled code.
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
        .wasm_backtrace_max_frames(NonZeroUsize::new(limits::FRAMES));
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
        // Bounds a component to the share of a single slot; without these settings, the three
        // numbers have no bound.
        .max_core_instances_per_component(limits::CORE_INSTANCES_PER_INSTANCE)
        .max_memories_per_component(1)
        .max_tables_per_component(limits::TABLES_PER_INSTANCE)
        .table_elements(limits::TABLE_ELEMENTS)
        .max_memory_size(limits::MEMORY_CEILING_BYTES)
        // If the kernel reports the pages that a call wrote, only these pages are wiped, and the
        // other pages of the component's image stay as they are.
        .pagemap_scan(Enabled::Auto)
        .linear_memory_keep_resident(limits::MEMORY_KEPT_RESIDENT_BYTES)
        .table_keep_resident(limits::TABLE_KEPT_RESIDENT_BYTES);
    pool
}

/// Opens the kernel's map of this process's pages, which halves the cost of wiping a call's memory.
/// Must be called before the process is hardened: afterwards, a process that is not traceable and
/// not root's cannot open the map. Returns true if the map is available.
pub fn open_page_map() -> bool {
    // wasmtime keeps the map open from the first call on.
    PoolingAllocationConfig::is_pagemap_scan_available()
}

/// Moves the epoch on while the engine lives. Uses an ordinary thread, because all workers of the
/// runtime may be busy in guests.
#[allow(clippy::disallowed_methods, reason = "blocks only this thread, which has no other work")]
pub(crate) fn start_epoch(engine: &Engine) -> Result<(), String> {
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
