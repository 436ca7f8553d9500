//! Dashboards and alerts name only metrics and labels of the page, which is compared with the
//! program.
//!
//! This file prevents an alert that never fires because a metric or a label was renamed.

use crate::sources::{Source, all, assert_none, text_of};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/observability.md";

/// Endings that the exposition of a histogram adds to its name.
const ENDINGS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Labels that Prometheus adds, and the bound of a bucket.
const ADDED_LABELS: [&str; 3] = ["instance", "job", "le"];

/// The labels of each metric of the page.
type PageMetrics<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Reads the rows `| name | kind | labels | … |`.
fn metrics(page: &str) -> PageMetrics<'_> {
    page.lines().filter_map(row).filter(|(name, _)| is_metric(name)).collect()
}

fn row(line: &str) -> Option<(&str, BTreeSet<&str>)> {
    let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
    let name = cells.next()?.trim_matches('`');
    let labels = cells.nth(1)?.split(", ").map(|label| label.trim_matches('`'));
    Some((name, labels.filter(|label| !label.is_empty()).collect()))
}

fn is_metric(word: &str) -> bool {
    ["bulkhead_", "process_"].iter().any(|prefix| word.starts_with(prefix))
}

/// Returns the metric of a series' name.
fn of_series<'a>(name: &'a str, page: &PageMetrics<'_>) -> Option<&'a str> {
    let is_on_page = |name: &&str| page.contains_key(*name);
    let stripped = ENDINGS.iter().filter_map(|end| name.strip_suffix(end));
    std::iter::once(name).chain(stripped).find(is_on_page)
}

/// Returns the unknown metrics of a text, and the unknown labels in the braces behind a metric.
fn unknown(file: &Source, page: &PageMetrics<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = file.text.as_str();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    while let Some(start) = rest.find(is_part) {
        let word = &rest[start..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (name, behind) = word.split_at(end);
        rest = behind;
        if !is_metric(name) {
            continue;
        }
        let Some(metric) = of_series(name, page) else {
            found.push(format!("{}: {name}", file.path));
            continue;
        };
        let braces = behind.strip_prefix('{').and_then(|text| text.split_once('}'));
        for label in braces.map(|(inside, _)| labels(inside)).unwrap_or_default() {
            if !page[metric].contains(label) && !ADDED_LABELS.contains(&label) {
                found.push(format!("{}: {name} has no label {label}", file.path));
            }
        }
    }
    found
}

/// Returns the names in `a="x",b!~"y"`, also with the quotes of JSON.
fn labels(inside: &str) -> Vec<&str> {
    let parts = inside.split('"').step_by(2);
    let name = |part: &str| -> Option<usize> { part.find(['=', '!']) };
    let named = parts.filter_map(|part| Some(part[..name(part)?].trim_matches([',', ' ', '\\'])));
    named.collect()
}

#[test]
fn dashboards_and_alerts_name_existing_metrics() {
    let files: Vec<Source> =
        all().into_iter().filter(|file| file.path.starts_with("packaging/")).collect();
    assert!(files.len() >= 3, "the files of packaging/ were not found");
    let page = text_of(PAGE);
    let page = metrics(&page);
    assert!(page.len() > 50, "only {} metrics were found on the page", page.len());
    let found = files.iter().flat_map(|file| unknown(file, &page)).collect();
    assert_none(found, &format!("name a metric of {PAGE} and its labels"));
}

#[test]
fn unknown_metric_and_label_are_found() {
    let page = "| `bulkhead_a_total` | counter | `mount`, `kind` | x |\n\
                | `bulkhead_b_seconds` | histogram |  | x |\n";
    let text = "rate(bulkhead_a_total{mount=\"x\",kind!~\\\"b\\\"}[5m]) \
                + bulkhead_b_seconds_bucket{le=\"1\",instance=~\"$instance\"} + bulkhead_gone";
    let file = Source { path: "packaging/x".to_owned(), text: text.to_owned() };
    assert_eq!(unknown(&file, &metrics(page)), ["packaging/x: bulkhead_gone"]);
    let text = "bulkhead_a_total{state=\"c\",mount=\"d\"}".to_owned();
    let file = Source { path: "packaging/x".to_owned(), text };
    let found = unknown(&file, &metrics(page));
    assert_eq!(found, ["packaging/x: bulkhead_a_total has no label state"]);
}
