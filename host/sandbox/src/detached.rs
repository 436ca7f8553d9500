//! The scope of an instance that serves no call: no mount, no grant, no host services.

use crate::call::{CallTree, Scope};
use crate::compartment::Compartment;
use crate::component::DatabasePlugin;
use crate::grants::Grants;
use crate::host_services::{Guard, HostServices, Level, Reservation};
use crate::instance_cache::Reuse;
use crate::limits::Limits;
use async_trait::async_trait;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::sync::{Arc, LazyLock};
use tokio::time::Instant;

/// The scope of an instance that is `doing` something for nobody until `deadline`.
pub(crate) fn scope(doing: &str, deadline: Instant) -> Scope {
    Scope {
        compartment: Compartment::new("", Limits::default()),
        grants: Arc::new(Grants::nobody(doing)),
        reuse: Reuse::Fresh,
        deadline,
        places: 1,
        services: Arc::new(Detached),
        tree: Arc::new(CallTree::default()),
    }
}

/// The scope of instances between two calls, when nothing of theirs runs. Made once: it is put in
/// place at the end of every call.
pub(crate) fn between_calls() -> Scope {
    static SCOPE: LazyLock<Scope> = LazyLock::new(|| scope("between calls", Instant::now()));
    SCOPE.clone()
}

/// The services of a call that has none.
struct Detached;

#[async_trait]
impl HostServices for Detached {
    async fn password(&self, _policy: &str) -> Result<String, Failure> {
        Err(alone())
    }

    fn database_plugin(&self, _name: &str, _version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(alone())
    }

    fn reserve(&self, _unit: &mut Unit, _reservation: Reservation) -> Result<(), Failure> {
        Err(alone())
    }

    fn withdraw(&self, _tag: &str) -> Result<(), Failure> {
        Err(alone())
    }

    fn guard(&self, _unit: &mut Unit, _guard: Guard) -> Result<(), Failure> {
        Err(alone())
    }

    async fn lease_count(&self, _lane: &str) -> Result<u32, Failure> {
        Err(alone())
    }

    fn log(&self, _level: Level, _plugin: &str, _event: &str, _pairs: &[(String, String)]) {}
}

fn alone() -> Failure {
    Failure::denied("describe must be pure: a component that is being described may call no import")
}
