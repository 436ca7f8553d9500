//! `bulkhead compile-component`: the child of a server that compiles one component, and then ends.
//! No word for people.
//!
//! The attack this file stops: a component made so that compiling it takes the machine with it. The
//! limits are set here, before the first byte is read, and hold for all that the compiler does.

use bulkhead_sandbox::compile;
use rustix::process::{Resource, Rlimit, nice, setrlimit};
use std::io;
use std::process::ExitCode;

/// Processor time, in seconds. The parent's clock, which is longer, stops those that do not get it.
const CPU_SECONDS: u64 = 30;
/// Memory that is written to. Address space is not limited: the compiler and the allocator reserve
/// much that they never use.
const MEMORY_BYTES: u64 = 3 << 30;
/// Open files: its three pipes, and what the allocator asks of the system.
const FILES: u64 = 16;
/// How far it steps behind the server, which has requests to serve: a third of a process's share.
/// At 10 the share is a tenth, and on a busy machine with two processors a component that takes two
/// seconds to compile took half a minute.
const NICE: i32 = 5;

/// Compiles what comes on standard input. Standard error is not read: the exit code says that it
/// failed.
#[must_use]
pub fn run() -> ExitCode {
    let done =
        limit_resources().and_then(|()| compile::worker(io::stdin().lock(), io::stdout().lock()));
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn limit_resources() -> io::Result<()> {
    let limits = [
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Data, MEMORY_BYTES),
        (Resource::Fsize, 0),
        (Resource::Nofile, FILES),
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    nice(NICE)?;
    Ok(())
}
