//! `shutdown_delay` and `shutdown_timeout`: the times of an orderly stop.

use super::section::ConfigSection;
use std::time::Duration;

/// Upper bound of `shutdown_delay`, in seconds. Load balancers check more often.
const SHUTDOWN_DELAY_MOST: u64 = 600;

/// Default time from the end of the delay to the end of the process, in seconds.
const SHUTDOWN_TIMEOUT: u64 = 30;

/// Upper bound of `shutdown_timeout`, in seconds: no request takes longer.
const SHUTDOWN_TIMEOUT_MOST: u64 = 3600;

/// The part of `shutdown_timeout` that is reserved for the closing of the store: a sixth.
const CLOSING_PART: u32 = 6;

/// The times of an orderly stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShutdownSettings {
    /// Time in which `sys/health` answers 503 and all other requests are served.
    pub(crate) delay: Duration,
    /// Time from the end of the delay to the end of the process.
    pub(crate) timeout: Duration,
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self { delay: Duration::ZERO, timeout: Duration::from_secs(SHUTDOWN_TIMEOUT) }
    }
}

impl ShutdownSettings {
    /// Returns the time that requests in flight get after the delay. The rest of the timeout is for
    /// the closing of the store.
    pub(crate) fn drain_time(&self) -> Duration {
        self.timeout.saturating_sub(self.timeout / CLOSING_PART)
    }
}

/// Reads the times.
pub(super) fn settings(file: &ConfigSection<'_>) -> ShutdownSettings {
    let usual = ShutdownSettings::default();
    let delay = file.read("shutdown_delay", |value| value.seconds(0, SHUTDOWN_DELAY_MOST));
    let timeout = file.read("shutdown_timeout", |value| value.seconds(1, SHUTDOWN_TIMEOUT_MOST));
    ShutdownSettings {
        delay: delay.map_or(usual.delay, Duration::from_secs),
        timeout: timeout.map_or(usual.timeout, Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_of_store_has_a_sixth_of_timeout() {
        assert_eq!(ShutdownSettings::default().drain_time(), Duration::from_secs(25));
        let (delay, timeout) = (Duration::ZERO, Duration::from_secs(1));
        let drain_time = ShutdownSettings { delay, timeout }.drain_time();
        assert!(drain_time < timeout && drain_time > timeout / 2, "{drain_time:?}");
    }
}
