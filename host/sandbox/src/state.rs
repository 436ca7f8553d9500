//! What one call carries through the sandbox: its scope, its unit of work, its counters.

use crate::bindings::contract;
use crate::cache::Lead;
use crate::call::Scope;
use crate::component::Identity;
use crate::engine::Sandbox;
use crate::grants::Act;
use crate::imports::Logged;
use crate::limits::{self, Exceeded, Limits};
use bulkhead_store::{StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    pub(crate) logged: Logged,
    /// Values that this call makes for the mount's cache: its lead ends with it, however it ends.
    pub(crate) leads: BTreeMap<String, Lead>,
    /// The epoch moved since its last host call.
    pub(crate) is_computing: bool,
    /// What a database plugin was last refused for want of a grant, to be told as it stands.
    pub(crate) refused_grant: Option<String>,
    pub(crate) wasi: Option<WasiCtx>,
    pub(crate) table: ResourceTable,
}

impl CallState {
    pub(crate) fn new(
        sandbox: &Arc<Sandbox>,
        scope: Scope,
        plugin: Arc<Identity>,
        unit: Option<Unit>,
    ) -> Self {
        let limits = scope.compartment.limits();
        let memory = Memory::new(limits.memory_bytes, &sandbox.runtime.guest_memory);
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        Self {
            sandbox: Arc::clone(sandbox),
            scope,
            plugin,
            unit,
            connection: None,
            conflict: false,
            memory,
            logged: Logged::default(),
            leads: BTreeMap::new(),
            is_computing: false,
            refused_grant: None,
            wasi: None,
            table,
        }
    }

    /// Counts the host call and asks its grant: the first line of every import.
    pub(crate) fn ask(&mut self, act: &Act<'_>) -> wasmtime::Result<Result<(), Failure>> {
        self.enter()?;
        Ok(self.scope.grants.ask(act))
    }

    /// The same for imports that cannot refuse: a refusal traps.
    pub(crate) fn demand(&mut self, act: &Act<'_>) -> wasmtime::Result<()> {
        match self.ask(act)? {
            Ok(()) => Ok(()),
            Err(refused) => bail!(Ungranted(refused.message)),
        }
    }

    /// Counts a host call.
    pub(crate) fn enter(&mut self) -> wasmtime::Result<()> {
        self.is_computing = false;
        let most = self.limits().host_calls;
        if self.scope.tree.count_host_call() > most {
            bail!(Exceeded::count("host-calls", most));
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.scope.compartment.limits()
    }

    /// The mount's uuid: the prefix of its rows.
    pub(crate) fn mount(&self) -> &str {
        self.scope.compartment.mount()
    }

    /// Counts bytes that the host holds for the call until it ends, and rounds of key derivation as
    /// bytes too.
    pub(crate) fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let most = self.limits().host_bytes;
        if self.scope.tree.hold(bytes) > most {
            bail!(Exceeded::size("host-bytes", most));
        }
        Ok(())
    }

    /// Counts bytes that the call writes.
    pub(crate) fn charge_write(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let most = self.limits().storage_bytes;
        if self.scope.tree.write(bytes) > most {
            bail!(Exceeded::size("storage", most));
        }
        self.charge(bytes)
    }

    /// Refuses a name that stands readable in the database, and in logs, and shows a secret of the
    /// call.
    pub(crate) fn check_name(&self, what: &str, name: &str) -> Result<(), contract::Failure> {
        if !self.scope.tree.secrets.shows(name) {
            return Ok(());
        }
        Err(refusal(&Failure::invalid(format!(
            "the {what} holds a piece of a secret; name it after something else"
        ))))
    }

    /// Refuses a lane that is no name of a target but a place to keep bytes.
    pub(crate) fn check_lane(&self, lane: &str) -> Result<(), contract::Failure> {
        if lane.len() > limits::LANE_BYTES {
            return Err(refusal(&Failure::invalid("a lane's name has at most 256 bytes")));
        }
        self.check_name("lane", lane)
    }

    /// The call's unit of work: the grant to its mount's storage.
    pub(crate) fn unit(&mut self) -> Result<&mut Unit, contract::Failure> {
        let name = &self.plugin.name;
        self.unit.as_mut().ok_or_else(|| {
            refusal(&Failure::denied(format!(
                "{name} is a nested plugin and has no storage, leases or timers"
            )))
        })
    }

