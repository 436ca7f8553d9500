//! The text format of Prometheus, version 0.0.4.

use super::{MetricFamilies, MetricReading, MetricSample};
use std::fmt::Write;

/// Content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes all families, the series of each family together.
pub(super) fn write(families: &MetricFamilies) -> String {
    let mut text = String::new();
    for (name, family) in families {
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
    _ = match sample.reading {
        MetricReading::Counted(count) => writeln!(text, "{name}{{{labels}}} {count}"),
        MetricReading::Standing(value) => writeln!(text, "{name}{{{labels}}} {value}"),
        MetricReading::Observed { count, sum } => {
            writeln!(text, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}")
        }
    };
}

/// Escapes the characters of a label value that would end the value or the line.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::MetricFamily;
    use super::*;
    use bulkhead_wire::metric::MetricKind;

    #[test]
    fn metric_kinds_have_own_lines_and_escaped_labels() {
        let family = |kind, reading| {
            let labels = vec![("mount".to_owned(), "a\"b\\c\n/".to_owned())];
            let samples = vec![MetricSample { labels, reading }];
            MetricFamily { kind, about: "What it is.".to_owned(), samples }
        };
        let families = MetricFamilies::from([
            ("a_total".to_owned(), family(MetricKind::Counter, MetricReading::Counted(3))),
            ("b".to_owned(), family(MetricKind::Gauge, MetricReading::Standing(0.5))),
            (
                "c".to_owned(),
                family(MetricKind::Summary, MetricReading::Observed { count: 2, sum: 7.0 }),
            ),
        ]);
        let labels = r#"{mount="a\"b\\c\n/"}"#;
        let expected = format!(
            "# HELP a_total What it is.\n# TYPE a_total counter\na_total{labels} 3\n\
             # HELP b What it is.\n# TYPE b gauge\nb{labels} 0.5\n\
             # HELP c What it is.\n# TYPE c summary\nc_sum{labels} 7\nc_count{labels} 2\n"
        );
        assert_eq!(write(&families), expected);
    }
}
