//! Creation and change of users.
//!
//! MySQL commits at each statement about an account. After a failed creation, this file therefore
//! removes the created accounts at once, with the operator's rollback statements and the plugin's
//! own. If the removal is uncertain, the caller's undo remains responsible.
//!
//! Prevents a user that no revocation finds, and the adoption of a user of somebody else. Unless
//! the statements create the user themselves, so that the server refuses a taken name, this file
//! looks for the user's accounts before and after the statements.

use crate::accounts::{self, ANY_HOST, NO_ACCOUNT, account};
use crate::codes::Code;
use crate::run::{StatementFailure, run, run_placed};
use crate::settings::ParsedConnection;
use crate::{named, remove, sql_failure};
use bulkhead_sdk::connection::{Denial, choose_login, refuse_self_managed};
use bulkhead_sdk::database_plugin::{Credential, NewUser, Refusal, SqlFailure, SqlHost, StoreTime};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};

/// Error number of an act that the user may not do.
const DENIED: &str = "1227";

/// Statement for users without rights over other users on MariaDB, where such users may not run
/// `ALTER USER` even on themselves.
const SET_OWN_PASSWORD: &str = "SET PASSWORD = PASSWORD('{{password}}')";

/// Creates `user`.
pub(crate) fn create(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &NewUser,
    creation: &[String],
    rollback: &[String],
) -> Result<(), Refusal> {
    let prepared =
        prepare_creation(connection, user, creation).map_err(Refusal::with_nothing_made)?;
    let named = named::created(&prepared, &user.username);
    let makes_users: Vec<bool> = prepared.iter().map(makes_user).collect();
    let is_evident = named::creates(&prepared, &user.username);
    if !is_evident {
        refuse_existing(host, connection, &user.username).map_err(Refusal::with_nothing_made)?;
    }
    let Err(failed) = run_placed(host, &connection.target, prepared) else {
        if is_evident || is_there(host, connection, &user.username)? {
            return Ok(());
        }
        let refusal =
            about_user(Code::UserNotCreated, &user.username).with("placeholder", "'{{name}}'@'%'");
        let undone = undo(host, connection, &user.username, rollback, named).is_ok();
        return Err(if undone { refusal.with_nothing_made() } else { refusal });
    };
    let is_taken = is_name_taken(&failed, &makes_users);
    let failure = failed.failure;
    let undone = || undo(host, connection, &user.username, rollback, named).is_ok();
    let is_sure =
        sql_failure::is_nothing_begun(&failure) || is_taken || is_answer(&failure) && undone();
    let refusal = sql_failure::refusal(failure, &connection.target);
    Err(if is_sure { refusal.with_nothing_made() } else { refusal })
}

