//! Nothing new without its test: every route of an engine's table, and every endpoint of the host's, has a
//! row in `tests/e2e/endpoints.rs` and a golden answer.

use crate::sources::{all, assert_none, rust_below};
use std::collections::BTreeSet;

/// The engines, and where they are mounted in tests.
const ENGINES: [(&str, &str); 1] = [("plugins/database", "database")];

/// `database-config-name.write` of a route `config/{name}` below `database`.
fn row_name(mount: &str, path: &str, verb: &str) -> String {
    let words = path.replace(['{', '}'], "").replace('/', "-");
    if mount.is_empty() { format!("{words}.{verb}") } else { format!("{mount}-{words}.{verb}") }
}

/// The verb and path of a table's row: a line that begins with `read("config/{name}"`.
fn route(line: &str) -> Option<(&str, &str)> {
    let (verb, rest) = line.trim_start().split_once("(\"")?;
    let path = rest.split('"').next()?;
    ["read", "write", "list", "delete"].contains(&verb).then_some((verb, path))
}

fn routes_of(folder: &str, mount: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in rust_below(&[folder]).iter().filter(|file| file.path.ends_with("src/lib.rs")) {
        found.extend(file.code().filter_map(|(_, line)| route(line)).map(|(verb, path)| row_name(mount, path, verb)));
    }
    assert!(!found.is_empty(), "no table of routes was found in {folder}");
    found
}

#[test]
fn every_route_of_an_engine_is_tested_from_outside() {
    let files = all();
    let rows = &files.iter().find(|file| file.path == "tests/e2e/endpoints.rs").expect("the table of endpoints").text;
    let mut missing = Vec::new();
    for (folder, mount) in ENGINES {
        for name in routes_of(folder, mount) {
            if !rows.contains(&format!("\"{name}\"")) {
                missing.push(format!("{name}: no row in tests/e2e/endpoints.rs"));
            }
            if !files.iter().any(|file| file.path == format!("tests/golden/{name}.json")) {
                missing.push(format!("{name}: no golden answer"));
            }
        }
    }
    assert_none(missing, "add a row, then run `make golden` and read what it wrote");
}

/// The paths that the host itself serves, without their captures: every text of the table that is one.
fn host_paths() -> BTreeSet<String> {
    let files = all();
    let table = files.iter().find(|file| file.path == "host/core/src/api/rows.rs").expect("the host's table");
    let texts = table.code().flat_map(|(_, line)| line.split('"').skip(1).step_by(2));
    let paths = texts.filter(|text| text.starts_with("sys/") || text.starts_with("auth/"));
    paths.map(|path| path.split("/{").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_endpoint_of_the_host_is_tested_from_outside() {
    let files = all();
    let rows = &files.iter().find(|file| file.path == "tests/e2e/endpoints.rs").expect("the table of endpoints").text;
    let paths = host_paths();
    assert!(paths.len() > 10, "the host's table was not understood: {paths:?}");
    let untested = |path: &String| !rows.contains(&format!("\"{path}\"")) && !rows.contains(&format!("\"{path}/"));
    assert_none(
        paths.into_iter().filter(untested).collect(),
        "add a row, then run `make golden` and read what it wrote",
    );
}

#[test]
fn no_golden_answer_outlives_its_row() {
    let files = all();
    let rows = &files.iter().find(|file| file.path == "tests/e2e/endpoints.rs").expect("the table of endpoints").text;
    let orphans = files.iter().filter_map(|file| {
        let name = file.path.strip_prefix("tests/golden/")?.strip_suffix(".json")?;
        (!rows.contains(&format!("\"{name}\""))).then(|| name.to_owned())
    });
    assert_none(orphans.collect(), "nothing compares itself with these any more: remove them");
}

#[test]
fn a_row_is_read_from_its_line() {
    assert_eq!(route("        write(\"config/{name}\", config::write)"), Some(("write", "config/{name}")));
    assert_eq!(route("        let x = read(\"a\");"), None);
    assert_eq!(row_name("database", "config/{name}", "write"), "database-config-name.write");
}
