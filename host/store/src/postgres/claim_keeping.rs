//! Taking, renewing and giving back the claim of this process.
//!
//! This file prevents an idle node from serving records in memory after another node took the
//! database: the claim is renewed, and its loss found, without a request.

use std::path::Path;
use std::time::Duration;

use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use tokio::time::{sleep, timeout};

use crate::foreign_changes::ExpiredClaim;
use bulkhead_place::claim_watch::{ClaimingNode, NodeSharing};
use bulkhead_place::node_files::KnownCommit;
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_place::write_failure::WriteFailure;
use bulkhead_record::fault::StoreFault;

use super::connections::{BrokenTransaction, PostgresDatabase, WriterSlot, pause_before};
use super::held_claim::{self, HeldClaim};
use super::node_rows::{self, ClaimVerdict, ClaimWait};
use super::postgres_error::{PostgresError, WritePhase};
use super::readers::discard;
use super::server_address::{TableNames, name_of};
use super::server_connector::ServerConnector;
use super::statement_draft::{StatementDraft, run_script};
use super::stored_counts;

/// Maximum time of a renewal, and of the message that gives a claim back.
const RENEWAL_TIME: Duration = Duration::from_secs(5);
/// Isolation of an opening beside other nodes, before its first query. A serializable transaction
/// that reads the rows of all nodes fails again and again while the other nodes commit. The row of
/// the gate keeps openings apart.
const BESIDE_OTHERS: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
/// Maximum attempts to take a claim that other transactions interfere with.
const ATTEMPTS: u32 = 8;

impl PostgresDatabase {
    /// As [`Database::take_claim`](crate::database::Database::take_claim).
    pub(crate) async fn take_claim(&self, node: ClaimingNode) -> Result<i64, StoreFault> {
        let (mut wait, mut interfered) = (ClaimWait::default(), 0);
        loop {
            match self.try_claim(&node, &mut wait).await {
                Ok(Some(taken)) => {
                    self.set_claim(HeldClaim::new(self.name().to_owned(), node, taken));
                    return Ok(taken.1);
                }
                Ok(None) => sleep(node.times.poll).await,
                Err(ClaimFault::Broken(error))
                    if error.is_interference() && interfered < ATTEMPTS =>
                {
                    interfered += 1;
                    pause_before(interfered).await;
                }
                Err(ClaimFault::Broken(error)) => return Err(error.into()),
                Err(ClaimFault::Refused(fault)) => return Err(fault),
            }
        }
    }

    /// Takes the claim if the claim is free. Returns the reading of the steady clock before the
    /// transaction, and the number of the last commit.
    async fn try_claim(
        &self,
        node: &ClaimingNode,
        wait: &mut ClaimWait,
    ) -> Result<Option<(u64, i64)>, ClaimFault> {
        let mut writer = self.writer().await;
        let begun = steady_milliseconds();
        let mut connection = self.begin(&mut writer).await?;
        if node.sharing == NodeSharing::Shared {
            run_script(&mut connection, BESIDE_OTHERS).await?;
        }
        node_rows::gate_passage(&self.tables).fetch(&mut connection).await?;
        let found = node_rows::find(&mut connection, &self.tables).await?;
        let Some(found) = found else { return Err(ClaimFault::Refused(no_row(self.name()))) };
        let verdict = wait.judge(&found, (self.name(), node))?;
        let taken = match verdict {
            ClaimVerdict::Free => {
                let mut rows = Vec::new();
                let namesakes = found.into_iter().filter(|row| row.has_name_of(node));
                let namesakes = namesakes.map(|row| row.name).collect();
                for statement in held_claim::taking(&self.tables, node, namesakes)? {
                    rows = statement.fetch(&mut connection).await?;
                }
                rows.first().map(node_rows::number_of).transpose()?
            }
            ClaimVerdict::Pending => None,
        };
        if taken.is_some() {
            for statement in stored_counts::taking_over(&self.tables, node)? {
                statement.fetch(&mut connection).await?;
            }
        }
        run_script(&mut connection, "COMMIT").await?;
        writer.put_back(connection);
        Ok(taken.map(|commits| (begun, commits)))
    }

