//! An instance: its store, its limits, and the entry and exit of a call.
//!
//! This file prevents the host's state of a call (unit of work, grants, secrets) from reaching a
//! later call of the same instance. The state is in a [`CallState`], which is replaced as a whole
//! at the beginning and at the end of the call; between two calls, a store holds the state of no
//! call. `instance_cache.rs` bounds the life of the guest's own memory.
//!
//! Example. `GET /v1/secret/data/app` takes a slot of the pool (`Sandbox::admit`).
//! `MountablePlugin::handle` moves the unit of work, the grants and the deadline of the call into a
//! [`CallState`], and [`LiveInstance::new`] makes a store around the state.
//! `LiveInstance::instance` instantiates the component, and the call enters the export `handle`
//! once. After the answer, the state comes out of the store with the unit of work, the pipeline
//! commits the unit, and the instance is dropped: the next request begins with fresh memory. If the
//! guest panics, runs out of its memory, or computes beyond its deadline, the instance is dropped
//! as well. The writes since the last checkpoint are dropped with the unit, the caller gets 500
//! (502 after the deadline) with the name and version of the component, and the crash counts for
//! the circuit breaker of the mount.

use crate::cpu_permits;
use crate::detached;
use crate::identity::ComponentIdentity;
use crate::limits;
use crate::resources::StoreResources;
use crate::state::CallState;
use std::sync::Arc;
use tokio::time::Instant;
use wasmtime::component::{Instance, InstancePre};
use wasmtime::{Store, UpdateDeadline};

/// Makes a store with every limit set. Epochs do not interrupt a host call that waits, so callers
/// also bound the whole call by its deadline.
pub(crate) fn new_store(state: CallState) -> Store<CallState> {
    let resources = Arc::clone(&state.resources);
    let handles = state.limits().handles;
    let mut store = Store::new(&resources.process.engine, state);
    store.limiter(|state| &mut state.memory);
    store.set_hostcall_fuel(limits::HOST_CALL_FUEL_BYTES);
    store.set_max_component_handles(handles);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut store| {
        let CallState { context, resources, is_computing, .. } = store.data_mut();
        if Instant::now() >= context.deadline {
            return Ok(UpdateDeadline::Interrupt);
        }
        *is_computing = true;
        if context.computes_too_long() {
            return Ok(UpdateDeadline::Interrupt);
        }
        let permits = &resources.process.cpu_permits;
        Ok(cpu_permits::on_epoch(&context.tree, &context.compartment, permits))
    });
    store
}

/// A store and, after the first call entered it, the component's instance.
pub(crate) struct LiveInstance {
    pub(crate) store: Store<CallState>,
    instance: Option<Instance>,
    born: Instant,
    calls: u32,
}

impl LiveInstance {
    /// Makes an empty store for the call of `state`.
    pub(crate) fn new(state: CallState) -> Self {
        Self { store: new_store(state), instance: None, born: Instant::now(), calls: 0 }
    }

    /// Returns the time of creation.
    pub(crate) fn created_at(&self) -> Instant {
        self.born
    }

    /// Returns the number of calls that entered the instance.
    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }

    /// Returns the instance; the first call creates it. Counts the call.
    pub(crate) async fn instance(
        &mut self,
        component: &InstancePre<CallState>,
    ) -> wasmtime::Result<Instance> {
        self.calls += 1;
        match self.instance {
            Some(instance) => Ok(instance),
            None => Ok(*self.instance.insert(component.instantiate_async(&mut self.store).await?)),
        }
    }

    /// Moves the next call in. Only the count of the instance's memory, which never shrinks, stays.
    pub(crate) fn begin(mut self, mut state: CallState) -> Self {
        state.memory.carry(&mut self.store.data_mut().memory);
        self.store.set_max_component_handles(state.limits().handles);
        *self.store.data_mut() = state;
        self.store.set_hostcall_fuel(limits::HOST_CALL_FUEL_BYTES);
        self.store.set_epoch_deadline(1);
        self
    }

    /// Moves the call out.
    pub(crate) fn end(&mut self) -> CallState {
        let ended = self.store.data_mut();
        let mut vacant = idle_state(&ended.resources, &ended.plugin);
        vacant.memory.carry(&mut ended.memory);
        std::mem::replace(ended, vacant)
    }
}

/// Makes the state of an instance without a call.
fn idle_state(resources: &Arc<StoreResources>, plugin: &Arc<ComponentIdentity>) -> CallState {
    CallState::new(resources, detached::idle_context(), Arc::clone(plugin), None)
}

#[cfg(test)]
mod tests;
