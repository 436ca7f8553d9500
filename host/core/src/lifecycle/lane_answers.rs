//! What came of work in a lane, for the lane: a target that does not answer rests, and the operator
//! is told once when that begins, with each longer rest, and when it is over.

use crate::background::{is_answer, is_silence};
use crate::core::Core;
use crate::log::cause;
use bulkhead_wire::failure::Failure;

/// Notes what came of work in `lane`, the mount's uuid before its name.
pub(super) fn note(core: &Core, lane: &str, done: Result<(), &Failure>) {
    match done {
        Err(failure) if is_silence(failure) => {
            let Some(rest) = core.claims.note_silence(lane) else { return };
            let next = ("next", format!("{}ms", rest.as_millis()));
            tell(core, "warn", "lane-rests", lane, &[next, cause(failure)]);
        }
        Err(failure) if !is_answer(failure) => {}
        _ => {
            if core.claims.note_answer(lane) {
                tell(core, "info", "lane-answers-again", lane, &[]);
            }
        }
    }
}

fn tell(core: &Core, level: &str, event: &str, lane: &str, more: &[(&str, String)]) {
    let (uuid, name) = lane.split_once('/').unwrap_or((lane, ""));
    let mount = core.mounts.by_uuid(uuid).map(|mount| mount.record.path.to_string());
    let own = [("mount", mount.unwrap_or_default()), ("lane", name.to_owned())];
    let pairs: Vec<(&str, String)> = own.into_iter().chain(more.iter().cloned()).collect();
    core.log.line(level, event, &pairs);
}
