//! Reads HCL into the tree (decision T9).

use super::findings::ConfigError;
use super::tree::{ConfigEntry, ConfigLiteral, EntryContent, LineBreaks};
use bulkhead_wire::failure::quoted;
use hcl::edit::Span;
use hcl::edit::expr::Expression;
use hcl::edit::parser;
use hcl::edit::structure::{BlockLabel, Body, Structure};
use serde_json::Number;
use std::ops::Range;

/// Parses a text.
///
/// # Errors
/// The first syntax error: the parser does not continue after one.
pub(super) fn parse(text: &str) -> Result<Vec<ConfigEntry>, ConfigError> {
    let body = parser::parse_body(text).map_err(|error| syntax_error(&error))?;
    Ok(entries(&body, &LineBreaks::of(text)))
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

fn entries(body: &Body, lines: &LineBreaks) -> Vec<ConfigEntry> {
    let entry = |structure: &Structure| match structure {
        Structure::Attribute(attribute) => {
            let line = line_of(attribute.key.span(), lines);
            let value = literal(&attribute.value, line, lines);
            ConfigEntry {
                word: attribute.key.to_string(),
                line,
                content: EntryContent::Value(value),
            }
        }
        Structure::Block(block) => ConfigEntry {
            word: block.ident.to_string(),
            line: line_of(block.ident.span(), lines),
            content: EntryContent::Block {
                labels: block.labels.iter().map(BlockLabel::as_str).map(str::to_owned).collect(),
                entries: entries(&block.body, lines),
            },
        },
    };
    body.iter().map(entry).collect()
}

fn line_of(place: Option<Range<usize>>, lines: &LineBreaks) -> usize {
    place.map_or_else(|| lines.last(), |place| lines.at(place.start))
}

fn literal(expression: &Expression, line: usize, lines: &LineBreaks) -> ConfigLiteral {
    match expression {
        Expression::Bool(flag) => ConfigLiteral::Flag(*flag.value()),
        Expression::String(text) => ConfigLiteral::Text(text.to_string()),
        Expression::Number(number) => match json_number(number.value()) {
            Some(number) => ConfigLiteral::Number(number),
            None => ConfigLiteral::Unusable("this number is too long".to_owned()),
        },
        Expression::Array(list) => {
            let element = |expression: &Expression| {
                let line = expression.span().map_or(line, |place| lines.at(place.start));
                (line, literal(expression, line, lines))
            };
            ConfigLiteral::List(list.iter().map(element).collect())
        }
        other => ConfigLiteral::Unusable(describe(other)),
    }
}

fn json_number(number: &hcl::Number) -> Option<Number> {
    let whole = number.as_u64().map(Number::from).or_else(|| number.as_i64().map(Number::from));
    whole.or_else(|| number.as_f64().and_then(Number::from_f64))
}

/// Describes an expression that is not a constant of a setting.
fn describe(expression: &Expression) -> String {
    match expression {
        Expression::Null(_) => "null is not a value".to_owned(),
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
