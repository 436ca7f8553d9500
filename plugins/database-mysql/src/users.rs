//! Creation and change of users.
//!
//! MySQL commits at each statement about an account. After a failed creation, this file therefore
//! removes the created accounts at once, with the operator's rollback statements and the plugin's
//! own. If the removal is uncertain, the caller's undo remains responsible.
//!
//! This file prevents a user that no revocation finds, and the adoption of a user of somebody else.
//! Unless the statements create the user themselves, so that the server refuses a taken name, this
//! file looks for the user's accounts before and after the statements.

use crate::accounts::{self, ANY_HOST, AccountPlace, NO_ACCOUNT, account};
use crate::codes::Code;
use crate::named::{self, NamedAccounts};
use crate::settings::ParsedConnection;
use crate::sql_failure;
use bulkhead_sdk::connection::{Denial, choose_login, refuse_self_managed};
use bulkhead_sdk::database_plugin::{
    Account, CreatedUser, Credential, NewUser, Refusal, SqlFailure, SqlHost, StoreTime,
};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};
use bulkhead_sdk::user_statements::{StatementCredential, run, run_placed};
use bulkhead_sdk::wire::distinct::first_of_each;

mod undo;

use undo::{UndoneCreation, made_before, undo, undo_places};

/// Error number of an act that the user may not do.
const DENIED: &str = "1227";

/// Statement for users without rights over other users on MariaDB, where such users may not run
/// `ALTER USER` even on themselves.
const SET_OWN_PASSWORD: &str = "SET PASSWORD = PASSWORD('{{password}}')";

/// Returns the accounts that `creation` will make for `username`, as far as the text of the
/// statements shows them.
pub(crate) fn plan_accounts(username: &str, creation: &[String]) -> Vec<Account> {
    let values = PlaceholderValues::sample(username, "password");
    // The creation itself reports statements that cannot be read.
    let prepared = statements::prepare(SqlDialect::Mysql, creation, &values);
    let named = prepared.map(|prepared| named::created(&prepared, username)).unwrap_or_default();
    named.places.iter().map(AccountPlace::account).collect()
}

/// Creates `user`. Returns the accounts that the creation made.
pub(crate) fn create(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &NewUser,
    creation: &[String],
    rollback: &[String],
) -> Result<Vec<Account>, Refusal> {
    let username = &user.username;
    let refused = |failure| sql_failure::refusal(failure, &connection.target);
    let prepared =
        prepare_creation(connection, user, creation).map_err(Refusal::with_nothing_made)?;
    let texts = prepared.clone();
    let named = named::created(&texts, username);
    if !named.is_evident {
        refuse_existing(host, connection, username, &named.places)
            .map_err(Refusal::with_nothing_made)?;
    }
    let before = match named.runs_code {
        true => accounts::derived(host, connection, username)
            .map_err(|failure| refused(failure).with_nothing_made())?,
        false => Vec::new(),
    };
    let Err(failed) = run_placed(host, &connection.target, prepared) else {
        if named.is_evident || is_there(host, connection, username)? {
            let places = made_places(host, connection, username, (&named, &before))?;
            return accounts::recorded(host, connection, &places, &named.with_password)
                .map_err(refused);
        }
        let refusal =
            about_user(Code::UserNotCreated, username).with("placeholder", "'{{name}}'@'%'");
        let failed_creation = UndoneCreation { text: &named, is_evident: false };
        let places = undo_places(host, connection, username, (&failed_creation, &before));
        let undone = undo(host, connection, username, rollback, places).is_ok();
        return Err(if undone { refusal.with_nothing_made() } else { refusal });
    };
    let remains = made_before(&failed, &texts, username);
    let is_taken = remains.places.is_empty()
        && !remains.runs_code
        && failed.failure.has_sqlstate(&[sql_failure::NAME_TAKEN])
        && named.is_evident;
    let failure = failed.failure;
    let undone = || {
        let failed_creation = UndoneCreation { text: &remains, is_evident: named.is_evident };
        let places = undo_places(host, connection, username, (&failed_creation, &before));
        undo(host, connection, username, rollback, places).is_ok()
    };
    let is_sure = failure.is_nothing_begun() || is_taken || failure.is_answer() && undone();
    let refusal = refused(failure);
    Err(if is_sure { refusal.with_nothing_made() } else { refusal })
}

/// Returns the accounts that the statements name and, if they run code, the accounts that exist and
/// did not exist `before`.
fn made_places(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    (named, before): (&NamedAccounts, &[AccountPlace]),
) -> Result<Vec<AccountPlace>, Refusal> {
    let mut places = named.places.clone();
    if !places.iter().any(|place| place.name == username) {
        add_new(&mut places, look(host, connection, username)?.unwrap_or_default(), before);
    }
    if named.runs_code {
        let seen = accounts::derived(host, connection, username)
            .map_err(|failure| sql_failure::refusal(failure, &connection.target))?;
        add_new(&mut places, seen, before);
    }
    Ok(places)
}

