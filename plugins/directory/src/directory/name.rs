//! Forms of an account name: a DN, a user principal name, or a short name.

use crate::settings::AD;

/// An account name as the directory is searched for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AccountName<'a> {
    /// The entry with this DN.
    Dn(&'a str),
    /// An entry with at least one of these attribute values.
    Values(Vec<(&'static str, &'a str)>),
}

/// Classifies `name` for a directory of that schema. A condition on an attribute that is missing in
/// the directory matches no entry.
pub(super) fn name_of<'a>(name: &'a str, schema: &str) -> AccountName<'a> {
    if is_dn(name) {
        return AccountName::Dn(name);
    }
    let attributes: &[&'static str] = match (schema == AD, name.contains('@')) {
        (true, true) => &["userPrincipalName"],
        (true, false) => &["userPrincipalName", "sAMAccountName", "cn"],
        (false, _) => &["cn", "uid", "userPrincipalName", "sAMAccountName"],
    };
    AccountName::Values(attributes.iter().map(|attribute| (*attribute, name)).collect())
}

/// Returns true if `name` begins with an attribute name and `=`, which only a DN does.
pub(crate) fn is_dn(name: &str) -> bool {
    let Some((attribute, value)) = name.split_once('=') else { return false };
    let is_letter = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '.';
    !value.is_empty()
        && attribute.starts_with(|one: char| one.is_ascii_alphanumeric())
        && attribute.trim_end().chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::OPENLDAP;

    fn attributes(name: &str, schema: &str) -> Vec<&'static str> {
        match name_of(name, schema) {
            AccountName::Dn(_) => Vec::new(),
            AccountName::Values(values) => {
                values.into_iter().map(|(attribute, _)| attribute).collect()
            }
        }
    }

    #[test]
    fn account_name_form_selects_search_attributes() {
        let short = ["userPrincipalName", "sAMAccountName", "cn"];
        assert_eq!(attributes("bob@corp.example", AD), ["userPrincipalName"]);
        assert_eq!(attributes("bob", AD), short);
        assert_eq!(attributes("*)(objectClass=*", AD), short, "a value like any other");
        assert_eq!(attributes("bob", OPENLDAP)[..2], ["cn", "uid"]);
        for dn in ["CN=bob,DC=corp", "uid=a\\,b,dc=x", "2.5.4.3=bob"] {
            assert_eq!(name_of(dn, AD), AccountName::Dn(dn));
        }
        for name in ["=x", "a(b=c", "cn=", "b*=c"] {
            assert!(!is_dn(name), "{name}");
        }
    }
}
