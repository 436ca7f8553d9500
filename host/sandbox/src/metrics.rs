//! Metrics that components report about their mounts, kept in memory until an operator reads them.
//!
//! This file prevents a component from filling the host's memory or the operator's screen with
//! names. A mount keeps a bounded number of series, each named by short words. Code that knows the
//! plugin's description selects the series to show.

use bulkhead_wire::metric::{self, MetricKind};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The metrics of a mount, by the metric's name and the value of its label.
pub type MetricReadings = BTreeMap<(String, String), MetricReading>;

/// The current value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricReading {
    /// A counter's total.
    Counted(u64),
    /// A gauge's last value.
    Standing(f64),
    /// Observed values.
    Observed {
        /// Number of observations.
        count: u64,
        /// Sum of the values.
        sum: f64,
    },
}

impl MetricReading {
    /// Returns the kind of metric of the reading.
    #[must_use]
    pub fn kind(&self) -> MetricKind {
        match self {
            Self::Counted(_) => MetricKind::Counter,
            Self::Standing(_) => MetricKind::Gauge,
            Self::Observed { .. } => MetricKind::Summary,
        }
    }

    /// Adds a reading of the same kind; a reading of another kind replaces the current value.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Counted(before), Self::Counted(more)) => {
                Self::Counted(before.saturating_add(more))
            }
            (Self::Observed { count, sum }, Self::Observed { count: more, sum: value }) => {
                Self::Observed { count: count.saturating_add(more), sum: sum + value }
            }
            (_, other) => other,
        }
    }
}

/// The readings of all mounts over an open store.
#[derive(Default)]
pub(crate) struct MetricsRegistry {
    by_mount: Mutex<BTreeMap<String, MetricReadings>>,
}

impl MetricsRegistry {
    /// Records a reading. Drops readings with invalid names, and new series above the bound.
    pub(crate) fn give(&self, mount: &str, name: String, label: String, reading: MetricReading) {
        if !metric::is_word(&name) || !(label.is_empty() || metric::is_word(&label)) {
            return;
        }
        let mut by_mount = self.lock();
        if !by_mount.contains_key(mount) {
            by_mount.insert(mount.to_owned(), MetricReadings::new());
        }
        let Some(readings) = by_mount.get_mut(mount) else { return };
        let is_full = readings.len() >= metric::SERIES;
        let key = (name, label);
        match readings.get_mut(&key) {
            Some(before) => *before = before.and(reading),
            None if is_full => {}
            None => drop(readings.insert(key, reading)),
        }
    }

    /// Returns the readings of a mount.
    pub(crate) fn of(&self, mount: &str) -> MetricReadings {
        self.lock().get(mount).cloned().unwrap_or_default()
    }

    /// Drops the readings of a mount.
    pub(crate) fn forget(&self, mount: &str) {
        self.lock().remove(mount);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MetricReadings>> {
        sync::lock(&self.by_mount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(metrics: &MetricsRegistry, label: &str, reading: MetricReading) {
        metrics.give("a", "made_total".to_owned(), label.to_owned(), reading);
    }

    fn read(metrics: &MetricsRegistry, label: &str) -> Option<MetricReading> {
        metrics.of("a").remove(&("made_total".to_owned(), label.to_owned()))
    }

    #[test]
    fn counters_and_observations_add_and_gauges_keep_last() {
        let metrics = MetricsRegistry::default();
        for (label, one) in [
            ("x", MetricReading::Counted(2)),
            ("y", MetricReading::Standing(2.5)),
            ("z", MetricReading::Observed { count: 1, sum: 2.5 }),
        ] {
            give(&metrics, label, one);
            give(&metrics, label, one);
        }
        assert_eq!(read(&metrics, "x"), Some(MetricReading::Counted(4)));
        assert_eq!(read(&metrics, "y"), Some(MetricReading::Standing(2.5)));
        assert_eq!(read(&metrics, "z"), Some(MetricReading::Observed { count: 2, sum: 5.0 }));
        assert_eq!(metrics.of("b"), MetricReadings::new(), "another mount has no readings");
        metrics.forget("a");
        assert_eq!(metrics.of("a"), MetricReadings::new());
    }

    #[test]
    fn mount_keeps_bounded_number_of_short_labels() {
        let metrics = MetricsRegistry::default();
        give(&metrics, "pa ss", MetricReading::Counted(1));
        give(&metrics, &"x".repeat(65), MetricReading::Counted(1));
        assert_eq!(metrics.of("a"), MetricReadings::new());
        for number in 0..1_000 {
            give(&metrics, &format!("x{number}"), MetricReading::Counted(1));
        }
        assert_eq!(metrics.of("a").len(), metric::SERIES);
        give(&metrics, "x0", MetricReading::Counted(1));
        assert_eq!(read(&metrics, "x0"), Some(MetricReading::Counted(2)));
    }
}
