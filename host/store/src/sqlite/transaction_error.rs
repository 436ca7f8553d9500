//! The meaning of an SQLite error: for the failed write, for later writes, and in words for the
//! operator.
//!
//! This file prevents a failed write from being taken for a stored write: an error is judged by its
//! code and by its position before or after the commit statement.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use bulkhead_place::write_failure::{CLOSED, WriteFailure};
use bulkhead_record::failpoint::InjectedFault;
use bulkhead_record::fault::StoreFault;

/// SQLite's primary result codes that need their own message; see
/// <https://www.sqlite.org/rescode.html>.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const IO: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const NOT_A_DATABASE: i32 = 26;
    /// An extended code: a failed flush.
    pub(super) const FLUSH: i32 = 1034;
}

/// An error of a transaction, and its position before or after the commit statement.
pub(super) struct TransactionError {
    error: sqlx::Error,
    committing: bool,
}

impl TransactionError {
    pub(super) fn before(error: sqlx::Error) -> TransactionError {
        TransactionError { error, committing: false }
    }

    pub(super) fn committing(error: sqlx::Error) -> TransactionError {
        TransactionError { error, committing: true }
    }

    /// Returns the reason if nothing more may be written after this error, because the content of
    /// the disk is unknown. An I/O error before the commit statement leaves nothing behind, unless
    /// a flush failed: the unflushed data may be lost although the next flush succeeds.
    pub(super) fn stops(&self) -> Option<String> {
        let io = primary_code(&self.error) == Some(code::IO);
        let unknown = self.committing || extended_code(&self.error) == Some(code::FLUSH);
        (io && unknown).then(|| describe(&self.error))
    }

    /// Returns the meaning of the error. A commit refused for lack of room or a lock is known not
    /// to be stored, and the transaction ends with the connection.
    pub(super) fn broken(self, database: &Path) -> WriteFailure {
        match primary_code(&self.error) {
            Some(code::IO) if self.stops().is_some() => {
                WriteFailure::Stopped(StoreFault::Unavailable(format!(
                    "the disk failed while writing {} ({}); whether this was stored is not known, \
                     and nothing more is written; check the disk and restart",
                    database.display(),
                    describe(&self.error)
                )))
            }
            Some(code::FULL) => WriteFailure::Full(fault_of(self.error)),
            Some(code::BUSY) => WriteFailure::Undone(fault_of(self.error)),
            _ if self.committing => WriteFailure::Unknown(describe(&self.error)),
            _ => WriteFailure::Undone(fault_of(self.error)),
        }
    }
}

/// Returns an injected fault as a database error.
pub(super) fn injected(injected: InjectedFault) -> sqlx::Error {
    sqlx::Error::Io(io::Error::other(injected))
}

/// Converts the error without bound values, which are never part of SQLite's errors.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn fault_of(error: sqlx::Error) -> StoreFault {
    if matches!(error, sqlx::Error::PoolClosed) {
        return StoreFault::Unavailable(CLOSED.into());
    }
    let said = describe(&error);
    StoreFault::Unavailable(match primary_code(&error) {
        Some(code::FULL) => format!(
            "the disk of the data directory is full ({said}); nothing was stored, free space"
        ),
        Some(code::IO) => format!(
            "the data directory cannot be read or written ({said}); check the disk and restart"
        ),
        Some(code::CORRUPT | code::NOT_A_DATABASE) => {
            format!(
                "the database file is damaged ({said}); \
                     stop the server and restore the data directory"
            )
        }
        _ => format!("the database failed ({said}); nothing was acknowledged, try again"),
    })
}

/// Returns `true` if the file is not an SQLite database at all.
pub(super) fn is_no_database(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::NOT_A_DATABASE)
}

fn describe(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(said) => format!("SQLite: {said}"),
        None => error.to_string(),
    }
}

fn extended_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Returns the low byte of SQLite's extended result code.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    extended_code(error).map(|extended| extended & 0xff)
}
