//! The `clock` import: store time, and timers and guards as rows of the call's unit of work.

use crate::bindings::secrets_engine::bulkhead::plugin::clock::Host;
use crate::contract::Failure;
use crate::grants::Act;
use crate::host_services::TimerGuard;
use crate::limits;
use crate::state::{CallState, refusal};
use bulkhead_store::{Address, IndexColumns, Space};
use bulkhead_wire::failure::Failure as Refused;
use std::sync::Arc;
use std::time::Duration;

impl Host for CallState {
    fn now(&mut self) -> wasmtime::Result<u64> {
        self.require_grant(&Act::Time)?;
        Ok(self.resources.now())
    }

    fn schedule(
        &mut self,
        key: String,
        at: u64,
        lane: String,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Timers);
        self.charge_row(key.len().saturating_add(lane.len()))?;
        Ok(schedule(self, &key, at, &lane))
    }

    fn guard(&mut self, key: String, lane: String) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Timers);
        self.charge_row(key.len().saturating_add(lane.len()))?;
        Ok(guard(self, &key, &lane))
    }

    fn widen(&mut self, lane: String, places: u32) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Timers);
        let checked = self.check_lane(&lane);
        Ok(checked.map(|()| self.context.services.widen_lane(&lane, places)))
    }

    fn rest(&mut self, lane: String) -> wasmtime::Result<Result<Option<u64>, Failure>> {
        granted!(self, Act::Timers);
        let milliseconds = |rest: Duration| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        Ok(Ok(self.context.services.rest_of_lane(&lane).map(milliseconds)))
    }

    fn cancel(&mut self, key: String) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Timers);
        self.charge_row(key.len())?;
        Ok(cancel(self, &key))
    }
}

fn schedule(state: &mut CallState, key: &str, at: u64, lane: &str) -> Result<(), Failure> {
    let address = address(state, key)?;
    let lane = full_lane(state, lane)?;
    // The body counts failed attempts; a new schedule starts at zero.
    let body = b"0".to_vec();
    let at = at.max(state.context.services.earliest_wake());
    state.unit()?.put(address, body, IndexColumns { due: Some(at), lane, owner: String::new() });
    Ok(())
}

fn guard(state: &mut CallState, key: &str, lane: &str) -> Result<(), Failure> {
    let timer = address(state, key)?;
    let lane = full_lane(state, lane)?;
    let left = u64::try_from(state.context.left().as_millis()).unwrap_or(u64::MAX);
    let deadline = state.resources.now().saturating_add(left);
    let services = Arc::clone(&state.context.services);
    services
        .guard(state.unit()?, TimerGuard { timer, lane, deadline })
        .map_err(|failure| refusal(&failure))
}

fn cancel(state: &mut CallState, key: &str) -> Result<(), Failure> {
    let address = address(state, key)?;
    state.unit()?.delete(address);
    Ok(())
}

/// Returns the lane with the mount as prefix: lanes of different mounts are separate, even with the
/// same name.
fn full_lane(state: &CallState, lane: &str) -> Result<String, Failure> {
    state.check_lane(lane)?;
    Ok(format!("{}/{lane}", state.mount()))
}

fn address(state: &CallState, key: &str) -> Result<Address, Failure> {
    if key.is_empty() || key.len() > limits::KEY_BYTES || key.chars().any(char::is_control) {
        let message = format!("{key:?} is not a timer's key: 1 to 512 bytes of printable text");
        return Err(refusal(&Refused::invalid(message)));
    }
    state.check_name("timer's key", key)?;
    Ok(Address::new(Space::Timer, format!("{}/{key}", state.mount())))
}
