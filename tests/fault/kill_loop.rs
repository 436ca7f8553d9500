//! The server dies at each failpoint, or meets an error there: nothing is lost after a restart.
//! `make test` tries a sample of the failpoints.

use crate::life::{EarlyEnd, Life};
use crate::model::Model;
use crate::points;
use crate::recovery;
use crate::stage::{WAITING_AT_ONCE, report, sampled, sampling, until_nothing_fires_of};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{Folder, fault_binary};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Duration;

/// Signal of a process that called `abort`.
const SIGABRT: i32 = 6;

/// Longest time between a broken connection and the end of the process, on a busy machine.
const DEATH: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopFault {
    Abort,
    Fail,
}

impl LoopFault {
    fn word(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Fail => "fail",
        }
    }
}

/// Prints the setting of the life if the life's thread panics.
struct PanicContext(String);

impl Drop for PanicContext {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("^ in the life with BULKHEAD_FAULT={}", self.0);
        }
    }
}

#[test]
fn a_crash_at_any_failpoint_loses_nothing() {
    every_point(LoopFault::Abort);
}

#[test]
fn error_at_any_failpoint_is_reported_without_loss() {
    every_point(LoopFault::Fail);
}

fn every_point(fault: LoopFault) {
    let visited = Mutex::new(BTreeSet::new());
    let count = until_nothing_fires_of(WAITING_AT_ONCE, |number| {
        let lived = live(fault, sampled(number));
        visited.lock().expect("no life failed").extend(lived.names);
        lived.fired
    });
    conclude(fault, count, &visited.into_inner().expect("no life failed"));
}

fn conclude(fault: LoopFault, count: u32, visited: &BTreeSet<String>) {
    let supports = |point: &points::Point| point.fallible || fault == LoopFault::Abort;
    let all = points::all().into_iter().filter(|point| supports(point) && !point.is_of_restore());
    let names: BTreeSet<String> = all.map(|point| point.name).collect();
    let seen = names.intersection(visited).count();
    report(&format!("{}: visited {count} points ({}), {seen} names", fault.word(), sampling()));
    let missed: Vec<_> = names.difference(visited).collect();
    assert!(missed.is_empty(), "no life passes {missed:?}: add a call that does to life.rs");
}

struct LifeOutcome {
    fired: bool,
    /// The failpoints that the life passed.
    names: BTreeSet<String>,
}

fn live(fault: LoopFault, number: u32) -> LifeOutcome {
    let setting = format!("{}@{number}", fault.word());
    let context = PanicContext(setting.clone());
    let name = format!("{}{number}", if fault == LoopFault::Abort { 'x' } else { 'y' });
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
        LoopFault::Abort => death.is_some(),
        LoopFault::Fail => fallible(&passed) >= number as usize,
    };
    if let Some(status) = death {
        let expected = if fault == LoopFault::Abort { Some(SIGABRT) } else { None };
        assert!(
            fired && status.signal() == expected,
            "the server ended with {status}:\n{}",
            server.printed()
        );
    }
    server.start_again();
    recovery::check(&name, &server, &model);
    drop(context);
    LifeOutcome { fired, names: passed.lines().map(str::to_owned).collect() }
}

/// Runs a life until it or the server ends, and then stops the server, which is part of the life.
/// Returns the exit status if the server reported trouble.
fn run(fault: LoopFault, name: &str, server: &mut Bulkhead) -> (Model, Option<ExitStatus>) {
    let mut life = Life::new(name, server);
    let stopped = life.run();
    let model = life.into_model();
    if let Err(EarlyEnd::Broken(why)) = stopped {
        let status = server.ended(DEATH);
        assert_eq!(
            status.is_some(),
            fault == LoopFault::Abort,
            "{why}, and the server: {status:?}\n{}",
            server.printed()
        );
        if status.is_some() {
            return (model, status);
        }
    }
    (model, Some(server.terminate()).filter(|status| !status.success()))
}

/// Returns how many of the failpoints in `passed` can fail.
fn fallible(passed: &str) -> usize {
    let points = points::all();
    let names: BTreeSet<&str> =
        points.iter().filter(|point| point.fallible).map(|point| point.name.as_str()).collect();
    passed.lines().filter(|name| names.contains(name)).count()
}
