//! Metrics of requests and of calls to targets: which mount is slow, and whether its target is.
//!
//! The number of series grows with mounts in use, and never with callers or paths. A mount has its
//! counts and the sum of its times; the distribution of times is kept for all mounts together, so
//! that thousands of mounts can be scraped.

use super::family::{FamilyKind, MetricFamilies, MetricFamily, MetricSample, PREFIX, SampleValue};
use bulkhead_core::Core;
use bulkhead_sandbox::MetricReading;
use bulkhead_wire::duration_histogram::HistogramReading;
use bulkhead_wire::metric::MetricKind;
use std::collections::BTreeSet;

/// Labels of requests outside of mounts: endpoints of the host, and requests without a destination.
const NO_MOUNTS: [&str; 2] = ["sys/", ""];

/// Returns the metrics of requests and of calls to targets since the service was opened.
pub(super) fn families(core: &Core) -> MetricFamilies {
    let mut families = MetricFamilies::new();
    add_requests(core, &mut families);
    add_target_calls(core, &mut families);
    families.retain(|_, family| !family.samples.is_empty());
    families
}

fn add_requests(core: &Core, families: &mut MetricFamilies) {
    let (mut counts, mut times) = (Vec::new(), Vec::new());
    let mounts = core.mounts.all();
    let paths: BTreeSet<&str> = mounts.iter().map(|mount| mount.record.path.as_str()).collect();
    let exists = |mount: &str| NO_MOUNTS.contains(&mount) || paths.contains(mount);
    for reading in core.traffic.read(exists) {
        for (operation, outcome, count) in reading.counts {
            let labels = [
                ("mount", reading.mount.as_str()),
                ("operation", operation.word()),
                ("outcome", outcome.word()),
            ];
            counts.push(counted(count, &labels));
        }
        times.push(summed(reading.seconds, &[("mount", &reading.mount)]));
    }
    let durations = core.traffic.read_durations().into_iter();
    let durations = durations
        .filter(|(_, reading)| reading.count > 0)
        .map(|(operation, reading)| histogram(reading, ("operation", operation.word())));
    let counter = FamilyKind::Plain(MetricKind::Counter);
    add(families, "requests_total", counter, "requests, by mount, operation and outcome", counts);
    let about = "time of the requests of a mount, without requests that wait for a change";
    add(families, "request_seconds_total", counter, about, times);
    let about = "time of a request, from its head to its answer, by operation";
    let kind = FamilyKind::Histogram;
    add(families, "request_duration_seconds", kind, about, durations.collect());
}

fn add_target_calls(core: &Core, families: &mut MetricFamilies) {
    let (mut counts, mut times) = (Vec::new(), Vec::new());
    for mount in core.mounts.all() {
        let path = mount.record.path.as_str();
        for (interface, calls) in core.sandbox.target_calls_of(&mount.record.uuid) {
            let of = [("mount", path), ("interface", interface.word())];
            for (outcome, count) in [("answered", calls.answered), ("failed", calls.failed)] {
                let labels = [of[0], of[1], ("outcome", outcome)];
                counts.extend((count > 0).then(|| counted(count, &labels)));
            }
            times.push(summed(calls.seconds(), &of));
        }
    }
    let durations = core.sandbox.target_durations().into_iter();
    let durations = durations
        .filter(|(_, reading)| reading.count > 0)
        .map(|(interface, reading)| histogram(reading, ("interface", interface.word())));
    let counter = FamilyKind::Plain(MetricKind::Counter);
    let about = "calls of components to targets, by mount, interface and outcome";
    add(families, "target_calls_total", counter, about, counts);
    let about = "time of the calls of a mount to its targets, by interface";
    add(families, "target_call_seconds_total", counter, about, times);
    let about = "time of a call to a target, by interface";
    let kind = FamilyKind::Histogram;
    add(families, "target_call_duration_seconds", kind, about, durations.collect());
}

fn add(
    families: &mut MetricFamilies,
    name: &str,
    kind: FamilyKind,
    about: &str,
    samples: Vec<MetricSample>,
) {
    let family = MetricFamily { kind, about: about.to_owned(), samples };
    families.insert(format!("{PREFIX}_{name}"), family);
}

fn counted(count: u64, labels: &[(&str, &str)]) -> MetricSample {
    sample(SampleValue::Reading(MetricReading::Counted(count)), labels)
}

/// A sum of seconds that only grows.
fn summed(seconds: f64, labels: &[(&str, &str)]) -> MetricSample {
    sample(SampleValue::Reading(MetricReading::Standing(seconds)), labels)
}

fn histogram(reading: HistogramReading, label: (&str, &str)) -> MetricSample {
    sample(SampleValue::Histogram(reading), &[label])
}

fn sample(value: SampleValue, labels: &[(&str, &str)]) -> MetricSample {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    MetricSample { labels: labels.iter().map(owned).collect(), value }
}
