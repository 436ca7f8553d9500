//! Accounts of a created user: a creation may make several, and a name alone does not identify one.

use serde::{Deserialize, Serialize};

/// An account that a creation made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Name in the database.
    pub name: String,
    /// Place from which the account may log in, if the database has an account for each place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Text of the plugin that no other account of any database has; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
}

impl Account {
    /// Returns an account without host and identity.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// A user with the accounts that its creation made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreatedUser {
    /// Name that the caller got.
    pub username: String,
    /// Empty if unknown: the name then stands for the accounts.
    pub accounts: Vec<Account>,
}

/// Returns true if the name of an account follows from the name of a user: it contains the user's
/// name as a whole word. `v-app-1_ro` follows from `v-app-1`, and `v-app-10` does not.
#[must_use]
pub fn is_derived_name(name: &str, username: &str) -> bool {
    let is_letter = |one: Option<char>| one.is_some_and(char::is_alphanumeric);
    !username.is_empty()
        && name.match_indices(username).any(|(start, _)| {
            let before = name.get(..start).and_then(|before| before.chars().next_back());
            let after = name.get(start + username.len()..).and_then(|after| after.chars().next());
            !is_letter(before) && !is_letter(after)
        })
}

impl CreatedUser {
    /// Returns a user with unknown accounts.
    #[must_use]
    pub fn named(username: &str) -> Self {
        Self { username: username.to_owned(), accounts: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::is_derived_name;

    #[test]
    fn derived_name_contains_username_as_whole_word() {
        for name in ["v-app-1", "v-app-1_ro", "app.v-app-1", "x-v-app-1-y", "v-app-10-v-app-1"] {
            assert!(is_derived_name(name, "v-app-1"), "{name}");
        }
        for name in ["v-app-10", "rev-app-1", "v-app", ""] {
            assert!(!is_derived_name(name, "v-app-1"), "{name}");
        }
        assert!(!is_derived_name("any", ""));
    }
}
