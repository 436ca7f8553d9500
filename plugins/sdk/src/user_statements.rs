//! Statements about a user: the user's credential as a value of statements, and the execution of
//! filled statements.

use crate::connection::Denial;
use crate::database_plugin::{Credential, DatabaseTarget, Refusal, SqlFailure, SqlHost, Statement};
use crate::statements::{FilledStatement, PlaceholderValues};

/// A user's credential as inserted into statements. No `Debug`, because it may be a password.
pub enum StatementCredential {
    /// The password itself, or the form in which the server stores the password.
    Password(String),
    /// The subject of a client certificate, in the server's form.
    Subject(String),
}

impl StatementCredential {
    /// Returns the text of the credential.
    ///
    /// # Errors
    /// For a public key.
    pub fn of(credential: &Credential) -> Result<Self, Refusal> {
        match credential {
            Credential::Password(password) => Ok(Self::Password(password.clone())),
            Credential::SubjectDn(subject) => Ok(Self::Subject(subject.clone())),
            Credential::PublicKeyPem(_) => Err(Denial::Unsupported.refusal()),
        }
    }

    /// Returns the values for statements that set the credential of `username`.
    #[must_use]
    pub fn values<'a>(&'a self, username: &'a str) -> PlaceholderValues<'a> {
        let (password, subject) = match self {
            Self::Password(password) => (Some(password.as_str()), None),
            Self::Subject(subject) => (None, Some(subject.as_str())),
        };
        PlaceholderValues { username, password, subject, expiration: None }
    }
}

/// A failure with its position among all statements, because an element of the operator's list can
/// contain several statements.
pub struct StatementFailure {
    /// The failure; its index refers to the operator's list.
    pub failure: SqlFailure,
    /// Position of the failed statement, from 0.
    pub place: Option<usize>,
}

/// Runs statements in order, in a single transaction if the server supports that. A failure's index
/// refers to the operator's list.
///
/// # Errors
/// The failure of a statement, or of the connection.
pub fn run(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
    prepared: Vec<FilledStatement>,
) -> Result<(), SqlFailure> {
    run_placed(host, target, prepared).map_err(|failed| failed.failure)
}

/// Runs statements as [`run`] does, and returns the position of a failure.
///
/// # Errors
/// As [`run`].
pub fn run_placed(
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
