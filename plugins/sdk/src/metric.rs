//! Declaration of a mount's metric, as a constant.
//!
//! ```
//! use bulkhead_sdk::Metric;
//!
//! const MADE: Metric = Metric::counter("made_total", "Things that were asked for.")
//!     .with_label("outcome", &["done", "refused"]);
//! # fn report(host: &dyn bulkhead_sdk::Host) {
//! host.metrics().count(&MADE, "done", 1);
//! # }
//! ```

use bulkhead_wire::metric::{self, MetricKind};

/// Converts milliseconds of store time to seconds, for metrics whose name ends with `_seconds`.
#[must_use]
pub fn seconds(milliseconds: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a time, and its milliseconds, fit exactly")]
    let milliseconds = milliseconds as f64;
    milliseconds / 1_000.0
}

/// Declaration of a metric, listed in [`MountedPlugin::METRICS`](crate::MountedPlugin::METRICS).
/// `sys/metrics` shows the metric as `bulkhead_<plugin>_<name>`, with the mount's path and the
/// label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    name: &'static str,
    kind: MetricKind,
    label: &'static str,
    values: &'static [&'static str],
    about: &'static str,
}

impl Metric {
    const fn new(name: &'static str, kind: MetricKind, about: &'static str) -> Self {
        Self { name, kind, label: "", values: &[], about }
    }

    /// Declares a counter, which only grows. The name ends with `_total`.
    #[must_use]
    pub const fn counter(name: &'static str, about: &'static str) -> Self {
        Self::new(name, MetricKind::Counter, about)
    }

    /// Declares a gauge. The name ends with the unit.
    #[must_use]
    pub const fn gauge(name: &'static str, about: &'static str) -> Self {
        Self::new(name, MetricKind::Gauge, about)
    }

    /// Declares a summary, shown as the number of observations and their sum. The name ends with
    /// the unit.
    #[must_use]
    pub const fn summary(name: &'static str, about: &'static str) -> Self {
        Self::new(name, MetricKind::Summary, about)
    }

    /// Adds a label, with one series for each of its values. The values are words of lower-case
    /// letters, digits, `_` and `-`.
    #[must_use]
    pub const fn with_label(
        mut self,
        label: &'static str,
        values: &'static [&'static str],
    ) -> Self {
        (self.label, self.values) = (label, values);
        self
    }

    /// Returns the metric as the plugin's description carries it.
    #[must_use]
    pub fn described(&self) -> metric::Metric {
        metric::Metric {
            name: self.name.to_owned(),
            kind: self.kind,
            label: self.label.to_owned(),
            values: self.values.iter().map(|value| (*value).to_owned()).collect(),
            about: self.about.to_owned(),
        }
    }

    /// Returns the name, without the plugin's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}
