//! Keeps stored credentials of a connection from servers for which the credentials were not
//! written.
//!
//! The engine does not know the meaning of a plugin's settings. Every setting therefore counts as
//! an address, except settings that are known to be harmless, and except login and database in
//! `connection_url`.

use super::SECRET_SETTINGS;
use crate::connection::Connection;
use crate::target;
use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
use bulkhead_sdk::wire::description::DatabaseDescription;
use bulkhead_sdk::{Call, Failure};
use serde_json::Value;
use std::collections::BTreeSet;

const CONNECTION_URL: &str = "connection_url";

/// Settings that decide neither which server is dialled nor how the server proves itself.
const HARMLESS: [&str; 9] = [
    "username",
    "username_template",
    "password_authentication",
    "self_managed",
    "disable_escaping",
    "connect_timeout",
    "max_open_connections",
    "max_idle_connections",
    "max_connection_lifetime",
];

/// Harmless parameters of `connection_url`.
const HARMLESS_PARAMETERS: [&str; 3] =
    ["application_name", "connect_timeout", "fallback_application_name"];

/// Refuses a write that would send a stored credential to another server. `plugin` describes the
/// plugin of the changed connection.
///
/// # Errors
/// Invalid request that names the changed settings and the missing credentials.
pub(super) fn check(
    call: &Call,
    before: &Connection,
    after: &Connection,
    plugin: &DatabaseDescription,
) -> Result<(), Failure> {
    let is_marked = |name: &str| {
        let in_table = SECRET_SETTINGS.iter().any(|field| field.name() == name);
        in_table || plugin.settings.iter().any(|field| field.name == name && field.secret)
    };
    let names: BTreeSet<&str> =
        before.settings.keys().chain(after.settings.keys()).map(String::as_str).collect();
    let mut places = vec![
        DestinationField::of("plugin_name", before.plugin_name != after.plugin_name),
        DestinationField::of(CONNECTION_URL, leads_elsewhere(before, after)),
    ];
    let others = names
        .iter()
        .filter(|name| **name != CONNECTION_URL && !HARMLESS.contains(name) && !is_marked(name));
    places.extend(others.map(|name| {
        DestinationField::of(name, before.settings.get(*name) != after.settings.get(*name))
    }));
    let mut held: Vec<CredentialField<'_>> = names
        .iter()
        .filter(|name| is_marked(name))
        .map(|name| CredentialField::of(name, &text_of(before.settings.get(*name))))
        .collect();
    let url = before.setting(CONNECTION_URL);
    if has_own_password(url) {
        held.push(CredentialField::of(CONNECTION_URL, url));
    }
    destination::check(call, &places, &held)
}

fn text_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns `true` if the text seems to contain a login.
fn has_own_password(url: &str) -> bool {
    !url.contains("{{password}}") && (url.contains('@') || url.to_lowercase().contains("password"))
}

fn leads_elsewhere(before: &Connection, after: &Connection) -> bool {
    let [known, now] = [before, after].map(|one| one.targets.as_deref().unwrap_or_default());
    !target::keeps(known, now)
        || place_of(before.setting(CONNECTION_URL)) != place_of(after.setting(CONNECTION_URL))
}

/// Returns `scheme://login@hosts/database?parameters` without login, database and harmless
/// parameters, and any other text unchanged.
fn place_of(url: &str) -> (String, Vec<&str>) {
    let read = || {
        let (scheme, rest) = url.split_once("://")?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        let is_plain = |text: &str| !text.contains(['/', '@', '#', '\\', '(']);
        let is_harmless = |parameter: &&str| {
            HARMLESS_PARAMETERS.contains(&parameter.split('=').next().unwrap_or_default())
        };
        let parameters = parameters.split('&').filter(|one| !one.is_empty() && !is_harmless(one));
        (is_plain(database) && is_plain(hosts))
            .then(|| (format!("{scheme}://{hosts}").to_ascii_lowercase(), parameters.collect()))
    };
    read().unwrap_or_else(|| (url.to_owned(), Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::place_of;

    #[test]
    fn login_and_database_are_no_place_and_everything_else_is() {
        let url = "postgres://{{username}}:{{password}}@db:5432/app?sslmode=verify-full";
        for same in [
            "postgres://{{username}}:{{password}}@db:5432/other?sslmode=verify-full",
            "postgres://root:x@db:5432/app?sslmode=verify-full",
            "postgres://DB:5432?connect_timeout=3&sslmode=verify-full",
        ] {
            assert_eq!(place_of(url), place_of(same), "{same}");
        }
        for other in [
            "postgres://{{username}}:{{password}}@thief:5432/app?sslmode=verify-full",
            "postgres://{{username}}:{{password}}@db:5433/app?sslmode=verify-full",
            "postgres://{{username}}:{{password}}@db:5432/app?sslmode=disable",
            "postgres://{{username}}:{{password}}@db:5432/app?sslmode=verify-full&host=thief",
            "postgres://{{username}}:{{password}}@db:5432/app",
            "postgres://{{username}}:{{password}}@thief/x@db:5432/app?sslmode=verify-full",
            "postgres://db:5432#@thief?sslmode=verify-full",
            "{{username}}:{{password}}@tcp(db:5432)/app",
            "host=db port=5432 sslmode=verify-full",
        ] {
            assert_ne!(place_of(url), place_of(other), "{other}");
        }
        assert_ne!(place_of("u:p@tcp(db:3306)/app"), place_of("u:p@tcp(db:3306)/other"));
    }
}
