//! The meaning of an error of PostgreSQL: for the failed write, for later writes, and in words for
//! the operator.
//!
//! This file prevents a failed write from being taken for a stored write, and the reverse: an error
//! is judged by its SQLSTATE and by its position before or after the commit statement.

use std::io;

use sqlx::postgres::PgDatabaseError;

use bulkhead_place::write_failure::{CLOSED, WriteFailure};
use bulkhead_record::failpoint::InjectedFault;
use bulkhead_record::fault::StoreFault;

/// The codes and classes that need a meaning of their own; see
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
mod code {
    /// The transaction cannot be serialized, and a deadlock. Everything is rolled back.
    pub(super) const INTERFERENCE: [&str; 2] = ["40001", "40P01"];
    pub(super) const DISK_FULL: &str = "53100";
    pub(super) const READ_ONLY: &str = "25006";
    pub(super) const SAME_KEY: &str = "23505";
    pub(super) const UNKNOWN_TABLE: &str = "42P01";
    pub(super) const NO_RIGHT: &str = "42501";
    pub(super) const LOCKED: &str = "55P03";
    /// A prepared statement that disappeared, and a statement of another session with the same
    /// name.
    pub(super) const PREPARED_ELSEWHERE: [&str; 2] = ["26000", "42P05"];
    /// The code of PgBouncer's own errors.
    pub(super) const PROTOCOL: &str = "08P01";
    /// The classes of errors that end the session: of the connection, of an operator's act or a
    /// crash, of the whole system, and the end of an idle transaction.
    pub(super) const ENDS_OF_SESSION: [&str; 4] = ["08", "57P", "58", "25P"];
    /// The classes of errors with which the database refuses any unit: of the state of a
    /// transaction, the login, the database, the schema, names and rights, resources, locks, and a
    /// cancelled statement.
    pub(super) const REFUSALS: [&str; 8] = ["25", "28", "3D", "3F", "42", "53", "55", "57"];
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

/// The refusal of a pooler that gives sessions of the server to several connections.
pub(super) const POOLER: &str = "a pooler between Bulkhead and PostgreSQL does not keep a session \
     for each connection; set pool_mode = session of the pooler, or connect to the server directly";

/// Returns whether a code and message are known to come from such a pooler.
pub(super) fn is_sign_of_pooler(code: &str, message: &str) -> bool {
    let own = ["pooling mode", "startup parameter"];
    code::PREPARED_ELSEWHERE.contains(&code)
        || (code == code::PROTOCOL && own.iter().any(|words| message.contains(words)))
}

/// An error of the driver or of the server. Not the error type of the driver, so that the words
/// for SQLite are never used by mistake.
#[derive(Debug)]
pub(super) enum PostgresError {
    Driver(sqlx::Error),
    /// No server opened a session; the reasons in words for the operator.
    NoSession(String),
}

impl From<sqlx::Error> for PostgresError {
    fn from(error: sqlx::Error) -> PostgresError {
        PostgresError::Driver(error)
    }
}

impl From<InjectedFault> for PostgresError {
    fn from(injected: InjectedFault) -> PostgresError {
        PostgresError::Driver(sqlx::Error::Io(io::Error::other(injected)))
    }
}

impl PostgresError {
    /// Returns the error of an operation on a closed database.
    pub(super) fn closed() -> PostgresError {
        PostgresError::Driver(sqlx::Error::PoolClosed)
    }

    /// Returns the error of a statement that was given up because its server was replaced.
    pub(super) fn cut() -> PostgresError {
        let text = "another server took over";
        PostgresError::Driver(sqlx::Error::Io(io::Error::new(io::ErrorKind::ConnectionReset, text)))
    }

    fn is_closed(&self) -> bool {
        matches!(self, PostgresError::Driver(sqlx::Error::PoolClosed))
    }

    /// Returns whether a row with the same key exists.
    pub(super) fn is_same_key(&self) -> bool {
        self.has_code(code::SAME_KEY)
    }

    /// Returns whether a table does not exist.
    pub(super) fn is_unknown_table(&self) -> bool {
        self.has_code(code::UNKNOWN_TABLE)
    }

    /// Returns whether another session held a lock for too long.
    pub(super) fn is_locked(&self) -> bool {
        self.has_code(code::LOCKED)
    }

    /// Returns whether the user lacks a right.
    pub(super) fn is_lack_of_right(&self) -> bool {
        self.has_code(code::NO_RIGHT)
    }

    /// Returns whether a pooler is known to have caused the error.
    pub(super) fn is_of_pooler(&self) -> bool {
        let error = self.of_server();
        error.is_some_and(|error| is_sign_of_pooler(error.code(), error.message()))
    }

