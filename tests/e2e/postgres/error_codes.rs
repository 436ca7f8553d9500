//! The recorded list of PostgreSQL's errors, compared with the list of the installed server.

use std::collections::BTreeSet;
use std::path::PathBuf;

const RECORDED: &str = include_str!("../../../host/outbound/fixtures/sql/postgres-errors.tsv");

/// Returns the lists of errors of the installed servers.
fn installed() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/share/postgresql").expect("a server is installed");
    let list = |version: std::io::Result<std::fs::DirEntry>| {
        version.expect("the folder can be read").path().join("errcodes.txt")
    };
    versions.map(list).filter(|list| list.is_file()).collect()
}

#[test]
fn every_error_of_the_installed_server_is_recorded() {
    let recorded: BTreeSet<&str> =
        RECORDED.lines().filter_map(|line| line.split('\t').next()).collect();
    let lists = installed();
    assert!(!lists.is_empty());
    for list in lists {
        let text = std::fs::read_to_string(&list).expect("the list can be read");
        // A line has a SQLSTATE, `E` for an error, and the name.
        let errors = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            words.next().filter(|_| words.next() == Some("E"))
        });
        let missing: Vec<&str> = errors.filter(|state| !recorded.contains(state)).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", list.display());
    }
}
