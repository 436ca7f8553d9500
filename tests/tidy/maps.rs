//! The maps of crates and components: `docs/architecture.md` §1, `host/README.md` and
//! `plugins/README.md` name every member of the workspace, and nothing else.

use crate::sources::{assert_none, text_of};
use crate::tables::{quoted, rows_below};
use std::collections::BTreeSet;

/// A table of a document, with a row for each member below a folder. The first cell of a row names
/// its members in back quotes.
struct Map {
    document: &'static str,
    /// Beginning of the line above the rows.
    heading: &'static str,
    folder: &'static str,
}

const MAPS: [Map; 3] = [
    Map { document: "docs/architecture.md", heading: "| crate | knows |", folder: "host/" },
    Map { document: "host/README.md", heading: "| crate | knows |", folder: "host/" },
    Map { document: "plugins/README.md", heading: "| folder | content |", folder: "plugins/" },
];

/// Crates that only tests import. The picture of the layers omits these crates.
const FOR_TESTS: [&str; 2] = ["fuzz", "test-database"];

/// Returns the members of a workspace below `folder`, without the folder. Excluded folders count:
/// an author's copy is a component too.
fn members(manifest: &str, folder: &str) -> BTreeSet<String> {
    let (_, after) = manifest.split_once("members = [").expect("the workspace has members");
    let (lists, _) = after.split_once("[workspace.package]").expect("a table follows");
    let quoted = lists.split('"').skip(1).step_by(2);
    quoted.filter_map(|path| path.strip_prefix(folder)).map(str::to_owned).collect()
}

/// Returns the names in the first cells of the table below `heading`.
fn rows(document: &str, heading: &str) -> BTreeSet<String> {
    let rows = rows_below(document, heading);
    rows.iter().flat_map(|row| quoted(row[0])).map(str::to_owned).collect()
}

/// Returns the members without a row, and the rows without a member.
fn differences(members: &BTreeSet<String>, rows: &BTreeSet<String>) -> Vec<String> {
    let missing = members.difference(rows).map(|name| format!("no row for {name}"));
    let surplus = rows.difference(members).map(|name| format!("no member {name}"));
    missing.chain(surplus).collect()
}

/// Returns the words of the first code block, which is the picture of the layers.
fn words_of_picture(document: &str) -> BTreeSet<&str> {
    let picture = document.split("```").nth(1).expect("the document has a picture");
    picture.split(|c: char| !c.is_ascii_alphanumeric()).collect()
}

#[test]
fn maps_name_every_crate_and_component() {
    let manifest = text_of("Cargo.toml");
    let mut found = Vec::new();
    for Map { document, heading, folder } in MAPS {
        let differing =
            differences(&members(&manifest, folder), &rows(&text_of(document), heading));
        found.extend(differing.iter().map(|problem| format!("{document}: {problem}")));
    }
    assert_none(found, "write a row for each member of the workspace, and remove the others");
}

#[test]
fn layer_picture_names_every_server_crate() {
    let document = text_of("docs/architecture.md");
    let words = words_of_picture(&document);
    let crates = members(&text_of("Cargo.toml"), "host/");
    let missing = crates
        .into_iter()
        .filter(|name| !words.contains(name.as_str()) && !FOR_TESTS.contains(&name.as_str()));
    assert_none(missing.collect(), "draw the crate into the picture of docs/architecture.md §1");
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    const MANIFEST: &str = "members = [\n    \"host/a\",\n    \"plugins/x\",\n]\n\
        exclude = [\"plugins/y\"]\n[workspace.package]\nversion = \"1\"\n";

    fn differing(table: &str, folder: &str) -> Vec<String> {
        let document =
            format!("| k | other |\n|---|---|\n| `z` | |\n\n| k | v |\n|---|---|\n{table}");
        differences(&members(MANIFEST, folder), &rows(&document, "| k | v |"))
    }

    #[test]
    fn missing_and_surplus_rows_are_found() {
        assert_eq!(differing("| `a` | `not-a-member` |\n", "host/"), Vec::<String>::new());
        assert_eq!(differing("| `x`, `y` | |\n\n| `b` | |\n", "plugins/"), Vec::<String>::new());
        assert_eq!(differing("| `b` | |\n", "host/"), ["no row for a", "no member b"]);
    }

    #[test]
    fn the_picture_is_the_first_code_block() {
        let words = words_of_picture("x\n```\n│ core ─► api │\n```\nb\n```\nc\n```\n");
        assert!(words.contains("core") && words.contains("api") && !words.contains("c"));
    }
}
