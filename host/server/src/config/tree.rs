//! The words of a configuration file with their lines, in either syntax.
//!
//! This file prevents an answer to a wrong file that depends on its syntax: HCL and JSON become the
//! same tree, and every check is made on the tree.

use serde_json::Number;

/// A word of the file, with the line on which it stands.
pub(super) struct ConfigEntry {
    pub(super) word: String,
    /// Line number, counted from 1.
    pub(super) line: usize,
    pub(super) content: EntryContent,
}

/// The right side of a word.
pub(super) enum EntryContent {
    /// `word = value`.
    Value(ConfigLiteral),
    /// `word "label" { … }`.
    Block { labels: Vec<String>, entries: Vec<ConfigEntry> },
}

/// A constant. Expressions are not constants: they would need an interpreter.
pub(super) enum ConfigLiteral {
    Flag(bool),
    Number(Number),
    Text(String),
    /// Elements, each with its own line: such lists are long.
    List(Vec<(usize, ConfigLiteral)>),
    /// A value that no setting takes, described for a message.
    Unusable(String),
}

/// The places of the line breaks of a text, so that a line is found without reading the text again.
pub(super) struct LineBreaks(Vec<usize>);

impl LineBreaks {
    pub(super) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(place, _)| place).collect())
    }

    /// Returns the line number of a byte, counted from 1.
    pub(super) fn at(&self, place: usize) -> usize {
        self.0.partition_point(|end| *end < place) + 1
    }
}
