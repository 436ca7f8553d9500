//! Stored records are written by the trait for stored types, and records of earlier releases are
//! read.

use crate::sources::{Source, all, assert_none, rust_below};

/// Folders outside of the store with code that stores records.
const STORING: [&str; 4] =
    ["host/access/src", "host/audit/src", "host/core/src", "plugins/database/src"];

/// Returns the code above the tests of a file, and nothing of a file of tests.
fn product(file: &Source) -> impl Iterator<Item = (usize, &str)> {
    let is_test = file.path.ends_with("/tests.rs");
    file.code().take_while(move |(_, line)| !is_test && *line != "mod tests {")
}

#[test]
fn stored_type_trait_writes_and_reads_records() {
    let mut found = Vec::new();
    for file in rust_below(&STORING) {
        let bare = product(&file).filter(|(_, line)| {
            ["serde_json::to_vec(", "serde_json::from_slice("]
                .iter()
                .any(|call| line.contains(call))
        });
        found.extend(bare.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())));
    }
    assert_none(found, "declare the type with stored!, whose earlier records a test reads");
}

#[test]
fn every_file_of_earlier_records_is_read() {
    let sources = rust_below(&["host", "plugins"]);
    let mut found = Vec::new();
    for file in all() {
        let Some((folder, name)) = file.path.split_once("/fixtures/records/") else { continue };
        let kind = name.trim_end_matches(".jsonl");
        let names_it = |source: &&Source| {
            source.path.starts_with(&format!("{folder}/"))
                && source.text.contains(&format!("\"{kind}\""))
        };
        found.extend(sources.iter().find(names_it).is_none().then(|| file.path.clone()));
    }
    assert_none(
        found,
        "no type reads these records, and stores of earlier releases may contain them",
    );
}
