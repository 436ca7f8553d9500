//! The process-wide registry of failpoints, configured by the environment when the first point is
//! passed.
//!
//! The registry is the only static state of the store, because points lie in many crates that share
//! no other state.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::sync::{Mutex, OnceLock};
use std::{env, process};

use bulkhead_wire::sync;

use super::plan::{FaultAction, FaultPlan};

/// The plan of faults, and the trace of passed points.
struct FaultRegistry {
    plan: Option<FaultPlan>,
    trace: Option<File>,
}

static REGISTRY: OnceLock<Mutex<FaultRegistry>> = OnceLock::new();

/// Passes a point: writes the name to the trace, then acts if the point is the chosen point.
/// Returns `true` if the point must fail.
pub(super) fn pass(name: &'static str, fallible: bool) -> bool {
    let registry = REGISTRY.get_or_init(|| Mutex::new(read_environment()));
    let mut registry = sync::lock(registry);
    if let Some(trace) = &mut registry.trace {
        // A single write, so that lines of several processes never mix.
        trace.write_all(format!("{name}\n").as_bytes()).unwrap_or_else(|error| {
            abort_with(&format!("BULKHEAD_FAULT_TRACE cannot be written: {error}; check the disk"));
        });
    }
    match registry.plan.as_mut().and_then(|plan| plan.pass(name, fallible)) {
        Some(FaultAction::Abort) => process::abort(),
        Some(FaultAction::Fail) => true,
        None => false,
    }
}

/// Environment variable with the fault to inject.
pub const VARIABLE: &str = "BULKHEAD_FAULT";

fn read_environment() -> FaultRegistry {
    FaultRegistry {
        plan: env::var_os(VARIABLE).map(parse_plan),
        trace: env::var_os("BULKHEAD_FAULT_TRACE").map(open_trace),
    }
}

fn parse_plan(text: OsString) -> FaultPlan {
    FaultPlan::parse(&text.to_string_lossy()).unwrap_or_else(|wrong| abort_with(&wrong))
}

fn open_trace(path: OsString) -> File {
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    opened.unwrap_or_else(|error| {
        abort_with(&format!(
            "BULKHEAD_FAULT_TRACE={path:?} cannot be opened: {error}; name a writable file"
        ))
    })
}

/// Ends the process with an error message: a wrong plan must never look like a fault that did not
/// fire. The process ends even if the message cannot be written.
fn abort_with(text: &str) -> ! {
    drop(writeln!(io::stderr(), "{text}"));
    process::exit(2)
}
