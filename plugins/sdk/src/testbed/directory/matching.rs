//! DNs, scopes and filters of the directory in memory. Names and values are compared without case,
//! and without spaces around the commas of a DN.

use crate::ldap::{Filter, LdapEntry, SearchScope};

/// Returns a DN in canonical spelling. An escaped comma stays part of its value.
pub(super) fn dn_key(dn: &str) -> String {
    let mut key = String::with_capacity(dn.len());
    let mut rest = dn.trim();
    while let Some(comma) = end_of_part(rest) {
        let (part, behind) = rest.split_at(comma);
        key.push_str(part.trim());
        key.push(',');
        rest = behind.strip_prefix(',').unwrap_or(behind).trim_start();
    }
    key.push_str(rest.trim());
    key.to_lowercase()
}

/// Returns the end of a DN's first part, if another part follows.
fn end_of_part(dn: &str) -> Option<usize> {
    let mut is_escaped = false;
    dn.char_indices().find_map(|(at, c)| {
        let ends = c == ',' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// Returns true if the entry is in the scope. Both DNs must be in canonical spelling.
pub(super) fn covers(base: &str, scope: SearchScope, entry: &str) -> bool {
    let below = entry.strip_suffix(base).and_then(|below| below.strip_suffix(','));
    match scope {
        SearchScope::Base => entry == base,
        SearchScope::OneLevel => below.is_some_and(|below| end_of_part(below).is_none()),
        SearchScope::Subtree => entry == base || below.is_some(),
    }
}

/// Returns true if the filter matches the entry.
pub(super) fn holds(filter: &Filter, entry: &LdapEntry) -> bool {
    filter.all_of.iter().all(|any_of| {
        any_of.iter().any(|condition| {
            let is_name = condition.attribute.eq_ignore_ascii_case("distinguishedName");
            let values = entry.values(&condition.attribute);
            match &condition.value {
                None => !values.is_empty(),
                Some(wanted) if is_name => {
                    dn_key(&String::from_utf8_lossy(wanted)) == dn_key(&entry.dn)
                }
                Some(wanted) => values.iter().any(|value| is_same(value, wanted)),
            }
        })
    })
}

pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (std::str::from_utf8(one), std::str::from_utf8(other)) {
        (Ok(one), Ok(other)) => one.to_lowercase() == other.to_lowercase(),
        _ => one == other,
    }
}

/// Returns the entry with the requested attributes only.
pub(super) fn selected(entry: &LdapEntry, attributes: &[String]) -> LdapEntry {
    let is_asked = |name: &str| {
        attributes.iter().any(|attribute| attribute == "*" || attribute.eq_ignore_ascii_case(name))
    };
    let shown = entry.attributes.iter().filter(|(name, _)| is_asked(name));
    LdapEntry { dn: entry.dn.clone(), attributes: shown.cloned().collect() }
}
