//! Log lines about the database of the store: settings that can lose data, and the loss and return
//! of a database server.
//!
//! This file prevents an outage of the database without a cause in the log, and a log with a line
//! for each refused request: a line begins the outage, and a line ends it.

use crate::log::{Log, cause};
use bulkhead_store::{Store, StoreFault};
use bulkhead_wire::log_level::LogLevel;
use std::future::pending;
use std::time::Instant;

/// Logs the settings that can lose data, and from then on each loss and return of the database
/// server. Never ends.
pub(super) async fn report(store: &Store, log: &dyn Log) {
    for doubt in store.durability_doubts() {
        log.line(LogLevel::Warn, "storage-durability-doubt", &[("doubt", doubt.clone())]);
    }
    // Before the first look, so that no change falls in between.
    let mut changes = store.write_changes();
    let mut outage = StorageOutage::default();
    loop {
        outage.note(store.write_refusal().as_ref(), log);
        if changes.changed().await.is_err() {
            // The store is closed: no change comes.
            pending::<()>().await;
        }
    }
}

/// The present outage of the database server.
#[derive(Default)]
struct StorageOutage(Option<Instant>);

impl StorageOutage {
    /// Logs the beginning or the end of an outage. `refusal` is the cause of the present outage.
    fn note(&mut self, refusal: Option<&StoreFault>, log: &dyn Log) {
        match (self.0, refusal) {
            (None, Some(fault)) => {
                self.0 = Some(Instant::now());
                log.line(LogLevel::Warn, "storage-unreachable", &[cause(fault)]);
            }
            (Some(begun), None) => {
                self.0 = None;
                let seconds = begun.elapsed().as_secs().to_string();
                log.line(LogLevel::Info, "storage-reachable", &[("seconds", seconds)]);
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_wire::sync;
    use std::sync::Mutex;

    #[derive(Default)]
    struct RecordingLog(Mutex<Vec<String>>);

    impl Log for RecordingLog {
        fn line(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
            sync::lock(&self.0).push(format!("{level:?} {event} {pairs:?}"));
        }
    }

    #[test]
    fn outage_has_one_line_at_each_end() {
        let log = RecordingLog::default();
        let refusal = StoreFault::Unavailable("no connection to db.example".into());
        let mut outage = StorageOutage::default();
        for refusal in [None, Some(&refusal), Some(&refusal), None, None] {
            outage.note(refusal, &log);
        }
        let lines = sync::lock(&log.0);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("Warn storage-unreachable"), "{lines:?}");
        assert!(lines[0].contains("no connection to db.example"), "{lines:?}");
        assert!(lines[1].contains("Info storage-reachable [(\"seconds\", \"0\")]"), "{lines:?}");
    }
}