/// Adds the accounts that are in neither list.
fn add_new(places: &mut Vec<AccountPlace>, seen: Vec<AccountPlace>, before: &[AccountPlace]) {
    for place in seen {
        if !before.iter().chain(places.iter()).any(|other| other.is(&place)) {
            places.push(place);
        }
    }
}

/// Refuses a user that has an account already, and a connection whose user cannot see that.
fn refuse_existing(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    places: &[AccountPlace],
) -> Result<(), Refusal> {
    let names = places.iter().map(|place| place.name.as_str()).chain([username]);
    for name in first_of_each(names) {
        match look(host, connection, name)? {
            Some(places) if places.is_empty() => {}
            Some(_) => return Err(about_user(Code::UserExists, name)),
            None => {
                let refusal = Code::CreationUnseen.refusal().with("placeholder", "'{{name}}'@'%'");
                return Err(refusal.with("user", &connection.target.username));
            }
        }
    }
    Ok(())
}

/// Tells if the user has an account, or if the connection's user may not read the accounts.
fn is_there(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<bool, Refusal> {
    Ok(look(host, connection, username)?.is_none_or(|places| !places.is_empty()))
}

fn look(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<Option<Vec<AccountPlace>>, Refusal> {
    accounts::places(host, connection, username)
        .map_err(|failure| sql_failure::refusal(failure, &connection.target))
}

fn about_user(code: Code, username: &str) -> Refusal {
    code.refusal().with("username", username)
}

/// Returns the statements that create `user`, without querying the database.
fn prepare_creation(
    connection: &ParsedConnection,
    user: &NewUser,
    creation: &[String],
) -> Result<Vec<FilledStatement>, Refusal> {
    refuse_self_managed(connection.self_managed)?;
    let secret = sent_credential(&user.credential)?;
    let values =
        PlaceholderValues { expiration: Some(user.expires), ..secret.values(&user.username) };
    let prepared = statements::prepare(SqlDialect::Mysql, creation, &values)?;
    if prepared.is_empty() {
        let refusal = Denial::CreationStatementsRequired.refusal();
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
    operator_statements: &[String],
) -> Result<(), Refusal> {
    let secret = sent_credential(credential)?;
    let target = choose_login(&connection.target, connection.self_managed, username, current)?;
    let refused = |failure| sql_failure::refusal(failure, &target);
    if !operator_statements.is_empty() {
        let prepared =
            statements::prepare(SqlDialect::Mysql, operator_statements, &secret.values(username))?;
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
    let how = accounts.iter().map(|account| format!("{account} {}", clause(&secret)));
    let own = format!("ALTER USER {}", how.collect::<Vec<_>>().join(", "));
    let alter = |text: &str| {
        let values = secret.values(username);
        let prepared = statements::prepare(SqlDialect::Mysql, &[text.to_owned()], &values)?;
        Ok::<_, Refusal>(run(host, &target, prepared))
    };
    let mut altered = alter(&own)?;
    let is_denied = altered.as_ref().is_err_and(|failure| failure.has_sqlstate(&[DENIED]));
    if is_denied && of_itself && matches!(secret, StatementCredential::Password(_)) {
        altered = alter(SET_OWN_PASSWORD)?;
    }
    altered.map_err(|failure| {
        if failure.has_sqlstate(&NO_ACCOUNT) {
            return absent;
        }
        sql_failure::refusal(SqlFailure { statement: None, ..failure }, &target)
    })
}

/// Runs the operator's statements. MySQL itself has no expiry of accounts to change.
pub(crate) fn set_expiration(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &CreatedUser,
    expires: StoreTime,
    operator_statements: &[String],
) -> Result<(), Refusal> {
    if operator_statements.is_empty() {
        return Ok(());
    }
    let refused = |failure| sql_failure::refusal(failure, &connection.target);
    let located = accounts::locate(host, connection, &user.accounts).map_err(refused)?;
    let username = located.present_name(&user.username);
    let values =
        PlaceholderValues { expiration: Some(expires), ..PlaceholderValues::named(username) };
    let prepared = statements::prepare(SqlDialect::Mysql, operator_statements, &values)?;
    run(host, &connection.target, prepared).map_err(refused)
}

/// Returns a credential with the subject in the server's form: `/CN=app/O=harbour`.
fn sent_credential(credential: &Credential) -> Result<StatementCredential, Refusal> {
    Ok(match StatementCredential::of(credential)? {
        StatementCredential::Password(password) => StatementCredential::Password(password),
        StatementCredential::Subject(subject) => StatementCredential::Subject(slashed(&subject)),
    })
}

/// Returns the clause of `ALTER USER` that sets the credential.
fn clause(credential: &StatementCredential) -> &'static str {
    match credential {
        StatementCredential::Password(_) => "IDENTIFIED BY '{{password}}'",
        StatementCredential::Subject(_) => "REQUIRE SUBJECT '{{subject}}'",
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
