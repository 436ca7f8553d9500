//! The keyword form of PostgreSQL's clients: `host=db.example user=bulkhead password='a b'`.

use bulkhead_record::fault::StoreFault;

use super::parameters::{Parameters, refused};

/// Reads the keyword form. A value in single quotes may contain spaces, and a backslash takes the
/// meaning from the next character.
///
/// # Errors
/// [`StoreFault::Refused`] with the part that cannot be read.
pub(super) fn parameters_of(text: &str) -> Result<Parameters, StoreFault> {
    let mut parameters = Parameters::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) =
            rest.split_once('=').ok_or_else(|| refused("a word is not followed by ="))?;
        let name = name.trim_end();
        if name.contains(char::is_whitespace) {
            return Err(refused(
                "a word is not followed by =; write a value with spaces in quotes",
            ));
        }
        let (value, after) = value(after.trim_start())?;
        parameters.set(name, value)?;
        rest = after.trim_start();
    }
    Ok(parameters)
}

/// Returns the value at the start of a text, and the text after the value.
fn value(text: &str) -> Result<(String, &str), StoreFault> {
    let is_quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(is_quoted));
    while let Some((position, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, next)| next)),
            '\'' if is_quoted => {
                let after = text.get(position + 1..).unwrap_or_default();
                return match after.is_empty() || after.starts_with(char::is_whitespace) {
                    true => Ok((value, after)),
                    false => Err(refused("a quoted value is not followed by a space")),
                };
            }
            _ if !is_quoted && character.is_whitespace() => {
                return Ok((value, text.get(position..).unwrap_or_default()));
            }
            other => value.push(other),
        }
    }
    match is_quoted {
        true => Err(refused("a quoted value has no end")),
        false => Ok((value, "")),
    }
}
