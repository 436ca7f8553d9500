//! Results of work, reported to the lane of the work. A lane pauses while the target does not
//! answer. The log tells the operator when the pause begins, at each longer pause, and when the
//! target answers again.

use crate::core::Core;
use bulkhead_access::background::{is_answer, is_silence};
use bulkhead_access::log::cause;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;

/// Notes the result of work in `lane`, which is the mount's uuid, a slash, and the name of the
/// lane.
pub(super) fn note_result(core: &Core, lane: &str, done: Result<(), &Failure>) {
    match done {
        Err(failure) if is_silence(failure) => {
            let Some(rest) = core.claims.note_silence(lane) else { return };
            let next = ("next", format!("{}ms", rest.as_millis()));
            log_lane(core, LogLevel::Warn, "lane-rests", lane, &[next, cause(failure)]);
        }
        Err(failure) if !is_answer(failure) => {}
        _ => {
            if core.claims.note_answer(lane) {
                log_lane(core, LogLevel::Info, "lane-answers-again", lane, &[]);
            }
        }
    }
}

fn log_lane(core: &Core, level: LogLevel, event: &str, lane: &str, more: &[(&str, String)]) {
    let (uuid, name) = lane.split_once('/').unwrap_or((lane, ""));
    let mount = core.mounts.by_uuid(uuid).map(|mount| mount.record.path.to_string());
    let own = [("mount", mount.unwrap_or_default()), ("lane", name.to_owned())];
    let pairs: Vec<(&str, String)> = own.into_iter().chain(more.iter().cloned()).collect();
    core.log.line(level, event, &pairs);
}
