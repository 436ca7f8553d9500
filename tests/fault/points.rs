//! The failpoints: read from the server's sources, and absent from the released binary.

use crate::stage::{
    AT_ONCE, STRIDE, report, sampled_at, sampling_at, until_nothing_fires, until_nothing_fires_of,
};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{Folder, binary, fault_binary, files_below, repository};
use bulkhead_tests::wait::until_true;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Longest wait for the commit of a server's start, on a busy machine.
const STORED_TIME: Duration = Duration::from_secs(30);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Point {
    pub name: String,
    /// True if an error can be injected; false if the process can only abort.
    pub fallible: bool,
}

impl Point {
    /// Returns true for a failpoint that only a restore passes; the lives are in `restore.rs`.
    pub fn is_of_restore(&self) -> bool {
        self.name.starts_with("restore.")
    }
}

/// Returns all failpoints in the server's sources.
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

/// Returns the number of failpoints that support `fault` and that `live` passes.
///
/// `live` gets the environment that records them, and returns a value that keeps the life going
/// until they are counted.
pub fn passed_by<L>(fault: &str, live: impl FnOnce(&[(&str, String)]) -> L) -> u32 {
    let notes = Folder::new("trace");
    let trace = notes.path().join("trace");
    let _life = live(&[("BULKHEAD_FAULT_TRACE", trace.display().to_string())]);
    passed(fault, &trace)
}

/// Returns the number of failpoints that support `fault` and that the start of `server` on prepared
/// data passes.
pub fn passed_by_start(fault: &str, mut server: Bulkhead) -> u32 {
    let notes = Folder::new("trace");
    let trace = notes.path().join("trace");
    let environment = [("BULKHEAD_FAULT_TRACE", trace.display().to_string())];
    server.start_with(&environment).expect("the server starts without a fault");
    await_stored_time(&trace);
    passed(fault, &trace)
}

/// Waits until a server on prepared data has stored its time, which is the last commit of such a
/// start and comes at any time after the first request is possible. Without the wait, the numbers
/// of the failpoints of the first requests vary.
pub fn await_stored_time(trace: &Path) {
    until_true("the server has stored its time", STORED_TIME, || {
        let passed = fs::read_to_string(trace).unwrap_or_default();
        passed.lines().any(|name| name == "commit.flushed")
    });
}

/// Runs lives with the fault at the sampled failpoints after the first `first`. `live` returns
/// false if the life ended before the fault fired.
pub fn every_behind(what: &str, fault: &str, first: u32, live: impl Fn(u32) -> bool + Sync) {
    at_stride_behind((STRIDE, AT_ONCE), what, fault, first, live);
}

/// As [`every_behind`], with another stride and number of concurrent lives.
pub fn at_stride_behind(
    (stride, at_once): (u32, usize),
    what: &str,
    fault: &str,
    first: u32,
    live: impl Fn(u32) -> bool + Sync,
) {
    let count = until_nothing_fires_of(at_once, |number| live(first + sampled_at(stride, number)));
    report(&format!(
        "{what}, {fault}: visited {count} points behind the first {first}, {}",
        sampling_at(stride)
    ));
    assert!(sampled_at(stride, count) > 20, "a life passes few points: is every rotation in it?");
}

/// Runs short lives with the fault at every failpoint after the first `first`.
pub fn each_behind(what: &str, fault: &str, first: u32, live: impl Fn(u32) -> bool + Sync) {
    let count = until_nothing_fires(|number| live(first + number));
    report(&format!("{what}, {fault}: visited {count} points behind the first {first}"));
    // One commit passes at least two points. Work of a first start may pass some of the first
    // points later, so that the count varies.
    assert!(count >= 2, "a life passes few points: is the tested work in it?");
}

/// Returns the number of failpoints in a trace that support `fault`.
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

fn points_in(line: &str) -> Vec<Point> {
    let called = |call: &str, fallible| -> Vec<Point> {
        let names = line.split(call).skip(1).filter_map(|rest| rest.split('"').next());
        names.map(|name| Point { name: name.to_owned(), fallible }).collect()
    };
    [called("reach(\"", true), called("reach_only(\"", false)].concat()
}

#[test]
fn only_the_fault_binary_has_failpoints() {
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
    fn points_are_read_from_calls_not_words() {
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
