//! Users come to be, change and are tried. All of an operator's statements for one of these run in
//! one transaction, so that a failure leaves nothing behind.

use crate::codes::Code;
use crate::settings::{Authentication, Connection};
use crate::{scram, sql_failure};
use bulkhead_sdk::database_plugin::{
    Credential, NewUser, Pool, Refusal, SqlFailure, SqlHost, Statement, StoreTime, Target,
};
use bulkhead_sdk::statements::{self, Dialect, Prepared, Values};

const CHANGE_PASSWORD: &str = "ALTER ROLE \"{{username}}\" WITH PASSWORD '{{password}}';";

const SET_EXPIRATION: &str = "ALTER ROLE \"{{name}}\" VALID UNTIL '{{expiration}}';";

/// SQLSTATE of a role that does not exist.
pub(crate) const UNDEFINED_OBJECT: &str = "42704";

/// SQLSTATE of a user that may not log in, or not from here.
const INVALID_AUTHORIZATION: &str = "28000";

/// SQLSTATE of a user that may not use the database.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// Milliseconds for which a session that tried a credential may be kept.
const TRIAL_LIFETIME: u64 = 1000;

/// Creates `user`.
pub(crate) fn create(
    host: &dyn SqlHost,
    connection: &Connection,
    user: &NewUser,
    creation: &[String],
) -> Result<(), Refusal> {
    let prepared =
        prepare_creation(host, connection, user, creation).map_err(Refusal::with_nothing_made)?;
    run(host, connection, prepared).map_err(|failure| {
        let is_sure = sql_failure::is_nothing_kept(&failure);
        let refusal = sql_failure::refusal(failure, &connection.target);
        if is_sure { refusal.with_nothing_made() } else { refusal }
    })
}

/// The statements that create `user`; nothing is asked of the database.
fn prepare_creation(
    host: &dyn SqlHost,
    connection: &Connection,
    user: &NewUser,
    creation: &[String],
) -> Result<Vec<Prepared>, Refusal> {
    let password = sent_password(host, connection, &user.credential)?;
    let values = Values {
        username: &user.username,
        password: Some(&password),
        subject: None,
        expiration: Some(user.expires),
    };
    let prepared = statements::prepare(Dialect::Postgres, creation, &values)?;
    if prepared.is_empty() {
        return Err(Code::CreationStatementsRequired.refusal().with("placeholder", "{{name}}"));
    }
    Ok(prepared)
}

/// Gives `username` a new password.
pub(crate) fn change_credential(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
    credential: &Credential,
    given: &[String],
) -> Result<(), Refusal> {
    let password = sent_password(host, connection, credential)?;
    let values = Values { username, password: Some(&password), subject: None, expiration: None };
    given_or_own(host, connection, given, CHANGE_PASSWORD, &values)
}

/// Moves the date after which `username` can no longer log in by password.
pub(crate) fn set_expiration(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
    expires: StoreTime,
    given: &[String],
) -> Result<(), Refusal> {
    let values = Values { username, password: None, subject: None, expiration: Some(expires) };
    given_or_own(host, connection, given, SET_EXPIRATION, &values)
}

/// Whether the database lets `username` in with `credential`.
pub(crate) fn check_credential(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
    credential: &Credential,
) -> Result<Option<bool>, Refusal> {
    let target = Target {
        username: username.to_owned(),
        password: password(credential)?.to_owned(),
        pool: Pool {
            max_connections: 1,
            max_lifetime: TRIAL_LIFETIME,
            ..connection.target.pool.clone()
        },
        ..connection.target.clone()
    };
    let Err(failure) = host.ping(&target) else { return Ok(Some(true)) };
    match (failure.code.as_str(), failure.sqlstate.as_deref()) {
        // Asked for behind the password: the user is who it says, and may not use this database.
        (_, Some(INSUFFICIENT_PRIVILEGE)) => Ok(Some(true)),
        // The user may not log in at all, or not from here, with whichever password.
        ("refused", Some(INVALID_AUTHORIZATION)) => Ok(None),
        ("refused", _) => Ok(Some(false)),
        _ => Err(sql_failure::refusal(failure, &target)),
    }
}

/// Runs statements in one transaction. A failure counts them as the operator's list does.
pub(crate) fn run(
    host: &dyn SqlHost,
    connection: &Connection,
    prepared: Vec<Prepared>,
) -> Result<(), SqlFailure> {
    if prepared.is_empty() {
        return Ok(());
    }
    let (statements, places): (Vec<Statement>, Vec<u32>) =
        prepared.into_iter().map(|prepared| (prepared.statement, prepared.index)).unzip();
    host.transact(&connection.target, &statements).map_err(|failure| {
        let place = failure.statement.and_then(|at| places.get(usize::try_from(at).ok()?)).copied();
        SqlFailure { statement: place, ..failure }
    })
}

/// The operator's statements, or the plugin's own where the operator gave none.
fn given_or_own(
    host: &dyn SqlHost,
    connection: &Connection,
    given: &[String],
    own: &str,
    values: &Values<'_>,
) -> Result<(), Refusal> {
    if !given.is_empty() {
        let prepared = statements::prepare(Dialect::Postgres, given, values)?;
        return run(host, connection, prepared)
            .map_err(|failure| sql_failure::refusal(failure, &connection.target));
    }
    let prepared = statements::prepare(Dialect::Postgres, &[own.to_owned()], values)?;
    run(host, connection, prepared).map_err(|failure| match failure.sqlstate.as_deref() {
        Some(UNDEFINED_OBJECT) => Code::UserNotFound.refusal(),
        _ => sql_failure::refusal(SqlFailure { statement: None, ..failure }, &connection.target),
    })
}

fn password(credential: &Credential) -> Result<&str, Refusal> {
    match credential {
        Credential::Password(password) => Ok(password),
        Credential::PublicKeyPem(_) | Credential::SubjectDn(_) => Err(Code::Unsupported.refusal()),
    }
}

/// What stands for the password in a statement: itself or its verifier. Either is a secret.
fn sent_password(
    host: &dyn SqlHost,
    connection: &Connection,
    credential: &Credential,
) -> Result<String, Refusal> {
    let password = password(credential)?;
    match connection.authentication {
        Authentication::Password => Ok(password.to_owned()),
        Authentication::Scram => {
            let salt = host.random(scram::SALT);
            scram::verifier(host, password, &salt)
                .ok_or_else(|| Code::PasswordNotAscii.about("password_policy"))
        }
    }
}

#[cfg(test)]
mod tests;
