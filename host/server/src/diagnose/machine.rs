//! Checks of the process and the machine: hardening, open files, clock.

use super::findings::{CheckStatus, CollectedLog, Diagnosis};
use crate::config::Config;
use crate::connection_slots::MAX_CONNECTIONS;
use crate::hardening::{harden, raise_descriptor_limit};
use crate::listener;
use bulkhead_access::log::Log;
use bulkhead_sandbox::check_engine;
use bulkhead_tls::machine_time;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Lead of a stored file over the clock that is not a fault of the clock.
const TOLERANCE: Duration = Duration::from_secs(60);

/// Checks that the process can be hardened and can run components, and the number of files that the
/// process may open.
pub(super) fn check_process(config: &Config, diagnosis: &mut Diagnosis) {
    let hardened = "no core dumps, no tracing by other processes".to_owned();
    diagnosis.add_result("process", harden().map(|()| hardened));
    let runs = "components can run: address space and executable memory".to_owned();
    diagnosis.add_result("engine", check_engine().map(|()| runs));
    let log = Arc::new(CollectedLog::default());
    let sink: Arc<dyn Log> = log.clone();
    let listeners = 1 + u64::from(config.scheduler.is_some());
    let descriptors = raise_descriptor_limit();
    let connections = listener::connection_limit(descriptors / listeners, MAX_CONNECTIONS, &sink);
    let message = format!("enough for {connections} connections at a time");
    diagnosis.add("open files", CheckStatus::Ok, message);
    for warning in log.take().iter().filter_map(super::findings::LoggedLine::warning) {
        let advice = "raise the limit: ulimit -n, or LimitNOFILE of systemd";
        diagnosis.add("open files", CheckStatus::Warn, format!("{warning}; {advice}"));
    }
}

/// Compares the clock with the newest file of the data. Certificates, tokens and signatures of
/// others depend on the clock.
pub(super) fn check_clock(data: &Path, diagnosis: &mut Diagnosis) {
    let now = SystemTime::from(machine_time());
    let Some(newest) = newest_file(data) else {
        let shown = machine_time().date();
        diagnosis.add(
            "clock",
            CheckStatus::Ok,
            format!("the time is {shown}; no data to compare with"),
        );
        return;
    };
    let is_behind = newest.duration_since(now).is_ok_and(|lead| lead > TOLERANCE);
    let (status, message) = match is_behind {
        true => {
            (CheckStatus::Warn, "the clock is behind the newest file of the data; set the clock")
        }
        false => (CheckStatus::Ok, "not behind the data"),
    };
    diagnosis.add("clock", status, message);
}

/// Returns the time of the newest file in the directory; `None` without a file.
fn newest_file(directory: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(directory).ok()?;
    let times = entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok());
    times.max()
}
