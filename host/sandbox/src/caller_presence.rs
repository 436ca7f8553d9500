//! The presence of the client that waits for a call.
//!
//! This file prevents a client from loading the server with calls whose answers the client no
//! longer awaits: a client that sends costly requests and disconnects from each would otherwise
//! keep more calls running than its connections allow.

use tokio::sync::watch;

/// Reports the disconnect of a client to the calls of its request.
#[derive(Clone)]
pub struct CallerPresence(watch::Receiver<()>);

/// The client of a request, present until dropped.
pub struct PresentCaller {
    _sender: watch::Sender<()>,
}

impl CallerPresence {
    /// Makes the two ends for a request.
    #[must_use]
    pub fn begin() -> (PresentCaller, Self) {
        let (sender, receiver) = watch::channel(());
        (PresentCaller { _sender: sender }, Self(receiver))
    }

    /// Resolves once the client has disconnected.
    pub async fn wait_for_end(&self) {
        let mut receiver = self.0.clone();
        while receiver.changed().await.is_ok() {}
    }
}
