//! Parser for the keyword form of a connection string: `host=db port=5432 user='{{username}}'
//! password='{{password}}' dbname=orders`.

use crate::codes::Code;
use bulkhead_sdk::connection::{CONNECTION_URL, ConnectionParameters, WrittenValue};
use bulkhead_sdk::database_plugin::Refusal;

/// Parses libpq's list of `keyword = value` pairs. Values are bare or in `'…'`; a `\` escapes the
/// next character.
pub(crate) fn read(text: &str) -> Result<ConnectionParameters, Refusal> {
    let mut parameters = ConnectionParameters::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let place = (parameters.named.len() + 1).to_string();
        let refused = || Code::KeywordSyntax.about(CONNECTION_URL).with("position", place.as_str());
        let (keyword, after) = rest.split_once('=').ok_or_else(refused)?;
        let keyword = keyword.trim_end();
        if keyword.is_empty() || !keyword.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(refused());
        }
        let (written, after) = value(after.trim_start()).ok_or_else(refused)?;
        parameters.named.push((keyword.to_owned(), WrittenValue { written, encoded: false }));
        rest = after.trim_start();
    }
    parameters.take_named_hosts()?;
    Ok(parameters)
}

/// Returns the value at the start of `text`, and the remaining text.
fn value(text: &str) -> Option<(String, &str)> {
    let quoted = text.strip_prefix('\'');
    let mut characters = quoted.unwrap_or(text).chars();
    let mut value = String::new();
    loop {
        let rest = characters.as_str();
        match characters.next() {
            None if quoted.is_some() => return None,
            None => return Some((value, rest)),
            Some('\0') => return None,
            Some('\\') => value.push(characters.next()?),
            Some('\'') if quoted.is_some() => {
                let after = characters.as_str();
                let parted = after.is_empty() || after.starts_with(char::is_whitespace);
                return parted.then_some((value, after));
            }
            Some(space) if quoted.is_none() && space.is_whitespace() => return Some((value, rest)),
            Some(other) => value.push(other),
        }
    }
}
