//! Metrics of the process and its disk: memory, processor time, open files, commits and free space.
//!
//! The names `process_…` are those of Prometheus' client libraries, which dashboards know.

use super::family::{FamilyKind, MetricFamilies, MetricFamily, MetricSample, PREFIX, SampleValue};
use super::own::labelled;
use bulkhead_core::Core;
use bulkhead_sandbox::MetricReading;
use bulkhead_wire::metric::MetricKind;
use rustix::fs::statvfs;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;

const COUNTER: FamilyKind = FamilyKind::Plain(MetricKind::Counter);
const GAUGE: FamilyKind = FamilyKind::Plain(MetricKind::Gauge);

/// Returns the metrics of the process and of the disk of the data. A value that the system does not
/// give is left out.
pub(super) fn families(core: &Core) -> MetricFamilies {
    let mut families = MetricFamilies::new();
    let mut add = |name: String, kind, about: &str, sample: Option<MetricSample>| {
        if let Some(sample) = sample {
            let family = MetricFamily { kind, about: about.to_owned(), samples: vec![sample] };
            families.insert(name, family);
        }
    };
    let own = |name: &str| format!("{PREFIX}_{name}");
    let build = labelled(1, &[("version", env!("CARGO_PKG_VERSION"))]);
    add(own("build_info"), GAUGE, "1, with the version of the server", Some(build));
    let count = |count: u64| {
        let value = SampleValue::Reading(MetricReading::Counted(count));
        Some(MetricSample { labels: Vec::new(), value })
    };
    let about = "units of work committed since the service was opened";
    add(own("store_commits_total"), COUNTER, about, count(core.store.commits()));
    let about = "flushes of the database since the service was opened; commits share flushes";
    add(own("store_flushes_total"), COUNTER, about, count(core.store.flushes()));
    let number = |number: Option<u64>| number.map(|number| labelled(number, &[]));
    let directory = &core.process.settings.directory;
    let about = "bytes of the database and its write-ahead log";
    add(own("store_size_bytes"), GAUGE, about, number(stored_bytes(directory)));
    let about = "free bytes on the disk of the data";
    add(own("store_disk_free_bytes"), GAUGE, about, number(free_bytes(directory)));
    let resident = "process_resident_memory_bytes".to_owned();
    add(resident, GAUGE, "resident memory of the server", number(resident_bytes()));
    let about = "open file descriptors of the server";
    add("process_open_fds".to_owned(), GAUGE, about, number(open_files()));
    let about = "processor time of the server, in seconds";
    let time = SampleValue::Reading(MetricReading::Standing(processor_seconds()));
    let time = MetricSample { labels: Vec::new(), value: time };
    add("process_cpu_seconds_total".to_owned(), COUNTER, about, Some(time));
    families
}

fn stored_bytes(directory: &Path) -> Option<u64> {
    let size = |name: &str| fs::metadata(directory.join(name)).map(|file| file.len()).ok();
    size("bulkhead.db").map(|size_of_data| size_of_data + size("bulkhead.db-wal").unwrap_or(0))
}

fn free_bytes(directory: &Path) -> Option<u64> {
    let disk = statvfs(directory).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
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
        assert!(free_bytes(Path::new("/")).is_some());
        assert!(processor_seconds() > 0.0);
        assert_eq!(stored_bytes(Path::new("/nonexistent")), None);
    }
}
