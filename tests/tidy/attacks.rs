//! The table of attacks: each row names the test that fails if the attack succeeds again.

use crate::sources::{all, assert_none};
use crate::tables::{cells, quoted};

const PAGE: &str = "docs/attacks.md";

#[test]
fn every_attack_names_an_existing_test() {
    let sources = all();
    let text_of = |path: &str| sources.iter().find(|file| file.path == path).map(|file| &file.text);
    let page = text_of(PAGE).expect("the page is there");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
        .map(cells)
        .collect();
    assert!(rows.len() > 20, "only {} rows were found", rows.len());
    let mut found = Vec::new();
    for row in rows {
        let (Some(file), Some(tests)) = (row.get(2), row.get(3)) else {
            found.push(format!("a row of {} cells: {row:?}", row.len()));
            continue;
        };
        let Some(text) = quoted(file).first().and_then(|path| text_of(path)) else {
            found.push(format!("there is no file {file}"));
            continue;
        };
        let is_missing = |test: &&str| !text.contains(&format!("fn {test}("));
        found.extend(
            quoted(tests)
                .into_iter()
                .filter(is_missing)
                .map(|test| format!("{file} has no test {test}")),
        );
    }
    assert_none(found, "name an existing test in the row of docs/attacks.md");
}