    /// A storage fault as the plugin sees it.
    pub(crate) fn fault(&mut self, fault: StoreFault) -> contract::Failure {
        self.conflict |= fault == StoreFault::Conflict;
        refusal(&Failure::from(fault))
    }

    /// Whether the instance of an answered call is as good as a fresh one: it holds no handle of
    /// the host's, was not refused memory, and has not grown so much that keeping it would be
    /// keeping that.
    pub(crate) fn left_nothing(&self) -> bool {
        let is_small = !self.memory.exhausted && self.memory.used <= limits::REUSED_MEMORY_BYTES;
        is_small && self.table.is_empty()
    }

    /// `text` without any run of the call's secrets, and cut.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.scope.tree.secrets.scrub(text, limits::TEXT_BYTES)
    }
}

/// Why an import that cannot refuse stopped its call: there is no grant for it.
#[derive(Debug)]
pub(crate) struct Ungranted(String);

impl fmt::Display for Ungranted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Ungranted {}

/// A failure of ours as the contract words it.
pub(crate) fn refusal(failure: &Failure) -> contract::Failure {
    contract::Failure {
        code: failure.kind.code().to_owned(),
        message: failure.message.clone(),
        retry_after: failure.retry_after,
        ext: Vec::new(),
    }
}

/// Bytes of all linear memories of the process.
#[derive(Default)]
pub(crate) struct GuestMemory(AtomicUsize);

impl GuestMemory {
    fn take(&self, bytes: usize) -> bool {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= limits::GUEST_MEMORY_BYTES;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that instances have now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Memory of all linear memories of the instance, summed: wasmtime's own limit is for each memory.
pub(crate) struct Memory {
    used: usize,
    pub(crate) limit: usize,
    /// More was asked for than the instance may have.
    pub(crate) exhausted: bool,
    /// More was asked for than the process has.
    pub(crate) starved: bool,
    all: Arc<GuestMemory>,
}

impl Memory {
    fn new(limit: usize, all: &Arc<GuestMemory>) -> Self {
        Self { used: 0, limit, exhausted: false, starved: false, all: Arc::clone(all) }
    }

    /// Counts what the instance has already: a linear memory never shrinks.
    pub(crate) fn carry(&mut self, before: &mut Self) {
        self.used = std::mem::take(&mut before.used);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.all.give_back(self.used);
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let used = self.used.saturating_add(more);
        self.exhausted |= used > self.limit;
        if self.exhausted {
            return Ok(false);
        }
        self.starved |= !self.all.take(more);
        if self.starved {
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= limits::TABLE_ELEMENTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: usize = 1 << 20;

    #[test]
    fn memory_is_counted_for_the_instance_and_for_the_process_and_given_back_once() {
        let all = Arc::new(GuestMemory::default());
        let mut memory = Memory::new(3 * MEBIBYTE, &all);
        assert!(memory.memory_growing(0, MEBIBYTE, None).unwrap());
        assert!(
            memory.memory_growing(0, 2 * MEBIBYTE, None).unwrap(),
            "another memory of the same instance"
        );
        assert!(!memory.memory_growing(MEBIBYTE, 2 * MEBIBYTE, None).unwrap());
        assert!(memory.exhausted && all.used() == 3 * MEBIBYTE);
        let mut next = Memory::new(3 * MEBIBYTE, &all);
        next.carry(&mut memory);
        drop(memory);
        assert_eq!(all.used(), 3 * MEBIBYTE, "the instance lives on");
        drop(next);
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn when_the_process_has_no_more_memory_nobody_is_blamed_for_it() {
        let all = Arc::new(GuestMemory::default());
        let mut greedy = Memory::new(usize::MAX, &all);
        assert!(greedy.memory_growing(0, limits::GUEST_MEMORY_BYTES, None).unwrap());
        let mut modest = Memory::new(3 * MEBIBYTE, &all);
        assert!(!modest.memory_growing(0, 1, None).unwrap());
        assert!(modest.starved && !modest.exhausted);
        drop(greedy);
        assert!(Memory::new(3 * MEBIBYTE, &all).memory_growing(0, MEBIBYTE, None).unwrap());
    }
}
