//! Effects: the one place through which everything passes that may change something outside.
//!
//! The faults this file stops: a change that begins with no time left, and so outlives its call and
//! the undo that follows it; and a change that is cut half-way because its client went away.

use crate::call_tree::Effect;
use crate::context::CallContext;
use crate::limits;
use bulkhead_store::failpoint;
use std::future::Future;
use std::sync::Arc;

/// Why a change did not happen, or may have happened unheard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// It was not begun: the call has less time left than a change may take.
    NoTime,
    /// It was not begun, because the service is being sealed, or a fault was injected.
    NotBegun,
    /// It was begun and may have happened; its answer did not come.
    NoAnswer,
    /// It was begun and may have happened; it took longer than a change may take.
    TimedOut,
}

/// Runs `change` in a task of its own, with a time of its own, and marks the root call: it is not
/// run again by itself.
pub(crate) async fn run<T: Send + 'static>(
    context: &CallContext,
    change: impl Future<Output = T> + Send + 'static,
) -> Result<T, Unheard> {
    if context.left() < limits::EFFECT_TIME + limits::EFFECT_MARGIN {
        return Err(Unheard::NoTime);
    }
    failpoint::reach("effect.begins").map_err(|_| Unheard::NotBegun)?;
    context.tree.mark(Effect::Effect);
    let tree = Arc::clone(&context.tree);
    let change = async move {
        let Some(_under_way) = tree.begin_change().await else { return Err(Unheard::NotBegun) };
        tokio::time::timeout(limits::EFFECT_TIME, change).await.map_err(|_| Unheard::TimedOut)
    };
    let ended = tokio::spawn(change).await;
    failpoint::reach("effect.ended").map_err(|_| Unheard::NoAnswer)?;
    match ended {
        Ok(done) => done,
        Err(_) => Err(Unheard::NoAnswer),
    }
}
