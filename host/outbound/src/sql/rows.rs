//! Rows of a query, as texts within limits.

use super::failure::{SqlFailure, failed, of_statement};
use crate::limits;
use futures_util::{Stream, StreamExt as _};

/// The cells of a row. `None`: NULL.
pub(super) type RowCells = Vec<Option<String>>;

/// Reads rows up to the limits. A table over the limits is not read to its end.
pub(super) async fn texts<R>(
    mut rows: impl Stream<Item = Result<R, sqlx::Error>> + Unpin,
    cells: fn(&R) -> Result<RowCells, sqlx::Error>,
) -> Result<Vec<RowCells>, SqlFailure> {
    let mut bytes = 0_usize;
    let mut table = Vec::new();
    while let Some(row) = rows.next().await {
        let row = row.and_then(|row| cells(&row)).map_err(|error| of_statement(&error, false))?;
        bytes = row.iter().flatten().fold(bytes, |sum, cell| sum.saturating_add(cell.len()));
        table.push(row);
        if table.len() > limits::QUERY_ROWS || bytes > limits::QUERY_BYTES {
            return Err(failed(
                "invalid-request",
                "the query answers more than 10,000 rows or 4 MiB",
            ));
        }
    }
    Ok(table)
}