    /// As [`Database::is_claim_in_doubt`](crate::database::Database::is_claim_in_doubt).
    pub(crate) fn is_claim_in_doubt(&self) -> bool {
        self.claim().is_some_and(|claim| claim.watch.is_in_doubt())
    }

    /// As [`Database::is_claim_ended`](crate::database::Database::is_claim_ended).
    pub(crate) fn is_claim_ended(&self) -> bool {
        self.claim().is_some_and(|claim| claim.watch.is_ended())
    }

    /// As [`Database::is_ended_as_silent`](crate::database::Database::is_ended_as_silent).
    pub(crate) fn is_ended_as_silent(&self) -> bool {
        self.claim().is_some_and(HeldClaim::is_ended_as_silent)
    }

    /// As [`Database::claim_holder`](crate::database::Database::claim_holder).
    pub(crate) fn claim_holder(&self) -> Option<[u8; 16]> {
        Some(self.claim()?.node.holder)
    }

    /// As [`Database::shared_row`](crate::database::Database::shared_row).
    pub(crate) fn shared_row(&self) -> Option<String> {
        let claim = self.claim().filter(|claim| claim.shares());
        claim.map(|claim| claim.node.row_name())
    }

    /// As [`Database::living_holders`](crate::database::Database::living_holders).
    pub(crate) async fn living_holders(&self) -> Result<Vec<Vec<u8>>, StoreFault> {
        let rows = self.readers.fetch(node_rows::holders(&self.tables)).await?;
        let holders = rows.iter().map(|row| row.try_get("holder")).collect::<Result<_, _>>();
        Ok(holders.map_err(PostgresError::from)?)
    }

    /// As [`Database::end_claims`](crate::database::Database::end_claims).
    pub(crate) async fn end_claims(&self, silent: &[ExpiredClaim]) -> Result<(), WriteFailure> {
        self.write_by_claim(|claim| claim.ending(&self.tables, silent)).await
    }

    /// Writes statements that `draft` makes for the claim of this process. Writes nothing without a
    /// claim.
    ///
    /// # Errors
    /// [`WriteFailure`].
    pub(super) async fn write_by_claim(
        &self,
        draft: impl FnOnce(&HeldClaim) -> Result<[StatementDraft; 2], PostgresError>,
    ) -> Result<(), WriteFailure> {
        let Some(claim) = self.claim() else { return Ok(()) };
        let statements = draft(claim).map_err(|error| WriteFailure::Refused(error.into()))?;
        self.write(&statements).await
    }

    /// As [`Database::claim_silence`](crate::database::Database::claim_silence).
    pub(crate) fn claim_silence(&self) -> Duration {
        self.claim().map(|claim| claim.node.times.silence()).unwrap_or_default()
    }

    /// As [`Database::own_commits`](crate::database::Database::own_commits).
    pub(crate) fn own_commits(&self) -> i64 {
        self.claim().map_or(0, HeldClaim::commits)
    }

    /// As [`Database::claim_pause`](crate::database::Database::claim_pause).
    pub(crate) fn claim_pause(&self) -> Option<Duration> {
        Some(self.claim()?.node.times.keeping_pause())
    }

    /// As [`Database::keep_claim`](crate::database::Database::keep_claim).
    pub(crate) async fn keep_claim(&self) -> bool {
        let Some(claim) = self.claim() else { return false };
        if !claim.watch.is_ended() && claim.watch.age() >= claim.node.times.renewal {
            let renewed = timeout(RENEWAL_TIME, self.renew_claim(claim)).await;
            if renewed.is_err() {
                // The server may have been replaced, and answer reads on the sessions of the pool.
                self.note_server_doubt();
            }
            let is_renewed = matches!(renewed, Ok(Ok(())));
            if !is_renewed && let Err(fault) = claim.watch.check() {
                self.note_failure(&WriteFailure::Refused(fault));
            }
        }
        self.raise_mark(claim).await;
        !claim.watch.is_ended()
    }

