//! The login of a connection at its servers: the receiver of the password of the connection's own
//! user.
//!
//! The engine does not know the meaning of a plugin's settings. Every setting therefore counts as
//! part of the address, except settings that are known to be harmless, secrets, and login and
//! database in `connection_url`.

use crate::connection::{Connection, PASSWORD};
use bulkhead_sdk::kept_secrets::{KeptSecrets, place_digest};
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const CONNECTION_URL: &str = "connection_url";

/// Settings that decide neither which server is dialled nor how the server proves itself.
pub(crate) const HARMLESS: [&str; 9] = [
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

/// Settings that hold credentials of the connection's own user and no certificate of an authority.
const OWN_CREDENTIALS: [&str; 6] = [
    PASSWORD,
    "private_key",
    "tls_certificate_key",
    "sslkey",
    "sslpassword",
    "service_account_json",
];

/// The login of a connection's own user at the connection's servers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginPlace {
    /// The name of the connection. The writer of another connection must not gain the password.
    connection: String,
    username: String,
    /// Digest of all settings that decide which server is dialled and how the server proves itself.
    /// A digest, because a plugin may have secrets under any name.
    address: String,
}

impl LoginPlace {
    /// Returns the place of the connection `name`.
    ///
    /// # Errors
    /// Failures of the host's digest.
    pub(crate) fn of(
        host: &dyn Host,
        name: &str,
        connection: &Connection,
    ) -> Result<Self, Failure> {
        let settings = connection.settings.iter().map(|(name, value)| (name.as_str(), value));
        let settings: BTreeMap<&str, &Value> = settings
            .filter(|(name, _)| *name != CONNECTION_URL)
            .filter(|(name, _)| !HARMLESS.contains(name) && !OWN_CREDENTIALS.contains(name))
            .collect();
        let address = json!({
            "plugin_name": connection.plugin_name,
            "connection_url": place_of(connection.setting(CONNECTION_URL)),
            "settings": settings,
        });
        Ok(Self {
            connection: name.to_owned(),
            username: connection.setting("username").to_owned(),
            address: place_digest(host, &address)?,
        })
    }

    /// Returns the passwords that are kept for the login.
    ///
    /// # Errors
    /// As [`KeptSecrets::of`].
    pub(crate) fn kept<'a>(&self, host: &'a dyn Host) -> Result<KeptSecrets<'a>, Failure> {
        KeptSecrets::of(host, self)
    }

    /// Keeps a password of the login.
    ///
    /// # Errors
    /// As [`KeptSecrets::keep`].
    pub(crate) fn keep(&self, host: &dyn Host, password: &str) -> Result<(), Failure> {
        self.kept(host)?.keep(&self.username, [password.to_owned()])
    }
}

/// Returns `scheme://login@hosts/database?parameters` without login, database and harmless
/// parameters, and any other text unchanged.
pub(crate) fn place_of(url: &str) -> (String, Vec<&str>) {
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
    fn place_ignores_only_login_and_database() {
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
