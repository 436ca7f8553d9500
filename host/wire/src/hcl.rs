//! The language of policies, password policies and scheduler rules: HCL1 or JSON, read into one
//! tree.
//!
//! The attacks this file stops: a text that is small to send and huge to hold (depth, size and
//! number of nodes are bounded before anything is built), and a text that two readers understand
//! differently. Nothing is dropped on the way: keys that are given twice stay twice in the tree, in
//! JSON too, so that a policy with a second `capabilities` can be refused instead of losing the
//! first. What the keys mean is not known here.
//!
//! `${` is plain text: HCL1's interpolation was never a part of these texts.

mod cursor;
mod json;
mod native;

use serde_json::Number;
use std::fmt;

/// Largest text, in bytes.
pub const MAX_TEXT: usize = 1 << 20;
/// How deep blocks and lists may stand inside each other.
pub const MAX_DEPTH: usize = 32;
/// Most items, labels and list elements in one text.
pub const MAX_NODES: usize = 100_000;

/// The items of a text or of one block, in the order they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// Not unique by key: `path "a" {}` and `path "b" {}` are two items with the key `path`.
    pub items: Vec<Item>,
}

/// `key = value`, `key { … }` or `key "label" { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// As written, without quotes.
    pub key: String,
    /// The texts between key and block; always empty for `key = value`.
    pub labels: Vec<String>,
    /// What the key holds.
    pub value: Node,
    /// The line of the key, counted from 1.
    pub line: usize,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Quoted text or a heredoc.
    Text(String),
    /// A finite number, kept whole when it is whole.
    Number(Number),
    /// `true` or `false`.
    Bool(bool),
    /// `[a, b]`.
    List(Vec<Node>),
    /// `key { … }` and `key = { … }` are the same.
    Block(Body),
}

impl Node {
    /// What it is, for messages: `a list`. Never the value itself.
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

/// Where a text stops making sense, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Counted from 1.
    pub line: usize,
    /// In characters (in bytes for JSON), counted from 1.
    pub column: usize,
    /// What was wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// Reads `text` as JSON when its first character is `{`, as HCL1 otherwise.
///
/// In JSON, an object at the root whose values are all objects gives labelled items: `{"path":
/// {"x": {…}}}` means `path "x" {…}`, and a list of objects means one item for each. Deeper objects
/// are blocks without labels, because only their reader knows which of them carry names.
///
/// # Errors
/// The first place that does not read, or the bound that the text exceeds ([`MAX_TEXT`],
/// [`MAX_DEPTH`], [`MAX_NODES`]).
pub fn parse(text: &str) -> Result<Body, SyntaxError> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has {} bytes; at most {MAX_TEXT} are read", text.len());
        return Err(SyntaxError { line: 1, column: 1, message });
    }
    // Editors on Windows put a byte order mark in front; it is no part of either language.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') { json::parse(text) } else { native::parse(text) }
}

/// Why a text with `depth` levels is not read, if it is too deep.
fn check_depth(depth: usize) -> Result<(), String> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    Err(format!(
        "blocks and lists stand more than {MAX_DEPTH} deep in each other; write it flatter"
    ))
}

/// The count of nodes read so far becomes one more, or the text is refused.
fn count_node(nodes: &mut usize) -> Result<(), String> {
    *nodes += 1;
    if *nodes <= MAX_NODES {
        return Ok(());
    }
    Err(format!("the text holds more than {MAX_NODES} keys and values; split it"))
}

#[cfg(test)]
mod tests;
