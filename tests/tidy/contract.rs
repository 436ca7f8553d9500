//! The contract in `wit/` and the host's side of it: an interface that a component may import has one file
//! in the sandbox, of the same name, and no file is there without its interface.

use crate::sources::all;
use std::collections::BTreeSet;

#[test]
fn every_import_has_its_host_file_and_every_host_file_its_import() {
    let files = all();
    let mut imports = BTreeSet::new();
    let mut hosts = BTreeSet::new();
    for file in &files {
        if file.path.starts_with("wit/") && file.path.ends_with(".wit") {
            imports.extend(file.text.lines().filter_map(imported));
        }
        let host = file.path.strip_prefix("host/sandbox/src/imports/").and_then(|name| name.strip_suffix(".rs"));
        hosts.extend(host.map(str::to_owned));
    }
    assert!(!imports.is_empty(), "no world imports anything");
    assert_eq!(imports, hosts, "left: imported by a world of wit/; right: files of host/sandbox/src/imports");
}

/// `sql` of a line `    import sql;`.
fn imported(line: &str) -> Option<String> {
    let name = line.trim().strip_prefix("import ")?.strip_suffix(';')?;
    Some(name.to_owned())
}

#[test]
fn every_interface_stands_in_a_file_of_its_name() {
    for file in all().iter().filter(|file| file.path.ends_with(".wit")) {
        assert!(file.text.starts_with("package bulkhead:plugin@"), "{} does not name the package first", file.path);
        let stem = file.path.trim_start_matches("wit/").trim_end_matches(".wit");
        if stem != "world" {
            assert!(file.text.contains(&format!("interface {stem} {{")), "{} has no interface {stem}", file.path);
        }
    }
}
