//! SQL statements as operators write them: texts are split into single statements, and placeholders
//! are replaced by values.
//!
//! This file prevents SQL injection by a user name or password that closes its quotes. Texts are
//! split **before** any value is inserted, every value is escaped for the quotes around its
//! placeholder, and the finished statement must lex to the same pieces as the unfinished one.
//!
//! This module has no access to a connection, and never repeats a statement or a value in an error.

mod fault;
mod fill;
mod lexer;
mod mysql;
mod placeholder;
mod split;

pub(crate) use fault::INVALID_STATEMENT;
pub use fault::{LexError, LexFault};

use crate::database_plugin::{Statement, StatementPurpose, StoreTime};
use fault::LocatedFault;
use placeholder::AvailableKinds;

/// SQL dialect, with its quoting rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlDialect {
    /// PostgreSQL, and databases that speak its protocol.
    Postgres,
    /// MySQL and MariaDB, with the SQL modes that the host sets for a session.
    Mysql,
}

/// Values of the placeholders. No `Debug`: contains the password.
#[derive(Clone, Copy)]
pub struct PlaceholderValues<'a> {
    /// Value of `{{name}}` and `{{username}}`.
    pub username: &'a str,
    /// Value of `{{password}}`; `None` if statements of this kind have none.
    pub password: Option<&'a str>,
    /// Value of `{{subject}}`, of a client certificate; `None` if statements of this kind have
    /// none.
    pub subject: Option<&'a str>,
    /// Value of `{{expiration}}`, written `YYYY-MM-DD HH:MM:SS+0000` in UTC.
    pub expiration: Option<StoreTime>,
}

impl<'a> PlaceholderValues<'a> {
    /// Returns the user name as the only value.
    #[must_use]
    pub const fn named(username: &'a str) -> Self {
        Self { username, password: None, subject: None, expiration: None }
    }

    /// Returns a value for every placeholder, for a check of statements before the values exist.
    #[must_use]
    pub const fn sample(username: &'a str, password: &'a str) -> Self {
        Self {
            username,
            password: Some(password),
            subject: Some("CN=subject"),
            expiration: Some(0),
        }
    }
}

/// A statement that is ready to send.
#[derive(Clone, PartialEq, Eq)]
pub struct FilledStatement {
    /// The statement, marked secret if it contains the password.
    pub statement: Statement,
    /// Position of the statement's text in the given list, from 0.
    pub index: u32,
}

/// Checks statements when they are written for `purpose`, before any value exists.
///
/// # Errors
/// The first fault, including a placeholder without a value in statements for this purpose. Only
/// [`first_fitting`] and [`prepare`] check that a value fits into its place.
pub fn check(
    dialect: SqlDialect,
    list: &[String],
    purpose: &StatementPurpose,
) -> Result<(), LexError> {
    let available = AvailableKinds::of_purpose(purpose);
    visit(dialect, list, &mut |statement| fill::check(statement, available))
}

/// Returns the position of the first of the purpose's passwords that can be inserted into all
/// statements of `list`. `as_sent` converts a password to the text that is sent, if there is one.
pub fn first_fitting(
    dialect: SqlDialect,
    list: &[String],
    purpose: &StatementPurpose,
    as_sent: impl Fn(&str) -> Option<String>,
) -> Option<u32> {
    let fits = |password: &String| {
        let Some(sent) = as_sent(password) else { return false };
        prepare(dialect, list, &PlaceholderValues::sample("v", &sent)).is_ok()
    };
    purpose.passwords.iter().position(fits).and_then(|place| u32::try_from(place).ok())
}

/// Splits each text of `list` into single statements and inserts `values`. Drops empty statements,
/// and comments between tokens. A text may also be a JSON array of statements, optionally in
/// base64.
///
/// # Errors
/// The first fault; the caller then runs none of the statements.
pub fn prepare(
    dialect: SqlDialect,
    list: &[String],
    values: &PlaceholderValues<'_>,
) -> Result<Vec<FilledStatement>, LexError> {
    let mut prepared = Vec::new();
    visit(dialect, list, &mut |statement| {
        let index = statement.index;
        let statement = fill::fill(dialect, statement, values)?;
        prepared.push(FilledStatement { statement, index });
        Ok(())
    })?;
    Ok(prepared)
}

fn visit(
    dialect: SqlDialect,
    list: &[String],
    each: &mut dyn FnMut(&split::LexedStatement) -> Result<(), LocatedFault>,
) -> Result<(), LexError> {
    for (index, element) in list.iter().enumerate() {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        for text in split::texts(element) {
            let located = |fault: LocatedFault| fault.within(&text, index);
            for statement in split::statements(dialect, &text, index).map_err(located)? {
                each(&statement).map_err(located)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod mysql_tests;
#[cfg(test)]
mod purpose_tests;
#[cfg(test)]
mod tests;
