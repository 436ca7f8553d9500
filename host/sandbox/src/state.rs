//! What one call carries through its imports: its context, its unit of work, its counters.
//!
//! Never knows which imports there are: each of them is implemented on the state from above.

use crate::cache::Lead;
use crate::context::CallContext;
use crate::contract;
use crate::grants::Act;
use crate::identity::Identity;
use crate::limits::{self, Exceeded, Limits};
use crate::memory::Memory;
use crate::resources::Resources;
use bulkhead_store::{StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use wasmtime::bail;
use wasmtime::component::{HasData, ResourceTable};
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

/// What a nested call has to do with passwords.
pub(crate) enum PasswordUse {
    /// It changes that of the user.
    Change(String),
    /// It finds out whether one logs in.
    Proof,
    Other,
}

/// State of one instance. A nested database plugin has its own, without a unit of work.
pub(crate) struct CallState {
    pub(crate) resources: Arc<Resources>,
    pub(crate) context: CallContext,
    pub(crate) plugin: Arc<Identity>,
    pub(crate) unit: Option<Unit>,
    pub(crate) connection: Option<ConnectionKey>,
    pub(crate) password_use: PasswordUse,
    /// A checkpoint met a conflict: the call did not happen, also where the plugin answers.
    pub(crate) conflict: bool,
    pub(crate) memory: Memory,
    pub(crate) log_count: LogCount,
    /// Values that this call makes for the mount's cache: its lead ends with it, however it ends.
    pub(crate) leads: BTreeMap<String, Lead>,
    /// The epoch moved since its last host call.
    pub(crate) is_computing: bool,
    /// What a database plugin was last refused for want of a grant, to be passed on as it stands.
    pub(crate) refused_grant: Option<String>,
    pub(crate) wasi: Option<WasiCtx>,
    pub(crate) table: ResourceTable,
}

/// What a call has logged.
#[derive(Default)]
pub(crate) struct LogCount {
    pub(crate) lines: u32,
    pub(crate) bytes: usize,
    /// It logged more than it may, and no line of it is written any more.
    pub(crate) is_over: bool,
}

impl CallState {
    pub(crate) fn new(
        resources: &Arc<Resources>,
        context: CallContext,
        plugin: Arc<Identity>,
        unit: Option<Unit>,
    ) -> Self {
        let limits = context.compartment.limits();
        let memory = Memory::new(limits.memory_bytes, &resources.process.guest_memory);
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        Self {
            resources: Arc::clone(resources),
            context,
            plugin,
            unit,
            connection: None,
            password_use: PasswordUse::Other,
            conflict: false,
            memory,
            log_count: LogCount::default(),
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
        Ok(self.context.grants.ask(act))
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
        if self.context.tree.count_host_call() > most {
            bail!(Exceeded::count("host-calls", most));
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.context.compartment.limits()
    }

    /// The mount's uuid: the prefix of its rows.
    pub(crate) fn mount(&self) -> &str {
        self.context.compartment.mount()
    }

    /// Counts bytes that the host holds for the call until it ends, for the call, its mount and the
    /// process.
    pub(crate) fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.charge_work(bytes)?;
        let (mount, process) = (self.context.compartment.taken().held(), &self.resources.process);
        if !self.context.tree.held_memory.take(bytes, mount, &process.held_bytes) {
            self.memory.starved = true;
            bail!("the memory that the host holds for plugins is used up");
        }
        Ok(())
    }

    /// Counts work as bytes that the host would hold: rounds of key derivation.
    pub(crate) fn charge_work(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let most = self.limits().host_bytes;
        if self.context.tree.count_held_bytes(bytes) > most {
            bail!(Exceeded::size("host-bytes", most));
        }
        Ok(())
    }

    /// Counts what the call's unit of work holds for one row until it ends: these bytes of texts,
    /// and its place.
    pub(crate) fn charge_row(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.charge(bytes.saturating_add(limits::ROW_BYTES))
    }

    /// Counts bytes that the call writes.
    pub(crate) fn charge_write(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let most = self.limits().storage_bytes;
        if self.context.tree.count_written_bytes(bytes) > most {
            bail!(Exceeded::size("storage", most));
        }
        self.charge(bytes)
    }

    /// Refuses a name that stands readable in the database, and in logs, and shows a secret of the
    /// call.
    pub(crate) fn check_name(&self, what: &str, name: &str) -> Result<(), contract::Failure> {
        if !self.context.tree.secrets.shows(name) {
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

    /// A storage fault as the plugin sees it. Remembers a conflict.
    pub(crate) fn record_fault(&mut self, fault: StoreFault) -> contract::Failure {
        self.conflict |= fault == StoreFault::Conflict;
        refusal(&Failure::from(fault))
    }

    /// Whether the instance of an answered call is as good as a fresh one: it holds no handle of
    /// the host's, was not refused memory, and has not grown so much that keeping it would be
    /// keeping that.
    pub(crate) fn left_nothing(&self) -> bool {
        self.memory.is_small() && self.table.is_empty()
    }

    /// `text` for the operator's log, without the call's secrets, and cut.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.context.tree.secrets.scrub(text, limits::TEXT_BYTES)
    }

    /// `text` for the caller, or on its way to the component, without the call's secrets, and cut.
    pub(crate) fn scrub_for_caller(&self, text: &str) -> String {
        self.context.tree.secrets.scrub_for_caller(text, limits::TEXT_BYTES)
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
