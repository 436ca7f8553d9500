//! Statements on their way to the database.

use bulkhead_sdk::database_plugin::{SqlFailure, SqlHost, Statement, Target};
use bulkhead_sdk::statements::Prepared;

/// Runs statements in their order. A failure counts them as the operator's list does.
pub(crate) fn run(
    host: &dyn SqlHost,
    target: &Target,
    prepared: Vec<Prepared>,
) -> Result<(), SqlFailure> {
    if prepared.is_empty() {
        return Ok(());
    }
    let (statements, places): (Vec<Statement>, Vec<u32>) =
        prepared.into_iter().map(|prepared| (prepared.statement, prepared.index)).unzip();
    host.transact(target, &statements).map_err(|failure| {
        let place = failure.statement.and_then(|at| places.get(usize::try_from(at).ok()?)).copied();
        SqlFailure { statement: place, ..failure }
    })
}
