//! Counts of served requests, by mount, operation and outcome, since the service was opened.
//!
//! This file prevents labels from callers: a request counts for an existing mount or part of the
//! host, never for its path, and a request without a destination counts for no mount.

use bulkhead_wire::duration_histogram::{DurationHistogram, HistogramReading, seconds};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// The class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationClass {
    /// A read or a list.
    Read,
    /// A write, a patch or a delete.
    Write,
    /// A login at an auth method.
    Login,
    /// A request of plain HTTP, which a component serves as a whole.
    Plain,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The request was served, or asked for an absent value.
    Served,
    /// The caller may not do this, or is not known (401 and 403).
    Denied,
    /// The caller is over a limit (429).
    Limited,
    /// The request is wrong (any other 4xx).
    Refused,
    /// The server or a target failed (5xx).
    Failed,
}

impl OperationClass {
    const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Login, Self::Plain];

    /// Returns the place of the constant in [`Self::ALL`].
    fn place(self) -> usize {
        Self::ALL.iter().position(|other| *other == self).unwrap_or_default()
    }

    /// Returns the value of the label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Login => "login",
            Self::Plain => "plain",
        }
    }
}

impl RequestOutcome {
    const ALL: [Self; 5] = [Self::Served, Self::Denied, Self::Limited, Self::Refused, Self::Failed];

    /// Returns the place of the constant in [`Self::ALL`].
    fn place(self) -> usize {
        Self::ALL.iter().position(|other| *other == self).unwrap_or_default()
    }

    /// Returns the outcome of an HTTP status.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Denied,
            404 => Self::Served,
            429 => Self::Limited,
            400..=499 => Self::Refused,
            500.. => Self::Failed,
            _ => Self::Served,
        }
    }

    /// Returns the value of the label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Denied => "denied",
            Self::Limited => "limited",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// The counts of all mounts.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    /// By the path of the mount; empty for requests without a destination.
    mounts: RwLock<BTreeMap<String, Arc<MountRequests>>>,
    /// By operation, in the order of [`OperationClass::ALL`].
    durations: [DurationHistogram; 3],
}

/// The counts of a mount.
#[derive(Debug, Default)]
struct MountRequests {
    /// By operation and outcome, in the order of the constants.
    counts: [[AtomicU64; 5]; 4],
    microseconds: AtomicU64,
}

/// The counts of a mount at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct MountRequestReading {
    /// Path of the mount.
    pub mount: String,
    /// Numbers of requests that are not 0.
    pub counts: Vec<(OperationClass, RequestOutcome, u64)>,
    /// Time of all requests, in seconds.
    pub seconds: f64,
}

impl RequestMetrics {
    /// Counts a request of a mount. `None` for a request whose time says nothing, because such a
    /// request may wait for a change.
    pub fn note(
        &self,
        mount: &str,
        (operation, outcome): (OperationClass, RequestOutcome),
        time: Option<Duration>,
    ) {
        let requests = self.requests(mount);
        requests.count(operation, outcome);
        let Some(time) = time else { return };
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        requests.microseconds.fetch_add(micros, Ordering::Relaxed);
        if let Some(durations) = self.durations.get(operation.place()) {
            durations.observe(time);
        }
    }

    fn requests(&self, mount: &str) -> Arc<MountRequests> {
        if let Some(requests) = sync::read(&self.mounts).get(mount) {
            return Arc::clone(requests);
        }
        Arc::clone(sync::write(&self.mounts).entry(mount.to_owned()).or_default())
    }

    /// Returns the counts of the mounts that `exists` accepts, and forgets all others.
    pub fn read(&self, exists: impl Fn(&str) -> bool) -> Vec<MountRequestReading> {
        let mut mounts = sync::write(&self.mounts);
        mounts.retain(|mount, _| exists(mount));
        mounts.iter().map(|(mount, requests)| requests.read(mount)).collect()
    }

    /// Returns the times of the requests of each class.
    pub fn read_durations(&self) -> Vec<(OperationClass, HistogramReading)> {
        let durations = self.durations.iter().map(DurationHistogram::read);
        OperationClass::ALL.into_iter().zip(durations).collect()
    }
}

impl MountRequests {
    fn count(&self, operation: OperationClass, outcome: RequestOutcome) {
        let counts = self.counts.get(operation.place());
        if let Some(count) = counts.and_then(|counts| counts.get(outcome.place())) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self, mount: &str) -> MountRequestReading {
        let mut counts = Vec::new();
        for (operation, outcomes) in OperationClass::ALL.into_iter().zip(&self.counts) {
            for (outcome, count) in RequestOutcome::ALL.into_iter().zip(outcomes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    counts.push((operation, outcome, count));
                }
            }
        }
        let seconds = seconds(self.microseconds.load(Ordering::Relaxed));
        MountRequestReading { mount: mount.to_owned(), counts, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_for_mount_operation_and_outcome() {
        let metrics = RequestMetrics::default();
        let time = Some(Duration::from_millis(500));
        for status in [200, 204, 404, 403, 503] {
            let outcome = RequestOutcome::of_status(status);
            metrics.note("kv/", (OperationClass::Read, outcome), time);
        }
        metrics.note("gone/", (OperationClass::Login, RequestOutcome::Limited), time);
        let read = metrics.read(|mount| mount != "gone/");
        let counts = vec![
            (OperationClass::Read, RequestOutcome::Served, 3),
            (OperationClass::Read, RequestOutcome::Denied, 1),
            (OperationClass::Read, RequestOutcome::Failed, 1),
        ];
        assert_eq!(read, [MountRequestReading { mount: "kv/".to_owned(), counts, seconds: 2.5 }]);
        assert_eq!(metrics.read(|_| true).len(), 1, "a mount that is gone is forgotten");
        let durations = metrics.read_durations();
        let counted: Vec<u64> = durations.iter().map(|(_, reading)| reading.count).collect();
        assert_eq!(counted, [5, 0, 1]);
    }

    #[test]
    fn statuses_have_the_outcome_of_their_class() {
        for (status, outcome) in [
            (200, RequestOutcome::Served),
            (307, RequestOutcome::Served),
            (400, RequestOutcome::Refused),
            (401, RequestOutcome::Denied),
            (405, RequestOutcome::Refused),
            (429, RequestOutcome::Limited),
            (500, RequestOutcome::Failed),
        ] {
            assert_eq!(RequestOutcome::of_status(status), outcome, "{status}");
        }
    }
}