/// Refuses a user that has an account already. Passes if the connection's user may not read the
/// accounts.
fn refuse_existing(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<(), Refusal> {
    match look(host, connection, username)? {
        Some(hosts) if !hosts.is_empty() => Err(about_user(Code::UserExists, username)),
        _ => Ok(()),
    }
}

/// Tells if the user has an account, or if the connection's user may not read the accounts.
fn is_there(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<bool, Refusal> {
    Ok(look(host, connection, username)?.is_none_or(|hosts| !hosts.is_empty()))
}

fn look(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<Option<Vec<String>>, Refusal> {
    accounts::hosts(host, connection, username)
        .map_err(|failure| sql_failure::refusal(failure, &connection.target))
}

fn about_user(code: Code, username: &str) -> Refusal {
    code.refusal().with("username", username)
}

/// Tells if the server itself refused, so that no statement is still running.
fn is_answer(failure: &SqlFailure) -> bool {
    matches!(failure.code.as_str(), "statement-failed" | "conflict") && failure.sqlstate.is_some()
}

/// Tells if the name belonged to another user before: the server reports a taken name, and no
/// earlier statement created a user. An undo would remove the other user.
fn is_name_taken(failed: &StatementFailure, makes_users: &[bool]) -> bool {
    let Some(place) = failed.place else { return false };
    let made = makes_users.iter().take(place).any(|makes_user| *makes_user);
    !made && sql_failure::has_number(&failed.failure, &[sql_failure::NAME_TAKEN])
}

/// Tells if a statement may create a user.
fn makes_user(prepared: &FilledStatement) -> bool {
    prepared.statement.text.to_ascii_uppercase().contains("CREATE USER")
}

/// Removes the results of a failed creation. The operator's statements remove other objects that
/// the creation made; the user is removed in any case, from the hosts `named` by the creation if
/// the accounts cannot be read. The user has no sessions, because no caller has its password yet.
fn undo(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    rollback: &[String],
    named: Option<Vec<String>>,
) -> Result<(), Refusal> {
    if !rollback.is_empty() {
        let values =
            PlaceholderValues { username, password: None, subject: None, expiration: None };
        let prepared = statements::prepare(SqlDialect::Mysql, rollback, &values)?;
        run(host, &connection.target, prepared)
            .map_err(|failure| sql_failure::refusal(failure, &connection.target))?;
    }
    remove::drop_everywhere(host, connection, username, named)
}

/// Returns the statements that create `user`, without querying the database.
fn prepare_creation(
    connection: &ParsedConnection,
    user: &NewUser,
    creation: &[String],
) -> Result<Vec<FilledStatement>, Refusal> {
    refuse_self_managed(connection.self_managed)?;
    let secret = StatementCredential::of(&user.credential)?;
    let values =
        PlaceholderValues { expiration: Some(user.expires), ..secret.values(&user.username) };
    let prepared = statements::prepare(SqlDialect::Mysql, creation, &values)?;
    if prepared.is_empty() {
        let refusal = Code::CreationStatementsRequired.refusal();
        return Err(refusal.with("placeholder", "'{{name}}'@'%'"));
    }
    Ok(prepared)
}

/// Sets a new credential of `username` for every host, as the user itself if `current` is given.
pub(crate) fn change_credential(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    credential: &Credential,
    current: Option<&Credential>,
    given: &[String],
) -> Result<(), Refusal> {
    let secret = StatementCredential::of(credential)?;
    let target = choose_login(&connection.target, connection.self_managed, username, current)?;
    let refused = |failure| sql_failure::refusal(failure, &target);
    if !given.is_empty() {
        let prepared = statements::prepare(SqlDialect::Mysql, given, &secret.values(username))?;
        return run(host, &target, prepared).map_err(refused);
    }
    let of_itself = target.username == username;
    let mut absent = Denial::UserNotFound.refusal();
    let accounts: Vec<String> = if of_itself {
        accounts::own(host, &target).map_err(refused)?.into_iter().collect()
    } else {
        let seen = accounts::hosts(host, connection, username).map_err(refused)?;
        if seen.is_none() {
            absent = Code::AccountsUnseen.refusal().with("user", &target.username);
        }
        let hosts = seen.unwrap_or_else(|| vec![ANY_HOST.to_owned()]);
        hosts.iter().map(|host| account(username, host)).collect()
    };
    if accounts.is_empty() {
        return Err(absent);
    }
    let how = accounts.iter().map(|account| format!("{account} {}", secret.clause()));
    let own = format!("ALTER USER {}", how.collect::<Vec<_>>().join(", "));
    let alter = |text: &str| {
        let values = secret.values(username);
        let prepared = statements::prepare(SqlDialect::Mysql, &[text.to_owned()], &values)?;
        Ok::<_, Refusal>(run(host, &target, prepared))
    };
    let mut altered = alter(&own)?;
    let is_denied =
        altered.as_ref().is_err_and(|failure| sql_failure::has_number(failure, &[DENIED]));
    if is_denied && of_itself && matches!(secret, StatementCredential::Password(_)) {
        altered = alter(SET_OWN_PASSWORD)?;
    }
    altered.map_err(|failure| {
        if sql_failure::has_number(&failure, &NO_ACCOUNT) {
            return absent;
        }
        sql_failure::refusal(SqlFailure { statement: None, ..failure }, &target)
    })
}

/// Runs the operator's statements. MySQL itself has no expiry of accounts to change.
pub(crate) fn set_expiration(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    expires: StoreTime,
    given: &[String],
) -> Result<(), Refusal> {
    let values =
        PlaceholderValues { username, password: None, subject: None, expiration: Some(expires) };
    let prepared = statements::prepare(SqlDialect::Mysql, given, &values)?;
    run(host, &connection.target, prepared)
        .map_err(|failure| sql_failure::refusal(failure, &connection.target))
}

/// A user's credential as inserted into statements. No `Debug`, because it may be a password.
enum StatementCredential {
    Password(String),
    /// The subject in the server's form: `/CN=app/O=harbour`.
    Subject(String),
}

impl StatementCredential {
    fn of(credential: &Credential) -> Result<Self, Refusal> {
        match credential {
            Credential::Password(password) => Ok(Self::Password(password.clone())),
            Credential::SubjectDn(subject) => Ok(Self::Subject(slashed(subject))),
            Credential::PublicKeyPem(_) => Err(Denial::Unsupported.refusal()),
        }
    }

    fn values<'a>(&'a self, username: &'a str) -> PlaceholderValues<'a> {
        let (password, subject) = match self {
            Self::Password(password) => (Some(password.as_str()), None),
            Self::Subject(subject) => (None, Some(subject.as_str())),
        };
        PlaceholderValues { username, password, subject, expiration: None }
    }

    fn clause(&self) -> &'static str {
        match self {
            Self::Password(_) => "IDENTIFIED BY '{{password}}'",
            Self::Subject(_) => "REQUIRE SUBJECT '{{subject}}'",
        }
    }
}

/// Converts `CN=app,O=harbour` to the form of `REQUIRE SUBJECT`; a `\` keeps the following comma in
/// its value.
fn slashed(subject: &str) -> String {
    let mut slashed = String::from("/");
    let mut characters = subject.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => slashed.extend(characters.next()),
            ',' | '+' => slashed.push('/'),
            other => slashed.push(other),
        }
    }
    slashed
}

#[cfg(test)]
mod tests;
