//! Dashboards and alerts name only metrics of the page, which is compared with the program.

use crate::sources::{Source, all, assert_none, text_of};
use std::collections::BTreeSet;

const PAGE: &str = "docs/observability.md";

/// Endings that the exposition of a histogram adds to its name.
const ENDINGS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Returns the names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|word| ["bulkhead_", "process_"].iter().any(|prefix| word.starts_with(prefix)))
        .collect()
}

/// Returns the names in a file that the page lacks.
fn unknown(file: &Source, page: &str) -> Vec<String> {
    let is_on_page = |name: &str| page.contains(&format!("| `{name}` |"));
    let is_part =
        |name: &str| ENDINGS.iter().any(|end| name.strip_suffix(end).is_some_and(is_on_page));
    let unknown = names(&file.text).into_iter().filter(|name| !is_on_page(name) && !is_part(name));
    unknown.map(|name| format!("{}: {name}", file.path)).collect()
}

#[test]
fn dashboards_and_alerts_name_existing_metrics() {
    let files: Vec<Source> =
        all().into_iter().filter(|file| file.path.starts_with("packaging/")).collect();
    assert!(files.len() >= 3, "the files of packaging/ were not found");
    let page = text_of(PAGE);
    let found = files.iter().flat_map(|file| unknown(file, &page)).collect();
    assert_none(found, &format!("name a metric of {PAGE}"));
}

#[test]
fn unknown_metric_is_found() {
    let page = "| `bulkhead_a_total` | counter |\n| `bulkhead_b_seconds` | histogram |\n";
    let text = "rate(bulkhead_a_total[5m]) + bulkhead_b_seconds_bucket + bulkhead_gone".to_owned();
    let file = Source { path: "packaging/x".to_owned(), text };
    assert_eq!(unknown(&file, page), ["packaging/x: bulkhead_gone"]);
}
