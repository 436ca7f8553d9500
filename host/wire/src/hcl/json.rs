//! JSON, parsed by `serde_json` straight into the HCL tree.
//!
//! `serde_json::Value` is not used: its maps keep only one of two equal keys, so a `deny` could
//! vanish behind an `allow` of the same path; and its depth and number of values cannot be limited
//! here.

use super::{HclBody, HclItem, HclValue, SyntaxError, check_depth, count_node};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::error::Category;
use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};

/// Maximum length of a root key that is repeated for its labels, in bytes. A longer key would
/// multiply memory by the number of objects below. No language read here has such a key.
const MAX_SPREAD_KEY: usize = 64;

/// Parses a whole JSON text with an object at the root.
pub(super) fn parse(text: &str) -> Result<HclBody, SyntaxError> {
    let progress = ParseProgress { line: Cell::new(1), nodes: Cell::new(0) };
    let mut reader = serde_json::Deserializer::from_reader(CountedLines {
        rest: text.as_bytes(),
        line: &progress.line,
    });
    let root = NestingLevel { depth: 0, progress: &progress }
        .deserialize(&mut reader)
        .map_err(reword_error)?;
    reader.end().map_err(reword_error)?;
    match root {
        HclValue::Block(body) => {
            Ok(HclBody { items: body.items.into_iter().flat_map(expand_item).collect() })
        }
        other => Err(SyntaxError {
            line: 1,
            column: 1,
            message: format!("an object is expected, not {}", other.kind()),
        }),
    }
}

/// Parser progress, shared by all levels of the descent.
struct ParseProgress {
    line: Cell<usize>,
    nodes: Cell<usize>,
}

/// Reader that supplies single bytes, so the line of a key is known when the key is read.
struct CountedLines<'a> {
    rest: &'a [u8],
    line: &'a Cell<usize>,
}

impl Read for CountedLines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (Some((byte, rest)), Some(slot)) = (self.rest.split_first(), buffer.first_mut()) else {
            return Ok(0);
        };
        *slot = *byte;
        self.rest = rest;
        if *byte == b'\n' {
            self.line.set(self.line.get() + 1);
        }
        Ok(1)
    }
}

/// Reads a value at `depth`.
struct NestingLevel<'a> {
    depth: usize,
    progress: &'a ParseProgress,
}

impl NestingLevel<'_> {
    /// Returns the level of the values inside this level.
    fn nested_level(&self) -> Self {
        Self { depth: self.depth + 1, progress: self.progress }
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        let mut nodes = self.progress.nodes.get();
        let counted = count_node(&mut nodes);
        self.progress.nodes.set(nodes);
        counted.map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for NestingLevel<'_> {
    type Value = HclValue;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<HclValue, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NestingLevel<'_> {
    type Value = HclValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a number, true, false, a list or an object")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<HclValue, E> {
        Ok(HclValue::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<HclValue, E> {
        Ok(HclValue::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<HclValue, E> {
        Ok(HclValue::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<HclValue, E> {
        Number::from_f64(value)
            .map(HclValue::Number)
            .ok_or_else(|| E::custom("this number is too large"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<HclValue, E> {
        Ok(HclValue::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<HclValue, E> {
        Ok(HclValue::Text(value))
    }

    fn visit_unit<E: Error>(self) -> Result<HclValue, E> {
        Err(E::custom("null has no meaning here; leave the key out"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> Result<HclValue, A::Error> {
        check_depth(self.depth).map_err(A::Error::custom)?;
        let mut elements = Vec::new();
        while let Some(element) = source.next_element_seed(self.nested_level())? {
            self.count()?;
            elements.push(element);
        }
        Ok(HclValue::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<HclValue, A::Error> {
        check_depth(self.depth).map_err(A::Error::custom)?;
        let mut items = Vec::new();
        while let Some(key) = source.next_key::<String>()? {
            self.count()?;
            let line = self.progress.line.get();
            let value = source.next_value_seed(self.nested_level())?;
            items.push(HclItem { key, labels: Vec::new(), value, line, element_lines: Vec::new() });
        }
        Ok(HclValue::Block(HclBody { items }))
    }
}

/// Returns the items of a root key: an item for each object of a list, or for each name of an
/// object.
fn expand_item(item: HclItem) -> Vec<HclItem> {
    let HclItem { key, labels, value, line, element_lines } = item;
    match value {
        HclValue::List(blocks) if key.len() <= MAX_SPREAD_KEY && all_blocks(&blocks) => blocks
            .into_iter()
            .flat_map(|value| {
                let (key, element_lines) = (key.clone(), Vec::new());
                expand_names(HclItem { key, labels: vec![], value, line, element_lines })
            })
            .collect(),
        value => expand_names(HclItem { key, labels, value, line, element_lines }),
    }
}

/// Returns an item per name if all values of an object are objects; otherwise the item unchanged.
fn expand_names(item: HclItem) -> Vec<HclItem> {
    let HclItem { key, labels, value, line, element_lines } = item;
    match value {
        HclValue::Block(names)
            if key.len() <= MAX_SPREAD_KEY && all_blocks(names.items.iter().map(|i| &i.value)) =>
        {
            names
                .items
                .into_iter()
                .map(|named| HclItem {
                    key: key.clone(),
                    labels: vec![named.key],
                    value: named.value,
                    line: named.line,
                    element_lines: named.element_lines,
                })
                .collect()
        }
        value => vec![HclItem { key, labels, value, line, element_lines }],
    }
}

/// Returns whether there is at least one value, and all values are blocks.
fn all_blocks<'a>(values: impl IntoIterator<Item = &'a HclValue>) -> bool {
    let mut values = values.into_iter().peekable();
    values.peek().is_some() && values.all(|value| matches!(value, HclValue::Block(_)))
}

/// Rewords an error of `serde_json`.
fn reword_error(error: serde_json::Error) -> SyntaxError {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let message = match error.classify() {
        Category::Eof => "the JSON text is incomplete; close every `{`, `[` and `\"`".to_owned(),
        Category::Data => reason.to_owned(),
        Category::Syntax | Category::Io => format!("this is not JSON: {reason}"),
    };
    SyntaxError { line: error.line().max(1), column: error.column().max(1), message }
}
