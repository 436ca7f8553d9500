//! The configuration's text as sections of named values, each with its line.
//!
//! The mistake this file stops: a setting that is written and has no effect. A section is made with
//! the words that it may hold, and a word that it may not hold refuses the file, with the word that
//! was probably meant; a value is read as what it is to be, or refused. Values are constants: the
//! language's expressions would need somebody who computes.

use bulkhead_wire::failure::quoted;
use bulkhead_wire::spelling::hint;
use bulkhead_wire::{duration, size};
use hcl::edit::Span;
use hcl::edit::expr::Expression;
use hcl::edit::parser;
use hcl::edit::structure::{Attribute, Block, BlockLabel, Body, Structure};
use serde_json::Value as Json;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Why a text is no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Counted from 1.
    pub line: usize,
    /// What was wrong and what to write instead.
    pub message: String,
}

impl Wrong {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for Wrong {}

/// The words of one section.
pub(super) struct Words {
    /// Written `key = value`.
    pub(super) keys: &'static [&'static str],
    /// Written `name "label" { … }`.
    pub(super) blocks: &'static [&'static str],
    /// Words that this version knows and does not serve, each with the reason: ignored, they would
    /// look as if they worked.
    pub(super) unserved: &'static [(&'static str, &'static str)],
}

/// The lines of a text.
#[derive(Clone, Copy)]
struct Lines<'a>(&'a str);

impl Lines<'_> {
    /// The line of a place, counted from 1. Whatever has no place of its own is at the end of the
    /// text.
    fn of(self, place: Option<Range<usize>>) -> usize {
        let before =
            self.0.get(..place.map_or(self.0.len(), |place| place.start)).unwrap_or(self.0);
        before.matches('\n').count() + 1
    }
}

/// Reads a text and hands its outermost section to `read`.
///
/// # Errors
/// The first place that does not read, and whatever `read` refuses.
pub(super) fn with_root<T>(
    text: &str,
    words: &Words,
    read: impl FnOnce(&Section<'_>) -> Result<T, Wrong>,
) -> Result<T, Wrong> {
    let body = parser::parse_body(text).map_err(|error| syntax(&error))?;
    read(&Section::new(Lines(text), &body, words, Head { title: "the file".to_owned(), line: 1 })?)
}

/// The parser's own words; it speaks of a key that is given twice as of a syntax that it expected.
fn syntax(error: &parser::Error) -> Wrong {
    let line = error.location().line();
    if error.message().contains("redefined attribute") {
        return Wrong::at(
            line,
            "this key is given before in the same block; leave one of the two out",
        );
    }
    Wrong::at(line, format!("column {}: {}", error.location().column(), error.message()))
}

/// What a section is called in messages, and where it begins.
struct Head {
    title: String,
    line: usize,
}

/// The file, or one block of it, with no word but those that it may hold.
pub(super) struct Section<'a> {
    lines: Lines<'a>,
    head: Head,
    body: &'a Body,
}

impl<'a> Section<'a> {
    fn new(lines: Lines<'a>, body: &'a Body, words: &Words, head: Head) -> Result<Self, Wrong> {
        for structure in body.iter() {
            check(lines, structure, words)?;
        }
        Ok(Self { lines, head, body })
    }

