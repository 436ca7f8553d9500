//! The page of metrics has all registrations, and names carry their units.

use super::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// The page with a table for each group, from this crate.
const PAGE: &str = "../../docs/observability.md";

/// Returns the page with `table` between the marks of its group.
fn replaced(page: &str, (mark, table): &(&str, String)) -> String {
    let [begin, end] = ["begin", "end"].map(|word| format!("<!-- {mark}:{word} -->\n"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn page_lists_all_registrations() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).expect("the page exists");
    let current = tables().iter().fold(page.clone(), |page, table| replaced(&page, table));
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, current).expect("the page can be written");
        return;
    }
    assert!(page == current, "{PAGE} differs from the registrations; run `make golden`");
}

#[test]
fn names_are_unique_and_carry_units() {
    let mut names = BTreeSet::new();
    let rows = GROUPS.iter().flat_map(|group| group.metrics).map(|metric| metric.row());
    for row in rows {
        let name = row.split('`').nth(1).expect("a name").to_owned();
        assert_eq!(row.contains("| counter |"), name.ends_with("_total"), "{row}");
        assert!(!row.contains("| histogram |") || name.ends_with("_seconds"), "{row}");
        assert!(!row.contains("|  |\n"), "a question: {row}");
        assert!(names.insert(name), "{row} is registered twice");
    }
}

#[test]
fn changed_row_changes_page() {
    let page = "a\n<!-- x:begin -->\n| old |\n<!-- x:end -->\nb\n";
    assert_eq!(replaced(page, &("x", "| new |\n".to_owned())), page.replace("old", "new"));
}
