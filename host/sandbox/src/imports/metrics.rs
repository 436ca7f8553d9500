//! The `metrics` import: figures about the mount, for its operator.

use crate::bindings::secrets_engine::bulkhead::plugin::metrics::Host;
use crate::grants::Act;
use crate::metrics::MetricReading;
use crate::state::CallState;

impl Host for CallState {
    fn count(&mut self, name: String, label: String, amount: u64) -> wasmtime::Result<()> {
        self.require_grant(&Act::Metrics)?;
        give(self, name, label, MetricReading::Counted(amount));
        Ok(())
    }

    fn set(&mut self, name: String, label: String, value: f64) -> wasmtime::Result<()> {
        self.require_grant(&Act::Metrics)?;
        if value.is_finite() {
            give(self, name, label, MetricReading::Standing(value));
        }
        Ok(())
    }

    fn observe(&mut self, name: String, label: String, value: f64) -> wasmtime::Result<()> {
        self.require_grant(&Act::Metrics)?;
        if value.is_finite() {
            give(self, name, label, MetricReading::Observed { count: 1, sum: value });
        }
        Ok(())
    }
}

fn give(state: &CallState, name: String, label: String, reading: MetricReading) {
    state.resources.metrics.give(state.mount(), name, label, reading);
}
