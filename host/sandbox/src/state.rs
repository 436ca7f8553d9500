//! State of a call that imports see: its context, its unit of work, its counters.
//!
//! Does not know the imports: the layer above implements each import on this state.

use crate::cache::CacheLead;
use crate::call_spans::CallSpans;
use crate::context::CallContext;
use crate::contract;
use crate::grants::Act;
use crate::identity::ComponentIdentity;
use crate::limits::{self, ExceededLimit, MountLimits};
use crate::memory::MemoryLimiter;
use crate::output::CallOutput;
use crate::resources::StoreResources;
use crate::target_calls::TargetInterface;
use bulkhead_store::{StoreFault, Unit};
use bulkhead_trace::{OpenSpan, SpanKind};
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use wasmtime::bail;
use wasmtime::component::{HasData, ResourceTable};
use wasmtime_wasi::WasiCtx;

/// Tells wasmtime that imports are implemented on the call's state itself.
pub(crate) struct CallStateData;

impl HasData for CallStateData {
    type Data<'a> = &'a mut CallState;
}

/// The connection of a nested call; with the mount, the key of the connection's pools.
#[derive(Clone)]
pub(crate) struct ConnectionKey {
    pub(crate) name: String,
    pub(crate) generation: u64,
}

/// Use of passwords in a nested call.
pub(crate) enum PasswordUse {
    /// The call changes the password of this user.
    Change(String),
    /// The call tests if a password logs in.
    Proof,
    Other,
}

/// State of an instance. A nested database plugin has a separate state without a unit of work.
pub(crate) struct CallState {
    pub(crate) resources: Arc<StoreResources>,
    pub(crate) context: CallContext,
    pub(crate) plugin: Arc<ComponentIdentity>,
    pub(crate) unit: Option<Unit>,
    pub(crate) connection: Option<ConnectionKey>,
    pub(crate) password_use: PasswordUse,
    /// A checkpoint met a conflict: the call has no effect, even if the plugin answers.
    pub(crate) conflict: bool,
    pub(crate) memory: MemoryLimiter,
    pub(crate) log_count: LogCount,
    pub(crate) spans: CallSpans,
    /// Values that this call makes for the mount's cache. Each lead ends with the call.
    pub(crate) leads: BTreeMap<String, CacheLead>,
    /// The epoch moved since the last host call.
    pub(crate) is_computing: bool,
    /// Begin of the last host call to a target.
    target_call_began: Instant,
    /// The last refusal of a database plugin for a missing grant, to be passed on unchanged.
    pub(crate) refused_grant: Option<String>,
    pub(crate) wasi: Option<WasiCtx>,
    /// Standard output and standard error; `None` for a guest that never used WASI.
    pub(crate) output: Option<CallOutput>,
    pub(crate) table: ResourceTable,
}

/// Log output of a call.
#[derive(Default)]
pub(crate) struct LogCount {
    pub(crate) lines: u32,
    pub(crate) bytes: usize,
    /// The call logged too much; no further line is written.
    pub(crate) is_over: bool,
}

