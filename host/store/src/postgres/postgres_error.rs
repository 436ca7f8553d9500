//! The meaning of an error of PostgreSQL: for the failed write, for later writes, and in words for
//! the operator.
//!
//! This file prevents a failed write from being taken for a stored write, and the reverse: an error
//! is judged by its SQLSTATE and by its position before or after the commit statement.

use sqlx::postgres::PgDatabaseError;

use crate::failpoint::InjectedFault;
use crate::fault::StoreFault;
use crate::write_failure::{CLOSED, WriteFailure};

/// The codes and classes that need a meaning of their own; see
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
mod code {
    /// The transaction cannot be serialized, and a deadlock. Everything is rolled back.
    pub(super) const INTERFERENCE: [&str; 2] = ["40001", "40P01"];
    pub(super) const DISK_FULL: &str = "53100";
    pub(super) const READ_ONLY: &str = "25006";
    pub(super) const SAME_KEY: &str = "23505";
    pub(super) const UNKNOWN_TABLE: &str = "42P01";
    /// The classes of errors that end the session: of the connection, of an operator's act or a
    /// crash, of the whole system, and the end of an idle transaction.
    pub(super) const ENDS_OF_SESSION: [&str; 4] = ["08", "57P", "58", "25P"];
    /// Refusals of a commit that are known to be rolled back, besides interference: a violated
    /// constraint.
    pub(super) const ROLLED_BACK: [&str; 2] = ["23", "40002"];
    /// Classes of which the message holds no value of a row: connection, login, names, rights,
    /// resources, operators and system.
    pub(super) const FREE_OF_VALUES: [&str; 10] =
        ["08", "25", "28", "3D", "40", "42", "53", "55", "57", "58"];
}

/// The part of a transaction that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WritePhase {
    /// There is no session, or no transaction.
    Beginning,
    Running,
    /// The commit statement was sent.
    Committing,
}

/// An error of the driver or of the server. Not the error type of the driver, so that the words
/// for SQLite are never used by mistake.
#[derive(Debug)]
pub(super) struct PostgresError(sqlx::Error);

impl From<sqlx::Error> for PostgresError {
    fn from(error: sqlx::Error) -> PostgresError {
        PostgresError(error)
    }
}

impl From<InjectedFault> for PostgresError {
    fn from(injected: InjectedFault) -> PostgresError {
        PostgresError(sqlx::Error::Io(std::io::Error::other(injected)))
    }
}

impl PostgresError {
    /// Returns the error of an operation on a closed database.
    pub(super) fn closed() -> PostgresError {
        PostgresError(sqlx::Error::PoolClosed)
    }

    /// Returns whether a row with the same key exists.
    pub(super) fn is_same_key(&self) -> bool {
        self.has_code(code::SAME_KEY)
    }

    /// Returns whether a table does not exist.
    pub(super) fn is_unknown_table(&self) -> bool {
        self.has_code(code::UNKNOWN_TABLE)
    }

    fn sqlstate(&self) -> Option<&str> {
        let error = self.0.as_database_error()?;
        error.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::code)
    }

    fn has_code(&self, wanted: &str) -> bool {
        self.sqlstate() == Some(wanted)
    }

    fn is_in(&self, classes: &[&str]) -> bool {
        self.sqlstate().is_some_and(|code| classes.iter().any(|class| code.starts_with(class)))
    }

    /// Returns whether the session is over, so that a new connection may succeed.
    pub(super) fn ends_session(&self) -> bool {
        match &self.0 {
            sqlx::Error::Database(_) => self.is_in(&code::ENDS_OF_SESSION),
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => true,
            _ => false,
        }
    }

    /// Returns whether another process wrote meanwhile. The transaction is rolled back, and may
    /// succeed if it is repeated.
    pub(super) fn is_interference(&self) -> bool {
        self.sqlstate().is_some_and(|code| code::INTERFERENCE.contains(&code))
    }

    /// Returns the words of the error without bound values.
    fn describe(&self) -> String {
        match (self.sqlstate(), self.0.as_database_error()) {
            (Some(code), Some(said)) if self.is_in(&code::FREE_OF_VALUES) => {
                format!("PostgreSQL: {}, SQLSTATE {code}", said.message())
            }
            (Some(code), _) => format!("PostgreSQL: SQLSTATE {code}"),
            (None, _) => self.0.to_string(),
        }
    }

    /// Returns the meaning for a write that failed in `phase`.
    pub(super) fn into_failure(self, phase: WritePhase) -> WriteFailure {
        let is_committing = phase == WritePhase::Committing;
        let is_decided = !is_committing
            || self.is_in(&code::ROLLED_BACK)
            || self.is_interference()
            || self.has_code(code::DISK_FULL);
        if matches!(self.0, sqlx::Error::PoolClosed) {
            WriteFailure::closed()
        } else if !is_decided {
            WriteFailure::Unknown(self.describe())
        } else if self.is_interference() {
            WriteFailure::Interfered
        } else if self.has_code(code::DISK_FULL) {
            WriteFailure::Full(self.into())
        } else if phase == WritePhase::Beginning || self.has_code(code::READ_ONLY) {
            WriteFailure::Refused(self.into())
        } else if is_committing {
            WriteFailure::Undone(StoreFault::Unavailable(format!(
                "the database refused to commit ({}); nothing was stored, try again",
                self.describe()
            )))
        } else {
            WriteFailure::Undone(self.into())
        }
    }
}

impl From<PostgresError> for StoreFault {
    fn from(error: PostgresError) -> StoreFault {
        if matches!(error.0, sqlx::Error::PoolClosed) {
            return StoreFault::Unavailable(CLOSED.into());
        }
        let said = error.describe();
        StoreFault::Unavailable(if error.has_code(code::DISK_FULL) {
            format!(
                "the disk of the database server is full ({said}); nothing was stored, free space"
            )
        } else if error.has_code(code::READ_ONLY) {
            format!(
                "the database accepts no writes ({said}); connect to the primary server, or end \
                 its read-only mode"
            )
        } else if error.is_in(&["28", "3D", "42501"]) {
            format!(
                "the database refused the login or lacks a right ({said}); check the user, the \
                 password, the database and the rights in the schema"
            )
        } else {
            format!("the database failed ({said}); nothing was acknowledged, try again")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_connection_leaves_commit_unknown() {
        let lost = || {
            PostgresError(sqlx::Error::Io(std::io::Error::from(
                std::io::ErrorKind::ConnectionReset,
            )))
        };
        assert!(lost().ends_session());
        assert!(matches!(lost().into_failure(WritePhase::Committing), WriteFailure::Unknown(_)));
        assert!(matches!(lost().into_failure(WritePhase::Running), WriteFailure::Undone(_)));
        let refused = lost().into_failure(WritePhase::Beginning);
        assert!(matches!(refused, WriteFailure::Refused(_)));
    }

    #[test]
    fn closed_database_stops_writes_in_words() {
        let failure = PostgresError::closed().into_failure(WritePhase::Beginning);
        let WriteFailure::Stopped(StoreFault::Unavailable(text)) = failure else {
            panic!("another failure")
        };
        assert!(text.contains("the store is closed"), "{text}");
    }
}
