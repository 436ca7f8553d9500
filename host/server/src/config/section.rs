//! Sections of named values, with lines, from the configuration's text.
//!
//! Prevents settings that have no effect. A section is created with its known words; an unknown
//! word refuses the file and suggests the closest known word. A value is read as the expected type
//! or refused. Values are constants: HCL expressions would need an interpreter.

mod value;

pub(super) use value::ConfigValue;

use bulkhead_wire::failure::quoted;
use bulkhead_wire::spelling::hint;
use hcl::edit::Span;
use hcl::edit::parser;
use hcl::edit::structure::{Block, BlockLabel, Body, Structure};
use std::fmt;
use std::ops::Range;

/// The refusal of a configuration text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// Line number, counted from 1.
    pub(crate) line: usize,
    /// The error and the text to write instead.
    pub(crate) message: String,
}

impl ConfigError {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ConfigError {}

/// The known words of a section.
pub(super) struct SectionWords {
    /// Words written `key = value`.
    pub(super) keys: &'static [&'static str],
    /// Words written `name "label" { … }`.
    pub(super) blocks: &'static [&'static str],
    /// Words that this version knows but does not support, with the reason. If ignored, they would
    /// appear to work.
    pub(super) unserved: &'static [(&'static str, &'static str)],
}

/// The text, for counting lines.
#[derive(Clone, Copy)]
struct SourceText<'a>(&'a str);

impl SourceText<'_> {
    /// Returns the line number of `place`, counted from 1; the last line if there is no place.
    fn of(self, place: Option<Range<usize>>) -> usize {
        let before =
            self.0.get(..place.map_or(self.0.len(), |place| place.start)).unwrap_or(self.0);
        before.matches('\n').count() + 1
    }
}

/// Parses a text and hands its root section to `read`.
///
/// # Errors
/// The first syntax error, or the error of `read`.
pub(super) fn read_root<T>(
    text: &str,
    words: &SectionWords,
    read: impl FnOnce(&ConfigSection<'_>) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let body = parser::parse_body(text).map_err(|error| syntax_error(&error))?;
    read(&ConfigSection::new(
        SourceText(text),
        &body,
        words,
        SectionHead { title: "the file".to_owned(), line: 1 },
    )?)
}

/// Converts a parser error. The parser reports a duplicate key as a syntax error, which needs a
/// clearer message.
fn syntax_error(error: &parser::Error) -> ConfigError {
    let line = error.location().line();
    if error.message().contains("redefined attribute") {
        return ConfigError::at(
            line,
            "this key is given before in the same block; leave one of the two out",
        );
    }
    ConfigError::at(line, format!("column {}: {}", error.location().column(), error.message()))
}

/// The name of a section in messages, and its first line.
struct SectionHead {
    title: String,
    line: usize,
}

/// The file or a block of the file, with known words only.
pub(super) struct ConfigSection<'a> {
    lines: SourceText<'a>,
    head: SectionHead,
    body: &'a Body,
}

impl<'a> ConfigSection<'a> {
    fn new(
        lines: SourceText<'a>,
        body: &'a Body,
        words: &SectionWords,
        head: SectionHead,
    ) -> Result<Self, ConfigError> {
        for structure in body.iter() {
            check_word(lines, structure, words)?;
        }
        Ok(Self { lines, head, body })
    }

    /// Returns the value of `key`, if present.
    pub(super) fn value(&self, key: &'static str) -> Option<ConfigValue<'a>> {
        self.body.get_attribute(key).map(|attribute| ConfigValue::of(self.lines, key, attribute))
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// The key is missing; `example` is the suggested value.
    pub(super) fn required(
        &self,
        key: &'static str,
        example: &str,
    ) -> Result<ConfigValue<'a>, ConfigError> {
        self.value(key).ok_or_else(|| {
            self.error(format!("{} needs {key}: write {key} = {example}", self.head.title))
        })
    }

    /// Returns every block `name`, in the order of the text.
    pub(super) fn blocks(&self, name: &'static str) -> impl Iterator<Item = LabelledBlock<'a>> {
        let lines = self.lines;
        let named = self.body.blocks().filter(move |block| block.ident.as_str() == name);
        named.map(move |block| LabelledBlock { lines, name, block })
    }

    /// Returns the only block `name`, if present.
    ///
    /// # Errors
    /// The block is present twice or has a label.
    pub(super) fn unlabelled_block(
        &self,
        name: &'static str,
    ) -> Result<Option<LabelledBlock<'a>>, ConfigError> {
        let mut blocks = self.blocks(name);
        let Some(block) = blocks.next() else { return Ok(None) };
        if let Some(second) = blocks.next() {
            let first = block.line();
            let twice =
                format!("{name} is given on line {first} already; leave one of the two out");
            return Err(second.error(twice));
        }
        if !block.labels().is_empty() {
            return Err(block.error(format!("{name} takes no label: write {name} {{ … }}")));
        }
        Ok(Some(block))
    }

    /// Returns the only block `name "kind"`, if present.
    ///
    /// # Errors
    /// The block is present twice or has another kind; `unserved` holds the unsupported kinds with
    /// the reason.
    pub(super) fn single_block(
        &self,
        name: &'static str,
        kind: &'static str,
        unserved: &[(&str, &str)],
    ) -> Result<Option<LabelledBlock<'a>>, ConfigError> {
        let [found] = self.blocks_of_kinds(name, [kind], unserved)?;
        Ok(found)
    }

