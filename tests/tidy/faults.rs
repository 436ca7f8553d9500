//! The table of faults in `tests/README.md`: each module with tests of `tests/fault` has a row, and
//! each row names the server and the sample of the module.

use crate::sources::{Source, assert_none, rust_below, text_of};
use crate::tables::{quoted, rows_below};
use std::collections::BTreeSet;

const PAGE: &str = "tests/README.md";
const HEAD: &str = "| test | fault | server |";
const FOLDER: &str = "tests/fault";

/// Modules that the tests share. These modules have no fault of their own.
const SHARED: [&str; 10] = [
    "configured_seal",
    "database_life",
    "databases",
    "injected",
    "life",
    "model",
    "points",
    "recovery",
    "sealed_life",
    "stage",
];

/// Marks of a module whose server runs with failpoints.
const INJECTING: [&str; 2] = ["InjectedFault::at(", "\"BULKHEAD_FAULT\""];

/// Marks of a module that `make test` samples.
const SAMPLING: [&str; 4] = ["every_behind(", "at_stride_behind(", "sampled(", "sampled_at("];

/// A module of `tests/fault`, with the text of the file and of the folder.
struct FaultModule {
    name: String,
    text: String,
}

impl FaultModule {
    fn has_any(&self, marks: &[&str]) -> bool {
        marks.iter().any(|mark| self.text.contains(mark))
    }

    /// Returns the differences between the module and its row.
    fn problems(&self, fault: &str, server: &str) -> Vec<String> {
        let name = &self.name;
        let injects = self.has_any(&INJECTING);
        let expected = if injects { "`bulkhead-fault`" } else { "as released" };
        let wrong_server =
            (server != expected).then(|| format!("{name}: its server is {expected}"));
        let is_sampled = self.has_any(&SAMPLING);
        let says_so = fault.contains("sampled") || fault.contains("`make test`");
        let wrong_sample = (is_sampled != says_so).then(|| {
            format!("{name}: `make test` tries {}", if is_sampled { "a sample" } else { "all" })
        });
        wrong_server.into_iter().chain(wrong_sample).collect()
    }
}

/// Returns the modules of `main.rs`, each with its files.
fn modules(files: &[Source]) -> Vec<FaultModule> {
    let main = files.iter().find(|file| file.path == format!("{FOLDER}/main.rs"));
    let main = main.map_or("", |file| &file.text);
    let names = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let of_name = |name: &str| {
        let (file, folder) = (format!("{FOLDER}/{name}.rs"), format!("{FOLDER}/{name}/"));
        let own = files.iter().filter(|one| one.path == file || one.path.starts_with(&folder));
        let text = own.map(|file| file.text.as_str()).collect();
        FaultModule { name: name.to_owned(), text }
    };
    names.map(of_name).collect()
}

/// Returns the differences between the table and the modules.
fn problems(page: &str, modules: &[FaultModule]) -> Vec<String> {
    let (mut found, mut listed) = (Vec::new(), BTreeSet::new());
    for row in rows_below(page, HEAD) {
        let [names, fault, server] = row[..] else {
            found.push(format!("a row of {} cells: {row:?}", row.len()));
            continue;
        };
        for name in quoted(names) {
            listed.insert(name);
            match modules.iter().find(|module| module.name == name) {
                Some(module) => found.extend(module.problems(fault, server)),
                None => found.push(format!("no module {name}")),
            }
        }
    }
    let shared = SHARED.iter().filter(|name| listed.contains(*name));
    found.extend(shared.map(|name| format!("{name} is a shared module")));
    let without_row = |name: &&str| !listed.contains(name) && !SHARED.contains(name);
    let missing = modules.iter().map(|module| module.name.as_str()).filter(without_row);
    found.extend(missing.map(|name| format!("no row for {name}")));
    found
}

#[test]
fn fault_table_names_every_module_and_server() {
    let modules = modules(&rust_below(&[FOLDER]));
    assert!(modules.len() > 20, "only {} modules were found", modules.len());
    let stale = SHARED.iter().filter(|name| modules.iter().all(|module| module.name != **name));
    let stale: Vec<_> = stale.map(|name| format!("no module {name}")).collect();
    assert_none(stale, "remove the name from tests/tidy/faults.rs");
    assert_none(
        problems(&text_of(PAGE), &modules),
        "agree the table of faults in tests/README.md with the modules of tests/fault",
    );
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    fn problems_of(rows: &str) -> Vec<String> {
        let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("tests/fault/main.rs", "mod cuts;\nmod kill;\nmod life;\n"),
            file("tests/fault/cuts.rs", "mod a;"),
            file("tests/fault/cuts/a.rs", "live(sampled_at(4, number))"),
            file("tests/fault/kill.rs", "InjectedFault::at(fault, number)"),
            file("tests/fault/life.rs", ""),
        ];
        problems(&format!("{HEAD}\n|---|---|---|\n{rows}"), &modules(&files))
    }

    const CUTS: &str = "| `cuts` | cut; `make test` cuts one in four | as released |\n";
    const KILL: &str = "| `kill` | every failpoint | `bulkhead-fault` |\n";

    #[test]
    fn missing_and_surplus_rows_are_found() {
        assert_eq!(problems_of(&format!("{CUTS}{KILL}")), Vec::<String>::new());
        assert_eq!(problems_of(CUTS), ["no row for kill"]);
        let gone = "| `life`, `gone` | x | as released |\n";
        assert_eq!(
            problems_of(&format!("{CUTS}{KILL}{gone}")),
            ["no module gone", "life is a shared module",]
        );
    }

    #[test]
    fn wrong_servers_and_samples_are_found() {
        let kill = "| `kill` | sampled like `cuts` | as released |\n";
        assert_eq!(
            problems_of(&format!("{CUTS}{kill}")),
            ["kill: its server is `bulkhead-fault`", "kill: `make test` tries all",]
        );
        let cuts = "| `cuts` | each message | as released |\n";
        assert_eq!(problems_of(&format!("{cuts}{KILL}")), ["cuts: `make test` tries a sample"]);
    }
}
