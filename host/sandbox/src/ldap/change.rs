//! Changes of entries: validation, and the secrets in the changes.

use super::failure::{LdapFailure, failed};
use super::query::is_attribute;
use crate::bindings::secrets_engine::bulkhead::plugin::ldap::{Attribute, Change};
use crate::limits;

/// Maximum number of changes of an entry in a request.
const CHANGES: usize = 64;
/// Attributes with passwords as values.
const PASSWORDS: [&str; 2] = ["userPassword", "unicodePwd"];

fn attribute(change: &Change) -> &Attribute {
    match change {
        Change::Add(attribute) | Change::Delete(attribute) | Change::Replace(attribute) => {
            attribute
        }
    }
}

/// Checks the changes of an entry.
///
/// # Errors
/// The fault of the changes, without quoting a value.
pub(crate) fn check_changes(changes: &[Change]) -> Result<(), LdapFailure> {
    let invalid = |why: &str| Err(failed("invalid-request", why));
    if changes.is_empty() || changes.len() > CHANGES {
        return invalid("an entry is changed in 1 to 64 ways at a time");
    }
    if changes.iter().any(|change| !is_attribute(&attribute(change).name)) {
        return invalid("an attribute is a name of letters, digits and hyphens, or an OID");
    }
    if changes.iter().any(|change| matches!(change, Change::Add(added) if added.values.is_empty()))
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
pub(crate) fn secrets(changes: &[Change]) -> Vec<String> {
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
