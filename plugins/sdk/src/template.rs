//! User-name templates: the part of Go's template language that connections of this field are
//! written in.
//!
//! Templates come from operators, and the names they render from come from the callers, so both
//! are hostile here: depth, steps and every length are bounded, no input panics, and [`sanitised`]
//! leaves only characters that no database reads as syntax. Randomness and time are given, never
//! taken.
//!
//! Understood: text, `{{…}}` with trim markers and comments, `.DisplayName`, `.RoleName` (and
//! `.Username` in what is named after a user), literals, pipelines, parentheses, `if`/`else if`/`else`/`end`, and the functions of `functions.rs`.
//! Variables, `range` and `with` are refused by name.

mod evaluate;
mod functions;
mod parse;

use crate::database_plugin::StoreTime;
use std::fmt;

/// Longest template, in bytes.
pub const LONGEST_TEMPLATE: usize = 4096;

/// Longest result, in bytes.
pub const LONGEST_RESULT: usize = 1024;

/// Longest value inside a template, in bytes: a long name may be cut before it becomes the result.
const LONGEST_VALUE: usize = 4096;

/// Parentheses and `if`s inside each other. The sandbox's stack is small.
const DEEPEST: usize = 16;

/// Values looked up and functions called in one rendering.
const MOST_STEPS: u32 = 2000;

/// What a name may be made from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// `.DisplayName`: who asked, as the auth method calls them. Unchecked.
    pub display_name: &'a str,
    /// `.RoleName`.
    pub role_name: &'a str,
}

/// The outside world of one rendering.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// So many bytes of a secure generator.
    pub random: &'a dyn Fn(u32) -> Vec<u8>,
    /// What `unix_time` and its kin tell.
    pub now: StoreTime,
}

/// Why a template cannot be read or rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateFault {
    /// The template is longer than [`LONGEST_TEMPLATE`].
    TemplateTooLong,
    /// `{{` without `}}`.
    UnclosedAction,
    /// A text literal without its closing quote, or with an escape that is not known.
    BadLiteral,
    /// `(` without `)`.
    UnclosedParenthesis,
    /// `if` without `end`.
    UnclosedIf,
    /// Something that cannot stand where it stands; as written.
    Unexpected(String),
    /// A function that does not exist here; its name.
    UnknownFunction(String),
    /// A field other than `.DisplayName` and `.RoleName`; as written.
    UnknownField(String),
    /// Variables, `range`, `with` and the like; as written.
    Unsupported(String),
    /// A function was given too few, too many or unfit values; its name.
    WrongArguments(&'static str),
    /// Parentheses or `if`s go too deep.
    TooDeep,
    /// More steps than a name needs.
    TooManySteps,
    /// A value grew too long.
    TooLong,
    /// The generator gave nothing.
    NoRandomness,
}

impl fmt::Display for TemplateFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TemplateTooLong => write!(out, "it is longer than {LONGEST_TEMPLATE} bytes"),
            Self::UnclosedAction => {
                out.write_str("an action opened with {{ is never closed with }}")
            }
            Self::BadLiteral => {
                out.write_str("a text literal has no closing quote or an unknown escape")
            }
            Self::UnclosedParenthesis => out.write_str("a parenthesis is never closed"),
            Self::UnclosedIf => out.write_str("an if has no end"),
            Self::Unexpected(written) => write!(out, "{written:?} cannot stand where it stands"),
            Self::UnknownFunction(name) => write!(out, "there is no function {name:?}"),
            Self::UnknownField(written) => {
                write!(out, "there is no field {written:?}; there are .DisplayName and .RoleName")
            }
            Self::Unsupported(written) => {
                write!(out, "{written:?} is not available in user-name templates")
            }
            Self::WrongArguments(function) => {
                write!(out, "{function} was given too few, too many or unfit values")
            }
            Self::TooDeep => write!(out, "it nests more than {DEEPEST} levels deep"),
            Self::TooManySteps => write!(out, "it takes more than {MOST_STEPS} steps"),
            Self::TooLong => write!(out, "its result is longer than {LONGEST_RESULT} bytes"),
            Self::NoRandomness => out.write_str("no random bytes could be had"),
        }
    }
}

/// A template that could be read.
#[derive(Debug)]
pub struct Template {
    nodes: Vec<Node>,
}

impl Template {
    /// Reads `text`.
    ///
    /// # Errors
    /// Anything that is not in the understood part of the language, unknown names included.
    pub fn parse(text: &str) -> Result<Self, TemplateFault> {
        if text.len() > LONGEST_TEMPLATE {
            return Err(TemplateFault::TemplateTooLong);
        }
        Ok(Self { nodes: parse::parse(text)? })
    }

    /// The bytes that the template makes; cutting by bytes may have left part of a character.
    ///
    /// # Errors
    /// Unfit values, and every bound of this module.
    pub fn render(
        &self,
        names: &Names<'_>,
        surroundings: &Surroundings<'_>,
    ) -> Result<Vec<u8>, TemplateFault> {
        self.rendered(names, None, surroundings)
    }

    /// As [`render`](Self::render), for what is named after a user that has its name already:
    /// `.Username`.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_for_user(
        &self,
        names: &Names<'_>,
        username: &str,
        surroundings: &Surroundings<'_>,
    ) -> Result<Vec<u8>, TemplateFault> {
        self.rendered(names, Some(username), surroundings)
    }

    fn rendered(
        &self,
        names: &Names<'_>,
        username: Option<&str>,
        surroundings: &Surroundings<'_>,
    ) -> Result<Vec<u8>, TemplateFault> {
        let rendered = evaluate::render(&self.nodes, names, username, surroundings)?;
        if rendered.len() > LONGEST_RESULT { Err(TemplateFault::TooLong) } else { Ok(rendered) }
    }
}

/// `rendered` with every byte but `A-Z a-z 0-9 _ . @ -` turned into `-`: what a display name built
/// to break SQL is left with.
#[must_use]
pub fn sanitised(rendered: &[u8]) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'@' | b'-');
    rendered.iter().map(|byte| if fits(*byte) { char::from(*byte) } else { '-' }).collect()
}

/// A value inside a template. Text is bytes, because `truncate` cuts bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(Vec<u8>),
    Int(i64),
    Bool(bool),
}

#[derive(Debug)]
enum Node {
    Text(String),
    Show(Pipeline),
    If(Vec<Branch>),
}

/// One arm of an `if`; without a condition it is the `else`.
#[derive(Debug)]
struct Branch {
    condition: Option<Pipeline>,
    body: Vec<Node>,
}

/// Commands joined by `|`, each a head and its arguments.
#[derive(Debug)]
struct Pipeline {
    commands: Vec<Vec<Operand>>,
}

#[derive(Debug)]
enum Operand {
    DisplayName,
    RoleName,
    Username,
    Literal(Value),
    Function(functions::Function),
    Group(Pipeline),
}

#[cfg(test)]
mod tests;
