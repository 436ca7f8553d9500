//! The level from which lines are written to the log, which an operator may change at runtime.

use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::sync::RwLock;

/// The level from which lines are written.
#[derive(Debug)]
pub struct LogThreshold(RwLock<ThresholdState>);

#[derive(Clone, Copy, Debug)]
struct ThresholdState {
    /// The level of the configuration.
    configured: LogLevel,
    /// A level that an operator set at runtime.
    set: Option<LogLevel>,
}

impl LogThreshold {
    /// Creates a threshold at the level of the configuration.
    #[must_use]
    pub fn new(configured: LogLevel) -> Self {
        Self(RwLock::new(ThresholdState { configured, set: None }))
    }

    /// Returns the level from which lines are written.
    #[must_use]
    pub fn level(&self) -> LogLevel {
        let state = sync::read(&self.0);
        state.set.unwrap_or(state.configured)
    }

    /// Returns whether lines of `level` are written.
    #[must_use]
    pub fn admits(&self, level: LogLevel) -> bool {
        level >= self.level()
    }

    /// Changes the level until the next restart, or until [`LogThreshold::reset`] or
    /// [`LogThreshold::configure`].
    pub fn set(&self, level: LogLevel) {
        sync::write(&self.0).set = Some(level);
    }

    /// Returns to the level of the configuration.
    pub fn reset(&self) {
        sync::write(&self.0).set = None;
    }

    /// Takes the level of a configuration that was read again.
    pub fn configure(&self, configured: LogLevel) {
        *sync::write(&self.0) = ThresholdState { configured, set: None };
    }
}

impl Default for LogThreshold {
    fn default() -> Self {
        Self::new(LogLevel::Info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_at_runtime_lasts_until_reset() {
        let threshold = LogThreshold::new(LogLevel::Warn);
        assert!(!threshold.admits(LogLevel::Info) && threshold.admits(LogLevel::Warn));
        threshold.set(LogLevel::Debug);
        assert!(threshold.admits(LogLevel::Debug));
        threshold.reset();
        assert_eq!(threshold.level(), LogLevel::Warn);
        threshold.set(LogLevel::Debug);
        threshold.configure(LogLevel::Error);
        assert!(!threshold.admits(LogLevel::Warn) && threshold.admits(LogLevel::Error));
    }
}
