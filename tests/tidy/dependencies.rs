//! The rules of `.deny.toml` about versions, checked against `Cargo.lock` without a network, and
//! the rule that each crate uses the dependencies named in the manifest.

use crate::sources::{self, Source, assert_none, text_of};
use std::collections::BTreeMap;

/// Packages whose library has another name than the package.
const LIBRARY_NAMES: [(&str, &str); 2] = [("hcl-rs", "hcl"), ("rustls-webpki", "webpki")];

/// Returns the locked versions of each crate.
fn locked() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let lock = text_of("Cargo.lock");
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
    let text = text_of(".deny.toml");
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
fn no_crate_is_banned_or_below_its_floor() {
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

/// Returns the names of the dependencies in a manifest, of all sections.
fn dependencies_of(manifest: &str) -> Vec<String> {
    let mut is_list = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            is_list = section.trim_end_matches(']').ends_with("dependencies");
        } else if is_list && line.starts_with(char::is_alphanumeric) {
            names.extend(line.split([' ', '.', '=']).next().map(str::to_owned));
        }
    }
    names
}

/// Reports whether a Rust file has the word `name` in its code.
fn names_library(file: &Source, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    file.code().any(|(_, line)| {
        let mut rest = line;
        while let Some(place) = rest.find(name) {
            let (before, after) = (&rest[..place], &rest[place + name.len()..]);
            if !before.ends_with(is_part) && !after.starts_with(is_part) {
                return true;
            }
            rest = after;
        }
        false
    })
}

fn library_name(package: &str) -> String {
    let other = LIBRARY_NAMES.iter().find(|(name, _)| *name == package);
    other.map_or(package, |(_, library)| library).replace('-', "_")
}

/// Crates for tests without a dependency.
const WITHOUT: [&str; 2] = ["host/fuzz/", "host/test-database/"];

#[test]
fn every_crate_uses_each_of_its_dependencies() {
    let files = sources::all();
    let mut found = Vec::new();
    for manifest in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let code: Vec<&Source> = files
            .iter()
            .filter(|file| file.path.starts_with(folder) && file.path.ends_with(".rs"))
            .collect();
        let names = dependencies_of(&manifest.text);
        assert!(!names.is_empty() || WITHOUT.contains(&folder), "{} has no list", manifest.path);
        for name in names {
            let library = library_name(&name);
            if !code.iter().any(|file| names_library(file, &library)) {
                found.push(format!("{} names {name}", manifest.path));
            }
        }
    }
    assert_none(found, "these dependencies are not used: remove them from the manifest");
}

#[test]
fn every_version_of_the_workspace_is_used() {
    let files = sources::all();
    let manifests: Vec<&Source> =
        files.iter().filter(|file| file.path.ends_with("/Cargo.toml")).collect();
    let unused = dependencies_of(&text_of("Cargo.toml")).into_iter().filter(|name| {
        !manifests.iter().any(|manifest| dependencies_of(&manifest.text).contains(name))
    });
    assert_none(unused.collect(), "no crate uses these versions: remove them from Cargo.toml");
}

#[test]
fn versions_compare_as_numbers() {
    assert!(numbers("0.103.9") < numbers("0.103.13"));
    assert!(numbers("48.0.8") >= numbers("48.0.8"));
}
