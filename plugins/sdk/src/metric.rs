//! A figure about a mount, as a constant.
//!
//! ```
//! use bulkhead_sdk::Metric;
//!
//! const MADE: Metric = Metric::counter("made_total", "Things that were asked for.")
//!     .by("outcome", &["done", "refused"]);
//! # fn tell(host: &dyn bulkhead_sdk::Host) {
//! host.metrics().count(&MADE, "done", 1);
//! # }
//! ```

use bulkhead_wire::metric::{self, MetricKind};

/// Milliseconds, as store time has them, in the unit of a metric that ends with `_seconds`.
#[must_use]
pub fn seconds(milliseconds: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a time, and its milliseconds, fit exactly")]
    let milliseconds = milliseconds as f64;
    milliseconds / 1_000.0
}

/// One metric of [`SecretsEngine::METRICS`](crate::SecretsEngine::METRICS). It is shown by
/// `sys/metrics` as `bulkhead_<plugin>_<name>`, with the mount's path and its label.
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

    /// What only grows. Its name ends with `_total`.
    #[must_use]
    pub const fn counter(name: &'static str, about: &'static str) -> Self {
        Self::new(name, MetricKind::Counter, about)
    }

    /// What stands somewhere. Its name ends with its unit.
    #[must_use]
    pub const fn gauge(name: &'static str, about: &'static str) -> Self {
        Self::new(name, MetricKind::Gauge, about)
    }

    /// How long, how old, how many: shown as the number of observations and their sum. Its name
    /// ends with its unit.
    #[must_use]
    pub const fn summary(name: &'static str, about: &'static str) -> Self {
        Self::new(name, MetricKind::Summary, about)
    }

    /// With a series for each of a label's values. They are words of lower-case letters, digits,
    /// `_` and `-`.
    #[must_use]
    pub const fn by(mut self, label: &'static str, values: &'static [&'static str]) -> Self {
        (self.label, self.values) = (label, values);
        self
    }

    /// As the description has it.
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

    /// Without the plugin's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}
