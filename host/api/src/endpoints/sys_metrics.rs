//! `sys/metrics`: metrics of the host, and metrics reported by components for their mounts.
//!
//! This file prevents a leak through names made up by a running component. Only series named in the
//! component's description are shown, so that every name in the monitoring was known at
//! registration; and no name of the host, so that no component raises or hides an alert.

mod audit;
mod components;
mod due_work;
mod exposition;
mod family;
mod leases;
mod lifecycle;
mod limits;
mod listeners;
mod log;
mod mounts;
mod open_access;
mod process;
mod registration;
mod registry;
mod requests;
mod series;
mod service;
mod snapshots;
mod store;
mod targets;
mod traces;

pub(crate) use open_access::OpenScrapes;

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, read};
use bulkhead_access::timestamp::timestamp;
use bulkhead_core::Core;
use bulkhead_core::process::ProcessState;
use bulkhead_sandbox::{MetricReading, MetricReadings};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::metric::Metric;
use bulkhead_wire::request::{METRICS_PATH, MetricsTerms};
use family::{MetricFamilies, PREFIX};
use serde_json::{Map, Value, json};
use series::{FamilyKind, MetricSample, SampleValue};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "prometheus for the text format; default JSON, or as the header Accept says";
    vec![
        read(METRICS_PATH, "figures about the mounts, for monitoring")
            .fields([field("format", FieldKind::String, about)])
            .handled_by(show),
    ]
}

/// Returns the tables of `docs/observability.md` in Markdown, each with the word of its marks.
#[must_use]
pub fn metric_tables() -> Vec<(&'static str, String)> {
    registry::tables()
}

/// The format of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    Json,
    /// The text format of Prometheus.
    Text,
}

impl MetricsFormat {
    /// Returns the format of a request. The field `format` has precedence over the header `Accept`.
    ///
    /// # Errors
    /// 400 for an unknown format.
    pub(crate) fn of(fields: RequestFields<'_>, terms: MetricsTerms) -> Result<Self, Failure> {
        match fields.text("format") {
            "" if terms.prefers_text => Ok(Self::Text),
            "" | "json" => Ok(Self::Json),
            "prometheus" => Ok(Self::Text),
            other => Err(Failure::invalid(format!(
                "format {} is unknown; give prometheus or json, or leave format out",
                quoted(other)
            ))),
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => exposition::CONTENT_TYPE,
        }
    }
}

/// `GET sys/metrics`.
async fn show(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, request, .. } = call;
    let format = MetricsFormat::of(fields, request.metrics)?;
    let families = families(core).await?;
    let body = match format {
        MetricsFormat::Json => ReplyBody::Bare(as_json(&families, core.store.now())),
        MetricsFormat::Text => ReplyBody::Text {
            content_type: format.content_type(),
            text: exposition::write(&families),
        },
    };
    Ok(body.into())
}

/// Returns the metrics of a sealed service at the store time `now`, in milliseconds since 1970.
fn sealed_families(process: &ProcessState, now: u64) -> MetricFamilies {
    let mut families = MetricFamilies::default();
    registry::add_process(process, (None, now), &mut families);
    families
}

/// Returns the metrics of the host and the metrics of all mounts.
async fn families(core: &Core) -> Result<MetricFamilies, Failure> {
    let mut families = MetricFamilies::default();
    of_mounts(core, &mut families);
    registry::add_open(core, &mut families).await?;
    registry::add_process(&core.process, (Some(core), core.store.now()), &mut families);
    Ok(families)
}

/// Adds the metrics that components reported.
fn of_mounts(core: &Core, families: &mut MetricFamilies) {
    let of_host = registry::names();
    for mount in core.mounts.all() {
        let readings = core.sandbox.metrics_of(&mount.record.uuid);
        let description = mount.plugin.description();
        for metric in &description.metrics {
            let name = shown_name(&description.name, metric);
            if of_host.contains(name.as_str()) {
                continue;
            }
            let family = families.family(name, FamilyKind::Plain(metric.kind), &metric.about);
            // Another version of the plugin may use the name for another kind of metric.
            if family.kind == FamilyKind::Plain(metric.kind) {
                family.samples.extend(samples(metric, mount.record.path.as_str(), &readings));
            }
        }
    }
}

/// Returns the name under which the metric of a plugin is shown.
fn shown_name(plugin: &str, metric: &Metric) -> String {
    format!("{PREFIX}_{}_{}", plugin.replace(['-', '.'], "_"), metric.name)
}

/// Returns the series of a metric that the mount reported and the description names.
fn samples(metric: &Metric, mount: &str, readings: &MetricReadings) -> Vec<MetricSample> {
    let values = readings.iter().filter(|((name, value), reading)| {
        *name == metric.name && metric.has(value) && reading.kind() == metric.kind
    });
    values
        .map(|((_, value), reading)| {
            let mut labels = vec![("mount".to_owned(), mount.to_owned())];
            if !metric.label.is_empty() {
                labels.push((metric.label.clone(), value.clone()));
            }
            MetricSample { labels, value: SampleValue::Reading(*reading) }
        })
        .collect()
}

/// Formats the metrics as other servers of this API do: a list for each kind.
fn as_json(families: &MetricFamilies, now: u64) -> Value {
    let (mut counters, mut gauges, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for (name, family) in families.all() {
        for MetricSample { labels, value } in &family.samples {
            let labels: Map<String, Value> =
                labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            let observed = |count, sum| observation(name, (count, sum), &labels);
            match value {
                SampleValue::Reading(MetricReading::Counted(count)) => {
                    counters.push(json!({ "Name": name, "Count": count, "Labels": labels }));
                }
                SampleValue::Reading(MetricReading::Standing(value)) => {
                    gauges.push(json!({ "Name": name, "Value": value, "Labels": labels }));
                }
                SampleValue::Reading(MetricReading::Observed { count, sum }) => {
                    samples.push(observed(*count, *sum));
                }
                SampleValue::Histogram(reading) => {
                    samples.push(observed(reading.count, reading.sum));
                }
            }
        }
    }
    json!({
        "Timestamp": timestamp(now / 1_000),
        "Gauges": gauges,
        "Points": [],
        "Counters": counters,
        "Samples": samples,
    })
}

fn observation(name: &str, (count, sum): (u64, f64), labels: &Map<String, Value>) -> Value {
    json!({ "Name": name, "Count": count, "Sum": sum, "Labels": labels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_wire::metric::MetricKind;

    #[test]
    fn component_metric_with_host_name_is_left_out() {
        let metric = |name: &str| Metric {
            name: name.to_owned(),
            kind: MetricKind::Gauge,
            label: String::new(),
            values: Vec::new(),
            about: "made by a component".to_owned(),
        };
        let of_host = registry::names();
        for (plugin, name, is_of_host) in [
            ("core", "unsealed", true),
            ("mount-plugin", "rollback", true),
            ("mount", "plugin_rollback", true),
            ("health.degraded", "total", false),
            ("kv", "unsealed", false),
        ] {
            let shown = shown_name(plugin, &metric(name));
            assert_eq!(of_host.contains(shown.as_str()), is_of_host, "{shown}");
        }
    }
}
