//! JSON, parsed by `serde_json` straight into the HCL tree.
//!
//! `serde_json::Value` is not used: its maps keep only one of two equal keys, so a `deny` could
//! vanish behind an `allow` of the same path; and its depth and number of values cannot be limited
//! here.

use super::{Body, Item, Node, SyntaxError, check_depth, count_node};
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
pub(super) fn parse(text: &str) -> Result<Body, SyntaxError> {
    let progress = Progress { line: Cell::new(1), nodes: Cell::new(0) };
    let mut reader = serde_json::Deserializer::from_reader(CountedLines {
        rest: text.as_bytes(),
        line: &progress.line,
    });
    let root = Level { depth: 0, progress: &progress }.deserialize(&mut reader).map_err(explain)?;
    reader.end().map_err(explain)?;
    match root {
        Node::Block(body) => Ok(Body { items: body.items.into_iter().flat_map(spread).collect() }),
        other => Err(SyntaxError {
            line: 1,
            column: 1,
            message: format!("an object is expected, not {}", other.kind()),
        }),
    }
}

/// Parser progress, shared by all levels of the descent.
struct Progress {
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
struct Level<'a> {
    depth: usize,
    progress: &'a Progress,
}

impl Level<'_> {
    /// Returns the level of the values inside this level.
    fn below(&self) -> Self {
        Self { depth: self.depth + 1, progress: self.progress }
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        let mut nodes = self.progress.nodes.get();
        let counted = count_node(&mut nodes);
        self.progress.nodes.set(nodes);
        counted.map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Node, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a number, true, false, a list or an object")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Number::from_f64(value)
            .map(Node::Number)
            .ok_or_else(|| E::custom("this number is too large"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Err(E::custom("null has no meaning here; leave the key out"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> Result<Node, A::Error> {
        check_depth(self.depth).map_err(A::Error::custom)?;
        let mut elements = Vec::new();
        while let Some(element) = source.next_element_seed(self.below())? {
            self.count()?;
            elements.push(element);
        }
        Ok(Node::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Node, A::Error> {
        check_depth(self.depth).map_err(A::Error::custom)?;
        let mut items = Vec::new();
        while let Some(key) = source.next_key::<String>()? {
            self.count()?;
            let line = self.progress.line.get();
            let value = source.next_value_seed(self.below())?;
            items.push(Item { key, labels: Vec::new(), value, line });
        }
        Ok(Node::Block(Body { items }))
    }
}

/// Returns the items of a root key: an item for each object of a list, or for each name of an
/// object.
fn spread(item: Item) -> Vec<Item> {
    let Item { key, labels, value, line } = item;
    match value {
        Node::List(blocks) if key.len() <= MAX_SPREAD_KEY && all_blocks(&blocks) => blocks
            .into_iter()
            .flat_map(|value| spread_names(Item { key: key.clone(), labels: vec![], value, line }))
            .collect(),
        value => spread_names(Item { key, labels, value, line }),
    }
}

/// Returns an item per name if all values of an object are objects; otherwise the item unchanged.
fn spread_names(item: Item) -> Vec<Item> {
    let Item { key, labels, value, line } = item;
    match value {
        Node::Block(names)
            if key.len() <= MAX_SPREAD_KEY && all_blocks(names.items.iter().map(|i| &i.value)) =>
        {
            names
                .items
                .into_iter()
                .map(|named| Item {
                    key: key.clone(),
                    labels: vec![named.key],
                    value: named.value,
                    line: named.line,
                })
                .collect()
        }
        value => vec![Item { key, labels, value, line }],
    }
}

/// Returns whether there is at least one value, and all values are blocks.
fn all_blocks<'a>(values: impl IntoIterator<Item = &'a Node>) -> bool {
    let mut values = values.into_iter().peekable();
    values.peek().is_some() && values.all(|value| matches!(value, Node::Block(_)))
}

/// Rewords an error of `serde_json`.
fn explain(error: serde_json::Error) -> SyntaxError {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let message = match error.classify() {
        Category::Eof => {
            "the JSON text ends before it is complete; close every `{`, `[` and `\"`".to_owned()
        }
        Category::Data => reason.to_owned(),
        Category::Syntax | Category::Io => format!("this is not JSON: {reason}"),
    };
    SyntaxError { line: error.line().max(1), column: error.column().max(1), message }
}
