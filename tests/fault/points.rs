//! The failpoints: read off the server's sources, and absent from the binary that people run.

use crate::stage::{report, sampled, sampling, until_nothing_fires};
use bulkhead_tests::paths::{Folder, binary, fault_binary, files_below, repository};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A failpoint of the sources.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Point {
    pub name: String,
    /// Whether an error can be injected there; otherwise the process can only end there.
    pub fallible: bool,
}

/// Every point that the server's sources name.
pub fn all() -> BTreeSet<Point> {
    let sources = files_below(&repository().join("host"));
    let found: BTreeSet<_> =
        sources.iter().filter(|path| is_product(path)).flat_map(|path| points_of(path)).collect();
    assert!(
        !found.is_empty(),
        "no failpoint was found in host/: this test reads calls of reach and reach_only"
    );
    found
}

/// How many points that can have the fault a life passes that is given the environment to tell it
/// by. The life goes on until they are counted.
pub fn passed_by<L>(fault: &str, live: impl FnOnce(&[(&str, String)]) -> L) -> u32 {
    let notes = Folder::new("trace");
    let trace = notes.path().join("trace");
    let _life = live(&[("BULKHEAD_FAULT_TRACE", trace.display().to_string())]);
    passed(fault, &trace)
}

/// Lives with the fault at the [`sampled`] points behind the first `first`. `live` says whether the
/// fault came before its life was over.
pub fn every_behind(what: &str, fault: &str, first: u32, live: impl Fn(u32) -> bool + Sync) {
    let count = until_nothing_fires(|number| live(first + sampled(number)));
    report(&format!(
        "{what}, {fault}: visited {count} points behind the first {first}, {}",
        sampling()
    ));
    assert!(sampled(count) > 20, "a life passes few points: is every rotation in it?");
}

/// Lives with the fault at each point behind the first `first`: what is lived through is short.
pub fn each_behind(what: &str, fault: &str, first: u32, live: impl Fn(u32) -> bool + Sync) {
    let count = until_nothing_fires(|number| live(first + number));
    report(&format!("{what}, {fault}: visited {count} points behind the first {first}"));
    assert!(count >= 4, "a life passes few points: is what it is about in it?");
}

/// How many of the points that a trace says were passed can have the fault.
pub fn passed(fault: &str, trace: &Path) -> u32 {
    let all = all().into_iter().filter(|point| point.fallible || fault == "abort");
    let names: BTreeSet<String> = all.map(|point| point.name).collect();
    let text = fs::read_to_string(trace).unwrap_or_default();
    let count = text.lines().filter(|name| names.contains(*name)).count();
    u32::try_from(count).expect("a life is short")
}

fn is_product(path: &Path) -> bool {
    let is_test =
        path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches");
    path.extension().is_some_and(|end| end == "rs") && !is_test && !path.ends_with("tests.rs")
}

fn points_of(path: &Path) -> Vec<Point> {
    let text = fs::read_to_string(path).expect("a source can be read");
    let product = text.split("#[cfg(test)]\n#[allow(").next().unwrap_or_default();
    let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(points_in).collect()
}

/// The points that a line passes.
fn points_in(line: &str) -> Vec<Point> {
    let called = |call: &str, fallible| -> Vec<Point> {
        let names = line.split(call).skip(1).filter_map(|rest| rest.split('"').next());
        names.map(|name| Point { name: name.to_owned(), fallible }).collect()
    };
    [called("reach(\"", true), called("reach_only(\"", false)].concat()
}

#[test]
fn the_released_binary_has_no_failpoint_and_the_other_has_all() {
    let has = |binary: &Path, word: &str| {
        let found = Command::new("grep").args(["-aqF", "-e", word]).arg(binary).status();
        match found.expect("grep can be started").code() {
            Some(0) => true,
            Some(1) => false,
            failed => panic!("grep of {word} in {}: {failed:?}", binary.display()),
        }
    };
    let (released, faulty) = (binary(), fault_binary());
    let words = all().into_iter().map(|point| point.name).chain(["BULKHEAD_FAULT".to_owned()]);
    for word in words {
        assert!(
            has(&faulty, &word),
            "{word} is not in the build that is to have it: was it built from these sources?"
        );
        assert!(!has(&released, &word), "{word} is in the binary that people run");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_from_calls_and_not_from_words() {
        let point = |name: &str, fallible| Point { name: name.to_owned(), fallible };
        assert_eq!(
            points_in(r#"    failpoint::reach("commit.begin")?;"#),
            [point("commit.begin", true)]
        );
        assert_eq!(
            points_in(r#"    reach_only("answer.leaves");"#),
            [point("answer.leaves", false)]
        );
        assert_eq!(points_in("    pub fn reach(name: &'static str) -> Result<(), Injected> {"), []);
    }
}
