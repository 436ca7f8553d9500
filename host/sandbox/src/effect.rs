//! Effects: the single gate for every change outside.
//!
//! This file prevents a change from beginning with too little time left, and so from outliving its
//! call and the undo that follows. This file also prevents a change from being cut half-way because
//! the client disconnected.

use crate::call_tree::SideEffect;
use crate::context::CallContext;
use crate::limits;
use bulkhead_store::failpoint;
use std::future::Future;
use std::sync::Arc;

/// Reason why a change did not happen, or may have happened without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EffectFailure {
    /// Not begun: the call has less time left than a change may take.
    NoTime,
    /// Not begun: the service is being sealed, or a fault was injected.
    NotBegun,
    /// Begun; the change may have happened, but the answer did not come.
    NoAnswer,
    /// Begun; the change may have happened, but took longer than the maximum time of a change.
    TimedOut,
}

/// Runs `change` in a separate task with a separate timeout. Marks the root call, so that the call
/// is not retried automatically.
pub(crate) async fn run<T: Send + 'static>(
    context: &CallContext,
    change: impl Future<Output = T> + Send + 'static,
) -> Result<T, EffectFailure> {
    if context.left() < limits::EFFECT_TIME + limits::EFFECT_MARGIN {
        return Err(EffectFailure::NoTime);
    }
    failpoint::reach("effect.begins").map_err(|_| EffectFailure::NotBegun)?;
    context.tree.mark_effect(SideEffect::Effect);
    let tree = Arc::clone(&context.tree);
    let change = async move {
        let Some(_under_way) = tree.begin_change().await else {
            return Err(EffectFailure::NotBegun);
        };
        tokio::time::timeout(limits::EFFECT_TIME, change).await.map_err(|_| EffectFailure::TimedOut)
    };
    let ended = tokio::spawn(change).await;
    failpoint::reach("effect.ended").map_err(|_| EffectFailure::NoAnswer)?;
    match ended {
        Ok(done) => done,
        Err(_) => Err(EffectFailure::NoAnswer),
    }
}
