//! Faults in the text of statements, and their positions. Nothing of a statement or a value is
//! repeated, except a placeholder's name.

use crate::database_plugin::Refusal;
use std::fmt;

/// Word and sentence of the refusal of a text.
pub(crate) const INVALID_STATEMENT: (&str, &str) =
    ("invalid-statement", "statement {statement}, character {position}: the text {fault}");

/// Fault in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexFault {
    /// `'` is never closed.
    UnclosedString,
    /// `"` is never closed.
    UnclosedIdentifier,
    /// `"` of a string is never closed.
    UnclosedDoubleQuote,
    /// A back quote is never closed.
    UnclosedBackquote,
    /// `$tag$` is never closed.
    UnclosedDollarQuote,
    /// `/*` is never closed.
    UnclosedComment,
    /// `(` without `)`, or the reverse.
    UnbalancedParenthesis,
    /// `BEGIN` or `CASE` of a routine's body has no `END`.
    UnclosedRoutineBody,
    /// A backslash outside quotes: a command of psql, not of the server.
    ClientCommand,
    /// A statement such as `BEGIN` or `COMMIT`.
    TransactionControl,
    /// A NUL character.
    Nul,
    /// `{{…}}` with the name of no placeholder.
    UnknownPlaceholder {
        /// The placeholder as written.
        written: String,
        /// Placeholders that have a value in statements of this kind.
        available: String,
    },
    /// A known placeholder that has no value in statements of this kind.
    AbsentPlaceholder {
        /// The placeholder as written.
        written: &'static str,
        /// Placeholders that have a value in statements of this kind.
        available: String,
    },
    /// A value could become SQL at the place of the placeholder; the placeholder as written.
    UnsafePlaceholder(&'static str),
    /// The expiration is after the year 9999.
    ExpirationOutOfRange,
}

impl fmt::Display for LexFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::UnclosedString => "opens a string with ' without closing",
            Self::UnclosedIdentifier => "opens an identifier with \" without closing",
            Self::UnclosedDoubleQuote => "opens a string with \" without closing",
            Self::UnclosedBackquote => "opens an identifier with ` without closing",
            Self::UnclosedDollarQuote => "opens a dollar quote without closing",
            Self::UnclosedComment => "opens a comment with /* without closing",
            Self::UnbalancedParenthesis => "has a parenthesis without a partner",
            Self::UnclosedRoutineBody => "opens a routine's body without an end",
            Self::ClientCommand => {
                "has a backslash outside quotes; commands such as \\c belong to psql, so name the \
                 database in connection_url instead"
            }
            Self::TransactionControl => {
                "begins or ends a transaction; leave it out, because the statements already run in \
                 a transaction"
            }
            Self::Nul => "contains a NUL character",
            Self::UnknownPlaceholder { written, available } => {
                return write!(
                    out,
                    "has the unknown placeholder {written}; in statements of this kind there are \
                     {available}, without spaces"
                );
            }
            Self::AbsentPlaceholder { written, available } => {
                return write!(
                    out,
                    "asks for {written}, which has no value in statements of this kind; there are \
                     {available}"
                );
            }
            Self::UnsafePlaceholder(written) => {
                return write!(
                    out,
                    "has {written} in a place where this value could change the statement's \
                     meaning; put the placeholder directly between quotes"
                );
            }
            Self::ExpirationOutOfRange => "would need an expiration after the year 9999",
        };
        out.write_str(words)
    }
}

/// A fault and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    /// Position in the given list, from 0.
    pub statement: u32,
    /// Character within the text, from 1.
    pub position: u32,
    /// The fault.
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

/// Refusal `invalid-statement`, with the pairs `position` and `fault` for its sentence.
impl From<LexError> for Refusal {
    fn from(error: LexError) -> Self {
        let (word, _) = INVALID_STATEMENT;
        Self {
            code: word.to_owned(),
            statement: Some(error.statement),
            ext: vec![
                ("position".to_owned(), error.position.to_string()),
                ("fault".to_owned(), error.fault.to_string()),
            ],
            ..Self::default()
        }
    }
}

/// A fault at a byte offset of one text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LocatedFault {
    pub(super) at: usize,
    pub(super) fault: LexFault,
}

impl LocatedFault {
    pub(super) fn within(self, text: &str, statement: u32) -> LexError {
        let before = text.char_indices().take_while(|(at, _)| *at < self.at).count();
        let position = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
        LexError { statement, position, fault: self.fault }
    }
}
