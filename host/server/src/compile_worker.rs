//! `bulkhead compile-component`: a child process of the server that compiles a single component and
//! then ends. Not for users.
//!
//! Prevents a malicious component from exhausting the machine during compilation. The limits are
//! set before the first byte is read, and hold for everything that the compiler does.

use bulkhead_sandbox::compile;
use rustix::process::{Resource, Rlimit, nice, setrlimit};
use std::io;
use std::process::ExitCode;

/// Maximum processor time, in seconds. Wall-clock time does not count: a busy machine takes longer.
const CPU_SECONDS: u64 = 30;
/// Maximum size of writable memory, in bytes. The address space is not limited: the compiler and
/// the allocator reserve far more than they use.
const MEMORY_BYTES: u64 = 3 << 30;
/// Maximum number of open files: 3 pipes, and the files of the allocator.
const FILES: u64 = 16;
/// The child's niceness, which gives requests priority. At 5 the child gets a third of the server's
/// share of a busy processor. At 10 the share is a tenth: on two busy processors a compilation of
/// two seconds took more than 30 s.
const NICE: i32 = 5;

/// Compiles the component on standard input. The server reads the exit code and never standard
/// error.
#[must_use]
pub fn run() -> ExitCode {
    let done = limit_resources()
        .and_then(|()| compile::run_worker(io::stdin().lock(), io::stdout().lock()));
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
        // The signal of the soft limit tells the parent the reason; the hard limit of processor
        // time would hide the reason if it were the same.
        let maximum = if resource == Resource::Cpu { most + 1 } else { most };
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(maximum) })?;
    }
    nice(NICE)?;
    Ok(())
}
