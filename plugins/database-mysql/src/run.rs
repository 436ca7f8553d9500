//! Execution of prepared statements.

use bulkhead_sdk::database_plugin::{DatabaseTarget, SqlFailure, SqlHost, Statement};
use bulkhead_sdk::statements::FilledStatement;

/// A failure with its position among all statements, because an element of the operator's list can
/// contain several statements.
pub(crate) struct StatementFailure {
    pub(crate) failure: SqlFailure,
    pub(crate) place: Option<usize>,
}

/// Runs statements in order. A failure's index refers to the operator's list.
pub(crate) fn run(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
    prepared: Vec<FilledStatement>,
) -> Result<(), SqlFailure> {
    run_placed(host, target, prepared).map_err(|failed| failed.failure)
}

/// Runs statements as [`run`] does, and returns the position of a failure.
pub(crate) fn run_placed(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
    prepared: Vec<FilledStatement>,
) -> Result<(), StatementFailure> {
    if prepared.is_empty() {
        return Ok(());
    }
    let (statements, indexes): (Vec<Statement>, Vec<u32>) =
        prepared.into_iter().map(|prepared| (prepared.statement, prepared.index)).unzip();
    host.transact(target, &statements).map_err(|failure| {
        let place = failure.statement.and_then(|at| usize::try_from(at).ok());
        let statement = place.and_then(|at| indexes.get(at)).copied();
        StatementFailure { failure: SqlFailure { statement, ..failure }, place }
    })
}
