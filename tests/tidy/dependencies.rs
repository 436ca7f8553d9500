//! The rules of `.deny.toml` about versions, checked against `Cargo.lock` without a network.

use crate::sources::assert_none;
use bulkhead_tests::paths::repository;
use std::collections::BTreeMap;

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the locked versions of each crate.
fn locked() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let lock = read("Cargo.lock");
    let mut lines = lock.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = quoted_after(line, "name = ") {
            let version = quoted_after(lines.next().unwrap_or_default(), "version = ")
                .expect("a package has a version");
            found.entry(name).or_default().push(version);
        }
    }
    assert!(found.len() > 100, "Cargo.lock was not understood");
    found
}

fn quoted_after(line: &str, key: &str) -> Option<String> {
    let (_, rest) = line.split_once(key)?;
    Some(rest.strip_prefix('"')?.split('"').next()?.to_owned())
}

/// Returns the entries of a list of `.deny.toml`: name, version, and `true` if there is a reason.
fn entries(list: &str) -> Vec<(String, Option<String>, bool)> {
    let text = read(".deny.toml");
    let (_, rest) = text
        .split_once(&format!("\n{list} = [\n"))
        .unwrap_or_else(|| panic!(".deny.toml has no {list}"));
    let (inside, _) = rest.split_once("\n]").expect("a list ends");
    let entry = |line: &str| {
        let name = quoted_after(line, "name = ")?;
        Some((name, quoted_after(line, "version = "), quoted_after(line, "reason = ").is_some()))
    };
    inside.lines().filter_map(entry).collect()
}

/// Returns `48.0.8` as numbers that compare, without a suffix after `-` or `+`.
fn numbers(version: &str) -> Vec<u64> {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    core.split('.')
        .map(|part| part.parse().unwrap_or_else(|_| panic!("{version} is not a version")))
        .collect()
}

#[test]
fn no_crate_is_older_than_its_floor_or_banned() {
    let locked = locked();
    let mut found = Vec::new();
    for (name, bound, _) in entries("deny") {
        let floor = bound
            .as_deref()
            .map(|bound| bound.strip_prefix('<').expect("a floor is written as <version"));
        for version in locked.get(&name).into_iter().flatten() {
            if floor.is_none_or(|floor| numbers(version) < numbers(floor)) {
                found.push(format!("{name} {version}"));
            }
        }
    }
    assert_none(found, "these versions are not allowed, see .deny.toml");
    assert!(
        entries("deny")
            .iter()
            .any(|(name, bound, _)| name == "wasmtime" && bound.as_deref() == Some("<48.0.8"))
    );
}

#[test]
fn every_duplicate_crate_has_a_reason() {
    let skipped = entries("skip");
    // No supported target builds crates for Windows.
    let built = |name: &str| !name.starts_with("windows");
    let mut found = Vec::new();
    for (name, versions) in
        locked().into_iter().filter(|(name, versions)| versions.len() > 1 && built(name))
    {
        let reasons = skipped.iter().filter(|(skipped, _, why)| *skipped == name && *why).count();
        if reasons + 1 < versions.len() {
            found.push(format!("{name} {versions:?}"));
        }
    }
    assert_none(found, "use one version, or list the older version in .deny.toml with a reason");
}

#[test]
fn no_reason_remains_without_its_duplicate() {
    let locked = locked();
    let gone =
        entries("skip").into_iter().filter(|(name, _, _)| locked.get(name).map_or(0, Vec::len) < 2);
    assert_none(
        gone.map(|(name, _, _)| name).collect(),
        "only one version is left: remove the line from .deny.toml",
    );
}

#[test]
fn versions_compare_as_numbers() {
    assert!(numbers("0.103.9") < numbers("0.103.13"));
    assert!(numbers("48.0.8") >= numbers("48.0.8"));
}
