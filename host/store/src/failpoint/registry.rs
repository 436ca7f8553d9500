//! The one registry of the process: configured by its environment when the first point is passed.
//!
//! The one static state of the store, because points lie in many crates and know nothing of each
//! other.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::sync::{Mutex, OnceLock};
use std::{env, process};

use bulkhead_wire::sync;

use super::plan::{Act, Plan};

/// What is to happen, and where passed points are written down.
struct Registry {
    plan: Option<Plan>,
    trace: Option<File>,
}

static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();

/// Passes one point: writes it down, then acts if it is the chosen one. Whether it is to fail.
pub(super) fn pass(name: &'static str, fallible: bool) -> bool {
    let registry = REGISTRY.get_or_init(|| Mutex::new(read_environment()));
    let mut registry = sync::lock(registry);
    if let Some(trace) = &mut registry.trace {
        // One write, so that lines of several processes never mix.
        trace.write_all(format!("{name}\n").as_bytes()).unwrap_or_else(|error| {
            refuse(&format!("BULKHEAD_FAULT_TRACE cannot be written: {error}; check its disk"));
        });
    }
    match registry.plan.as_mut().and_then(|plan| plan.pass(name, fallible)) {
        Some(Act::Abort) => process::abort(),
        Some(Act::Fail) => true,
        None => false,
    }
}

/// Names the fault to inject.
pub(crate) const VARIABLE: &str = "BULKHEAD_FAULT";

fn read_environment() -> Registry {
    Registry {
        plan: env::var_os(VARIABLE).map(parse_plan),
        trace: env::var_os("BULKHEAD_FAULT_TRACE").map(open_trace),
    }
}

fn parse_plan(text: OsString) -> Plan {
    Plan::parse(&text.to_string_lossy()).unwrap_or_else(|wrong| refuse(&wrong))
}

fn open_trace(path: OsString) -> File {
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    opened.unwrap_or_else(|error| {
        refuse(&format!(
            "BULKHEAD_FAULT_TRACE={path:?} cannot be opened: {error}; \
             name a file that can be written"
        ))
    })
}

/// A wrong plan must never look like a fault that did not fire. That the text cannot be written
/// changes nothing.
fn refuse(text: &str) -> ! {
    drop(writeln!(io::stderr(), "{text}"));
    process::exit(2)
}
