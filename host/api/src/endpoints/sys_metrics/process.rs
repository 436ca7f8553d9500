//! Metrics of the process: version, start, memory, threads, processor time and open files.
//!
//! The names `process_…` are those of Prometheus' client libraries, which dashboards know.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// Clock ticks of `/proc` in a second, the same on every machine of Linux that Bulkhead runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Number of fields between the name of the process in `/proc/self/stat` and the time of its start.
const FIELDS_BEFORE_START: usize = 19;

const BUILD: Registration<1> = gauge(
    "bulkhead_build_info",
    ["version"],
    "1, with the version of the server",
    "which version runs",
);
const RESIDENT: Registration<0> = gauge(
    "process_resident_memory_bytes",
    [],
    "resident memory of the server",
    "how much memory does the server use",
);
const OPEN_FILES: Registration<0> = gauge(
    "process_open_fds",
    [],
    "open file descriptors of the server",
    "how many files and sockets are open",
);
const PROCESSOR: Registration<0> = counter(
    "process_cpu_seconds_total",
    [],
    "processor time of the server, in seconds",
    "how much processor time does the server use",
);

const START: Registration<0> = gauge(
    "process_start_time_seconds",
    [],
    "time of the start of the server, in seconds since 1970",
    "since when does the server run",
);
const VIRTUAL: Registration<0> = gauge(
    "process_virtual_memory_bytes",
    [],
    "reserved addresses of the server, most of them without memory",
    "how many addresses do components reserve",
);
const FILE_LIMIT: Registration<0> = gauge(
    "process_max_fds",
    [],
    "maximum number of open file descriptors",
    "when do file descriptors run out",
);
const THREADS: Registration<0> =
    gauge("process_threads", [], "threads of the server", "how many threads does the server have");

/// The metrics of this file.
pub(super) const GROUP: MetricGroup = MetricGroup {
    mark: "metrics-process",
    metrics: &[&BUILD, &START, &RESIDENT, &VIRTUAL, &OPEN_FILES, &FILE_LIMIT, &THREADS, &PROCESSOR],
};

/// Adds the metrics of the process. A value that the system does not give is left out.
pub(super) fn add(families: &mut MetricFamilies) {
    families.add(&BUILD, [BUILD.series([env!("CARGO_PKG_VERSION")], 1)]);
    families.add(&START, start_time().map(|time| START.series([], time)));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = bytes_of(&status, "VmRSS:");
    families.add(&RESIDENT, resident.map(|bytes| RESIDENT.series([], bytes)));
    families.add(&VIRTUAL, bytes_of(&status, "VmSize:").map(|bytes| VIRTUAL.series([], bytes)));
    families.add(&OPEN_FILES, open_files().map(|files| OPEN_FILES.series([], files)));
    let most = getrlimit(Resource::Nofile).current;
    families.add(&FILE_LIMIT, most.map(|most| FILE_LIMIT.series([], most)));
    let threads = value_of(&status, "Threads:").and_then(|count| count.parse::<u64>().ok());
    families.add(&THREADS, threads.map(|count| THREADS.series([], count)));
    families.add(&PROCESSOR, [PROCESSOR.series([], processor_seconds())]);
}

/// Returns the value of a line `Threads:  12` of the status.
fn value_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns the bytes of a line `VmRSS:  1234 kB` of the status.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    value_of(status, name)?.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// Returns the time of the start, in seconds since 1970: the start of the machine, and the ticks
/// until the start of the process.
fn start_time() -> Option<f64> {
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let booted_at = value_of(&machine, "btime ")?.parse::<f64>().ok()?;
    let process = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the process is in parentheses and may contain any character.
    let (_, fields) = process.rsplit_once(')')?;
    let ticks = fields.split_whitespace().nth(FIELDS_BEFORE_START)?.parse::<f64>().ok()?;
    Some(booted_at + ticks / TICKS_PER_SECOND)
}

fn open_files() -> Option<u64> {
    u64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

#[expect(clippy::cast_precision_loss, reason = "no time of a process comes near the bounds")]
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_process_are_there() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let [resident, all] = ["VmRSS:", "VmSize:"].map(|name| bytes_of(&status, name).unwrap());
        assert!(resident > 1 << 20 && all >= resident, "{status}");
        assert!(value_of(&status, "Threads:").unwrap().parse::<u64>().unwrap() >= 1);
        let now = clock_gettime(ClockId::Realtime).tv_sec as f64;
        let age = now - start_time().unwrap();
        assert!((-2.0..3_600.0).contains(&age), "{age}");
        assert!(open_files().is_some_and(|files| files >= 3));
        assert!(processor_seconds() > 0.0);
    }
}
