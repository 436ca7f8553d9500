//! Parser for policies, password policies, scheduler rules and the server's configuration: HCL1 or
//! JSON, read into one tree.
//!
//! The attacks this file prevents: a text that is small to send and huge in memory (size, depth and
//! number of nodes are limited during parsing), and a text that two readers interpret differently.
//! The parser drops nothing: duplicate keys stay in the tree, in JSON too, so a policy with a
//! second `capabilities` can be refused instead of losing the first. The parser knows no key by
//! name.
//!
//! `${` is plain text: these texts never had HCL1's interpolation.

mod cursor;
mod json;
mod native;

use serde_json::Number;
use std::fmt;

/// Maximum size of a text, in bytes.
pub const MAX_TEXT: usize = 1 << 20;
/// Maximum nesting of blocks and lists.
pub const MAX_DEPTH: usize = 32;
/// Maximum number of items, labels and list elements in a text.
pub const MAX_NODES: usize = 100_000;

/// The items of a text or block, in the order written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HclBody {
    /// Keys may repeat: `path "a" {}` and `path "b" {}` are two items with the key `path`.
    pub items: Vec<HclItem>,
}

/// `key = value`, `key { … }` or `key "label" { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct HclItem {
    /// Key as written, without quotes.
    pub key: String,
    /// Texts between key and block; always empty for `key = value`.
    pub labels: Vec<String>,
    /// The value of the key.
    pub value: HclValue,
    /// Line of the key, counted from 1.
    pub line: usize,
    /// Lines of the elements, if the value is a list in HCL1; empty for JSON.
    pub element_lines: Vec<usize>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum HclValue {
    /// Quoted text or a heredoc.
    Text(String),
    /// A finite number; whole numbers stay integers.
    Number(Number),
    /// `true` or `false`.
    Bool(bool),
    /// `[a, b]`.
    List(Vec<HclValue>),
    /// `key { … }` and `key = { … }` are the same.
    Block(HclBody),
}

impl HclValue {
    /// Returns the kind for messages: `a list`. Never the value itself.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Number(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::List(_) => "a list",
            Self::Block(_) => "a block",
        }
    }
}

/// The place and reason of a syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Counted from 1.
    pub line: usize,
    /// In characters (in bytes for JSON), counted from 1.
    pub column: usize,
    /// The mistake, and the correct form.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// Parses `text` as JSON if its first character is `{`, otherwise as HCL1.
///
/// In JSON, a root key becomes labelled items if the key's value is an object with only objects
/// inside: `{"path": {"x": {…}}}` means `path "x" {…}`. A list of objects means an item for each
/// object. Deeper objects are blocks without labels, because only their reader knows which objects
/// are named.
///
/// # Errors
/// The first place that does not parse, or the limit exceeded by the text ([`MAX_TEXT`],
/// [`MAX_DEPTH`], [`MAX_NODES`]).
pub fn parse(text: &str) -> Result<HclBody, SyntaxError> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has {} bytes; at most {MAX_TEXT} are read", text.len());
        return Err(SyntaxError { line: 1, column: 1, message });
    }
    let is_json = is_json(text);
    let text = without_mark(text);
    if is_json { json::parse(text) } else { native::parse(text) }
}

/// Returns true if [`parse`] reads `text` as JSON.
#[must_use]
pub fn is_json(text: &str) -> bool {
    without_mark(text).trim_start().starts_with('{')
}

/// Returns the text without the byte order mark that editors on Windows prepend, which is not part
/// of either language.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Refuses a text with `depth` levels if that is too deep.
fn check_depth(depth: usize) -> Result<(), String> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    Err(format!("blocks and lists are nested more than {MAX_DEPTH} deep; use fewer levels"))
}

/// Increments the number of nodes, and refuses the text if there are too many.
fn count_node(nodes: &mut usize) -> Result<(), String> {
    *nodes += 1;
    if *nodes <= MAX_NODES {
        return Ok(());
    }
    Err(format!("the text holds more than {MAX_NODES} keys and values; split the text"))
}

#[cfg(test)]
mod tests;
