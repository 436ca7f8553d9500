//! The process's WebAssembly, and the sandbox over one open store: how calls are let in, and how
//! all of it ends.

use crate::admission::{self, Admission, Entered, SlotRequest};
use crate::instance_cache::InstanceCaches;
use crate::linkers::Linkers;
use crate::metrics::Readings;
use crate::outbound::Outbound;
use crate::resources::{ProcessResources, Resources};
use crate::surroundings::Surroundings;
use crate::wasmtime_engine;
use bulkhead_store::Store;
use bulkhead_wire::failure::{Failure, Kind};
use std::net::SocketAddr;
use std::sync::Arc;

/// What a process has of WebAssembly, whether its store is sealed or open: engine, linkers, and
/// what all calls share.
pub struct Runtime {
    pub(crate) resources: Arc<ProcessResources>,
    pub(crate) linkers: Linkers,
}

impl Runtime {
    /// Makes the engine and starts its epoch. Once a process: mixing types of two engines is a
    /// fault class of its own.
    ///
    /// # Errors
    /// What wasmtime refuses, e.g. an address space too small for the pool.
    pub fn new() -> Result<Arc<Self>, String> {
        let engine = wasmtime_engine::engine()
            .map_err(|error| format!("the WebAssembly engine does not start: {error:#}"))?;
        let linkers =
            Linkers::new(&engine).map_err(|error| format!("the component linker: {error:#}"))?;
        wasmtime_engine::start_epoch(&engine)?;
        Ok(Arc::new(Self { resources: ProcessResources::new(engine), linkers }))
    }
}

/// The sandbox over one open store: the process's runtime, what calls share of the store, and the
/// idle instances. Ends when the store is sealed.
pub struct Sandbox {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) resources: Arc<Resources>,
    pub(crate) instance_caches: InstanceCaches,
}

impl Sandbox {
    /// A sandbox whose calls get store time and units of work from `store`, and never dial
    /// `own_addresses`, on which the server listens. `surroundings` are the machine's, and
    /// `outbound` is how components' HTTP leaves it.
    #[must_use]
    pub fn new(
        runtime: Arc<Runtime>,
        store: Arc<Store>,
        own_addresses: &[SocketAddr],
        surroundings: &Surroundings,
        outbound: &Outbound,
    ) -> Arc<Self> {
        let resources =
            Resources::new(&runtime.resources, store, own_addresses, surroundings, outbound);
        Arc::new(Self { runtime, resources, instance_caches: InstanceCaches::default() })
    }

    /// Waits for slots, in turn with the calls of other mounts.
    ///
    /// # Errors
    /// `unavailable` when there are none until the deadline, and at once when more calls of the
    /// mount wait than may: this one, or one of the client that has most of them.
    pub async fn admit(&self, wanted: SlotRequest<'_>) -> Result<Admission, Failure> {
        let (admission, lacks_room) = match self.resources.process.slots.enter(&wanted) {
            Entered::Admitted(admission) => return Ok(admission),
            Entered::Crowded => return Err(admission::crowded()),
            Entered::Waits { admission, lacks_room } => (admission, lacks_room),
        };
        if lacks_room {
            // After the wait has begun: a slot that becomes free belongs to the call that waits
            // first, and not to an instance that a call which just ended would like to keep.
            self.instance_caches.make_room(wanted.slots);
        }
        match tokio::time::timeout_at(wanted.deadline, admission).await {
            Ok(Ok(admission)) => Ok(admission),
            Ok(Err(_)) => Err(admission::crowded()),
            Err(_) => Err(Failure::new(
                Kind::Unavailable,
                "all plugin instances are busy; try again later",
            )),
        }
    }

    /// Closes the outbound sessions of a mount that is gone, or is granted other things now, and
    /// forgets what it kept in memory.
    pub fn close_mount(&self, mount: &str) {
        self.resources.close_mount(mount);
    }

    /// What the calls of a mount gave about it, since this sandbox was made and the mount was last
    /// closed.
    #[must_use]
    pub fn metrics_of(&self, mount: &str) -> Readings {
        self.resources.metrics.of(mount)
    }

    /// Cuts the calls that still run, drops every idle instance and every cache, and closes every
    /// outbound session.
    pub async fn close(&self) {
        self.instance_caches.close();
        self.resources.close().await;
    }
}
