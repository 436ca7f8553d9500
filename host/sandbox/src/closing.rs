//! The end of the calls over a store that is being sealed.
//!
//! The fault this file stops: a component that hangs and keeps the service from being unsealed
//! again. A call is cut once the patience of sealing is over, but never under a change that it has
//! begun outside: what undoes that change must not run beside it.

use crate::call_tree::CallTree;
use tokio::sync::watch;

/// Why a component did not get to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Its time was over.
    Late,
    /// The service is being sealed.
    Sealed,
}

impl From<tokio::time::error::Elapsed> for Cut {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Late
    }
}

/// The sign for calls to end.
#[derive(Default)]
pub(crate) struct Closing(watch::Sender<bool>);

impl Closing {
    /// Gives the sign.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the sign was given and the calls of `tree` change nothing outside; they change
    /// nothing from then on.
    pub(crate) async fn cut(&self, tree: &CallTree) {
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
        let (closing, tree) = (Closing::default(), CallTree::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut cut = pin!(closing.cut(&tree));
        assert!(cut.as_mut().poll(&mut context).is_pending(), "no sign");
        let change = tree.begin_change().await.expect("no sign was given");
        closing.begin();
        assert!(cut.as_mut().poll(&mut context).is_pending(), "a change is under way");
        drop(change);
        cut.await;
        assert!(tree.begin_change().await.is_none(), "it begins no other");
    }
}
