//! SQL as operators write it: lists of texts become single statements, and placeholders become
//! values.
//!
//! The attack this module stops: a user name or password that ends the quotes it was put in and
//! goes on as SQL. Texts are split **before** any value is put in, every value is escaped for the
//! quotes around its placeholder, and the finished statement must lex to the same pieces as the
//! unfinished one.
//!
//! It never knows a connection, and it never repeats a statement or a value in an error.

mod fault;
mod fill;
mod lexer;
mod mysql;
mod placeholder;
mod split;

pub use fault::{LexError, LexFault};

use crate::database_plugin::{Purpose, Statement, StoreTime};
use fault::Located;
use placeholder::Available;

/// Whose quoting rules a text follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL and the databases that speak its protocol.
    Postgres,
    /// MySQL and MariaDB, with the modes that the host gives a session.
    Mysql,
}

/// What placeholders stand for. No `Debug`: it carries the password.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    /// `{{name}}` and `{{username}}`.
    pub username: &'a str,
    /// `{{password}}`; `None` where statements of this kind have none.
    pub password: Option<&'a str>,
    /// `{{subject}}`, of a client certificate; `None` where statements of this kind have none.
    pub subject: Option<&'a str>,
    /// `{{expiration}}`, written `YYYY-MM-DD HH:MM:SS+0000` in UTC.
    pub expiration: Option<StoreTime>,
}

/// One statement, ready to send.
#[derive(Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Its text, marked secret when the password is in it.
    pub statement: Statement,
    /// Position in the given list of the text that it comes from, from 0.
    pub index: u32,
}

/// Lexes statements when they are written for `purpose`, before any value exists.
///
/// # Errors
/// The first fault, among them a placeholder that has no value in statements for this purpose.
/// Whether a value fits the place of its placeholder shows only in [`first_fitting`] and
/// [`prepare`].
pub fn check(dialect: Dialect, list: &[String], purpose: &Purpose) -> Result<(), LexError> {
    let available = Available::of_purpose(purpose);
    visit(dialect, list, &mut |statement| fill::check(statement, available))
}

/// The place of the first of the purpose's passwords that can be put into all statements of
/// `list`. `as_sent` makes of a password the text that stands for it, where it has one.
pub fn first_fitting(
    dialect: Dialect,
    list: &[String],
    purpose: &Purpose,
    as_sent: impl Fn(&str) -> Option<String>,
) -> Option<u32> {
    let fits = |password: &String| {
        let Some(sent) = as_sent(password) else { return false };
        let values = Values {
            username: "v",
            password: Some(&sent),
            subject: Some("CN=v"),
            expiration: Some(0),
        };
        prepare(dialect, list, &values).is_ok()
    };
    purpose.passwords.iter().position(fits).and_then(|place| u32::try_from(place).ok())
}

/// Splits each text of `list` into single statements and puts `values` in. Empty statements and
/// comments between tokens are dropped. A text may also be a JSON array of statements, in base64 or
/// not.
///
/// # Errors
/// The first fault; nothing of the list should run then.
pub fn prepare(
    dialect: Dialect,
    list: &[String],
    values: &Values<'_>,
) -> Result<Vec<Prepared>, LexError> {
    let mut prepared = Vec::new();
    visit(dialect, list, &mut |statement| {
        let index = statement.index;
        let statement = fill::fill(dialect, statement, values)?;
        prepared.push(Prepared { statement, index });
        Ok(())
    })?;
    Ok(prepared)
}

fn visit(
    dialect: Dialect,
    list: &[String],
    each: &mut dyn FnMut(&split::Lexed) -> Result<(), Located>,
) -> Result<(), LexError> {
    for (index, element) in list.iter().enumerate() {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        for text in split::texts(element) {
            let located = |fault: Located| fault.within(&text, index);
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
