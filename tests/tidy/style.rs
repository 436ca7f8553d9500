//! Form and names of files.

use crate::sources::{EVERYWHERE, Source, all, assert_none, rust_below};
use bulkhead_tests::paths::repository;

#[test]
fn every_rust_file_opens_with_its_purpose() {
    let silent = rust_below(&EVERYWHERE).into_iter().filter(|file| !file.text.starts_with("//! "));
    assert_none(
        silent.map(|file| file.path).collect(),
        "begin the file with a `//!` line that states its purpose",
    );
}

#[test]
fn no_file_has_a_catch_all_name() {
    let vague = |file: &Source| {
        let mut stems = file.path.split('/').map(|part| part.split('.').next().unwrap_or_default());
        stems.any(|stem| ["util", "utils", "helper", "helpers", "common", "misc"].contains(&stem))
    };
    assert_none(
        all().into_iter().filter(vague).map(|file| file.path).collect(),
        "name the file after its content, and move unrelated code to a separate file",
    );
}

#[test]
fn the_repository_contains_no_path_of_a_machine() {
    // Assembled here, so that this file does not break the rule.
    let here = format!("{}/", repository().display());
    let traces = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), &here];
    let mut found = Vec::new();
    for file in all() {
        for (number, line) in file.text.lines().enumerate() {
            if traces.iter().any(|trace| starts_a_path(line, trace)) {
                found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    assert_none(found, "write paths relative to the repository's root");
}

/// Returns `true` if `trace` begins a path in `line` and is not in the middle of a path.
fn starts_a_path(line: &str, trace: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || "/_-.*:".contains(c);
    line.match_indices(trace).any(|(at, _)| !line[..at].ends_with(is_inside))
}

#[test]
fn only_the_public_registry_is_named() {
    let mut found = Vec::new();
    for file in all()
        .into_iter()
        .filter(|file| file.path.ends_with(".toml") || file.path.ends_with(".lock"))
    {
        for (number, line) in file.text.lines().enumerate() {
            let other = line.contains("registry+")
                && !line.contains("registry+https://github.com/rust-lang/crates.io-index");
            if other || ["[source.", "[registr"].iter().any(|table| line.starts_with(table)) {
                found.push(format!("{}:{}: {line}", file.path, number + 1));
            }
        }
    }
    assert_none(found, "configure registries only in the machine's own cargo configuration");
}

#[test]
fn no_test_is_ignored() {
    let mark = concat!("#[ig", "nore");
    let mut found = Vec::new();
    for file in rust_below(&EVERYWHERE) {
        let off = file.code().filter(|(_, line)| line.contains(mark));
        found.extend(off.map(|(number, _)| format!("{}:{number}", file.path)));
    }
    assert_none(found, "repair the test or remove it");
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    #[test]
    fn machine_paths_are_recognised() {
        assert!(starts_a_path("see /opt/x", "/opt/"));
        assert!(!starts_a_path("see a/opt/x", "/opt/"));
        assert!(!starts_a_path("https://opt/opt/", "/opt/"));
    }
}
