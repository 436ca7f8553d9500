//! The `ping` import: store time.

use crate::bindings::secrets_engine::bulkhead::plugin::ping::Host;
use crate::contract::Failure;
use crate::grants::Act;
use crate::state::CallState;

impl Host for CallState {
    fn ping(&mut self) -> wasmtime::Result<Result<u64, Failure>> {
        granted!(self, Act::Time);
        Ok(Ok(self.resources.store.now()))
    }
}