impl CallState {
    pub(crate) fn new(
        resources: &Arc<StoreResources>,
        mut context: CallContext,
        plugin: Arc<ComponentIdentity>,
        unit: Option<Unit>,
    ) -> Self {
        let spans = CallSpans::begin(&mut context, &plugin);
        let limits = context.compartment.limits();
        let of_mount = context.compartment.taken().guest_memory();
        let all = &resources.process.guest_memory;
        let memory = MemoryLimiter::new(limits.memory_bytes, all, of_mount);
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
            spans,
            leads: BTreeMap::new(),
            is_computing: false,
            target_call_began: Instant::now(),
            refused_grant: None,
            wasi: None,
            output: None,
            table,
        }
    }

    /// Counts the host call and checks the grant: the first line of every import.
    pub(crate) fn check_grant(&mut self, act: &Act<'_>) -> wasmtime::Result<Result<(), Failure>> {
        self.enter()?;
        Ok(self.context.grants.check_act(act))
    }

    /// Does the same for imports that cannot refuse: a refusal traps.
    pub(crate) fn require_grant(&mut self, act: &Act<'_>) -> wasmtime::Result<()> {
        match self.check_grant(act)? {
            Ok(()) => Ok(()),
            Err(refused) => bail!(MissingGrant(refused.message)),
        }
    }

    /// Counts a host call, for the call and for the mount.
    pub(crate) fn enter(&mut self) -> wasmtime::Result<()> {
        self.is_computing = false;
        self.context.compartment.note_host_call();
        let most = self.limits().host_calls;
        if self.context.tree.count_host_call() > most {
            bail!(ExceededLimit::count("host-calls", most));
        }
        Ok(())
    }

    /// Enters a host call to a target like [`CallState::enter`], and begins its time and its span.
    pub(crate) fn enter_target(&mut self, interface: TargetInterface) -> wasmtime::Result<()> {
        self.target_call_began = Instant::now();
        self.spans.begin_host_call(self.context.trace.as_ref(), interface);
        self.enter()
    }

    /// Begins the span of the exchange with the target of the host call.
    pub(crate) fn begin_exchange(&mut self, target: impl FnOnce() -> String) {
        if self.spans.has_host_call() {
            let target = self.scrub(&target());
            self.spans.begin_exchange(&target);
        }
    }

    /// Counts the host call to a target that ends now.
    pub(crate) fn note_target(&mut self, interface: TargetInterface, is_answered: bool) {
        let time = self.target_call_began.elapsed();
        self.resources.target_calls.note(self.mount(), interface, (is_answered, time));
        self.spans.end_host_call(is_answered);
    }

    /// Begins the span of a host call that stays inside of the server.
    pub(crate) fn begin_step(&self, name: &'static str) -> Option<OpenSpan> {
        self.context.trace.as_ref()?.child(name, SpanKind::Internal)
    }

    pub(crate) fn limits(&self) -> &MountLimits {
        self.context.compartment.limits()
    }

    /// Returns the mount's uuid: the prefix of its rows.
    pub(crate) fn mount(&self) -> &str {
        self.context.compartment.mount()
    }

    /// Counts bytes that the host holds until the call ends. The bytes count for the call, the
    /// mount and the process.
    pub(crate) fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.charge_work(bytes)?;
        let (mount, process) = (self.context.compartment.taken().held(), &self.resources.process);
        if !self.context.tree.held_memory.take(bytes, mount, &process.held_bytes) {
            self.memory.starved = true;
            bail!("the host's memory for plugins is used up");
        }
        Ok(())
    }

    /// Counts work, such as rounds of key derivation, as bytes against the call's limit
    /// `host-bytes`.
    pub(crate) fn charge_work(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let most = self.limits().host_bytes;
        if self.context.tree.count_held_bytes(bytes) > most {
            bail!(ExceededLimit::size("host-bytes", most));
        }
        Ok(())
    }

    /// Counts the memory of a row in the call's unit of work: `bytes` of texts, and the entry.
    pub(crate) fn charge_row(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.charge(bytes.saturating_add(limits::ROW_BYTES))
    }

    /// Counts bytes that the call writes.
    pub(crate) fn charge_write(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let most = self.limits().storage_bytes;
        if self.context.tree.count_written_bytes(bytes) > most {
            bail!(ExceededLimit::size("storage", most));
        }
        self.charge(bytes)
    }

    /// Refuses a name that shows a secret of the call: names are readable in the database and in
    /// logs.
    pub(crate) fn check_name(&self, noun: &str, name: &str) -> Result<(), contract::Failure> {
        if !self.context.tree.secrets.reveals_secret(name) {
            return Ok(());
        }
        Err(refusal(&Failure::invalid(format!(
            "the {noun} holds a piece of a secret; choose another name"
        ))))
    }

    /// Refuses a lane name that is too long or shows a secret.
    pub(crate) fn check_lane(&self, lane: &str) -> Result<(), contract::Failure> {
        if lane.len() > limits::LANE_BYTES {
            return Err(refusal(&Failure::invalid("a lane's name has at most 256 bytes")));
        }
        self.check_name("lane", lane)
    }

    /// Returns the call's unit of work: the grant to the mount's storage.
    pub(crate) fn unit(&mut self) -> Result<&mut Unit, contract::Failure> {
        let name = &self.plugin.name;
        self.unit.as_mut().ok_or_else(|| {
            refusal(&Failure::denied(format!(
                "{name} is a nested plugin and has no storage, leases or timers"
            )))
        })
    }

    /// Converts a storage fault for the plugin. Records a conflict.
    pub(crate) fn record_fault(&mut self, fault: StoreFault) -> contract::Failure {
        self.conflict |= fault == StoreFault::Conflict;
        refusal(&Failure::from(fault))
    }

    /// Returns true if the instance of an answered call is as good as a fresh instance: the call
    /// left no handle of the host, was not refused memory, and the memory is small enough to keep.
    /// A call that wrote output may have left a part of a line in a buffer of the guest: the part
    /// would reach the log with the next call, which does not know the secrets of this call.
    pub(crate) fn is_reusable(&self) -> bool {
        self.memory.is_small()
            && self.table.is_empty()
            && self.output.as_ref().is_none_or(CallOutput::is_empty)
    }

    /// Scrubs the call's secrets from `text` for the operator's log, and cuts the text.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.context.tree.secrets.scrub(text, limits::TEXT_BYTES)
    }

    /// Scrubs the call's secrets from `text` for the caller or the component, and cuts the text.
    pub(crate) fn scrub_for_caller(&self, text: &str) -> String {
        self.context.tree.secrets.scrub_for_caller(text, limits::TEXT_BYTES)
    }
}

/// The error of an import that cannot refuse: the grant is missing.
#[derive(Debug)]
pub(crate) struct MissingGrant(String);

impl fmt::Display for MissingGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MissingGrant {}

/// Converts our failure into the contract's type.
pub(crate) fn refusal(failure: &Failure) -> contract::Failure {
    contract::Failure {
        code: failure.kind.code().to_owned(),
        message: failure.message.clone(),
        retry_after: failure.retry_after,
        ext: Vec::new(),
    }
}
