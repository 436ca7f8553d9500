//! The `log` import: scrubbed, cut and counted before it reaches the operator.

use crate::bindings::secrets_engine::bulkhead::plugin::log::{Host, Level};
use crate::limits;
use crate::neighbours;
use crate::state::CallState;

impl Host for CallState {
    fn write(&mut self, level: Level, event: String, pairs: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.enter()?;
        self.charge(event.len())?;
        self.log_lines += 1;
        let title = self.plugin.title();
        let neighbours = &self.scope.neighbours;
        if self.log_lines == limits::LOG_LINES {
            neighbours.log(neighbours::Level::Warn, &title, "log-lines-dropped", &[]);
        }
        if self.log_lines >= limits::LOG_LINES {
            return Ok(());
        }
        let pairs: Vec<_> =
            pairs.iter().take(limits::LOG_PAIRS).map(|(name, value)| (self.scrub(name), self.scrub(value))).collect();
        neighbours.log(of_contract(level), &title, &self.scrub(&event), &pairs);
        Ok(())
    }
}

fn of_contract(level: Level) -> neighbours::Level {
    match level {
        Level::Debug => neighbours::Level::Debug,
        Level::Info => neighbours::Level::Info,
        Level::Warn => neighbours::Level::Warn,
        Level::Error => neighbours::Level::Error,
    }
}
