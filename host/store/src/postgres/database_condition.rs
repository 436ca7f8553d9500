//! The condition of an open database, and its failures in words for callers and for the log.
//!
//! This file prevents an answer that tells a caller without a token the server, the user and the
//! files of the database: the log alone has the cause.

use sqlx::Row as _;
use tokio::sync::watch;

use bulkhead_place::write_condition::WriteCondition;
use bulkhead_place::write_failure::WriteFailure;
use bulkhead_record::fault::StoreFault;

use super::connections::{BrokenTransaction, PostgresDatabase};
use super::statement_draft::StatementDraft;

impl PostgresDatabase {
    /// Returns the reason for the loss of the claim. A server decides itself whether it goes on
    /// after an I/O error.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.claim()?.watch.lost()
    }

    /// Checks that the claim of this process holds, before a record in memory is used.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the claim is lost or in doubt.
    pub(crate) fn check_claim(&self) -> Result<(), StoreFault> {
        let checked = self.claim().map_or(Ok(()), |claim| claim.watch.check());
        checked.map_err(|fault| self.condition.answer(fault))
    }

    /// Returns a sentence for each setting of the server that can lose an acknowledged commit, as
    /// the opening found the settings.
    pub(crate) fn durability_doubts(&self) -> &[String] {
        &self.doubts
    }

    /// Returns the ability to write, as the last write showed.
    pub(crate) fn write_condition(&self) -> WriteCondition {
        self.condition.condition()
    }

    /// Returns the cause of [`WriteCondition::Refused`]; `None` in another condition.
    pub(crate) fn write_refusal(&self) -> Option<StoreFault> {
        self.condition.refusal()
    }

    /// Returns a receiver of the changes of [`PostgresDatabase::write_condition`].
    pub(crate) fn write_changes(&self) -> watch::Receiver<WriteCondition> {
        self.condition.subscribe()
    }

    /// Records that the store is open for requests.
    pub(crate) fn begin_service(&self) {
        self.condition.begin_service();
    }

    /// Returns the meaning of a broken transaction, after the condition has learnt of the failure.
    pub(super) fn failure(&self, broken: BrokenTransaction) -> WriteFailure {
        let failure = match broken {
            BrokenTransaction::Failed(error, phase) => {
                if !error.is_interference() {
                    self.note_server_doubt();
                }
                error.into_failure(phase).at(self.name())
            }
            BrokenTransaction::Fenced(reason) => {
                self.claim().into_iter().for_each(|claim| claim.watch.lose(&reason));
                WriteFailure::lost_claim(&reason)
            }
        };
        self.note_failure(&failure);
        self.condition.answer_of_write(failure)
    }

    /// Records a failed write.
    pub(super) fn note_failure(&self, failure: &WriteFailure) {
        self.condition.note_failure(failure);
    }

    /// Gives up the connections of the requests and of the proofs if the reads of changes had to
    /// open a new connection, and the running write if the connection leads to another server or
    /// the earlier one did not answer in time. The outcome of a write that was given up is
    /// inspected.
    pub(super) async fn follow_server(&self) {
        let (openings, silent) = (self.follower.openings(), self.follower.silent());
        if self.server.has_found(openings) {
            return;
        }
        let question = StatementDraft::of("SELECT pg_postmaster_start_time()::text AS started");
        let rows = self.follower.fetch(question).await.unwrap_or_default();
        let started = rows.first().and_then(|row| row.try_get("started").ok());
        let is_first = openings == 1;
        if self.server.note((openings, silent), started) {
            self.note_server_doubt();
            self.server.announce();
        }
        if !is_first {
            self.readers.cut();
            self.proofs.cut();
        }
    }
}
