//! Failpoints have literal names, and the released server has none.

use crate::sources::{Source, all, assert_none, rust_below};

/// Implementation of failpoints; the rest of the server only passes them.
const HOME: &str = "host/record/src/failpoint";

fn elsewhere() -> Vec<Source> {
    rust_below(&["host", "plugins"])
        .into_iter()
        .filter(|file| !file.path.starts_with(HOME))
        .collect()
}

/// Returns the arguments of the line's calls, with quotes, up to the end of the line.
fn asked_for(line: &str) -> Vec<&str> {
    let is_call = |before: &str| !before.ends_with(|c: char| c == '_' || c.is_alphanumeric());
    let mut found = Vec::new();
    for call in ["reach(", "reach_only("] {
        let places = line.match_indices(call).filter(|(at, _)| is_call(&line[..*at]));
        found.extend(places.map(|(at, _)| &line[at + call.len()..]));
    }
    found
}

/// Returns `true` for `"commit.planned")`: an area, a dot, a moment.
fn is_name(rest: &str) -> bool {
    let name = rest.strip_prefix('"').and_then(|rest| rest.split_once("\")")).map(|(name, _)| name);
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c == '-' || c.is_ascii_lowercase());
    name.and_then(|name| name.split_once('.'))
        .is_some_and(|(area, moment)| is_word(area) && is_word(moment))
}

#[test]
fn every_failpoint_has_literal_area_and_moment_name() {
    let mut found = Vec::new();
    for file in elsewhere() {
        for (number, line) in file.code() {
            let nameless = asked_for(line).into_iter().any(|rest| !is_name(rest));
            found.extend(nameless.then(|| format!("{}:{number}: {}", file.path, line.trim())));
        }
    }
    assert_none(
        found,
        "write the name where the point is, as reach(\"area.moment\"): tests/fault reads it there",
    );
}

#[test]
fn only_the_failpoint_module_reads_its_environment() {
    let uses = |file: &Source| file.text.contains(concat!("BULKHEAD", "_FAULT"));
    let found = elsewhere().into_iter().filter(uses).map(|file| file.path);
    assert_none(
        found.collect(),
        "only the failpoint module may read the switch, so that the released binary has none",
    );
}

#[test]
fn failpoints_are_built_only_on_request() {
    let by_default =
        |line: &&str| line.trim_start().starts_with("default = [") && line.contains("fault");
    let mut found = Vec::new();
    for file in all().into_iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        found.extend(
            file.text.lines().filter(by_default).map(|line| format!("{}: {line}", file.path)),
        );
    }
    assert_none(found, "only the command line of `make build-fault` may name the feature");
}

#[test]
fn failpoint_names_are_recognised() {
    assert_eq!(asked_for(r#"a::reach("x.y")?; reach_only("z.w");"#).len(), 2);
    assert!(asked_for("overreach(1); fn reached() {}").is_empty());
    assert!(is_name(r#""commit.planned").map_err(f)?;"#));
    for other in ["name)", r#""written")"#, r#""Commit.Written")"#, r#""commit.")"#] {
        assert!(!is_name(other), "{other}");
    }
}
