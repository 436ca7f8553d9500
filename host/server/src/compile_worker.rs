//! `bulkhead compile-component`: the child of a server that compiles one component, and then ends.
//! No word for people.
//!
//! The attack this file stops: a component made so that compiling it takes the machine with it. The
//! limits are set here, before the first byte is read, and hold for all that the compiler does.

use bulkhead_sandbox::compile;
use rustix::process::{Resource, Rlimit, nice, setrlimit};
use std::io;
use std::process::ExitCode;

/// Processor time, in seconds. The parent kills a child that does not get this time within 60 s.
const CPU_SECONDS: u64 = 30;
/// Memory that is written to. Address space is not limited: the compiler and the allocator reserve
/// much that they never use.
const MEMORY_BYTES: u64 = 3 << 30;
/// Open files: three pipes, and those that the allocator opens.
const FILES: u64 = 16;
/// The child's niceness, so that requests come first. At 5 the child gets a third of the server's
/// share of a busy processor. At 10 the share is a tenth: on two busy processors a compilation of
/// two seconds took more than 30 s.
const NICE: i32 = 5;

/// Compiles the component on standard input. The server reads the exit code and never standard
/// error.
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
