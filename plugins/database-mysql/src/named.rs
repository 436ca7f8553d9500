//! Accounts of a user that statements name: accounts whose name follows from the user's name.
//!
//! If the connection's user may not read `mysql.user`, statements are the only source about a
//! user's accounts. Only statements whose effect on accounts is evident from their text count.

use crate::account_list::{self, AccountList};
use crate::accounts::{ANY_HOST, AccountPlace};
use bulkhead_sdk::database_plugin::is_derived_name;
use bulkhead_sdk::statements::FilledStatement;

/// Beginnings of statements that create no accounts except the accounts that they name.
const READABLE: [&str; 11] = [
    "create user",
    "grant",
    "alter user",
    "set",
    "revoke",
    "flush",
    "use",
    "create role",
    "create database",
    "create schema",
    "create table",
];

/// The accounts of a user that statements create, as far as their text shows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedAccounts {
    pub(crate) places: Vec<AccountPlace>,
    /// Places in statements that contain the generated password. In other statements, several users
    /// may share a password.
    pub(crate) with_password: Vec<AccountPlace>,
    /// A statement may create accounts without naming them.
    pub(crate) runs_code: bool,
    /// Each place is created by a statement of its own, so that the server refuses a taken name
    /// before the statement has made anything.
    pub(crate) is_evident: bool,
}

/// Returns the accounts that `creation` may have created for `username`.
pub(crate) fn created(creation: &[FilledStatement], username: &str) -> NamedAccounts {
    let mut named = NamedAccounts { is_evident: true, ..NamedAccounts::default() };
    for statement in creation.iter().map(|prepared| &prepared.statement) {
        let text = statement.text.as_str();
        let begins = |beginning: &&str| account_list::begins(text, beginning);
        named.runs_code |= !READABLE.iter().any(begins) || begins(&"set statement");
        let Some(list) = account_list::created(text) else { continue };
        let own = own_places(&list, username);
        named.is_evident &= match list.is_about_users {
            true => own.is_empty() || list.is_plain && list.accounts.len() == 1,
            false => own.iter().all(|place| named.places.contains(place)),
        };
        if statement.secret {
            add(&mut named.with_password, &own);
        }
        add(&mut named.places, &own);
    }
    named.is_evident &= named.places.iter().any(|place| place.name == username);
    named
}

/// Returns the accounts of `username` that `revocation` drops.
pub(crate) fn dropped(revocation: &[FilledStatement], username: &str) -> Vec<AccountPlace> {
    let mut places = Vec::new();
    for text in revocation.iter().map(|prepared| prepared.statement.text.as_str()) {
        if let Some(list) = account_list::dropped(text) {
            add(&mut places, &own_places(&list, username));
        }
    }
    places
}

/// Returns the accounts of the list whose names follow from the name of the user.
fn own_places(list: &AccountList, username: &str) -> Vec<AccountPlace> {
    let own = list.accounts.iter().filter(|account| is_derived_name(&account.0, username));
    let place = |(name, host): &(String, Option<String>)| AccountPlace {
        name: name.clone(),
        host: host.clone().unwrap_or_else(|| ANY_HOST.to_owned()),
    };
    own.map(place).collect()
}

fn add(places: &mut Vec<AccountPlace>, more: &[AccountPlace]) {
    let new: Vec<AccountPlace> =
        more.iter().filter(|place| !places.contains(place)).cloned().collect();
    places.extend(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::statements::{PlaceholderValues, SqlDialect, prepare};

    fn prepared(texts: &[&str]) -> Vec<FilledStatement> {
        let values = PlaceholderValues {
            username: "v-a",
            password: Some("pw"),
            subject: Some("/CN=v-a"),
            expiration: None,
        };
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        prepare(SqlDialect::Mysql, &texts, &values).unwrap()
    }

    fn quoted(places: &[AccountPlace]) -> Vec<String> {
        places.iter().map(AccountPlace::quoted).collect()
    }

    #[test]
    fn a_creation_names_its_accounts_or_runs_code() {
        for (texts, places, runs_code) in [
            (
                &["CREATE USER '{{name}}'@'10.%' IDENTIFIED BY '{{password}}'"][..],
                &["'v-a'@'10.%'"][..],
                false,
            ),
            (
                &["create  user `{{name}}` @ localhost; GRANT x ON y TO '{{name}}'@\"%\""],
                &["'v-a'@'localhost'", "'v-a'@'%'"],
                false,
            ),
            (&["CREATE USER '{{name}}' REQUIRE SUBJECT '{{subject}}'"], &["'v-a'@'%'"], false),
            (&["CREATE USER '{{name}}'@'%'; FLUSH PRIVILEGES"], &["'v-a'@'%'"], false),
            (&["CREATE USER '{{name}}'@'%'; CALL more('{{name}}')"], &["'v-a'@'%'"], true),
            (&["EXECUTE IMMEDIATE 'CREATE USER x'"], &[], true),
            (
                &["CREATE USER '{{name}}'@'%', '{{name}}_ro'@10.0.0.1, 'other'@'%'"],
                &["'v-a'@'%'", "'v-a_ro'@'10.0.0.1'"],
                false,
            ),
            (&["CREATE USER '{{name}}'@'%' COMMENT 'for {{name}}'"], &["'v-a'@'%'"], false),
        ] {
            let named = created(&prepared(texts), "v-a");
            assert_eq!(quoted(&named.places), places, "{texts:?}");
            assert_eq!(named.runs_code, runs_code, "{texts:?}");
        }
    }

    #[test]
    fn creation_is_evident_or_must_be_looked_up() {
        for (text, is_evident) in [
            ("CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'", true),
            ("create  user `{{name}}` IDENTIFIED BY '{{password}}'", true),
            ("CREATE USER '{{name}}'@'%' REQUIRE SUBJECT '{{subject}}'", true),
            ("CREATE USER '{{name}}'@'%'; CREATE USER '{{name}}'@'10.%'", true),
            ("CREATE USER '{{name}}'@'%', '{{name}}'@'10.%'", false),
            ("CREATE USER '{{name}}'@'%'; CREATE USER IF NOT EXISTS '{{name}}'@'10.%'", false),
            ("CREATE USER IF NOT EXISTS '{{name}}'@'%'", false),
            ("CREATE OR REPLACE USER '{{name}}'@'%'", false),
            ("CREATE USER '{{name}}-app'@'%'", false),
            ("CREATE USER other, '{{name}}'", false),
            ("CREATE USER '{{name}}'@'%'; GRANT x ON y TO '{{name}}'@'%'", true),
            ("GRANT x ON y TO '{{name}}'", false),
        ] {
            assert_eq!(created(&prepared(&[text]), "v-a").is_evident, is_evident, "{text}");
        }
    }

    #[test]
    fn only_statement_with_password_gives_identity() {
        let texts =
            ["CREATE USER '{{name}}' IDENTIFIED BY '{{password}}'", "CREATE USER '{{name}}_f'"];
        let named = created(&prepared(&texts), "v-a");
        assert_eq!(quoted(&named.with_password), ["'v-a'@'%'"]);
    }

    #[test]
    fn a_revocation_names_the_accounts_that_it_drops() {
        let texts = prepared(&[
            "REVOKE x ON y FROM '{{name}}'@'172.%'; DROP USER IF EXISTS '{{name}}'@'10.%', other",
            "DROP USER '{{name}}'@'10.%'; DROP ROLE '{{name}}'",
        ]);
        assert_eq!(quoted(&dropped(&texts, "v-a")), ["'v-a'@'10.%'"]);
        assert_eq!(dropped(&texts, "v-b"), []);
    }
}
