//! Roles that statements create by their text.
//!
//! This file prevents an account without an end: a creation may make more roles than the single
//! role for the caller. Only statements whose effect on roles is evident from their text count;
//! code such as `DO` or a function may create any role.

use bulkhead_sdk::statements::FilledStatement;

/// Maximum length of a name in bytes; the server cuts longer names.
const MAX_NAME_BYTES: usize = 63;

/// Beginnings of statements that create a role, and name the role next.
const CREATING: [&[&str]; 3] = [&["create", "role"], &["create", "user"], &["create", "group"]];

/// Beginnings of statements that create no role.
const OTHERS: [&[&str]; 12] = [
    &["create", "user", "mapping"],
    &["grant"],
    &["revoke"],
    &["alter", "role"],
    &["alter", "user"],
    &["alter", "group"],
    &["alter", "default", "privileges"],
    &["comment", "on"],
    &["set"],
    &["reset"],
    &["create", "schema"],
    &["alter", "schema"],
];

/// The roles created by statements, as far as shown by the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedRoles {
    pub(crate) names: Vec<String>,
    /// A statement may create or rename roles without naming them.
    pub(crate) runs_code: bool,
}

/// Returns the roles that `creation` creates.
pub(crate) fn created(creation: &[FilledStatement]) -> NamedRoles {
    let mut roles = NamedRoles::default();
    for text in creation.iter().map(|prepared| prepared.statement.text.as_str()) {
        if OTHERS.iter().any(|beginning| after(text, beginning).is_some()) {
            roles.runs_code |= is_rename(text);
            continue;
        }
        let name = CREATING.iter().find_map(|beginning| after(text, beginning));
        match name.and_then(identifier) {
            Some(name) => roles.names.push(name),
            None => roles.runs_code = true,
        }
    }
    roles
}

/// Returns the text behind the words `beginning`.
fn after<'t>(text: &'t str, beginning: &[&str]) -> Option<&'t str> {
    let mut rest = text.trim_start();
    for word in beginning {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (first, tail) = rest.split_at(end);
        if !first.eq_ignore_ascii_case(word) {
            return None;
        }
        rest = tail.trim_start();
    }
    Some(rest)
}

fn is_rename(text: &str) -> bool {
    text.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("rename"))
}

/// Returns the identifier at the start of `text`, as the server stores the identifier; `None` for a
/// spelling that this function does not read.
fn identifier(text: &str) -> Option<String> {
    let mut name = whole_identifier(text)?;
    name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
    Some(name)
}

fn whole_identifier(text: &str) -> Option<String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let name = text.get(..end).unwrap_or_default();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_name = !name.is_empty() && name.chars().all(is_plain);
        return is_name.then(|| name.to_ascii_lowercase());
    };
    let (mut name, mut letters) = (String::new(), quoted.chars().peekable());
    while let Some(letter) = letters.next() {
        if letter == '"' && letters.next_if_eq(&'"').is_none() {
            return Some(name);
        }
        name.push(letter);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::statements::{PlaceholderValues, SqlDialect, prepare};

    fn roles(text: &str) -> NamedRoles {
        let values = PlaceholderValues {
            username: "v-A",
            password: Some("pw"),
            subject: None,
            expiration: None,
        };
        created(&prepare(SqlDialect::Postgres, &[text.to_owned()], &values).unwrap())
    }

    #[test]
    fn a_creation_names_its_roles_or_runs_code() {
        for (text, names, runs_code) in [
            ("CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}'", &["v-A"][..], false),
            ("create  user App LOGIN; GRANT app TO \"{{name}}\"", &["app"], false),
            ("CREATE ROLE a_b; CREATE GROUP Readers", &["a_b", "readers"], false),
            ("CREATE ROLE \"{{name}}_ro\"; CREATE ROLE \"a\"\"b\"", &["v-A_ro", "a\"b"], false),
            ("CREATE USER MAPPING FOR app SERVER s", &[], false),
            ("ALTER ROLE \"{{name}}\" SET search_path = a", &[], false),
            ("ALTER ROLE app RENAME TO \"{{name}}\"", &[], true),
            ("CREATE ROLE U&\"d\\0061\"", &[], true),
            ("CREATE ROLE \"{{name}}\"; DO $$ BEGIN CREATE ROLE x; END $$", &["v-A"], true),
            ("SELECT make('{{name}}')", &[], true),
            ("CREATE ROLES x", &[], true),
        ] {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(roles(text), NamedRoles { names, runs_code }, "{text}");
        }
    }

    #[test]
    fn long_name_is_truncated_as_by_server() {
        let long = format!("CREATE ROLE \"{}ä_ro\"", "x".repeat(62));
        assert_eq!(roles(&long).names, ["x".repeat(62)]);
    }
}
