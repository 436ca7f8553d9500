//! SQL as operators write it: lists of texts become single statements, and placeholders become
//! values.
//!
//! The attack this module stops: a user name or password that ends the quotes it was put in and
//! goes on as SQL. Texts are split **before** any value is put in, every value is escaped for the
//! quotes around its placeholder, and the finished statement must lex to the same pieces as the
//! unfinished one.
//!
//! It never knows a connection, and it never repeats a statement or a value in an error.

mod fill;
mod lexer;
mod mysql;
mod split;

use crate::database_plugin::{Refusal, Statement, StoreTime};
use std::fmt;

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

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexFault {
    /// `'` without its end.
    UnclosedString,
    /// `"` without its end.
    UnclosedIdentifier,
    /// `"` of a string without its end.
    UnclosedDoubleQuote,
    /// A back quote without its end.
    UnclosedBackquote,
    /// `$tag$` without its end.
    UnclosedDollarQuote,
    /// `/*` without its end.
    UnclosedComment,
    /// `(` without `)`, or the reverse.
    UnbalancedParenthesis,
    /// `BEGIN` or `CASE` of a routine's body without `END`.
    UnclosedRoutineBody,
    /// A backslash outside quotes: a command of psql, not of the server.
    ClientCommand,
    /// `BEGIN`, `COMMIT` and the like.
    TransactionControl,
    /// A NUL character.
    Nul,
    /// `{{…}}` with a name that no placeholder has; as written.
    UnknownPlaceholder(String),
    /// A known placeholder that has no value in statements of this kind; as written.
    AbsentPlaceholder(&'static str),
    /// The placeholder stands where its value could become SQL; as written.
    UnsafePlaceholder(&'static str),
    /// The expiration is beyond the year 9999.
    ExpirationOutOfRange,
}

impl fmt::Display for LexFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::UnclosedString => "opens a string with ' and never closes it",
            Self::UnclosedIdentifier => "opens an identifier with \" and never closes it",
            Self::UnclosedDoubleQuote => "opens a string with \" and never closes it",
            Self::UnclosedBackquote => "opens an identifier with ` and never closes it",
            Self::UnclosedDollarQuote => "opens a dollar quote and never closes it",
            Self::UnclosedComment => "opens a comment with /* and never closes it",
            Self::UnbalancedParenthesis => "has a parenthesis without its partner",
            Self::UnclosedRoutineBody => "opens a routine's body and never ends it",
            Self::ClientCommand => {
                "has a backslash outside quotes; commands such as \\c belong to psql, so name the \
                 database in connection_url instead"
            }
            Self::TransactionControl => {
                "begins or ends a transaction; leave it out, because the statements already run in \
                 one"
            }
            Self::Nul => "contains a NUL character",
            Self::UnknownPlaceholder(written) => {
                return write!(
                    out,
                    "has the unknown placeholder {written}; there are {{{{name}}}}, \
                     {{{{username}}}}, {{{{password}}}}, {{{{subject}}}} and {{{{expiration}}}}, \
                     without spaces"
                );
            }
            Self::AbsentPlaceholder(written) => {
                return write!(
                    out,
                    "asks for {written}, which has no value in statements of this kind"
                );
            }
            Self::UnsafePlaceholder(written) => {
                return write!(
                    out,
                    "has {written} in a place where this value could change the statement's \
                     meaning; put it directly between quotes"
                );
            }
            Self::ExpirationOutOfRange => "would need an expiration after the year 9999",
        };
        out.write_str(words)
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    /// Position in the given list, from 0.
    pub statement: u32,
    /// Character within that text, from 1.
    pub position: u32,
    /// What is wrong.
    pub fault: LexFault,
}

impl fmt::Display for LexError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "statement {}, character {}: the text {}",
            self.statement, self.position, self.fault
        )
    }
}

/// `invalid-statement`, with `position` and `fault` as pairs for its sentence.
impl From<LexError> for Refusal {
    fn from(error: LexError) -> Self {
        Self {
            code: "invalid-statement".to_owned(),
            statement: Some(error.statement),
            ext: vec![
                ("position".to_owned(), error.position.to_string()),
                ("fault".to_owned(), error.fault.to_string()),
            ],
            ..Self::default()
        }
    }
}

/// A fault at a byte of one text.
#[derive(Debug, PartialEq, Eq)]
struct Located {
    at: usize,
    fault: LexFault,
}

impl Located {
    fn within(self, text: &str, statement: u32) -> LexError {
        let before = text.char_indices().take_while(|(at, _)| *at < self.at).count();
        let position = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
        LexError { statement, position, fault: self.fault }
    }
}

/// Lexes statements when they are written, before any value exists.
///
/// # Errors
/// The first fault. Whether a value fits the place of its placeholder shows only in [`prepare`].
pub fn check(dialect: Dialect, list: &[String]) -> Result<(), LexError> {
    visit(dialect, list, &mut |statement| fill::check(statement))
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
mod tests;
