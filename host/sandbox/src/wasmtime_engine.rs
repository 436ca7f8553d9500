//! The one wasmtime engine of the process: its settings, its pool of instances and its epoch.
//!
//! Settings follow two rules: nothing is on that a component of ours does not need, and a fresh
//! instance costs one system call at most (pooling allocator, memory wiped in place, small guest
//! stack).

use crate::limits;
use std::num::NonZeroUsize;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, ModuleVersionStrategy, OptLevel,
    PoolingAllocationConfig, WasmBacktraceDetails,
};

/// What compiled code must have been compiled by. wasmtime's own check compares its major version
/// only, so that code of a patch release with a known miscompilation would still load; `build.rs`
/// reads the exact version from the lock file.
pub const BUILD: &str =
    concat!("bulkhead-", env!("CARGO_PKG_VERSION"), "-wasmtime-", env!("WASMTIME_VERSION"));

/// The engine that instances live in. Made once a process: mixing types of two engines is a fault
/// class of its own.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
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
        // A component in one slot has the room of one: these are without bound unless they are
        // set.
        .max_core_instances_per_component(limits::CORE_INSTANCES_PER_INSTANCE)
        .max_memories_per_component(1)
        .max_tables_per_component(limits::TABLES_PER_INSTANCE)
        .table_elements(limits::TABLE_ELEMENTS)
        .max_memory_size(limits::MEMORY_CEILING_BYTES)
        // Where the kernel tells which pages a call wrote, only those are wiped, and the others of
        // the component's image stay as they are.
        .pagemap_scan(Enabled::Auto)
        .linear_memory_keep_resident(limits::MEMORY_KEPT_RESIDENT_BYTES)
        .table_keep_resident(limits::TABLE_KEPT_RESIDENT_BYTES);
    pool
}

/// Opens the kernel's map of this process's pages, by which a call's memory is wiped for half of
/// what it costs without. To be asked before the process is hardened: one that may not be traced,
/// and is not root's, is not let in any more. Says whether there is such a map.
pub fn open_page_map() -> bool {
    // It stays open from the first time it was asked for.
    PoolingAllocationConfig::is_pagemap_scan_available()
}

/// Moves the epoch on for as long as the engine lives. An ordinary thread, so that it does also
/// when every worker of the runtime is busy in a guest.
#[allow(clippy::disallowed_methods, reason = "it blocks this thread only, which does nothing else")]
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
