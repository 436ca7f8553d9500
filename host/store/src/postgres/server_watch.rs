//! The server behind the connections, as the connection of the reads of changes finds it.
//!
//! This file prevents a node that waits on dead connections after a failover, although a new
//! connection has found the new primary server: a server that vanished without a word answers
//! neither a read nor a commit, and each connection alone would wait for its own time limit.

use std::sync::Mutex;

use bulkhead_wire::sync;
use tokio::sync::watch;

use super::postgres_error::PostgresError;

/// The start of the server that the reads of changes have reached last.
#[derive(Default)]
pub(super) struct ServerWatch {
    found: Mutex<FoundServer>,
    /// Changes when another server is found, or the connections may be dead.
    replaced: watch::Sender<()>,
}

/// A server, as the connection with this number found it.
#[derive(Default)]
struct FoundServer {
    openings: u64,
    /// Number of earlier connections that did not answer in time.
    silent: u64,
    /// `None` if the server does not tell.
    started: Option<String>,
}

/// The changes of the server from a moment on.
pub(super) struct ServerChanges(watch::Receiver<()>);

impl ServerWatch {
    /// Returns the changes from now on.
    pub(super) fn changes(&self) -> ServerChanges {
        ServerChanges(self.replaced.subscribe())
    }

    /// Records the server behind a new connection. Returns whether the server replaced another one,
    /// or an earlier connection did not answer in time: the others may carry nothing any more.
    pub(super) fn note(&self, (openings, silent): (u64, u64), started: Option<String>) -> bool {
        let mut found = sync::lock(&self.found);
        let is_first = found.openings == 0;
        let is_same = started.is_some() && started == found.started && silent == found.silent;
        *found = FoundServer { openings, silent, started };
        !is_first && !is_same
    }

    /// Returns whether the server behind the connection with this number is found.
    pub(super) fn has_found(&self, openings: u64) -> bool {
        sync::lock(&self.found).openings == openings
    }

    /// Ends the statements that wait for a server that was replaced.
    pub(super) fn announce(&self) {
        self.replaced.send_replace(());
    }
}

impl ServerChanges {
    /// Waits for the answer of a statement, until another server is found.
    ///
    /// # Errors
    /// The error of the statement, or of a connection that ended.
    pub(super) async fn unless_replaced<T>(
        &mut self,
        answer: impl Future<Output = Result<T, PostgresError>>,
    ) -> Result<T, PostgresError> {
        tokio::select! {
            biased;
            answered = answer => answered,
            Ok(()) = self.0.changed() => Err(PostgresError::cut()),
        }
    }
}

#[cfg(test)]
mod tests;
