//! How files look and what they are called.

use crate::sources::{Source, all, assert_none, rust_below};
use bulkhead_tests::paths::repository;

const EVERYWHERE: [&str; 3] = ["host", "plugins", "tests"];

/// Longer than this and a function tells more than one story.
const LONGEST_FUNCTION: usize = 70;

#[test]
fn every_rust_file_opens_with_its_purpose() {
    let silent = rust_below(&EVERYWHERE).into_iter().filter(|file| !file.text.starts_with("//! "));
    assert_none(
        silent.map(|file| file.path).collect(),
        "say in the first line, as `//!`, what the file is for",
    );
}

#[test]
fn no_file_has_a_dumping_grounds_name() {
    let vague = |file: &Source| {
        let mut stems = file.path.split('/').map(|part| part.split('.').next().unwrap_or_default());
        stems.any(|stem| ["util", "utils", "helper", "helpers", "common", "misc"].contains(&stem))
    };
    assert_none(
        all().into_iter().filter(vague).map(|file| file.path).collect(),
        "name the file after what it knows; whatever fits nowhere goes to a file of its own",
    );
}

#[test]
fn functions_stay_short() {
    let mut long = Vec::new();
    for file in rust_below(&EVERYWHERE) {
        long.extend(long_functions(&file));
    }
    assert_none(
        long,
        &format!(
            "give the parts names of their own, until each function is {LONGEST_FUNCTION} lines or less"
        ),
    );
}

/// Functions over the limit. The text is formatted, so that a function ends at the brace below its
/// `fn`.
fn long_functions(file: &Source) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if !is_function(line) || !has_body(lines.iter().skip(start)) {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        let rest = lines.iter().skip(start).position(|line| *line == end);
        let length = rest.map_or(0, |rest| rest + 1);
        if length > LONGEST_FUNCTION {
            found.push(format!("{}:{}: {length} lines", file.path, start + 1));
        }
    }
    found
}

/// Whether the header that starts here is followed by a body below it, not by nothing or by one on
/// its line.
fn has_body<'a>(mut lines: impl Iterator<Item = &'a &'a str>) -> bool {
    lines.find(|line| line.ends_with(['{', ';', '}'])).is_some_and(|line| line.ends_with('{'))
}

fn is_function(line: &str) -> bool {
    let words = line.split_whitespace();
    let mut words = words.skip_while(|word| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern", "\"C\"", "in"].contains(word)
    });
    words.next() == Some("fn")
}

#[test]
fn nothing_of_one_machine_is_in_the_repository() {
    // put together here, so that this file does not offend against its own rule
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
    assert_none(found, "write paths from the repository's root; another machine has other folders");
}

/// Whether `trace` stands in `line` as the beginning of a path, not in the middle of one.
fn starts_a_path(line: &str, trace: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || "/_-.*:".contains(c);
    line.match_indices(trace).any(|(at, _)| !line[..at].ends_with(is_inside))
}

#[test]
fn no_registry_but_the_public_one_is_named() {
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
    assert_none(found, "leave registries to the machine's own cargo configuration");
}

#[test]
fn no_test_is_switched_off() {
    let mark = concat!("#[ig", "nore");
    let mut found = Vec::new();
    for file in rust_below(&EVERYWHERE) {
        let off = file.code().filter(|(_, line)| line.contains(mark));
        found.extend(off.map(|(number, _)| format!("{}:{number}", file.path)));
    }
    assert_none(found, "mend the test or remove it");
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    fn source(text: String) -> Source {
        Source { path: "x.rs".to_owned(), text }
    }

    #[test]
    fn a_long_function_is_found_and_a_short_one_is_not() {
        let of = |lines: usize| {
            source(format!(
                "pub(crate) async fn f() {{\n{}}}\n\nfn g() {{\n}}\n",
                "    x();\n".repeat(lines)
            ))
        };
        assert_eq!(long_functions(&of(LONGEST_FUNCTION - 2)), Vec::<String>::new());
        assert_eq!(long_functions(&of(LONGEST_FUNCTION)), ["x.rs:1: 72 lines"]);
        let bodiless = format!(
            "    fn f(\n        x: u8,\n    );\n{}    }}\n",
            "    x();\n".repeat(LONGEST_FUNCTION)
        );
        assert_eq!(long_functions(&source(bodiless)), Vec::<String>::new());
    }

    #[test]
    fn a_path_of_a_machine_is_told_from_a_path_inside_one() {
        assert!(starts_a_path("see /opt/x", "/opt/"));
        assert!(!starts_a_path("see a/opt/x", "/opt/"));
        assert!(!starts_a_path("https://opt/opt/", "/opt/"));
    }
}
