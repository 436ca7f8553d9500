//! The wait of a start for a database server that cannot be reached yet.
//!
//! This file prevents a start that fails because the machine of the database starts at the same
//! time, if the configuration asks for further attempts.

use crate::config::ConnectRetries;
use bulkhead_access::log::{Log, cause};
use bulkhead_store::{DataDirectory, StoreFault, StoreOptions};
use bulkhead_wire::log_level::LogLevel;
use std::time::Duration;

/// Pause after the first failed attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Waits until the database can be reached, as long as `retries` allows. Any other fault is left to
/// the start. Each attempt is logged with its cause.
pub(crate) async fn await_database(store: &StoreOptions, retries: ConnectRetries, log: &dyn Log) {
    let mut failed = 0;
    let mut pause = FIRST_PAUSE;
    while retries != ConnectRetries::Never
        && let Err(fault @ StoreFault::Unavailable(_)) = DataDirectory::examine(store).await
    {
        failed += 1;
        if !retries.allow_after(failed) {
            return;
        }
        let pairs = [("attempt", failed.to_string()), cause(&fault)];
        log.line(LogLevel::Warn, "storage-unreachable", &pairs);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::testing::RecordingLog;
    use bulkhead_store::{DatabaseChoice, PostgresPlace};

    #[tokio::test]
    async fn attempts_end_after_configured_number() {
        let log = RecordingLog::default();
        // Port 1 of this machine: nothing listens.
        let place =
            PostgresPlace::from_url("postgresql://u@127.0.0.1:1/d?sslmode=disable").unwrap();
        let store = StoreOptions {
            database: DatabaseChoice::Postgres(Box::new(place)),
            ..StoreOptions::at("/nonexistent")
        };
        await_database(&store, ConnectRetries::Never, &log).await;
        assert!(log.events().is_empty());
        await_database(&store, ConnectRetries::Some(1), &log).await;
        assert_eq!(log.events(), ["storage-unreachable"]);
    }
}
