//! Reads JSON into the tree. A block is an object below its labels, or a list of such objects:
//! `{"listener": [{"tcp": {"address": "127.0.0.1:8200"}}]}`.
//!
//! This file prevents errors without a place and settings that hide behind a second one of the same
//! name: the text is checked by serde_json, and then read again with lines and with every member.

use super::findings::ConfigError;
use super::tree::{ConfigEntry, ConfigLiteral, EntryContent, LineBreaks};
use serde_json::{Deserializer, Value as Json};
use std::collections::BTreeMap;

/// Blocks with labels, and the number of labels. Every other object is a block without labels.
const LABELS: [(&str, usize); 9] = [
    ("listener", 1),
    ("storage", 1),
    ("seal", 1),
    ("ha_storage", 1),
    ("service_registration", 1),
    ("user_lockout", 1),
    ("audit", 2),
    ("initialize", 1),
    ("request", 1),
];

/// Parses a text.
///
/// # Errors
/// The first syntax error, a text that is not an object, or a value that is given twice.
pub(super) fn parse(text: &str) -> Result<Vec<ConfigEntry>, ConfigError> {
    // The parser bounds the depth only of values that are kept.
    if let Err(error) = serde_json::from_str::<Json>(text) {
        let message = format!("column {}: {error}", error.column());
        return Err(ConfigError::at(error.line().max(1), message));
    }
    let mut reader = JsonReader { text, place: 0, lines: LineBreaks::of(text) };
    match reader.node()? {
        (_, JsonNode::Object(members)) => entries(members),
        (line, _) => {
            Err(ConfigError::at(line, "a configuration in JSON is a single object: { … }"))
        }
    }
}

/// A value of the text, before the distinction between values and blocks.
enum JsonNode {
    Object(Vec<JsonMember>),
    List(Vec<(usize, JsonNode)>),
    Scalar(Json),
}

struct JsonMember {
    word: String,
    line: usize,
    node: JsonNode,
}

/// A reader of a text that is known to be JSON of bounded depth.
struct JsonReader<'a> {
    text: &'a str,
    /// Byte that is read next.
    place: usize,
    lines: LineBreaks,
}

impl JsonReader<'_> {
    /// Reads a value, with its line.
    fn node(&mut self) -> Result<(usize, JsonNode), ConfigError> {
        let next = self.peek();
        let line = self.lines.at(self.place);
        let node = match next {
            Some('{') => JsonNode::Object(self.members()?),
            Some('[') => JsonNode::List(self.elements()?),
            _ => JsonNode::Scalar(self.scalar()?),
        };
        Ok((line, node))
    }

    fn members(&mut self) -> Result<Vec<JsonMember>, ConfigError> {
        let mut members = Vec::new();
        while !self.ends_after_mark('}') {
            self.peek();
            let line = self.lines.at(self.place);
            let word = self.scalar()?;
            let word = word.as_str().map(str::to_owned).ok_or_else(|| self.unreadable())?;
            self.skip_mark(':')?;
            let (_, node) = self.node()?;
            members.push(JsonMember { word, line, node });
        }
        Ok(members)
    }

    fn elements(&mut self) -> Result<Vec<(usize, JsonNode)>, ConfigError> {
        let mut elements = Vec::new();
        while !self.ends_after_mark(']') {
            elements.push(self.node()?);
        }
        Ok(elements)
    }

    /// Skips the opening or separating mark, and `end` if it follows; returns whether it did.
    fn ends_after_mark(&mut self, end: char) -> bool {
        if self.peek() != Some(end) {
            self.place += 1;
        }
        let is_end = self.peek() == Some(end);
        self.place += usize::from(is_end);
        is_end
    }

    fn skip_mark(&mut self, mark: char) -> Result<(), ConfigError> {
        if self.peek() != Some(mark) {
            return Err(self.unreadable());
        }
        self.place += mark.len_utf8();
        Ok(())
    }

    /// Returns the next character that is not white space, without reading it.
    fn peek(&mut self) -> Option<char> {
        let rest = self.text.get(self.place..).unwrap_or_default();
        self.place += rest.len() - rest.trim_start().len();
        rest.trim_start().chars().next()
    }

    fn scalar(&mut self) -> Result<Json, ConfigError> {
        let rest = self.text.get(self.place..).unwrap_or_default();
        let mut values = Deserializer::from_str(rest).into_iter::<Json>();
        let value = values.next().and_then(Result::ok).ok_or_else(|| self.unreadable())?;
        self.place += values.byte_offset();
        Ok(value)
    }

    fn unreadable(&self) -> ConfigError {
        ConfigError::at(self.lines.at(self.place), "this is not a value of JSON")
    }
}

