//! Creation and change of users. All statements of an operation run in a single transaction, so
//! that a failure leaves nothing behind.

use crate::codes::Code;
use crate::settings::{ParsedConnection, PasswordForm};
use crate::{scram, sql_failure};
use bulkhead_sdk::connection::{Denial, choose_login, refuse_self_managed};
use bulkhead_sdk::database_plugin::{
    Credential, DatabaseTarget, NewUser, Refusal, SqlFailure, SqlHost, Statement, StoreTime,
};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};

const CHANGE_PASSWORD: &str = "ALTER ROLE \"{{username}}\" WITH PASSWORD '{{password}}';";

const SET_EXPIRATION: &str = "ALTER ROLE \"{{name}}\" VALID UNTIL '{{expiration}}';";

/// SQLSTATE of a role that does not exist.
pub(crate) const UNDEFINED_OBJECT: &str = "42704";

/// Creates `user`.
pub(crate) fn create(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &NewUser,
    creation: &[String],
) -> Result<(), Refusal> {
    let prepared =
        prepare_creation(host, connection, user, creation).map_err(Refusal::with_nothing_made)?;
    run(host, &connection.target, prepared).map_err(|failure| {
        let is_sure = sql_failure::is_nothing_kept(&failure);
        let refusal = sql_failure::refusal(failure, &connection.target);
        if is_sure { refusal.with_nothing_made() } else { refusal }
    })
}

/// Returns the statements that create `user`, without querying the database.
fn prepare_creation(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &NewUser,
    creation: &[String],
) -> Result<Vec<FilledStatement>, Refusal> {
    refuse_self_managed(connection.self_managed)?;
    let secret = StatementCredential::of(host, connection, &user.credential)?;
    let values =
        PlaceholderValues { expiration: Some(user.expires), ..secret.values(&user.username) };
    let prepared = statements::prepare(SqlDialect::Postgres, creation, &values)?;
    if prepared.is_empty() {
        return Err(Code::CreationStatementsRequired.refusal().with("placeholder", "{{name}}"));
    }
    Ok(prepared)
}

/// Sets a new credential of `username`, as the user itself if `current` is given.
pub(crate) fn change_credential(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    credential: &Credential,
    current: Option<&Credential>,
    given: &[String],
) -> Result<(), Refusal> {
    let secret = StatementCredential::of(host, connection, credential)?;
    let target = choose_login(&connection.target, connection.self_managed, username, current)?;
    if given.is_empty() && matches!(secret, StatementCredential::Subject(_)) {
        return Err(Denial::Unsupported.refusal());
    }
    given_or_own(host, &target, given, CHANGE_PASSWORD, &secret.values(username))
}

/// Changes the time after which `username` can no longer log in with a password.
pub(crate) fn set_expiration(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    expires: StoreTime,
    given: &[String],
) -> Result<(), Refusal> {
    let values =
        PlaceholderValues { username, password: None, subject: None, expiration: Some(expires) };
    given_or_own(host, &connection.target, given, SET_EXPIRATION, &values)
}

/// Runs statements in a single transaction. A failure's index refers to the operator's list.
pub(crate) fn run(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
    prepared: Vec<FilledStatement>,
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

/// Runs the operator's statements, or the plugin's own statement if there are none.
fn given_or_own(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
    given: &[String],
    own: &str,
    values: &PlaceholderValues<'_>,
) -> Result<(), Refusal> {
    if !given.is_empty() {
        let prepared = statements::prepare(SqlDialect::Postgres, given, values)?;
        return run(host, target, prepared)
            .map_err(|failure| sql_failure::refusal(failure, target));
    }
    let prepared = statements::prepare(SqlDialect::Postgres, &[own.to_owned()], values)?;
    run(host, target, prepared).map_err(|failure| match failure.sqlstate.as_deref() {
        Some(UNDEFINED_OBJECT) => Denial::UserNotFound.refusal(),
        _ => sql_failure::refusal(SqlFailure { statement: None, ..failure }, target),
    })
}

/// Returns a text with the same character set as the value that replaces `password` in statements.
/// `None` if this connection cannot set the password.
pub(crate) fn shape_of(connection: &ParsedConnection, password: &str) -> Option<String> {
    match connection.authentication {
        PasswordForm::Password => Some(password.to_owned()),
        PasswordForm::Scram => scram::has_verifier(password).then(|| scram::SHAPE.to_owned()),
    }
}

/// A user's credential as inserted into statements. No `Debug`, because it may be a password.
enum StatementCredential {
    /// The password itself, or its verifier.
    Password(String),
    /// The role's subject, such as `CN=app`. The server checks certificates by its own rules, which
    /// expect the user name as the common name: `common_name_template` is then `{{.Username}}`.
    Subject(String),
}

impl StatementCredential {
    fn of(
        host: &dyn SqlHost,
        connection: &ParsedConnection,
        credential: &Credential,
    ) -> Result<Self, Refusal> {
        let password = match credential {
            Credential::Password(password) => password,
            Credential::SubjectDn(subject) => return Ok(Self::Subject(subject.clone())),
            Credential::PublicKeyPem(_) => return Err(Denial::Unsupported.refusal()),
        };
        match connection.authentication {
            PasswordForm::Password => Ok(Self::Password(password.clone())),
            PasswordForm::Scram => {
                let salt = host.random(scram::SALT);
                let verifier = scram::verifier(host, password, &salt);
                verifier
                    .map(Self::Password)
                    .ok_or_else(|| Code::PasswordNotAscii.about("password_policy"))
            }
        }
    }

    fn values<'a>(&'a self, username: &'a str) -> PlaceholderValues<'a> {
        let (password, subject) = match self {
            Self::Password(password) => (Some(password.as_str()), None),
            Self::Subject(subject) => (None, Some(subject.as_str())),
        };
        PlaceholderValues { username, password, subject, expiration: None }
    }
}

#[cfg(test)]
mod tests;
