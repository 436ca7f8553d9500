//! Execution of prepared statements.

use bulkhead_sdk::database_plugin::{SqlFailure, SqlHost, Statement, Target};
use bulkhead_sdk::statements::Prepared;

/// A failure with its position among all statements, because an element of the operator's list can
/// contain several statements.
pub(crate) struct Failed {
    pub(crate) failure: SqlFailure,
    pub(crate) place: Option<usize>,
}

/// Runs statements in order. A failure's index refers to the operator's list.
pub(crate) fn run(
    host: &dyn SqlHost,
    target: &Target,
    prepared: Vec<Prepared>,
) -> Result<(), SqlFailure> {
    run_placed(host, target, prepared).map_err(|failed| failed.failure)
}

/// Runs statements as [`run`] does, and returns the position of a failure.
pub(crate) fn run_placed(
    host: &dyn SqlHost,
    target: &Target,
    prepared: Vec<Prepared>,
) -> Result<(), Failed> {
    if prepared.is_empty() {
        return Ok(());
    }
    let (statements, indexes): (Vec<Statement>, Vec<u32>) =
        prepared.into_iter().map(|prepared| (prepared.statement, prepared.index)).unzip();
    host.transact(target, &statements).map_err(|failure| {
        let place = failure.statement.and_then(|at| usize::try_from(at).ok());
        let statement = place.and_then(|at| indexes.get(at)).copied();
        Failed { failure: SqlFailure { statement, ..failure }, place }
    })
}
