//! Reads HCL1 into the tree, with the parser of policies (decision T9).
//!
//! This file prevents a setting that hides behind a second setting of the same name, and a text
//! that other programs would compute: `${` is refused.

use super::findings::ConfigError;
use super::tree::{ConfigEntry, ConfigLiteral, EntryContent};
use bulkhead_wire::hcl::{self, HclBody, HclItem, HclValue, SyntaxError};
use std::collections::BTreeSet;

/// Parses a text.
///
/// # Errors
/// The first syntax error, because the parser does not continue after one; the first setting that
/// is given twice in a block.
pub(super) fn parse(text: &str) -> Result<Vec<ConfigEntry>, ConfigError> {
    let SyntaxError { line, column, message } = match hcl::parse(text) {
        Ok(body) => return entries(body),
        Err(error) => error,
    };
    Err(ConfigError::at(line, format!("column {column}: {message}")))
}

fn entries(body: HclBody) -> Result<Vec<ConfigEntry>, ConfigError> {
    let mut values = BTreeSet::new();
    let mut entry = |HclItem { key, labels, value, line, element_lines }: HclItem| {
        let content = match value {
            HclValue::Block(body) => EntryContent::Block { labels, entries: entries(body)? },
            _ if !values.insert(key.clone()) => {
                let twice = "this key is given before in the same block; leave one of the two out";
                return Err(ConfigError::at(line, twice));
            }
            value => EntryContent::Value(literal(value, line, &element_lines)),
        };
        Ok(ConfigEntry { word: key, line, content })
    };
    body.items.into_iter().map(&mut entry).collect()
}

/// Converts a value. An element without a line has the line of its list.
fn literal(value: HclValue, line: usize, element_lines: &[usize]) -> ConfigLiteral {
    match value {
        HclValue::Bool(flag) => ConfigLiteral::Flag(flag),
        HclValue::Number(number) => ConfigLiteral::Number(number),
        HclValue::Text(text) if text.contains("${") => {
            ConfigLiteral::Unusable("${…} is not computed here".to_owned())
        }
        HclValue::Text(text) => ConfigLiteral::Text(text),
        HclValue::List(elements) => {
            let lines = element_lines.iter().copied().chain(std::iter::repeat(line));
            let element = |(element, line)| (line, literal(element, line, &[]));
            ConfigLiteral::List(elements.into_iter().zip(lines).map(element).collect())
        }
        HclValue::Block(_) => ConfigLiteral::Unusable("{ … } has no meaning here".to_owned()),
    }
}
