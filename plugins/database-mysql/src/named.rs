//! Hosts for which statements name accounts of a user.
//!
//! If the connection's user may not read `mysql.user`, statements are the only source about a
//! user's accounts. Only statements whose effect on accounts is evident from their text count.

use crate::accounts::ANY_HOST;
use bulkhead_sdk::statements::FilledStatement;
use bulkhead_sdk::wire::distinct::first_of_each;

/// Beginnings of statements that create no accounts except named accounts.
const READABLE: [&str; 5] = ["create user ", "grant ", "alter user ", "set ", "revoke "];

/// Quotes of the names of accounts.
const QUOTES: [char; 3] = ['\'', '"', '`'];

/// Returns the hosts for which `creation` may have created accounts of `username`; `None` if a
/// statement may create accounts without naming them.
pub(crate) fn created(creation: &[FilledStatement], username: &str) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    for text in creation.iter().map(|prepared| prepared.statement.text.as_str()) {
        READABLE.iter().find(|beginning| begins(text, beginning))?;
        hosts.extend(accounts(text, username));
    }
    Some(first_of_each(hosts))
}

/// Returns `true` if a statement of `creation` creates the user itself. The server then refuses a
/// user that exists already. Statements that adopt (`IF NOT EXISTS`) or replace (`OR REPLACE`) an
/// account do not count.
pub(crate) fn creates(creation: &[FilledStatement], username: &str) -> bool {
    let texts = creation.iter().map(|prepared| prepared.statement.text.as_str());
    texts.filter(|text| begins(text, "create user ")).any(|text| {
        let account = text.split_ascii_whitespace().nth(2).unwrap_or_default();
        QUOTES.iter().any(|quote| account.starts_with(&format!("{quote}{username}{quote}")))
    })
}

/// Returns the hosts for which `revocation` drops an account of `username`.
pub(crate) fn dropped(revocation: &[FilledStatement], username: &str) -> Vec<String> {
    let mut hosts = Vec::new();
    for text in revocation.iter().map(|prepared| prepared.statement.text.as_str()) {
        if begins(text, "drop user ") {
            hosts.extend(accounts(text, username));
        }
    }
    first_of_each(hosts)
}

fn begins(text: &str, beginning: &str) -> bool {
    let words = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    words.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

/// Returns the host of each `'username'@'host'` in `text`; `%` if no host follows the name.
fn accounts(text: &str, username: &str) -> Vec<String> {
    let mut hosts = Vec::new();
    for quote in QUOTES {
        let name = format!("{quote}{username}{quote}");
        for (at, _) in text.match_indices(&name) {
            let after = text.get(at + name.len()..).unwrap_or_default().trim_start();
            match after.strip_prefix('@') {
                Some(host) => hosts.extend(host_at(host.trim_start())),
                None => hosts.push(ANY_HOST.to_owned()),
            }
        }
    }
    hosts
}

/// Returns the host at the start of `text`, quoted or not.
fn host_at(text: &str) -> Option<String> {
    let quote = text.chars().next()?;
    if QUOTES.contains(&quote) {
        let inside = text.get(1..)?;
        return inside.find(quote).and_then(|end| inside.get(..end)).map(str::to_owned);
    }
    let goes_on = |character: char| character.is_ascii_alphanumeric() || "._-$".contains(character);
    let end = text.find(|character| !goes_on(character)).unwrap_or(text.len());
    text.get(..end).filter(|host| !host.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::statements::{PlaceholderValues, SqlDialect, prepare};

    fn prepared(texts: &[&str]) -> Vec<FilledStatement> {
        let values = PlaceholderValues {
            username: "v-a",
            password: Some("pw"),
            subject: None,
            expiration: None,
        };
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        prepare(SqlDialect::Mysql, &texts, &values).unwrap()
    }

    #[test]
    fn a_creation_names_its_accounts_or_is_not_understood() {
        for (texts, hosts) in [
            (
                &["CREATE USER '{{name}}'@'10.%' IDENTIFIED BY '{{password}}'"][..],
                Some(&["10.%"][..]),
            ),
            (
                &["create  user `{{name}}` @ localhost; GRANT x ON y TO '{{name}}'@\"%\""],
                Some(&["%", "localhost"]),
            ),
            (&["CREATE USER '{{name}}' IDENTIFIED BY '{{password}}'"], Some(&["%"])),
            (&["CREATE USER '{{name}}'@'%'; CALL more('{{name}}')"], None),
            (&["EXECUTE IMMEDIATE 'CREATE USER x'"], None),
        ] {
            let found = created(&prepared(texts), "v-a").map(|mut hosts| {
                hosts.sort();
                hosts
            });
            let hosts = hosts.map(|hosts| hosts.iter().map(|host| (*host).to_owned()).collect());
            assert_eq!(found, hosts, "{texts:?}");
        }
    }

    #[test]
    fn a_creation_is_evident_or_has_to_be_looked_at() {
        for (text, is_evident) in [
            ("CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'", true),
            ("create  user `{{name}}` IDENTIFIED BY '{{password}}'", true),
            ("CREATE USER IF NOT EXISTS '{{name}}'@'%'", false),
            ("CREATE OR REPLACE USER '{{name}}'@'%'", false),
            ("CREATE USER '{{name}}-app'@'%'", false),
            ("CREATE USER other, '{{name}}'", false),
            ("GRANT x ON y TO '{{name}}'", false),
        ] {
            assert_eq!(creates(&prepared(&[text]), "v-a"), is_evident, "{text}");
        }
    }

    #[test]
    fn a_revocation_names_the_accounts_that_it_drops() {
        let texts = prepared(&[
            "REVOKE x ON y FROM '{{name}}'@'172.%'; DROP USER IF EXISTS '{{name}}'@'10.%', other",
            "DROP USER '{{name}}'@'10.%'; DROP ROLE '{{name}}'",
        ]);
        assert_eq!(dropped(&texts, "v-a"), ["10.%"]);
        assert_eq!(dropped(&texts, "v-b"), Vec::<String>::new());
    }
}
