//! The contract in `wit/` and the host's side of it: an interface that a component may import has
//! one file in the sandbox, of the same name, and no file is there without its interface.

use crate::sources::{all, assert_none};
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
        let host = file
            .path
            .strip_prefix("host/sandbox/src/imports/")
            .and_then(|name| name.strip_suffix(".rs"));
        hosts.extend(host.map(str::to_owned));
    }
    assert!(!imports.is_empty(), "no world imports anything");
    assert_eq!(
        imports, hosts,
        "left: imported by a world of wit/; right: files of host/sandbox/src/imports"
    );
}

/// `sql` of a line `    import sql;`.
fn imported(line: &str) -> Option<String> {
    let name = line.trim().strip_prefix("import ")?.strip_suffix(';')?;
    Some(name.to_owned())
}

#[test]
fn every_interface_stands_in_a_file_of_its_name() {
    for file in all().iter().filter(|file| file.path.ends_with(".wit")) {
        assert!(
            file.text.starts_with("package bulkhead:plugin@"),
            "{} does not name the package first",
            file.path
        );
        let stem = file.path.trim_start_matches("wit/").trim_end_matches(".wit");
        if stem != "world" {
            assert!(
                file.text.contains(&format!("interface {stem} {{")),
                "{} has no interface {stem}",
                file.path
            );
        }
    }
}

#[test]
fn the_first_line_of_every_import_asks_its_grant() {
    let asks = ["ask(", "demand(", "granted!("];
    let (mut found, mut functions) = (Vec::new(), 0);
    for file in all().iter().filter(|file| file.path.starts_with("host/sandbox/src/imports/")) {
        let (mut inside, mut signature) = (false, None);
        let mut lines = file.code();
        while let Some((number, line)) = lines.next() {
            inside = (inside || line == "impl Host for CallState {") && line != "}";
            let begins = line.starts_with("    fn ") || line.starts_with("    async fn ");
            if inside && begins {
                signature = Some(number);
            }
            // a signature may take several lines; its body begins behind the brace at its end
            let Some(at) = signature.filter(|_| line.ends_with('{')) else { continue };
            signature = None;
            functions += 1;
            let first = lines.next().map(|(_, first)| first).unwrap_or_default();
            if !asks.iter().any(|ask| first.contains(ask)) {
                found.push(format!("{}:{at}: {}", file.path, first.trim()));
            }
        }
    }
    assert!(functions > 20, "only {functions} imports were found; the rule would hold of nothing");
    assert_none(found, "ask with granted!(self, …) or self.demand(…) before anything is done");
}
