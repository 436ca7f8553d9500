//! Parsing and checking of a connection's settings.
//!
//! Settings are stored as written, so that a read returns exactly the written values. This file
//! interprets them on every call, without other inputs.

use crate::codes::Code;
use crate::{connection_url, target};
use bulkhead_sdk::connection::{
    CONNECTION_URL, ConnectionParameters, ConnectionTarget, UsernameRules, addresses, read_target,
    text, warnings, without_nulls,
};
use bulkhead_sdk::database_plugin::{
    ConfiguredConnection, ConnectionSettings, DatabaseTarget, Refusal,
};

/// Rules for user names. The default form is familiar from existing audit trails:
/// `v-token-readonly-<20 random>-<time>`. PostgreSQL truncates longer names with only a notice.
pub(crate) const USERNAMES: UsernameRules = UsernameRules {
    default: "{{ printf \"v-%s-%s-%s-%s\" (.DisplayName | truncate 8) (.RoleName | truncate 8) \
              (random 20) (unix_time) | truncate 63 }}",
    longest: 63,
};

/// Form of a new password on its way to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordForm {
    /// Cleartext: the database hashes the password, and may log it.
    Password,
    /// A SCRAM-SHA-256 verifier.
    Scram,
}

/// The interpreted settings. No `Debug`, because the target contains the password.
pub(crate) struct ParsedConnection {
    pub(crate) target: DatabaseTarget,
    pub(crate) authentication: PasswordForm,
    /// The operator's template for user names; empty means the default.
    pub(crate) username_template: String,
    /// Set if no user manages the others and each user changes its own password.
    pub(crate) self_managed: bool,
}

impl ParsedConnection {
    /// # Errors
    /// A refusal that names the setting, never its value.
    pub(crate) fn read(settings: &ConnectionSettings) -> Result<Self, Refusal> {
        Self::from_parts(settings, &parameters(settings)?)
    }

    fn from_parts(
        settings: &ConnectionSettings,
        parameters: &ConnectionParameters,
    ) -> Result<Self, Refusal> {
        let ConnectionTarget { target, self_managed } =
            read_target(settings, |login, pool| target::read(settings, parameters, login, pool))?;
        Ok(Self {
            target,
            authentication: authentication(settings)?,
            username_template: text(settings, "username_template")?.unwrap_or_default().to_owned(),
            self_managed,
        })
    }
}

/// Checks the settings without any request.
pub(crate) fn configure(settings: &ConnectionSettings) -> Result<ConfiguredConnection, Refusal> {
    let parameters = parameters(settings)?;
    let connection = ParsedConnection::from_parts(settings, &parameters)?;
    let may_repeat = USERNAMES.may_repeat(&connection.username_template)?;
    let in_clear = connection.authentication == PasswordForm::Password;
    let more = [(in_clear, "scram-recommended"), (may_repeat, "username-template-repeats")];
    Ok(ConfiguredConnection {
        settings: without_nulls(settings),
        targets: addresses(&connection.target),
        warnings: warnings(settings, &parameters, &connection.target, &more),
    })
}

fn parameters(settings: &ConnectionSettings) -> Result<ConnectionParameters, Refusal> {
    connection_url::read(text(settings, CONNECTION_URL)?.unwrap_or_default())
}

fn authentication(settings: &ConnectionSettings) -> Result<PasswordForm, Refusal> {
    match text(settings, "password_authentication")? {
        None | Some("" | "password") => Ok(PasswordForm::Password),
        Some("scram-sha-256") => Ok(PasswordForm::Scram),
        Some(_) => Err(Code::PasswordAuthentication.about("password_authentication")),
    }
}

#[cfg(test)]
mod tests;
