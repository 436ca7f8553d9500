//! The server dies at the first failpoint, at the second, and so on until none is left (`make test`
//! tries a sample of them); then the same with an error injected there. After each fault it is
//! started again, and nothing may be lost.

use crate::life::{Life, Stopped};
use crate::model::Model;
use crate::points;
use crate::recovery;
use crate::stage::{report, sampled, sampling, until_nothing_fires};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{Folder, fault_binary};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Duration;

/// What a process gets that calls `abort`.
const SIGABRT: i32 = 6;

/// How long after a broken connection the process may take to be gone.
const DEATH: Duration = Duration::from_secs(3);

/// What happens at a point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Abort,
    Fail,
}

impl Fault {
    fn word(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Fail => "fail",
        }
    }
}

/// Says which life it was, when the life's thread fails.
struct Context(String);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("^ in the life with BULKHEAD_FAULT={}", self.0);
        }
    }
}

#[test]
fn a_server_that_dies_at_any_point_loses_nothing() {
    every_point(Fault::Abort);
}

#[test]
fn a_server_in_which_any_point_fails_loses_nothing_and_says_so() {
    every_point(Fault::Fail);
}

fn every_point(fault: Fault) {
    let visited = Mutex::new(BTreeSet::new());
    let count = until_nothing_fires(|number| {
        let lived = live(fault, sampled(number));
        visited.lock().expect("no life failed").extend(lived.names);
        lived.fired
    });
    conclude(fault, count, &visited.into_inner().expect("no life failed"));
}

fn conclude(fault: Fault, count: u32, visited: &BTreeSet<String>) {
    let all = points::all().into_iter().filter(|point| point.fallible || fault == Fault::Abort);
    let names: BTreeSet<String> = all.map(|point| point.name).collect();
    let seen = names.intersection(visited).count();
    report(&format!("{}: visited {count} points ({}), {seen} names", fault.word(), sampling()));
    let missed: Vec<_> = names.difference(visited).collect();
    assert!(missed.is_empty(), "no life passes {missed:?}: add a call that does to life.rs");
}

/// One life with its fault.
struct Lived {
    fired: bool,
    /// The points that it passed.
    names: BTreeSet<String>,
}

fn live(fault: Fault, number: u32) -> Lived {
    let setting = format!("{}@{number}", fault.word());
    let context = Context(setting.clone());
    let name = format!("{}{number}", if fault == Fault::Abort { 'x' } else { 'y' });
    let notes = Folder::new("trace");
    let trace = notes.path().join("trace");
    let mut server = Bulkhead::prepared(fault_binary(), Folder::new("fault"));
    let environment =
        [("BULKHEAD_FAULT", setting), ("BULKHEAD_FAULT_TRACE", trace.display().to_string())];
    let (model, death) = match server.start_with(&environment) {
        Ok(()) => run(fault, &name, &mut server),
        Err(status) => (Model::default(), Some(status)),
    };
    let passed = std::fs::read_to_string(&trace).unwrap_or_default();
    let fired = match fault {
        Fault::Abort => death.is_some(),
        Fault::Fail => fallible(&passed) >= number as usize,
    };
    if let Some(status) = death {
        let expected = if fault == Fault::Abort { Some(SIGABRT) } else { None };
        assert!(
            fired && status.signal() == expected,
            "the server ended with {status}:\n{}",
            server.printed()
        );
    }
    server.start_again();
    recovery::check(&name, &server, &model);
    drop(context);
    Lived { fired, names: passed.lines().map(str::to_owned).collect() }
}

/// Lives until the end of the life or of the server; then the server is asked to stop, which is
/// part of it. Returns how it ended, unless all was well.
fn run(fault: Fault, name: &str, server: &mut Bulkhead) -> (Model, Option<ExitStatus>) {
    let mut life = Life::new(name, server);
    let stopped = life.run();
    let model = life.into_model();
    if let Err(Stopped::Broken(why)) = stopped {
        let status = server.ended(DEATH);
        assert_eq!(
            status.is_some(),
            fault == Fault::Abort,
            "{why}, and the server: {status:?}\n{}",
            server.printed()
        );
        if status.is_some() {
            return (model, status);
        }
    }
    (model, Some(server.terminate()).filter(|status| !status.success()))
}

/// How many of the points that a life passed can fail.
fn fallible(passed: &str) -> usize {
    let points = points::all();
    let names: BTreeSet<&str> =
        points.iter().filter(|point| point.fallible).map(|point| point.name.as_str()).collect();
    passed.lines().filter(|name| names.contains(name)).count()
}
