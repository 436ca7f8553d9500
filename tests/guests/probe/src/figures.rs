//! Metrics with names and values that a test chooses.

use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host, Metric};

pub(crate) const METRICS: &[Metric] = &[
    Metric::counter("tries_total", "What was tried.").with_label("outcome", &["good", "bad"]),
    Metric::gauge("depth_meters", "How deep it is."),
    Metric::summary("wait_seconds", "How long it took."),
];

pub(crate) const FIGURE: &[Field] = &[
    Field::text("metric", "its name"),
    Field::text("label", "the value of its label, named in the description or not"),
    Field::whole("value", "what to give"),
];

pub(crate) fn give(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (metrics, label) = (host.metrics(), call.text("label"));
    let metric = METRICS.iter().find(|metric| metric.name() == call.text("metric"));
    let metric = metric.ok_or_else(Failure::absent)?;
    let value = u32::try_from(call.seconds("value")).unwrap_or_default();
    match metric.name() {
        "tries_total" => metrics.count(metric, label, value.into()),
        "depth_meters" => metrics.set(metric, label, value.into()),
        _ => metrics.observe(metric, label, value.into()),
    }
    Ok(Answer::nothing())
}
