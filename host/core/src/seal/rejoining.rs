//! The return of a node to the shared database, after another node ended its claim.
//!
//! This file prevents a node that was paused or cut off from staying sealed until people unseal it:
//! all work of the lost claim ends, and the data open again with the root key in memory, under the
//! same checks as every opening (decision T70).

use super::ServiceSeal;
use crate::core::Core;
use crate::key_wrapper::may_pass;
use bulkhead_access::log::cause;
use bulkhead_store::Store;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

impl ServiceSeal {
    /// Closes the service whose store lost its claim on the database. If nodes share the database,
    /// opens the data again, until an attempt succeeds, the database refuses the node, the service
    /// is open already, or the process ends.
    pub async fn leave_lost(&self, lost: &Arc<Core>) {
        self.close_if(|open| Arc::ptr_eq(open, lost)).await;
        let log = &self.process.settings.log;
        let mut is_delay_logged = false;
        while self.may_rejoin(lost) {
            let Err(failure) = self.open_again(lost).await else { return };
            if !may_pass(failure.kind) {
                let remedy = "remove the cause, then unseal or restart the server".to_owned();
                let pairs = [cause(&failure), ("remedy", remedy)];
                return log.line(LogLevel::Error, "not-unsealed", &pairs);
            }
            if !std::mem::replace(&mut is_delay_logged, true) {
                log.line(LogLevel::Warn, "rejoining-delayed", &[cause(&failure)]);
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.process.ending.wait() => return,
            }
        }
    }

    /// Returns whether nothing but the loss of the claim closed the service.
    fn may_rejoin(&self, lost: &Core) -> bool {
        let is_ended = self.process.ending.has_begun() || self.process.is_stopping();
        lost.store.is_shared() && !is_ended && !lost.seal_is_asked() && self.core().is_none()
    }

    /// Opens the data with the root key of the lost store.
    async fn open_again(&self, lost: &Core) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        if !self.may_rejoin(lost) {
            return Ok(());
        }
        let store = self.directory.open_like(&lost.store).await?;
        if let Err(failure) = self.check_completeness(&store).await {
            Store::close(&store).await;
            return Err(failure);
        }
        self.unlock(store).await?;
        Ok(())
    }
}
