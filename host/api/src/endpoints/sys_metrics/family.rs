//! Metrics of one name with their series, before they are written in a format.

use super::registration::Registration;
use super::series::{FamilyKind, MetricSample};
use std::collections::BTreeMap;

/// Prefix of the names of metrics.
pub(super) const PREFIX: &str = "bulkhead";

/// The metrics of one name, from all mounts.
pub(super) struct MetricFamily {
    pub(super) kind: FamilyKind,
    pub(super) about: String,
    pub(super) samples: Vec<MetricSample>,
}

/// All families, by name.
#[derive(Default)]
pub(super) struct MetricFamilies(BTreeMap<String, MetricFamily>);

impl MetricFamilies {
    /// Adds the series of a metric. A metric without series is not shown.
    pub(super) fn add<const N: usize>(
        &mut self,
        metric: &Registration<N>,
        samples: impl IntoIterator<Item = MetricSample>,
    ) {
        self.family(metric.name.to_owned(), metric.kind, metric.about).samples.extend(samples);
    }

    /// Returns the family of a name, which a component may have begun with another kind.
    pub(super) fn family(
        &mut self,
        name: String,
        kind: FamilyKind,
        about: &str,
    ) -> &mut MetricFamily {
        let begin = || MetricFamily { kind, about: about.to_owned(), samples: Vec::new() };
        self.0.entry(name).or_insert_with(begin)
    }

    /// Returns families of one's own, for tests.
    #[cfg(test)]
    pub(super) fn of<const N: usize>(families: [(String, MetricFamily); N]) -> Self {
        Self(families.into())
    }

    /// Returns the families that have series, in the order of their names.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &MetricFamily)> {
        let families = self.0.iter().filter(|(_, family)| !family.samples.is_empty());
        families.map(|(name, family)| (name.as_str(), family))
    }
}
