//! Group commit: the questions and the writes of a group as statements of a single transaction.

use std::collections::{BTreeMap, HashMap};

use sqlx::sqlite::SqliteConnection;

use bulkhead_place::write_failure::{TransactionOutcome, WriteFailure};
use bulkhead_record::committed_state::{
    AddressState, CommittedState, GroupWrites, RequestedRange, StateQuestions,
};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::Address;

use super::connections::{SqliteDatabase, TransactionEnd};
use super::script::{BatchRows, StatementBatch};
use super::statements::{self, AddressQuery};
use super::transaction_error::fault_of;
use super::{meta_table, row_queries, stored_counts};

/// The questions of a group, as a part of a script.
struct AskedState<'a> {
    stamps: AddressQuery<'a>,
    /// Each range with the index of the answer.
    listings: Vec<(RequestedRange<'a>, usize)>,
    rows: AddressQuery<'a>,
    /// Each counter with the index of the answer.
    counters: Vec<(&'a str, usize)>,
    sizes: AddressQuery<'a>,
}

impl<'a> AskedState<'a> {
    /// Adds the questions to `script`.
    ///
    /// # Errors
    /// As [`StatementBatch::bind`].
    fn of(script: &mut StatementBatch, questions: StateQuestions<'a>) -> Result<Self, sqlx::Error> {
        let stamps = AddressQuery::stamps(script, questions.stamps)?;
        let mut listings = Vec::with_capacity(questions.listings.len());
        for (range, limit) in questions.listings {
            listings.push(((range, limit), script.len()));
            row_queries::ask_keys(script, range, limit)?;
        }
        let rows = AddressQuery::rows(script, questions.rows)?;
        let mut counters = Vec::with_capacity(questions.counters.len());
        for counter in questions.counters {
            counters.push((counter, script.len()));
            stored_counts::ask_bytes(script, counter)?;
        }
        let sizes = AddressQuery::sizes(script, questions.sizes)?;
        Ok(AskedState { stamps, listings, rows, counters, sizes })
    }

    /// Returns the state from the answers.
    ///
    /// # Errors
    /// The error of SQLite.
    fn state(&self, answers: &BatchRows) -> Result<CommittedState<'a>, sqlx::Error> {
        let keys = |(listed, place): &(RequestedRange<'a>, usize)| {
            let rows = answers.get(*place).map(Vec::as_slice).unwrap_or_default();
            Ok((*listed, row_queries::parse_keys(rows)?))
        };
        let listings: Result<HashMap<_, _>, sqlx::Error> = self.listings.iter().map(keys).collect();
        let bytes = |(counter, place): &(&'a str, usize)| {
            Ok((*counter, stored_counts::parse_bytes(answers, *place)?))
        };
        let counters: Result<BTreeMap<_, _>, sqlx::Error> =
            self.counters.iter().map(bytes).collect();
        Ok(CommittedState {
            stamps: self.stamps.present(answers)?,
            listings: listings?,
            rows: self.rows.sealed(answers)?,
            counters: counters?,
            sizes: self.sizes.numbers(answers)?,
            ..CommittedState::default()
        })
    }
}

/// Returns the statements for the writes.
///
/// # Errors
/// As [`StatementBatch::bind`].
fn statements_of(writes: GroupWrites<'_>) -> Result<StatementBatch, sqlx::Error> {
    let mut script = StatementBatch::default();
    statements::put(&mut script, &writes.puts)?;
    statements::delete(&mut script, &writes.deletes)?;
    meta_table::change(&mut script, writes.identity)?;
    Ok(script)
}

impl SqliteDatabase {
    /// As [`Database::read_state`](crate::database::Database::read_state).
    pub(crate) async fn read_state<'a>(
        &self,
        questions: StateQuestions<'a>,
    ) -> Result<CommittedState<'a>, StoreFault> {
        let mut script = StatementBatch::default();
        let lookups = AskedState::of(&mut script, questions).map_err(fault_of)?;
        lookups.state(&self.snapshot(script).await.map_err(fault_of)?).map_err(fault_of)
    }

    /// As [`Database::commit_group`](crate::database::Database::commit_group).
    pub(crate) async fn commit_group<'a, 'w>(
        &self,
        questions: StateQuestions<'a>,
        plan: impl FnOnce(CommittedState<'a>) -> Option<GroupWrites<'w>>,
    ) -> Result<TransactionOutcome, WriteFailure> {
        let mut script = StatementBatch::default();
        let lookups = AskedState::of(&mut script, questions)
            .map_err(|error| WriteFailure::Undone(fault_of(error)))?;
        let work = |answers: BatchRows| {
            Ok(match plan(lookups.state(&answers)?) {
                Some(writes) => TransactionEnd::Commit(statements_of(writes)?),
                None => TransactionEnd::GiveUp,
            })
        };
        self.transact(script, work).await
    }

    /// As [`Database::look_up_stamps`](crate::database::Database::look_up_stamps).
    pub(crate) async fn look_up_stamps<'a>(
        &self,
        addresses: impl Iterator<Item = &'a Address>,
    ) -> Result<BTreeMap<&'a Address, AddressState>, StoreFault> {
        let mut script = StatementBatch::default();
        let query = AddressQuery::stamps(&mut script, addresses).map_err(fault_of)?;
        let ask = async |connection: &mut SqliteConnection| {
            script.run(connection).await.map_err(sqlx::Error::from)
        };
        query.present(&self.inspect(ask).await.map_err(fault_of)?).map_err(fault_of)
    }
}
