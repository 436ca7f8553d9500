//! Validation of a search. The filter is built from its parts, and each value is escaped byte by
//! byte.
//!
//! This file prevents filter injection: a value such as `*)(uid=*` that ends its condition and
//! begins another condition (RFC 4515, section 3), and an attribute that is more than a name.

use super::failure::{LdapFailure, failed};

use crate::limits;

/// Maximum number of conditions of a filter.
const CONDITIONS: usize = 64;
/// Maximum number of attributes of a search.
const ATTRIBUTES: usize = 64;
/// Maximum length in bytes of an attribute's name.
const NAME: usize = 256;
/// The attribute list that asks for no attribute (RFC 4511, section 4.5.1.8).
const NO_ATTRIBUTE: &str = "1.1";

/// A search.
pub struct DirectoryQuery {
    /// Name of the entry where the search begins; empty: the server's own entry.
    pub base: String,
    /// The searched entries.
    pub scope: SearchScope,
    /// A conjunction of disjunctions; empty: every entry.
    pub filter: Vec<Vec<FilterCondition>>,
    /// The attributes to return; empty: none.
    pub attributes: Vec<String>,
    /// Maximum number of entries. 0: the default, and more entries are an error.
    pub limit: u32,
}

/// The entries that a search looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchScope {
    /// The base alone.
    Base,
    /// The direct children of the base.
    OneLevel,
    /// The base and everything below.
    Subtree,
}

/// A condition of a filter.
pub struct FilterCondition {
    /// A name or an OID.
    pub attribute: String,
    /// The required value; `None`: any value.
    pub value: Option<Vec<u8>>,
}

/// A checked search.
#[derive(Clone)]
pub struct CheckedSearch {
    pub(super) base: String,
    pub(super) scope: ldap3::Scope,
    pub(super) filter: String,
    pub(super) attributes: Vec<String>,
    /// Maximum number of entries.
    pub(super) most: u32,
    /// `true`: surplus entries are dropped. `false`: surplus entries are an error.
    pub(super) leaves_out: bool,
}

/// Checks a search and builds its filter.
///
/// # Errors
/// The fault of the search, without quoting a value.
pub fn prepare(query: DirectoryQuery) -> Result<CheckedSearch, LdapFailure> {
    check_dn(&query.base)?;
    let (conditions, names) = (query.filter.iter().map(Vec::len).sum::<usize>(), query.attributes);
    if conditions > CONDITIONS || names.len() > ATTRIBUTES {
        return Err(invalid("a search has at most 64 conditions and 64 attributes"));
    }
    if query.limit > limits::LDAP_ENTRIES {
        return Err(invalid("a search finds at most 10,000 entries"));
    }
    if names.iter().any(|name| !is_attribute(name)) {
        return Err(invalid("an attribute is a name of letters, digits and hyphens, or an OID"));
    }
    let usual = vec![NO_ATTRIBUTE.to_owned()];
    Ok(CheckedSearch {
        base: query.base,
        scope: match query.scope {
            SearchScope::Base => ldap3::Scope::Base,
            SearchScope::OneLevel => ldap3::Scope::OneLevel,
            SearchScope::Subtree => ldap3::Scope::Subtree,
        },
        filter: filter(&query.filter)?,
        attributes: if names.is_empty() { usual } else { names },
        most: if query.limit == 0 { limits::LDAP_USUAL_ENTRIES } else { query.limit },
        leaves_out: query.limit > 0,
    })
}

/// Checks that a text has the form of a DN (RFC 4514): parts of a type, an equals sign and a value,
/// without a lone backslash at the end. Also accepts Active Directory's `<GUID=…>`. The check is
/// about the form only: a component that builds a DN escapes the values itself.
///
/// # Errors
/// The text has not the form of a DN.
pub fn check_dn(dn: &str) -> Result<(), LdapFailure> {
    let is_guid = dn.strip_prefix("<GUID=").and_then(|rest| rest.strip_suffix('>'));
    let is_guid = is_guid
        .is_some_and(|guid| guid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'));
    let is_dn = dn.len() <= limits::LDAP_TEXT_BYTES
        && !dn.contains('\0')
        && (dn.is_empty() || is_guid || parts(dn).is_some_and(|parts| parts.iter().all(is_part)));
    if is_dn {
        return Ok(());
    }
    Err(invalid("a DN is written as type=value,type=value, with escaped values"))
}

/// Splits a DN at its unescaped commas and plus signs. `None`: the DN ends with a lone backslash.
fn parts(dn: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut is_escaped) = (Vec::new(), 0, false);
    for (at, c) in dn.char_indices() {
        if !is_escaped && matches!(c, ',' | '+') {
            parts.push(dn.get(start..at)?);
            start = at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    parts.push(dn.get(start..)?);
    (!is_escaped).then_some(parts)
}

fn is_part(part: &&str) -> bool {
    part.split_once('=').is_some_and(|(name, _)| is_attribute(name.trim()))
}

/// Returns whether `name` is a name or an OID, without options.
pub(crate) fn is_attribute(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    (1..=NAME).contains(&name.len())
        && name.bytes().all(letter)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn filter(all_of: &[Vec<FilterCondition>]) -> Result<String, LdapFailure> {
    let mut text = String::from("(&(objectClass=*)");
    for any_of in all_of {
        if any_of.is_empty() {
            return Err(invalid(
                "a part of the filter has no condition, and would hold for nothing",
            ));
        }
        text.push_str("(|");
        for condition in any_of {
            push(&mut text, condition)?;
        }
        text.push(')');
    }
    text.push(')');
    Ok(text)
}

fn push(text: &mut String, condition: &FilterCondition) -> Result<(), LdapFailure> {
    if !is_attribute(&condition.attribute) {
        return Err(invalid("an attribute is a name of letters, digits and hyphens, or an OID"));
    }
    text.push('(');
    text.push_str(&condition.attribute);
    text.push('=');
    match &condition.value {
        None => text.push('*'),
        Some(value) => value.iter().for_each(|byte| push_byte(text, *byte)),
    }
    text.push(')');
    if text.len() > limits::LDAP_TEXT_BYTES {
        return Err(invalid("the filter is longer than 64 KiB"));
    }
    Ok(())
}

/// Appends a plain letter as written, and every other byte as its hexadecimal escape.
fn push_byte(text: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@' | b' ') {
        text.push(char::from(byte));
    } else {
        text.push_str(&format!("\\{byte:02x}"));
    }
}

fn invalid(why: &str) -> LdapFailure {
    failed("invalid-request", why)
}
