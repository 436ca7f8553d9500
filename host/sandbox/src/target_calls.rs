//! Counts of calls to targets: HTTP servers, databases and directories, by mount.
//!
//! This file prevents labels from components and callers: a call counts for its mount and its
//! interface, never for the address of the target.

use bulkhead_wire::duration_histogram::{DurationHistogram, HistogramReading, seconds};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// The interface by which a component calls a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetInterface {
    /// HTTP, also of clusters and clouds.
    Http,
    /// A database.
    Sql,
    /// A directory.
    Ldap,
}

impl TargetInterface {
    /// All interfaces; each interface has the number of its place.
    pub const ALL: [Self; 3] = [Self::Http, Self::Sql, Self::Ldap];

    /// Returns the place of the constant in [`Self::ALL`].
    fn place(self) -> usize {
        Self::ALL.iter().position(|other| *other == self).unwrap_or_default()
    }

    /// Returns the value of the label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sql => "sql",
            Self::Ldap => "ldap",
        }
    }
}

/// The calls of a mount by one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetCallReading {
    /// Number of calls that were answered.
    pub answered: u64,
    /// Number of calls that failed.
    pub failed: u64,
    /// Time of all calls, in microseconds.
    microseconds: u64,
}

impl TargetCallReading {
    /// Returns the time of all calls, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        seconds(self.microseconds)
    }
}

/// The calls of all mounts over an open store.
#[derive(Default)]
pub(crate) struct TargetCalls {
    by_mount: Mutex<BTreeMap<String, [TargetCallReading; 3]>>,
    durations: [DurationHistogram; 3],
}

impl TargetCalls {
    /// Counts a call of a mount.
    pub(crate) fn note(
        &self,
        mount: &str,
        interface: TargetInterface,
        (is_answered, time): (bool, Duration),
    ) {
        if let Some(durations) = self.durations.get(interface.place()) {
            durations.observe(time);
        }
        let mut by_mount = sync::lock(&self.by_mount);
        if !by_mount.contains_key(mount) {
            by_mount.insert(mount.to_owned(), Default::default());
        }
        let calls = by_mount.get_mut(mount).and_then(|calls| calls.get_mut(interface.place()));
        if let Some(calls) = calls {
            calls.answered += u64::from(is_answered);
            calls.failed += u64::from(!is_answered);
            let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            calls.microseconds = calls.microseconds.saturating_add(time);
        }
    }

    /// Returns the calls of a mount, for each interface that was used.
    pub(crate) fn of(&self, mount: &str) -> Vec<(TargetInterface, TargetCallReading)> {
        let by_mount = sync::lock(&self.by_mount);
        let Some(calls) = by_mount.get(mount) else { return Vec::new() };
        let each = TargetInterface::ALL.into_iter().zip(calls.iter().copied());
        each.filter(|(_, calls)| calls.answered + calls.failed > 0).collect()
    }

    /// Returns the times of all calls by each interface.
    pub(crate) fn read_durations(&self) -> Vec<(TargetInterface, HistogramReading)> {
        let durations = self.durations.iter().map(DurationHistogram::read);
        TargetInterface::ALL.into_iter().zip(durations).collect()
    }

    /// Drops the counts of a mount.
    pub(crate) fn forget(&self, mount: &str) {
        sync::lock(&self.by_mount).remove(mount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_for_mount_and_interface() {
        let calls = TargetCalls::default();
        let time = Duration::from_secs(2);
        calls.note("a", TargetInterface::Sql, (true, time));
        calls.note("a", TargetInterface::Sql, (false, time));
        calls.note("b", TargetInterface::Ldap, (true, time));
        let of_a = calls.of("a");
        let [(TargetInterface::Sql, reading)] = of_a[..] else { panic!("{of_a:?}") };
        assert_eq!((reading.answered, reading.failed, reading.seconds()), (1, 1, 4.0));
        let durations = calls.read_durations();
        let counted: Vec<u64> = durations.iter().map(|(_, reading)| reading.count).collect();
        assert_eq!(counted, [0, 2, 1]);
        calls.forget("a");
        assert!(calls.of("a").is_empty() && calls.of("c").is_empty());
    }
}
