//! Metrics of the process: version, memory, processor time and open files.
//!
//! The names `process_…` are those of Prometheus' client libraries, which dashboards know.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use rustix::time::{ClockId, clock_gettime};
use std::fs;

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

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-process", metrics: &[&BUILD, &RESIDENT, &OPEN_FILES, &PROCESSOR] };

/// Adds the metrics of the process. A value that the system does not give is left out.
pub(super) fn add(families: &mut MetricFamilies) {
    families.add(&BUILD, [BUILD.series([env!("CARGO_PKG_VERSION")], 1)]);
    families.add(&RESIDENT, resident_bytes().map(|bytes| RESIDENT.series([], bytes)));
    families.add(&OPEN_FILES, open_files().map(|files| OPEN_FILES.series([], files)));
    families.add(&PROCESSOR, [PROCESSOR.series([], processor_seconds())]);
}

/// Reads the line `VmRSS:  1234 kB` of the process.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
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
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
        assert!(open_files().is_some_and(|files| files >= 3));
        assert!(processor_seconds() > 0.0);
    }
}
