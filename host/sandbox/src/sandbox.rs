//! The process's WebAssembly runtime, and the sandbox over an open store: admission and closing.

use crate::admission::{self, AdmissionOutcome, SlotPermit, SlotRequest};
use crate::closing::CallKind;
use crate::compartment::Compartment;
use crate::counted_events::{CodeSource, PluginSwap};
use crate::engine_start;
use crate::instance_cache::InstanceCaches;
use crate::limits;
use crate::linkers::Linkers;
use crate::metrics::MetricReadings;
use crate::resources::{ProcessResources, StoreResources};
use crate::target_calls::{TargetCallReading, TargetInterface};
use crate::wasmtime_engine;
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_store::Store;
use bulkhead_wire::duration_histogram::HistogramReading;
use bulkhead_wire::event_counts::EventCounts;
use bulkhead_wire::failure::Failure;
use std::net::SocketAddr;
use std::sync::Arc;

/// The process's WebAssembly runtime, whether the store is sealed or open: engine, linkers, and the
/// resources that all calls share.
pub struct SandboxRuntime {
    pub(crate) resources: Arc<ProcessResources>,
    pub(crate) linkers: Linkers,
}

impl SandboxRuntime {
    /// Makes the engine and starts its epoch. Called once a process: mixing types of two engines is
    /// a class of faults.
    ///
    /// # Errors
    /// The refusal of the system, and the setting to change, e.g. if the address space is too small
    /// for the pool.
    pub fn new() -> Result<Arc<Self>, String> {
        let engine = engine_start::start()?;
        let linkers =
            Linkers::new(&engine).map_err(|error| format!("the component linker: {error:#}"))?;
        wasmtime_engine::start_epoch(&engine)?;
        Ok(Arc::new(Self { resources: ProcessResources::new(engine), linkers }))
    }
}

/// The sandbox over an open store: the process's runtime, the resources of the store's calls, and
/// the idle instances. Ends when the store is sealed.
pub struct Sandbox {
    pub(crate) runtime: Arc<SandboxRuntime>,
    pub(crate) store: Arc<Store>,
    pub(crate) resources: Arc<StoreResources>,
    pub(crate) instance_caches: InstanceCaches,
    /// Changes of the versions of mounts.
    pub swaps: EventCounts<PluginSwap, 3>,
    /// Loads of compiled code.
    pub code_loads: EventCounts<CodeSource, 2>,
}

/// The use of the pool of instances at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceReading {
    /// Instances that running calls hold.
    pub running: u64,
    /// Instances that wait for a call.
    pub idle: u64,
    /// Calls that wait for an instance.
    pub waiting: u64,
}

/// The stop of a kind of calls of a mount, until dropped.
pub struct MountStop {
    resources: Arc<StoreResources>,
    mount: String,
    kind: CallKind,
}

impl Drop for MountStop {
    fn drop(&mut self) {
        self.resources.closing.resume(&self.mount, self.kind);
    }
}

impl Sandbox {
    /// Makes a sandbox. Calls get store time and units of work from `store`, and never dial
    /// `own_addresses`, on which the server listens. `ambient` is the machine's, and `outbound`
    /// decides the route of the components' HTTP.
    #[must_use]
    pub fn new(
        runtime: Arc<SandboxRuntime>,
        store: Arc<Store>,
        own_addresses: &[SocketAddr],
        ambient: &AmbientSources,
        outbound: &OutboundNetwork,
    ) -> Arc<Self> {
        let clock = Some(Arc::clone(&store));
        let resources =
            StoreResources::new(&runtime.resources, clock, own_addresses, ambient, outbound);
        let instance_caches = InstanceCaches::default();
        let (swaps, code_loads) = (EventCounts::default(), EventCounts::default());
        Arc::new(Self { runtime, store, resources, instance_caches, swaps, code_loads })
    }

    /// Waits for slots, in turn with the calls of other mounts.
    ///
    /// # Errors
    /// `unavailable` if no slots are free until the deadline, or if too many calls of the mount
    /// wait: then either this call or a call of the client with most waiting calls fails at once.
    pub async fn admit(&self, wanted: SlotRequest<'_>) -> Result<SlotPermit, Failure> {
        let (admission, lacks_room) = match self.resources.process.slots.enter(&wanted) {
            AdmissionOutcome::Admitted(admission) => return Ok(admission),
            AdmissionOutcome::Crowded => return Err(admission::crowded()),
            AdmissionOutcome::Waits { admission, lacks_room } => (admission, lacks_room),
        };
        if lacks_room {
            // After this call has joined the queue: a freed slot then belongs to the call that
            // waits first, and not to an instance that a just ended call would like to keep.
            self.instance_caches.make_room(wanted.slots);
        }
        admission::wait(admission, wanted.deadline).await
    }

    /// Closes the outbound sessions of a mount that is gone or has new grants, and drops the
    /// mount's data in memory.
    pub fn close_mount(&self, mount: &str) {
        self.resources.close_mount(mount);
    }

    /// Cuts the running and the coming calls of a kind of `mount` until the guard is dropped. A
    /// change outside that a call has begun is never cut.
    #[must_use]
    pub fn stop_calls(&self, mount: &str, kind: CallKind) -> MountStop {
        self.resources.closing.stop(mount, kind);
        MountStop { resources: Arc::clone(&self.resources), mount: mount.to_owned(), kind }
    }

    /// Cuts the migrations of all mounts, for the seal and for the end of the process.
    pub fn end_migrations(&self) {
        self.resources.closing.end_migrations();
    }

    /// Resolves as soon as the migration of `mount` must end.
    pub async fn wait_for_migration_stop(&self, mount: &str) {
        self.resources.closing.wait_for_stop(mount, CallKind::Migration).await;
    }

    /// Returns the metrics that the calls of a mount have reported since this sandbox was made or
    /// the mount was last closed.
    #[must_use]
    pub fn metrics_of(&self, mount: &str) -> MetricReadings {
        self.resources.metrics.of(mount)
    }

    /// Returns the calls of a mount to its targets, by interface.
    #[must_use]
    pub fn target_calls_of(&self, mount: &str) -> Vec<(TargetInterface, TargetCallReading)> {
        self.resources.target_calls.of(mount)
    }

    /// Returns the times of all calls to targets, by interface.
    #[must_use]
    pub fn target_durations(&self) -> Vec<(TargetInterface, HistogramReading)> {
        self.resources.target_calls.read_durations()
    }

    /// Returns the use of the pool of instances.
    #[must_use]
    pub fn instances(&self) -> InstanceReading {
        let slots = &self.resources.process.slots;
        let idle = self.instance_caches.idle();
        let taken = (limits::INSTANCES as usize).saturating_sub(slots.free());
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        InstanceReading {
            running: number(taken.saturating_sub(idle)),
            idle: number(idle),
            waiting: number(slots.waiting()),
        }
    }

    /// Returns the bytes of memory that the host knows of a mount: linear memories of running and
    /// idle instances, data that the host holds for calls, and the cache.
    #[must_use]
    pub fn memory_of(&self, compartment: &Compartment) -> u64 {
        let taken = compartment.taken();
        let cached = self.resources.caches.bytes_of(compartment.mount());
        let bytes = taken.guest_memory().used().saturating_add(taken.held().bytes());
        u64::try_from(bytes.saturating_add(cached)).unwrap_or(u64::MAX)
    }

    /// Cuts the running calls, drops every idle instance and every cache, and closes every outbound
    /// session.
    pub async fn close(&self) {
        self.instance_caches.close();
        self.resources.close().await;
    }
}
