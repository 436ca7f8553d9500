//! The text format of Prometheus, version 0.0.4.

use super::family::MetricFamilies;
use super::series::{MetricSample, SampleValue};
use bulkhead_sandbox::MetricReading;
use std::fmt::Write;

/// Content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes all families, the series of each family together.
pub(super) fn write(families: &MetricFamilies) -> String {
    let mut text = String::new();
    for (name, family) in families.all() {
        let about = family.about.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a `String` cannot fail.
        _ = writeln!(text, "# HELP {name} {about}");
        _ = writeln!(text, "# TYPE {name} {}", family.kind.word());
        for sample in &family.samples {
            write_sample(&mut text, name, sample);
        }
    }
    text
}

fn write_sample(text: &mut String, name: &str, sample: &MetricSample) {
    let labels: Vec<String> = sample
        .labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
        .collect();
    let labels = labels.join(",");
    // Writing to a `String` cannot fail.
    _ = match &sample.value {
        SampleValue::Reading(MetricReading::Counted(count)) => {
            writeln!(text, "{name}{{{labels}}} {count}")
        }
        SampleValue::Reading(MetricReading::Standing(value)) => {
            writeln!(text, "{name}{{{labels}}} {value}")
        }
        SampleValue::Reading(MetricReading::Observed { count, sum }) => {
            write_sum(text, name, &labels, (*sum, *count))
        }
        SampleValue::Histogram(reading) => {
            let comma = if labels.is_empty() { "" } else { "," };
            for (bound, count) in &reading.cumulated {
                _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
            }
            let count = reading.count;
            _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
            write_sum(text, name, &labels, (reading.sum, count))
        }
    };
}

fn write_sum(
    text: &mut String,
    name: &str,
    labels: &str,
    (sum, count): (f64, u64),
) -> std::fmt::Result {
    writeln!(text, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}")
}

/// Escapes the characters of a label value that would end the value or the line.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::family::MetricFamily;
    use super::super::series::FamilyKind;
    use super::*;
    use bulkhead_wire::duration_histogram::HistogramReading;
    use bulkhead_wire::metric::MetricKind;

    fn family(kind: FamilyKind, value: SampleValue) -> MetricFamily {
        let labels = vec![("mount".to_owned(), "a\"b\\c\n/".to_owned())];
        let samples = vec![MetricSample { labels, value }];
        MetricFamily { kind, about: "What it is.".to_owned(), samples }
    }

    fn plain(kind: MetricKind, reading: MetricReading) -> MetricFamily {
        family(FamilyKind::Plain(kind), SampleValue::Reading(reading))
    }

    #[test]
    fn metric_kinds_have_own_lines_and_escaped_labels() {
        let summary = MetricReading::Observed { count: 2, sum: 7.0 };
        let families = MetricFamilies::of([
            ("a_total".to_owned(), plain(MetricKind::Counter, MetricReading::Counted(3))),
            ("b".to_owned(), plain(MetricKind::Gauge, MetricReading::Standing(0.5))),
            ("c".to_owned(), plain(MetricKind::Summary, summary)),
        ]);
        let labels = r#"{mount="a\"b\\c\n/"}"#;
        let expected = format!(
            "# HELP a_total What it is.\n# TYPE a_total counter\na_total{labels} 3\n\
             # HELP b What it is.\n# TYPE b gauge\nb{labels} 0.5\n\
             # HELP c What it is.\n# TYPE c summary\nc_sum{labels} 7\nc_count{labels} 2\n"
        );
        assert_eq!(write(&families), expected);
    }

    #[test]
    fn histogram_has_cumulated_buckets_and_infinity() {
        let reading =
            HistogramReading { cumulated: vec![(0.001, 2), (10.0, 3)], count: 4, sum: 12.5 };
        let mut family = family(FamilyKind::Histogram, SampleValue::Histogram(reading));
        family.samples[0].labels = vec![("operation".to_owned(), "read".to_owned())];
        let text = write(&MetricFamilies::of([("d_seconds".to_owned(), family)]));
        assert_eq!(
            text,
            "# HELP d_seconds What it is.\n# TYPE d_seconds histogram\n\
             d_seconds_bucket{operation=\"read\",le=\"0.001\"} 2\n\
             d_seconds_bucket{operation=\"read\",le=\"10\"} 3\n\
             d_seconds_bucket{operation=\"read\",le=\"+Inf\"} 4\n\
             d_seconds_sum{operation=\"read\"} 12.5\nd_seconds_count{operation=\"read\"} 4\n"
        );
    }
}