    /// Returns the block `name "kind"` of each of `kinds`, if present.
    ///
    /// # Errors
    /// As [`Self::single_block`].
    pub(super) fn blocks_of_kinds<const N: usize>(
        &self,
        name: &'static str,
        kinds: [&'static str; N],
        unserved: &[(&str, &str)],
    ) -> Result<[Option<LabelledBlock<'a>>; N], ConfigError> {
        let mut found = [const { None::<LabelledBlock<'a>> }; N];
        for block in self.blocks(name) {
            let [label] = block.labels()[..] else {
                let kind = kinds.first().copied().unwrap_or_default();
                return Err(
                    block.error(format!("{name} takes one label: write {name} \"{kind}\" {{ … }}"))
                );
            };
            block.check_kind(label, &kinds, unserved)?;
            for (place, kind) in found.iter_mut().zip(kinds).filter(|(_, kind)| *kind == label) {
                if let Some(first) = place {
                    return Err(block.error(format!(
                        "{name} \"{kind}\" is given on line {} already; leave one of the two out",
                        first.line()
                    )));
                }
                *place = Some(block.clone());
            }
        }
        Ok(found)
    }

    /// Error about the section as a whole.
    pub(super) fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.head.line, message)
    }
}

/// Refuses an unknown word, and a key written as a block or a block written as a key.
fn check_word(
    lines: SourceText<'_>,
    structure: &Structure,
    words: &SectionWords,
) -> Result<(), ConfigError> {
    let (word, place, is_block) = match structure {
        Structure::Attribute(attribute) => (attribute.key.as_str(), attribute.key.span(), false),
        Structure::Block(block) => (block.ident.as_str(), block.ident.span(), true),
    };
    let line = lines.of(place);
    if let Some((_, why)) = words.unserved.iter().find(|(unserved, _)| *unserved == word) {
        return Err(ConfigError::at(line, format!("{word}: {why}")));
    }
    match (words.keys.contains(&word), words.blocks.contains(&word)) {
        (true, _) if is_block => {
            Err(ConfigError::at(line, format!("{word} takes a value: write {word} = …")))
        }
        (_, true) if !is_block => {
            Err(ConfigError::at(line, format!("{word} is a block: write {word} \"…\" {{ … }}")))
        }
        (false, false) => {
            let known: Vec<&str> = words.keys.iter().chain(words.blocks).copied().collect();
            Err(ConfigError::at(
                line,
                format!("unknown {} {}{}", kind_of(is_block), quoted(word), hint(word, &known)),
            ))
        }
        _ => Ok(()),
    }
}

fn kind_of(is_block: bool) -> &'static str {
    if is_block { "block" } else { "key" }
}

/// A block with its labels, before the check of its words.
#[derive(Clone)]
pub(super) struct LabelledBlock<'a> {
    lines: SourceText<'a>,
    name: &'static str,
    block: &'a Block,
}

impl<'a> LabelledBlock<'a> {
    /// Line number of the block, counted from 1.
    pub(super) fn line(&self) -> usize {
        self.lines.of(self.block.ident.span())
    }

    pub(super) fn labels(&self) -> Vec<&'a str> {
        self.block.labels.iter().map(BlockLabel::as_str).collect()
    }

    /// Refuses a label that is not in `kinds`.
    pub(super) fn check_kind(
        &self,
        label: &str,
        kinds: &[&'static str],
        unserved: &[(&str, &str)],
    ) -> Result<(), ConfigError> {
        if kinds.contains(&label) {
            return Ok(());
        }
        let name = self.name;
        if let Some((_, why)) = unserved.iter().find(|(unserved, _)| *unserved == label) {
            return Err(self.error(format!("{name} \"{label}\": {why}")));
        }
        Err(self.error(format!("unknown {name} {}{}", quoted(label), hint(label, kinds))))
    }

    /// Content of the block.
    ///
    /// # Errors
    /// The first word that is not in `words`.
    pub(super) fn section(&self, words: &SectionWords) -> Result<ConfigSection<'a>, ConfigError> {
        let labels: String =
            self.labels().iter().map(|label| format!(" {}", quoted(label))).collect();
        let head = SectionHead { title: format!("{}{labels}", self.name), line: self.line() };
        ConfigSection::new(self.lines, &self.block.body, words, head)
    }

    /// Error about the block as a whole.
    pub(super) fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.line(), message)
    }
}
