//! The end of calls over a store that is being sealed.
//!
//! Prevents a component that hangs from blocking the seal, and so the next unseal. A call is cut
//! after the grace period of sealing, but never during a change outside that the call has begun:
//! the undo of the change must not run beside the change.

use crate::call_tree::CallTree;
use tokio::sync::watch;

/// Reason why a component did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallInterruption {
    /// The call ran out of time.
    Late,
    /// The service is being sealed.
    Sealed,
}

impl From<tokio::time::error::Elapsed> for CallInterruption {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Late
    }
}

/// The signal for calls to end.
#[derive(Default)]
pub(crate) struct ClosingSignal(watch::Sender<bool>);

impl ClosingSignal {
    /// Sends the signal.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Resolves after the signal was sent and the changes of `tree` outside have ended. The tree
    /// begins no change from then on.
    pub(crate) async fn wait_for_interruption(&self, tree: &CallTree) {
        if self.0.subscribe().wait_for(|begun| *begun).await.is_ok() {
            tree.end_changes().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn a_call_is_cut_after_the_sign_and_after_the_change_that_it_has_begun() {
        let (closing, tree) = (ClosingSignal::default(), CallTree::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut cut = pin!(closing.wait_for_interruption(&tree));
        assert!(cut.as_mut().poll(&mut context).is_pending(), "no sign");
        let change = tree.begin_change().await.expect("no sign was given");
        closing.begin();
        assert!(cut.as_mut().poll(&mut context).is_pending(), "a change is under way");
        drop(change);
        cut.await;
        assert!(tree.begin_change().await.is_none(), "no change begins after the close");
    }
}
