//! Changes of entries: validation, and the secrets in the changes.

use super::entry::DirectoryAttribute;
use super::failure::{LdapFailure, failed};
use super::query::is_attribute;
use crate::limits;

/// Maximum number of changes of an entry in a request.
const CHANGES: usize = 64;
/// Attributes with passwords as values.
const PASSWORDS: [&str; 2] = ["userPassword", "unicodePwd"];

/// A change of an entry.
pub enum AttributeChange {
    /// Adds values.
    Add(DirectoryAttribute),
    /// Deletes values; without values, the attribute.
    Delete(DirectoryAttribute),
    /// Replaces all values.
    Replace(DirectoryAttribute),
}

fn attribute(change: &AttributeChange) -> &DirectoryAttribute {
    match change {
        AttributeChange::Add(attribute)
        | AttributeChange::Delete(attribute)
        | AttributeChange::Replace(attribute) => attribute,
    }
}

/// Checks the changes of an entry.
///
/// # Errors
/// The fault of the changes, without quoting a value.
pub fn check_changes(changes: &[AttributeChange]) -> Result<(), LdapFailure> {
    let invalid = |why: &str| Err(failed("invalid-request", why));
    if changes.is_empty() || changes.len() > CHANGES {
        return invalid("an entry is changed in 1 to 64 ways at a time");
    }
    if changes.iter().any(|change| !is_attribute(&attribute(change).name)) {
        return invalid("an attribute is a name of letters, digits and hyphens, or an OID");
    }
    if changes
        .iter()
        .any(|change| matches!(change, AttributeChange::Add(added) if added.values.is_empty()))
    {
        return invalid("a change adds no value");
    }
    let values = changes.iter().flat_map(|change| &attribute(change).values);
    if values.map(Vec::len).sum::<usize>() > limits::LDAP_MESSAGE_BYTES {
        return invalid("the values of the changes are longer than 1 MiB");
    }
    Ok(())
}

/// Returns the passwords in the changes, as texts. A password in UTF-16 is decoded, without its
/// quotes.
pub fn secrets(changes: &[AttributeChange]) -> Vec<String> {
    let is_password =
        |name: &str| PASSWORDS.iter().any(|password| password.eq_ignore_ascii_case(name));
    let changed = changes.iter().map(attribute).filter(|changed| is_password(&changed.name));
    changed.flat_map(|changed| &changed.values).flat_map(|value| texts(value)).collect()
}

fn texts(value: &[u8]) -> Vec<String> {
    let (pairs, _) = value.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let wide = String::from_utf16_lossy(&units);
    vec![String::from_utf8_lossy(value).into_owned(), wide.trim_matches('"').to_owned()]
}
