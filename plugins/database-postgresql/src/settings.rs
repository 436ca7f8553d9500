//! A connection's settings: read, checked, and turned into what the plugin works with.
//!
//! Settings are stored as they were written, so that a read gives back what a write gave; what they
//! mean is decided here, on every call, from nothing but themselves.

use crate::parameters::{CONNECTION_URL, Credentials, Parameters};
use crate::refusal::Code;
use crate::values::{flag, milliseconds, text, whole_number};
use crate::{connection_url, target, username};
use bulkhead_sdk::database_plugin::{Configured, Pool, Refusal, Settings, Target};
use serde_json::Value;

/// Sessions at once, unless told otherwise: what clients of this field expect.
const DEFAULT_CONNECTIONS: u32 = 4;

/// Milliseconds for dialling and logging in, unless told otherwise.
const DEFAULT_CONNECT_TIMEOUT: u32 = 30_000;

/// In which form a new password reaches the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authentication {
    /// In clear: the database hashes it, and may log it.
    Password,
    /// As a SCRAM-SHA-256 verifier.
    Scram,
}

/// What the settings mean. No `Debug`: the target holds the password.
pub(crate) struct Connection {
    pub(crate) target: Target,
    pub(crate) authentication: Authentication,
    /// The operator's template for user names; empty means the default.
    pub(crate) username_template: String,
}

impl Connection {
    /// # Errors
    /// A refusal that names the setting, never its value.
    pub(crate) fn read(settings: &Settings) -> Result<Self, Refusal> {
        Self::from_parts(settings, &parameters(settings)?)
    }

    fn from_parts(settings: &Settings, parameters: &Parameters) -> Result<Self, Refusal> {
        refuse_what_is_missing(settings)?;
        let credentials = credentials(settings)?;
        Ok(Self {
            target: target::read(
                settings,
                parameters,
                &credentials.as_credentials(),
                pool(settings)?,
            )?,
            authentication: authentication(settings)?,
            username_template: text(settings, username::SETTING)?.unwrap_or_default().to_owned(),
        })
    }
}

/// `configure` of the plugin: pure.
pub(crate) fn configure(settings: &Settings) -> Result<Configured, Refusal> {
    let parameters = parameters(settings)?;
    let connection = Connection::from_parts(settings, &parameters)?;
    username::check(&connection.username_template)?;
    Ok(Configured {
        settings: without_nulls(settings),
        targets: target::addresses(&connection.target),
        warnings: warnings(settings, &parameters, &connection),
    })
}

fn parameters(settings: &Settings) -> Result<Parameters, Refusal> {
    connection_url::read(text(settings, CONNECTION_URL)?.unwrap_or_default())
}

fn without_nulls(settings: &Settings) -> Settings {
    let mut kept = settings.clone();
    kept.retain(|_, value| !value.is_null());
    kept
}

fn warnings(settings: &Settings, parameters: &Parameters, connection: &Connection) -> Vec<String> {
    let inline = parameters.last("password").filter(|written| !written.written.is_empty());
    let templated = inline.is_some_and(|written| written.written.contains("{{password}}"));
    let given = settings.get("password").is_some_and(|password| !password.is_null());
    [
        (inline.is_some() && !templated, "password-in-url"),
        (inline.is_some() && !templated && given, "password-not-templated"),
        (connection.target.tls.mode == "disable", "tls-off"),
        (connection.authentication == Authentication::Password, "scram-recommended"),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .map(|(_, code)| code.to_owned())
    .collect()
}

/// Settings that this version knows and cannot honour.
fn refuse_what_is_missing(settings: &Settings) -> Result<(), Refusal> {
    if flag(settings, "self_managed")? {
        return Err(Code::SelfManaged.about("self_managed"));
    }
    match text(settings, "auth_type")?.filter(|kind| !kind.is_empty()) {
        Some(_) => Err(Code::AuthType.about("auth_type")),
        None => Ok(()),
    }
}

/// What is written as a number counts as a text, so the values are owned.
struct Given {
    username: Option<String>,
    password: Option<String>,
    disable_escaping: bool,
}

impl Given {
    fn as_credentials(&self) -> Credentials<'_> {
        Credentials {
            username: self.username.as_deref(),
            password: self.password.as_deref(),
            disable_escaping: self.disable_escaping,
        }
    }
}

fn credentials(settings: &Settings) -> Result<Given, Refusal> {
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
            return Err(Code::CredentialTemplate.about(setting));
        }
        Ok(value)
    };
    Ok(Given {
        username: read("username")?,
        password: read("password")?,
        disable_escaping: flag(settings, "disable_escaping")?,
    })
}

fn authentication(settings: &Settings) -> Result<Authentication, Refusal> {
    match text(settings, "password_authentication")? {
        None | Some("" | "password") => Ok(Authentication::Password),
        Some("scram-sha-256") => Ok(Authentication::Scram),
        Some(_) => Err(Code::PasswordAuthentication.about("password_authentication")),
    }
}

fn pool(settings: &Settings) -> Result<Pool, Refusal> {
    // Accepted and checked; how long idle sessions are kept is the host's own rule.
    whole_number(settings, "max_idle_connections")?;
    let max_connections = match whole_number(settings, "max_open_connections")? {
        None | Some(0) => DEFAULT_CONNECTIONS,
        Some(count) => {
            u32::try_from(count).map_err(|_| Code::NumberExpected.about("max_open_connections"))?
        }
    };
    let connect_timeout = match milliseconds(settings, "connect_timeout")? {
        0 => DEFAULT_CONNECT_TIMEOUT,
        given => u32::try_from(given).unwrap_or(u32::MAX),
    };
    Ok(Pool {
        max_connections,
        connect_timeout,
        max_lifetime: milliseconds(settings, "max_connection_lifetime")?,
    })
}

#[cfg(test)]
mod tests;
