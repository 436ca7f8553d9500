//! `bulkhead compile-component`: a child process of the server that compiles a single component and
//! then ends. Not for users.
//!
//! This file prevents a malicious component from exhausting the machine during compilation. The
//! limits are set before the first byte is read, and hold for everything that the compiler does.
//! The limit of processor time follows from the size of the component, which the parent names, and
//! from the measured speed of this machine. Wall-clock time does not count: a busy machine takes
//! longer.

use bulkhead_sandbox::compile;
use rustix::process::{Resource, Rlimit, nice, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

/// Maximum size of writable memory, in bytes. The address space is not limited: the compiler and
/// the allocator reserve far more than they use.
const MEMORY_BYTES: u64 = 3 << 30;
/// Maximum number of open files: 3 pipes, and the files of the allocator.
const FILES: u64 = 16;
/// The child's niceness, which gives requests priority. At 5 the child gets a third of the server's
/// share of a busy processor. At 10 the share is a tenth: on two busy processors a compilation of
/// two seconds took more than 30 s.
const NICE: i32 = 5;

/// Compiles the component of `bytes` bytes on standard input. The server reads the exit code and
/// never standard error.
#[must_use]
pub fn run(bytes: &OsStr) -> ExitCode {
    let bytes = bytes.to_str().and_then(|bytes| bytes.parse().ok()).unwrap_or_default();
    let done = limit_resources(bytes)
        .and_then(|seconds| compile::run_worker(seconds, io::stdin().lock(), io::stdout().lock()));
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Sets the limits of this process, and returns the limit of processor time in seconds.
fn limit_resources(bytes: usize) -> io::Result<u64> {
    nice(NICE)?;
    let most = compile::processor_seconds(bytes, processor_time).map_err(io::Error::other)?;
    let limits = [
        (Resource::Cpu, most),
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
    Ok(most)
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
