//! The undo of a failed creation, which MySQL has committed in part.
//!
//! This file prevents two faults: an account of the creation that stays without a lease, and the
//! removal of an account of somebody else with the same name.

use super::{add_new, look, made_places};
use crate::accounts::AccountPlace;
use crate::named::{self, NamedAccounts};
use crate::settings::ParsedConnection;
use crate::{account_list, remove, sql_failure};
use bulkhead_sdk::database_plugin::{Refusal, SqlHost};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};
use bulkhead_sdk::user_statements::{StatementFailure, run};

/// A creation that has to be undone.
pub(super) struct UndoneCreation<'a> {
    /// The accounts of the statements that ran.
    pub(super) text: &'a NamedAccounts,
    /// The text shows all accounts of the user.
    pub(super) is_evident: bool,
}

/// Returns the accounts that an undo has to drop, and true if there may be others that neither the
/// text nor the server shows.
pub(super) fn undo_places(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    (creation, before): (&UndoneCreation<'_>, &[AccountPlace]),
) -> (Vec<AccountPlace>, bool) {
    let text = creation.text;
    if creation.is_evident && !text.runs_code {
        return (text.places.clone(), false);
    }
    let own = look(host, connection, username).unwrap_or_default();
    let is_unseen = own.is_none();
    let mut places = made_places(host, connection, username, (text, before))
        .unwrap_or_else(|_| text.places.clone());
    add_new(&mut places, own.unwrap_or_default(), before);
    (places, is_unseen)
}

/// Returns the accounts that the statements up to the failed one may have made. A refused statement
/// that creates one account made nothing, and the account may be somebody else's; MariaDB makes the
/// other accounts of a statement with several, which are looked for before the creation.
pub(super) fn made_before(
    failed: &StatementFailure,
    texts: &[FilledStatement],
    username: &str,
) -> NamedAccounts {
    let end = failed.place.unwrap_or(texts.len());
    let before = named::created(texts.get(..end).unwrap_or(texts), username);
    let through = named::created(texts.get(..=end).unwrap_or(texts), username);
    let creates = texts
        .get(end)
        .is_some_and(|failed| account_list::begins(&failed.statement.text, "create user"));
    let is_one = creates && through.places.len() <= before.places.len() + 1;
    if is_one && failed.failure.is_answer() { before } else { through }
}

/// Removes the results of a failed creation. The operator's statements remove other objects that
/// the creation made; `accounts` are removed in any case, and the account at `%` if there
/// may be others. The user has no sessions, because no caller has its password yet.
pub(super) fn undo(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    rollback: &[String],
    (accounts, may_be_more): (Vec<AccountPlace>, bool),
) -> Result<(), Refusal> {
    if !rollback.is_empty() {
        let values = PlaceholderValues::named(username);
        let prepared = statements::prepare(SqlDialect::Mysql, rollback, &values)?;
        run(host, &connection.target, prepared)
            .map_err(|failure| sql_failure::refusal(failure, &connection.target))?;
    }
    let dropped = remove::drop_everywhere(host, connection, username, Some(accounts));
    if may_be_more {
        remove::drop_everywhere(host, connection, username, None)?;
    }
    dropped
}