/// Converts the members of an object.
///
/// # Errors
/// A value is given twice. Blocks may be: several listeners are several blocks.
fn entries(members: Vec<JsonMember>) -> Result<Vec<ConfigEntry>, ConfigError> {
    let mut found = Vec::new();
    let mut values = BTreeMap::new();
    for JsonMember { word, line, node } in members {
        if is_block(&node) {
            let labels = LABELS.iter().find(|(name, _)| *name == word).map_or(0, |(_, many)| *many);
            blocks(&Head { word, line }, node, (Vec::new(), labels), &mut found)?;
        } else {
            if let Some(first) = values.insert(word.clone(), line) {
                let twice =
                    format!("{word} is given on line {first} already; leave one of the two out");
                return Err(ConfigError::at(line, twice));
            }
            found.push(ConfigEntry { word, line, content: EntryContent::Value(literal(node)) });
        }
    }
    Ok(found)
}

fn is_block(node: &JsonNode) -> bool {
    match node {
        JsonNode::Object(_) => true,
        JsonNode::List(elements) => {
            !elements.is_empty() && elements.iter().all(|(_, node)| is_block(node))
        }
        JsonNode::Scalar(_) => false,
    }
}

/// The word of a block, and its line.
struct Head {
    word: String,
    line: usize,
}

/// Adds the blocks of a word: `labels` holds the labels so far and the number of those that follow.
fn blocks(
    head: &Head,
    node: JsonNode,
    (labels, more): (Vec<String>, usize),
    found: &mut Vec<ConfigEntry>,
) -> Result<(), ConfigError> {
    match node {
        JsonNode::List(elements) => {
            for (line, node) in elements {
                let head = Head { word: head.word.clone(), line };
                blocks(&head, node, (labels.clone(), more), found)?;
            }
        }
        JsonNode::Object(members) if more > 0 => {
            for JsonMember { word, line, node } in members {
                let head = Head { word: head.word.clone(), line };
                let labels = labels.iter().cloned().chain([word]).collect();
                blocks(&head, node, (labels, more - 1), found)?;
            }
        }
        JsonNode::Object(members) => {
            let content = EntryContent::Block { labels, entries: entries(members)? };
            found.push(ConfigEntry { word: head.word.clone(), line: head.line, content });
        }
        // Fewer labels than the block takes: the check of the labels refuses it.
        JsonNode::Scalar(_) => {
            let content = EntryContent::Block { labels: Vec::new(), entries: Vec::new() };
            found.push(ConfigEntry { word: head.word.clone(), line: head.line, content });
        }
    }
    Ok(())
}

fn literal(node: JsonNode) -> ConfigLiteral {
    match node {
        JsonNode::Scalar(Json::Bool(flag)) => ConfigLiteral::Flag(flag),
        JsonNode::Scalar(Json::Number(number)) => ConfigLiteral::Number(number),
        JsonNode::Scalar(Json::String(text)) => ConfigLiteral::Text(text),
        JsonNode::Scalar(_) => ConfigLiteral::Unusable("null is not a value".to_owned()),
        JsonNode::List(elements) => ConfigLiteral::List(
            elements.into_iter().map(|(line, node)| (line, literal(node))).collect(),
        ),
        JsonNode::Object(_) => ConfigLiteral::Unusable("{ … } has no meaning here".to_owned()),
    }
}
