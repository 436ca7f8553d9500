//! Warnings about a connection that works.

use super::login::asks_for_too_many;
use super::parameters::ConnectionParameters;
use crate::database_plugin::{ConnectionSettings, DatabaseTarget};

/// Returns the codes of the warnings that apply: a password in `connection_url`, a password that is
/// given but not used, TLS that is off, more sessions than the maximum, and the applicable warnings
/// of `more`.
#[must_use]
pub fn warnings(
    settings: &ConnectionSettings,
    parameters: &ConnectionParameters,
    target: &DatabaseTarget,
    more: &[(bool, &str)],
) -> Vec<String> {
    let inline = parameters.last("password").filter(|written| !written.written.is_empty());
    let fixed = inline.is_some_and(|written| !written.written.contains("{{password}}"));
    let given = settings.get("password").is_some_and(|password| !password.is_null());
    [
        (fixed, "password-in-url"),
        (fixed && given, "password-not-templated"),
        (target.tls.mode == "disable", "tls-off"),
        (asks_for_too_many(settings), "sessions-bounded"),
    ]
    .iter()
    .chain(more)
    .filter(|(holds, _)| *holds)
    .map(|(_, word)| (*word).to_owned())
    .collect()
}