    fn of_server(&self) -> Option<&PgDatabaseError> {
        match self {
            PostgresError::Driver(error) => error.as_database_error()?.try_downcast_ref(),
            PostgresError::NoSession(_) => None,
        }
    }

    fn sqlstate(&self) -> Option<&str> {
        self.of_server().map(PgDatabaseError::code)
    }

    fn has_code(&self, wanted: &str) -> bool {
        self.sqlstate() == Some(wanted)
    }

    fn is_in(&self, classes: &[&str]) -> bool {
        self.sqlstate().is_some_and(|code| classes.iter().any(|class| code.starts_with(class)))
    }

    /// Returns whether the session is over, so that a new connection may succeed.
    pub(super) fn ends_session(&self) -> bool {
        match self {
            PostgresError::Driver(sqlx::Error::Database(_)) => self.is_in(&code::ENDS_OF_SESSION),
            PostgresError::Driver(
                sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_),
            ) => true,
            _ => false,
        }
    }

    /// Returns whether the server gave no answer in time.
    pub(super) fn is_timeout(&self) -> bool {
        let PostgresError::Driver(sqlx::Error::Io(error)) = self else { return false };
        error.kind() == io::ErrorKind::TimedOut
    }

    /// Returns whether the database does not serve at present, whatever the statement.
    pub(super) fn is_refusal(&self) -> bool {
        let has_no_session = matches!(self, PostgresError::NoSession(_));
        has_no_session || self.ends_session() || self.is_in(&code::REFUSALS)
    }

    /// Returns whether another process wrote meanwhile. The transaction is rolled back, and may
    /// succeed if it is repeated.
    pub(super) fn is_interference(&self) -> bool {
        self.sqlstate().is_some_and(|code| code::INTERFERENCE.contains(&code))
    }

    /// Returns the words of the error without bound values.
    pub(super) fn describe(&self) -> String {
        match (self.of_server(), self) {
            (Some(said), _) if self.is_in(&code::FREE_OF_VALUES) => {
                format!("PostgreSQL: {}, SQLSTATE {}", said.message(), said.code())
            }
            (Some(said), _) => format!("PostgreSQL: SQLSTATE {}", said.code()),
            (None, PostgresError::Driver(error)) => error.to_string(),
            (None, PostgresError::NoSession(reasons)) => reasons.clone(),
        }
    }

    /// Returns the meaning for a write that failed in `phase`.
    pub(super) fn into_failure(self, phase: WritePhase) -> WriteFailure {
        let is_committing = phase == WritePhase::Committing;
        let is_decided = !is_committing
            || self.is_in(&code::ROLLED_BACK)
            || self.is_interference()
            || self.has_code(code::DISK_FULL);
        if self.is_closed() {
            WriteFailure::closed()
        } else if !is_decided {
            WriteFailure::Unknown(self.describe())
        } else if self.is_interference() {
            WriteFailure::Interfered
        } else if self.has_code(code::DISK_FULL) {
            WriteFailure::Full(self.into())
        } else if phase == WritePhase::Beginning || self.is_in(&code::REFUSALS) {
            // The end of a session refuses nothing: a new session may do the work.
            match phase == WritePhase::Beginning || !self.ends_session() {
                true => WriteFailure::Refused(self.into()),
                false => WriteFailure::Undone(self.into()),
            }
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

impl PostgresError {
    /// Returns the fault in words for the operator.
    pub(super) fn fault(&self) -> StoreFault {
        if self.is_closed() {
            return StoreFault::Unavailable(CLOSED.into());
        }
        if let PostgresError::NoSession(reasons) = self {
            return StoreFault::Unavailable(reasons.clone());
        }
        let said = self.describe();
        StoreFault::Unavailable(if self.has_code(code::DISK_FULL) {
            format!(
                "the disk of the database server is full ({said}); nothing was stored, free space"
            )
        } else if self.has_code(code::READ_ONLY) {
            format!(
                "the database accepts no writes ({said}); connect to the primary server, or end \
                 its read-only mode"
            )
        } else if self.is_of_pooler() {
            format!("{POOLER} ({said}); nothing was acknowledged")
        } else if self.is_lack_of_right() {
            format!(
                "the user of the database lacks a right ({said}); grant the right, or let the \
                 user own the tables"
            )
        } else {
            format!("the database failed ({said}); nothing was acknowledged, try again")
        })
    }
}

impl From<PostgresError> for StoreFault {
    fn from(error: PostgresError) -> StoreFault {
        error.fault()
    }
}

#[cfg(test)]
mod tests;
