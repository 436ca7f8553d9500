//! Keeps stored credentials of a connection from servers for which the credentials were not
//! written.
//!
//! The engine does not know the meaning of a plugin's settings. Every setting therefore counts as
//! an address, except settings that are known to be harmless, and except login and database in
//! `connection_url`.

use crate::connection::Connection;
use crate::login_place::{CONNECTION_URL, HARMLESS, place_of};
use crate::redaction::SECRET_SETTINGS;
use crate::target;
use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
use bulkhead_sdk::wire::description::DatabaseDescription;
use bulkhead_sdk::{Call, Failure};
use serde_json::Value;
use std::collections::BTreeSet;

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
    let mut credentials: Vec<CredentialField<'_>> = names
        .iter()
        .filter(|name| is_marked(name))
        .map(|name| CredentialField::of(name, &text_of(before.settings.get(*name))))
        .collect();
    let url = before.setting(CONNECTION_URL);
    if has_own_password(url) {
        credentials.push(CredentialField::of(CONNECTION_URL, url));
    }
    destination::check(call, &places, &credentials)
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
    let [former, now] = [before, after].map(|one| one.targets.as_deref().unwrap_or_default());
    !target::keeps(former, now)
        || place_of(before.setting(CONNECTION_URL)) != place_of(after.setting(CONNECTION_URL))
}
