//! The return of a node to the shared database, after another node ended its claim.
//!
//! This file prevents a node that was paused or cut off from staying sealed until people unseal it:
//! all work of the lost claim ends, and the data open again with the root key in memory, under the
//! same checks as every opening (decision T70). A claim that was lost in another way is not taken
//! again: another process may use the row of this node.

use super::{Rejoining, ServiceSeal};
use crate::core::Core;
use crate::key_wrapper::may_pass;
use crate::lifecycle::SEAL_PATIENCE;
use bulkhead_access::log::cause;
use bulkhead_store::Store;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl ServiceSeal {
    /// Closes the service whose store lost its claim on the database. Returns the attempts to open
    /// the data again; `None` if the service stays sealed.
    pub async fn leave_lost(&self, lost: &Arc<Core>) -> Option<Rejoining> {
        self.is_rejoining.store(lost.store.is_ended_as_silent(), Ordering::SeqCst);
        self.close_if(|open| Arc::ptr_eq(open, lost)).await;
        let openings = self.openings.load(Ordering::SeqCst);
        let attempts = Rejoining { lost: Arc::clone(lost), openings, is_delay_logged: false };
        self.is_rejoining().then_some(attempts)
    }

    /// Returns true while a node whose claim was ended opens its data again.
    pub fn is_rejoining(&self) -> bool {
        self.is_rejoining.load(Ordering::SeqCst)
    }

    /// Attempts to open the data again. Returns true if another attempt should follow.
    pub async fn rejoin(&self, attempts: &mut Rejoining) -> bool {
        let opened = self.open_again(attempts).await;
        let is_delayed = matches!(&opened, Err(failure) if may_pass(failure.kind));
        self.is_rejoining.store(is_delayed, Ordering::SeqCst);
        let Err(failure) = opened else { return false };
        let log = &self.process.settings.log;
        if !is_delayed {
            let remedy = "remove the cause, then unseal or restart the server".to_owned();
            log.line(LogLevel::Error, "not-unsealed", &[cause(&failure), ("remedy", remedy)]);
        } else if !std::mem::replace(&mut attempts.is_delay_logged, true) {
            log.line(LogLevel::Warn, "rejoining-delayed", &[cause(&failure)]);
        }
        is_delayed
    }

    /// Opens the data with the root key of the lost store, unless something else than the loss
    /// keeps the service closed.
    async fn open_again(&self, attempts: &Rejoining) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let is_unwanted = || self.process.ending.has_begun() || attempts.lost.seal_is_asked();
        let is_closed_by_loss =
            self.core().is_none() && self.openings.load(Ordering::SeqCst) == attempts.openings;
        if is_unwanted() || !is_closed_by_loss {
            return Ok(());
        }
        let store = self.directory.open_like(&attempts.lost.store).await?;
        if let Err(failure) = self.check_completeness(&store).await {
            Store::close(&store).await;
            return Err(failure);
        }
        let core = self.unlock_without_due_work(store).await?;
        // All requests of the lost service have ended, and one of them may have asked for a seal.
        match is_unwanted() {
            true => self.close_locked(|_| true, SEAL_PATIENCE).await,
            false => self.begin_work(&core),
        }
        Ok(())
    }
}
