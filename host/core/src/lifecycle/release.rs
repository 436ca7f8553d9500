//! The release of restored data: due work starts.

use super::open::resume_once;
use crate::core::Core;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// Removes the note of the restore and starts due work at once, as a start of the server would.
/// Does nothing if due work runs already.
///
/// # Errors
/// 400 if the configuration suspends due work, because due work would not start. The store's
/// failure: due work still waits.
pub async fn release(core: &Arc<Core>) -> Result<(), Failure> {
    let Some(suspension) = core.due_work_suspension() else { return Ok(()) };
    if suspension.is_configured() {
        return Err(Failure::invalid(format!(
            "due work was not started: {}; {}",
            suspension.reason(),
            suspension.remedy()
        )));
    }
    core.store.release().await?;
    core.background.gate.note_release();
    core.log.line(LogLevel::Info, "due-work-released", &[]);
    resume_once(core);
    core.review_health();
    Ok(())
}
