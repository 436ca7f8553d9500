//! Login, target and session limits of a connection: settings that the plugins of SQL databases
//! share.

use super::faults::Fault;
use super::parameters::UrlCredentials;
use super::values::{flag, milliseconds, text, whole_number};
use crate::database_plugin::{ConnectionSettings, DatabaseTarget, PoolLimits, Refusal};
use serde_json::Value;

/// Default number of concurrent sessions: the number that clients of this field expect.
const DEFAULT_CONNECTIONS: u32 = 4;

/// Maximum number of sessions that the host opens for one connection.
const MOST_CONNECTIONS: u32 = 64;

const MAX_OPEN_CONNECTIONS: &str = "max_open_connections";

/// Default time for dialling and logging in, in milliseconds.
const DEFAULT_CONNECT_TIMEOUT: u32 = 30_000;

/// The connection's login. The values are owned, because a number is converted to text. No `Debug`:
/// the type holds the password.
pub struct ConnectionLogin {
    /// The setting `username`.
    pub username: Option<String>,
    /// The setting `password`.
    pub password: Option<String>,
    /// The setting `disable_escaping`.
    pub disable_escaping: bool,
}

impl ConnectionLogin {
    /// Returns the values for the placeholders of `connection_url`.
    #[must_use]
    pub fn as_credentials(&self) -> UrlCredentials<'_> {
        UrlCredentials {
            username: self.username.as_deref(),
            password: self.password.as_deref(),
            disable_escaping: self.disable_escaping,
        }
    }
}

/// Reads the settings `username`, `password` and `disable_escaping`.
///
/// # Errors
/// For a value that contains a placeholder or a NUL, or has the wrong type.
pub fn credentials(settings: &ConnectionSettings) -> Result<ConnectionLogin, Refusal> {
    let read = |setting: &str| -> Result<Option<String>, Refusal> {
        let value = match settings.get(setting) {
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => text(settings, setting)?.map(str::to_owned),
        };
        let template =
            |value: &String| value.contains("{{username}}") || value.contains("{{password}}");
        if value.as_ref().is_some_and(template)
            || value.as_ref().is_some_and(|value| value.contains('\0'))
        {
            return Err(Fault::CredentialTemplate.about(setting));
        }
        Ok(value)
    };
    Ok(ConnectionLogin {
        username: read("username")?,
        password: read("password")?,
        disable_escaping: flag(settings, "disable_escaping")?,
    })
}

/// A connection's target. No `Debug`: the target holds the password.
pub struct ConnectionTarget {
    /// The target with the connection's login.
    pub target: DatabaseTarget,
    /// True if no user manages the others and each user changes its own password.
    pub self_managed: bool,
}

/// Reads the settings of the login. `target` builds the target from the values for the placeholders
/// of `connection_url` and the sizes of the pool.
///
/// # Errors
/// As [`credentials`] and [`pool`]; those of `target`; for a login without a user name, unless the
/// connection is self-managed; for an `auth_type`.
pub fn read_target(
    settings: &ConnectionSettings,
    target: impl FnOnce(&UrlCredentials<'_>, PoolLimits) -> Result<DatabaseTarget, Refusal>,
) -> Result<ConnectionTarget, Refusal> {
    if text(settings, "auth_type")?.is_some_and(|kind| !kind.is_empty()) {
        return Err(Fault::AuthType.about("auth_type"));
    }
    let self_managed = flag(settings, "self_managed")?;
    let mut login = credentials(settings)?;
    if self_managed {
        // Placeholders of such a connection stand for the user of each call.
        login.username.get_or_insert_default();
        login.password.get_or_insert_default();
    }
    let target = target(&login.as_credentials(), pool(settings)?)?;
    if target.username.is_empty() && !self_managed {
        return Err(Fault::CredentialMissing.about("username"));
    }
    Ok(ConnectionTarget { target, self_managed })
}

/// Reads the limits and timeouts of a connection's pool.
///
/// # Errors
/// For a setting that is not a number, or not a duration.
pub fn pool(settings: &ConnectionSettings) -> Result<PoolLimits, Refusal> {
    // Accepted and checked only: the host decides how long idle sessions are kept.
    whole_number(settings, "max_idle_connections")?;
    let max_connections = match whole_number(settings, MAX_OPEN_CONNECTIONS)? {
        None | Some(0) => DEFAULT_CONNECTIONS,
        // Published files write "no limit" as a negative number.
        Some(count) if count < 0 => MOST_CONNECTIONS,
        Some(count) => u32::try_from(count).unwrap_or(u32::MAX).min(MOST_CONNECTIONS),
    };
    let connect_timeout = match milliseconds(settings, "connect_timeout")? {
        0 => DEFAULT_CONNECT_TIMEOUT,
        given => u32::try_from(given).unwrap_or(u32::MAX),
    };
    Ok(PoolLimits {
        max_connections,
        connect_timeout,
        max_lifetime: milliseconds(settings, "max_connection_lifetime")?,
    })
}

/// Returns true if the settings ask for more sessions than a connection gets, or for no limit.
pub(super) fn asks_for_too_many(settings: &ConnectionSettings) -> bool {
    let connections =
        whole_number(settings, MAX_OPEN_CONNECTIONS).ok().flatten().unwrap_or_default();
    connections < 0 || connections > i64::from(MOST_CONNECTIONS)
}
