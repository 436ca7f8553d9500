//! The registration of a metric: name, kind, labels, help text and the operator's question.
//!
//! This file prevents a series with another number of labels than its metric, because the number
//! is part of the type, and a metric that `docs/observability.md` lacks, because the page is
//! written from the registrations.

use super::series::{FamilyKind, MetricSample, SampleValue};
use bulkhead_sandbox::MetricReading;
use bulkhead_wire::duration_histogram::HistogramReading;
use bulkhead_wire::metric::MetricKind;

/// A metric of the host with `N` labels.
pub(super) struct Registration<const N: usize> {
    /// The name with its unit, as it is shown.
    pub(super) name: &'static str,
    pub(super) kind: FamilyKind,
    pub(super) labels: [&'static str; N],
    /// Help text.
    pub(super) about: &'static str,
    /// The question that the metric answers.
    pub(super) question: &'static str,
}

/// Registers a number that only grows.
pub(super) const fn counter<const N: usize>(
    name: &'static str,
    labels: [&'static str; N],
    about: &'static str,
    question: &'static str,
) -> Registration<N> {
    Registration { name, kind: FamilyKind::Plain(MetricKind::Counter), labels, about, question }
}

/// Registers a number that goes up and down.
pub(super) const fn gauge<const N: usize>(
    name: &'static str,
    labels: [&'static str; N],
    about: &'static str,
    question: &'static str,
) -> Registration<N> {
    Registration { name, kind: FamilyKind::Plain(MetricKind::Gauge), labels, about, question }
}

/// Registers numbers of durations up to bounds.
pub(super) const fn histogram<const N: usize>(
    name: &'static str,
    labels: [&'static str; N],
    about: &'static str,
    question: &'static str,
) -> Registration<N> {
    Registration { name, kind: FamilyKind::Histogram, labels, about, question }
}

/// The value of a series.
pub(super) trait SeriesValue {
    /// Returns the value as it is shown in a metric of `kind`.
    fn shown(self, kind: FamilyKind) -> SampleValue;
}

impl SeriesValue for u64 {
    #[expect(clippy::cast_precision_loss, reason = "no count comes near the bounds of a float")]
    fn shown(self, kind: FamilyKind) -> SampleValue {
        SampleValue::Reading(match kind {
            FamilyKind::Plain(MetricKind::Counter) => MetricReading::Counted(self),
            _ => MetricReading::Standing(self as f64),
        })
    }
}

impl SeriesValue for f64 {
    fn shown(self, _kind: FamilyKind) -> SampleValue {
        SampleValue::Reading(MetricReading::Standing(self))
    }
}

impl SeriesValue for HistogramReading {
    fn shown(self, _kind: FamilyKind) -> SampleValue {
        SampleValue::Histogram(self)
    }
}

impl<const N: usize> Registration<N> {
    /// Returns a series with the values of its labels, in the order of the registration.
    pub(super) fn series(&self, labels: [&str; N], value: impl SeriesValue) -> MetricSample {
        let labels = self.labels.iter().zip(labels);
        let labels = labels.map(|(name, value)| ((*name).to_owned(), value.to_owned())).collect();
        MetricSample { labels, value: value.shown(self.kind) }
    }
}

/// A registration of any number of labels, for the page of metrics.
pub(super) trait Registered: Sync {
    /// Returns the name of the metric.
    fn name(&self) -> &'static str;

    /// Returns the row of the page.
    fn row(&self) -> String;
}

impl<const N: usize> Registered for Registration<N> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn row(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (self.name, self.kind.word(), labels.join(", "));
        format!("| `{name}` | {kind} | {labels} | {} | {} |\n", self.about, self.question)
    }
}

/// Metrics of one subject, which a section of the page lists.
pub(super) struct MetricGroup {
    /// The word of the section's marks.
    pub(super) mark: &'static str,
    pub(super) metrics: &'static [&'static dyn Registered],
}
