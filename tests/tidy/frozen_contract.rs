//! The released contract: a component built against the contract runs on every later server of the
//! same major version.
//!
//! The contract of each released minor version is in the folder `wit/` of a guest that is built for
//! this version (`tests/guests/built-for-*`). Imports may gain items. No released item may change
//! or disappear, and an exported interface keeps exactly its items.

use crate::sources::{Source, all};
use std::collections::BTreeSet;

/// Interfaces that components export.
const EXPORTED: [&str; 6] =
    ["engine", "leased", "raw", "auth", "database-users", "database-accounts"];
/// The frozen contracts of the released minor versions.
const RELEASED: [&str; 2] = ["tests/guests/built-for-1-0/wit/", "tests/guests/built-for-1-1/wit/"];

#[test]
fn the_released_contract_does_not_change() {
    let files = all();
    let now = items_below(&files, "wit/");
    for folder in RELEASED {
        let released = items_below(&files, folder);
        assert!(released.len() > 100, "{folder} has {} items", released.len());
        let changed: Vec<_> = released.difference(&now).collect();
        assert!(
            changed.is_empty(),
            "these items of {folder} changed or are gone in wit/: {changed:#?}"
        );
        let place = |item: &String| item.split(": ").next().unwrap_or_default().to_owned();
        let places: BTreeSet<String> = released.iter().map(place).collect();
        // A component of the release is not asked for a later interface or world.
        let is_export = |item: &&&String| {
            let place = place(item);
            let is_exported = EXPORTED.contains(&place.as_str()) || item.contains(": export ");
            is_exported && places.contains(&place)
        };
        let added: Vec<_> = now.difference(&released).filter(|item| is_export(&item)).collect();
        assert!(
            added.is_empty(),
            "components of the release do not export these; make them an optional interface: \
             {added:#?}"
        );
    }
}

/// Returns the items of the contract in a folder.
fn items_below(files: &[Source], folder: &str) -> BTreeSet<String> {
    let is_contract = |file: &&Source| file.path.starts_with(folder) && file.path.ends_with(".wit");
    files.iter().filter(is_contract).flat_map(|file| items(&file.text)).collect()
}

/// Returns the items of a file, each behind the name of its interface or world, without comments
/// and with single spaces.
fn items(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = code.collect::<Vec<_>>().join(" ");
    let (mut found, mut place, mut item, mut depth) = (Vec::new(), String::new(), String::new(), 0);
    for letter in code.chars() {
        match (letter, depth) {
            ('{', 0) => {
                place = item.split_whitespace().last().unwrap_or_default().to_owned();
                (item, depth) = (String::new(), 1);
                continue;
            }
            ('}', 1) => {
                (item, depth) = (String::new(), 0);
                continue;
            }
            ('{', _) => depth += 1,
            ('}', _) => depth -= 1,
            _ => {}
        }
        item.push(letter);
        let is_use = item.trim_start().starts_with("use ");
        if depth > 1 || !(letter == ';' || letter == '}' && !is_use) {
            continue;
        }
        if depth == 1 && !is_use {
            let words: Vec<_> = item.split_whitespace().collect();
            found.push(format!("{place}: {}", words.join(" ")));
        }
        item.clear();
    }
    found
}

#[test]
fn items_are_read_whole_and_without_comments() {
    let text = "\
        package a:b@1.0.0;\n\
        /// About.\n\
        interface x {\n    use y.{z};\n    /// One { of.\n\
        record r {\n        a: u8, // why\n        b: u8,\n    }\n\
        type t = string;\n    f: func(\n        a: r,\n    ) -> t;\n}\n\
        world w {\n    import x;\n}\n";
    assert_eq!(
        items(text),
        [
            "x: record r { a: u8, b: u8, }",
            "x: type t = string;",
            "x: f: func( a: r, ) -> t;",
            "w: import x;"
        ]
    );
}