    async fn renew_claim(&self, claim: &HeldClaim) -> Result<(), WriteFailure> {
        let mut writer = self.writer().await;
        if claim.watch.is_ended() {
            return Ok(());
        }
        let begun = steady_milliseconds();
        let beginning = |error| BrokenTransaction::Failed(error, WritePhase::Beginning);
        let connection = self.begin(&mut writer).await.map_err(beginning);
        let mut connection = connection.map_err(|broken| self.failure(broken))?;
        let renewed = self.renew_in(&mut connection, claim).await;
        let commits = renewed.map_err(|broken| self.failure(broken))?;
        writer.put_back(connection);
        // A renewal does not show that records can be written, and leaves the condition.
        claim.confirm(begun, commits);
        Ok(())
    }

    async fn renew_in(
        &self,
        connection: &mut PgConnection,
        claim: &HeldClaim,
    ) -> Result<i64, BrokenTransaction> {
        let mut changes = self.server.changes();
        let renewal = claim.renewal(&self.tables)?.fetch(connection);
        let rows = changes.unless_replaced(renewal).await?;
        let commits = self.confirmed_number(connection, &rows, 0).await?;
        changes.unless_replaced(run_script(connection, "COMMIT")).await?;
        Ok(commits)
    }

    /// Writes the number of the last known commit to the data directory.
    async fn raise_mark(&self, claim: &HeldClaim) {
        let (mark, commits) = (claim.node.mark.clone(), claim.commits());
        let last_commit = KnownCommit { node: claim.node.row_name(), commits };
        if mark.mark().commits < commits {
            // The thread of the runtime does not wait for the flush.
            drop(tokio::task::spawn_blocking(move || mark.raise(last_commit)).await);
        }
    }

    /// Gives the claim back, before the database is closed. A server that cannot be reached keeps
    /// the claim until the end of its time.
    pub(super) async fn release_claim(&self, writer: &mut WriterSlot) {
        let Some(claim) = self.claim() else { return };
        claim.watch.end();
        self.raise_mark(claim).await;
        claim.node.mark.close();
        if claim.watch.lost().is_none() {
            drop(timeout(RENEWAL_TIME, self.release(writer, claim)).await);
        }
    }

    async fn release(
        &self,
        writer: &mut WriterSlot,
        claim: &HeldClaim,
    ) -> Result<(), PostgresError> {
        let mut connection = self.begin(writer).await?;
        claim.release(&self.tables)?.fetch(&mut connection).await?;
        run_script(&mut connection, "COMMIT").await?;
        writer.put_back(connection);
        Ok(())
    }
}

/// The reason why a claim was not taken.
enum ClaimFault {
    Broken(PostgresError),
    Refused(StoreFault),
}

impl From<PostgresError> for ClaimFault {
    fn from(error: PostgresError) -> ClaimFault {
        ClaimFault::Broken(error)
    }
}

impl From<StoreFault> for ClaimFault {
    fn from(fault: StoreFault) -> ClaimFault {
        ClaimFault::Refused(fault)
    }
}

fn no_row(database: &Path) -> StoreFault {
    StoreFault::Refused(format!(
        "{} has lost the first row of its table of nodes; restore the database from a \
         backup",
        database.display()
    ))
}

/// As [`DatabasePlace::check_claim`](crate::database::DatabasePlace::check_claim).
pub(crate) async fn check_claim(
    place: &PostgresPlace,
    node: &ClaimingNode,
) -> Result<(), StoreFault> {
    let (connector, tables) = (ServerConnector::new(place), TableNames::of(place));
    let mut wait = ClaimWait::default();
    loop {
        let mut connection = connector.connect().await?;
        let found = node_rows::find(&mut connection, &tables).await;
        discard(connection).await;
        let Some(found) = found? else { return Err(no_row(&name_of(place))) };
        match wait.judge(&found, (&name_of(place), node))? {
            ClaimVerdict::Free => return Ok(()),
            ClaimVerdict::Pending => sleep(node.times.poll).await,
        }
    }
}