    /// The value of `key`, if it is given.
    pub(super) fn value(&self, key: &'static str) -> Option<Value<'a>> {
        self.body.get_attribute(key).map(|attribute| Value::of(self.lines, key, attribute))
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// When it is missing; `example` says what to write.
    pub(super) fn required(&self, key: &'static str, example: &str) -> Result<Value<'a>, Wrong> {
        self.value(key).ok_or_else(|| {
            self.wrong(format!("{} needs {key}: write {key} = {example}", self.head.title))
        })
    }

    /// Every block called `name`, in the order of the text.
    pub(super) fn blocks(&self, name: &'static str) -> impl Iterator<Item = Labelled<'a>> {
        let lines = self.lines;
        let named = self.body.blocks().filter(move |block| block.ident.as_str() == name);
        named.map(move |block| Labelled { lines, name, block })
    }

    /// The one block `name "kind"`, if it is there.
    ///
    /// # Errors
    /// When it is there twice, or is of another kind; `unserved` are kinds with the reason why they
    /// are refused.
    pub(super) fn only(
        &self,
        name: &'static str,
        kind: &'static str,
        unserved: &[(&str, &str)],
    ) -> Result<Option<Labelled<'a>>, Wrong> {
        let mut found: Option<Labelled<'a>> = None;
        for block in self.blocks(name) {
            let [label] = block.labels()[..] else {
                return Err(
                    block.wrong(format!("{name} takes one label: write {name} \"{kind}\" {{ … }}"))
                );
            };
            block.check_kind(label, kind, unserved)?;
            if let Some(first) = found {
                let line = first.line();
                return Err(block.wrong(format!(
                    "{name} \"{kind}\" is given on line {line} already; leave one of the two out"
                )));
            }
            found = Some(block);
        }
        Ok(found)
    }

    /// A refusal of the section as a whole.
    pub(super) fn wrong(&self, message: impl Into<String>) -> Wrong {
        Wrong::at(self.head.line, message)
    }
}

/// Refuses a word that the section may not hold, and one that is written as the other kind of word.
fn check(lines: Lines<'_>, structure: &Structure, words: &Words) -> Result<(), Wrong> {
    let (word, place, is_block) = match structure {
        Structure::Attribute(attribute) => (attribute.key.as_str(), attribute.key.span(), false),
        Structure::Block(block) => (block.ident.as_str(), block.ident.span(), true),
    };
    let line = lines.of(place);
    if let Some((_, why)) = words.unserved.iter().find(|(unserved, _)| *unserved == word) {
        return Err(Wrong::at(line, format!("{word}: {why}")));
    }
    match (words.keys.contains(&word), words.blocks.contains(&word)) {
        (true, _) if is_block => {
            Err(Wrong::at(line, format!("{word} takes a value: write {word} = …")))
        }
        (_, true) if !is_block => {
            Err(Wrong::at(line, format!("{word} is a block: write {word} \"…\" {{ … }}")))
        }
        (false, false) => {
            let known: Vec<&str> = words.keys.iter().chain(words.blocks).copied().collect();
            Err(Wrong::at(
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

/// A block with its labels, before its words were looked at.
pub(super) struct Labelled<'a> {
    lines: Lines<'a>,
    name: &'static str,
    block: &'a Block,
}

impl<'a> Labelled<'a> {
    /// Where it begins, counted from 1.
    pub(super) fn line(&self) -> usize {
        self.lines.of(self.block.ident.span())
    }

    pub(super) fn labels(&self) -> Vec<&'a str> {
        self.block.labels.iter().map(BlockLabel::as_str).collect()
    }

    /// Refuses a label that is not `kind`.
    pub(super) fn check_kind(
        &self,
        label: &str,
        kind: &'static str,
        unserved: &[(&str, &str)],
    ) -> Result<(), Wrong> {
        if label == kind {
            return Ok(());
        }
        let name = self.name;
        if let Some((_, why)) = unserved.iter().find(|(unserved, _)| *unserved == label) {
            return Err(self.wrong(format!("{name} \"{label}\": {why}")));
        }
        Err(self.wrong(format!("unknown {name} {}{}", quoted(label), hint(label, &[kind]))))
    }

    /// Its content.
    ///
    /// # Errors
    /// The first word that is none of `words`.
    pub(super) fn section(&self, words: &Words) -> Result<Section<'a>, Wrong> {
        let labels: String =
            self.labels().iter().map(|label| format!(" {}", quoted(label))).collect();
        let head = Head { title: format!("{}{labels}", self.name), line: self.line() };
        Section::new(self.lines, &self.block.body, words, head)
    }

    /// A refusal of the block as a whole.
    pub(super) fn wrong(&self, message: impl Into<String>) -> Wrong {
        Wrong::at(self.line(), message)
    }
}

/// What stands behind one key, or one element of its list.
pub(super) struct Value<'a> {
    lines: Lines<'a>,
    key: &'static str,
    line: usize,
    expression: &'a Expression,
}

impl<'a> Value<'a> {
    fn of(lines: Lines<'a>, key: &'static str, attribute: &'a Attribute) -> Self {
        Self { lines, key, line: lines.of(attribute.key.span()), expression: &attribute.value }
    }

    /// Text in quotes.
    pub(super) fn text(&self) -> Result<&'a str, Wrong> {
        match self.expression {
            Expression::String(text) => Ok(text.as_str()),
            other => Err(self.is_no("text in quotes", other)),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Result<bool, Wrong> {
        match self.expression {
            Expression::Bool(flag) => Ok(*flag.value()),
            other => Err(self.is_no("true or false", other)),
        }
    }

    /// Seconds, of a duration from `least` to `most` of them.
    pub(super) fn seconds(&self, least: u64, most: u64) -> Result<u64, Wrong> {
        let seconds = match self.expression {
            Expression::String(text) => duration::parse(text),
            Expression::Number(number) => duration::seconds(&json(number.value())),
            other => return Err(self.is_no("a duration such as \"90s\"", other)),
        };
        self.within(seconds, (least, most), duration::show)
    }

    /// Bytes, of a size from `least` to `most` of them.
    pub(super) fn bytes(&self, least: u64, most: u64) -> Result<u64, Wrong> {
        let bytes = match self.expression {
            Expression::String(text) => size::parse(text),
            Expression::Number(number) => size::parse(&number.to_string()),
            other => return Err(self.is_no("a size such as \"32MiB\"", other)),
        };
        self.within(bytes, (least, most), size::show)
    }

    /// A whole number from `least` to `most`.
    pub(super) fn count(&self, least: u64, most: u64) -> Result<u64, Wrong> {
        let Expression::Number(number) = self.expression else {
            return Err(self.is_no("a whole number such as 1024", self.expression));
        };
        let whole =
            number.value().as_u64().ok_or_else(|| format!("{} is no whole number", number.value()));
        self.within(whole, (least, most), |count| count.to_string())
    }

    fn within(
        &self,
        read: Result<u64, String>,
        (least, most): (u64, u64),
        show: fn(u64) -> String,
    ) -> Result<u64, Wrong> {
        let value = read.map_err(|why| self.wrong(why))?;
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(self.wrong(format!(
            "{} is not between {} and {}",
            show(value),
            show(least),
            show(most)
        )))
    }

    /// The elements of a list, each with its own line.
    pub(super) fn elements(&self) -> Result<Vec<Value<'a>>, Wrong> {
        let Expression::Array(list) = self.expression else {
            return Err(self.is_no("a list such as [\"a\", \"b\"]", self.expression));
        };
        let element = |expression: &'a Expression| {
            let line = expression.span().map_or(self.line, |place| self.lines.of(Some(place)));
            Value { lines: self.lines, key: self.key, line, expression }
        };
        Ok(list.iter().map(element).collect())
    }

    /// A whole path. The folder that a relative one would begin in is not said in the file.
    pub(super) fn path(&self) -> Result<PathBuf, Wrong> {
        let text = self.text()?;
        let path = PathBuf::from(text);
        if path.is_absolute() && !text.contains('\0') {
            return Ok(path);
        }
        Err(self.wrong(format!("{} is no whole path; begin it with /", quoted(text))))
    }

    /// A refusal of this value.
    pub(super) fn wrong(&self, message: impl fmt::Display) -> Wrong {
        Wrong::at(self.line, format!("{}: {message}", self.key))
    }

    fn is_no(&self, wanted: &str, got: &Expression) -> Wrong {
        self.wrong(format!("{}; write {wanted}", kind(got)))
    }
}

fn json(number: &hcl::Number) -> Json {
    let whole = number.as_u64().map(Json::from).or_else(|| number.as_i64().map(Json::from));
    whole.or_else(|| number.as_f64().map(Json::from)).unwrap_or_default()
}

/// What a value is, in the words of a refusal.
fn kind(expression: &Expression) -> String {
    match expression {
        Expression::Null(_) => "null is no value".to_owned(),
        Expression::Bool(_) => "true and false have no meaning here".to_owned(),
        Expression::Number(_) => "a number has no meaning here".to_owned(),
        Expression::String(_) => "text in quotes has no meaning here".to_owned(),
        Expression::Array(_) => "a list has no meaning here".to_owned(),
        Expression::Object(_) => "{ … } has no meaning here".to_owned(),
        Expression::StringTemplate(_) => {
            "${…} and %{…} are not computed here (as text they are $${ and %%{)".to_owned()
        }
        Expression::HeredocTemplate(_) => "a heredoc has no meaning here".to_owned(),
        Expression::Variable(word) => {
            format!("the bare word {} is not known", quoted(word.as_str()))
        }
        _ => "nothing is computed in this file".to_owned(),
    }
}
