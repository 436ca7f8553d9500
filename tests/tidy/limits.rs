//! The page of limits: each row has the value of its constant, and each constant of the server that
//! is a limit has a row or a stated reason to have none.

mod constants;
mod internal;
mod quantity;

use crate::sources::{Source, all, assert_none};
use crate::tables::quoted;
use constants::{Constant, constants};
use internal::INTERNAL;
use quantity::Quantity;

const PAGE: &str = "docs/limits.md";

/// Number of cells of a row.
const CELLS: usize = 5;

/// A row of the page.
struct Row<'a> {
    /// Value in the words of the page, such as `64 KiB`.
    value: &'a str,
    /// Constants with this value, as path and name.
    sources: Vec<(&'a str, &'a str)>,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Result<Self, String> {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, value, _, _, source] = cells[..] else {
            return Err(format!("a row of {} cells instead of {CELLS}: {line}", cells.len()));
        };
        let sources: Option<Vec<_>> =
            quoted(source).into_iter().map(|source| source.split_once(": ")).collect();
        match sources {
            Some(sources) if !sources.is_empty() => Ok(Self { value, sources }),
            _ => Err(format!("a row without a source such as `path: CONSTANT`: {line}")),
        }
    }

    /// Returns the differences between the row and its constants.
    fn problems(&self, constants: &[Constant]) -> Vec<String> {
        let Some(shown) = Quantity::of_cell(self.value) else {
            return vec![format!("{:?} is not a number with a unit", self.value)];
        };
        let check = |(path, name): &(&str, &str)| problem(path, name, shown, constants);
        self.sources.iter().filter_map(check).collect()
    }
}

fn problem(path: &str, name: &str, shown: Quantity, constants: &[Constant]) -> Option<String> {
    let of_name = || constants.iter().filter(|constant| constant.name == name);
    let Some(constant) = of_name().find(|constant| constant.path == path) else {
        let elsewhere: Vec<&str> = of_name().map(|constant| constant.path.as_str()).collect();
        return Some(format!("{path} has no constant {name}; files with one: {elsewhere:?}"));
    };
    let is_equal = constant.value.is_some_and(|value| shown.is_value_of(name, value));
    (!is_equal).then(|| format!("{path}: {name} is {}, the page has {shown}", constant.text))
}

/// Returns the rows of the page, without headings.
fn rows(page: &str) -> Vec<Result<Row<'_>, String>> {
    let tables = page.lines().filter(|line| line.starts_with('|'));
    tables
        .filter(|line| !line.starts_with("| limit |") && !line.starts_with("|---"))
        .map(Row::parse)
        .collect()
}

/// Returns the page, and the constants of all sources.
fn page_and_constants() -> (String, Vec<Constant>) {
    let files = all();
    let page = files.iter().find(|file| file.path == PAGE).expect("the page of limits exists");
    let is_source = |file: &&Source| file.path.ends_with(".rs") && !file.is_of_tests();
    (page.text.clone(), files.iter().filter(is_source).flat_map(constants).collect())
}

#[test]
fn every_row_has_the_value_of_its_constant() {
    let (page, constants) = page_and_constants();
    let rows = rows(&page);
    assert!(rows.len() > 100, "the page has only {} rows", rows.len());
    let problems = rows.into_iter().flat_map(|row| match row {
        Ok(row) => row.problems(&constants),
        Err(problem) => vec![problem],
    });
    assert_none(problems.collect(), "agree docs/limits.md with the constant");
}

#[test]
fn every_server_limit_has_row_or_reason() {
    let (page, constants) = page_and_constants();
    let rows = rows(&page).into_iter().flatten();
    let cited: Vec<(&str, &str)> = rows.flat_map(|row| row.sources).collect();
    let has_row =
        |constant: &&Constant| cited.contains(&(constant.path.as_str(), constant.name.as_str()));
    let missing = constants
        .iter()
        .filter(|constant| constant.is_limit() && !has_row(constant) && !constant.is_internal())
        .map(|constant| format!("{}: {} = {}", constant.path, constant.name, constant.text));
    assert_none(
        missing.collect(),
        "write a row into docs/limits.md, or a reason into tests/tidy/limits/internal.rs",
    );
}

#[test]
fn every_reason_belongs_to_limit_without_row() {
    let (page, constants) = page_and_constants();
    let listed = INTERNAL.iter().flat_map(|(_, names)| names.iter());
    let is_stale = |name: &&&str| {
        let found =
            constants.iter().find(|constant| constant.is_limit() && constant.is_called(name));
        found.is_none_or(|one| page.contains(&format!("`{}: {}`", one.path, one.name)))
    };
    let stale = listed.filter(is_stale).map(|name| (*name).to_owned());
    assert_none(stale.collect(), "remove the name from tests/tidy/limits/internal.rs");
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    fn constants_of(text: &str) -> Vec<Constant> {
        constants(&Source { path: "host/a/src/limits.rs".to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_changed_or_moved_constant_is_found() {
        let constants =
            constants_of("pub(crate) const A: usize = 64 << 10;\nconst B_MS: u32 = 20;\n");
        let problems = |value: &str, source: &str| {
            let line = format!("| a | {value} | 400 | no | `{source}` |");
            Row::parse(&line).unwrap().problems(&constants).len()
        };
        assert_eq!(problems("64 KiB", "host/a/src/limits.rs: A"), 0);
        assert_eq!(problems("65,536 bytes", "host/a/src/limits.rs: A"), 0);
        assert_eq!(problems("20 ms", "host/a/src/limits.rs: B_MS"), 0);
        assert_eq!(problems("20 s", "host/a/src/limits.rs: B_MS"), 1, "another unit");
        assert_eq!(problems("32 KiB", "host/a/src/limits.rs: A"), 1, "another value");
        assert_eq!(problems("64 KiB", "host/b/src/limits.rs: A"), 1, "another file");
        assert_eq!(problems("many", "host/a/src/limits.rs: A"), 1, "no number");
    }

    #[test]
    fn a_row_needs_five_cells_and_a_source() {
        assert!(Row::parse("| a | 1 | 400 | `p: A` |").is_err());
        assert!(Row::parse("| a | 1 | 400 | no | none |").is_err());
        assert!(Row::parse("| a | 1 | 400 | no | `p: A`, `q: B` |").is_ok());
    }

    #[test]
    fn limits_are_known_by_their_name_or_file() {
        let limits = |path: &str, text: &str| {
            let source = Source { path: path.to_owned(), text: text.to_owned() };
            constants(&source).iter().filter(|constant| constant.is_limit()).count()
        };
        assert_eq!(limits("host/a/src/b.rs", "const MOST_ROWS: u32 = 4;"), 1);
        assert_eq!(limits("host/a/src/b.rs", "const ROWS: u32 = 4;"), 0);
        assert_eq!(limits("host/a/src/limits.rs", "const ROWS: u32 = 4;"), 1);
        assert_eq!(limits("plugins/a/src/b.rs", "const MOST_ROWS: u32 = 4;"), 0);
        assert_eq!(limits("host/a/src/b.rs", "const MOST_ROWS: &str = \"4\";"), 0, "no number");
        assert_eq!(limits("host/a/src/b.rs", "const MOST_ROWS: u32 = a::ROWS;"), 0, "an alias");
    }
}
