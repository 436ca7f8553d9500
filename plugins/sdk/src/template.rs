//! User-name templates: the subset of Go's template language that this API uses.
//!
//! Operators write templates, and callers influence the names to render, so both are untrusted:
//! depth, steps and every length are bounded, no input panics, and [`sanitised`] leaves only
//! characters that no database reads as syntax. Randomness and time are parameters.
//!
//! Supported: text, `{{…}}` with trim markers and comments, `.DisplayName`, `.RoleName` (and
//! `.Username` for an object named after a user), literals, pipelines, parentheses,
//! `if`/`else if`/`else`/`end`, and the functions of `functions.rs`. Variables, `range` and `with`
//! are refused by name.

mod evaluate;
mod functions;
mod parse;
mod printf;

use crate::database_plugin::StoreTime;
use std::fmt;

/// Maximum length of a template, in bytes.
pub const LONGEST_TEMPLATE: usize = 4096;

/// Maximum length of the result, in bytes.
pub const LONGEST_RESULT: usize = 1024;

/// Maximum length of a value inside a template, in bytes: a template may shorten a long name.
const LONGEST_VALUE: usize = 4096;

/// Maximum depth of nested parentheses or `if`s. The sandbox's stack is small.
const DEEPEST: usize = 16;

/// Maximum number of values and function calls in one rendering.
const MOST_STEPS: u32 = 2000;

/// Names that a template can use.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateNames<'a> {
    /// Value of `.DisplayName`: the caller's display name from the auth method. Untrusted.
    pub display_name: &'a str,
    /// Value of `.RoleName`.
    pub role_name: &'a str,
}

/// Randomness and time of one rendering.
#[derive(Clone, Copy)]
pub struct RenderContext<'a> {
    /// Returns the given number of bytes of a secure generator.
    pub random: &'a dyn Fn(u32) -> Vec<u8>,
    /// Time for `unix_time`, `unix_time_millis` and `timestamp`.
    pub now: StoreTime,
}

/// Fault in parsing or rendering a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateFault {
    /// The template is longer than [`LONGEST_TEMPLATE`].
    TemplateTooLong,
    /// `{{` without `}}`.
    UnclosedAction,
    /// A text literal without a closing quote or with an unknown escape.
    BadLiteral,
    /// `(` without `)`.
    UnclosedParenthesis,
    /// `if` without `end`.
    UnclosedIf,
    /// A token at a wrong place, as written.
    Unexpected(String),
    /// Name of an unknown function.
    UnknownFunction(String),
    /// An unknown field, as written.
    UnknownField(String),
    /// Unsupported syntax, such as variables, `range` and `with`; as written.
    Unsupported(String),
    /// Name of a function that received too few, too many or unfit arguments.
    WrongArguments(&'static str),
    /// A verb of `printf` that is not built, as written.
    UnknownVerb(String),
    /// Parentheses or `if`s are nested too deeply.
    TooDeep,
    /// The rendering takes too many steps.
    TooManySteps,
    /// A value or the result is too long.
    TooLong,
    /// The generator returned too few bytes.
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
            Self::Unexpected(written) => write!(out, "{written:?} is not allowed here"),
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
            Self::UnknownVerb(written) => {
                write!(out, "printf: {written:?} is not available here; {}", printf::KNOWN)
            }
            Self::TooDeep => write!(out, "it nests more than {DEEPEST} levels deep"),
            Self::TooManySteps => write!(out, "it takes more than {MOST_STEPS} steps"),
            Self::TooLong => write!(out, "its result is longer than {LONGEST_RESULT} bytes"),
            Self::NoRandomness => out.write_str("no random bytes could be had"),
        }
    }
}

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    nodes: Vec<TemplateNode>,
}

impl Template {
    /// Parses `text`.
    ///
    /// # Errors
    /// Any syntax outside the supported subset, including unknown names.
    pub fn parse(text: &str) -> Result<Self, TemplateFault> {
        if text.len() > LONGEST_TEMPLATE {
            return Err(TemplateFault::TemplateTooLong);
        }
        Ok(Self { nodes: parse::parse(text)? })
    }

    /// Renders the template. A cut by bytes may leave part of a character.
    ///
    /// # Errors
    /// Unfit arguments, and every bound of this module.
    pub fn render(
        &self,
        names: &TemplateNames<'_>,
        context: &RenderContext<'_>,
    ) -> Result<Vec<u8>, TemplateFault> {
        self.rendered(names, None, context)
    }

    /// Renders the template for an object named after the existing user `username`, the value of
    /// `.Username`.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_for_user(
        &self,
        names: &TemplateNames<'_>,
        username: &str,
        context: &RenderContext<'_>,
    ) -> Result<Vec<u8>, TemplateFault> {
        self.rendered(names, Some(username), context)
    }

    fn rendered(
        &self,
        names: &TemplateNames<'_>,
        username: Option<&str>,
        context: &RenderContext<'_>,
    ) -> Result<Vec<u8>, TemplateFault> {
        let rendered = evaluate::render(&self.nodes, names, username, context)?;
        if rendered.len() > LONGEST_RESULT { Err(TemplateFault::TooLong) } else { Ok(rendered) }
    }
}

/// Replaces every byte except `A-Z a-z 0-9 _ . @ -` by `-`, so that a display name cannot carry
/// SQL.
#[must_use]
pub fn sanitised(rendered: &[u8]) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'@' | b'-');
    rendered.iter().map(|byte| if fits(*byte) { char::from(*byte) } else { '-' }).collect()
}

/// A value inside a template. Text is bytes, because `truncate` cuts bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplateValue {
    Text(Vec<u8>),
    Int(i64),
    Bool(bool),
}

#[derive(Debug)]
enum TemplateNode {
    Text(String),
    Show(Pipeline),
    If(Vec<IfBranch>),
}

/// A branch of an `if`; the `else` branch has no condition.
#[derive(Debug)]
struct IfBranch {
    condition: Option<Pipeline>,
    body: Vec<TemplateNode>,
}

/// Commands joined by `|`; each command is a head with arguments.
#[derive(Debug)]
struct Pipeline {
    commands: Vec<Vec<Operand>>,
}

#[derive(Debug)]
enum Operand {
    DisplayName,
    RoleName,
    Username,
    Literal(TemplateValue),
    Function(functions::TemplateFunction),
    Group(Pipeline),
}

#[cfg(test)]
mod tests;
