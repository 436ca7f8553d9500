//! Group commit, and the inspection of a commit with an unknown outcome.

use std::time::{Duration, Instant};

use sqlx::postgres::PgRow;

use bulkhead_place::write_failure::{TransactionOutcome, WriteFailure};
use bulkhead_record::committed_state::{CommittedState, GroupWrites, StateQuestions};
use bulkhead_record::fault::StoreFault;

use super::connections::{COMMIT, PostgresDatabase, pause_before};
use super::group_questions::GroupQuestions;
use super::group_writes;
use super::held_claim::HeldClaim;
use super::node_rows;
use super::postgres_error::{PostgresError, WritePhase};
use super::readers::discard;
use super::statement_draft::{StatementDraft, run_script};

/// Time in which a server may come back before the inspection of a commit is given up.
pub(super) const RETURN_TIME: Duration = Duration::from_secs(30);
/// Begins the inspection. Each statement sees everything committed before the statement.
const BEGIN_INSPECTION: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '30s'";

impl PostgresDatabase {
    /// As [`Database::read_state`](crate::database::Database::read_state).
    pub(crate) async fn read_state<'a>(
        &self,
        questions: StateQuestions<'a>,
    ) -> Result<CommittedState<'a>, StoreFault> {
        let questions = GroupQuestions::of(questions);
        let rows = match questions.statement(&self.tables)? {
            Some(statement) => self.readers.fetch(statement).await?,
            None => Vec::new(),
        };
        Ok(questions.state(&rows)?)
    }

    /// As [`Database::commit_group`](crate::database::Database::commit_group).
    pub(crate) async fn commit_group<'a, 'w>(
        &self,
        questions: StateQuestions<'a>,
        plan: impl FnOnce(CommittedState<'a>) -> Option<GroupWrites<'w>>,
    ) -> Result<TransactionOutcome, WriteFailure> {
        let questions = GroupQuestions::of(questions);
        let statement = questions.statement(&self.tables);
        let statement = statement.map_err(|error| error.into_failure(WritePhase::Running))?;
        let (tables, claim) = (&self.tables, self.claim());
        self.transact(statement, |rows| match plan(questions.state(&rows)?) {
            Some(writes) => group_writes::statements_of(tables, &writes, claim).map(Some),
            None => Ok(None),
        })
        .await
    }

    /// Decides about a transaction of this process whose commit statement had no answer. `number`
    /// is the number of the commit; `None` if the transaction never counted a commit. Called before
    /// the next write of this process, so that no other commit can have the number. Stamps prove
    /// nothing: another node may have replaced the written records already.
    ///
    /// # Errors
    /// [`WriteFailure::Undone`] if nothing was stored; [`WriteFailure::Unknown`] if the database
    /// does not decide.
    pub(super) async fn decide(
        &self,
        claim: &HeldClaim,
        number: Option<i64>,
        said: String,
    ) -> Result<TransactionOutcome, WriteFailure> {
        if let Some(number) = number {
            let inspected = self.inspect_until(|| None).await;
            if inspected.is_err() || claim.is_in_doubt() {
                return Err(WriteFailure::Unknown(said));
            }
            if claim.commits() >= number {
                return Ok(TransactionOutcome::Committed);
            }
        }
        Err(WriteFailure::Undone(StoreFault::Unavailable(format!(
            "the database failed while committing ({said}); nothing was stored, try again"
        ))))
    }

    /// Runs the statement after every transaction that writes is decided. Repeats the inspection
    /// while the server refuses, for [`RETURN_TIME`].
    ///
    /// # Errors
    /// The last error of the database.
    pub(super) async fn inspect_until(
        &self,
        statement: impl Fn() -> Option<StatementDraft>,
    ) -> Result<Vec<PgRow>, PostgresError> {
        let (begun, mut attempts) = (Instant::now(), 1);
        loop {
            match self.inspect(statement()).await {
                Err(error) if error.is_refusal() && begun.elapsed() < RETURN_TIME => {
                    pause_before(attempts).await;
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// As [`Database::await_decisions`](crate::database::Database::await_decisions).
    pub(crate) async fn await_decisions(&self) -> Result<(), WriteFailure> {
        self.inspect(None).await.map(drop).map_err(|error| {
            let failure = error.into_failure(WritePhase::Beginning);
            self.note_failure(&failure);
            self.condition.answer_of_write(failure)
        })
    }

    async fn inspect(
        &self,
        statement: Option<StatementDraft>,
    ) -> Result<Vec<PgRow>, PostgresError> {
        let mut connection = self.connect().await?;
        run_script(&mut connection, BEGIN_INSPECTION).await?;
        let lock = match self.claim() {
            Some(claim) => claim.lock(&self.tables)?,
            None => node_rows::gate_lock(&self.tables),
        };
        let last = lock.fetch(&mut connection).await?;
        let rows = match statement {
            Some(statement) => statement.fetch(&mut connection).await?,
            None => Vec::new(),
        };
        // A session that ended in the wait for the standby shows its commit to others. The locked
        // row makes this commit wait, too: no failover loses what the inspection finds.
        let commit = run_script(&mut connection, COMMIT);
        self.server.changes().unless_replaced(commit).await?;
        if let (Some(claim), Some(last)) = (self.claim(), last.first()) {
            // The commit with the lost answer must not be lost later without a word.
            claim.note_commit(node_rows::number_of(last)?);
        }
        discard(connection).await;
        Ok(rows)
    }
}
