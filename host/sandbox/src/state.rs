//! What one call carries through the sandbox: its scope, its unit of work, its counters.

use crate::bindings::contract;
use crate::call::Scope;
use crate::component::Identity;
use crate::engine::Sandbox;
use crate::limits;
use bulkhead_store::{StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;
use wasmtime::component::{HasData, ResourceTable};
use wasmtime::{ResourceLimiter, bail};
use wasmtime_wasi::WasiCtx;

/// Tells wasmtime that imports are implemented on the call's state itself.
pub(crate) struct Granted;

impl HasData for Granted {
    type Data<'a> = &'a mut CallState;
}

/// The connection of a nested call: with the mount, the key of its pools.
#[derive(Clone)]
pub(crate) struct ConnectionKey {
    pub(crate) name: String,
    pub(crate) generation: u64,
}

/// State of one instance. A nested database plugin has its own, without a unit of work.
pub(crate) struct CallState {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) scope: Scope,
    pub(crate) plugin: Arc<Identity>,
    pub(crate) unit: Option<Unit>,
    pub(crate) connection: Option<ConnectionKey>,
    /// A checkpoint met a conflict: whatever the plugin answers, the call did not happen.
    pub(crate) conflict: bool,
    pub(crate) memory: Memory,
    pub(crate) log_lines: u32,
    host_calls: u32,
    held: usize,
    pub(crate) wasi: Option<WasiCtx>,
    pub(crate) table: ResourceTable,
}

impl CallState {
    pub(crate) fn new(sandbox: &Arc<Sandbox>, scope: Scope, plugin: Arc<Identity>, unit: Option<Unit>) -> Self {
        let memory = Memory { used: 0, limit: scope.limits.memory_bytes, exhausted: false };
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits::HANDLES);
        Self {
            sandbox: Arc::clone(sandbox),
            scope,
            plugin,
            unit,
            connection: None,
            conflict: false,
            memory,
            log_lines: 0,
            host_calls: 0,
            held: 0,
            wasi: None,
            table,
        }
    }

    /// Counts a host call. The first line of every import, before its grant is asked.
    pub(crate) fn enter(&mut self) -> wasmtime::Result<()> {
        self.host_calls += 1;
        if self.host_calls > self.scope.limits.host_calls {
            bail!("more than {} host calls in one call", self.scope.limits.host_calls);
        }
        Ok(())
    }

    /// Counts bytes that the host holds for the call until it ends, and rounds of key derivation as bytes too.
    pub(crate) fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.held = self.held.saturating_add(bytes);
        if self.held > limits::HELD_BYTES {
            bail!("more than {} MiB held by the host for one call", limits::HELD_BYTES >> 20);
        }
        Ok(())
    }

    /// The call's unit of work: the grant to its mount's storage.
    pub(crate) fn unit(&mut self) -> Result<&mut Unit, contract::Failure> {
        let name = &self.plugin.name;
        self.unit.as_mut().ok_or_else(|| {
            refusal(&Failure::denied(format!("{name} is a nested plugin and has no storage, leases or timers")))
        })
    }

    /// A storage fault as the plugin sees it.
    pub(crate) fn fault(&mut self, fault: StoreFault) -> contract::Failure {
        self.conflict |= fault == StoreFault::Conflict;
        refusal(&Failure::from(fault))
    }

    /// Whether the instance of an answered call is as good as a fresh one: it holds no handle of the host's, was not
    /// refused memory, and has not grown so much that keeping it would be keeping that.
    pub(crate) fn left_nothing(&self) -> bool {
        let is_small = !self.memory.exhausted && self.memory.used <= limits::REUSED_MEMORY_BYTES;
        is_small && self.table.is_empty()
    }

    /// `text` without any run of the call's secrets, and cut.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.scope.root.secrets.scrub(text, limits::TEXT_BYTES)
    }
}

/// Refuses a lane that is no name of a target but a place to keep bytes.
pub(crate) fn check_lane(lane: &str) -> Result<(), contract::Failure> {
    if lane.len() <= limits::LANE_BYTES {
        return Ok(());
    }
    Err(refusal(&Failure::invalid("a lane's name has at most 256 bytes")))
}

/// A failure of ours as the contract words it.
pub(crate) fn refusal(failure: &Failure) -> contract::Failure {
    contract::Failure {
        code: failure.kind.code().to_owned(),
        message: failure.message.clone(),
        retry_after: failure.retry_after,
        ext: Vec::new(),
    }
}

/// Memory of all linear memories of the instance, summed: wasmtime's own limit is for each memory.
pub(crate) struct Memory {
    used: usize,
    pub(crate) limit: usize,
    pub(crate) exhausted: bool,
}

impl Memory {
    /// Counts what the instance has already: a linear memory never shrinks.
    pub(crate) fn carry(&mut self, before: &Self) {
        self.used = before.used;
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.limit {
            self.exhausted = true;
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= limits::TABLE_ELEMENTS)
    }
}
