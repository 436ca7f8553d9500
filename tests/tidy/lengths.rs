//! Maximum lengths of lines, functions and files.

use crate::rust_text::code;
use crate::sources::{EVERYWHERE, Source, all, assert_none, rust_below};
use std::collections::BTreeMap;

/// Maximum number of characters of a line.
const LONGEST_LINE: usize = 100;

/// Maximum number of lines of a function. A longer function does more than one thing.
const LONGEST_FUNCTION: usize = 60;

/// Maximum number of lines of a file. A longer file has more than one subject.
const LONGEST_FILE: usize = 400;

/// Maximum number of lines of product code in a crate. A longer crate compiles for too long after
/// an edit.
const LARGEST_CRATE: usize = 20_000;

#[test]
fn lines_stay_short() {
    let found = all().iter().flat_map(long_lines).collect();
    assert_none(
        found,
        &format!(
            "break the line at {LONGEST_LINE} characters or before; a \\ at the end of a line \
             continues a text"
        ),
    );
}

/// Returns long lines of code, scripts and prose. Tables and code blocks of documents are exempt.
fn long_lines(file: &Source) -> Vec<String> {
    let is_prose = file.path.ends_with(".md");
    let is_ours = [".rs", ".wit", ".sh", ".c", ".md", "Makefile", ".ci/run"]
        .iter()
        .any(|end| file.path.ends_with(end));
    let mut fenced = false;
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate().filter(|_| is_ours) {
        fenced ^= is_prose && line.trim_start().starts_with("```");
        let shown = is_prose && (fenced || line.starts_with(['|', ' ']));
        let length = line.chars().count();
        if length > LONGEST_LINE && !shown {
            found.push(format!("{}:{}: {length} characters", file.path, index + 1));
        }
    }
    found
}

#[test]
fn functions_stay_short() {
    let found = rust_below(&EVERYWHERE).iter().flat_map(long_functions).collect();
    assert_none(
        found,
        &format!(
            "move parts to named functions, until each function has at most {LONGEST_FUNCTION} \
             lines"
        ),
    );
}

/// Returns the functions over the limit. The text is formatted, so a function ends at the brace
/// below its `fn`.
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

/// Returns `true` if the header that starts here is followed by a body on the lines below.
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
fn files_stay_short() {
    let found = rust_below(&EVERYWHERE).iter().filter_map(long_file).collect();
    assert_none(
        found,
        &format!(
            "move `mod tests` to a separate file, then split the file by subject, until each has \
             at most {LONGEST_FILE} lines; a file with half of its lines inside `const` arrays \
             may be longer"
        ),
    );
}

#[test]
fn crates_stay_small() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for file in rust_below(&["host", "plugins"]).iter().filter(|file| !file.is_of_tests()) {
        if let Some((folder, _)) = file.path.split_once("/src/") {
            *lines.entry(folder.to_owned()).or_default() += file.text.lines().count();
        }
    }
    assert!(lines.len() > 20, "only {} crates were found", lines.len());
    let large = lines.into_iter().filter(|(_, count)| *count > LARGEST_CRATE);
    let found = large.map(|(folder, count)| format!("{folder}: {count} lines"));
    assert_none(
        found.collect(),
        &format!(
            "divide the crate along the order of its modules, until each part has at most \
             {LARGEST_CRATE} lines of product code"
        ),
    );
}

/// Returns an offence for a file over the limit that is neither a file of tests nor a table.
fn long_file(file: &Source) -> Option<String> {
    let lines = file.text.lines().count();
    let is_long =
        lines > LONGEST_FILE && !file.is_of_tests() && table_lines(&file.text) * 2 < lines;
    is_long.then(|| format!("{}: {lines} lines", file.path))
}

/// Counts the lines in constant arrays: from `const NAME: … = [` to the closing bracket.
fn table_lines(text: &str) -> usize {
    let code = code(text);
    let mut lines = code.lines();
    let mut found = 0;
    while let Some(line) = lines.next() {
        let item = line.trim_start();
        let indent = &line[..line.len() - item.len()];
        let words = item.split_whitespace().find(|word| !word.starts_with("pub"));
        let is_constant = matches!(words, Some("const" | "static"));
        if is_constant && line.ends_with('[') {
            let close = format!("{indent}]");
            found += lines.by_ref().take_while(|line| !line.starts_with(&close)).count();
        }
    }
    found
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    fn source(path: &str, text: String) -> Source {
        Source { path: path.to_owned(), text }
    }

    #[test]
    fn long_lines_are_found_in_hand_written_text() {
        let of = |path: &str, line: &str| long_lines(&source(path, format!("x\n{line}\n")));
        let long = "ä".repeat(LONGEST_LINE + 1);
        assert_eq!(of("a.rs", &long), ["a.rs:2: 101 characters"]);
        assert_eq!(of("docs/a.md", &long), ["docs/a.md:2: 101 characters"]);
        assert_eq!(of("a.rs", &long[..LONGEST_LINE * 2]), Vec::<String>::new());
        assert_eq!(of("Cargo.lock", &long), Vec::<String>::new());
        assert_eq!(of("a.md", &format!("| {long} |")), Vec::<String>::new());
        assert_eq!(of("a.md", &format!("```\n{long}\n```")), Vec::<String>::new());
    }

    #[test]
    fn only_long_function_is_found() {
        let of = |lines: usize| {
            let body = "    x();\n".repeat(lines);
            source("x.rs", format!("pub(crate) async fn f() {{\n{body}}}\n\nfn g() {{\n}}\n"))
        };
        assert_eq!(long_functions(&of(LONGEST_FUNCTION - 2)), Vec::<String>::new());
        assert_eq!(long_functions(&of(LONGEST_FUNCTION)), ["x.rs:1: 62 lines"]);
        let bodiless = format!(
            "    fn f(\n        x: u8,\n    );\n{}    }}\n",
            "    x();\n".repeat(LONGEST_FUNCTION)
        );
        assert_eq!(long_functions(&source("x.rs", bodiless)), Vec::<String>::new());
    }

    #[test]
    fn long_file_is_found_unless_table_or_tests() {
        let long = "//! x\n".repeat(LONGEST_FILE + 1);
        let found = |path: &str, text: &str| long_file(&source(path, text.to_owned()));
        assert_eq!(found("host/x/src/a.rs", &long), Some("host/x/src/a.rs: 401 lines".to_owned()));
        for of_tests in ["host/x/src/a/tests.rs", "host/x/tests/b.rs", "tests/e2e/a.rs"] {
            assert_eq!(found(of_tests, &long), None, "{of_tests}");
        }
        let rows = |rows: usize, rest: usize| {
            let rows = "    row(),\n".repeat(rows);
            let rest = "    x();\n".repeat(rest);
            format!("pub(crate) const ROWS: &[Row] = &[\n{rows}];\nfn f() {{\n{rest}}}\n")
        };
        assert_eq!(found("host/x/src/a.rs", &rows(300, 200)), None);
        assert!(found("host/x/src/a.rs", &rows(200, 300)).is_some());
    }
}
