//! One instance: its store, its limits, and how a call moves in and out.
//!
//! The fault this file stops: something of one call that a later call of the same instance can
//! reach. All that a call has is its [`CallState`], and that is replaced as a whole, at its
//! beginning and at its end; between two calls a store holds the state of no call.

use crate::cpu_permits;
use crate::detached;
use crate::identity::Identity;
use crate::limits;
use crate::resources::Resources;
use crate::state::CallState;
use std::sync::Arc;
use tokio::time::Instant;
use wasmtime::component::{Instance, InstancePre};
use wasmtime::{Store, UpdateDeadline};

/// A store with every limit set. Epochs do not interrupt a host call that waits, so callers bound
/// the whole call by its deadline as well.
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
        let permits = &resources.process.cpu_permits;
        Ok(cpu_permits::on_epoch(&context.tree, &context.compartment, permits))
    });
    store
}

/// A store and, once a call entered it, the component's instance in it.
pub(crate) struct Live {
    pub(crate) store: Store<CallState>,
    instance: Option<Instance>,
    born: Instant,
    calls: u32,
}

impl Live {
    /// An empty store for the call of `state`.
    pub(crate) fn new(state: CallState) -> Self {
        Self { store: new_store(state), instance: None, born: Instant::now(), calls: 0 }
    }

    /// When it was made.
    pub(crate) fn born(&self) -> Instant {
        self.born
    }

    /// Calls that entered it.
    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }

    /// The instance, made by the first call that asks. Counts the call.
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

    /// Moves the next call in. Only what belongs to the instance stays: the memory that it has
    /// grown to.
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
        let mut vacant = vacant(&ended.resources, &ended.plugin);
        vacant.memory.carry(&mut ended.memory);
        std::mem::replace(ended, vacant)
    }
}

/// The state of an instance that no call is in.
fn vacant(resources: &Arc<Resources>, plugin: &Arc<Identity>) -> CallState {
    CallState::new(resources, detached::between_calls(), Arc::clone(plugin), None)
}

#[cfg(test)]
mod tests;
